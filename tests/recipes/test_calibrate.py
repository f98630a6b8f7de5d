"""``calibrate``: the numbers it foretells are those that a run then has."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import discreet
from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.policies import Policy, uniform_policy
from discreet.base.streams import COINS, NOISE, USERS, generator, stream
from discreet.mechanisms.release import Request
from discreet.mechanisms.sums.accumulator import SimulatedNoise
from discreet.recipes.registry import build
from discreet.simulation.users import TabularUsers

WORLD = discreet.worlds.river_swim(states=3, horizon=3)
PRIVACIES = [
    discreet.Central(1.0, recipe="central/joint-histogram-laplace", options={"blocks": 5}),
    discreet.Central(2.0, 1e-5, recipe="central/first-visit-gaussian", options={"blocks": 5}),
    discreet.Central(1.0, recipe="central/three-tables-laplace-tree"),
    discreet.Local(1.0, recipe="local/first-visit-laplace"),
    discreet.Local(1.0, recipe="local/three-tables-laplace"),
]


@pytest.mark.parametrize("privacy", PRIVACIES, ids=lambda p: f"{p.model}-{p.recipe}")
def test_foretold_deviations_are_those_of_the_release_at_the_end(privacy):
    """15 = 1111 in binary: the tree's releases carry as many draws as it has levels. Nothing is masked."""
    episodes = 15
    foretold = discreet.calibrate(privacy, WORLD.shape, episodes=episodes)
    privatizer = build(privacy, WORLD.shape, episodes)
    assert foretold.recipe == privatizer.recipe
    assert foretold.guarantee == privatizer.guarantee
    users = TabularUsers(WORLD, stream(0, 0, USERS), generator(0, 0, COINS))
    session = privatizer.open(users, SimulatedNoise(generator(0, 0, NOISE)), episodes)
    releases = 0
    while session.left:
        release = session.answer(Request(uniform_policy(WORLD.shape)))
        releases += 1
        if releases == 1:
            first = release
    assert foretold.releases == releases
    for error in foretold.errors:
        assert error.sd_release == pytest.approx(math.sqrt(first[error.statistic].variance.max()))
        assert error.sd_end == pytest.approx(math.sqrt(release[error.statistic].variance.max()))
        assert error.width_end == release.width(error.cells, 0.1).max()


def test_where_each_is_asked_about_one_row_the_noise_is_that_of_an_average_row():
    """One action in each of 3 states, and 2 questions: on average one user in 6 is asked either about a row."""
    privacy, episodes = discreet.Local(1.0, recipe="local/asked-first-visit"), 6_000
    foretold = discreet.calibrate(privacy, WORLD.shape, episodes=episodes)
    users = TabularUsers(WORLD, stream(0, 0, USERS), generator(0, 0, COINS))
    session = build(privacy, WORLD.shape, episodes).open(users, SimulatedNoise(generator(0, 0, NOISE)), episodes)
    while session.left:
        release = session.answer(Request(Policy(np.ones((3, 3), np.int64))))
    for error in foretold.errors:
        assert error.sd_release > 0
        variance = release[error.statistic].variance[0, :, 1]
        assert error.sd_end**2 == pytest.approx(variance.mean(), rel=0.1)


def test_a_masked_row_carries_less_noise_than_foretold():
    privacy = discreet.Central(1.0, recipe="central/first-visit-laplace", options={"blocks": 3})
    foretold = discreet.calibrate(privacy, WORLD.shape, episodes=9)
    users = TabularUsers(WORLD, stream(0, 0, USERS), generator(0, 0, COINS))
    session = build(privacy, WORLD.shape, 9).open(users, SimulatedNoise(generator(0, 0, NOISE)), 9)
    release = None
    while session.left:
        release = session.answer(Request(Policy(np.ones((3, 3), np.int64))))
    visits = release["visits"].variance
    assert visits[0, :, 1].max() == pytest.approx(foretold.errors[0].sd_end ** 2)
    assert not visits[0, :, 0].any()


def test_calibration_is_json():
    automatic = (discreet.NoPrivacy(), discreet.Central(1.0), discreet.Central(rho=0.5), discreet.Local(1.0))
    for privacy in (*PRIVACIES, *automatic):
        data = json.loads(json.dumps(discreet.calibrate(privacy, WORLD.shape, episodes=50).as_dict(), allow_nan=False))
        assert data["errors"][0]["statistic"] == "visits"
        assert data["guarantee"]["model"] in ("joint", "local", "none")


def test_less_privacy_is_less_noise():
    widths = [
        discreet.calibrate(discreet.Central(epsilon), WORLD.shape, episodes=100).errors[0].width_end
        for epsilon in (0.5, 1.0, 2.0, 4.0)
    ]
    assert widths == sorted(widths, reverse=True)
    assert widths[0] > widths[-1]


def test_bad_inputs_and_impossible_learners_are_refused():
    for wrong in ({"episodes": 0}, {"episodes": 10, "failure_probability": 0.0}):
        with pytest.raises(InvalidInput):
            discreet.calibrate(discreet.Central(1.0), WORLD.shape, **wrong)

    class NeedsLosses:
        name = "needs-losses"
        needs = frozenset({"losses"})

    for recipe in ("auto", "central/three-tables-laplace"):
        with pytest.raises(Unsupported, match="losses"):
            discreet.calibrate(discreet.Central(1.0, recipe=recipe), WORLD.shape, learner=NeedsLosses(), episodes=10)


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
@pytest.mark.parametrize("rewards", ["private", "known"])
def test_a_sparse_release_is_foretold_without_data(law, rewards):
    """With all cells of a count above the threshold its noise is theirs; how far the threshold is, the law says."""
    target = discreet.Central(1.0, 1e-5, recipe=f"offline/sparse-{law}", options={"rewards": rewards})
    found = discreet.calibrate(target, discreet.Shape(3, 2, 4), episodes=100, data_set=True)
    channel = build(target, discreet.Shape(3, 2, 4), 100, data_set=True).channels[0]
    counts = {"visits": 8, "transitions": 2, "rewards": 4} if rewards == "private" else {"visits": 4, "transitions": 1}
    assert {error.statistic: error.cells for error in found.errors} == counts
    for error in found.errors:
        assert error.sd_release == error.sd_end == pytest.approx(math.sqrt(channel.law.variance * error.cells))
        assert error.sd_end < error.width_end < 4 * error.sd_end
    assert f"threshold {channel.law.threshold:.6g}" in found.law
