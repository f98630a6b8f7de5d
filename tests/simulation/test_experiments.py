"""What experiments share: kept cells, whose files say what they are, tests of pairs of runs, works in turns, tables."""

from __future__ import annotations

import json

import numpy as np
import pytest

from discreet.simulation.experiments import address, holm, in_turns, kept, resolved, shuffled_labels, sign_flips, table


def test_a_cell_is_measured_once_and_anew_when_anything_in_it_differs(tmp_path):
    calls = []

    def measure():
        calls.append(1)
        return {"regret": [1.0]}

    files = [address(tmp_path / "new", ["a b/c"], cell) for cell in ({"seed": 1}, {"seed": 1}, {"seed": 2})]
    assert [kept(file, measure) for file in files] == [{"regret": [1.0]}] * 3
    assert len(calls) == 2
    assert [json.loads(file.read_text()) for file in files[1:]] == [{"regret": [1.0]}] * 2
    assert files[0].name.startswith("a-b-c-")


def test_what_ran_is_said_with_all_defaults():
    plain = resolved("ucbvi", {}, "central/joint-histogram-gaussian", {})
    assert plain.startswith("UCBVI(reward_scale=")
    assert resolved("ucbvi", {"reward_scale": 0.5}, "auto", {}) != plain


def test_few_runs_are_tested_exactly():
    assert sign_flips(np.arange(1.0, 6.0), two_sided=False) == 1 / 32
    assert sign_flips(-np.arange(1.0, 6.0), two_sided=False) == 1.0
    assert sign_flips(np.arange(1.0, 6.0), two_sided=True) == 2 / 32
    assert sign_flips(np.array([3.0, -1.0]), two_sided=False) == 0.5  # of 4, 2, -2, -4 two are at least 2
    assert sign_flips(np.zeros(4), two_sided=False) == 1.0


def test_many_runs_are_tested_by_drawn_signs():
    assert sign_flips(np.arange(1.0, 31.0), two_sided=False) < 2e-5
    assert shuffled_labels(np.arange(20.0), np.arange(20.0) + 40, two_sided=True) < 2e-4
    mixed = np.array([1.0, -1.0] * 10 + [1.0])
    assert 0.3 < sign_flips(mixed, two_sided=False) < 0.7  # P[S >= 1] of 21 signs is one half
    assert shuffled_labels(np.arange(20.0), np.arange(20.0), two_sided=True) == 1.0


def test_p_values_keep_their_level_and_see_a_shift():
    """400 samples of 14 runs. Equal laws: p <= 0.1 in 40 +- 6 of them, and 70 would be five deviations off."""
    rng = np.random.default_rng(5)
    null = [sign_flips(rng.standard_normal(14), two_sided=False) for _ in range(400)]
    assert 15 < sum(p <= 0.1 for p in null) < 70
    shifted = [sign_flips(rng.standard_normal(14) + 1, two_sided=False) for _ in range(100)]
    assert sum(p <= 0.1 for p in shifted) > 90


def test_holm_corrects_for_the_number_of_comparisons():
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]


def test_works_take_turns_and_the_first_turn_does_not_count():
    order, now = [], iter([0.0, 9.0, 0.0, 9.0, 0.0, 1.0, 0.0, 2.0, 0.0, 4.0, 0.0, 2.0])
    works = ((lambda: order.append("a"), 4), (lambda: order.append("b"), 8))
    assert in_turns(*works, rounds=2, clock=lambda: next(now)).tolist() == [[4.0, 4.0], [1.0, 4.0]]
    assert order == ["a", "b"] * 3


def test_cells_of_a_table_cannot_break_it():
    assert table(["x"], [["a|b\nc"]]) == ["| x |", "| --- |", "| a\\|b c |"]
