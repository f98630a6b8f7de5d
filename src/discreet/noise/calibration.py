"""The least noise that keeps a promise, certified by the law's own exact profile.

Every family of laws here has one scale, more of it is more private, and the profile at a scale says exactly how
private. So calibration is a search for the smallest scale whose profile keeps the promise; what is returned has been
checked, and a scale a millionth smaller has failed the same check.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from discreet.base.errors import InvalidInput, Unsupported, check_name
from discreet.base.validation import (
    check_count,
    check_delta,
    check_epsilon,
    check_number,
    check_open_unit,
    check_rho,
    shown,
)
from discreet.noise.binomial import BinomialNoise
from discreet.noise.bounded import BoundedNoise
from discreet.noise.discrete_gaussian import DiscreteGaussian
from discreet.noise.distribution import WIDEST, Law, NoiseTooWide
from discreet.noise.gaussian import Gaussian
from discreet.noise.laplace import DiscreteLaplace, Laplace
from discreet.privacy.sensitivity import Sensitivity

_TOLERANCE = 1e-7
_LARGEST = 1e9  # times the sensitivity: nobody wants more noise than that
_LARGEST_TRIALS = 10**10
_FAMILIES: dict[str, Callable[[float], Law]] = {
    "laplace": Laplace,
    "discrete-laplace": DiscreteLaplace,
    "gaussian": Gaussian,
    "discrete-gaussian": DiscreteGaussian,
    "bounded": BoundedNoise,
}


def calibrate_noise(
    law: str | Callable[[float], Any],
    sensitivity: Sensitivity,
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    rho: float | None = None,
) -> Any:
    """The law of a family with the smallest scale that gives (epsilon, delta) privacy, or rho-zCDP.

    ``law`` is a class such as ``DiscreteLaplace``, its name (``"discrete-laplace"``), or any function that makes a law
    from its scale.
    """
    if (epsilon is None) == (rho is None):
        raise InvalidInput(f"give exactly one of epsilon and rho, got epsilon={epsilon!r} and rho={rho!r}")
    delta = check_delta("delta", delta)
    family = _family(law) if isinstance(law, str) else law
    if sensitivity.l1 == 0:
        raise InvalidInput("nothing to calibrate: the statistic does not move when a user is replaced")
    if rho is not None:
        rho = check_rho("rho", rho)
    else:
        epsilon = check_epsilon("epsilon", epsilon)
    try:
        if rho is not None:
            return _scaled(family, sensitivity, rho, concentrated=True)
        assert epsilon is not None
        if delta == 0:
            return _scaled(family, sensitivity, epsilon, concentrated=False)
        return _searched(family, sensitivity, epsilon, delta)
    except NoiseTooWide as refusal:
        raise refusal.named(epsilon, rho) from None


def _family(name: str) -> Callable[[float], Any]:
    check_name("noise law", name, _FAMILIES)
    return _FAMILIES[name]


@lru_cache(maxsize=1024)
def _scaled(family: Callable[[float], Any], sensitivity: Sensitivity, budget: float, concentrated: bool) -> Any:
    """Pure epsilons fall with the scale and rhos with its square: one evaluation gives the answer."""

    def spent(scale: float) -> float:
        profile = family(scale).profile(sensitivity)
        return float(profile.rho if concentrated else profile.epsilon(0.0))

    probe = sensitivity.l1
    factor = spent(probe) / budget
    if math.isinf(factor):
        kind, remedy = ("a rho", "ask for epsilon") if concentrated else ("pure privacy", "set delta above 0")
        raise Unsupported(f"{_name(family)} cannot give {kind} at any scale: {remedy}, or take another law")
    scale = probe * (math.sqrt(factor) if concentrated else factor)
    for _ in range(64):  # rounding may leave the scale a few units in the last place short
        if spent(scale) <= budget:
            return family(scale)
        scale = math.nextafter(scale, math.inf)
    raise Unsupported(f"{_name(family)} is not a family in which privacy is inversely proportional to the scale")


@lru_cache(maxsize=4096)
def _searched(family: Callable[[float], Any], sensitivity: Sensitivity, epsilon: float, delta: float) -> Any:
    def enough(scale: float) -> bool:
        return bool(family(scale).profile(sensitivity).delta(epsilon) <= delta)

    high = sensitivity.linf / (64 * max(1.0, epsilon))  # a loss of 64 epsilon in one cell alone: far too little noise
    while not enough(high):
        if high == WIDEST:
            try:
                family(2 * WIDEST)
            except NoiseTooWide:
                least = float(family(WIDEST).profile(sensitivity).epsilon(delta))
                raise NoiseTooWide(least / epsilon) from None
        high = WIDEST if high < WIDEST < 2 * high else 2 * high
        if high > _LARGEST * sensitivity.l1:
            raise Unsupported(
                f"{_name(family)} does not reach epsilon={epsilon:g}, delta={delta:g} at any useful scale"
            )
    low = high / 2
    while high - low > _TOLERANCE * high:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return family(high)


class ShuffledBits(NamedTuple):
    """How every user adds noise to a shuffled count: ``bits`` noise bits, each one with probability ``probability``."""

    bits: int
    probability: float


def calibrate_binomial(
    users: int, up: int, down: int, epsilon: float, delta: float, *, dropout: float = 0.0
) -> ShuffledBits:
    """The fewest noise bits per user, then the smallest probability of a one, that give (epsilon, delta) privacy.

    ``up`` and ``down`` cells move by one when a user is replaced. The guarantee counts the noise of a share
    ``1 - dropout`` of the users only: a batch in which more drop out must not be released. Privacy grows with the
    number of bits (one more bit is post-processing), so the fewest bits are found by bisection; in the probability no
    proof of monotonicity is known, so the one returned is certified itself but might not be the smallest.
    """
    users, sensitivity = check_count("users", users), Sensitivity.unit_shifts(up, down)
    epsilon, delta = check_epsilon("epsilon", epsilon), check_open_unit("delta", delta)
    if not 0 <= check_number("dropout", dropout) < 1:
        raise InvalidInput(f"dropout must lie in [0, 1), got {shown(dropout)}")
    return _shuffled_bits(math.floor((1 - dropout) * users), sensitivity, epsilon, delta)


@lru_cache(maxsize=1024)
def _shuffled_bits(users: int, sensitivity: Sensitivity, epsilon: float, delta: float) -> ShuffledBits:
    if users < 1:
        raise InvalidInput("nobody is left to add noise: lower dropout or raise users")

    def enough(bits: int, probability: float) -> bool:
        return BinomialNoise(users * bits, probability).profile(sensitivity).delta(epsilon) <= delta

    bits = _smallest_whole(lambda m: enough(m, 0.5), largest=_LARGEST_TRIALS // users + 1)
    # Probabilities on a grid of 2**-32, so that real coins can have them exactly.
    low, high = 0, 1 << 31
    while high - low > max(1, high >> 12):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(bits, middle / 2**32) else (middle, high)
    return ShuffledBits(bits, high / 2**32)


def _smallest_whole(enough: Callable[[int], bool], largest: int) -> int:
    low, high = 0, 1
    while not enough(high):
        low, high = high, 2 * high
        if low > largest:
            raise Unsupported(f"no privacy of this kind with {low} noise bits per user: raise epsilon, delta or users")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _name(family: Callable[[float], Any]) -> str:
    return getattr(family, "__name__", repr(family))
