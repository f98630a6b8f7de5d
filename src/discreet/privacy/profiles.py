"""Privacy profiles: the smallest delta that a mechanism can promise at every epsilon.

Seven kinds, from what is known about a mechanism to its curve:

* ``PureProfile``: the worst mechanism with a bounded loss is randomised response, so
  delta(e) = (e^E - e^e) / (1 + e^E) for e < E.
* ``GaussianProfile``: mu is the shift in standard deviations;
  delta(e) = Phi(mu/2 - e/mu) - exp(e) Phi(-mu/2 - e/mu)  (Balle and Wang 2018; Dong, Roth and Su 2019).
* ``ZeroConcentratedProfile``: Renyi divergences of order a are at most rho a (Bun and Steinke 2016); converted by
  delta(e) = min over a > 1 of exp((a-1)(a rho - e)) (1 - 1/a)^a / (a - 1)  (Canonne, Kamath and Steinke 2020).
* ``BoundedProfile``: a bound on the loss, and a rho that is smaller than the bound alone implies.
* ``NearGaussianProfile``: probabilities within factors of those of a Gaussian shift, and a rho.
* ``LossProfile``: the whole distribution of the privacy loss, both directions.
* ``WorstOf``: one of several mechanisms, whichever of them a public choice takes, or one of several ways to move one.

**Formal guarantees.** ``delta`` never understates, and is zero only where the truth is: closed forms are raised by what
their terms, cancelling ones included, may have lost by rounding, numerical ones by ``CERTIFIABLE``, the smallest delta
that a numerical convolution is trusted to certify. Parameters are sums and products rounded up. ``compose`` is valid
for adaptive composition.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, reduce
from itertools import product
from typing import Protocol, runtime_checkable

import numpy as np

from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.scientific import optimize, special
from discreet.base.validation import check_count, check_delta, check_not_negative, check_number
from discreet.privacy.losses import LossDistribution, convolve, gaussian_losses, on_grid, regrid
from discreet.privacy.rounding import SMALLEST, product_up, root_up, sum_up

# Floating point convolutions are accurate to about 1e-12 in delta; nothing below this is certified by them.
CERTIFIABLE = 1e-10
# What every operation may have lost, a few times over: an operation errs by 2^-53 of its result, a function by 2^-52.
_ROUNDED = 2.0**-49
# Of the first of two terms whose difference is the Gaussian's delta.
_CANCELLED = 1e-13


@runtime_checkable
class Profile(Protocol):
    """What every profile can be asked.

    Examples:
        >>> from discreet.privacy import Profile, PureProfile
        >>> profile: Profile = PureProfile(1.0)
        >>> profile.epsilon(0.0), profile.delta(1.0)
        (1.0, 0.0)
    """

    def delta(self, epsilon: float) -> float:
        """The smallest delta for which (epsilon, delta) differential privacy is certified."""

    def epsilon(self, delta: float) -> float:
        """The smallest certified epsilon at this delta; infinite if there is none."""

    @property
    def rho(self) -> float:
        """The smallest certified zero-concentrated parameter; infinite if there is none."""


@dataclass(frozen=True)
class PureProfile:
    """A loss that never exceeds ``bound`` in absolute value; infinite means no privacy at all.

    Args:
        bound: Epsilon.

    Examples:
        >>> from discreet.privacy import PureProfile
        >>> PureProfile(0.5).epsilon(0.0)
        0.5
    """

    bound: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "bound", check_number("a pure epsilon", self.bound))
        if not self.bound >= 0:
            raise InvalidInput(f"a pure epsilon must be at least 0, got {self.bound!r}")

    def delta(self, epsilon: float) -> float:
        """The delta of randomised response with this epsilon, which is the worst mechanism with that bound."""
        if epsilon >= self.bound:
            return 0.0
        return min(1.0, -math.expm1(epsilon - self.bound) / (1 + math.exp(-self.bound)) * (1 + _ROUNDED))

    def epsilon(self, delta: float) -> float:
        """The bound, or less where a delta is granted."""
        check_delta("delta", delta)
        if delta == 0 or math.isinf(self.bound):
            return self.bound
        inside = delta * (1 + math.exp(-self.bound))
        found = max(0.0, self.bound + math.log1p(-inside)) if inside < 1 else 0.0
        step = math.ulp(self.bound)
        while self.delta(found) > delta:  # what was rounded, or granted for rounding, is a few steps
            found, step = min(self.bound, found + step), 2 * step
        return found

    @property
    def rho(self) -> float:
        """Half of the squared bound."""
        return product_up(self.bound, self.bound, 0.5)


@dataclass(frozen=True)
class GaussianProfile:
    """Exactly a shift of ``mu`` standard deviations of a Gaussian.

    Args:
        mu: Sensitivity over sigma.

    Examples:
        >>> from discreet.privacy import GaussianProfile
        >>> GaussianProfile(0.5).rho
        0.125
    """

    mu: float

    def __post_init__(self) -> None:
        check_not_negative("mu", self.mu)

    def delta(self, epsilon: float) -> float:
        """The closed form, written so that nothing cancels in the tails."""
        if self.mu == 0:
            return 0.0
        near = self.mu / 2 - epsilon / self.mu
        far = -self.mu / 2 - epsilon / self.mu
        # exp(epsilon) phi(far) = phi(near), so both terms share the factor phi(near) and the rest is Mills' ratio.
        scale = 0.5 * math.exp(-near * near / 2)
        first = float(special.ndtr(near)) if near > -1 else scale * float(special.erfcx(-near / math.sqrt(2)))
        second = scale * float(special.erfcx(-far / math.sqrt(2)))
        # An error of d in ``near`` is one of |near| d in the exponent.
        lost = _CANCELLED + _ROUNDED * (1 + abs(near)) * (abs(far) + 1)
        return min(1.0, max(0.0, first - second) + lost * first + SMALLEST)

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon at this delta, by bisection; infinite if delta is zero."""
        check_delta("delta", delta)
        if self.mu == 0:
            return 0.0
        return _smallest_epsilon(self.delta, delta) if delta > 0 else math.inf

    @property
    def rho(self) -> float:
        """Half of the squared shift."""
        return product_up(self.mu, self.mu, 0.5)


