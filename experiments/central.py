"""The central model in numbers: ``python -m experiments.central [PART ...]``, all parts if none is named.

``flagship``   RiverSwim-6, horizon 20, 20,000 episodes at (1, 1e-5) and at pure epsilon 1, and RiverSwim-4, horizon 6
``epsilon``    regret as epsilon falls, and the order non-private <= central <= local
``counters``   a million releases of 2,000 counters by the tree and the matrix mechanism

Seeds are those of the published tables. Knobs were chosen with other seeds, by one compromise over RiverSwim with 4 to
8 states and random worlds. Every row is a mean over runs with its standard error.
"""

from __future__ import annotations

import argparse
import math
import resource
import time
from collections.abc import Callable

import numpy as np

import discreet
from discreet.base.compiled import kernel
from discreet.base.policies import uniform_policy
from discreet.base.streams import NOISE, stream
from discreet.learners import UCBPO, UCBVI
from discreet.mechanisms.sums.accumulator import advance
from discreet.mechanisms.sums.matrix import Matrix
from discreet.mechanisms.sums.tree import Tree
from discreet.noise import Gaussian, GridGaussian
from discreet.recipes.targets import Privacy
from discreet.worlds import river_swim
from discreet.worlds.tabular import TabularWorld

SEED = 20_261_116
DELTA = 1e-5


def row(label: str, world: TabularWorld, learner: object, privacy: Privacy, episodes: int, runs: int) -> float:
    """Run, print one line, return the mean regret."""
    result = discreet.simulate(world, learner, privacy, episodes=episodes, runs=runs, seed=SEED)  # type: ignore[arg-type]
    regret = result.regret[:, -1]
    error = regret.std(ddof=1) / math.sqrt(runs)
    print(
        f"| {label} | {result.recipe} | {regret.mean():,.0f} ± {error:,.0f} | {regret.max():,.0f} "
        f"| {result.final_gap.mean():.3f} | {result.seconds:.1f} |",
        flush=True,
    )
    return float(regret.mean())


def head(title: str, world: TabularWorld, episodes: int) -> None:
    uniform = episodes * world.gap(uniform_policy(world.shape))
    print(f"\n{title}: {episodes:,} episodes, uniform play {uniform:,.0f}\n")
    print("| learner | recipe | regret | worst run | final gap | seconds |\n|---|---|---|---|---|---|")


def flagship() -> None:
    for states, horizon in ((6, 20), (4, 6)):
        world = river_swim(states, horizon)
        head(f"RiverSwim-{states}, horizon {horizon}", world, 20_000)
        for privacy, what in (
            (discreet.Central(1.0, DELTA), "(1, 1e-5)"),
            (discreet.Central(1.0, DELTA, recipe="central/focused-first-visit-gaussian"), "(1, 1e-5)"),
            (discreet.Central(1.0), "pure 1"),
        ):
            for learner in (UCBVI(), UCBPO()):
                row(f"{learner.name}, {what}", world, learner, privacy, 20_000, runs=20)
        fifty = discreet.Central(1e6, recipe="central/first-visit-laplace", options={"blocks": 50})
        row("ucbvi, (almost) no noise, 50 blocks", world, UCBVI(), fifty, 20_000, runs=20)


def epsilons() -> None:
    world = river_swim(5, 12)
    head("RiverSwim-5, horizon 12", world, 20_000)
    row("ucbvi, none", world, UCBVI(), discreet.NoPrivacy(), 20_000, runs=10)
    for epsilon in (8.0, 4.0, 2.0, 1.0, 0.5, 0.25):
        for learner in (UCBVI(), UCBPO()):
            row(
                f"{learner.name}, ({epsilon:g}, 1e-5)",
                world,
                learner,
                discreet.Central(epsilon, DELTA),
                20_000,
                runs=10,
            )
        row(f"ucbvi, pure {epsilon:g}", world, UCBVI(), discreet.Central(epsilon), 20_000, runs=10)
        row(f"ucbvi, local {epsilon:g}", world, UCBVI(), discreet.Local(epsilon), 20_000, runs=10)


@kernel
def _count(accumulator, law, cells, draws, done, until):  # type: ignore[no-untyped-def]
    for t in range(done, until):
        cells[t % cells.shape[0]] += 1.0
        advance(accumulator, t + 1, law, cells, draws)


def counters(releases: int = 1_000_000, size: int = 2_000) -> None:
    print(f"\n{releases:,} releases of {size:,} counters, Gaussian noise\n")
    print("| accumulator | seconds | largest resident memory, GB | sd of the last release at (1, 1e-5), L2 = 1 |")
    print("|---|---|---|---|")
    makers: dict[str, Callable[[int], Tree | Matrix]] = {"tree": Tree, "matrix": Matrix}
    for name, make in makers.items():
        accumulator = make(releases)
        cells, draws = np.zeros(size), stream(0, 0, NOISE)
        law = (GridGaussian(1.0, accumulator.bits) if isinstance(accumulator, Matrix) else Gaussian(1.0)).kernel()
        arrays = accumulator.arrays(size)
        _count(arrays, law, cells, draws, 0, 1)
        began = time.perf_counter()
        _count(arrays, law, cells, draws, 1, releases)
        seconds = time.perf_counter() - began
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"| {name} | {seconds:.0f} | {memory:.2f} | {_deviation(accumulator):.1f} |", flush=True)


def _deviation(accumulator: Tree | Matrix) -> float:
    """Of a count in the last release, for a user who moves one counter by one."""
    unit = 3.7304  # the deviation of Gaussian noise at (1, 1e-5) and L2 sensitivity 1
    if isinstance(accumulator, Tree):
        return unit * math.sqrt(accumulator.levels * accumulator.users.bit_count())
    return unit * accumulator.column_norm * math.sqrt(accumulator.errors()[-1])


PARTS: dict[str, Callable[[], None]] = {
    "flagship": flagship, "epsilon": epsilons, "counters": counters
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    for part in parser.parse_args().parts or PARTS:
        PARTS[part]()


if __name__ == "__main__":
    main()
