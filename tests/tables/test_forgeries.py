"""Forged receipts and certificates: with the owner's key none holds; without it none whose false part goes unnamed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import discreet
from discreet.base.errors import InvalidInput
from discreet.ledger.keys import make_key, private_key, signed
from forgeries import BLIND, KNOWING, REFUSE, H, Honest, certificates, falsified, plain, receipts


def owner(folder) -> tuple[Any, str]:
    public = make_key(folder / "key.pem")
    return private_key(folder / "key.pem"), public


def answer(document: Any, key: str | None = None) -> Any:
    """The verdict; None where the document cannot be read, which nobody takes for a promise that holds."""
    try:
        return discreet.verify(document, key=key)
    except InvalidInput:
        return None


def unnamed(original: Honest, forged: Any, found: Any) -> set[str]:
    """What is false in a forgery that holds, and is not named under "not checked"."""
    named = {item.split(":")[0] for item in found.not_checked}
    return falsified(original, forged) - named


def unsigned(document: Any) -> Any:
    return {name: value for name, value in document.items() if name != "signature"}


def sealed(document: Any, key: Any) -> Any:
    """A receipt with a signature; certificates have none."""
    return signed(document, key) if "certificate" in document else document


def re_signed(document: Any) -> Any:
    """Signed by the forger, whose key then stands in the receipt."""
    try:
        return sealed(document, Ed25519PrivateKey.generate())
    except (TypeError, ValueError):  # what no file can hold
        return document


def trial(documents: Sequence[Honest], key: str, many: int, chance: random.Random) -> Counter[str]:
    """Forge so many times; refused, unreadable, or held with what is false named."""
    seen: Counter[str] = Counter()
    while seen.total() < many:
        original, profile = chance.choice(documents)
        ways = [chance.choice(BLIND if chance.random() < 0.6 else KNOWING) for _ in range(chance.choice([1, 1, 1, 2]))]
        forged = original
        for way in ways:
            try:
                forged = way(forged, chance)
            except (ArithmeticError, AttributeError, KeyError, IndexError, TypeError, ValueError):
                forged = None  # a second change to what the first one broke
            if forged is None:
                break
        if forged is None or not isinstance(forged, dict) or forged == original:
            continue
        bare, kept = unsigned(original), unsigned(forged)
        forgers_own = re_signed(kept)
        by_owner = answer(chance.choice([forged, kept, forgers_own]), key)
        assert by_owner is None or not by_owner.holds, (ways, forged)
        if kept == bare:
            continue
        found = answer(chance.choice([kept, forgers_own]))
        if found is None or not found.holds:
            seen["unreadable" if found is None else found.answer] += 1
            continue
        assert not unnamed(Honest(bare, profile), kept, found), (
            ways,
            found.reason,
            unnamed(Honest(bare, profile), kept, found),
        )
        assert found.signature == "none" or found.signature.endswith("which you did not name")
        assert found.model == kept.get("certificate", kept)["model"]
        seen["holds, and what is false is named"] += 1
    return seen


@pytest.fixture(scope="module")
def documents() -> list[Honest]:
    return [*list(receipts(1))[::2], *certificates(6, 1)]


def test_honest_ones_hold_and_say_no_more_is_unchecked_than_may_be(documents):
    allowed = ("the interval's values", "the number of users", "the declaration", "the policy", "place and time")
    for document, _ in documents:
        found = discreet.verify(document)
        assert found.holds, (document["format"], found.reason)
        assert {item.split(":")[0] for item in found.not_checked} <= set(allowed)
        assert found.checked
        assert found.rests_on


@pytest.mark.slow
def test_forgeries_do_not_hold_or_say_what_nobody_checked(documents, tmp_path):
    key, public = owner(tmp_path)
    whole = [each._replace(document=sealed(each.document, key)) for each in documents]
    seen = trial(whole, public, 150, random.Random(3))
    assert seen["does not hold"] > 50
    assert seen["holds, and what is false is named"] > 10


def test_the_oracle_sees_what_was_repaired(documents):
    """What an earlier version called "holds": each is false in a way that nothing but a refusal answers."""
    (honest, *_) = documents
    original = honest.document
    for path, value in (
        (("guarantee", "unit"), "one user = up to 1000 whole trajectories"),
        (("guarantee", "statement"), "pure central differential privacy, epsilon 0.01, replace one user"),
        (("guarantee", "derivation"), ["epsilon 0.01"]),
        (("guarantee", "also"), ["local"]),
        (("mechanisms",), original["mechanisms"] * 2),
    ):
        forged = {**original, "guarantee": dict(original["guarantee"])}
        inside = forged
        for name in path[:-1]:
            inside = inside[name]
        inside[path[-1]] = value
        assert falsified(honest, forged) == {REFUSE}
        assert not discreet.verify(forged).holds


@pytest.mark.long
def test_two_thousand_forgeries_and_two_hundred_honest_ones(tmp_path):
    key, public = owner(tmp_path)
    made = [document for seed in range(9) for document in receipts(seed)] + certificates(40, 2)
    assert len(made) >= 200
    for document, _ in made:
        assert discreet.verify(document).holds
    whole = [each._replace(document=sealed(each.document, key)) for each in made]
    for document, _ in whole:
        found = discreet.verify(document, key=public if "certificate" in document else None)
        assert found.holds
    print(trial(whole, public, 2000, random.Random(4)))


@pytest.mark.parametrize("share", [0.0, 0.05, 0.3])
def test_a_receipt_that_says_how_many_were_not_judged_holds(share):
    """The share of users without a record stands in the sentence, and the checker computes it again."""
    chance, users = np.random.default_rng(7), 1500
    columns = {"u": np.repeat(np.arange(users), H), "t": np.tile(np.arange(H), users)}
    columns |= {name: chance.integers(0, 2, users * H) for name in ("s", "a", "r")}
    kept = (columns["t"] > 0) | (chance.random(users) >= share)[columns["u"]]  # some have no first row
    data = discreet.data.read(
        pa.table({name: column[kept] for name, column in columns.items()}),
        user="u", step="t", state="s", action="a", reward="r", states=2, actions=2, horizon=H,
    )  # fmt: skip
    policy = discreet.Policy(np.ones((H, 2), np.int64))
    facts = plain(discreet.offline.evaluate(data, policy, epsilon=4.0, behaviour="uniform").facts)
    assert share == 0 or "not judged" in facts["evaluation"]["verdict"]  # at 0, noise alone may look so
    assert discreet.verify(facts).holds
    other = {**facts, "evaluation": {**facts["evaluation"], "judged": {"users": 1.0, "deviation": 1.0}}}
    assert not discreet.verify(other).holds
