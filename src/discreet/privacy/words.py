"""Numbers and things of a guarantee in words: laws, sensitivities, and epsilons that are rounded up.

A printed epsilon is a promise, so it must not be smaller than the computed one: :func:`rounded_up` is how every
epsilon, delta and rho of a guarantee is printed, here, on the command line, in tables and in pictures. What a user
asked for or a paper claims is printed as given.
"""

from __future__ import annotations

import math
from dataclasses import fields
from decimal import Decimal
from typing import Any, ClassVar, Protocol

from discreet.privacy.profiles import Profile
from discreet.privacy.sensitivity import Sensitivity

# 0.1 + 0.2 is 0.30000000000000004: what exceeds a short number by less than this share is floating point.
_FLOATING_POINT = 1e-12


def rounded_up(value: float | None, digits: int = 4) -> str:
    """A number with so many significant digits, never below its value; "unknown" if there is none.

    >>> rounded_up(1.00049), rounded_up(0.5), rounded_up(1e-5, 3), rounded_up(0.1 + 0.2)
    ('1.001', '0.5', '1e-05', '0.3')
    """
    if value is None:
        return "unknown"
    nearest = f"{value:.{digits}g}"
    if not math.isfinite(value) or float(nearest) >= value * (1 - _FLOATING_POINT):
        return nearest
    last_digit = Decimal(1).scaleb(Decimal(nearest).adjusted() - digits + 1)
    return f"{float(Decimal(nearest) + last_digit):.{digits}g}"


def brief_promise(model: str, epsilon: float | None, delta: float | None, rho: float | None) -> str:
    """A promise in a few words: its model, and epsilon with delta or rho; absent numbers are infinite.

    >>> brief_promise("joint", 1.0, 1e-5, None), brief_promise("local", 2.0, 0.0, None)
    ('joint, epsilon 1, delta 1e-05', 'local, epsilon 2')
    """
    if model == "none":
        return "no privacy"
    if epsilon is not None and math.isfinite(epsilon):
        return f"{model}, epsilon {rounded_up(epsilon)}" + (f", delta {rounded_up(delta, 3)}" if delta else "")
    return f"{model}, " + ("no finite epsilon" if rho is None or math.isinf(rho) else f"rho {rounded_up(rho)}")


def describe_sensitivity(sensitivity: Sensitivity) -> str:
    """A sensitivity in words."""
    norms = f"L1 {sensitivity.l1:g}, L2 {sensitivity.l2:.4g}, L-infinity {sensitivity.linf:g}"
    if not sensitivity.shifts:
        return f"the cells by at most {norms}"
    worst = " and ".join(f"{up} up and {down} down by {magnitude}" for magnitude, up, down in sensitivity.shifts)
    return f"at worst {worst} ({norms})"


class StatedLaw(Protocol):
    """What a guarantee has to know about a law: a frozen dataclass whose fields are its parameters."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def discrete(self) -> bool:
        """Whether it can be shipped; other laws are for simulation only."""

    @property
    def drawn(self) -> str:
        """How it is drawn, in words."""

    @property
    def variance(self) -> float:
        """The variance of the noise in one cell."""

    def profile(self, sensitivity: Sensitivity) -> Profile:
        """The exact privacy of adding this noise to a statistic of that sensitivity."""


def describe_law(law: StatedLaw) -> str:
    """A law in words: its name, its parameters, its standard deviation, and whether it can be shipped."""
    parameters = ", ".join(f"{f.name} {getattr(law, f.name):.6g}" for f in fields(law))
    if not parameters:
        return "no noise"
    shipped = "" if law.discrete else ", continuous: simulation only"
    return f"{type(law).__name__} with {parameters} (standard deviation {math.sqrt(law.variance):.4g}{shipped})"
