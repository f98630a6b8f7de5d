"""Accumulators of the central model in numbers: ``python -m experiments.central``.

A million releases of 2,000 counters by the tree and the matrix mechanism.
"""

from __future__ import annotations

import math
import resource
import time
from collections.abc import Callable

import numpy as np

from discreet.base.compiled import kernel
from discreet.base.streams import NOISE, stream
from discreet.mechanisms.sums.accumulator import advance
from discreet.mechanisms.sums.matrix import Matrix
from discreet.mechanisms.sums.tree import Tree
from discreet.noise import Gaussian, GridGaussian


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


if __name__ == "__main__":
    counters()
