"""How much an audit sees: noise that is too small under an unchanged guarantee, and the power that a report states."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from on_trial import SMALL, USERS, target

from discreet.audit.audit import audit
from discreet.audit.binomial_audit import Charge, audit_pairs, power
from discreet.audit.goodness_of_fit import quieter
from discreet.base.shape import Shape
from discreet.privacy.profiles import ZeroConcentratedProfile
from discreet.recipes.registry import build

LARGE, TINY = Shape(6, 2, 20), Shape(2, 2, 1)


def scaled(privatizer, share):
    (channel,) = privatizer.channels
    return replace(privatizer, channels=(replace(channel, law=quieter(channel.law, share)),))


@pytest.mark.parametrize("shape", [TINY, LARGE], ids=["tiny", "large"])
@pytest.mark.parametrize("name", ["central/joint-histogram-laplace", "central/joint-histogram-gaussian"])
def test_the_likelihood_stage_alone_convicts_too_little_noise(name, shape):
    """At the sizes of a real problem the worst output is never seen; the stated profile has points that are."""
    privatizer = build(target(name, blocks=None), shape, 1000)
    for share in (0.7, 0.5, 0.25):
        report = audit(scaled(privatizer, share), shape, trials=40_000, sessions=False)
        assert not report.holds, share
        assert report.claimed == pytest.approx(privatizer.guarantee.epsilon_at(report.delta))
    for seed in range(5):
        assert audit(privatizer, shape, trials=40_000, seed=seed, sessions=False).holds


def test_a_rho_is_audited_as_a_rho():
    privatizer = build(target("central/joint-histogram-gaussian", rho=0.1), SMALL, USERS)
    report = audit(privatizer, SMALL, trials=20_000, sessions=False)
    assert report.holds
    assert report.claimed == ZeroConcentratedProfile(0.1).epsilon(0.05)
    assert (report.delta, report.asked.rho) == (0.05, pytest.approx(0.1))
    assert not audit(scaled(privatizer, 0.5), SMALL, trials=20_000, sessions=False).holds


class Response:
    """Randomised response, whose event is known beforehand."""

    known = True

    def __init__(self, epsilon):
        self.epsilon = epsilon

    def sample(self, side, trials, draws):
        rng = np.random.default_rng(draws)
        true = rng.random(trials) < 1 / (1 + np.exp(-self.epsilon))
        return np.where(true == (side == 0), self.epsilon, -self.epsilon)[:, None]


def test_the_stated_power_is_what_happens():
    """At the stated r 40 audits convict at least 32 times (fewer has probability below 1e-3 if 95% do); at r = 1 none.

    The true epsilon is that of the event that is counted: randomised response has one.
    """
    claim = 1.0
    honest = audit_pairs([Charge(Response(claim), claim, 0.0)], trials=20_000, seed=0)
    r = power(honest)
    assert 1.02 < r < 1.5

    def verdicts(epsilon):
        return [
            audit_pairs([Charge(Response(epsilon), claim, 0.0)], trials=20_000, seed=seed).lower_bound > claim
            for seed in range(40)
        ]

    assert sum(verdicts(1.1 * r * claim)) >= 32
    assert sum(verdicts(claim)) == 0
    assert sum(verdicts((1 + (r - 1) / 4) * claim)) < 32


def test_power_says_nothing_where_nothing_can_be_seen():
    few = audit_pairs([Charge(Response(1.0), 30.0, 0.0)], trials=400, seed=0)
    assert power(few) is None
    assert power(replace(few, epsilon=float("inf"))) is None


def test_one_verdict_covers_all_stages():
    privatizer = build(target("central/joint-histogram-laplace"), SMALL, USERS)
    report = audit(privatizer, SMALL, trials=4_000)
    assert [stage.name for stage in report.stages] == ["coupling", "samplers"]
    assert report.holds
    assert all(stage.ran and stage.seen for stage in report.stages)
    assert "would have convicted" in report.power
    assert report.power in report.explain()
    assert report.as_dict()["stages"][0] == report.stages[0].as_dict()
    convicted = replace(report, stages=(replace(report.stages[0], holds=False), report.stages[1]))
    assert not convicted.holds
    assert "FALSE" in convicted.explain().splitlines()[0]
