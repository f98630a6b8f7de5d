"""Clipped rewards rounded at random to one of two ends: the encoders for rewards with a range, for those without.

A reward is clipped to [-B, B] at a public threshold and rounded to -B or B so that its mean stays what it is. Clipping
comes first, so the kernels and the sensitivities are those of rewards that have this range:

``ClippedJoint``: the joint histogram (:mod:`discreet.mechanisms.counts.joint_histogram`), for pooled steps or laws per
step. ``ClippedStep``: the item of a sampled step (:mod:`discreet.mechanisms.counts.sampled_step`), for the local model.

With a range (-tau, tau) of the means, a one and a zero are worth (tau + B) / (2 tau) and (tau - B) / (2 tau), which sum
to one; rewards are in units of that range, as in :mod:`discreet.problems.heavy_tails.encoders`. A rounded reward has
variance up to B^2, where signed bits have B E|X|: worth it where fewer cells that move, or smaller domains, save more
noise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from discreet.base.shape import Shape
from discreet.base.types import Floats
from discreet.base.validation import check_positive
from discreet.mechanisms.counts.encoder import ALL_THREE, Cells, LaidOut, Statistic
from discreet.mechanisms.counts.joint_histogram import JointHistogram, JointHistogramArrays
from discreet.mechanisms.counts.layouts import JointCells
from discreet.mechanisms.counts.sampled_step import SampledStep
from discreet.privacy.sensitivity import Sensitivity
from discreet.problems.heavy_tails.encoders import moments_of, public_tables


def bit_worth(shape: Shape, threshold: float) -> tuple[float, float]:
    """What a zero and a one are worth in units of the range of means, if they stand for -B and B."""
    tau = shape.rewards[1]
    return (tau - threshold) / (2 * tau), (tau + threshold) / (2 * tau)


@dataclass(frozen=True)
class ClippedJoint(LaidOut):
    """The joint histogram with the reward clipped and rounded to -B or B."""

    shape: Shape
    threshold: float
    name: ClassVar[str] = "clipped-joint"
    statistics: ClassVar[frozenset[str]] = ALL_THREE

    def __post_init__(self) -> None:
        moments_of(self.shape)
        check_positive("threshold", self.threshold)

    @property
    def _ranged(self) -> JointHistogram:
        """The same histogram for rewards that have this range."""
        B = self.threshold
        return JointHistogram(replace(self.shape, rewards=(-B, B), moments=None))

    @property
    def layout(self) -> JointCells:
        """Joint cells with all axes."""
        return JointCells(self.shape)

    def sensitivity(self) -> Sensitivity:
        """One unit out of a cell and one into a cell at each step."""
        return self._ranged.sensitivity()

    def layer_sensitivity(self, step: int) -> Sensitivity:
        """One unit out of a cell and one into a cell."""
        return self._ranged.layer_sensitivity(step)

    def marginals(self, cells: Cells) -> dict[str, Statistic]:
        """Zeros and ones are worth what they stand for; their noise counts by the squares of that, rounded up."""
        marginals, (zero, one) = self.layout.marginals(cells), bit_worth(self.shape, self.threshold)
        (visits, _cells), (ones, cells_of_ones) = marginals["visits"], marginals["rewards"]
        mixed = np.ceil(cells_of_ones * (zero**2 + one**2)).astype(np.int64)
        return marginals | {"rewards": Statistic(zero * visits + (one - zero) * ones, mixed)}

    @property
    def public(self) -> dict[str, Floats]:
        """What learners may know: the threshold, and how far clipping can have moved a mean."""
        return public_tables(self.shape, self.threshold)

    def arrays(self) -> JointHistogramArrays:
        """What the kernel of the joint histogram needs to know: it clips before it rounds."""
        return self._ranged.arrays()


@dataclass(frozen=True)
class ClippedStep(SampledStep):
    """The items at ``steps`` of the H steps, with the reward clipped and rounded to -B or B."""

    threshold: float = 1.0
    name: ClassVar[str] = "clipped-step"

    def __post_init__(self) -> None:
        super().__post_init__()
        moments_of(self.shape)
        check_positive("threshold", self.threshold)

    @property
    def reward_range(self) -> tuple[float, float]:
        """The range that rewards are clipped to before they are rounded."""
        return -self.threshold, self.threshold

    @property
    def bit_worth(self) -> tuple[float, float]:
        """What a zero and a one are worth in units of the range of means."""
        return bit_worth(self.shape, self.threshold)

    @property
    def public(self) -> dict[str, Floats]:
        """What learners may know: the threshold, and how far clipping can have moved a mean."""
        return public_tables(self.shape, self.threshold)
