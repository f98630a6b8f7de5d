"""Writes the test vectors that clients in all languages share: random bytes in, reports out.

    python tests/client/make_vectors.py        # writes tests/client/vectors.json

``settings`` are studies with a policy and laws, as a service states them; ``vectors`` are 1,300 examples, the last 300
of studies that ask about first visits. Each has a ``what``, its input, a ``tape`` of random bytes in hexadecimal where
it reads any, and the ``result``. The steps are stated in ``discreet.client.exact``, ``discreet.client.reports`` and
``discreet.client.questions``. Whole numbers that do not fit into a double are text. The report of a record begins with
picking its steps, or its question, on the same tape.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import toy_study as toy

from discreet.client.exact import WHOLE, Given, Tape, reward_fraction
from discreet.client.policy import read_policy
from discreet.client.questions import questions_of
from discreet.client.reports import pick, read_round, report_of

FILE = Path(__file__).with_name("vectors.json")
SEED = 20261115
_TAPE = 4096
_ASKED = 300


def word(z: int, source: random.Random) -> bytes:
    """Eight bytes that hold this number z; their two lowest bits do not matter."""
    return (4 * z + source.randrange(4)).to_bytes(8, "little")


def on_tape(content: bytes, what: str, inputs: dict[str, Any], run: Any) -> dict[str, Any]:
    """An example whose tape is as long as what was read of it."""
    given = Given(content)
    result = run(Tape(given))
    return {"what": what, **inputs, "tape": content[: given.read].hex(), "result": result}


def primitives(source: random.Random) -> list[dict[str, Any]]:
    """Steps by themselves, at random and next to every bound."""
    found = []
    for n in (1, 2, 3, 6, 10, 48, 1000, 2**31 - 1, 2**40 + 1, 3 * 2**60):
        end = n * (WHOLE // n)
        starts = [source.randbytes(8), word(end - 1, source), word(min(end, WHOLE - 1), source), word(0, source)]
        found += [
            on_tape(s + source.randbytes(_TAPE), "below", {"n": str(n)}, lambda t, n=n: t.below(n)) for s in starts
        ]
    ranges = ((0.0, 1.0), (-1.0, 2.5), (0.1, 0.3), (-1e-300, 1e300), (5.0, 6.0))
    for low, high in ranges:
        inside = [low + (high - low) * source.random() for _ in range(24)]
        for reward in [low, high, *(r for r in inside if low <= r <= high)]:
            a, b = reward_fraction(reward, low, high)
            q = (a << 62) // b
            bounds = [z for z in (q - 1, q, q + 1) if 0 <= z < WHOLE]
            start = source.choice([source.randbytes(8), *(word(z, source) for z in bounds)])
            inputs = {"reward": reward, "low": low, "high": high}
            found.append(
                on_tape(start + source.randbytes(_TAPE), "reward", inputs, lambda t, a=a, b=b: int(t.chance(a, b)))
            )
    for horizon, steps in ((1, 1), (4, 1), (4, 2), (4, 4), (6, 1), (6, 3), (20, 1), (20, 7), (20, 20), (100, 2)):
        for _ in range(5):
            inputs = {"horizon": horizon, "steps": steps}
            found.append(on_tape(source.randbytes(_TAPE), "pick", inputs, lambda t, h=horizon, m=steps: t.pick(h, m)))
    for items in (2, 3, 8, 49):
        for epsilon in (0.1, 1.0, 4.0, 60.0):
            found += items_at_bounds(items, epsilon, source)
    return found


def items_at_bounds(items: int, epsilon: float, source: random.Random) -> list[dict[str, Any]]:
    """Responses for one item, from numbers next to every bound and from random ones."""
    found = []
    lie = toy.LAWS["kary"](epsilon, items).threshold
    truth = WHOLE - (items - 1) * lie
    for z in sorted({0, lie - 1, lie, truth - 1, truth, truth + lie - 1, truth + lie, WHOLE - 1}):
        if 0 <= z < WHOLE:
            item = source.randrange(items)
            inputs = {"item": item, "items": items, "threshold": str(lie)}
            run = lambda t, i=item: t.item(i, items, lie)  # noqa: E731
            found.append(on_tape(word(z, source), "kary", inputs, run))
    lie = toy.LAWS["unary"](epsilon, items).threshold
    for _ in range(3):
        bounds = (0, lie - 1, lie, WHOLE // 2 - 1, WHOLE // 2, WHOLE - 1)
        tape = b"".join(word(source.choice(bounds), source) for _ in range(items))
        item = source.randrange(items)
        inputs = {"item": item, "items": items, "threshold": str(lie)}
        run = lambda t, i=item: t.bits(i, items, lie)  # noqa: E731
        found.append(on_tape(tape, "unary", inputs, run))
    return found


def settings(source: random.Random) -> list[tuple[Any, Any]]:
    """Studies and policies: masks, early ends, one and several steps, both responses, labels, central records."""
    found = []
    for shape in ((3, 2, 4), (4, 2, 6), (1, 3, 1), (2, 2, 2)):
        for response, steps in (("kary", 1), ("unary", 1), ("kary", 2), ("unary", 2)):
            for early_end in (False, True):
                start = source.choice((None, 0, shape[0] - 1))
                low = source.choice((0.0, -1.0))
                declared = toy.declaration(*shape, start=start, rewards=(low, 1.0), early_end=early_end)
                masked = source.random() < 0.8
                answer = toy.study_answer(declared, response, min(steps, shape[2]), masked)
                study = toy.read(answer)
                mixed = response == "unary" or steps > 1
                policy = toy.random_policy(study, source, stochastic=mixed and source.random() < 0.4)
                found.append((answer, toy.policy_answer(study, policy)))
    for early_end in (False, True):
        answer = toy.study_answer(toy.declaration(["a", "b", "c"], ["x", "y"], model="central", early_end=early_end))
        study = toy.read(answer)
        found.append((answer, toy.policy_answer(study, toy.random_policy(study, source))))
    return found


def asked_settings(source: random.Random) -> list[tuple[Any, Any]]:
    """Studies that ask about first visits: shapes, responses, masks, early ends, policies of both kinds, weights."""
    found = []
    for shape in ((3, 2, 4), (5, 3, 6), (1, 3, 2), (2, 1, 3), (9, 2, 8)):
        for response in ("kary", "unary"):
            for stochastic in (False, True):
                start, low = source.choice((None, 0, shape[0] - 1)), source.choice((0.0, -1.0))
                early_end, cap = source.random() < 0.5, source.choice((1, 3))
                declared = toy.declaration(*shape, start=start, rewards=(low, 1.0), early_end=early_end, cap=cap)
                answer = toy.study_answer(declared, response, masked=source.random() < 0.7, asked=True)
                study = toy.read(answer)
                stated = toy.policy_answer(study, toy.random_policy(study, source, stochastic))
                usual = stated["questions"]
                weights = [weight and source.choice((0, 1, 17, 10**6, 2**30)) for weight in usual]
                stated["questions"] = weights if any(weights) else usual
                found.append((answer, stated))
    return found


def items(index: int, answer: Any, policy: Any, source: random.Random) -> list[dict[str, Any]]:
    """Numbers of cells, also of some that cannot occur."""
    study = toy.read(answer)
    if study.kind.name == "record":
        return []
    known, found = read_policy(policy["policy"], study), []
    for _ in range(6):
        h = source.randrange(study.horizon)
        cell = [source.randrange(n) for n in (study.states, study.actions, study.states + 1, 2)]
        if source.random() < 0.7:
            cell[1] = known.draw(h, cell[0], Tape(source.randbytes))
        if h == study.horizon - 1 and source.random() < 0.8:
            cell[2] = study.states
        if h == 0 and study.start is not None and source.random() < 0.8:
            cell[0] = study.start
            cell[1] = known.draw(h, cell[0], Tape(source.randbytes))
        result = questions_of(study, known)[h].number((0, *cell[:2]), *cell[2:])
        found.append({"what": "item", "setting": index, "step": h, "cell": cell, "result": result})
    return found


def report(index: int, answer: Any, policy: Any, source: random.Random) -> dict[str, Any]:
    """The report of a record: whole, cut short or empty."""
    study = toy.read(answer)
    round_ = read_round(policy, study)
    length = source.choice((study.horizon, study.horizon, 0, source.randrange(study.horizon + 1)))
    record = toy.random_record(study, policy["policy"], source, length)
    return on_tape(
        source.randbytes(_TAPE), "report", {"setting": index, "record": record},
        lambda tape: report_of(study, round_, pick(study, round_, tape), record, tape),
    )  # fmt: skip


def make() -> dict[str, Any]:
    """All of it, the same at every call."""
    source = random.Random(SEED)
    vectors, places = primitives(source), settings(source)
    for index, (answer, policy) in enumerate(places):
        vectors += items(index, answer, policy, source)
    while len(vectors) < 1000:
        index = source.randrange(len(places))
        vectors.append(report(index, *places[index], source))
    source = random.Random(SEED + 1)
    first, places = len(places), places + asked_settings(source)
    for number in range(_ASKED):
        index = first + number % (len(places) - first)
        vectors.append(report(index, *places[index], source))
    return {
        "format": "discreet client vectors 1",
        "settings": [{"study": answer, "policy": policy} for answer, policy in places],
        "vectors": vectors,
    }


def text() -> str:
    """The file: one setting or vector per line."""
    made = make()
    lines = {name: ",\n".join(json.dumps(each) for each in made[name]) for name in ("settings", "vectors")}
    parts = [f'"format": "{made["format"]}"', *(f'"{name}": [\n{lines[name]}\n]' for name in lines)]
    return "{" + ",\n".join(parts) + "}\n"


if __name__ == "__main__":
    FILE.write_text(text())
    print(f"wrote {FILE.name}: {len(make()['vectors'])} vectors")
