"""The checks of the adversarial paper's statements: the cheap ones, at a tiny scale."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.errors import InvalidInput
from discreet.reproduce import adversarial

TINY = adversarial.Scale(episodes=200, runs=2, growing=(100, 400), seed=0, threads=1)


@pytest.mark.parametrize("name", ["S1", "S6", "S8"])
def test_statements_that_hold_at_any_size(name):
    verdict = adversarial.CHECKS[name](TINY)
    assert verdict.name == name
    assert verdict.holds
    assert all(np.isfinite(value) for value in verdict.numbers.values())


def test_a_watched_box_that_misses_the_truth_is_seen(monkeypatch):
    """The twin of S6: boxes of next to no width."""
    narrow = adversarial.UCOREPS(bonus_scale=1e-6, nested=False)
    monkeypatch.setattr(adversarial, "UCOREPS", lambda: narrow)
    assert not adversarial.boxes_hold(TINY).holds


def test_twin_worlds_are_one_problem_with_more_or_less_to_know():
    certain, even = (adversarial._twin_world(3, spread) for spread in (0.0, 1.0))
    losses = certain.losses(1)[0]
    np.testing.assert_array_equal(losses, even.losses(1)[0])
    assert certain.best_fixed(losses)[0] == pytest.approx(even.best_fixed(losses)[0])
    assert certain.effective_support().total == 0 < even.effective_support().total


def test_unknown_scales_are_refused():
    with pytest.raises(InvalidInput, match="quick"):
        adversarial.check_statements("quik")
