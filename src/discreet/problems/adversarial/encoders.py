"""What a user of a layered problem leaves behind: one cell per step of her path, or her whole table of losses.

=======================  ==========================  =============================================================
encoder                  cells                       what replacing a user moves
=======================  ==========================  =============================================================
``LayeredTransitions``   (x, a, x'), layers 0..H-2   one cell down and one up per step: L1 = 2 (H - 1)
``LayeredVisits``        (x, a)                      the same over all layers: L1 = 2 H
``ObservedLosses``       (x, a), her loss if visited the same, each by at most one: L1 = 2 H
``LossBits``             (x, a, bit of her loss)     one cell down and one up per step: L1 = 2 H
``SignedLosses``         (x, a), +1 lost, -1 not     two cells by one, or one by two, per step: L1 = 2 H
``LossTable``            (x, a), her loss anywhere   every cell by at most one: L1 = d, L-infinity = 1
=======================  ==========================  =============================================================

The last step into the end is certain and needs no count. A layer with a single cell moves one way only: a record that
ends early, or strays, leaves it empty. Losses in [0, 1] enter as one bit each, by stochastic rounding, so that
everything released is a whole number; the bits are unbiased and lie in [0, 1] as the losses do, which is all that the
learners' regret bounds use.

``LossBits`` counts zeros beside ones, for the same sensitivity. Ones less zeros is twice the loss above one half,
summed over visits; half of it has half the noise variance of ``ObservedLosses``, and adding one number to all losses of
a layer changes nobody's regret. ``SignedLosses`` adds this difference up as it is: its L1 norm is the same and it gets
one draw of noise in place of two, so the variance is halved once more if noise follows the L1 norm (Laplace). Noise
that follows the L2 norm gains nothing, because one cell may move by two.

A step outside its layer is dropped: a fixed public rule that never aborts on content.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np

from discreet.base.compiled import kernel
from discreet.base.shape import LayeredShape
from discreet.base.streams import Stream
from discreet.base.types import Floats, Integers, Mask, NDArray
from discreet.mechanisms.counts.encoder import Cells, LaidOut, Statistic, encode_into, reward_bit
from discreet.privacy.sensitivity import Sensitivity


class TripleArrays(NamedTuple):
    """What the kernel that counts (x, a, x') needs to know: the sizes of the layers and where their cells begin."""

    actions: int
    sizes: Integers  # (H + 1,)
    first: Integers  # (H,) the first cell of each layer


class PairArrays(NamedTuple):
    """What the kernel that counts (x, a), or adds losses there, needs to know about the layers."""

    actions: int
    sizes: Integers
    first: Integers
    losses: bool
    rounded: bool
    signed: bool = False  # one down where nothing is lost


class BitArrays(NamedTuple):
    """What the kernel that counts (x, a, bit) needs to know; the cells of all zeros come first, then those of ones."""

    actions: int
    sizes: Integers
    first: Integers
    pairs: int
    rounded: bool


@dataclass(frozen=True)
class Triples:
    """The layout of cells over (x, a, x'), layer by layer."""

    shape: LayeredShape

    @property
    def size(self) -> int:
        """How many triples have an unknown probability."""
        return self.shape.unknown

    def rows_to_cells(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Copy the entry of each pair to all of its triples."""
        return np.broadcast_to(rows[..., None], self.shape.triple_mask.shape)[self.shape.triple_mask]

    def possible(self) -> Mask:
        """Every cell can occur."""
        return np.ones(self.size, np.bool_)

    def marginals(self, cells: Cells) -> dict[str, Statistic]:
        """Transitions (step, state, action, successor), one cell each; those into the end are not counted."""
        table = np.zeros(self.shape.triple_mask.shape)
        table[self.shape.triple_mask] = cells
        return {"transitions": Statistic(table, _one_each(self.shape.horizon, last=0))}


@dataclass(frozen=True)
class Pairs:
    """The layout of cells over (x, a), layer by layer, once for each of the ``names`` of its statistics.

    With one step there are no unknown transitions to count; the empty statistic then comes with the others.
    """

    shape: LayeredShape
    names: tuple[str, ...]

    @property
    def size(self) -> int:
        """How many pairs there are, times the number of tables."""
        return self.shape.pairs * len(self.names)

    @property
    def statistics(self) -> frozenset[str]:
        """The names of its tables, and transitions where there are none to count."""
        return frozenset({*self.names, *self._nothing_to_count()})

    def rows_to_cells(self, rows: NDArray[Any]) -> NDArray[Any]:
        """The entries of the pairs that exist, once for each table."""
        return np.tile(rows[self.shape.pair_mask], len(self.names))

    def possible(self) -> Mask:
        """Every cell can occur."""
        return np.ones(self.size, np.bool_)

    def marginals(self, cells: Cells) -> dict[str, Statistic]:
        """Each table over (step, state, action), one cell per entry."""
        parts = zip(self.names, np.split(cells, len(self.names)), strict=True)
        return {name: self._spread(part) for name, part in parts} | self._nothing_to_count()

    def first_cells(self) -> tuple[Integers, Integers]:
        """For kernels: the sizes of the layers, and the first cell of each of them."""
        sizes = np.array(self.shape.sizes, np.int64)
        return sizes, np.concatenate(([0], np.cumsum(sizes[:-2] * self.shape.actions)))

    def _spread(self, cells: Cells) -> Statistic:
        table = np.zeros(self.shape.pair_mask.shape)
        table[self.shape.pair_mask] = cells
        return Statistic(table, _one_each(self.shape.horizon, last=1))

    def _nothing_to_count(self) -> dict[str, Statistic]:
        if self.shape.horizon > 1:
            return {}
        table = np.zeros(self.shape.triple_mask.shape)
        return {"transitions": Statistic(table, _one_each(1, last=0))}


def _along_the_path(shape: LayeredShape) -> Sensitivity:
    # A layer with a single pair has no other cell to move to.
    choices = sum(size * shape.actions > 1 for size in shape.sizes[:-1])
    return Sensitivity.unit_shifts(shape.horizon, choices)


@dataclass(frozen=True)
class LayeredTransitions(LaidOut):
    """How often each triple occurred."""

    shape: LayeredShape
    name: ClassVar[str] = "layered-transitions"
    statistics: ClassVar[frozenset[str]] = frozenset({"transitions"})

    @property
    def layout(self) -> Triples:
        """One cell for each (x, a, x')."""
        return Triples(self.shape)

    def sensitivity(self) -> Sensitivity:
        """One cell up and, where a layer has another one, one down at each step but the last."""
        sizes, A = self.shape.sizes, self.shape.actions
        choices = sum(x * A * y > 1 for x, y in pairwise(sizes[:-1]))
        return Sensitivity.unit_shifts(self.shape.horizon - 1, choices)

    def arrays(self) -> TripleArrays:
        """The sizes of layers and where their cells begin."""
        sizes, A = self.shape.sizes, self.shape.actions
        blocks = [x * A * y for x, y in pairwise(sizes[:-1])]
        return TripleArrays(A, np.array(sizes, np.int64), np.cumsum([0, *blocks])[: self.shape.horizon])


@dataclass(frozen=True)
class LayeredVisits(LaidOut):
    """How often each pair was visited; the papers release it beside the transitions that determine it."""

    shape: LayeredShape
    name: ClassVar[str] = "layered-visits"
    statistics: ClassVar[frozenset[str]] = frozenset({"visits"})

    @property
    def layout(self) -> Pairs:
        """One cell for each (x, a)."""
        return Pairs(self.shape, ("visits",))

    def sensitivity(self) -> Sensitivity:
        """One cell up and, where a layer has another one, one down at each step."""
        return _along_the_path(self.shape)

    def marginals(self, cells: Cells) -> dict[str, Statistic]:
        """Visits alone: transitions, even if there are none, are somebody else's."""
        return {"visits": self.layout.marginals(cells)["visits"]}

    def arrays(self) -> PairArrays:
        """The sizes of layers and where their cells begin."""
        return PairArrays(self.shape.actions, *self.layout.first_cells(), losses=False, rounded=True)


@dataclass(frozen=True)
class _OfPairs(LaidOut):
    """Losses in cells of pairs: what the parts are called, and whether losses are rounded to bits."""

    shape: LayeredShape
    rounded: bool = True
    parts: ClassVar[tuple[str, ...]]

    @property
    def layout(self) -> Pairs:
        """One cell for each (x, a) in every part."""
        return Pairs(self.shape, self.parts)

    @property
    def statistics(self) -> frozenset[str]:
        """What the parts are, and transitions where there are none to count."""
        return self.layout.statistics


@dataclass(frozen=True)
class ObservedLosses(_OfPairs):
    """The losses on the path, zero elsewhere: what bandit feedback shows."""

    name: ClassVar[str] = "observed-losses"
    parts: ClassVar[tuple[str, ...]] = ("observed_losses",)

    def sensitivity(self) -> Sensitivity:
        """At most that of counts of visits: a loss is at most one."""
        return _along_the_path(self.shape)

    def arrays(self) -> PairArrays:
        """The sizes of layers and where their cells begin."""
        return PairArrays(self.shape.actions, *self.layout.first_cells(), losses=True, rounded=self.rounded)


@dataclass(frozen=True)
class LossBits(_OfPairs):
    """How often each pair was visited with a lost bit and with one that was not: all zeros first, then all ones."""

    name: ClassVar[str] = "loss-bits"
    parts: ClassVar[tuple[str, ...]] = ("zeros", "observed_losses")

    @property
    def statistics(self) -> frozenset[str]:
        """Observed and signed losses, and transitions where there are none to count."""
        return (self.layout.statistics - {"zeros"}) | {"signed_losses"}

    def sensitivity(self) -> Sensitivity:
        """One cell down and one up at each step."""
        return Sensitivity.unit_shifts(self.shape.horizon, self.shape.horizon)

    def marginals(self, cells: Cells) -> dict[str, Statistic]:
        """``signed_losses`` are ones less zeros: 2 l - 1, summed over visits."""
        found = self.layout.marginals(cells)
        zeros, ones = found.pop("zeros"), found["observed_losses"]
        return {**found, "signed_losses": Statistic(ones.values - zeros.values, 2 * ones.cells)}

    def arrays(self) -> BitArrays:
        """The sizes of layers and where their cells begin."""
        return BitArrays(self.shape.actions, *self.layout.first_cells(), self.shape.pairs, self.rounded)


@dataclass(frozen=True)
class SignedLosses(_OfPairs):
    """For every visit of a pair one up if the bit of the loss is lost and one down if it is not."""

    name: ClassVar[str] = "signed-losses"
    parts: ClassVar[tuple[str, ...]] = ("signed_losses",)
    signed: ClassVar[bool] = True  # one down is a count, too

    def sensitivity(self) -> Sensitivity:
        """At each step one cell by two, or two cells by one: the first is worse for L2, and both have the same L1."""
        H = self.shape.horizon
        return Sensitivity(2.0 * H, 2.0 * math.sqrt(H), 2.0)

    def arrays(self) -> PairArrays:
        """The sizes of layers and where their cells begin."""
        return PairArrays(
            self.shape.actions, *self.layout.first_cells(), losses=True, rounded=self.rounded, signed=True
        )


@dataclass(frozen=True)
class LossTable(_OfPairs):
    """The whole table of one user: what full information shows. Records without a table cannot be encoded."""

    name: ClassVar[str] = "loss-table"
    parts: ClassVar[tuple[str, ...]] = ("losses",)

    def sensitivity(self) -> Sensitivity:
        """Every cell may move by at most one."""
        return Sensitivity.unit_shifts(self.size, 0, any_way=True)

    def arrays(self) -> None:
        """There is no compiled form: a path does not hold the table, see :meth:`tally`."""

    def tally(self, tables: Floats, stream: Stream) -> Cells:
        """The sum of the encodings of users with these tables, (users, states, actions)."""
        flat = np.ascontiguousarray(tables, np.float64).reshape(len(tables), -1)
        if not self.rounded:
            return np.asarray(flat.sum(axis=0))
        cells = np.zeros(self.size)
        _add_bits(flat, stream, cells)
        return cells


@encode_into.implement(TripleArrays)
def _encode_triples(
    encoder: TripleArrays,
    states: Integers,
    actions: Integers,
    rewards: Floats,
    length: int,
    stream: Stream,
    cells: Cells,
) -> None:
    sizes = encoder.sizes
    for h in range(min(length, sizes.shape[0] - 1) - 1):
        x, following = states[h], states[h + 1]
        if x < sizes[h] and following < sizes[h + 1]:
            cells[encoder.first[h] + (x * encoder.actions + actions[h]) * sizes[h + 1] + following] += 1.0


@encode_into.implement(PairArrays)
def _encode_pairs(
    encoder: PairArrays,
    states: Integers,
    actions: Integers,
    rewards: Floats,
    length: int,
    stream: Stream,
    cells: Cells,
) -> None:
    sizes = encoder.sizes
    for h in range(min(length, sizes.shape[0] - 1)):
        if states[h] >= sizes[h]:
            continue
        amount = 1.0
        if encoder.losses:
            loss = min(1.0, max(0.0, 1.0 - rewards[h]))
            amount = float(reward_bit(loss, 0.0, 1.0, stream)) if encoder.rounded else loss
            if encoder.signed:
                amount = 2.0 * amount - 1.0
        cells[encoder.first[h] + states[h] * encoder.actions + actions[h]] += amount


@encode_into.implement(BitArrays)
def _encode_bits(
    encoder: BitArrays,
    states: Integers,
    actions: Integers,
    rewards: Floats,
    length: int,
    stream: Stream,
    cells: Cells,
) -> None:
    sizes = encoder.sizes
    for h in range(min(length, sizes.shape[0] - 1)):
        if states[h] >= sizes[h]:
            continue
        loss = min(1.0, max(0.0, 1.0 - rewards[h]))
        share = float(reward_bit(loss, 0.0, 1.0, stream)) if encoder.rounded else loss
        zero = encoder.first[h] + states[h] * encoder.actions + actions[h]
        cells[zero] += 1.0 - share
        cells[zero + encoder.pairs] += share


@kernel
def _add_bits(tables: Floats, stream: Stream, cells: Cells) -> None:
    for i in range(tables.shape[0]):
        for j in range(cells.shape[0]):
            cells[j] += reward_bit(tables[i, j], 0.0, 1.0, stream)


def _one_each(horizon: int, last: int) -> Integers:
    cells = np.ones((horizon, 1, 1), np.int64)
    cells[-1] = last
    return cells
