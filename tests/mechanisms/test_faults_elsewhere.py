"""Faults that other libraries of this field had lately: each is tested here, or cannot happen, and this list says why.

1. A conversion that understates, and 0.0 for what is tiny: ``tests/privacy/test_never_understated.py``.
2. rho = epsilon^2 / 8 for laws that it does not hold for: below; there is no exponential mechanism and no quantile yet.
3. Released at a threshold, and delta counted above it; thresholds cut to whole numbers: below and
   ``tests/mechanisms/sums/test_sparse.py``. Private levels with a threshold do not exist yet.
4. k rows of one user move 2k: below, and every form of table in ``tests/tables/read/test_replaced_users.py``. Levels
   are declared and never merged after a cap, so no bound is computed before a merge.
5. A difference or a spread whose parts move with the data's own mean, one bound of a range used twice: below; sums are
   whole numbers about a centre that is declared or released.
6. NaN becomes 0 or passes a clamp just before noise: ``tests/mechanisms/test_tallies.py``.
7. A last bit that is never randomised, lengths that tell: ``tests/client/test_every_position.py``.
8. An audit that convicts without evidence, or of another mechanism than was accounted: below; calibration, accounting
   and runs read one frozen object, and ``check_unchanged`` refuses what was exchanged (``test_tallies.py``).
9. Quantiles that underflow with many ties: there are no quantiles yet.
10. The time of an exact sampler tells its noise: the noise of a release is drawn as a whole before it is answered; who
    measures the machine closely meanwhile is not tested against.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from discreet.audit.binomial_audit import Charge, audit_pairs, epsilon_lower_bound
from discreet.base.shape import Shape
from discreet.mechanisms.counts.encoder import encode_all
from discreet.mechanisms.counts.joint_histogram import MarginalTable
from discreet.mechanisms.sparse import ThresholdedGaussian, ThresholdedLaplace
from discreet.noise import DiscreteGaussian, DiscreteKNorm, DiscreteLaplace
from discreet.privacy.sensitivity import Sensitivity
from discreet.tables.evaluation.private_mean import GRID, Clip, PrivateMean

ORDERS = (1.01, 1.5, 2.0, 4.0, 16.0, 64.0)


def renyi_per_order(law, shift: int) -> float:
    """The largest D_a / a of a cell that moves by ``shift``: what a zero-concentrated rho must be at least."""
    x = np.arange(-4000, 4001)
    p, q = law.log_probability(x), law.log_probability(x - shift)
    found = []
    for a in ORDERS:
        terms = a * p + (1 - a) * q
        top = terms.max()
        found.append((top + math.log(np.exp(terms - top).sum())) / (a - 1) / a)
    return max(found)


@pytest.mark.parametrize("scale", [0.5, 1.0, 3.0, 20.0])
@pytest.mark.parametrize("shift", [1, 2, 5])
def test_rho_of_a_pure_law_is_not_that_of_the_exponential_mechanism(scale: float, shift: int) -> None:
    moves = Sensitivity(float(shift), float(shift), float(shift))
    for law in (DiscreteLaplace(scale), DiscreteGaussian(scale), DiscreteKNorm(1, scale)):
        assert renyi_per_order(law, shift) <= law.profile(moves).rho * (1 + 1e-9)
    epsilon = shift / scale
    if epsilon <= 0.5:  # the twin: an eighth is too small for noise, by up to four times
        assert renyi_per_order(DiscreteLaplace(scale), shift) > 2 * epsilon**2 / 8


def shown_alone(law, threshold: float, count: int, at: float) -> Fraction:
    """P(count + noise reaches the threshold): what is released as it is at equality, whole or fractional thresholds."""
    x = np.arange(-3000, 3001)
    return float(np.exp(law.noise.log_probability(x))[count + x >= threshold + at].sum())


@pytest.mark.parametrize("threshold", [5.0, 5.5, 5.999, 6.0, 9.25])
@pytest.mark.parametrize("make", [ThresholdedLaplace, ThresholdedGaussian])
def test_a_cell_of_her_own_appears_at_the_threshold_itself(make, threshold: float) -> None:
    """A table with one cell of one user, against none: it appears with probability P(1 + Z >= threshold), exactly."""
    law = make(1.5, threshold)
    exact = shown_alone(law, threshold, 1, 0.0)
    profile = law.profile(Sensitivity.unit_shifts(1, 1))
    for epsilon in (profile.noise.epsilon(0.5) + 2, 5.0, 20.0):
        assert exact <= profile.delta(epsilon) * (1 + 1e-9)
    assert profile.appears == pytest.approx(exact, rel=1e-9)
    if threshold.is_integer():  # the twin counts strictly above: too little by what lies at equality
        assert shown_alone(law, threshold, 1, 0.5) < 0.9 * exact


@pytest.mark.parametrize(("pooled", "first"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("per_user", [1, 2, 3])
def test_all_rows_of_a_user_replaced_move_no_more_than_is_stated(pooled: bool, first: bool, per_user: int) -> None:
    """All pairs of what one user may bring, at two steps of two states: the stated L1 is attained, never exceeded."""
    shape = Shape(2, 1, 2, homogeneous=pooled)
    table = MarginalTable(shape, first_visit=first, per_user=per_user)
    one = MarginalTable(shape, first_visit=False)
    episodes = []
    for states, length in product(product((0, 1), repeat=2), (0, 1, 2)):
        cells, coins = np.zeros((1, one.size)), np.zeros(1, np.uint64)
        given = np.array([states]), np.zeros((1, 2), np.int64), np.zeros((1, 2)), np.array([length])
        encode_all((table if first else one).arrays(), *given, coins, cells)
        episodes.append(cells[0])
    brought = np.unique(
        [np.sum(chosen, axis=0) for chosen in product(episodes, repeat=per_user)], axis=0
    )  # a first visit of every episode: more than first visits of hers
    furthest = np.abs(brought[:, None] - brought[None]).sum(axis=2).max()
    if not first:
        assert furthest == table.sensitivity().l1
        assert furthest > table.sensitivity().l1 / 2  # the twin: k rows counted once
    elif per_user == 1:
        assert furthest <= table.sensitivity().l1


@pytest.mark.parametrize(("low", "high"), [(0.0, 3.0), (-2.0, 0.0), (-1.0, 4.0), (2.0, 2.5)])
def test_sums_of_any_range_move_by_what_is_stated(low: float, high: float) -> None:
    """Ranges that begin or end at zero have no sensitivity of zero; anything is replaced by anything else."""
    mean = PrivateMean("outcome", Clip((low + high) / 2, (high - low) / 2), 1.0)
    values = np.array([low, high, (low + high) / 2, low - 5, high + 5, math.nan, math.inf, -math.inf])
    everybody = np.concatenate([mean.encode(values, np.ones(8, bool)), np.zeros((1, 3), np.int64)])
    assert everybody.dtype.kind == "i"
    furthest = np.abs(everybody[:, None] - everybody[None]).sum(axis=2).max()
    stated = mean.parts()[0].sensitivity
    assert furthest == stated.l1 == 2 * GRID
    wrong = PrivateMean("outcome", Clip(low, (high - low) / 2), 1.0)  # the mutant: one bound twice
    assert np.abs(np.diff(wrong.encode(np.array([low, high]), np.ones(2, bool))[:, 1])) < 2 * GRID


@dataclass(frozen=True)
class Response:
    """Randomised response; after so many calls the two sides change places."""

    epsilon: float
    turns: int = 1_000
    known: bool = True

    def sample(self, side, trials, draws):
        rng = np.random.default_rng(draws)
        true = rng.random(trials) < 1 / (1 + math.exp(-self.epsilon))
        side = 1 - side if trials >= self.turns else side
        return np.where(true == (side == 0), self.epsilon, -self.epsilon)[:, None]


def test_an_audit_proves_nothing_against_a_mechanism_that_is_more_private() -> None:
    for epsilon in (0.0, 0.01):
        found = audit_pairs([Charge(Response(epsilon), 1.0, 0.0)], trials=20_000, seed=1)
        assert found.lower_bound <= epsilon
    assert audit_pairs([Charge(Response(0.0), 0.0, 0.0)], trials=20_000, seed=1).lower_bound == 0.0


def test_reversed_labels_prove_nothing() -> None:
    """Draws that speak the other way than those that chose the event are no evidence, however far from even."""
    trials = 20_000
    found = audit_pairs([Charge(Response(2.0, turns=trials // 4), 1.0, 0.0)], trials=trials, seed=1)
    assert found.lower_bound == 0.0
    assert float(epsilon_lower_bound(100, 900, 1000, delta=0.0, confidence=0.99)) == 0.0
    assert audit_pairs([Charge(Response(2.0, turns=10**9), 1.0, 0.0)], trials=trials, seed=1).lower_bound > 1.5
