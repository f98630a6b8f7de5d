"""The variance that accumulators state is the variance that their releases have.

For n independent cells the sample mean of squares has relative deviation sqrt((kurtosis - 1) / n), and no law here has
a kurtosis above 6.1 (one draw of discrete Laplace at scale 4). Six of them are allowed: a false-alarm rate below 1e-6
per comparison, 1e-4 for the file; seeds are fixed. Noise of 2/3 and 3/2 of the scale must be rejected.
"""

from __future__ import annotations

import numpy as np
import pytest

from discreet.base.streams import NOISE, stream
from discreet.mechanisms.sums.accumulator import SimulatedNoise, advance, draws_at
from discreet.mechanisms.sums.blocks import Blocks, Total
from discreet.mechanisms.sums.tree import Tree
from discreet.noise import DiscreteGaussian, DiscreteLaplace

pytestmark = pytest.mark.slow

CELLS = 20_000
ROWS = (1, CELLS // 2, 1)


def agrees(values: np.ndarray, variance: float) -> bool:
    return abs(np.mean(values**2) / variance - 1) < 6 * np.sqrt(5.1 / len(values))


def check(values: np.ndarray, make, scale: float, copies: int) -> None:
    assert agrees(values, make(scale).variance * copies)
    for wrong in (2 / 3, 3 / 2):
        assert not agrees(values, make(scale * wrong).variance * copies)
    assert not agrees(values, make(scale).variance * (copies + 1))


@pytest.mark.parametrize("make", [DiscreteLaplace, DiscreteGaussian])
@pytest.mark.parametrize("accumulator", [Blocks(), Total(), Tree(3)], ids=lambda a: a.name)
def test_copies_times_the_variance_of_one_draw(accumulator, make):
    run = accumulator.start(CELLS, ROWS, make(4.0), SimulatedNoise(np.random.default_rng(17)))
    for users in (2, 1, 1):
        run.add(np.zeros(CELLS), users, np.ones(ROWS, bool), np.ones(CELLS, bool))
    check(run.values, make, 4.0, int(run.copies[0, 0, 0]))


def test_rows_that_were_masked_for_a_while_have_less_noise():
    run = Blocks().start(CELLS, ROWS, DiscreteLaplace(4.0), SimulatedNoise(np.random.default_rng(18)))
    half = np.arange(CELLS // 2) % 2 == 0
    rows, cells = half.reshape(ROWS), np.repeat(half, 2)
    everything = np.ones(ROWS, bool), np.ones(CELLS, bool)
    for mask in (everything, (rows, cells), (rows, cells)):
        run.add(np.zeros(CELLS), 1, *mask)
    assert agrees(run.values[cells], 3 * DiscreteLaplace(4.0).variance)
    assert agrees(run.values[~cells], DiscreteLaplace(4.0).variance)
    assert not agrees(run.values[~cells], 3 * DiscreteLaplace(4.0).variance)


@pytest.mark.parametrize("make", [DiscreteLaplace, DiscreteGaussian])
@pytest.mark.parametrize("t", [7, 8, 11])
def test_the_compiled_tree_has_the_law_of_the_one_in_python(make, t):
    arrays, cells, state = Tree(11).arrays(CELLS), np.zeros(CELLS), stream(6, 0, NOISE)
    run = Tree(11).start(CELLS, ROWS, make(4.0), SimulatedNoise(np.random.default_rng(19)))
    for time in range(1, t + 1):
        advance(arrays, time, make(4.0).kernel(), cells, state)
        run.add(np.zeros(CELLS), 1, np.ones(ROWS, bool), np.ones(CELLS, bool))
    assert draws_at(arrays, t) == run.copies[0, 0, 0]
    for values in (cells, run.values):
        check(values, make, 4.0, draws_at(arrays, t))
