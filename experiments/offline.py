"""Penalties of APVI on data sets of known worlds: the gap of what is learned, and whether it falls below the users.

    python -m experiments.offline run results.jsonl --half validation --runs 8 --seed 900
    python -m experiments.offline table results.jsonl

A cell is a world, the behaviour of its users, their number and a target. In every run one data set is drawn and
released once, and every learner plans from the same release; gaps are exact. Runs that are in the file already are
skipped, so a run that was stopped goes on where it was. The *tuning* half was looked at while the default was chosen,
the *validation* half was not.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import discreet.worlds as worlds
from discreet.base.policies import StochasticPolicy, uniform_policy
from discreet.base.shape import Shape
from discreet.base.streams import USERS, stream
from discreet.base.types import Floats
from discreet.learners.apvi import APVI
from discreet.learners.base import Problem
from discreet.mechanisms.release import Release
from discreet.mechanisms.sums.accumulator import SimulatedNoise
from discreet.recipes.targets import Central, NoPrivacy
from discreet.simulation.data_sets import BehaviourUsers, privatizer_for
from discreet.worlds.planning.backward_induction import best_policy
from discreet.worlds.random_worlds import worlds_of_shape
from discreet.worlds.tabular import TabularWorld

LEARNERS = {
    "default": APVI(),
    "no fallback": APVI(fallback=False),
    "tight": APVI(penalty="tight"),
    "tight .1": APVI(penalty="tight", penalty_scale=0.1),
    "tight 0": APVI(penalty="tight", penalty_scale=0.0),
}
TARGETS = {
    "rho .3": Central(rho=0.3), "rho 1": Central(rho=1.0), "rho 4": Central(rho=4.0),
    "(1, 1e-6)": Central(1.0, 1e-6), "none": NoPrivacy(),
}  # fmt: skip
COUNTS = (1_000, 4_000, 20_000, 100_000)


def mixing(states: int, actions: int, horizon: int, *, homogeneous: bool = False) -> Callable[[int], TabularWorld]:
    """Successors Dirichlet(0.3), rewards the square of a uniform number: high ones are rare."""

    def draw(seed: int) -> TabularWorld:
        rng = np.random.default_rng([12, seed])
        rows = (states, actions) if homogeneous else (horizon, states, actions)
        return worlds.from_arrays(
            rng.dirichlet(np.full(states, 0.3), size=rows), rng.random(rows) ** 2, horizon=horizon
        )

    return draw


def of_shape(kind: str, shape: Shape) -> Callable[[int], TabularWorld]:
    """Random worlds of the kinds that rehearsals play in."""
    (family,) = [family for family in worlds_of_shape(shape) if family.name == f"{kind}-world"]
    return family.draw


HALVES: dict[str, dict[str, Callable[[int], TabularWorld]]] = {
    "tuning": {
        "mixing 8x3": mixing(8, 3, 6),
        "RiverSwim-6": lambda _: worlds.river_swim(states=6, horizon=10).with_time(homogeneous=False),
        "mixing 8x3 pooled": mixing(8, 3, 6, homogeneous=True),
        "corridor 6x2 pooled": of_shape("corridor", Shape(6, 2, 10, homogeneous=True)),
    },
    "validation": {
        "mixing 12x4": mixing(12, 4, 8),
        "sparse 6x2": of_shape("sparse", Shape(6, 2, 8)),
        "corridor 5x3": of_shape("corridor", Shape(5, 3, 6)),
        "machine repair": lambda _: worlds.machine_repair(4, 10).with_time(homogeneous=False),
        "machine repair pooled": lambda _: worlds.machine_repair(4, 10),
        "sparse 8x3 pooled": of_shape("sparse", Shape(8, 3, 8, homogeneous=True)),
    },
}


def behaviours(world: TabularWorld) -> dict[str, Floats]:
    """Users who act evenly, mostly well, mostly badly, or mostly by the first action."""
    shape, even = world.shape, uniform_policy(world.shape).probabilities
    first = np.full(shape.actions, 0.4 / (shape.actions - 1))
    first[0] = 0.6
    best = world.optimal()[1].stochastic(shape.actions).probabilities
    laws, means = (table[0] if len(table) == 1 else table for table in (world.transitions, world.means))
    worst = best_policy(laws, 1.0 - np.asarray(means), shape.horizon)[0]
    return {
        "even": even,
        "good": 0.8 * best + 0.2 * even,
        "bad": 0.7 * worst.stochastic(shape.actions).probabilities + 0.3 * even,
        "first": np.ascontiguousarray(np.broadcast_to(first, even.shape)),
    }


def release_of(world: TabularWorld, behaviour: Floats, users: int, target: str, seed: list[int]) -> Release:
    """One release of one data set."""
    rng = np.random.default_rng(seed)
    people = BehaviourUsers(world, StochasticPolicy(behaviour), stream(int(rng.integers(2**31)), 0, USERS), rng)
    learner = APVI()
    privatizer = privatizer_for(learner, TARGETS[target], world.shape, users)
    asked = learner.ask(learner.init(Problem(world.shape, users), np.zeros(1, np.uint64)))
    return privatizer.open(people, SimulatedNoise(rng), users).answer(asked)


def rows(
    half: str, counts: list[int], runs: int, seed: int, done: set[tuple[object, ...]]
) -> Iterator[dict[str, object]]:
    """The gaps of all learners in every cell and run that is not done."""
    for run in range(runs):
        for place, draw in HALVES[half].items():
            world = draw(seed + run)
            for usual, behaviour in behaviours(world).items():
                for users in counts:
                    for number, target in enumerate(TARGETS):
                        if (place, usual, users, target, seed + run) in done:
                            continue
                        given = release_of(world, behaviour, users, target, [seed, run, users, number, len(usual)])
                        problem, coins = Problem(world.shape, users), np.zeros(1, np.uint64)
                        plans = {name: learner.plan(problem, coins, given) for name, learner in LEARNERS.items()}
                        yield {
                            "world": place, "behaviour": usual, "users": users, "target": target, "seed": seed + run,
                            "uniform": world.gap(uniform_policy(world.shape)),
                            "users_gap": world.gap(StochasticPolicy(behaviour)),
                            "gaps": {name: world.gap(state.policy) for name, state in plans.items()},
                        }  # fmt: skip


def table(found: list[dict[str, object]]) -> str:
    """Gaps as shares of uniform play's, mean and standard error over worlds and runs; and the worst against users."""
    names = list(LEARNERS)
    by: dict[tuple[object, ...], list[list[float]]] = defaultdict(list)
    cells: dict[tuple[object, ...], list[list[float]]] = defaultdict(list)
    for row in found:
        gaps, unit = row["gaps"], row["uniform"]
        by[row["users"], row["target"]].append([gaps[name] / unit for name in names])  # type: ignore[index,operator]
        key = (row["world"], row["behaviour"], row["users"], row["target"])
        cells[key].append([(gaps[name] - row["users_gap"]) / unit for name in names])  # type: ignore[index,operator]
    lines = ["| users | target | " + " | ".join(names) + " |", "|" + "---|" * (len(names) + 2)]
    for (users, target), shares in sorted(by.items(), key=str):
        mean, error = np.mean(shares, axis=0), np.std(shares, axis=0, ddof=1) / np.sqrt(len(shares))
        numbers = " | ".join(f"{m:.3f} ± {e:.3f}" for m, e in zip(mean, error, strict=True))
        lines.append(f"| {users:,} | {target} | {numbers} |")
    for i, name in enumerate(names):
        beyond = []
        for key, values in cells.items():
            excess = np.array(values)[:, i]
            error = float(np.std(excess, ddof=1)) / len(excess) ** 0.5 if len(excess) > 1 else np.inf
            beyond.append((float(excess.mean()), float(excess.mean()) > max(0.01, 2 * error), key))
        worst = max(beyond, key=lambda cell: cell[0])
        lines.append(
            f"{name}: {sum(cell[1] for cell in beyond)} of {len(beyond)} cells below the users by more than two "
            f"standard errors and 1% of uniform play's gap; worst {worst[0]:+.3f} {worst[2]}"
        )
    return "\n".join(lines)


def main() -> None:
    """Run cells, or print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--half", choices=tuple(HALVES), default="validation")
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--users", type=int, nargs="+", default=list(COUNTS))
    given = parser.parse_args()
    found = [json.loads(line) for line in given.file.read_text().splitlines()] if given.file.exists() else []
    if given.what == "run":
        done = {(r["world"], r["behaviour"], r["users"], r["target"], r["seed"]) for r in found}
        with given.file.open("a") as file:
            for row in rows(given.half, given.users, given.runs, given.seed, done):
                print(json.dumps(row), file=file, flush=True)
    else:
        print(table(found))


if __name__ == "__main__":
    main()
