"""Additive noise: counts of an encoder, a law, and an accumulator that says how sums become releases."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet.base.errors import Unsupported
from discreet.base.saved_arrays import Savable, Saved
from discreet.base.shape import Shape
from discreet.base.types import Floats
from discreet.mechanisms.counts.encoder import Context, Encoder
from discreet.mechanisms.mechanism import PlainRun, RadiusOf, Tabular, WidthOf, asked_rows, estimated, row_shape, widths
from discreet.mechanisms.release import UNMIXED, Estimate, MixedBlocks
from discreet.mechanisms.sums.accumulator import Accumulator, NoiseSource, Run
from discreet.mechanisms.sums.blocks import Blocks, Total
from discreet.noise.distribution import AnytimeLaw, Law


@dataclass(frozen=True)
class Channel(Tabular):
    """A channel with additive noise: encoder, law, accumulator, and its share of the budget."""

    encoder: Encoder
    law: Law
    accumulator: Accumulator
    share: float = 1.0

    def __post_init__(self) -> None:
        if not self.encoder.rounded and self.law.discrete and self.law.variance > 0:
            raise Unsupported(
                f"{type(self.law).__name__} noise hides whole numbers only, and {self.encoder.name} counts would be "
                "fractions: encode rewards as bits (rounded=True)"
            )

    @property
    def mixing(self) -> MixedBlocks | None:
        """Where every block has noise of its own."""
        return UNMIXED if isinstance(self.accumulator, Blocks) and self.law.variance > 0 else None

    def start(self, shape: Shape, noise: NoiseSource, masked: bool) -> AdditiveRun:
        """Begin a run."""
        return AdditiveRun(self, shape, noise, masked)

    def shortcut(self, blocks: list[int]) -> list[int]:
        """Two blocks for a sum over users: its noise is counted by users, not by releases."""
        if isinstance(self.accumulator, Total) and len(blocks) > 1:
            return [blocks[0], sum(blocks[1:])]
        return blocks


class AdditiveRun(PlainRun):
    """Cells with additive noise, accumulated; statistics are sums of cells."""

    _channel: Channel

    def __init__(self, channel: Channel, shape: Shape, noise: NoiseSource, masked: bool) -> None:
        self._channel, self._shape, self._masked = channel, shape, masked
        self._run: Run = channel.accumulator.start(channel.encoder.size, row_shape(shape), channel.law, noise)
        self._cells = channel.cells_per_count()  # the same for all releases
        self._cells["followed"] = self._cells.get("transitions", 0) * shape.states
        self._anytime = channel.law if isinstance(channel.law, AnytimeLaw) else None

    def add(self, tally: Floats, users: int, context: Context) -> None:
        """Take in a tally; cells that the policy or the encoder makes known zeros stay without noise."""
        encoder = self._channel.encoder
        rows = asked_rows(self._shape, context, self._masked)
        self._run.add(tally, users, rows, encoder.rows_to_cells(rows) & encoder.possible())

    def save(self) -> Saved:
        """What the accumulator remembers."""
        return self._savable().save()

    def load(self, saved: Saved) -> None:
        """Go on with what an accumulator of this kind remembered."""
        self._savable().load(saved)

    def _savable(self) -> Savable:
        if not isinstance(self._run, Savable):
            name = type(self._channel.accumulator).__name__
            raise Unsupported(f"sums by {name} cannot be saved between releases: take a recipe with blocks")
        return self._run

    def estimates(self) -> dict[str, Estimate]:
        """Every row carries as many draws of noise as its accumulator has counted."""
        unit = self._channel.law.variance * self._run.copies.astype(np.float64)
        return estimated(self._channel.encoder, self._run.values, unit)

    def width_now(self) -> WidthOf:
        """The exact quantile of sums of draws."""
        law, copies = self._channel.law, self._run.copies.copy()
        return lambda cells_summed, failure_probability: widths(law, copies * cells_summed, failure_probability)

    def radius_now(self) -> RadiusOf | None:
        """A bound that holds always: the clock of a row counts its own draws, whatever policies let it run.

        Sums of fresh draws only: the noise of a tree comes and goes.
        """
        law, cells, copies = self._anytime, self._cells, self._run.copies.copy()
        if law is None or not isinstance(self._channel.accumulator, Blocks | Total):
            return None
        return lambda statistic, failure_probability: np.asarray(
            law.anytime_radius(copies * cells[statistic], failure_probability)
        )
