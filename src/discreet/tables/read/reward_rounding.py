"""Rewards become levels by random rounding, with coins of our own: an engine only counts.

A reward lies at a position between two neighbouring levels, on a grid of n points. Engines count, for every cell and
pair of levels, the rows c and the sum f of their positions above the lower level. Of the c rows

    up = floor((f + U) / n),   U uniform on 0 .. n - 1, one for each cell and pair of levels

are put on the upper level and the rest on the lower one. Each is within one of f / n, and its mean is f / n exactly, so
this is quieter than a coin for every row.

**Formal guarantees.** Whatever U is: if k rows of one user leave a cell and j enter, f changes by between -n k and n j,
so up changes by a whole number between -k and j, and the cell as a whole by j - k. That is what k rows that leave and j
that enter could do if each were rounded by itself, so the sensitivities are those of rows that are rounded one by one.
U is a scrambled number of the cell, with a seed from the operating system: neighbouring tables see the same coins.
"""

from __future__ import annotations

import secrets
from typing import NamedTuple

import numpy as np

from discreet.base.types import Integers, NDArray
from discreet.mechanisms.counts.joint_histogram import JointCounts

_GOLDEN, _FIRST, _SECOND = (np.uint64(word) for word in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


class CellSums(NamedTuple):
    """What an engine counts: for each occurring (cell, lower level) its rows and the sum of their positions above it.

    ``keys`` number the cells and the lower level, the level last; none occurs twice.
    """

    keys: Integers
    counts: Integers
    above: Integers

    def __repr__(self) -> str:
        return f"<CellSums of {len(self.keys)} cells, contents not shown>"


def coin_seed() -> int:
    """A fresh seed from the operating system."""
    return secrets.randbits(64)


def rounded(sums: CellSums, levels: int, grid: int, seed: int) -> JointCounts:
    """The joint histogram over levels; ``grid`` is a power of two."""
    up = (sums.above + _coins(sums.keys, grid, seed)) // grid
    lower = sums.keys // (levels - 1) * levels + sums.keys % (levels - 1)
    keys, where = np.unique(np.concatenate([lower, lower + 1]), return_inverse=True)
    counts = np.zeros(len(keys), np.int64)
    np.add.at(counts, where, np.concatenate([sums.counts - up, up]))
    return JointCounts(keys[counts > 0], counts[counts > 0], levels)


def _coins(keys: Integers, grid: int, seed: int) -> Integers:
    """A number below the grid for every key (SplitMix64), the same whatever other keys there are."""
    word: NDArray[np.uint64] = keys.astype(np.uint64) * _GOLDEN + np.uint64(seed)
    for shift, factor in ((30, _FIRST), (27, _SECOND)):
        word = (word ^ (word >> np.uint64(shift))) * factor
    return ((word ^ (word >> np.uint64(31))) & np.uint64(grid - 1)).astype(np.int64)