@dataclass(frozen=True)
class ZeroConcentratedProfile:
    """Zero-concentrated differential privacy with parameter ``rho``.

    Args:
        rho: The parameter.

    Examples:
        >>> from discreet.privacy import ZeroConcentratedProfile
        >>> ZeroConcentratedProfile(0.5).rho
        0.5
    """

    rho: float

    def __post_init__(self) -> None:
        check_not_negative("rho", self.rho)

    def delta(self, epsilon: float) -> float:
        """The best order of Renyi divergence, converted."""
        if self.rho == 0:
            return 0.0

        # ln delta at order a = 1 + e^u is convex in a with derivative (2a - 1) rho - epsilon + ln(1 - 1/a); any order
        # gives a valid bound, so the root need not be exact.
        def slope(u: float) -> float:
            return (2 * math.exp(u) + 1) * self.rho - epsilon - math.log1p(math.exp(-u))

        low, high = -600.0, 0.0
        if slope(low) >= 0:
            return 1.0
        while slope(high) < 0 and high < 688:  # beyond, products of the order overflow; any order is valid
            high += 4
        x = math.exp(optimize.brentq(slope, low, high, xtol=1e-9) if slope(high) >= 0 else high)
        # x ln x - (1 + x) ln(1 + x), as two terms of one sign; the two before them cancel if rho is small.
        terms = x * ((1 + x) * self.rho), -x * epsilon, -x * math.log1p(1 / x), -math.log1p(x)
        log_delta = math.fsum(terms) + _ROUNDED * math.fsum(map(abs, terms))
        return min(1.0, math.exp(min(0.0, log_delta)) * (1 + _ROUNDED) + SMALLEST)

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon at this delta, by bisection; infinite if delta is zero."""
        check_delta("delta", delta)
        if self.rho == 0:
            return 0.0
        return _smallest_epsilon(self.delta, delta) if delta > 0 else math.inf


@dataclass(frozen=True)
class BoundedProfile:
    """A loss that never exceeds ``bound``, of a mechanism that is zero-concentrated with ``rho``: the better counts.

    So it is with pure mechanisms run on the same user: epsilons add up to the bound, and halves of their squares, which
    is what each has as its rho, add up to rho.

    Args:
        bound: The largest loss.
        rho: Of zero-concentrated differential privacy.

    Examples:
        >>> from discreet.privacy import BoundedProfile
        >>> BoundedProfile(1.0, 0.5).epsilon(0.0)
        1.0
    """

    bound: float
    rho: float

    def __post_init__(self) -> None:
        check_not_negative("bound", self.bound)
        check_not_negative("rho", self.rho)

    def delta(self, epsilon: float) -> float:
        """The smaller of what both certify."""
        if epsilon >= self.bound:
            return 0.0
        return min(PureProfile(self.bound).delta(epsilon), ZeroConcentratedProfile(self.rho).delta(epsilon))

    def epsilon(self, delta: float) -> float:
        """The bound if delta is zero, otherwise the smaller of what both certify."""
        pure = PureProfile(self.bound).epsilon(delta)
        return min(pure, ZeroConcentratedProfile(self.rho).epsilon(delta)) if delta > 0 else pure


@dataclass(frozen=True)
class NearGaussianProfile:
    r"""Almost a shift of ``mu`` standard deviations of a Gaussian: ratios of probabilities are off by e^slack at most.

    Let P and Q be the output laws on neighbouring data, and P' and Q' post-processings of a Gaussian and of its shift
    with a <= P / P' <= b and a <= Q / Q' <= b everywhere, where b / a <= e^slack and b >= 1 >= a (both P and P' have
    mass one). For every set E of outputs

        P(E) - e^epsilon Q(E) <= b (P'(E) - e^(epsilon - slack) Q'(E)) <= e^slack delta_mu(epsilon - slack).

    ``rho`` is known by other means, and certifies what is lost to the smaller variance of that Gaussian.

    Args:
        mu: Sensitivity over sigma.
        slack: See above.
        rho: See above.

    Examples:
        >>> from discreet.privacy import NearGaussianProfile
        >>> NearGaussianProfile(0.5, 0.0, 0.125).rho
        0.125
    """

    mu: float
    slack: float
    rho: float

    def __post_init__(self) -> None:
        for name in ("mu", "slack", "rho"):
            check_not_negative(name, getattr(self, name))

    def delta(self, epsilon: float) -> float:
        """The bound above, or what rho certifies if that is less."""
        return min(_near_gaussian(self.mu, self.slack, epsilon), ZeroConcentratedProfile(self.rho).delta(epsilon))

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon at this delta, by bisection; infinite if delta is zero."""
        check_delta("delta", delta)
        if self.rho == 0:
            return 0.0
        return _smallest_epsilon(self.delta, delta) if delta > 0 else math.inf


