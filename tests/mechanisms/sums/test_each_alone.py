"""Streams release one user at a time; the even tree counts exactly and carries the same noise everywhere."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.base.errors import Unsupported
from discreet.mechanisms.sums.accumulator import SimulatedNoise
from discreet.mechanisms.sums.blocks import EachAlone
from discreet.mechanisms.sums.tree import EvenTree
from discreet.noise import DiscreteLaplace, NoNoise

ROWS, CELLS = np.ones((1, 1, 2), np.bool_), np.ones(2, np.bool_)


class CountingNoise(SimulatedNoise):
    """Draws zeros and remembers how many draws each release asked for."""

    def __init__(self):
        super().__init__(np.random.default_rng(0))
        self.draws = 0

    def draw(self, law, copies, size):
        self.draws += copies
        return np.zeros(size)


def test_a_stream_releases_the_last_user_alone():
    run = EachAlone().start(2, (1, 1, 2), NoNoise(), SimulatedNoise(np.random.default_rng(0)))
    for tally in ([1.0, 0.0], [0.0, 3.0]):
        run.add(np.array(tally), 1, ROWS, CELLS)
        np.testing.assert_array_equal(run.values, tally)
    assert (run.copies == 1).all()


def test_a_stream_refuses_several_users_at_once_and_masks():
    run = EachAlone().start(2, (1, 1, 2), NoNoise(), SimulatedNoise(np.random.default_rng(0)))
    with pytest.raises(Unsupported, match="by herself"):
        run.add(np.zeros(2), 2, ROWS, CELLS)
    with pytest.raises(Unsupported, match="masked"):
        run.add(np.zeros(2), 1, np.zeros((1, 1, 2), np.bool_), CELLS)


def test_a_stream_of_blocks_releases_the_last_block_alone_with_one_draw():
    noise = CountingNoise()
    run = EachAlone(blocks=True).start(2, (1, 1, 2), DiscreteLaplace(1.0), noise)
    for users, tally in ((5, [5.0, 1.0]), (7, [0.0, 3.0])):
        before = noise.draws
        run.add(np.array(tally), users, ROWS, CELLS)
        np.testing.assert_array_equal(run.values, tally)
        assert noise.draws - before == 1
    assert (run.copies == 1).all()


@pytest.mark.parametrize("users", [1, 7, 8, 13])
def test_an_even_tree_counts_everybody_and_always_draws_for_all_levels(users):
    noise = CountingNoise()
    tree = EvenTree(users)
    run = tree.start(2, (1, 1, 2), DiscreteLaplace(1.0), noise)
    for t in range(1, users + 1):
        before = noise.draws
        run.add(np.array([1.0, 2.0]), 1, ROWS, CELLS)
        np.testing.assert_array_equal(run.values, [t, 2 * t])
        assert noise.draws - before == 1 + tree.levels - t.bit_count()  # the node that closes, and one per zero digit
        assert (run.copies == tree.levels).all()


def test_the_noise_of_an_even_tree_has_one_variance():
    """Release t of 7 has 3 draws: 20,000 runs, 5 standard errors (excess kurtosis of a sum of 3 is 1)."""
    law, runs = DiscreteLaplace(4.0), 20_000
    run = EvenTree(7).start(runs, (1, 1, 1), law, SimulatedNoise(np.random.default_rng(5)))
    for _ in range(7):
        run.add(np.zeros(runs), 1, np.ones((1, 1, 1), np.bool_), np.ones(runs, np.bool_))
        ratio = run.values.var() / (3 * law.variance)
        assert abs(ratio - 1) < 5 * np.sqrt(3 / runs)
        assert abs(run.values.var() / (2 * law.variance) - 1) > 5 * np.sqrt(3 / runs)  # the twin: one draw too few
