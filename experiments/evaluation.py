"""How often intervals of private off-policy evaluation cover, how wide they are, and what may be said about a policy.

    python -m experiments.evaluation                          # 100 repetitions of every cell, resumable
    python -m experiments.evaluation --repetitions 1000       # goes on where the last call stopped
    python -m experiments.evaluation --world hospital --epsilon 1
    python -m experiments.evaluation --summary                # what is known so far
    python -m experiments.evaluation --page                   # into experiments/evaluation.json and docs/evaluation.md

A cell is a world (:mod:`experiments.evaluation_worlds`) with a number of users, an epsilon (inf: no privacy), a policy
(given, learned, safe) and whether the behaviour is declared. In every repetition users act in memory, 65% of them fill
the table that the policy is learned from and 35% judge it; a *given* policy is fixed beforehand. True values are
computed exactly. Every quantity gets the full epsilon (so that it can be compared with methods for one quantity); real
evaluations divide it. All cells come in turn, so that whenever it is stopped all of them have as many repetitions;
those in ``SELDOM``, safe policies, and policies learned in ICU-Sepsis come in every tenth or twentieth only. Methods
are chosen with other seeds (``--seed``) than those that are reported.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from discreet.base.policies import Policy
from discreet.base.types import Floats
from discreet.learners import APVI
from discreet.learners.base import Problem
from discreet.mechanisms.sums.accumulator import SimulatedNoise
from discreet.recipes.targets import Central, NoPrivacy
from discreet.simulation.data_sets import learn, privatizer_for
from discreet.tables.evaluation.policy_value import Judged, Shares, judge
from discreet.tables.evaluation.released_model import has_table, model_of, nothing_shown
from discreet.tables.evaluation.return_bounds import limits_of
from discreet.tables.evaluation.safe_policy import safe_policy
from discreet.tables.evaluation.start_distribution import first_states
from discreet.tables.evaluation.verdict import verdict_of
from discreet.tables.in_memory_users import PathUsers
from discreet.tables.read.user_subsets import Paths
from experiments import evaluation_page
from experiments.evaluation_page import Cell, cell_of, cells_of
from experiments.evaluation_worlds import WITHOUT_TABLE, WORLDS, Crowd, World, mixed, values

HOLDOUT, DELTA, SEED = 0.35, 1e-6, 2_191_116
_NUMBERS = {name: number for number, name in enumerate(WORLDS)}  # of seeds
FILE = Path(__file__).parent / "results" / "evaluation.jsonl"
EPSILONS = (1.0, 4.0, math.inf)
CELLS = [
    (world, users, epsilon)
    for world, users in (
        ("dirichlet", 2_000), ("hospital-pooled", 10_000), ("river", 10_000), ("icu-sepsis", 50_000),
        ("hospital", 10_000), ("river-pooled", 10_000), ("dirichlet", 10_000), ("river", 50_000), ("wards", 50_000),
        ("hospital", 50_000), ("hospital-pooled", 50_000),
    )
    for epsilon in EPSILONS
]  # fmt: skip
SELDOM = {
    ("hospital", 10_000), ("river-pooled", 10_000), ("dirichlet", 10_000), ("river", 50_000), ("wards", 50_000),
    ("hospital", 50_000), ("hospital-pooled", 50_000),
}  # fmt: skip
KINDS = [
    ("given", "declared"), ("learned", "declared"), ("safe", "declared"), ("given", "unknown"), ("learned", "unknown")
]  # fmt: skip
_EVERY = 20


def target(epsilon: float) -> Any:
    """The trust model of an epsilon."""
    return NoPrivacy() if math.isinf(epsilon) else Central(epsilon, DELTA)


class Bench:
    """One world with a number of users and an epsilon: privatizers and crowds are built once."""

    def __init__(self, name: str, users: int, epsilon: float, seed: int = SEED) -> None:
        world = WORLDS[name]([0])
        self.name, self.users, self.epsilon, self.seed = name, users, epsilon, seed
        self.held = int(users * HOLDOUT + 0.5)
        self.learner = APVI(ends=world.ends)
        if name == "icu-sepsis":  # as in `discreet reproduce beyond/icu-sepsis`
            self.learner = APVI(ends=True, penalty="tight", penalty_scale=0.1)
        others, made = users - self.held, name != "wards"
        self.privatizer = privatizer_for(self.learner, target(epsilon), world.shape, others) if made else None
        self.truths: dict[str, float] = {}

    def kinds(self, repetition: int) -> list[tuple[str, str]]:
        """What is measured in a repetition: what is slow, or beside the point, in every twentieth."""
        if (self.name, self.users) in SELDOM and repetition % _EVERY:
            return []
        kinds = [kind for kind in KINDS if kind[0] != "safe" or repetition % _EVERY == 0]
        if "pooled" in self.name:  # tells no behaviour
            return [kind for kind in kinds if kind[1] == "declared"]
        if self.name not in WITHOUT_TABLE:
            return kinds
        seldom = _EVERY if math.isinf(self.epsilon) else _EVERY // 2  # without noise learning takes longest
        learns = self.name == "icu-sepsis" and repetition % seldom == 0
        return [("given", "declared"), ("learned", "declared")] if learns else [("given", "declared")]

    def run(self, repetition: int, kinds: list[tuple[str, str]]) -> list[dict[str, Any]]:
        """Some kinds of one repetition."""
        rng = np.random.default_rng(
            [self.seed, repetition, self.users, int(10 * min(self.epsilon, 99)), _NUMBERS[self.name]]
        )
        world = WORLDS[self.name]([self.seed, repetition])
        second = acted(self.name, self.held, repetition, self.seed, 2)
        noise, policies, model = SimulatedNoise(rng), {"given": world.given}, nothing_shown(world.shape, self.held)
        if any(kind[0] != "given" or self.name not in WITHOUT_TABLE for kind in kinds):
            first = acted(self.name, self.users - self.held, repetition, self.seed, 1)
            policies, model = self._learned(world, first, second, noise, rng)
        out = []
        for kind, behaviour_is in kinds:
            began = time.perf_counter()
            limits = limits_of(world.shape, world.ends, world.returns).of_records(world.shape)
            shares = Shares(self.epsilon, self.epsilon, self.epsilon)
            usual = world.behaviour if behaviour_is == "declared" else None
            judged = judge(second, world.shape, limits, policies[kind], usual, model, shares, noise)
            seconds = time.perf_counter() - began
            true, behaviour = self._truth(world, kind, policies[kind]), self._truth(world, "behaviour", world.behaviour)
            out.append(
                {
                    "world": self.name, "users": self.users,
                    "epsilon": self.epsilon if math.isfinite(self.epsilon) else None, "policy": kind,
                    "behaviour": behaviour_is, "repetition": repetition,
                    "truth": [true, behaviour, true - behaviour], **told(judged), "seconds": seconds,
                }
            )  # fmt: skip
        return out

    def _truth(self, world: World, kind: str, policy: Floats) -> float:
        """An exact value; those that stay the same are computed once."""
        if self.name == "dirichlet" or kind not in ("given", "behaviour"):
            return values(world, policy)[1]
        if kind not in self.truths:
            self.truths[kind] = values(world, policy)[1]
        return self.truths[kind]

    def _learned(
        self, world: World, first: Paths, second: Paths, noise: SimulatedNoise, rng: np.random.Generator
    ) -> tuple[dict[str, Floats], Any]:
        """All policies, and the model that the users who were learned from show."""
        shape = world.shape
        assert self.privatizer is not None
        session = self.privatizer.open(PathUsers(first, shape, True, rng), noise, first.users)
        state, release = learn(self.learner, session, Problem(shape, first.users), np.zeros(1, np.uint64))
        found = self.learner.policy(state)
        learned = (found.stochastic(shape.actions) if isinstance(found, Policy) else found).probabilities
        if self.name in WITHOUT_TABLE or not has_table(release):
            return {"given": world.given, "learned": mixed(world, learned)}, nothing_shown(shape, first.users)
        start = first_states(second, shape.states, 0.05 * self.epsilon, noise).shares if shape.homogeneous else None
        model = model_of(shape, release, True, first.users, start)
        safe = safe_policy(model, learned, world.behaviour)
        return {"given": world.given, "learned": learned, "safe": safe}, model


@lru_cache(maxsize=2)  # both parts of one repetition
def acted(name: str, users: int, repetition: int, seed: int, part: int) -> Paths:
    """Users of one part: the same for all epsilons, whose noise differs."""
    return crowd_of(name, seed, repetition if name == "dirichlet" else 0).act(
        users, np.random.default_rng([seed, repetition, users, _NUMBERS[name], part])
    )


@lru_cache(maxsize=8)
def crowd_of(name: str, seed: int, repetition: int) -> Crowd:
    """Users of a world."""
    return Crowd(WORLDS[name]([seed, repetition]))


def told(judged: Judged) -> dict[str, Any]:
    """Intervals and verdict as plain data."""
    every = judged.value, judged.behaviour, judged.difference
    return {
        "low": [each.low for each in every], "high": [each.high for each in every],
        "verdict": verdict_of(judged.difference, judged.causes).word,
    }  # fmt: skip


def summary(cells: list[Cell]) -> str:
    """Coverage and mean width of value, behaviour and difference, verdicts, for every cell."""
    lines = ["world users epsilon policy behaviour | n | value behaviour difference (coverage / width) | untold false"]
    for cell in cells:
        covered, n = [count / cell.n for count in cell.covered], cell.n
        texts = "  ".join(f"{c:.3f} / {w:.3f}" for c, w in zip(covered, cell.width, strict=True))
        name = f"{cell.world} {cell.users} {cell.epsilon or math.inf} {cell.policy} {cell.behaviour}"
        lines.append(f"{name} | {n} | {texts} | {cell.untold / n:.2f} {cell.false_better / n:.3f}")
    return "\n".join(lines)


def main() -> None:
    """Read what is there, go on, and sum up."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--world", choices=sorted(WORLDS))
    parser.add_argument("--users", type=int)
    parser.add_argument("--epsilon", type=float)
    parser.add_argument("--policy", choices=("given", "learned", "safe"))
    parser.add_argument("--behaviour", choices=("declared", "unknown"))
    parser.add_argument("--often", action="store_true", help="only cells that come in every repetition")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--file", type=Path, default=FILE)
    parser.add_argument("--summary", action="store_true")
    parser.add_argument("--page", action="store_true")
    given = parser.parse_args()
    rows = [json.loads(line) for line in given.file.read_text().splitlines()] if given.file.exists() else []
    if given.page:
        evaluation_page.write(cells_of(rows))
    elif not given.summary:
        rows = measure(given, rows)
    print(summary(cells_of(rows)))


def measure(given: argparse.Namespace, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Repetition by repetition, every cell that is asked for."""
    done = {(cell_of(row), row["repetition"]) for row in rows}
    asked = [
        (name, users, epsilon)
        for name, users, epsilon in CELLS
        if given.world in (None, name) and given.epsilon in (None, epsilon) and given.users in (None, users)
        if not (given.often and (name, users) in SELDOM)
    ]
    benches = [Bench(*cell, given.seed) for cell in asked]
    given.file.parent.mkdir(exist_ok=True)
    for repetition in range(given.repetitions):
        for bench in benches:
            finite = bench.epsilon if math.isfinite(bench.epsilon) else None
            waiting = [
                kind
                for kind in bench.kinds(repetition)
                if given.policy in (None, kind[0])
                and given.behaviour in (None, kind[1])
                and ((bench.name, bench.users, finite, *kind), repetition) not in done
            ]
            if waiting:
                found = bench.run(repetition, waiting)
                rows += found
                with given.file.open("a") as file:
                    file.writelines(json.dumps(row) + "\n" for row in found)
    return rows


if __name__ == "__main__":
    main()