def _near_gaussian(mu: float, slack: float, epsilon: float) -> float:
    """The delta of ratios of probabilities that are within e^slack of a Gaussian's."""
    if slack == 0:
        return GaussianProfile(mu).delta(epsilon)
    lower = math.nextafter(epsilon - slack, -math.inf)
    return min(1.0, math.exp(slack) * (1 + _ROUNDED) * GaussianProfile(mu).delta(lower))


@dataclass(frozen=True, eq=False)
class LossProfile:
    """Privacy loss distributions of a dominating pair, in both directions.

    ``bound`` is the largest possible loss, ``rho`` a zero-concentrated parameter, ``mu`` and ``slack`` those of a
    :class:`NearGaussianProfile`, where they are known by other means: they certify what the numbers alone cannot, pure
    privacy and very small deltas. ``allowance`` is added to every delta for floating point error.

    Args:
        forward: The loss of one order of the neighbours.
        backward: The loss of the other order.
        bound: See above.
        rho: See above.
        allowance: See above.
        mu: See above.
        slack: See above.

    Examples:
        >>> from discreet.privacy import GaussianProfile, PureProfile, compose
        >>> type(compose([GaussianProfile(0.5), PureProfile(0.1)])).__name__
        'LossProfile'
    """

    forward: LossDistribution
    backward: LossDistribution
    bound: float = math.inf
    rho: float = math.inf
    allowance: float = CERTIFIABLE
    mu: float = math.inf
    slack: float = 0.0

    def delta(self, epsilon: float) -> float:
        """The larger of both directions, or what the other parameters certify if that is less."""
        if epsilon >= self.bound:
            return 0.0
        numerical = self.forward.delta(epsilon)
        if self.backward is not self.forward:
            numerical = max(numerical, self.backward.delta(epsilon))
        numerical = numerical * (1 + 1e-12) + self.allowance
        known = ZeroConcentratedProfile(self.rho).delta(epsilon) if self.rho < math.inf else 1.0
        near = _near_gaussian(self.mu, self.slack, epsilon) if self.mu < math.inf else 1.0
        return max(SMALLEST, min(1.0, numerical, known, near, PureProfile(self.bound).delta(epsilon)))

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon at this delta, by bisection; the largest possible loss if delta is zero."""
        check_delta("delta", delta)
        if delta == 0:
            return self.bound
        return _smallest_epsilon(self.delta, delta, start=min(self.bound, 1.0))


@dataclass(frozen=True)
class WorstOf:
    """A public choice between mechanisms: at every epsilon the largest delta of any of them.

    If which mechanism runs is known to everybody and does not depend on the data, an adversary faces one of them, so
    the pointwise maximum of their profiles bounds what can be learned. It is attained where one of them is always the
    worst. It cannot be composed further in general, because the worst choice may differ from release to release.
    """

    parts: tuple[Profile, ...]

    def delta(self, epsilon: float) -> float:
        """The largest delta of the mechanisms."""
        return max(part.delta(epsilon) for part in self.parts)

    def epsilon(self, delta: float) -> float:
        """The largest epsilon of the mechanisms."""
        return max(part.epsilon(delta) for part in self.parts)

    @property
    def rho(self) -> float:
        """The largest rho of the mechanisms."""
        return max(part.rho for part in self.parts)


_FEW_ANSWERS = 256  # below, what is rounded is within the share of 1e-12 that loss profiles add to every delta


@lru_cache(maxsize=1024)
def responses_profile(epsilon: float, times: int) -> LossProfile:
    """``times`` answers of binary randomised response: the loss is epsilon times (right answers - wrong answers).

    The number of right answers is binomial with probability e^epsilon / (1 + e^epsilon): a finite sum, rounded up.
    """
    right = np.arange(times + 1)
    log_choices = special.gammaln(times + 1) - special.gammaln(right + 1) - special.gammaln(times - right + 1)
    masses = np.exp(log_choices - (times - right) * epsilon - times * math.log1p(math.exp(-epsilon)))
    if (
        times >= _FEW_ANSWERS
    ):  # logarithms of factorials are large, and rounded in proportion: so much too small at most
        masses *= 1 + 2.0**-50 * float(special.gammaln(times + 1))
    # Losses as much larger as their places may be rounded: next to the bound little is left of one less epsilon.
    losses = LossDistribution(-times * epsilon * (1 - 2.0**-49), 2 * epsilon, masses)
    bound, rho = product_up(times, epsilon), product_up(times, epsilon, epsilon, 0.5)
    return LossProfile(losses, losses, bound, rho, allowance=0.0)


# Grid points per root mean square of the parts' spreads. Splitting an atom adds at most step^2 / 4 to a variance, so
# the variance of the total grows by less than one part in 1e5.
_RESOLUTION = 256
_MOST_UNEVEN = 8  # mechanisms whose directions differ: twice as many ways for each


def compose(profiles: Iterable[Profile], *, as_given: bool = False) -> Profile:
    """The profile of several mechanisms run on the same users, each of which may see the outputs of those before.

    Profiles of one kind add up in closed form (epsilon, mu squared, slack, rho). Mixed kinds become loss distributions;
    if one of them is known only by its rho, all fall back to their rho.

    Where the two directions of a mechanism differ (binomial noise on cells that rise), one user may move one mechanism
    the one way and another the other way, and that may lose more than all of them the same way: a cell that rises and
    one that falls, each with three coins of probability 0.45, have delta 0.440 at epsilon 0.7, two that rise 0.416 and
    two that fall 0.419. So all ways are tried, and the worst counts.

    Args:
        profiles: One for each mechanism.
        as_given: All first directions belong together, as they do for one pair of records; no other way is tried.

    Examples:
        >>> from discreet.privacy import PureProfile, compose
        >>> compose([PureProfile(0.5), PureProfile(0.25)]).epsilon(0.0)
        0.75
    """
    parts = [part for part in profiles if part.rho > 0]  # a rho of zero loses nothing
    if not parts:
        return PureProfile(0.0)
    if len(parts) == 1:
        return parts[0]
    if all(isinstance(part, PureProfile) for part in parts):
        return PureProfile(sum_up(part.bound for part in parts if isinstance(part, PureProfile)))
    if all(isinstance(part, GaussianProfile) for part in parts):
        return GaussianProfile(_mu_and_slack(parts)[0])
    rho = sum_up(part.rho for part in parts)
    if all(isinstance(part, GaussianProfile | NearGaussianProfile) for part in parts):
        return NearGaussianProfile(*_mu_and_slack(parts), rho)
    if all(isinstance(part, BoundedProfile | PureProfile) for part in parts):
        bound = sum_up(part.bound for part in parts if isinstance(part, BoundedProfile | PureProfile))
        return BoundedProfile(bound, rho) if bound < math.inf else PureProfile(bound)
    if any(math.isinf(part.bound) for part in parts if isinstance(part, PureProfile)):
        return PureProfile(math.inf)
    if any(isinstance(part, ZeroConcentratedProfile) for part in parts):
        if math.isinf(rho):
            raise Unsupported(
                "a mechanism known only by its zero-concentrated parameter cannot be composed with one that has none: "
                "use a law with a finite rho (Gaussian, discrete Gaussian or a pure one) for every channel"
            )
        return ZeroConcentratedProfile(rho)
    return _compose_losses(parts, rho, as_given)


def _compose_losses(parts: Sequence[Profile], rho: float, as_given: bool) -> LossProfile | WorstOf:
    distributions = [part for part in parts if isinstance(part, LossProfile)]
    lattice = {round(math.log(part.forward.step), 12) for part in distributions}
    if len(distributions) == len(parts) and len(lattice) == 1:
        converted = distributions
    else:
        step = math.sqrt(sum(_spread(part) ** 2 for part in parts) / len(parts)) / _RESOLUTION
        converted = [_as_losses(part, step) for part in parts]
    mu, slack = _mu_and_slack(parts)

    def whole(turned: Sequence[bool]) -> LossProfile:
        pairs = [(part.backward, part.forward) if turn else (part.forward, part.backward)
                 for part, turn in zip(converted, turned, strict=True)]  # fmt: skip
        return LossProfile(
            forward=reduce(convolve, (forward for forward, _ in pairs)),
            backward=reduce(convolve, (backward for _, backward in pairs)),
            bound=sum_up(part.bound for part in converted),
            rho=rho,
            allowance=max(CERTIFIABLE, sum(part.allowance for part in converted)),
            mu=mu,
            slack=slack,
        )

    ways = [(False,) * len(parts)] if as_given else _ways(converted)
    found = tuple(whole(turned) for turned in ways)
    return found[0] if len(found) == 1 else WorstOf(found)


def _ways(parts: Sequence[LossProfile]) -> list[tuple[bool, ...]]:
    """Which parts to turn round: all ways that differ, of a way and its reverse, which a profile has both of, one."""
    uneven = [i for i, part in enumerate(parts) if part.backward is not part.forward]
    if len(uneven) > _MOST_UNEVEN:
        raise Unsupported(
            f"{len(uneven)} mechanisms whose two directions differ are composed, and at most {_MOST_UNEVEN} are: use "
            "noise that is the same both ways"
        )
    found: dict[frozenset[tuple[tuple[int, bool], int]], tuple[bool, ...]] = {}
    for turns in product((False, True), repeat=max(0, len(uneven) - 1)):
        turned = dict(zip(uneven, (False, *turns)))
        alike = Counter((id(parts[i]), turn) for i, turn in turned.items())  # equal parts may be exchanged
        found.setdefault(frozenset(alike.items()), tuple(turned.get(i, False) for i in range(len(parts))))
    return list(found.values())


def _mu_and_slack(parts: Sequence[Profile]) -> tuple[float, float]:
    """Of all parts together: squares of mu add up, and so do slacks; infinite if one of them is not near a Gaussian."""
    known = [part for part in parts if isinstance(part, GaussianProfile | NearGaussianProfile | LossProfile)]
    if len(known) < len(parts) or any(math.isinf(part.mu) for part in known):
        return math.inf, 0.0
    slack = sum_up(0.0 if isinstance(part, GaussianProfile) else part.slack for part in known)
    return root_up(sum((Fraction(part.mu) ** 2 for part in known), Fraction(0))), slack


def _spread(profile: Profile) -> float:
    """About the standard deviation of a profile's losses."""
    if isinstance(profile, PureProfile | BoundedProfile):
        return profile.bound
    if isinstance(profile, GaussianProfile | NearGaussianProfile):
        return profile.mu
    if isinstance(profile, LossProfile):
        losses, masses = profile.forward.losses, profile.forward.masses
        mean = float(np.dot(losses, masses))
        return math.sqrt(max(float(np.dot((losses - mean) ** 2, masses)), 0.0))
    raise Unsupported(f"no loss distribution is known for {type(profile).__name__}")


