"""Nothing leaves that noise does not hide: tallies, values just before noise, and privatizers put together wrongly."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest

import discreet
from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.policies import Policy
from discreet.base.streams import USERS, stream
from discreet.mechanisms.counts.arm_reward import ArmReward
from discreet.mechanisms.counts.encoder import Context, check_tally, encode
from discreet.mechanisms.counts.first_visit import FirstVisit, FirstVisitTables
from discreet.mechanisms.counts.joint_histogram import JointHistogram, MarginalTable
from discreet.mechanisms.counts.three_tables import RewardLevels, ThreeTables
from discreet.mechanisms.counts.two_tables import TwoTables
from discreet.mechanisms.messages.device_reports import randomize_record
from discreet.mechanisms.session import Privatizer
from discreet.mechanisms.sparse import SparseTable
from discreet.mechanisms.sums.accumulator import SecureNoise, SimulatedNoise, noisy
from discreet.mechanisms.trajectories import Trajectories
from discreet.noise import DiscreteLaplace, GridGaussian
from discreet.privacy.guarantee import about
from discreet.privacy.units import ALL_REPORTS, UNITS, check_unit, reports_of, unit_of
from discreet.recipes.registry import build

SHAPE = discreet.Shape(2, 2, 2)
ALWAYS_ZERO = Policy(np.zeros((2, 2), int))
CENTRAL = (
    "central/joint-histogram-laplace", "central/joint-histogram-gaussian", "central/joint-histogram-matrix",
    "central/two-tables-matrix", "central/first-visit-two-tables-matrix", "central/focused-first-visit-gaussian",
    "central/three-tables-laplace-tree",
)  # fmt: skip


def made(recipe: str, epsilon: float = 1.0, shape: discreet.Shape = SHAPE) -> Privatizer:
    return build(discreet.Central(epsilon, 1e-5, recipe=recipe), shape, 100)


def size_of(privatizer: Privatizer) -> int:
    return privatizer.channels[0].encoder.size


def taken(privatizer: Privatizer, tally: object, users: int = 10) -> object:
    return privatizer.take_in(SecureNoise(), 100).take([np.asarray(tally)], users, Context(ALWAYS_ZERO))


class Never(SecureNoise):
    """A source of real noise that must not be asked for any."""

    def draw(self, law: object, copies: int, size: int) -> np.ndarray:
        raise AssertionError("noise was drawn")


def pooled(recipe: str) -> Privatizer:
    return made(recipe, shape=dataclasses.replace(SHAPE, homogeneous="first-visit" in recipe))


BAD = {
    "weights": lambda n: np.full(n, 0.37),
    "one fraction among zeros": lambda n: np.eye(n)[0] * 0.5,
    "not a number": lambda n: np.full(n, np.nan),
    "infinite": lambda n: np.full(n, np.inf),
    "more than users have": lambda n: np.full(n, 11.0),
    "far too many": lambda n: np.full(n, 1e6),
    "negative": lambda n: np.full(n, -5.0),
    "negative by overflow": lambda n: np.full(n, -56, np.int8),
    "too long": lambda n: np.zeros(n + 7),
    "too short": lambda n: np.zeros(n - 1),
    "a table": lambda n: np.zeros((n, 2)),
    "objects": lambda n: np.zeros(n, object),
    "text": lambda n: np.full(n, "1"),
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("recipe", CENTRAL)
def test_a_tally_that_nobody_can_have_is_refused_before_noise_is_drawn(recipe: str, kind: str) -> None:
    privatizer = pooled(recipe)
    intake = privatizer.take_in(Never(), 100)
    tallies = [BAD[kind](channel.encoder.size) for channel in privatizer.channels]
    with pytest.raises(InvalidInput, match=r"a tally of .* from 10 users|a tally of .* is a number for each cell"):
        intake.take(tallies, 10, Context(ALWAYS_ZERO))
    assert intake.served == 0


@pytest.mark.parametrize("recipe", CENTRAL)
def test_a_tally_that_users_can_have_is_released(recipe: str) -> None:
    privatizer = pooled(recipe)
    for full in (np.zeros, lambda n: np.full(n, 10.0), lambda n: np.zeros(n, bool)):
        intake = privatizer.take_in(SecureNoise(), 100)
        intake.take([full(channel.encoder.size) for channel in privatizer.channels], 10, Context(ALWAYS_ZERO))
        assert intake.served == 10


def test_a_second_channel_is_checked_before_the_first_one_draws() -> None:
    privatizer = build(
        discreet.Central(1.0, 1e-5, recipe="offline/gaussian", options={"release": "both"}), SHAPE, 10, data_set=True
    )
    good, bad = (np.zeros(channel.encoder.size) for channel in privatizer.channels)
    bad[0] = 0.5
    with pytest.raises(InvalidInput, match="holds whole numbers"):
        privatizer.take_in(Never(), 10).take([good, bad], 10, Context(ALWAYS_ZERO))


LOOPS = discreet.Shape(2, 1, 4, homogeneous=True)
COUNTING = [
    JointHistogram(SHAPE), JointHistogram(LOOPS), ThreeTables(SHAPE), ThreeTables(LOOPS), TwoTables(SHAPE),
    TwoTables(LOOPS), TwoTables(LOOPS, first_visit=True), FirstVisit(LOOPS), FirstVisitTables(LOOPS),
    MarginalTable(LOOPS), MarginalTable(LOOPS, successors=False), MarginalTable(SHAPE),
    MarginalTable(LOOPS, first_visit=True), MarginalTable(LOOPS, bits=True), RewardLevels(SHAPE, 3),
    ArmReward(discreet.Shape(1, 2, 1, homogeneous=True), arm=0),
]  # fmt: skip


@pytest.mark.parametrize("encoder", COUNTING, ids=lambda encoder: f"{encoder.name} {encoder.shape.horizon}")
def test_a_cell_holds_what_users_can_add_and_no_more(encoder: Any) -> None:
    """First visits add one; whoever stays where she is adds a step after step. Both are attained by some record."""
    shape, tape = encoder.shape, np.random.default_rng(0)
    size = (200, shape.horizon)
    states, actions = (tape.integers(0, n, size) for n in (shape.states, shape.actions))
    states[: len(states) // 2] = states[: len(states) // 2, :1]
    users = Trajectories(states, actions, np.ones(size), np.full(200, shape.horizon))
    each = encode(encoder, users, stream(0, 0, USERS))
    check_tally(encoder, each.sum(axis=0), 200)
    check_tally(encoder, each.max(axis=0), 1)
    with pytest.raises(InvalidInput, match="holds whole numbers"):
        check_tally(encoder, np.eye(encoder.size)[0] * (each.max() + 1), 1)


@pytest.mark.parametrize(("per_user", "most"), [(1, 3.0), (2, 6.0)])
def test_several_trajectories_add_several_times_but_for_first_visits(per_user: int, most: float) -> None:
    for first_visit, largest in ((False, most), (True, 1.0)):
        encoder = SparseTable(MarginalTable(LOOPS, first_visit=first_visit, per_user=per_user))
        check_tally(encoder, np.array([[0.0, 5 * largest]]), 5)
        with pytest.raises(InvalidInput, match="holds whole numbers"):
            check_tally(encoder, np.array([[0.0, 5 * largest + 1]]), 5)


@pytest.mark.parametrize("rows", [[[0, 0.5]], [[0, -1]], [[0, np.nan]], [[0, 1e9]]])
def test_sparse_tallies_are_checked_too(rows: list[list[float]]) -> None:
    privatizer = build(discreet.Central(1.0, 1e-5, recipe="offline/sparse-laplace"), SHAPE, 10, data_set=True)
    with pytest.raises(InvalidInput, match="holds whole numbers"):
        privatizer.take_in(Never(), 10).take([np.array(rows)], 10, Context(ALWAYS_ZERO))
    assert privatizer.take_in(SecureNoise(), 10).take([np.array([[0.0, 10.0]])], 10, Context(ALWAYS_ZERO))


def test_signed_counts_may_be_negative() -> None:
    from discreet.problems.adversarial.encoders import SignedLosses
    from discreet.worlds.registry import make_world

    encoder = SignedLosses(make_world("layered").shape)
    check_tally(encoder, np.full(encoder.size, -3.0), 3)
    with pytest.raises(InvalidInput, match="whole numbers from -"):
        check_tally(encoder, np.full(encoder.size, -4.0), 3)


def test_simulated_tallies_are_not_looked_at() -> None:
    intake = made(CENTRAL[0]).take_in(SimulatedNoise(np.random.default_rng(0)), 100)
    assert intake.take([np.full(size_of(made(CENTRAL[0])), 0.5)], 10, Context(ALWAYS_ZERO))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 2.0**52, 0.25])
def test_what_meets_real_noise_is_finite_whole_and_held_exactly(value: float) -> None:
    with pytest.raises(InvalidInput, match="nothing was drawn"):
        noisy(np.array([0.0, value]), DiscreteLaplace(2.0), 1, Never())


def test_on_a_grid_whole_steps_are_whole() -> None:
    law = GridGaussian(2.0, bits=30)
    assert noisy(np.array([0.25]), law, 1, SecureNoise()) * 2**30 % 1 == 0
    with pytest.raises(InvalidInput, match="fractions"):
        noisy(np.array([2.0**-31]), law, 1, Never())


def record(states: object, rewards: object) -> Trajectories:
    return Trajectories(np.array([states]), np.array([[0, 0]]), np.array([rewards]), np.array([2]))


@pytest.mark.parametrize(
    ("states", "rewards"),
    [([1.7, 1.0], [1.0, 1.0]), ([1, 1], [np.nan, 1.0]), ([1, 1], [1.0, np.inf]), ([5, 1], [1, 1])],
)
def test_devices_refuse_records_that_are_none(states: object, rewards: object) -> None:
    channel = build(discreet.Local(1.0, recipe="local/sampled-step"), SHAPE, 100).channels[0]
    with pytest.raises(InvalidInput, match="a record"):
        randomize_record(channel, record(states, rewards), ALWAYS_ZERO, [0])


def test_a_guarantee_of_another_privatizer_is_refused() -> None:
    one, stronger = made(CENTRAL[0]), made(CENTRAL[0], 0.01)
    for wrong in (
        dataclasses.replace(one, guarantee=stronger.guarantee),
        dataclasses.replace(stronger, channels=one.channels),
        Privatizer("mine", SHAPE, one.channels, one.schedule, stronger.guarantee),
    ):
        with pytest.raises(Unsupported, match="guarantee of recipe"):
            taken(wrong, np.zeros(size_of(wrong)))
    for right in (one, copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert taken(right, np.zeros(size_of(right)))
    by_hand = Privatizer("mine", SHAPE, one.channels, one.schedule, one.guarantee)
    assert taken(by_hand, np.zeros(size_of(one)))


@pytest.mark.parametrize(
    "unit",
    ["one hospital with all of its patients", "one user = up to 1 whole trajectories", "", 3, "one visit = one row",
     ALL_REPORTS, "one user = up to 02 whole trajectories", "one user = up to ² whole trajectories", UNITS[1]],
)  # fmt: skip
def test_units_come_from_a_list(unit: object) -> None:
    with pytest.raises(InvalidInput, match="one of these units"):
        about(made(CENTRAL[0]).guarantee, unit=unit)


def test_the_units_of_the_list_are_taken() -> None:
    for unit in (unit_of(1), unit_of(2), unit_of(1000), reports_of(1), reports_of(50)):
        assert check_unit(unit) == about(made(CENTRAL[0]).guarantee, unit=unit).unit == unit
