"""Heavy-tailed rewards: their law, their exact moments, and what a world with them declares."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import gamma

import discreet
from discreet.base.compiled import kernel
from discreet.base.errors import InvalidInput
from discreet.base.streams import USERS, stream
from discreet.problems.heavy_tails.world import default_order, heavy_tailed, moment, moment_bound
from discreet.worlds.rewards import draw_reward


@kernel
def draw_many(law, draws, out):
    for i in range(out.shape[0]):
        out[i] = draw_reward(law, 0, 0, 0, 0, draws)


def sample(kind, alpha, centre=0.3, scale=2.0, n=4000):
    out = np.empty(n)
    draw_many(heavy_tailed(kind, np.full((1, 1, 1), centre), alpha, scale), stream(7, 0, USERS), out)
    return out


LAWS = {
    ("stable", 1.8): lambda s: stats.levy_stable(1.8, 0, loc=0.3, scale=2.0 * s).cdf,
    ("stable", 2.0): lambda s: stats.norm(0.3, 2.0 * np.sqrt(2) * s).cdf,
    ("student", 2.2): lambda s: stats.t(2.2, loc=0.3, scale=2.0 * s).cdf,
    ("pareto", 1.8): lambda s: (
        lambda x: np.where(
            np.abs(x - 0.3) < 2 * s,
            0.5,
            np.where(x > 0.3, 1 - 0.5 * (2 * s / np.abs(x - 0.3)) ** 1.8, 0.5 * (2 * s / np.abs(x - 0.3)) ** 1.8),
        )
    ),
}


@pytest.mark.parametrize(("kind", "alpha"), [key for key in LAWS if key[0] != "stable" or key[1] == 2.0])
def test_draws_follow_their_law_and_no_wider_or_narrower_one(kind, alpha):
    """Kolmogorov-Smirnov at a false-alarm rate of 1e-4; scales of 2/3 and 3/2 must be rejected."""
    drawn = sample(kind, alpha)
    assert stats.kstest(drawn, LAWS[kind, alpha](1.0)).pvalue > 1e-4
    for wrong in (2 / 3, 3 / 2):
        assert stats.kstest(drawn, LAWS[kind, alpha](wrong)).pvalue < 1e-4


def test_stable_draws_have_the_stable_characteristic_function():
    """Mean of cos(t (X - mean)) = exp(-|scale t|^alpha): a standard error is below 0.012, five are allowed."""
    drawn = sample("stable", 1.8)
    for t in (0.1, 0.3, 0.6):
        found = np.cos(t * (drawn - 0.3)).mean()
        assert found == pytest.approx(np.exp(-((2.0 * t) ** 1.8)), abs=0.06)
    assert np.cos(0.3 * (drawn - 0.3)).mean() != pytest.approx(np.exp(-((3.0 * 0.3) ** 1.8)), abs=0.06)


def test_two_point_rewards_have_their_mean():
    drawn = sample("two-point", 0.1)
    np.testing.assert_allclose(np.unique(drawn), [0.0, 3.0])
    assert drawn.mean() == pytest.approx(0.3, abs=0.08)


@pytest.mark.parametrize(
    ("alpha", "p", "u"), [(1.5, 1.2, 2.906), (1.5, 1.4, 7.077), (1.8, 1.5, 2.748), (1.9, 1.8, 4.161)]
)
def test_stable_moments_around_one(alpha, p, u):
    assert moment("stable", 1.0, alpha, 1.0, p) == pytest.approx(u, abs=6e-4)


def test_centred_moments_have_closed_forms():
    p, a = 1.3, 1.7
    stable = 2**p * gamma((1 + p) / 2) * gamma(1 - p / a) / (gamma(1 - p / 2) * np.sqrt(np.pi))
    student = a ** (p / 2) * gamma((p + 1) / 2) * gamma((a - p) / 2) / (np.sqrt(np.pi) * gamma(a / 2))
    assert moment("stable", 0.0, a, 1.0, p) == pytest.approx(stable, rel=1e-6)
    assert moment("student", 0.0, a, 1.0, p) == pytest.approx(student, rel=1e-5)
    assert moment("pareto", 0.0, a, 2.0, p) == pytest.approx(2**p * a / (a - p), rel=1e-5)
    assert moment("stable", 1.0, 2.0, 1.0, 2.0) == 3.0
    assert moment("two-point", 1.0, 0.1, 1.0, 2.0) == pytest.approx(10.0)


@pytest.mark.parametrize("kind", ["student", "pareto"])
def test_moments_off_centre_agree_with_draws(kind):
    """E|X|^0.8 of a law with tail index 3: the standard error is about 1%."""
    assert (np.abs(sample(kind, 3.0, n=40_000)) ** 0.8).mean() == pytest.approx(
        moment(kind, 0.3, 3.0, 2.0, 0.8), rel=0.05
    )


def test_a_moment_that_does_not_exist_is_refused():
    with pytest.raises(InvalidInput, match="infinite"):
        moment("stable", 0.0, 1.8, 1.0, 1.9)
    with pytest.raises(InvalidInput, match="above 1"):
        heavy_tailed("student", np.zeros((1, 1, 1)), 0.9)
    with pytest.raises(InvalidInput, match=r"\(1, 2\]"):
        heavy_tailed("stable", np.zeros((1, 1, 1)), 2.5)
    with pytest.raises(InvalidInput, match="heavy-tailed law"):
        heavy_tailed("cauchy", np.zeros((1, 1, 1)), 1.5)


def test_a_heavy_tailed_river_declares_moments_and_the_range_of_its_means():
    world = discreet.worlds.make_world("river-swim", rewards="stable", alpha="1.8")
    plain = discreet.worlds.river_swim()
    assert world.shape.rewards == (-1.0, 1.0)
    assert world.shape.moments.order == default_order("stable", 1.8) == pytest.approx(0.5)
    assert world.shape.moments.bound == pytest.approx(2.748, abs=1e-3)
    assert world.optimal_value == pytest.approx(plain.optimal_value)
    assert plain.shape.moments is None
    assert world.with_time(homogeneous=False).shape.moments == world.shape.moments


def test_the_bound_holds_for_every_mean_of_the_law():
    law = heavy_tailed("stable", np.array([[[0.0, -2.0]]]), 1.8)
    assert moment_bound(law, 0.5).bound == pytest.approx(moment("stable", 2.0, 1.8, 1.0, 1.5))
