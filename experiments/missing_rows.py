"""Policies judged where rows are missing: how often a policy that is the behaviour is called better, and what covers.

    python -m experiments.missing_rows                        # 100 repetitions of every cell, resumable
    python -m experiments.missing_rows --repetitions 1000     # goes on where the last call stopped
    python -m experiments.missing_rows --match "random 0.1"   # some cells only
    python -m experiments.missing_rows --page                 # the table of docs/evaluation.md

A world has four states, three actions, three steps, rewards 0 or 1, and for every row the chance that it is there.
Users act in memory; records end before the first row that is missing (rule ``end``). 65% of them fill a noisy table,
and 35% judge at the same epsilon, by the functions that ``train`` and ``evaluate`` call. True values are exact.

Kinds of damage: *first*, *gap*, *last* rows and whole *users*, every row at *random*, by its *state*, by the reward
before (*history*), records that end *early*, *ties* (a second row for the step: missing if they differ) and missing
*rewards* (they count as 0, which is then what is estimated). There the assumption holds, or policy and behaviour are
the same. Rows that are missing because of their own *action* or *outcome* break it.

Policies: *itself* (the behaviour), *twin* (other actions of the same law) and *better* (a tenth of the best action).
``power`` replaces three tenths of the behaviour by good and bad actions, in the shares that make the true difference
four deviations of the released estimate.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from discreet.base.policies import uniform_policy
from discreet.base.shape import Shape
from discreet.base.types import Floats, Integers, Mask
from discreet.learners.apvi import APVI
from discreet.mechanisms.release import Request
from discreet.mechanisms.session import Privatizer
from discreet.mechanisms.sums.accumulator import SimulatedNoise
from discreet.recipes.targets import Central, NoPrivacy
from discreet.simulation.data_sets import privatizer_for
from discreet.tables.evaluation.policy_value import Judged, judge, shares_of
from discreet.tables.evaluation.released_model import model_of
from discreet.tables.evaluation.return_bounds import limits_of
from discreet.tables.evaluation.verdict import verdict_of
from discreet.tables.in_memory_users import PathUsers
from discreet.tables.read.user_subsets import Paths

S, A, H = 4, 3, 3
SHAPE, HOLDOUT, DELTA = Shape(S, A, H), 0.35, 1e-6
HOLDS = ("whole", "first", "gap", "last", "users", "random", "state", "history", "early", "ties")
ALIKE = ("rewards",)  # nothing is asked but that a policy is not better than itself
BREAKS = ("action", "outcome")
POLICIES = ("itself", "twin", "better")
STORED = Path(__file__).with_name("missing_rows.json")
_LIMITS = limits_of(SHAPE, True)


class Damaged(NamedTuple):
    """A world: laws of what follows, mean rewards, chances that rows are there, and that records go on."""

    moves: Floats  # (S, A, S)
    means: Floats  # (S, A)
    there: Floats  # (H, S, A, reward, reward before)
    users: float  # the chance that a user has any row
    goes_on: Floats  # (S, A)
    behaviour: Floats  # (S, A)

    def value(self, policy: Floats) -> float:
        """The mean return until the record ends, of users whose record begins."""
        chance = np.stack([1 - self.means, self.means], axis=2)
        worth = np.zeros((S, 2))  # by state and the reward before
        for h in range(H - 1, -1, -1):
            after = np.einsum("sa,sat,tr->sar", self.goes_on, self.moves, worth)
            worth = np.einsum("sa,sar,sarp->sp", policy, chance * (np.arange(2) + after), self.there[h])
        begins = np.einsum("sa,sar,sar->", self.behaviour, chance, self.there[0][..., 0])
        return float(worth[:, 0].sum() / begins)


def damaged(kind: str, rate: float, rng: np.random.Generator) -> Damaged:
    """A random world in which actions 0 and 1 do the same."""
    moves, means = rng.dirichlet(np.ones(S), (S, A)), rng.uniform(0.1, 0.9, (S, A))
    moves[:, 1], means[:, 1] = moves[:, 0], means[:, 0]
    behaviour = np.tile([0.55, 0.2, 0.25], (S, 1))
    behaviour[1], behaviour[2] = [0.3, 0.4, 0.3], [0.15, 0.25, 0.6]
    lost, goes_on, users = np.zeros((H, S, A, 2, 2)), np.ones((S, A)), 1.0
    by_outcome = np.array([1.8, 0.2])
    match kind:
        case "first" | "gap" | "last":
            lost[{"first": 0, "gap": 1, "last": H - 1}[kind]] = rate
        case "users":
            users = 1 - rate
        case "random":
            lost[:] = rate
        case "ties":
            lost[:] = rate * (1 - 1 / (S * A))
        case "state":
            lost[:] = rate * np.array([0, 0.5, 1, 2.5])[:, None, None, None]
        case "history":
            lost[:] = rate * by_outcome
        case "outcome":
            lost[:] = rate * by_outcome[:, None]
        case "action":
            lost[:] = rate * np.array([2, 0, 1])[:, None, None]
        case "early":
            goes_on = 1 - rate * rng.uniform(0, 2, (S, A))
            goes_on[:, 1] = goes_on[:, 0]
    return Damaged(moves, means, 1 - lost, users, goes_on, behaviour)


def drawn(world: Damaged, kind: str, rate: float, users: int, rng: np.random.Generator) -> Paths:
    """Records of users, up to the first row that is missing."""
    acts, moves = world.behaviour.cumsum(axis=1), world.moves.cumsum(axis=2)
    there: Mask = rng.random(users) < world.users
    state, before = rng.integers(S, size=users), np.zeros(users, np.int64)
    rows: list[tuple[Integers | Floats, ...]] = []
    who = np.arange(users)
    for h in range(H):
        action = _pick(acts[state], rng)
        reward = (rng.random(users) < world.means[state, action]).astype(np.int64)
        if kind == "ties":  # two rows that differ are none
            other = rng.integers(S * A, size=users)
            there = there & ((rng.random(users) >= rate) | (other == state * A + action))
        else:
            there = there & (rng.random(users) < world.there[h, state, action, reward, before])
        shown = np.where(rng.random(users) < rate, 0, reward) if kind == "rewards" else reward
        rows.append((who[there], np.full(int(there.sum()), h), state[there], action[there], shown[there]))
        going = rng.random(users) < world.goes_on[state, action]
        state, before = _pick(moves[state, action], rng), reward
        there = there & going
    user, step, at, action, reward = (np.concatenate(column) for column in zip(*rows, strict=True))
    order = np.lexsort((step, user))
    user, step, at, action = (column[order] for column in (user, step, at, action))
    follows = np.append(user[1:] == user[:-1], False)
    successor = np.where(follows, np.append(at[1:], 0), S)
    return Paths(users, user, step, at, action, successor, reward[order].astype(float))


def _pick(edges: Floats, rng: np.random.Generator) -> Integers:
    found: Integers = np.minimum((rng.random(len(edges))[:, None] > edges).sum(axis=1), edges.shape[1] - 1)
    return found


def policy_of(name: str, world: Damaged, goodness: float = 1.0) -> Floats:
    """A policy (S, A) by its name."""
    if name == "itself":
        return world.behaviour
    if name == "twin":
        return world.behaviour[:, [1, 0, 2]]
    good = np.where(world.means[:, 2] > world.means[:, 0], 2, 0)
    if name == "better":
        return 0.9 * world.behaviour + 0.1 * np.eye(A)[good]
    mixed: Floats = 0.7 * world.behaviour + 0.3 * (goodness * np.eye(A)[good] + (1 - goodness) * np.eye(A)[2 - good])
    return mixed


@cache
def privatizer(epsilon: float, users: int) -> Privatizer:
    """That of a table of these users."""
    target = NoPrivacy() if math.isinf(epsilon) else Central(epsilon, DELTA)
    return privatizer_for(APVI(ends=True), target, SHAPE, users)


def judged(
    world: Damaged, kind: str, rate: float, policy: Floats, users: int, epsilon: float, declared: bool,
    rng: np.random.Generator,
) -> Judged:  # fmt: skip
    """One data set, one noisy table, one judgement."""
    held, noise = int(users * HOLDOUT + 0.5), SimulatedNoise(rng)
    wide = np.broadcast_to(policy, (H, S, A))
    judging = drawn(world, kind, rate, held, rng)
    others = users - held
    made = privatizer(epsilon, others)
    session = made.open(PathUsers(drawn(world, kind, rate, others, rng), SHAPE, True, rng), noise, others)
    model = model_of(SHAPE, session.answer(Request(uniform_policy(SHAPE))), True, others)
    usual = np.broadcast_to(world.behaviour, (H, S, A)) if declared else None
    return judge(judging, SHAPE, _LIMITS, wide, usual, model, shares_of(epsilon), noise)


def repetition(name: str, number: int) -> dict[str, float]:
    """What one repetition of a cell adds to its sums."""
    kind, rate, policy, users, epsilon, declared = parsed(name)
    rng = np.random.default_rng([2026, number, *name.encode()])
    if policy == "power":
        world = fixed(kind, rate)
        acted = four_deviations(name)
    else:
        world = damaged(kind, rate, rng)
        acted = policy_of(policy, world)
    found = judged(world, kind, rate, acted, users, epsilon, declared, rng)
    values = world.value(acted), world.value(world.behaviour)
    alike = policy == "itself" or (policy == "twin" and kind not in BREAKS)
    truth = 0.0 if alike else values[0] - values[1]
    word = verdict_of(found.difference, found.causes).word
    return {
        "n": 1,
        "value": found.value.holds(values[0]), "behaviour": found.behaviour.holds(values[1]),
        "difference": found.difference.holds(truth),
        "better": word == "better", "worse": word == "worse", "untold": word == "cannot be told",
        "wrong": (word == "better" and truth <= 1e-12) or (word == "worse" and truth >= -1e-12),
        "width": found.difference.width,
    }  # fmt: skip


def fixed(kind: str, rate: float) -> Damaged:
    return damaged(kind, rate, np.random.default_rng([7, int(1000 * rate)]))


@cache
def four_deviations(name: str) -> Floats:
    """The policy whose true difference is four deviations of its estimate, by pilots: from the worst up to there."""
    kind, rate, _, users, epsilon, declared = parsed(name)
    world, rng = fixed(kind, rate), np.random.default_rng([11, *name.encode()])
    acted = policy_of("power", world, 0.5)
    for pilots in (20, 60):
        found = [judged(world, kind, rate, acted, users, epsilon, declared, rng) for _ in range(pilots)]
        wanted = 4 * float(np.std([each.difference.estimate for each in found], ddof=1))
        low, high = 0.0, 1.0
        for _ in range(30):
            middle = (low + high) / 2
            acted = policy_of("power", world, middle)
            enough = world.value(acted) - world.value(world.behaviour) > wanted
            low, high = (low, middle) if enough else (middle, high)
    return acted


def parsed(name: str) -> tuple[str, float, str, int, float, bool]:
    """A cell by its name: kind, rate, policy, users, epsilon, and whether the behaviour is declared."""
    kind, rate, policy, users, epsilon, behaviour = name.split()
    return kind, float(rate), policy, int(users), float(epsilon), behaviour == "declared"


def cells() -> Iterator[str]:
    """The names of all cells. Without a declared behaviour hardly anything can be told at the smaller sizes."""
    for behaviour, sizes in (("declared", "6000 1"), ("unknown", "20000 2")):
        for kind in (*HOLDS, *ALIKE, *BREAKS):
            for rate in ("0",) if kind == "whole" else ("0.1", "0.3"):
                for policy in POLICIES if kind not in ALIKE else POLICIES[:1]:
                    yield f"{kind} {rate} {policy} {sizes} {behaviour}"
        yield from (f"{kind} 0.1 {policy} 6000 inf {behaviour}" for kind in ("random", "state") for policy in POLICIES)
    yield from (f"random {rate} power 20000 2 declared" for rate in ("0.02", "0.1", "0.3"))


def main() -> None:
    """Measure, go on with what was measured, or print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--match", default="", help="only cells whose name has this in it, such as 'random 0.1'")
    parser.add_argument("--page", action="store_true", help="print what is stored and measure nothing")
    given = parser.parse_args()
    stored: dict[str, dict[str, float]] = json.loads(STORED.read_text()) if STORED.exists() else {}
    names = [name for name in cells() if given.match in name]
    for first in range(0, given.repetitions if not given.page else 0, 10):  # all cells grow together
        for name in names:
            sums = stored.get(name, {})
            for number in range(int(sums.get("n", 0)), min(first + 10, given.repetitions)):
                new = repetition(name, number)
                sums = {key: round(sums.get(key, 0) + float(each), 6) for key, each in new.items()}
            stored[name] = sums
            _write(stored)
    print(table(stored))


