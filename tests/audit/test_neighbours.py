"""The search for the records that an encoder tells apart best."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from discreet.audit.neighbours import _furthest, shift_sensitivity, worst_pair
from discreet.base.shape import Shape
from discreet.mechanisms.counts.first_visit import FirstVisit
from discreet.mechanisms.counts.first_visit_question import AskedFirstVisit
from discreet.mechanisms.counts.joint_histogram import JointHistogram
from discreet.mechanisms.counts.three_tables import ThreeTables
from discreet.mechanisms.counts.two_tables import TwoTables
from discreet.mechanisms.messages.asked_first_visit import AskedChannel
from discreet.mechanisms.messages.device_reports import true_answer
from discreet.privacy.sensitivity import Sensitivity

SHAPES = [(2, 2, 1), (2, 2, 2), (2, 2, 3), (3, 2, 5), (6, 2, 20), (4, 3, 12)]
ENCODERS = [
    (TwoTables, True),
    (TwoTables, False),
    (ThreeTables, True),
    (ThreeTables, False),
    (JointHistogram, True),
    (JointHistogram, False),
    (FirstVisit, True),
]


@pytest.mark.parametrize("sizes", SHAPES)
@pytest.mark.parametrize(("encoder", "homogeneous"), ENCODERS)
def test_the_stated_sensitivity_is_attained_and_not_exceeded(encoder, homogeneous, sizes):
    stated = (instance := encoder(Shape(*sizes, homogeneous=homogeneous))).sensitivity()
    found = worst_pair(instance).sensitivity
    assert found.l1 == stated.l1
    assert found.l2 == pytest.approx(stated.l2, rel=1e-12)
    assert found.linf == stated.linf


def test_small_shapes_are_searched_in_full():
    assert worst_pair(JointHistogram(Shape(2, 2, 3))).exhaustive
    assert not worst_pair(JointHistogram(Shape(2, 2, 4))).exhaustive


def test_a_public_start_state_binds_both_records():
    pair = worst_pair(ThreeTables(Shape(3, 1, 2, start=1)))
    assert [record.states[0, 0] for record in pair.records] == [1, 1]
    # One action and one start: the first visit is the same in both, so less can differ.
    assert pair.sensitivity.l1 < worst_pair(ThreeTables(Shape(3, 1, 2))).sensitivity.l1


def test_the_search_does_not_trust_what_the_encoder_states():
    @dataclass(frozen=True)
    class Lying(JointHistogram):
        def sensitivity(self):
            return Sensitivity.unit_shifts(1, 1)

    assert worst_pair(Lying(Shape(2, 2, 3))).sensitivity == Sensitivity.unit_shifts(3, 3)


def test_a_shift_is_grouped_by_its_moves():
    assert shift_sensitivity(np.array([0.0, 1, -1, -1, 3])) == Sensitivity.worst_shift((1, 1, 2), (3, 1, 0))
    real = shift_sensitivity(np.array([0.5, -0.25, 0.0]))
    assert (real.l1, real.linf, real.shifts) == (0.75, 0.5, None)


def test_the_first_norm_decides_and_the_second_breaks_ties():
    # From the origin: L1 3 and squared L2 9; L1 4 and squared L2 6. Between the other two: L1 3.
    assert _furthest(np.array([[0.0] * 3, [3.0, 0, 0], [2.0, 1, 1]])) == (0, 2)
    # All three distances have L1 4; the first two records are furthest apart in L2.
    assert _furthest(np.array([[0.0] * 3, [4.0, 0, 0], [2.0, 2, 0]])) == (0, 1)


def test_fewer_actions_can_be_asked_for():
    pair = worst_pair(JointHistogram(Shape(2, 3, 2)), actions=1)
    assert all((record.actions == 0).all() for record in pair.records)
    assert pair.sensitivity.l1 == 4


def test_the_records_are_described_briefly():
    assert worst_pair(JointHistogram(Shape(2, 2, 1))).describe().count("against") == 1
    assert "... 20 steps" in worst_pair(JointHistogram(Shape(6, 2, 20))).describe()


@pytest.mark.parametrize("shape", [Shape(2, 2, 2, homogeneous=True), Shape(4, 2, 6, homogeneous=True)], ids=str)
def test_records_are_compared_given_the_questions_that_coins_pick(shape):
    """With other questions any two records would differ; given the same ones these two answer many differently."""
    first, second = worst_pair(AskedFirstVisit(shape), actions=1).records
    channel, coins = AskedChannel(AskedFirstVisit(shape), 1.0), np.array([0], np.uint64)
    differ = sum(
        true_answer(channel, first, question, coins) != true_answer(channel, second, question, coins)
        for question in range(2 * shape.states * shape.actions)
        if question // 2 % shape.actions == 0
    )
    assert differ >= 3
