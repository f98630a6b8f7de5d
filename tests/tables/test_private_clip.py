"""``clip="auto"``: what its histogram moves, the interval that it buys, what is said of it, and what is refused."""

from __future__ import annotations

import numpy as np
import polars
import pytest

import discreet
import discreet.data
from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.shape import Shape
from discreet.mechanisms.counts.joint_histogram import JointCounts
from discreet.mechanisms.counts.outcome_histogram import SIDE, OutcomeHistogram
from discreet.mechanisms.sums.accumulator import SimulatedNoise
from discreet.tables.private_clip import bought_clip, interval_of
from discreet.tables.verify import verify


def frame(users=2000, seed=0, low=0.0, high=1500.0):
    rng = np.random.default_rng(seed)
    drug = rng.integers(0, 4, users)
    y = np.clip(rng.normal(260 + 26 * (drug == 2), 130), low, high)
    return polars.DataFrame({"who": range(users), "s": np.zeros(users, int), "drug": drug, "y": y})


def table(rows=None, top=1500.0, **more):
    declared = {"states": 1, "actions": 4, "horizon": 1, "rewards": (0.0, top), **more}
    rows = frame() if rows is None else rows
    return discreet.data.read(rows, user="who", state="s", action="drug", reward="y", **declared)


@pytest.mark.parametrize("rewards", [(0.0, 100.0), (-50.0, 100.0), (-100.0, 0.0), (40.0, 90.0)])
def test_every_level_of_one_user_is_one_bin(rewards):
    """All 8,193 levels of all cells: one unit in one bin, so two users differ by one up and one down."""
    encoder = OutcomeHistogram(Shape(2, 2, 1, False, rewards))
    levels = encoder.reward_levels
    seen = set()
    for cell in (0, 11):
        for level in range(0, levels, 7):
            cells = encoder.from_joint(JointCounts(np.array([cell * levels + level]), np.array([1]), levels))
            assert sorted(cells.tolist())[-2:] == [0.0, 1.0]
            place = rewards[0] + level / (levels - 1) * (rewards[1] - rewards[0]) - encoder.anchor
            bin_of = int(cells.argmax())
            side, number = divmod(bin_of, SIDE)
            assert side == (place >= 0)
            assert abs(place) <= encoder.edges[number] * (1 + 1e-9)
            assert number == 0 or abs(place) > encoder.edges[number - 1] * (1 - 1e-9)
            seen.add(bin_of)
    assert len(seen) > 15
    assert (encoder.sensitivity().l1, encoder.sensitivity().linf) == (2, 1)


def test_the_interval_holds_the_bins_that_noise_does_not_explain():
    encoder = OutcomeHistogram(Shape(1, 2, 1, False, (-64.0, 64.0)))
    counts = np.zeros(2 * SIDE)
    assert interval_of(encoder, counts, 1.0) == (-64.0, 64.0)
    counts[SIDE + 20] = 4.0
    assert interval_of(encoder, counts, 1.0) == pytest.approx((encoder.edges[18], encoder.edges[20]))
    assert interval_of(encoder, counts, 2.0) == (-64.0, 64.0)
    counts[10] = 99.0
    assert interval_of(encoder, counts, 1.0) == pytest.approx((-encoder.edges[10], encoder.edges[20]))
    counts[SIDE + 20] = 0.0
    assert interval_of(encoder, counts, 1.0) == pytest.approx((-encoder.edges[10], -encoder.edges[8]))
    counts[SIDE - 1] = 99.0
    assert interval_of(encoder, counts, 1.0)[0] == -64.0  # never beyond the declared range


@pytest.mark.parametrize("top", [800.0, 1500.0, 15000.0, 150000.0])
def test_a_wider_declared_range_gives_an_interval_as_narrow(top):
    """Seeded noise at epsilon 2: the data reach to 700, and about 40 users may be cut off on either side."""
    for seed in range(5):
        clipped = bought_clip(table(top=top), 2.0, 2000, SimulatedNoise(np.random.default_rng(seed)))
        low, high = clipped.data.shape.rewards
        assert 0 <= low < 120
        assert 450 < high < 1100
        assert "about clipped outcomes" in clipped.words
        assert clipped.guarantee.epsilon == pytest.approx(0.2)


def test_both_releases_are_paid_and_said():
    """Real noise at epsilon 60: 2,000 users, of whom more than 300 lie in each of some bins."""
    for delta in (0.0, 1e-6):
        fit = discreet.offline.train(table(), epsilon=60.0, delta=delta, clip="auto")
        assert 59.0 < fit.guarantee.epsilon <= 60.0
        names = [part["statistic"] for part in fit.facts["mechanisms"]]
        assert names == ["outcomes on a logarithmic grid", "visits, with sums and slacks of rewards"]
        assert fit.facts["declared"]["rewards"] == [0.0, 1500.0]
        assert fit.facts["declared"]["clip"].startswith("outcomes are clipped to ")
        assert fit.facts["evaluation"]["returns"][1] < 1500.0
        assert verify(fit.facts, policy=fit.policy).answer == "holds"


def test_what_is_refused_before_anything_is_spent(tmp_path):
    for asked, words in (
        ({"clip": (0, 5)}, "declared as rewards="),
        ({"clip": "auto", "holdout": 0.3}, "does not go with holdout"),
        ({"clip": "auto", "known_rewards": [[1.0, 1.0, 1.0, 1.0]]}, "does not go with known_rewards"),
        ({"clip": "auto", "returns": (0.0, 5.0)}, "does not go with returns"),
        ({"clip": "auto", "ledger": tmp_path / "l", "dataset": "a"}, "does not go with a ledger"),
    ):
        with pytest.raises((InvalidInput, Unsupported), match=words):
            discreet.offline.train(table(), epsilon=1.0, **asked)
    with pytest.raises(Unsupported, match="does not go with rho"):
        discreet.offline.train(table(), rho=1.0, clip="auto")
    with pytest.raises(Unsupported, match="one record of one step"):
        discreet.offline.train(table(horizon=2, step="s"), epsilon=1.0, clip="auto")
