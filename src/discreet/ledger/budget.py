r"""A budget, what a release costs of it, and why the sum of adaptively chosen costs is a promise.

A data set has one budget, declared once, in one of two modes; every release is charged by its computed guarantee.

* ``sum``: epsilons and deltas add up. Budget (epsilon, delta); a release that is (e, d) costs (e, d).
* ``zcdp``: zero-concentrated parameters and deltas add up. Budget (rho, delta); a release costs its rho, or, where it
  has none, e^2 / 2 with its delta d, because an (e, d) release is d-approximately (e^2 / 2)-zCDP (Bun and Steinke 2016,
  lemma 8.8). A budget that is stated as (epsilon, delta) becomes the largest rho whose conversion at delta / 2 stays
  within epsilon; the other half is for the deltas of releases.

**Formal guarantees.** *Filters.* What is asked next, and how precisely, may depend on everything released before, so
the costs themselves are random. A rule that stops before a sum exceeds a constant keeps that constant as a promise:

* sum, pure case. For a transcript t of releases with costs e_i(t), the ratio of its probabilities under two neighbours
  is a product of ratios of at most exp(e_i(t)); the rule keeps the sum of the e_i(t) within epsilon on *every*
  transcript, so every transcript's ratio is at most exp(epsilon). With deltas: write every (e, d) release as one that
  is e-private except with probability d (Kairouz, Oh and Viswanath 2015); the exceptions add up to at most delta. This
  is the basic filter of Rogers, Roth, Ullman and Vadhan (2016).
* zcdp. At a fixed order a, exp((a - 1) x Renyi divergence) of the transcript is the expectation of a product. Peel off
  the last release: given the past, its factor is at most exp((a - 1) a rho_i), which the past determines; so the
  product times exp(-(a - 1) a x sum of rho_i) is a supermartingale with expectation at most 1, and the sum never
  exceeds rho. Hence the divergence is at most a rho (the Renyi filter of Feldman and Zrnic 2021); it holds at every
  order, which is rho-zCDP. Deltas add up as above (Whitehouse, Ramdas, Rogers and Wu 2023).

*Plans.* The guarantees of a plan are fixed before its first part runs, so its whole profiles are composed exactly
(:func:`discreet.privacy.guarantee.compose`) and the plan is charged once, as one mechanism. Its parts may then run at
any time between other releases: filters hold for interactive mechanisms that run at the same time as well (Haney and
others 2023).

*Arithmetic.* Costs are whole numbers of 2^-128, rounded up: no charge is lost beside a large sum, however small. Sums
are exact. A total may exceed the budget by a share of 2^-40, because 0.1 in a computer is a little more than a tenth
and ten of them would not fit into 1; printed epsilons have the same tolerance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_DOWN, Context, Decimal
from typing import Any, NamedTuple

from discreet.base.errors import InvalidInput, OverBudget, Unsupported, check_name
from discreet.base.validation import check_delta, check_positive
from discreet.privacy.guarantee import Guarantee
from discreet.privacy.profiles import ZeroConcentratedProfile
from discreet.privacy.words import rounded_up

MODES = ("sum", "zcdp")
_UNIT = 1 << 128
_TOLERANCE = 40  # bits: what exceeds a budget by less than this share of it is floating point
_LARGEST = 1e6  # nobody promises anything with a larger epsilon or rho


class Cost(NamedTuple):
    """Whole numbers of 2^-128: a loss (epsilon or rho, by the mode of the budget) and a delta."""

    loss: int
    delta: int

    def plus(self, other: Cost) -> Cost:
        """Both together, exactly."""
        return Cost(self.loss + other.loss, self.delta + other.delta)

    def minus(self, other: Cost) -> Cost:
        """What is left when the other is taken away; never less than nothing."""
        return Cost(max(0, self.loss - other.loss), max(0, self.delta - other.delta))


FREE = Cost(0, 0)


def units(value: float) -> int:
    """A number as a whole number of 2^-128, rounded up.

    >>> units(1.0) == 2**128, units(5e-324)
    (True, 1)
    """
    top, bottom = value.as_integer_ratio()
    return -(-top * _UNIT // bottom)


def as_number(whole: int) -> float:
    """A whole number of 2^-128 as a floating point number, not below it."""
    value = whole / _UNIT
    return value if units(value) >= whole else math.nextafter(value, math.inf)


def rounded_down(whole: int, digits: int = 4) -> str:
    """What is left, in so many significant digits and never more than there is, with the tolerance of a budget."""
    down = Context(prec=digits, rounding=ROUND_DOWN)
    return f"{float(down.divide(Decimal(_tolerant(whole)), Decimal(_UNIT))):.{digits}g}"


@dataclass(frozen=True)
class Budget:
    """What may be spent on a data set in all. ``epsilon`` is what was stated, if rho was derived from it.

    Args:
        mode: "sum" adds up epsilons and deltas, "zcdp" adds up rhos.
        limit: The most that may be spent.
        epsilon: What was stated, if rho was derived from it.

    Examples:
        >>> from discreet import ledger
        >>> ledger.make_budget(rho=0.5).mode
        'zcdp'
    """

    mode: str
    limit: Cost
    epsilon: float | None = None

    def check(self, name: str, spent: Cost, cost: Cost) -> None:
        """Refuse a cost that would go over, and say what is left."""
        total, limit = spent.plus(cost), self.limit
        if total.loss <= _tolerant(limit.loss) and total.delta <= _tolerant(limit.delta):
            return
        raise OverBudget(
            f"the budget of data set {name!r} has {self.words(limit.minus(spent), left=True)} left of "
            f"{self.words(limit)}, and this costs {self.words(cost)}: ask for less; nothing was spent"
        )

    def words(self, cost: Cost, *, left: bool = False) -> str:
        """A cost in words: rounded up, or down if it is what is left."""
        shown = rounded_down if left else lambda whole: rounded_up(as_number(whole))
        parts = [f"{'epsilon' if self.mode == 'sum' else 'rho'} {shown(cost.loss)}"]
        if self.limit.delta or cost.delta:
            parts.append(f"delta {shown(cost.delta)}")
        return " and ".join(parts)

    def numbers(self, cost: Cost) -> dict[str, float]:
        """A cost as plain numbers."""
        return {"epsilon" if self.mode == "sum" else "rho": as_number(cost.loss), "delta": as_number(cost.delta)}

    def as_dict(self) -> dict[str, Any]:
        """Plain data; whole numbers as text, because other programs would round them."""
        return {
            "mode": self.mode,
            "limit": [str(self.limit.loss), str(self.limit.delta)],
            "epsilon": self.epsilon,
            **{f"stated_{name}": value for name, value in self.numbers(self.limit).items()},
        }


def budget_from(data: Mapping[str, Any]) -> Budget:
    """A budget from plain data."""
    try:
        loss, delta = data["limit"]
        return Budget(check_name("mode of a budget", data["mode"], MODES), Cost(int(loss), int(delta)), data["epsilon"])
    except (KeyError, TypeError, ValueError):
        raise InvalidInput("the budget of a data set cannot be read: check its ledger with  ledger verify") from None


def make_budget(
    *, epsilon: float | None = None, delta: float = 0.0, rho: float | None = None, mode: str | None = None
) -> Budget:
    """A budget: ``epsilon`` (with ``delta``), whose costs add up, or ``rho``; ``mode="zcdp"`` turns the first into rho.

    Args:
        epsilon: The sum that may be spent.
        delta: The sum of deltas.
        rho: The sum that may be spent, of zero-concentrated differential privacy.
        mode: "sum" or "zcdp".

    Examples:
        >>> make_budget(epsilon=1.0, delta=1e-6).mode, make_budget(rho=0.5).mode
        ('sum', 'zcdp')
    """
    if (epsilon is None) == (rho is None):
        both = "" if rho is None else ", not both"
        raise InvalidInput(f"a budget is stated by epsilon (and delta) or by rho: give one of them{both}")
    delta = check_delta("delta", delta)
    if rho is not None:
        if mode not in (None, "zcdp"):
            raise InvalidInput(f"a budget in rho has the mode zcdp, got {mode!r}: leave the mode out")
        return Budget("zcdp", Cost(units(_bounded("rho", rho)), units(delta)))
    assert epsilon is not None
    epsilon = _bounded("epsilon", epsilon)
    if check_name("mode of a budget", "sum" if mode is None else mode, MODES) == "sum":
        return Budget("sum", Cost(units(epsilon), units(delta)))
    if delta == 0:
        raise InvalidInput("a budget in the mode zcdp needs a delta above 0 to be stated by epsilon: try delta=1e-6")
    return Budget("zcdp", Cost(units(_largest_rho(epsilon, delta / 2)), units(delta / 2)), epsilon)


def cost_of(guarantee: Guarantee, mode: str) -> Cost:
    """What a release with this guarantee costs; refused if no sum bounds it."""
    if mode == "zcdp" and math.isfinite(guarantee.profile.rho):
        return Cost(units(guarantee.profile.rho), 0)
    if not math.isfinite(guarantee.epsilon):
        remedy = "open a budget in rho, or ask for epsilon and delta" if guarantee.rho else "nothing bounds its cost"
        raise Unsupported(f"a release that promises {guarantee.statement()!r} has no epsilon to add up: {remedy}")
    loss = guarantee.epsilon if mode == "sum" else guarantee.epsilon**2 / 2 * (1 + 2.0**-50)
    return Cost(units(loss), units(guarantee.delta))


def _tolerant(limit: int) -> int:
    return limit + (limit >> _TOLERANCE)


def _bounded(name: str, value: float) -> float:
    if not check_positive(name, value) <= _LARGEST:
        raise InvalidInput(f"{name} of a budget must be at most {_LARGEST:g}, got {value:g}")
    return float(value)


def _largest_rho(epsilon: float, delta: float) -> float:
    """The largest rho, within a share of 2^-40, whose conversion at delta stays within epsilon."""
    low, high = 0.0, epsilon
    while ZeroConcentratedProfile(high).delta(epsilon) <= delta:
        low, high = high, 2 * high
    while high - low > high * 2.0**-40:
        middle = (low + high) / 2
        low, high = (middle, high) if ZeroConcentratedProfile(middle).delta(epsilon) <= delta else (low, middle)
    if low == 0:
        raise InvalidInput(f"no rho stays within epsilon {epsilon:g} at delta {delta:g}: give a larger delta")
    return low
