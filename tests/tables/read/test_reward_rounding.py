"""Random rounding of sums: exact totals, no bias, and no move that rows rounded one by one could not make."""

from __future__ import annotations

import numpy as np

from discreet.tables.read.reward_rounding import CellSums, coin_seed, rounded

GRID = 16


def sums(rows, levels):
    """What an engine counts of rows (cell, position)."""
    found = {}
    for cell, position in rows:
        level = min(position // GRID, levels - 2)
        count, above = found.get(cell * (levels - 1) + level, (0, 0))
        found[cell * (levels - 1) + level] = count + 1, above + position - level * GRID
    keys = np.array(sorted(found), np.int64)
    return CellSums(keys, *(np.array([found[key][i] for key in keys.tolist()], np.int64) for i in (0, 1)))


def dense(joint, cells):
    out = np.zeros(cells * joint.levels, np.int64)
    out[joint.keys] = joint.counts
    return out.reshape(cells, joint.levels)


def test_totals_are_kept_and_means_are_right():
    rng = np.random.default_rng(0)
    for levels in (2, 5):
        rows = [(int(rng.integers(3)), int(rng.integers((levels - 1) * GRID + 1))) for _ in range(40)]
        draws = np.array([dense(rounded(sums(rows, levels), levels, GRID, seed), 3) for seed in range(4000)])
        for cell in range(3):
            positions = [position for where, position in rows if where == cell]
            assert (draws[:, cell].sum(axis=1) == len(positions)).all()
            means = (draws[:, cell] @ np.arange(levels)).mean() * GRID
            # A sum of at most four variables that are within one of their mean, half a grid each: six deviations.
            assert abs(means - sum(positions)) < 6 * GRID * 0.5 * 2 / np.sqrt(4000)


def test_ends_of_the_range_are_not_random():
    joint = rounded(sums([(0, 0), (0, GRID), (0, GRID)], 2), 2, GRID, coin_seed())
    assert dense(joint, 1).tolist() == [[1, 2]]


def test_moves_are_those_of_whole_rows():
    """k rows leave a cell and j enter: both levels together move by j - k, the upper one by between -k and j."""
    rng = np.random.default_rng(1)
    for _ in range(2000):
        kept = [(0, int(rng.integers(GRID + 1))) for _ in range(rng.integers(6))]
        k, j = rng.integers(4, size=2)
        left, entered = ([(0, int(rng.integers(GRID + 1))) for _ in range(many)] for many in (k, j))
        seed = int(rng.integers(2**62))
        before, after = (dense(rounded(sums(kept + own, 2), 2, GRID, seed), 1)[0] for own in (left, entered))
        assert (after - before).sum() == j - k
        assert -k <= after[1] - before[1] <= j


def test_other_cells_keep_their_coins():
    few, many = sums([(4, 3)], 2), sums([(1, 5), (4, 3), (7, 9)], 2)
    for seed in range(50):
        assert dense(rounded(few, 2, GRID, seed), 8)[4].tolist() == dense(rounded(many, 2, GRID, seed), 8)[4].tolist()


def test_seeds_differ():
    assert len({coin_seed() for _ in range(10)}) == 10
