"""The binary tree: a release after every user whose noise grows with the logarithm of their number.

User t is in the nodes that cover her, at most ``levels`` = floor(log2 T) + 1 of them; the release after user t sums the
nodes of the binary digits of t. A user therefore moves at most ``levels`` noisy vectors, each by her own shift.

Only the noise of the current release is needed, so the tree is kept in prefix form: ``prefix[i]`` is the noise of all
nodes at digit i or above. When digit i becomes the lowest set digit of t, a fresh node is drawn once and added to the
prefix of the next set digit: one draw and one addition per cell and user, and memory levels x cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet.accumulators.base import NoiseSource
from discreet.accumulators.compiled import advance, draws_at
from discreet.errors import Unsupported
from discreet.noise.kernels import add_noise
from discreet.streams import Stream
from discreet.validation import check_count


class TreeArrays(NamedTuple):
    prefix: NDArray[np.float64]  # (levels + 1, cells); the last row stays zero
    current: NDArray[np.int64]  # the row of the last release


@dataclass(frozen=True)
class Tree:
    """Binary counting over up to ``users`` users."""

    users: int
    name: str = "tree"

    def __post_init__(self) -> None:
        check_count("users", self.users)

    @property
    def levels(self) -> int:
        """In how many nodes one user can be."""
        return self.users.bit_length()

    def start(self, size: int, rows: tuple[int, int, int], law: Any, noise: NoiseSource) -> TreeRun:
        return TreeRun(self.levels, size, rows, law, noise)

    def arrays(self, size: int) -> TreeArrays:
        """The compiled form, for a release after every user."""
        return TreeArrays(np.zeros((self.levels + 1, size)), np.full(1, self.levels, np.int64))


class TreeRun:
    """Counting over batches: time advances by one batch per release."""

    def __init__(self, levels: int, size: int, rows: tuple[int, int, int], law: Any, noise: NoiseSource) -> None:
        self.values = np.zeros(size)
        self.copies = np.zeros(rows, np.int64)
        self._law, self._noise = law, noise
        self._prefix = np.zeros((levels + 1, size))
        self._time, self._current = 0, levels

    def add(
        self,
        tally: NDArray[np.float64],
        users: int,
        rows: NDArray[np.bool_],
        cells: NDArray[np.bool_],
    ) -> None:
        if not rows.all():
            raise Unsupported(
                "a node of the tree spans several policies, so no single one may mask it: set masked=False"
            )
        self._time += 1
        low = lowest_digit(self._time)
        above = next_digit(self._time, low, self._prefix.shape[0] - 1)
        before = self._prefix[self._current].copy()
        self._prefix[low] = self._prefix[above]
        self._prefix[low, cells] += self._noise.draw(self._law, 1, int(np.count_nonzero(cells)))
        self.values += tally + self._prefix[low] - before
        self._current = low
        self.copies[:] = self._time.bit_count()


def lowest_digit(t: int) -> int:
    """The position of the lowest set binary digit."""
    return (t & -t).bit_length() - 1


def next_digit(t: int, low: int, none: int) -> int:
    """The position of the next set digit above ``low``, or ``none``."""
    rest = t >> (low + 1)
    return low + 1 + lowest_digit(rest) if rest else none


@advance.implement(TreeArrays)
def _advance(tree: TreeArrays, t: int, law: Any, cells: NDArray[np.float64], stream: Stream) -> None:
    low = 0
    while (t >> low) & 1 == 0:
        low += 1
    above = low + 1
    while (t >> above) != 0 and (t >> above) & 1 == 0:
        above += 1
    if (t >> above) == 0:
        above = tree.prefix.shape[0] - 1
    # The row written now is never the row of the last release: digit 0 is the lowest of every other t only.
    old, new, base = tree.prefix[tree.current[0]], tree.prefix[low], tree.prefix[above]
    for i in range(cells.shape[0]):
        new[i] = base[i]
    add_noise(law, new, stream)
    for i in range(cells.shape[0]):
        cells[i] += new[i] - old[i]
    tree.current[0] = low


@draws_at.implement(TreeArrays)
def _draws_at(tree: TreeArrays, t: int) -> int:
    digits = 0
    while t:
        digits += t & 1
        t >>= 1
    return digits
