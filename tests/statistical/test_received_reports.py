"""Messages that devices send, received in several groups, late ones included: unbiased, with the stated variance.

Fixed seeds. A mean is accepted within 5 standard errors (false alarm 6e-7 a comparison, 50 of them here), a variance by
its chi-square interval at 1e-6. A device that lies with another law than the server decodes by must be rejected by the
first, and a third or three times the variance by the second. With ``own_actions`` the same people draw their actions
from one stochastic policy; a device that has drawn others than it reports must be rejected, too.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import discreet
from discreet.base.policies import Policy, uniform_policy
from discreet.base.shape import Shape
from discreet.mechanisms.counts.sampled_step import SampledStep
from discreet.mechanisms.messages.device_reports import pick_steps, randomize_record
from discreet.mechanisms.messages.sampled_item import ReportChannel
from discreet.mechanisms.trajectories import Trajectories
from discreet.recipes.registry import build

pytestmark = pytest.mark.slow

SHAPE = Shape(2, 2, 2, homogeneous=True)
FIRST, SECOND = Policy([[0, 1], [0, 0]]), Policy([[0, 0], [1, 1]])
# Everybody does the same under a policy, so what is estimated is known: nobody is in state 1 and plays action 1.
PLAYED = {
    FIRST: Trajectories(np.array([[0, 1]]), np.array([[0, 0]]), np.array([[1.0, 0.0]]), np.array([2])),
    SECOND: Trajectories(np.array([[0, 0]]), np.array([[0, 1]]), np.array([[0.0, 1.0]]), np.array([2])),
}
USERS, EPSILON = 12, 2.0


def received(response, devices, repeats, played=PLAYED):
    """Estimates of visits and rewards over many studies; ``devices`` is the channel that messages are made by."""
    options = {"response": response, "steps": 1, "own_actions": devices.own_actions}
    privatizer = build(discreet.Local(EPSILON, options=options), SHAPE, USERS)
    rng, found = np.random.default_rng(repeats), {"visits": [], "rewards": []}
    public = {policy: uniform_policy(SHAPE) if devices.own_actions else policy for policy in played}

    def sent(policy, users):
        return [
            randomize_record(devices, played[policy], public[policy], pick_steps(devices, rng), rng)
            for _ in range(users)
        ]

    for _ in range(repeats):
        intake, late = privatizer.collect(USERS), sent(FIRST, 3)
        intake.receive([(public[FIRST], sent(FIRST, 3))])
        release = intake.receive([(public[SECOND], sent(SECOND, 6)), (public[FIRST], late)])
        assert release.users == USERS
        for name, kept in found.items():
            kept.append(release[name].values[0])
    return {name: np.array(kept) for name, kept in found.items()}, release


TRUE = {
    "visits": np.array([[6 + 6, 6.0], [6.0, 0.0]]),
    "rewards": np.array([[6.0, 6.0], [0.0, 0.0]]),
}


def biased(estimates):
    """Whether a mean is further off than chance explains."""
    off = []
    for name, sample in estimates.items():
        error = np.maximum(sample.std(axis=0, ddof=1) / np.sqrt(len(sample)), 1e-9)
        off.append(np.abs(sample.mean(axis=0) - TRUE[name]) > 5 * error)
    return bool(np.any(off))


def accepted(ratio, repeats=200):
    low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], repeats - 1) / (repeats - 1)
    return low < ratio < high


@pytest.mark.parametrize("own_actions", [False, True])
@pytest.mark.parametrize("response", ["kary", "unary"])
def test_messages_in_groups_are_unbiased_with_the_stated_variance(response, own_actions):
    honest = ReportChannel(SampledStep(SHAPE), EPSILON, response, own_actions)
    estimates, release = received(response, honest, 200)
    assert not biased(estimates)
    for name in ("visits", "rewards"):
        # A row that nobody visits varies exactly as stated: under SECOND its lies are decoded.
        ratio = estimates[name][:, 1, 1].var(ddof=1) / release[name].variance[0, 1, 1]
        assert accepted(ratio), (name, ratio)
        assert not accepted(ratio * 3)
        assert not accepted(ratio / 3)


@pytest.mark.parametrize("response", ["kary", "unary"])
def test_devices_that_lie_by_another_law_are_found(response):
    louder = ReportChannel(SampledStep(SHAPE), EPSILON / 2, response)
    assert biased(received(response, louder, 60)[0])


def test_devices_that_report_other_actions_than_they_took_are_found():
    swapped = {policy: replace(record, actions=1 - record.actions) for policy, record in PLAYED.items()}
    honest = ReportChannel(SampledStep(SHAPE), EPSILON, "kary", own_actions=True)
    assert biased(received("kary", honest, 60, swapped)[0])