def _as_losses(profile: Profile, step: float) -> LossProfile:
    if isinstance(profile, LossProfile):
        forward = regrid(profile.forward, step)
        backward = forward if profile.backward is profile.forward else regrid(profile.backward, step)
        return LossProfile(forward, backward, profile.bound, profile.rho, profile.allowance)
    if isinstance(profile, PureProfile | BoundedProfile):
        odds = math.exp(-profile.bound)
        masses = np.array([odds, 1.0]) / (1 + odds)
        distribution = on_grid(np.array([-profile.bound, profile.bound]), masses, step)
        return LossProfile(distribution, distribution, profile.bound, profile.rho)
    if isinstance(profile, GaussianProfile | NearGaussianProfile):
        distribution = gaussian_losses(profile.mu, step)
        # e^slack delta(epsilon - slack) <= e^slack (delta(epsilon) + slack), as delta falls by at most one per unit.
        slack = 0.0 if isinstance(profile, GaussianProfile) else profile.slack
        more = math.expm1(slack) + math.exp(slack) * slack
        return LossProfile(distribution, distribution, math.inf, profile.rho, CERTIFIABLE + more)
    raise Unsupported(f"no loss distribution is known for {type(profile).__name__}")


def replacing_users(profile: Profile, users: int) -> Profile:
    """The profile against replacing ``users`` users at once, where one is known exactly.

    Args:
        profile: For one user.
        users: How many are replaced.

    Examples:
        >>> from discreet.privacy import PureProfile, replacing_users
        >>> replacing_users(PureProfile(0.5), 3).epsilon(0.0)
        1.5
    """
    m = check_count("users", users)
    if m == 1:
        return profile
    if isinstance(profile, PureProfile):
        return PureProfile(product_up(m, profile.bound))
    if isinstance(profile, GaussianProfile):
        return GaussianProfile(product_up(m, profile.mu))
    if isinstance(profile, BoundedProfile):
        return BoundedProfile(product_up(m, profile.bound), product_up(m, m, profile.rho))
    if isinstance(profile, ZeroConcentratedProfile | NearGaussianProfile):
        return ZeroConcentratedProfile(product_up(m, m, profile.rho))
    raise Unsupported(
        f"group privacy of a {type(profile).__name__} is not known: use Sensitivity.scaled({m}) and ask the law again"
    )


def _smallest_epsilon(delta_at: Callable[[float], float], target: float, start: float = 1.0) -> float:
    """The smallest epsilon whose delta is at most the target, rounded up; infinite if none up to 2^22 is."""
    if delta_at(0.0) <= target:
        return 0.0
    low, high = 0.0, start
    while delta_at(high) > target:
        low, high = high, 2 * high
        if high > 2.0**22:
            return math.inf
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (low, middle) if delta_at(middle) <= target else (middle, high)
    return high
