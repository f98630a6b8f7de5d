"""Does the noise of a real release follow its stated law on this machine? Draws from the very samplers, three tests.

A guarantee is computed from a law; a release draws from a sampler. A library that divides big numbers wrongly, a broken
build or a frozen source of randomness would void every promise without any error. So this draws as a release does, from
the operating system's entropy, and asks three questions of each sampler:

* **distribution**: is the largest difference between the share of draws up to x and the law's P(X <= x) small enough?
  With probability a at most it is above sqrt(ln(2/a) / 2n), for every law (Dvoretzky, Kiefer, Wolfowitz; Massart 1990).
* **tails**: do as many draws as should lie in the outer three thousandths? Noise that is cut off hides nobody there.
* **neighbours**: are two draws in a row on the same side of the median as often as independent ones are?

The last two count how often an event of known probability p happens. With probability a at most, a share f of n draws
has n KL(f, p) > ln(2/a) (Chernoff). All bounds hold for every number of draws, so the false-alarm rate is what is
stated: one run in a million convicts samplers that are right. Draws that are not whole numbers, and two equal runs,
convict at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from discreet.base.errors import DiscreetError
from discreet.base.scientific import special
from discreet.base.types import Floats
from discreet.base.validation import check_open_unit
from discreet.mechanisms.sums.accumulator import SecureNoise
from discreet.noise.binomial import BinomialNoise
from discreet.noise.discrete_gaussian import DiscreteGaussian, GridGaussian
from discreet.noise.distribution import Law
from discreet.noise.exact_sampler import OPENDP, OWN, SamplerName
from discreet.noise.knorm import DiscreteKNorm
from discreet.noise.laplace import DiscreteLaplace
from discreet.noise.randomized_response import KaryRandomizedResponse, RandomizedResponse, UnaryEncoding

FALSE_ALARM = 1e-6
_TESTS = 3
_TAIL = 0.0015
_MANY, _FEW = 20_000, 6_000
_LAPLACE, _GAUSSIAN = (1.0, 6.0, 1000.5), (0.7, 6.0, 41.3)


@dataclass(frozen=True)
class Sampler:
    """A way in which a real release draws, and the law on the whole numbers that it states.

    ``draw(n)`` makes n independent draws; ``up_to(x)`` is P(X <= x); all but 1e-12 of the law is in -reach..reach.
    """

    name: str
    draw: Callable[[int], Floats]
    up_to: Callable[[Floats], Floats]
    reach: int
    draws: int = _MANY


@dataclass(frozen=True)
class Checked:
    """What came of one sampler: the largest difference that was seen, the one allowed, and what is wrong, or None."""

    name: str
    draws: int
    difference: float
    allowed: float
    problem: str | None

    @property
    def sound(self) -> bool:
        """Whether nothing speaks against it."""
        return self.problem is None


def samplers() -> tuple[Sampler, ...]:
    """Every sampler that real releases and reports draw from, at a few scales."""
    both = [
        sampler
        for name in (OPENDP, OWN)
        for sampler in (
            *(_additive(f"discrete Laplace, scale {b:g}", DiscreteLaplace(b), 45 * b, name) for b in _LAPLACE),
            *(_additive(f"discrete Gaussian, sigma {s:g}", DiscreteGaussian(s), 10 * s, name) for s in _GAUSSIAN),
            _grid(name),
        )
    ]
    return (*both, _binomial(), _k_norm(), *_responses())


def check_samplers(chosen: Sequence[Sampler] | None = None, *, false_alarm: float = FALSE_ALARM) -> list[Checked]:
    """Try every sampler; with probability ``false_alarm`` at most, any of them is convicted although all are right."""
    tried = samplers() if chosen is None else chosen
    each = check_open_unit("false_alarm", false_alarm) / (_TESTS * max(1, len(tried)))
    return [_check(sampler, each) for sampler in tried]


def _check(sampler: Sampler, false_alarm: float) -> Checked:
    half = sampler.draws // 2
    allowed = math.sqrt(math.log(2 / false_alarm) / (4 * half))
    try:
        first, second = (np.asarray(sampler.draw(half), np.float64) for _ in range(2))
    except DiscreetError as refusal:
        return Checked(sampler.name, 0, math.nan, allowed, str(refusal))
    except Exception as failure:  # whatever a broken library does: the others are tried all the same
        return Checked(sampler.name, 0, math.nan, allowed, f"cannot be drawn: {type(failure).__name__}")
    values = np.concatenate([first, second])
    if first.shape != (half,) or second.shape != (half,) or not np.array_equal(values, np.round(values)):
        return Checked(sampler.name, values.size, math.nan, allowed, "draws something else than whole numbers")
    if np.array_equal(first, second):
        return Checked(sampler.name, values.size, math.nan, allowed, "draws the same numbers again")
    difference = _difference(sampler, values)
    problem = None
    if difference > allowed:
        problem = f"does not follow its law: shares differ by {difference:.3f}, and {allowed:.3f} is allowed"
    elif not _plausible(*_in_tails(sampler, values), false_alarm):
        problem = "has tails of another law"
    elif not _plausible(*_alike(sampler, values), false_alarm):
        problem = "draws numbers that depend on the one before"
    return Checked(sampler.name, values.size, difference, allowed, problem)


def _difference(sampler: Sampler, values: Floats) -> float:
    """The largest difference of the two distribution functions, which is at a value that was drawn or just below."""
    seen, counts = np.unique(values, return_counts=True)
    up_to = np.cumsum(counts) / len(values)
    below = up_to - counts / len(values)
    return float(max(np.abs(up_to - sampler.up_to(seen)).max(), np.abs(below - sampler.up_to(seen - 1)).max()))


def _in_tails(sampler: Sampler, values: Floats) -> tuple[int, int, float]:
    """How many of how many draws are in the tails, and the probability of that."""
    low, high = _quantile(sampler, _TAIL), _quantile(sampler, 1 - _TAIL)
    left, middle = sampler.up_to(np.array([low, high - 1], np.float64))
    inside = (values > low) & (values < high)
    return int((~inside).sum()), len(values), float(min(1.0, left + 1 - middle)) if low < high else 1.0


def _alike(sampler: Sampler, values: Floats) -> tuple[int, int, float]:
    """How many of how many disjoint pairs are on one side of the median, and the probability of that."""
    middle = _quantile(sampler, 0.5)
    below = float(sampler.up_to(np.array([middle], np.float64))[0])
    sides = values[: len(values) // 2 * 2].reshape(-1, 2) <= middle
    return int((sides[:, 0] == sides[:, 1]).sum()), len(sides), below**2 + (1 - below) ** 2


def _plausible(count: int, total: int, probability: float, false_alarm: float) -> bool:
    share, p = count / total, min(probability, 1.0)
    divergence = 0.0
    for seen, expected in ((share, p), (1 - share, 1 - p)):
        if seen > 0:
            divergence += seen * math.log(seen / expected) if expected > 0 else math.inf
    return total * divergence <= math.log(2 / false_alarm)


def _quantile(sampler: Sampler, probability: float) -> int:
    """The smallest x with P(X <= x) >= probability."""
    low, high = -sampler.reach - 1, sampler.reach
    while high - low > 1:
        middle = (low + high) // 2
        enough = sampler.up_to(np.array([middle], np.float64))[0] >= probability
        low, high = (low, middle) if enough else (middle, high)
    return high


def _table(log_probabilities: Floats, lowest: int) -> Callable[[Floats], Floats]:
    cumulative = np.concatenate([[0.0], np.minimum(np.cumsum(np.exp(log_probabilities)), 1.0)])

    def up_to(x: Floats) -> Floats:
        return np.asarray(cumulative[np.clip(x - lowest + 1, 0, len(cumulative) - 1).astype(np.int64)])

    return up_to


def _named(law: str, sampler: SamplerName) -> str:
    return f"{law}, our own sampler" if sampler == OWN else law


def _additive(name: str, law: Law, reach: float, sampler: SamplerName) -> Sampler:
    """Noise in every cell, drawn by the source of noise that a session has."""
    ends = math.ceil(reach) + 2
    table = _table(law.log_probability(np.arange(-ends, ends + 1)), -ends)
    return Sampler(_named(name, sampler), lambda n: SecureNoise(sampler=sampler).draw(law, 1, n), table, ends)


def _grid(sampler: SamplerName) -> Sampler:
    """In steps of its grid, 2^30 of which are one sigma; the law there is the Gaussian's to nine digits."""
    law = GridGaussian(1.0, 30)
    wide = law.sigma / law.step
    return Sampler(
        _named("discrete Gaussian, fine grid", sampler),
        lambda n: SecureNoise(sampler=sampler).draw(law, 1, n) / law.step,
        lambda x: np.asarray(special.ndtr((x + 0.5) / wide)),
        math.ceil(10 * wide),
    )


