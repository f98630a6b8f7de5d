"""Private means: what one user moves, whatever she brings, and what it costs."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from small_worlds import SHAPE, A, H, S, policies, world

from discreet.base.errors import InvalidInput
from discreet.base.shape import Shape
from discreet.mechanisms.sums.accumulator import SecureNoise, SimulatedNoise
from discreet.noise.laplace import DiscreteLaplace
from discreet.tables.evaluation.clipping import choose_clip, known_range
from discreet.tables.evaluation.doubly_robust import contributions
from discreet.tables.evaluation.interval import Interval, half_width
from discreet.tables.evaluation.policy_value import shares_of, terms_of
from discreet.tables.evaluation.private_mean import GRID, Clip, PrivateMean, guarantee_of
from discreet.tables.evaluation.return_bounds import limits_of
from discreet.tables.evaluation.start_distribution import encode, first_states
from discreet.tables.evaluation.verdict import Causes, verdict_of
from discreet.tables.read.user_subsets import Paths

HOSTILE = [0.0, 1.0, -1.0, 2.5, -1e300, 1e300, math.inf, -math.inf, math.nan, 1e-300, 0.4999999]


def moved(mechanism: PrivateMean, one: np.ndarray, two: np.ndarray) -> tuple[int, int]:
    sums = [[int(each.sum()) for each in mechanism.encode(values)] for values in (one, two)]
    return abs(sums[0][0] - sums[1][0]), abs(sums[0][1] - sums[1][1])


def test_replacing_one_value_moves_sums_by_no_more_than_stated():
    mechanism = PrivateMean("x", Clip(0.3, 0.7), 1.0)
    stated = [part.sensitivity.l1 for part in mechanism.parts()]
    rest, worst = np.array([0.1, 0.9]), [0, 0]
    for one, two in itertools.product(HOSTILE, repeat=2):
        found = moved(mechanism, np.append(rest, one), np.append(rest, two))
        worst = [max(pair) for pair in zip(worst, found, strict=True)]
    assert stated == [2 * GRID, GRID]
    assert worst == stated  # attained, so no smaller sensitivity would do


def test_replacing_one_whole_trajectory_moves_every_sum_by_no_more_than_stated():
    """All trajectories of a small world against each other, for every quantity that is released."""
    rng = np.random.default_rng(0)
    model, (pi, mu), limits = world(0, True), policies(0), limits_of(SHAPE, True)
    model = model._replace(shown=rng.random((H, S, A)) < 0.5)
    terms = terms_of(SHAPE, limits, pi, mu, model, 100, 1.0)
    rows = [
        [(h, int(rng.integers(S)), int(rng.integers(A)), int(rng.integers(S + 1)), float(rng.random())) for h in steps]
        for steps in ([], [0], [1], [2], [0, 1], [0, 2], [0, 1, 2]) for _ in range(12)
    ]  # fmt: skip
    who = np.repeat(np.arange(len(rows)), [len(each) for each in rows])
    table = np.array([row for each in rows for row in each]).T
    found = contributions(Paths(len(rows), who, *table[:4].astype(np.int64), table[4]), SHAPE, terms)
    quantities = [found.lower, found.upper, found.returns, found.lower - found.returns, found.upper - found.returns]
    for values in quantities:
        mechanism = PrivateMean("x", Clip(0.0, 0.2), 1.0)  # so narrow that both ends are reached
        y, z = mechanism.encode(values)
        assert int(y.max() - y.min()) <= 2 * GRID
        assert 0 <= int(z.min()) <= int(z.max()) <= GRID
    starts = [encode(Paths(1, *(np.atleast_1d(c) for c in (0, row[0], row[1], row[2], row[3])), np.zeros(1)), S)
              for each in rows for row in each[:1]]  # fmt: skip
    assert max(int(np.abs(one - two).sum()) for one in starts for two in starts) == 2


def test_the_cost_is_what_was_asked_for():
    shares = shares_of(1.0)
    parts = [part for share in (shares.value / 2, shares.value / 2, shares.difference / 2, shares.difference / 2,
             shares.behaviour) for part in PrivateMean("x", Clip(0, 1), share).parts()]  # fmt: skip
    assert len(parts) == 10
    assert guarantee_of(parts).epsilon == pytest.approx(1.0)
    assert guarantee_of([PrivateMean.at_most("all", 1.0)]).epsilon == pytest.approx(1.0)
    assert guarantee_of([]).model == "none"


def test_real_noise_is_added_and_the_mean_is_near():
    values = np.linspace(-1, 1, 4001)
    mechanism = PrivateMean("x", Clip(0.0, 1.0), 2.0)
    found = {mechanism.release(values, SecureNoise()).mean for _ in range(5)}
    assert len(found) == 5
    assert max(abs(mean) for mean in found) < 0.05  # 60 scales of the noise
    exact = PrivateMean("x", Clip(0.0, 1.0), math.inf).release(values, SecureNoise())
    assert (exact.mean, exact.noise) == (pytest.approx(0.0, abs=1e-5), 0.0)
    assert exact.deviation == pytest.approx(values.std(), rel=1e-4)


def test_first_states_cost_what_they_say():
    paths = Paths(
        4, np.arange(4), np.zeros(4, np.int64), np.array([0, 0, 1, 0]), *(np.zeros(4, np.int64),) * 2, np.zeros(4)
    )
    found = first_states(paths, 2, 0.5, SimulatedNoise(np.random.default_rng(0)))
    assert guarantee_of(found.parts).epsilon == pytest.approx(0.5)
    assert first_states(paths, 2, math.inf, SecureNoise()).shares.tolist() == [0.75, 0.25]


def test_half_widths_are_quantiles():
    """Against a million draws: a share is 0.05 to within 0.0009, four deviations."""
    rng = np.random.default_rng(0)
    for deviation, scale in ((1.0, 0.3), (0.5, 1.0), (0.01, 1.0), (1.0, 0.001)):
        x = deviation * rng.standard_normal(10**6) + rng.laplace(0.0, scale, 10**6)
        assert (np.abs(x) > half_width(deviation, scale, 0.95)).mean() == pytest.approx(0.05, abs=0.0009)
        if scale > 0.1:  # without the noise the share is another one
            assert (np.abs(x) > half_width(deviation, 0.0, 0.95)).mean() > 0.06


def test_clips_weigh_noise_against_what_they_remove():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(4000)
    wide, narrow = choose_clip(x, 1.0, 10**6, 4.0), choose_clip(x, 1.0, 100, 0.1)
    assert wide.clip.bound > narrow.clip.bound
    assert wide.excess < 0.01 < narrow.excess
    assert known_range(-1.0, 3.0).clip == Clip(1.0, 2.0)


def test_verdicts_follow_the_interval():
    causes = Causes(bracket=0.1, noise=0.5, sampling=0.2, span=2.0, shown=0.8)
    words = {
        (0.1, 0.4): "better", (-0.4, -0.1): "worse", (-0.1, 0.1): "about the same", (-0.5, 0.6): "cannot be told"
    }  # fmt: skip
    for (low, high), word in words.items():
        assert verdict_of(Interval((low + high) / 2, low, high), causes).word == word
    wide = Interval(0.0, -0.5, 0.6)
    assert "noise" in verdict_of(wide, causes).reason
    assert "20%" in verdict_of(wide, causes._replace(bracket=0.9)).reason
    assert "outcomes" in verdict_of(wide, causes._replace(sampling=0.9)).reason


def test_ranges_of_returns_must_fit():
    shape = Shape(2, 2, 3, rewards=(0.0, 1.0))
    assert limits_of(shape, False).best.tolist() == [3.0, 2.0, 1.0, 0.0]
    for returns in ((5.0, 6.0), (1.0, 0.0), (0.5, 2.0)):
        with pytest.raises(InvalidInput):
            limits_of(shape, True, returns)


class Low:
    """Noise far below zero, so that a second moment comes out too small."""

    def draw(self, law: DiscreteLaplace, runs: int, cells: int) -> np.ndarray:
        return np.full(cells, -int(2.5 * law.scale))


def test_a_spread_that_noise_hid_is_what_the_model_expects_but_no_more_than_noise_can_hide():
    values, mechanism = np.linspace(-0.01, 0.01, 400), PrivateMean("x", Clip(0.0, 1.0), 1.0)
    unit = math.sqrt(mechanism.laws[1].scale / (GRID * 400))  # one scale of the noise in a variance, as a deviation
    hidden = mechanism.release(values, Low())
    assert hidden.deviation == 0.0
    assert 0 < mechanism.release(values, Low(), 0.05).deviation <= 0.05
    most = mechanism.release(values, Low(), 50.0).deviation
    assert most <= math.sqrt(-math.log(0.05) - 2.5 + 0.01) * unit
