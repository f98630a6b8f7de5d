"""No noise at all: the law of runs without privacy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from discreet.noise.kernels import add_noise
from discreet.noise.law import Size
from discreet.privacy.profiles import PureProfile
from discreet.privacy.sensitivity import Sensitivity
from discreet.streams import Stream
from discreet.types import Floats, Integers


class NoNoiseKernel(NamedTuple):
    """Nothing to know; numba wants one field."""

    scale: float


@dataclass(frozen=True)
class NoNoise:
    """Always zero. It protects nobody, unless the statistic cannot move."""

    discrete: ClassVar[bool] = True

    @property
    def variance(self) -> float:
        return 0.0

    def log_probability(self, x: ArrayLike) -> Floats:
        return np.where(np.asarray(x) == 0, 0.0, -np.inf)

    def profile(self, sensitivity: Sensitivity) -> PureProfile:
        return PureProfile(0.0 if sensitivity.l1 == 0 else np.inf)

    def draw(self, rng: np.random.Generator, size: Size) -> Floats:
        return np.zeros(size)

    def draw_sum(self, copies: ArrayLike, rng: np.random.Generator, size: Size) -> Floats:
        return np.zeros(size)

    def secure(self, size: Size) -> Integers:
        return np.zeros(size, dtype=np.int64)

    def sum_quantile(self, copies: int, tail: float) -> float:
        return 0.0

    def anytime_radius(self, copies: ArrayLike, failure_probability: float) -> Floats:
        return np.zeros(np.shape(copies))

    def kernel(self) -> NoNoiseKernel:
        return NoNoiseKernel(0.0)


@add_noise.implement(NoNoiseKernel)
def _add_nothing(law: NoNoiseKernel, out: Floats, state: Stream) -> None:
    pass
