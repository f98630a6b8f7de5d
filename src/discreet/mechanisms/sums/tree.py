"""The binary tree: a release after every user whose noise grows with the logarithm of their number.

User t is in the nodes that cover her, at most ``levels`` = floor(log2 T) + 1 of them; the release after user t sums the
nodes of the binary digits of t. A user therefore moves at most ``levels`` noisy vectors, each by her own shift.

Only the noise of the current release is needed, so the tree is kept in prefix form: ``prefix[i]`` is the noise of all
nodes at digit i or above. When digit i becomes the lowest set digit of t, a fresh node is drawn once and added to the
prefix of the next set digit: one draw and one addition per cell and user, and memory levels x cells.

``EqualLawTree`` adds a fresh draw for every zero digit too, so that the noise of every release has the same law
(follow-the-leader analyses need that). The extra draws are post-processing and cost no privacy.

**Why even and equal-law trees are charged for every node.** Their fresh draws hide nodes, too, and with continuous
noise the same argument would charge an even tree for 2.8 of 6 levels. But they ship whole numbers, and a sum of whole
draws is not as private as its covariance says: with three users and sigma = 1/2 the Renyi divergence of order 3/2 is 4%
above that of a Gaussian with the same covariance (a test computes both). The more releases a node is in, the sharper
their average shows its whole number. What all nodes cost together bounds everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from discreet.base.errors import Unsupported
from discreet.base.saved_arrays import Saved, copies, taken_from, under
from discreet.base.streams import Stream
from discreet.base.types import Floats, Integers, Mask
from discreet.base.validation import check_count
from discreet.mechanisms.sums.accumulator import NoiseSource, advance, check_hidden, draws_at
from discreet.noise.distribution import Law, exchange_noise
from discreet.privacy.sensitivity import Sensitivity


class TreeArrays(NamedTuple):
    """The compiled tree in prefix form."""

    prefix: Floats  # (levels + 1, cells); the last row stays zero
    current: Integers  # the row of the last release


@dataclass(frozen=True)
class Tree:
    """Binary counting over up to ``users`` users."""

    users: int
    name: str = "tree"

    def __post_init__(self) -> None:
        object.__setattr__(self, "users", check_count("users", self.users))

    @property
    def levels(self) -> int:
        """The number of nodes that one user is in, at most: floor(log2 users) + 1."""
        return self.users.bit_length()

    def sensitivity(self, own: Sensitivity) -> Sensitivity:
        """She is in one node of every level."""
        return own.in_several_sums(self.levels)

    def start(self, size: int, rows: tuple[int, int, int], law: Law, noise: NoiseSource) -> TreeRun:
        """Begin a run."""
        return TreeRun(self.users, size, rows, law, noise)

    def arrays(self, size: int) -> TreeArrays:
        """The compiled form, for a release after every user."""
        return TreeArrays(np.zeros((self.levels + 1, size)), np.full(1, self.levels, np.int64))


@dataclass(frozen=True)
class EqualLawTree:
    """Binary counting whose releases all carry exactly ``levels`` draws of noise (marginally; they are dependent)."""

    users: int
    name: str = "equal-law tree"

    def __post_init__(self) -> None:
        object.__setattr__(self, "users", check_count("users", self.users))

    @property
    def levels(self) -> int:
        """The number of nodes that one user is in, at most: floor(log2 users) + 1."""
        return self.users.bit_length()

    def sensitivity(self, own: Sensitivity) -> Sensitivity:
        """She is in one node of every level."""
        return own.in_several_sums(self.levels)

    def start(self, size: int, rows: tuple[int, int, int], law: Law, noise: NoiseSource) -> EqualLawRun:
        """Begin a run."""
        return EqualLawRun(self.users, size, rows, law, noise)


class TreeRun:
    """Counting over batches: time advances by one batch per release, up to the ``releases`` that were paid for."""

    def __init__(self, releases: int, size: int, rows: tuple[int, int, int], law: Law, noise: NoiseSource) -> None:
        levels = releases.bit_length()
        self.values = np.zeros(size)
        self.copies = np.zeros(rows, np.int64)
        self._law, self._noise, self._releases = law, noise, releases
        self._prefix = np.zeros((levels + 1, size))
        self._time, self._current = 0, levels

    def add(
        self,
        tally: Floats,
        users: int,
        rows: Mask,
        cells: Mask,
    ) -> None:
        """Close a node: its noise comes, that of the nodes inside it goes."""
        if not rows.all():
            raise Unsupported(
                "a node of the tree spans several policies, so no single one may mask it: set masked=False"
            )
        if not self._noise.simulated:
            check_hidden(tally, self._law)
        self._time = next_release(self._time, self._releases)
        low = lowest_digit(self._time)
        above = next_digit(self._time, low, self._prefix.shape[0] - 1)
        before = self._prefix[self._current].copy()
        self._prefix[low] = self._prefix[above]
        self._prefix[low, cells] += self._noise.draw(self._law, 1, int(np.count_nonzero(cells)))
        self.values += tally + self._prefix[low] - before
        self._current = low
        self.copies[:] = self._time.bit_count()

    def save(self) -> Saved:
        """Releases and the clock are public. Nodes are secret: they are noise, and a release less its noise is raw."""
        public = copies(values=self.values, copies=self.copies, time=self._time, current=self._current)
        return Saved(public, copies(prefix=self._prefix))

    def load(self, saved: Saved) -> None:
        """Go on with these nodes."""
        public = saved.public
        self.values, self.copies = public["values"].copy(), public["copies"].copy()
        self._time, self._current = int(public["time"]), int(public["current"])
        self._prefix = saved.secret["prefix"].copy()


class EqualLawRun(TreeRun):
    """Counting with noise that is topped up to the same number of draws at every release."""

    def __init__(self, releases: int, size: int, rows: tuple[int, int, int], law: Law, noise: NoiseSource) -> None:
        super().__init__(releases, size, rows, law, noise)
        self._levels, self._extra = releases.bit_length(), np.zeros(size)

    def add(self, tally: Floats, users: int, rows: Mask, cells: Mask) -> None:
        """Close a node, and draw what is missing to the same number of draws."""
        super().add(tally, users, rows, cells)
        missing = self._levels - self._time.bit_count()
        extra = np.zeros_like(self._extra)
        if missing:
            extra[cells] = self._noise.draw(self._law, missing, int(np.count_nonzero(cells)))
        self.values += extra - self._extra
        self._extra = extra
        self.copies[:] = self._levels

    def save(self) -> Saved:
        """What the last release was filled up with is noise, too, and secret with the nodes."""
        tree = super().save()
        return Saved(tree.public, tree.secret | copies(extra=self._extra))

    def load(self, saved: Saved) -> None:
        """Go on with these nodes and this fill."""
        super().load(saved)
        self._extra = saved.secret["extra"].copy()


def next_release(released: int, paid: int) -> int:
    """The number of the next release. One more than were paid for would show users in one node more."""
    if released >= paid:
        raise Unsupported(f"all {paid} releases that this recipe was built for have been made: build it for more users")
    return released + 1


def lowest_digit(t: int) -> int:
    """The position of the lowest set binary digit."""
    return (t & -t).bit_length() - 1


def next_digit(t: int, low: int, none: int) -> int:
    """The position of the next set digit above ``low``, or ``none``."""
    rest = t >> (low + 1)
    return low + 1 + lowest_digit(rest) if rest else none


@advance.implement(TreeArrays)
def _advance(tree: TreeArrays, t: int, law: Any, cells: Floats, stream: Stream) -> None:
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
    exchange_noise(law, base, old, new, cells, stream)
    tree.current[0] = low


@draws_at.implement(TreeArrays)
def _draws_at(tree: TreeArrays, t: int) -> int:
    digits = 0
    while t:
        digits += t & 1
        t >>= 1
    return digits


class EvenTreeRun:
    """A tree's releases, filled up to the same number of draws."""

    def __init__(self, releases: int, size: int, rows: tuple[int, int, int], law: Law, noise: NoiseSource) -> None:
        self.values = np.zeros(size)
        self._levels, self._law, self._noise, self._time = releases.bit_length(), law, noise, 0
        self.copies = np.full(rows, self._levels, np.int64)
        self._tree = TreeRun(releases, size, rows, law, noise)

    def add(self, tally: Floats, users: int, rows: Mask, cells: Mask) -> None:
        """Close a node, and fill the release up with fresh draws."""
        self._tree.add(tally, users, rows, cells)
        self._time += 1
        self.values = self._tree.values.copy()
        missing = self._levels - self._time.bit_count()
        if missing:
            where = np.flatnonzero(cells)
            self.values[where] += self._noise.draw(self._law, missing, len(where))

    def save(self) -> Saved:
        """The tree inside is secret as a whole: what it would release carries less noise than what is released."""
        tree = under("tree", self._tree.save())
        return Saved(copies(values=self.values, time=self._time), tree.public | tree.secret)

    def load(self, saved: Saved) -> None:
        """Go on with this tree."""
        self.values, self._time = saved.public["values"].copy(), int(saved.public["time"])
        form, tree = self._tree.save(), taken_from("tree", Saved(saved.secret, {})).public
        self._tree.load(Saved({n: tree[n] for n in form.public}, {n: tree[n] for n in form.secret}))


@dataclass(frozen=True)
class EvenTree:
    """Binary counting over up to ``users`` users, every release with as many draws as there are levels."""

    users: int
    name: str = "even-tree"

    def __post_init__(self) -> None:
        object.__setattr__(self, "users", check_count("users", self.users))

    @property
    def levels(self) -> int:
        """The number of nodes that one user is in, at most: floor(log2 users) + 1."""
        return Tree(self.users).levels

    def sensitivity(self, own: Sensitivity) -> Sensitivity:
        """She is in one node of every level."""
        return own.in_several_sums(self.levels)

    def start(self, size: int, rows: tuple[int, int, int], law: Law, noise: NoiseSource) -> EvenTreeRun:
        """Begin a run."""
        return EvenTreeRun(self.users, size, rows, law, noise)
