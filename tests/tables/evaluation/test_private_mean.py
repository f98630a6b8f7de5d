"""Private means: what one user moves, whatever she brings, and what it costs."""

from __future__ import annotations

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
from discreet.tables.evaluation.private_mean import GRID, Clip, Count, PrivateMean, guarantee_of, mean_of
from discreet.tables.evaluation.return_bounds import limits_of
from discreet.tables.evaluation.start_distribution import encode, first_states
from discreet.tables.evaluation.verdict import Causes, verdict_of
from discreet.tables.read.user_subsets import Paths

HOSTILE = [0.0, 1.0, -1.0, 2.5, -1e300, 1e300, math.inf, -math.inf, math.nan, 1e-300, 0.4999999]


def everybody(values: np.ndarray) -> np.ndarray:
    return np.ones(len(values), np.bool_)


def furthest(found: np.ndarray) -> tuple[int, int]:
    """The largest L1 and squared L2 distance of two users' numbers, none (0, 0, 0) among them."""
    found = np.unique(np.vstack([found, np.zeros((1, 3), np.int64)]), axis=0)
    apart = np.abs(found[:, None] - found[None])
    return int(apart.sum(axis=2).max()), int((apart**2).sum(axis=2).max())


def test_replacing_one_value_moves_the_three_sums_by_no_more_than_stated():
    mechanism = PrivateMean("x", Clip(0.3, 0.7), 1.0)
    (part,) = mechanism.parts()
    found = mechanism.encode(np.array(HOSTILE), np.ones(len(HOSTILE), np.bool_))
    assert furthest(found) == (2 * GRID, 4 * GRID * GRID)  # attained, so no smaller sensitivity would do
    assert (part.sensitivity.l1, part.sensitivity.l2, part.cells) == (2 * GRID, 2 * GRID, 3)


@pytest.mark.parametrize("grid", [1, 2, 7, 16, 61])
def test_count_and_squares_are_free_for_every_pair_of_whole_numbers(grid, monkeypatch):
    """The proof's inequality by enumeration, roundings included; a square that is not halved would not be free."""
    monkeypatch.setattr("discreet.tables.evaluation.private_mean.GRID", grid)
    y = np.arange(-grid, grid + 1)
    found = PrivateMean("x", Clip(0.0, grid), 1.0).encode(y.astype(float), everybody(y))
    np.testing.assert_array_equal(found[:, 1], y)
    assert furthest(found) == (2 * grid, 4 * grid * grid)
    broken = np.stack([found[:, 0], y, (grid * grid - y * y) // grid], axis=1)
    assert grid < 3 or furthest(broken)[0] > 2 * grid


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
    for values in (found.lower, found.upper, found.less, found.more, found.returns):
        mechanism = PrivateMean("x", Clip(0.0, 0.2), 1.0)  # so narrow that both ends are reached
        l1, l2_squared = furthest(mechanism.encode(values, found.judged))
        assert l1 <= 2 * GRID
        assert l2_squared <= 4 * GRID * GRID
    assert found.judged.tolist() == [any(row[0] == 0 for row in each) for each in rows]
    starts = [encode(Paths(1, *(np.atleast_1d(c) for c in (0, row[0], row[1], row[2], row[3])), np.zeros(1)), S)
              for each in rows for row in each[:1]]  # fmt: skip
    assert max(int(np.abs(one - two).sum()) for one in starts for two in starts) == 2


def test_the_cost_is_what_was_asked_for():
    shares = shares_of(1.0)
    parts = [part for share in (shares.value / 2, shares.value / 2, shares.difference / 2, shares.difference / 2,
             shares.behaviour) for part in PrivateMean("x", Clip(0, 1), share).parts()]  # fmt: skip
    assert len(parts) == 5
    assert guarantee_of(parts).epsilon == pytest.approx(1.0)
    assert guarantee_of([PrivateMean.at_most("all", 1.0)]).epsilon == pytest.approx(1.0)
    assert guarantee_of([]).model == "none"


def test_real_noise_is_added_and_the_mean_is_near():
    values = np.linspace(-1, 1, 4001)
    mechanism = PrivateMean("x", Clip(0.0, 1.0), 2.0)
    released = [mechanism.release(values, everybody(values), SecureNoise()) for _ in range(5)]
    assert len({each.total for each in released}) == 5
    assert max(abs(mean_of(each, each.present, 0.0, 0.95).mean) for each in released) < 0.05  # 60 scales of the noise
    judged = np.arange(4001) < 3000
    exact = PrivateMean("x", Clip(0.0, 1.0), math.inf).release(values, judged, SecureNoise())
    assert exact.present == Count(3000.0, 0.0)
    found = mean_of(exact, exact.present, 0.0, 0.95)
    assert (found.mean, found.noise) == (pytest.approx(values[:3000].mean(), abs=1e-5), 0.0)
    deviation = values[:3000].std() / math.sqrt(3000)
    assert (found.high - found.mean) / 1.96 == pytest.approx(deviation, rel=1e-3)


def test_the_interval_of_a_mean_over_judged_users_covers():
    """2,000 releases with 5% to 60% judged: .95, and six errors of a proportion are .03. Without the noise it fails."""
    rng = np.random.default_rng(0)
    for users, share, epsilon in ((400, 0.6, 1.0), (4000, 0.05, 0.5)):
        held = blind = 0
        for _ in range(1000):
            judged = rng.random(users) < share
            values = rng.normal(0.6, 0.3, users).clip(0, 1)
            released = PrivateMean("x", Clip(0.0, 1.0), epsilon).release(values, judged, SimulatedNoise(rng))
            found = mean_of(released, released.present, 0.0, 0.95)
            held += found.low <= 0.6 <= found.high
            quiet = released._replace(present=released.present._replace(scale=0.0))
            narrow = mean_of(quiet, quiet.present, 0.0, 0.95)
            blind += narrow.low <= 0.6 <= narrow.high
        assert held >= 920
        assert blind < 900


def test_whether_zero_is_inside_does_not_rest_on_the_count():
    values = np.random.default_rng(1).normal(0.05, 0.3, 3000)
    released = PrivateMean("x", Clip(0.0, 1.0), math.inf).release(values, everybody(values), SecureNoise())
    ends = [mean_of(released, Count(users, 0.0), 0.0, 0.95) for users in (300.0, 3000.0, 30_000.0)]
    assert [found.low > 0 for found in ends] == [True] * 3
    nobody = mean_of(released, Count(5.0, 20.0), 0.0, 0.95)
    assert (nobody.low, nobody.high) == (-math.inf, math.inf)


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

    simulated = True

    def draw(self, law: DiscreteLaplace, runs: int, cells: int) -> np.ndarray:
        return np.array([0, 0, int(2.5 * law.scale)])  # of what squares fall short of


def test_a_spread_that_noise_hid_is_what_the_model_expects_but_no_more_than_noise_can_hide():
    values, mechanism = np.linspace(-0.01, 0.01, 400), PrivateMean("x", Clip(0.0, 1.0), 1.0)
    hidden = mechanism.release(values, everybody(values), Low())
    assert hidden.spread(0.0, 400, 0.0) == 0.0
    assert 0 < hidden.spread(0.0, 400, 0.05) <= 400 * 0.05**2 + 1e-9
    scale = hidden.present.scale
    assert hidden.spread(0.0, 400, 50.0) <= (math.sqrt(5) * -math.log(0.05) - 5 + 0.01) * scale
