"""To be described."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from discreet.accumulators.base import NoiseSource
from discreet.encoders.base import Context, Encoder
from discreet.release import Estimate
from discreet.shape import Shape
from discreet.types import Floats, Integers

WidthOf = Callable[[int, float], Floats]


RadiusOf = Callable[[str, float], Floats]


class ChannelRun(Protocol):
    """A channel at work: takes in tallies, gives out estimates."""

    def add(self, tally: Floats, users: int, context: Context) -> None:
        """Take in the sum of the encodings of some users who acted under the context's policy."""

    def estimates(self) -> dict[str, Estimate]:
        """The statistics released so far, with the variance of their noise."""

    def width_now(self) -> WidthOf:
        """The bound on the noise in a sum of cells of each row, as it is now: it must not hold on to the run."""


class AnyChannel(Protocol):
    """One statistic's way out. ``answers`` are the kinds of narrow requests (Layer, Linear) that it can serve."""

    @property
    def answers(self) -> frozenset[type]:
        """Layer, Linear, or nothing."""

    @property
    def encoder(self) -> Encoder:
        """What is tallied."""

    def start(self, shape: Shape, noise: NoiseSource, masked: bool) -> ChannelRun:
        """Begin a run. ``masked``: counts that the public policy makes known zeros carry no noise."""

    def noise_per_row(self) -> float:
        """The noise variance in all counts of one (state, action) of one release; "auto" makes it small."""

    def cells(self) -> dict[str, int]:
        """How many noisy cells a count of each statistic sums, at most."""

    def shortcut(self, blocks: list[int]) -> list[int]:
        """Fewer blocks, the first one kept, that leave as much noise in the last release as these do."""


def widths(law: Any, copies: Integers, failure_probability: float) -> Floats:
    """The exact quantile of the noise in each entry, computed once per distinct number of draws."""
    distinct, where = np.unique(copies, return_inverse=True)
    quantiles = [0.0 if n == 0 else float(law.sum_quantile(int(n), failure_probability)) for n in distinct]
    return np.asarray(quantiles)[where].reshape(copies.shape)
