"""To be described."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.accumulators.base import Accumulator, NoiseSource, Run
from discreet.accumulators.sums import Blocks, Total
from discreet.channels.base import RadiusOf, WidthOf, widths
from discreet.encoders.base import Context, Encoder, Statistic, playable_rows
from discreet.errors import Unsupported
from discreet.release import Estimate
from discreet.shape import Shape
from discreet.types import Floats


@dataclass(frozen=True)
class Channel:
    """A channel with additive noise: encoder, law, accumulator, and its share of the budget."""

    encoder: Encoder
    law: Any
    accumulator: Accumulator
    share: float = 1.0
    answers: frozenset[type] = frozenset()

    def __post_init__(self) -> None:
        if not getattr(self.encoder, "rounded", True) and self.law.discrete and self.law.variance > 0:
            raise Unsupported(
                f"{type(self.law).__name__} noise hides whole numbers only, and {self.encoder.name} counts would be "
                "fractions: encode rewards as bits (rounded=True)"
            )

    def start(self, shape: Shape, noise: NoiseSource, masked: bool) -> AdditiveRun:
        return AdditiveRun(self, shape, noise, masked)

    def noise_per_row(self) -> float:
        counts = (
            float(statistic.cells.mean()) * statistic.values[0, 0, 0].size for statistic in self._marginals().values()
        )
        return float(self.law.variance * sum(counts))

    def cells(self) -> dict[str, int]:
        return {name: int(statistic.cells.max()) for name, statistic in self._marginals().items()}

    def shortcut(self, blocks: list[int]) -> list[int]:
        if isinstance(self.accumulator, Total) and len(blocks) > 1:
            return [blocks[0], sum(blocks[1:])]  # noise is counted by users, not by releases
        return blocks

    def _marginals(self) -> dict[str, Statistic]:
        return self.encoder.marginals(np.zeros(self.encoder.size))


class AdditiveRun:
    """Cells with additive noise, accumulated; statistics are sums of cells."""

    def __init__(self, channel: Channel, shape: Shape, noise: NoiseSource, masked: bool) -> None:
        rows = (shape.groups, shape.states, shape.actions)
        self._channel, self._shape, self._masked = channel, shape, masked
        self._run: Run = channel.accumulator.start(channel.encoder.size, rows, channel.law, noise)

    def add(self, tally: Floats, users: int, context: Context) -> None:
        encoder = self._channel.encoder
        rows = np.ones(self._run.copies.shape, np.bool_)
        if self._masked:
            rows = playable_rows(self._shape, context.policy)
        self._run.add(tally, users, rows, encoder.rows_to_cells(rows) & encoder.possible())

    def estimates(self) -> dict[str, Estimate]:
        unit = self._channel.law.variance * self._run.copies
        return {
            name: Estimate(statistic.values.copy(), unit * statistic.cells)
            for name, statistic in self._channel.encoder.marginals(self._run.values).items()
        }

    def width_now(self) -> WidthOf:
        law, copies = self._channel.law, self._run.copies.copy()
        return lambda cells_summed, failure_probability: widths(law, copies * cells_summed, failure_probability)

    def radius_now(self) -> RadiusOf | None:
        """A bound that holds always: the clock of a row counts its own draws, whatever policies let it run.

        Sums of fresh draws only: the noise of a tree comes and goes.
        """
        if not isinstance(self._channel.accumulator, Blocks | Total):
            return None
        law, copies = self._channel.law, self._run.copies.copy()
        cells = self._channel.cells()
        cells["followed"] = cells.get("transitions", 0) * self._shape.states
        return lambda statistic, failure_probability: np.asarray(
            law.anytime_radius(copies * cells[statistic], failure_probability)
        )
