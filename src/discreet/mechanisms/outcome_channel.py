"""Outcomes on their way out: cells with additive noise, of which statistics are scaled sums."""

from __future__ import annotations

from dataclasses import dataclass

from discreet.base.shape import Shape
from discreet.mechanisms.additive import AdditiveRun, Channel
from discreet.mechanisms.counts.outcome_table import OutcomeTable
from discreet.mechanisms.mechanism import RadiusOf, WidthOf
from discreet.mechanisms.sums.accumulator import NoiseSource


@dataclass(frozen=True)
class OutcomeChannel(Channel):
    """One release of outcomes: the noise of a count is that of a cell over the weight of a count."""

    encoder: OutcomeTable

    def start(self, shape: Shape, noise: NoiseSource, masked: bool) -> OutcomeRun:
        """Begin a run."""
        return OutcomeRun(self, shape, noise, masked)


class OutcomeRun(AdditiveRun):
    """Cells with additive noise, of which statistics are scaled sums."""

    _channel: OutcomeChannel

    def width_now(self) -> WidthOf:
        """The exact quantile, in visits: it bounds the noise of sums of rewards, whose cells weigh no less, too."""
        width, weight = super().width_now(), self._channel.encoder.count_weight
        return lambda cells_summed, failure: width(cells_summed, failure) / weight

    def radius_now(self) -> RadiusOf | None:
        """None is stated: this is one release."""
        return None
