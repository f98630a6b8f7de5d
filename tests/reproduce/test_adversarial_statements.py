"""The checks of the adversarial paper's statements: the cheap ones, at a tiny scale."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from discreet.policies import StochasticPolicy
from discreet.reproduce import Scale, adversarial
from discreet.reproduce.adversarial import kinds_world

TINY = Scale(episodes=200, runs=2, growing=(100, 400))
CHECKS = {claim.name: claim.check for claim in adversarial.STATEMENTS.claims}


def test_all_statements_are_there():
    assert list(CHECKS) == [f"S{number}" for number in range(1, 10)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["S1", "S6", "S8"])
def test_statements_that_hold_at_any_size(name):
    verdict = CHECKS[name](TINY)
    assert verdict.holds
    assert all(np.isfinite(value) for value in verdict.numbers.values())


@pytest.mark.slow
def test_a_watched_box_that_misses_the_truth_is_seen(monkeypatch):
    """The twin of S6: boxes of next to no width."""
    narrow = adversarial.UCOREPS(bonus_scale=1e-6, nested=False)
    monkeypatch.setattr(adversarial, "UCOREPS", lambda: narrow)
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


@pytest.mark.slow
def test_regret_rises_with_the_effective_support():
    verdict = CHECKS["S9"](replace(TINY, episodes=600, runs=3))
    assert verdict.holds
    assert verdict.numbers["uc-o-reps"]["rise"] > 0 > verdict.numbers["known transitions"]["rise"]


def test_worlds_of_one_effective_support_show_no_rise(monkeypatch):
    """The twin of S9: what is called wide is narrow as well."""
    monkeypatch.setattr(adversarial, "kinds_world", lambda seed, _wide: kinds_world(seed, False))
    assert not CHECKS["S9"](replace(TINY, episodes=50)).holds
