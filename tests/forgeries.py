"""Honest receipts and certificates of every command, what a forger makes of them, and which of it is false.

The oracle (:func:`falsified`) compares a forgery with what it was made from, fact by fact, and numbers with the profile
of the guarantee; it knows nothing of how verdicts are computed. It says under which words a reader must find what is
false: the five things that nobody can check without the owner's key, or "refuse": then the forgery must not hold.
"""

from __future__ import annotations

import copy
import json
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import discreet
import discreet.data
import discreet.offline
from certified import FORGERIES, cases
from certified import certificates as certificates_of
from discreet import checker
from discreet.base.errors import EmptyTable
from discreet.privacy.odds import above, as_printed
from discreet.tables.evaluation.verdict import ASSUMES, ESTIMAND, READ_OFF

H = 3
INTERVALS, USERS, DECLARATION = "the interval's values", "the number of users", "the declaration"
POLICY, PLACE, REFUSE = "the policy", "place and time", "refuse"


class Honest(NamedTuple):
    """A receipt or a certificate, and the exact privacy of what it is about."""

    document: dict[str, Any]
    profile: Any


def plain(facts: Any) -> Any:
    """As it comes out of a file."""
    return json.loads(json.dumps(facts, allow_nan=False))


def table(seed: int, users: int = 900, **declared: Any) -> Any:
    """A table of people who act at random; with ``per_user`` they have several episodes."""
    rng, rows = np.random.default_rng(seed), users * H
    columns: dict[str, Any] = {"t": np.tile(np.arange(H), users), "r": rng.integers(0, 2, rows).astype(float)}
    columns |= {name: rng.integers(0, 2, rows) for name in ("s", "a")}
    who, per_user = np.repeat(np.arange(users), H), declared.get("per_user", 1)
    columns |= {"u": who // per_user, "e": who % per_user}
    names: dict[str, Any] = {"user": "u", "step": "t", "state": "s", "action": "a", "reward": "r"}
    names |= {"states": 2, "actions": 2, "horizon": H, "early_end": False} | declared
    return discreet.data.read(pa.table(columns), **names, **({"episode": "e"} if per_user > 1 else {}))


def receipts(seed: int) -> Iterator[Honest]:
    """Receipts of ``train`` and ``evaluate``: all learners, targets, recipes, units and ways to judge."""
    chance = random.Random(seed)
    epsilon, delta = chance.choice([0.3, 1.0, 2.5, 6.0]), chance.choice([1e-5, 1e-6, 1e-8])
    approximate, pure, rho = {"epsilon": epsilon, "delta": delta}, {"epsilon": epsilon}, {"rho": epsilon / 10}
    features = {"features": np.random.default_rng(seed).random((2, 2, 2))}
    known = {"known_rewards": [[0.2, 0.8], [0.5, 0.5]]}
    one, pooled = table(seed), table(seed, homogeneous=True)
    three, both = table(seed, per_user=3), table(seed, per_user=3, homogeneous=True)
    every = {"recipe_options": {"pooling": "every-visit"}}
    asked: list[tuple[Any, dict[str, Any]]] = [
        (one, approximate), (one, pure), (one, rho), (one, approximate | known), (pooled, pure),
        (three, approximate), (three, pure), (both, rho), (both, approximate | every),
        (one, approximate | {"recipe": "offline/sparse-laplace"}),
        (both, approximate | {"recipe": "offline/sparse-gaussian"}),
        (one, approximate | {"recipe": "offline/gaussian", "recipe_options": {"release": "both"}}),
        (one, approximate | features | {"learner": "vapvi"}), (three, rho | features | {"learner": "pevi"}),
        (one, approximate | {"holdout": 0.35, "behaviour": "uniform"}), (one, pure | {"holdout": 0.35}),
        (pooled, approximate | {"holdout": 0.5, "behaviour": "uniform", "safe": True}), (one, rho | {"holdout": 0.35}),
    ]  # fmt: skip
    for data, options in asked:
        try:
            fit = discreet.offline.train(data, **options)
        except EmptyTable:  # noise alone looks like too few users: no policy and no receipt
            continue
        yield Honest(plain(fit.facts), fit.guarantee.profile)
    for data, options in ((one, {"behaviour": "uniform"}), (one, {}), (pooled, {"behaviour": "uniform"})):
        policy = discreet.Policy(np.ones((H, 2), np.int64))
        found = discreet.offline.evaluate(data, policy, **approximate, **options)
        yield Honest(plain(found.facts), found.guarantee.profile)


def certificates(number: int, seed: int) -> list[Honest]:
    """Certificates of what was calibrated and not drawn, some of them said to be of a real release."""
    chance = random.Random(seed)
    quick = [case for case in cases() if case.model != "shuffle"]
    found: list[Honest] = []
    for case in chance.choices(quick, k=3 * number):
        targets = ({"epsilon": 1.0, "delta": 1e-5}, {"epsilon": 0.5}, {"rho": 0.1})
        made = certificates_of(case, (chance.choice(targets),))
        found += [Honest(certificate, guarantee.profile) for guarantee, certificate in made][:1]
    found = found[:number]
    for certificate, _ in found[::2]:
        certificate["noise"] = "from the operating system's entropy"
    return found


# --- what a forger does ----------------------------------------------------------------------------------------------

WEIRD: tuple[Any, ...] = (
    None, True, False, 0, -1, 2**70, 1e308, math.nan, math.inf, "NaN", "inf", "-1", "1e400", "0/1", "1/0", "٣", "１",
    "1_0", " 1", "+1", "0x1", [], {}, [[]], "", "9" * 401, -0.0, "\u200b", "epsilon 0.001",
)  # fmt: skip
KINDS = tuple(checker._Reader._RULES)


def places(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of everything in a document."""
    entries = document.items() if isinstance(document, dict) else enumerate(document)
    for name, entry in entries:
        yield (*path, name)
        if isinstance(entry, dict | list):
            yield from places(entry, (*path, name))


def at(document: Any, path: tuple[Any, ...]) -> Any:
    """What stands at a path."""
    for name in path:
        document = document[name]
    return document


def _one(document: Any, chance: random.Random, fits: Callable[[Any], bool]) -> tuple[Any, Any, Any] | None:
    """A random place whose content fits: what it is in, its name there, and the content. Long lists count once."""
    tops = sorted(document)
    for _ in range(200):
        top = chance.choice(tops)
        paths = [(top,)]
        if isinstance(document[top], dict | list):
            paths += [(top, *path) for path in places(document[top])]
        path = chance.choice(paths)
        if fits(at(document, path)):
            return at(document, path[:-1]), path[-1], at(document, path)
    return None


def _changed(fits: Callable[[Any], bool], change: Callable[[Any, random.Random], Any]) -> Callable[..., Any]:
    def forge(document: Any, chance: random.Random) -> Any:
        forged = copy.deepcopy(document)
        found = _one(forged, chance, fits)
        if found is None:
            return None
        inside, name, content = found
        inside[name] = change(content, chance)
        return forged

    return forge


def _is_number(content: Any) -> bool:
    return isinstance(content, int | float) and not isinstance(content, bool)


def _is_exact(content: Any) -> bool:
    return isinstance(content, str) and content[:1].isdigit() and content.replace(".", "").replace("/", "").isdigit()


def _edited(text: str, chance: random.Random) -> str:
    where = chance.randrange(len(text) + 1)
    return chance.choice(
        [text[:where] + chance.choice("0 9xé.") + text[where:], text[:-1], text.upper(), text.replace("one", "ten", 1),
         text + ", and nothing is learned", text.replace("1", "0", 1)]
    )  # fmt: skip


def _dropped(document: Any, chance: random.Random) -> Any:
    forged = copy.deepcopy(document)
    found = _one(forged, chance, lambda content: True)
    assert found is not None
    inside, name, _ = found
    del inside[name]
    return forged


def _added(document: Any, chance: random.Random) -> Any:
    forged = copy.deepcopy(document)
    found = _one(forged, chance, lambda content: isinstance(content, dict))
    (found[2] if found else forged)[chance.choice(["note", "epsilon", "promise", "trajectories"])] = "epsilon 0.001"
    return forged


def _swapped(document: Any, chance: random.Random) -> Any:
    forged = copy.deepcopy(document)
    one, other = (_one(forged, chance, lambda content: not isinstance(content, dict | list)) for _ in range(2))
    if one is None or other is None:
        return None
    one[0][one[1]], other[0][other[1]] = other[2], one[2]
    return forged


def _kind(document: Any, chance: random.Random) -> Any:
    forged = copy.deepcopy(document)
    found = list(_steps(_certificate(forged)["steps"]))
    chance.choice(found)["kind"] = chance.choice(KINDS)
    return forged


BLIND: tuple[Callable[..., Any], ...] = (
    _changed(_is_number, lambda x, chance: x * chance.choice([0.01, 0.5, 0.9, 1.1, 2, 100])),
    _changed(_is_number, lambda x, chance: x + chance.choice([-1, 1])),
    _changed(_is_exact, lambda x, chance: repr(float(Fraction(x)) * chance.choice([0.01, 0.5, 0.9, 1.1, 2, 100]))),
    _changed(lambda x: isinstance(x, str), _edited),
    _changed(lambda x: isinstance(x, bool), lambda x, chance: not x),
    _changed(lambda x: isinstance(x, list) and len(x) > 0, lambda x, chance: [*x, copy.deepcopy(chance.choice(x))]),
    _changed(lambda x: isinstance(x, list) and len(x) > 1, lambda x, chance: x[1:]),
    _changed(lambda x: isinstance(x, list) and len(x) > 1, lambda x, chance: x[::-1]),
    _changed(lambda x: True, lambda x, chance: chance.choice(WEIRD)),
    _dropped, _added, _swapped, _kind,
)  # fmt: skip


def _certificate(document: Any) -> Any:
    return document.get("certificate", document)


def _steps(node: Any) -> Iterator[Any]:
    yield node
    for part in node.get("of", ()):
        yield from _steps(part)


def _told_again(document: Any) -> Any:
    """Whatever a receipt says of its certificate, said anew, as somebody who knows the format would."""
    certificate = _certificate(document)
    if document is certificate:
        return document
    told, stated = document["guarantee"], certificate["stated"]
    for name in ("epsilon", "delta", "rho"):
        raised = 1 + Fraction(name != "delta", 2**40)
        told[name] = None if stated[name] is None else float(Fraction(stated[name]) / raised)
    told |= {name: certificate[name] for name in ("model", "unit", "neighbours")}
    told["also"], told["simulated"] = checker._IMPLIED.get(told["model"], []), certificate["noise"] == "simulated"
    try:
        told["derivation"], document["mechanisms"] = checker.derivation(certificate), checker.mechanisms(certificate)
    except (checker.Refused, checker.Unknown, checker.Unreadable):
        return document
    told["statement"] = checker._statement(told)
    if "budget" in document:
        document["budget"] = {"rho": told["rho"], "parts": [part["rho"] for part in document["mechanisms"]]}
    return document


def _in_certificate(change: Callable[[Any, random.Random], Any]) -> Callable[..., Any]:
    def forge(document: Any, chance: random.Random) -> Any:
        forged = copy.deepcopy(document)
        changed = change(_certificate(forged), chance)
        if changed is None:
            return None
        if "certificate" in forged:
            forged["certificate"] = changed
        else:
            forged = changed
        return _told_again(forged)

    return forge


def _lower(certificate: Any, chance: random.Random) -> Any:
    names = [name for name in ("epsilon", "delta", "rho") if certificate["stated"][name] not in (None, "0")]
    name = chance.choice(names)
    certificate["stated"][name] = repr(float(Fraction(certificate["stated"][name])) * chance.choice([0.1, 0.5, 0.9]))
    return certificate


def _other_unit(certificate: Any, chance: random.Random) -> Any:
    certificate["unit"] = chance.choice(
        ["one user = up to 1000 whole trajectories", "one household", "all reports of a participant, at most 50",
         "one user = up to ４ whole trajectories", "one hospital with all of its patients"]
    )  # fmt: skip
    return certificate


def _other_neighbours(certificate: Any, chance: random.Random) -> Any:
    certificate["neighbours"] = chance.choice(["replace ten users", "Replace one user", "replace one\u00a0user"])
    return certificate


def _other_model(certificate: Any, chance: random.Random) -> Any:
    inner, model = certificate["steps"], chance.choice(["local", "joint", "shuffle"])
    while inner["kind"] in ("billboard", "local", "through-shuffler"):
        (inner,) = inner["of"]
    kind = {"local": "local", "joint": "billboard", "shuffle": "through-shuffler"}[model]
    certificate["steps"], certificate["model"] = {"kind": kind, "parts": 1, "of": [inner]}, model
    return certificate


def _repeated(certificate: Any, chance: random.Random) -> Any:
    leaf = chance.choice([step for step in _steps(certificate["steps"]) if step["kind"] == "mechanism"] or [None])
    if leaf is None:
        return None
    own = copy.deepcopy(leaf)
    leaf.clear()
    leaf |= {"kind": "compose", "parts": 2, "of": [own, copy.deepcopy(own)]}
    return certificate


def _renamed(certificate: Any, chance: random.Random) -> Any:
    for step in _steps(certificate["steps"]):
        if "name" in step:
            step["name"] = "something harmless"
    return certificate


def _not_drawn(certificate: Any, chance: random.Random) -> Any:
    certificate["noise"] = chance.choice(["simulated", "not drawn yet", "from a quantum computer"])
    return certificate


def _better(document: Any, chance: random.Random) -> Any:
    if not document.get("evaluation"):
        return None
    forged = copy.deepcopy(document)
    judged = forged["evaluation"]
    word = chance.choice([word for word in ("better", "worse", "about the same", "proved") if word != judged["word"]])
    judged["word"], judged["verdict"] = word, judged["verdict"].replace(judged["word"], word, 1)
    if chance.random() < 0.3:
        judged["verdict"] = f"{word}: the difference to the behaviour lies between 1 and 2"
    return forged


def _epsilons(document: Any, chance: random.Random) -> Any:
    if "guarantee" not in document:
        return None
    forged, factor = copy.deepcopy(document), chance.choice([0.01, 0.5, 0.9])
    for row in forged["guarantee"]["epsilon_at"]:
        row["epsilon"] = None if row["epsilon"] is None else row["epsilon"] * factor
    return forged


def _told_less(document: Any, chance: random.Random) -> Any:
    if "guarantee" not in document or document["guarantee"]["epsilon"] is None:
        return None
    forged = copy.deepcopy(document)
    forged["guarantee"]["epsilon"] *= 0.1
    forged["guarantee"]["statement"] = checker._statement(forged["guarantee"])
    return forged


def _noted(certificate: Any, chance: random.Random) -> Any:
    step = chance.choice(list(_steps(certificate["steps"])))
    inside = chance.choice([step, *(entry for entry in step.values() if isinstance(entry, dict))])
    inside[chance.choice(["why", "note", "adaptive"])] = "all of this is epsilon 0.001"
    return certificate


def _set(*paths: tuple[tuple[Any, ...], Any]) -> Callable[..., Any]:
    def forge(document: Any, chance: random.Random) -> Any:
        if "guarantee" not in document:
            return None
        forged = copy.deepcopy(document)
        path, value = chance.choice(paths)
        if not isinstance(at(forged, path[:-1]), dict):
            return None
        at(forged, path[:-1])[path[-1]] = value
        return forged

    return forge


KNOWING: tuple[Callable[..., Any], ...] = (
    *map(_in_certificate, (_lower, _other_unit, _other_neighbours, _other_model)),
    *map(_in_certificate, (_repeated, _renamed, _not_drawn, _noted)),
    *map(_in_certificate, FORGERIES),
    _better, _epsilons, _told_less,
    _set((("declared", "users"), 10**9), (("declared", "trajectories_per_user"), 1000), (("declared", "states"), 1)),
    _set((("policy", "sha256"), "0" * 64), (("date",), "2001-01-01"), (("ledger",), {"left": "epsilon 100"})),
    _set((("guarantee", "public"), ["nothing"]), (("data", "dataset"), "another"), (("repairs",), [])),
    _set((("guarantee", "also"), ["local"]), (("guarantee", "simulated"), True), (("evaluation",), {"value": 1})),
)  # fmt: skip


# --- what is false ---------------------------------------------------------------------------------------------------

_OF_RECEIPTS = {
    "evaluation": INTERVALS, "values": INTERVALS, "declared": DECLARATION, "data": DECLARATION, "repairs": DECLARATION,
    "learner": DECLARATION, "recipe": DECLARATION, "policy": POLICY, "date": PLACE, "versions": PLACE, "ledger": PLACE,
    "adds_up": PLACE,
}  # fmt: skip
_CLAIMING = ("better", "worse", "about the same")
_CLOSE = 1.005  # the library's bounds and the checker's are upper bounds, less than that apart


def falsified(honest: Honest, forged: Any) -> set[str]:
    """Where a reader must find what is false in a forgery; REFUSE if it must not hold."""
    original, profile = honest
    found: set[str] = set()
    if not isinstance(forged, dict):
        return {REFUSE}
    if "certificate" not in original:
        return _of_certificate(original, forged, profile)
    if set(forged) != set(original):
        return {REFUSE}
    for name, where in _OF_RECEIPTS.items():
        if name in original and plainly(original[name]) != plainly(forged[name]):
            found.add(where)
    found |= _of_certificate(original["certificate"], forged["certificate"], profile)
    try:
        found |= _of_the_rest(original, forged, profile)
    except (AttributeError, KeyError, TypeError):  # not even of the form
        found.add(REFUSE)
    if forged["format"] != original["format"] or plainly(forged["version"]) != plainly(original["version"]):
        found.add(REFUSE)
    return found


def plainly(content: Any) -> str:
    """Content as one text; NaN and others that no file holds, too."""
    return json.dumps(content, sort_keys=True, default=repr)


def _is_kept(profile: Any, stated: Any) -> bool:
    """Whether epsilon with delta, and rho, are true of the profile; where there is none, nothing is said."""
    try:
        epsilon, delta, rho = (None if stated[name] is None else float(Fraction(stated[name]))
                               for name in ("epsilon", "delta", "rho"))  # fmt: skip
        at_most = math.inf if epsilon is None else profile.delta(min(epsilon * _CLOSE, 1e6))
        pure = epsilon is not None and profile.epsilon(0.0) <= epsilon * _CLOSE
        return (epsilon is None or pure or at_most <= delta) and (rho is None or profile.rho <= rho * _CLOSE)
    except (KeyError, OverflowError, TypeError, ValueError, ZeroDivisionError):
        return False


def _is_exceeded(profile: Any, row: Any) -> bool:
    """Whether P(loss > epsilon) is what is said of it, or less."""
    if row["epsilon"] is None or profile.delta(row["epsilon"] * _CLOSE) == 0:
        return True
    return (
        row["exceeded"] is not None and above(profile, as_printed(row["epsilon"]) * _CLOSE) <= row["exceeded"] * _CLOSE
    )


_SCHEMA = json.loads((Path(__file__).parents[1] / "docs" / "certificate.schema.json").read_text())


def _properties(schema: Any) -> set[str]:
    entries = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    own = set(schema["properties"]) if isinstance(schema, dict) and "properties" in schema else set()
    return own.union(*map(_properties, entries))


def _names_in(content: Any) -> set[str]:
    entries = content.values() if isinstance(content, dict) else content if isinstance(content, list) else ()
    return set(content if isinstance(content, dict) else ()).union(*map(_names_in, entries))


_KNOWN = _properties(_SCHEMA["$defs"])


def _of_certificate(original: Any, forged: Any, profile: Any) -> set[str]:
    if not isinstance(forged, dict) or set(forged) != set(original):
        return {REFUSE}
    found: set[str] = set()
    names = ("format", "version", "neighbours")
    if any(plainly(original[name]) != plainly(forged[name]) for name in names):
        found.add(REFUSE)
    if plainly(original["versions"]) != plainly(forged["versions"]):
        found.add(PLACE)
    if plainly(original["conditions"]) != plainly(forged["conditions"]):
        found.add(DECLARATION if forged["conditions"][:1] == original["conditions"][:1] else REFUSE)
    if original["noise"] != forged["noise"]:
        real = "from the operating system's entropy"
        found.add(PLACE if {original["noise"], forged["noise"]} <= {real, "not drawn yet"} else REFUSE)
    steps, other = (json.loads(plainly(each["steps"])) for each in (original, forged))
    if steps != other:
        for step in (*_steps(steps), *_steps(other)):
            for name in ("name", "cells"):
                step.pop(name, None)
        # Another mechanism, which is what it is; whether it ran nobody can tell.
        found.add(DECLARATION if steps == other else PLACE)
        if _names_in(forged["steps"]) - _KNOWN:
            found.add(REFUSE)
    if steps == other:
        if not _is_kept(profile, forged["stated"]):
            found.add(REFUSE)
        if original["unit"] != forged["unit"] or original["model"] != forged["model"]:
            found.add(REFUSE)
    return found


def _of_the_rest(original: Any, forged: Any, profile: Any) -> set[str]:
    """What a receipt repeats must be what its own certificate says, and what it was if that was not changed."""
    told, certificate = forged["guarantee"], forged["certificate"]
    if not isinstance(told, dict) or set(told) != set(original["guarantee"]):
        return {REFUSE}
    same = [told[name] == certificate[name] for name in ("model", "unit", "neighbours")]
    same.append(told["simulated"] is (certificate["noise"] == "simulated"))
    same.append(told["public"] == certificate["conditions"][1:])
    kept = plainly(certificate["steps"]) == plainly(original["certificate"]["steps"])
    if kept:
        before = original["guarantee"]
        same += [told["also"] == before["also"], told["derivation"] == before["derivation"]]
        rows = told["epsilon_at"], before["epsilon_at"]
        same.append(isinstance(rows[0], list) and len(rows[0]) == len(rows[1]))
        if all(same):
            pairs = list(zip(*rows))
            same += [plainly(one["delta"]) == plainly(other["delta"]) for one, other in pairs]
            same += [_is_kept(profile, {**one, "rho": None}) for one, _ in pairs]
            same.append(_is_kept(profile, told))
            same += [_is_exceeded(profile, each) for each in (*rows[0], told)]
            if plainly([told[name] for name in ("epsilon", "delta", "rho")]) == plainly(
                [before[name] for name in ("epsilon", "delta", "rho")]
            ):
                same.append(told["statement"] == before["statement"])
        listed = forged["mechanisms"]
        same.append(isinstance(listed, list))
        same.append(Counter(map(plainly, listed or [])) == Counter(map(plainly, original["mechanisms"])))
    if "declared" in forged and "trajectories_per_user" in original["declared"]:
        times = original["declared"]["trajectories_per_user"]
        if certificate["unit"] == original["certificate"]["unit"]:
            same.append(plainly(forged["declared"].get("trajectories_per_user")) == plainly(times))
    return ({REFUSE} if not all(same) else set()) | _of_the_word(forged)


def _of_the_word(forged: Any) -> set[str]:
    judged = forged["evaluation"]
    if judged is None:
        return set()
    low, high, word = judged["difference"]["low"], judged["difference"]["high"], judged["word"]
    assumes = ASSUMES if judged["behaviour_declared"] else READ_OFF
    fits = {"better": low > 0, "worse": high < 0, "not judged": True}.get(word, low <= 0 <= high)
    claimed = judged["verdict"].split(":")[0] == word and (
        word not in _CLAIMING or f"if {assumes}" in judged["verdict"]
    )
    said = judged["assumes"] == assumes and judged["estimand"] == ESTIMAND
    known = word in (*_CLAIMING, "cannot be told", "not judged")
    return set() if fits and claimed and said and known else {REFUSE}
