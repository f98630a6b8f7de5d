"""Accumulators for learners that move after every user: her own message alone, and a tree of even noise.

``Stream`` releases each user's noisy vector by itself and never a sum: bandit losses are divided by a probability that
changes with every user, so sums would be of no use. Her message is as private by itself as one draw of noise makes it.
With ``blocks`` it is a block of users who share one policy that is released by itself, with one draw for all of them.

``EvenTree`` is the binary tree with a fresh draw for every digit of t that is zero, so that all releases carry the same
number of draws. The extra noise is added to what the tree has released already: it costs error and no privacy. Some
proofs ask for releases of one law; these are of one law and still not independent of each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.accumulators.base import NoiseSource
from discreet.accumulators.tree import Tree, TreeRun
from discreet.errors import Unsupported
from discreet.validation import check_count


class StreamRun:
    """The noisy vector of the last user, or of the last block of them."""

    def __init__(self, size: int, rows: tuple[int, int, int], law: Any, noise: NoiseSource, blocks: bool) -> None:
        self.values = np.zeros(size)
        self.copies = np.ones(rows, np.int64)
        self._law, self._noise, self._blocks = law, noise, blocks

    def add(self, tally: NDArray[np.float64], users: int, rows: NDArray[np.bool_], cells: NDArray[np.bool_]) -> None:
        if users != 1 and not self._blocks:
            raise Unsupported(f"a stream releases every user by herself, not {users} together")
        if not rows.all():
            raise Unsupported("a stream is not masked: set masked=False")
        where = np.flatnonzero(cells)
        self.values = tally.astype(np.float64)
        self.values[where] += self._noise.draw(self._law, 1, len(where))


@dataclass(frozen=True)
class Stream:
    """Each user's vector (or each block's sum of vectors) is released by itself, with noise of its own."""

    blocks: bool = False
    name: str = "stream"

    def start(self, size: int, rows: tuple[int, int, int], law: Any, noise: NoiseSource) -> StreamRun:
        return StreamRun(size, rows, law, noise, self.blocks)


class EvenTreeRun:
    """A tree's releases, filled up to the same number of draws."""

    def __init__(self, levels: int, size: int, rows: tuple[int, int, int], law: Any, noise: NoiseSource) -> None:
        self.values = np.zeros(size)
        self.copies = np.full(rows, levels, np.int64)
        self._levels, self._law, self._noise, self._time = levels, law, noise, 0
        self._tree = TreeRun(levels, size, rows, law, noise)

    def add(self, tally: NDArray[np.float64], users: int, rows: NDArray[np.bool_], cells: NDArray[np.bool_]) -> None:
        self._tree.add(tally, users, rows, cells)
        self._time += 1
        self.values = self._tree.values.copy()
        missing = self._levels - self._time.bit_count()
        if missing:
            where = np.flatnonzero(cells)
            self.values[where] += self._noise.draw(self._law, missing, len(where))


@dataclass(frozen=True)
class EvenTree:
    """Binary counting over up to ``users`` users, every release with as many draws as there are levels."""

    users: int
    name: str = "even-tree"

    def __post_init__(self) -> None:
        check_count("users", self.users)

    @property
    def levels(self) -> int:
        """In how many nodes one user can be."""
        return Tree(self.users).levels

    def start(self, size: int, rows: tuple[int, int, int], law: Any, noise: NoiseSource) -> EvenTreeRun:
        return EvenTreeRun(self.levels, size, rows, law, noise)