def _write(stored: dict[str, dict[str, float]]) -> None:
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(sums)}" for name, sums in stored.items())
    STORED.write_text(f"{{\n{lines}\n}}\n")


def share(stored: dict[str, dict[str, float]], what: str, *words: str, without: str = "") -> tuple[float, int]:
    """Of all repetitions of the cells that have these words in their names: the share, and how many they were."""
    found = [each for name, each in stored.items() if set(words) <= set(name.split()) and without not in name.split()]
    many = sum(each["n"] for each in found)
    return (sum(each[what] for each in found) / many if many else math.nan), int(many)


def table(stored: dict[str, dict[str, Any]]) -> str:
    """What stands in docs/evaluation.md: shares of all repetitions of every kind, behaviour declared / not declared."""
    asked = [
        ("itself: wrong", "wrong", ("itself",), ""), ("twin: wrong", "wrong", ("twin",), ""),
        ("difference covered", "difference", (), "itself"), ("value covered", "value", (), ""),
        ("behaviour covered", "behaviour", (), ""),
    ]  # fmt: skip
    lines = ["| " + " | ".join(["missing", "judgements", *(each[0] for each in asked)]) + " |", "|" + "---|" * 7]
    for kind in (*HOLDS, *ALIKE, *BREAKS):
        shown = [kind, " / ".join(f"{share(stored, 'n', kind, each)[1]:,}" for each in ("declared", "unknown"))]
        for _, what, words, without in asked if kind not in ALIKE else asked[:1]:
            both = (share(stored, what, kind, each, *words, without=without)[0] for each in ("declared", "unknown"))
            shown.append(" / ".join(f"{each:.3f}" for each in both))
        lines.append("| " + " | ".join([*shown, *[""] * (7 - len(shown))]) + " |")
    kept = {name: sums for name, sums in stored.items() if name.split()[0] in HOLDS}
    least = ", ".join(
        f"{what} {min(sums[key] / sums['n'] for sums in kept.values()):.3f}"
        for what, key in (("difference", "difference"), ("value", "value"), ("behaviour", "behaviour"))
    )
    (better, many), (untold, _) = (share(stored, what, "power") for what in ("better", "untold"))
    (wrong, judged), worst = (
        share(stored, "wrong", "itself"),
        max(each["wrong"] / each["n"] for each in stored.values()),
    )
    return "\n".join(
        [
            *lines,
            f"\nFour deviations: *better* in {better:.3f} of {many:,}, cannot be told in {untold:.3f}.",
            f"A policy that is the behaviour: better or worse in {wrong:.4f} of {judged:,}; in one cell {worst:.3f}.",
            f"Least covered of {len(kept)} cells where the assumption holds: {least}; repetitions of a cell: "
            f"{min(each['n'] for each in stored.values()):,.0f} to {max(each['n'] for each in stored.values()):,.0f}.",
        ]
    )


if __name__ == "__main__":
    main()
