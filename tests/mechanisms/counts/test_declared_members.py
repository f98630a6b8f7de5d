"""What every encoder declares beside its cells, so that nobody has to ask whether it does."""

from __future__ import annotations

import pytest

from discreet.base.shape import Moments, Shape, layered_shape
from discreet.mechanisms.counts.arm_reward import ArmReward
from discreet.mechanisms.counts.first_visit import FirstVisit, FirstVisitTables
from discreet.mechanisms.counts.first_visit_question import AskedFirstVisit
from discreet.mechanisms.counts.joint_histogram import JointHistogram, MarginalTable
from discreet.mechanisms.counts.sampled_step import SampledStep
from discreet.mechanisms.counts.three_tables import RewardLevels, ScaledTables, ThreeTables
from discreet.mechanisms.counts.two_tables import TwoTables
from discreet.problems.adversarial.encoders import (
    LayeredTransitions,
    LayeredVisits,
    LossBits,
    LossTable,
    ObservedLosses,
    SignedLosses,
)
from discreet.problems.heavy_tails.encoders import ClippedTables, SignedFirstVisitTables
from discreet.problems.heavy_tails.published_tables import RawCountTables

POOLED, PER_STEP = Shape(2, 2, 3, homogeneous=True), Shape(2, 2, 3)
HEAVY = Shape(2, 2, 3, homogeneous=True, rewards=(-1.0, 1.0), moments=Moments(1.0, 0.5))
LAYERS = layered_shape((1, 2, 2, 1), actions=2)
WHOLE = [
    JointHistogram(PER_STEP), FirstVisit(POOLED), FirstVisitTables(POOLED), ThreeTables(PER_STEP),
    TwoTables(PER_STEP), TwoTables(POOLED, first_visit=True),
    RewardLevels(PER_STEP), SampledStep(PER_STEP), MarginalTable(PER_STEP), SignedFirstVisitTables(HEAVY, 2.0),
    LayeredTransitions(LAYERS), LayeredVisits(LAYERS), LossBits(LAYERS), LossTable(LAYERS), ObservedLosses(LAYERS),
    ArmReward(Shape(1, 2, 1)), SignedLosses(LAYERS), AskedFirstVisit(POOLED), AskedFirstVisit(POOLED, (0, 1, 2, 3)),
]  # fmt: skip
FRACTIONS = [
    ThreeTables(PER_STEP, rounded=False), ScaledTables(PER_STEP), ClippedTables(HEAVY, (1.0,)),
    RawCountTables(HEAVY, 1.0), LossBits(LAYERS, rounded=False), LossTable(LAYERS, rounded=False),
    ObservedLosses(LAYERS, rounded=False), SignedLosses(LAYERS, rounded=False),
]  # fmt: skip


@pytest.mark.parametrize("encoder", [*WHOLE, *FRACTIONS], ids=lambda encoder: encoder.name)
def test_every_encoder_declares_what_others_ask_for(encoder):
    assert encoder.rounded is (encoder in WHOLE)
    assert encoder.levels == (2 if isinstance(encoder, RewardLevels) else 1)
    expected = {"thresholds", "clipping_bias"} if isinstance(encoder, SignedFirstVisitTables) else set()
    assert set(encoder.public) == expected
    assert encoder.size == encoder.possible().size


def test_levels_of_rewards_are_those_that_were_asked_for():
    assert RewardLevels(PER_STEP, levels=4).levels == 4
