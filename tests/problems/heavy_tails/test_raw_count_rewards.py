"""The heavy-tailed release as printed: truncation at raw counts by hand, a guarantee that is none, and a conviction."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import discreet
from discreet.audit.audit import audit
from discreet.audit.trials import likelihood_of, profile_of
from discreet.base.errors import Unsupported
from discreet.base.policies import uniform_policy
from discreet.base.shape import Moments, Shape
from discreet.base.streams import COINS, USERS, stream
from discreet.mechanisms.counts.encoder import encode
from discreet.mechanisms.trajectories import Trajectories
from discreet.papers import raw_count_loss
from discreet.privacy.words import rounded_up
from discreet.problems.heavy_tails.published_tables import RawCountTables
from discreet.recipes.registry import build

NAME = "central/heavy-tailed-published"
SHAPE = Shape(3, 2, 2, False, (-1.0, 1.0), moments=Moments(2.0, 1.0))


def test_a_reward_counts_if_it_is_below_the_threshold_of_the_raw_count():
    """per_visit 1, v = 1: thresholds 0, 1, sqrt 2, sqrt 3; the pair (0, 0) of the first step, five times."""
    encoder = RawCountTables(SHAPE, 1.0)
    rewards = [0.5, 1.0, 1.5, -1.7, 1.9]
    played = np.zeros((5, 2), np.int64)
    records = Trajectories(played, played, np.array([[r, 0.0] for r in rewards]), np.full(5, 2))
    cells = encode(encoder, records, stream(0, 0, USERS))
    assert cells[:, encoder.counts].tolist() == [0.0, 1.0, 0.0, -1.7, 1.9]
    visits, moves = encoder.marginals(cells.sum(axis=0))["visits"], encoder.marginals(cells.sum(axis=0))["transitions"]
    assert visits.values[0, 0, 0] == visits.values[1, 0, 0] == moves.values[0, 0, 0, 0] == 5
    assert moves.values[1].sum() == 0


def test_noise_and_thresholds_are_as_printed():
    channel = build(discreet.Central(0.5, recipe=NAME), SHAPE, 256).channels[0]
    assert channel.count_law.scale == pytest.approx(3 * 2 * 8 / 0.5)
    assert channel.reward_law.scale == pytest.approx(6 * 2 * 8 / 0.5)
    log = math.log(3 * 3 * 2 * 256 * 2 / 0.1)
    assert channel.encoder.threshold(9) == pytest.approx((0.5 * 2.0 * 9 / (2 * 8**1.5 * log)) ** 0.5)


def test_the_guarantee_is_that_there_is_none():
    guarantee = build(discreet.Central(1.0, recipe=NAME), SHAPE, 1000).guarantee
    assert math.isinf(guarantee.epsilon)
    assert guarantee.model == "joint"
    assert guarantee.claimed.epsilon == 1.0
    assert guarantee.delta_at(50.0) == 1.0
    text = guarantee.explain()
    assert "NOT TRUE" in text
    assert "no bound" in text
    assert f"apart from that: epsilon {rounded_up(5 / 3 * 10 / math.log2(1000))}" in text
    assert guarantee.as_dict()["epsilon"] is None


def test_auto_never_takes_it_and_rho_is_refused():
    assert build(discreet.Central(1.0), replace(SHAPE, homogeneous=True), 100).recipe != NAME
    with pytest.raises(Unsupported, match="give epsilon"):
        build(discreet.Central(rho=1.0, recipe=NAME), SHAPE, 100)


@pytest.mark.parametrize("shape", [SHAPE, replace(SHAPE, homogeneous=True), replace(SHAPE, actions=1, start=2)])
def test_the_loss_of_the_pair_is_the_one_in_the_errata(shape):
    """One cell: the printed tree over 64 users, in units of the claimed epsilon, up to H and the levels it counts."""
    channel = build(discreet.Central(1.0, recipe=NAME), shape, 64).channels[0]
    expected = raw_count_loss(64, 0.5) * (64).bit_length() / (math.log2(64) * shape.horizon)
    assert likelihood_of(channel).losses.sum() == pytest.approx(expected, rel=1e-9)
    assert profile_of(channel).epsilon(0.0) == pytest.approx(expected, rel=1e-9)


def test_log_likelihood_ratios_are_those_of_the_pair():
    """The mean of exp(-ratio) under the first data set is one; 200,000 draws of a loss of 1.8."""
    nodes = likelihood_of(build(discreet.Central(1.0, recipe=NAME), replace(SHAPE, horizon=1), 16).channels[0])
    first, second = (nodes.sample(side, 200_000, stream(0, side, COINS)) for side in (0, 1))
    assert np.exp(-first).mean() == pytest.approx(1.0, abs=0.02)
    assert np.exp(second).mean() == pytest.approx(1.0, abs=0.02)
    assert np.abs(first).max() <= nodes.losses.sum() + 1e-9
    assert first.mean() > 0 > second.mean()


@pytest.mark.parametrize("seed", [0, 1])
def test_the_audit_convicts_it_where_many_users_came(seed):
    report = audit(discreet.Central(1.0, recipe=NAME), SHAPE, episodes=20_000, trials=8_000, seed=seed)
    assert not report.holds
    assert report.lower_bound > 1.5 * report.claimed
    assert report.case.setting.episodes == 512
    assert math.isinf(report.certified)
    assert "visits a cell, or does not" in report.explain()


def test_it_learns_nothing_from_its_own_sizes():
    """Regret stays within a few percent of uniform play, as the honest noise of the same form does."""
    world = discreet.worlds.river_swim(4, 6, rewards="stable", alpha=1.8)
    result = discreet.simulate(
        world, discreet.learners.HeavyUCBVI(), discreet.Central(1.0, recipe=NAME), episodes=1_500, runs=3, seed=2
    )
    uniform = 1_500 * world.gap(uniform_policy(world.shape))
    assert result.regret[:, -1].mean() == pytest.approx(uniform, rel=0.1)
    assert result.recipe == NAME
