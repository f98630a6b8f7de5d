"""The statements about adversarial losses on made-up results, and the checks inside of runs at a tiny scale."""

from __future__ import annotations

import numpy as np
import pytest
from experiments.papers.figure import AT, UNIFORM, Measured

from discreet.base.policies import StochasticPolicy
from discreet.problems.adversarial.benchmark_worlds import kinds_world
from experiments.papers import Scale, adversarial, adversarial_checks

TINY = Scale(episodes=200, runs=2)
CHECKS = {claim.name: claim.check for claim in adversarial_checks.CHECKS.claims}
RUNS = 1 + 0.01 * np.linspace(-1, 1, 10)


def verdicts(figure, level):
    """Verdicts of a figure whose job has the regret ``level(job)``, give or take a hundredth by run."""
    found = {}
    for job in figure.jobs:
        K = job.episodes or 1000
        found[job.key] = Measured({
            "guarantee": {"model": job.model}, "regret": {}, "checkpoints": [K],
            "curve": {"per_run": (level(job) * RUNS).reshape(-1, 1).tolist()},
        })  # fmt: skip
    return figure.verdicts(found)


def as_the_theorems_say(job):
    if job.name.startswith(UNIFORM):
        return 100.0
    what = job.name.split(AT)[0]
    if what in ("none", "best"):
        return 10.0
    trust, epsilon = what.replace("own ", "").split()
    return {"jdp": 20.0, "ldp": 40.0}[trust] * (2 if float(epsilon) < 5 else 1)


@pytest.mark.parametrize("figure", [adversarial.FULL, adversarial.BANDIT], ids=["full", "bandit"])
def test_figures_tell_learning_from_playing_evenly(figure):
    found = verdicts(figure, as_the_theorems_say)
    assert all(verdict.word == "holds" for claim in found.values() for verdict in claim.values())
    assert not any(verdict.idle for claim in found.values() for verdict in claim.values())
    lost = verdicts(figure, lambda job: 100.0 if job.model != "none" else as_the_theorems_say(job))
    assert not any(verdict.holds for claim in lost.values() for verdict in claim.values())


def growing(power):
    def level(job):
        if AT + "narrow" in job.name:
            return {"full": 20.0, "bandit": 30.0, "known": 10.0}.get(job.name.split(AT)[0], 100.0)
        if AT + "wide" in job.name:
            return {"full": 40.0, "bandit": 60.0, "known": 9.0}.get(job.name.split(AT)[0], 100.0)
        return float(job.episodes) ** power

    return level


def test_growth_and_support_are_decided_by_runs():
    found = verdicts(adversarial.STATEMENTS, growing(0.5))
    assert [found[name]["certified"].word for name in ("S4", "S5", "S7", "S9")] == ["holds"] * 4
    assert not found["S5"]["certified"].idle, "nobody is private there, so nobody can be replaced by uniform play"
    linear = verdicts(adversarial.STATEMENTS, growing(1.0))
    assert [linear[name]["published"].word for name in ("S5", "S7")] == ["fails", "fails"]
    assert verdicts(adversarial.STATEMENTS, growing(0.8))["S7"]["published"].word == "holds"


def test_a_rise_to_uniform_play_says_nothing_about_the_support():
    """The wide world's learner is no better than uniform play: that is no rise with C_M."""

    def level(job):
        return 100.0 if AT + "wide" in job.name and "known" not in job.name else growing(0.5)(job)

    assert not verdicts(adversarial.STATEMENTS, level)["S9"]["certified"].holds


def test_all_worlds_stand_beside_random_layers():
    assert {job.world for job in adversarial.BANDIT.jobs} == {"layered", "kinds", "river-layers", "changing-arms"}
    assert {job.world for job in adversarial.FULL.jobs} == {"layered", "kinds", "river-layers"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["S1", "S6", "S8"])
def test_checks_that_hold_at_any_size(name):
    verdict = CHECKS[name](TINY)
    assert verdict.holds
    assert all(np.isfinite(value) for value in verdict.numbers.values())


@pytest.mark.slow
def test_a_watched_box_that_misses_the_truth_is_seen(monkeypatch):
    """The twin of S6: boxes of next to no width."""
    narrow = adversarial_checks.UCOREPS(bonus_scale=1e-6, nested=False)
    monkeypatch.setattr(adversarial_checks, "UCOREPS", lambda: narrow)
    assert not CHECKS["S6"](TINY).holds


def test_kinds_worlds_are_one_problem_with_more_or_less_to_know():
    narrow, wide = (kinds_world(3, spread) for spread in (False, True))
    losses = narrow.losses(1)[0]
    np.testing.assert_array_equal(losses, wide.losses(1)[0])
    assert narrow.best_fixed(losses)[0] == pytest.approx(wide.best_fixed(losses)[0])
    assert 2 * narrow.effective_support().total < wide.effective_support().total
    # Whatever looks at kinds only, four good states and then four bad ones, is worth the same in both.
    rng = np.random.default_rng(0)
    for _ in range(3):
        by_kind = rng.dirichlet(np.ones(3), size=(narrow.shape.horizon, 2))
        policy = StochasticPolicy(np.repeat(by_kind, 4, axis=1))
        values = [float((world.occupancy(policy) * losses).sum()) for world in (narrow, wide)]
        assert values[0] == pytest.approx(values[1])
