"""What every additive noise law can be asked."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from discreet.errors import Unsupported
from discreet.privacy.profiles import Profile
from discreet.privacy.sensitivity import Sensitivity
from discreet.types import Floats, Integers

Size = int | tuple[int, ...]


@runtime_checkable
class Law(Protocol):
    """One number of noise, drawn independently for every cell.

    ``discrete`` says that the law lives on the integers and can be shipped; other laws are for simulation only.
    """

    @property
    def discrete(self) -> bool: ...

    @property
    def variance(self) -> float: ...

    def log_probability(self, x: ArrayLike) -> Floats:
        """The logarithm of the probability (or density) of x."""

    def profile(self, sensitivity: Sensitivity) -> Profile:
        """The exact privacy of adding this noise to a statistic of that sensitivity."""

    def draw(self, rng: np.random.Generator, size: Size) -> Floats:
        """Independent draws for simulation."""

    def draw_sum(self, copies: ArrayLike, rng: np.random.Generator, size: Size) -> Floats:
        """Sums of ``copies`` independent draws, at a cost that does not depend on how many."""

    def secure(self, size: Size) -> Integers | Floats:
        """Draws for a real release, from the operating system's entropy: whole numbers, or whole steps of a grid."""

    def sum_quantile(self, copies: int, tail: float) -> float:
        """A t with P(|sum of ``copies`` draws| > t) <= ``tail``."""

    def anytime_radius(self, copies: ArrayLike, failure_probability: float) -> Floats:
        """r(n) with P(some n has |sum of n draws| > r(n)) <= ``failure_probability``."""

    def kernel(self) -> Any:
        """The NamedTuple that ``add_noise`` takes in compiled code."""


def refuse_secure(law: str, remedy: str) -> Unsupported:
    """The error of a continuous law that is asked for a real release."""
    return Unsupported(f"{law} is continuous and for simulation only: floating point draws leak; release with {remedy}")