def _binomial() -> Sampler:
    law = BinomialNoise(200, 0.25)
    counts = np.arange(law.trials + 1)
    table = _table(law.log_probability(counts - law.mean), 0)
    return Sampler("binomial, 200 coins of 1/4", lambda n: np.asarray(law.secure(n), np.float64), table, 201)


def _k_norm() -> Sampler:
    """The largest entry of a table: (2r + 1)^d - (2r - 1)^d tables of d entries have it equal to r."""
    law = DiscreteKNorm(3, 6.0)
    radii = np.arange(1, 600)
    log_tables = np.log((2.0 * radii + 1) ** 3 - (2.0 * radii - 1) ** 3)
    logs = law.log_probability(np.stack([radii, 0 * radii, 0 * radii], axis=1)) + log_tables
    zero = law.log_probability(np.zeros((1, 3)))
    table = _table(np.concatenate([zero, logs]), 0)
    return Sampler(
        "K-norm, 3 cells, scale 6",
        lambda n: np.asarray(np.abs(law.secure(n)).max(axis=-1), np.float64),
        table, 600, _FEW,
    )  # fmt: skip


def _responses() -> tuple[Sampler, ...]:
    bit, item, unary = RandomizedResponse(1.0), KaryRandomizedResponse(1.0, 5), UnaryEncoding(1.0, 4)

    def ones(probability: float) -> Callable[[Floats], Floats]:
        return _table(np.log([1 - probability, probability]), 0)

    return (
        Sampler(
            "randomised response, one bit",
            lambda n: bit.randomize_securely(np.ones(n)).astype(np.float64), ones(bit.p), 2,
        ),
        Sampler(
            "randomised response, 5 items",
            lambda n: ((item.randomize_securely(np.full(n, 3)) - 3) % 5).astype(np.float64),
            _table(np.log([item.p, *[item.q] * 4]), 0), 5,
        ),
        Sampler(
            "unary encoding, true item",
            lambda n: unary.randomize_securely(np.full(n, 2))[:, 2].astype(np.float64), ones(unary.p), 2,
        ),
        Sampler(
            "unary encoding, false item",
            lambda n: unary.randomize_securely(np.full(n, 2))[:, 0].astype(np.float64), ones(unary.q), 2,
        ),
    )  # fmt: skip
