"""Claims are decided by measurement, with its error: clear differences both ways, and nothing in between."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.reproduce.figure import Claim, Measured, NotMeasured, Verdict, View, all_of, below, within

RNG = np.random.default_rng(0)
LOW, HIGH = 10 + RNG.normal(size=8), 13 + RNG.normal(size=8)


def measured(regret, **rest):
    curve = np.asarray(regret, float)
    return Measured({"checkpoints": [10, 100, 1000], "curve": {"per_run": curve.tolist()}, "regret": {}, **rest})


def test_a_clear_difference_is_decided_either_way():
    assert below(LOW, HIGH).holds is True
    assert below(HIGH, LOW).holds is False


def test_what_runs_cannot_tell_apart_is_undecided():
    assert below(LOW, LOW + RNG.normal(size=8)).holds is None
    assert below(LOW[:1], HIGH[:1]).holds is None
    assert below(LOW, LOW).holds is None


def test_differences_are_paired():
    worlds = 100 * RNG.normal(size=8)
    assert below(worlds + LOW, worlds + HIGH).holds is True
    assert below(worlds + LOW, worlds[::-1] + HIGH).holds is None


def test_false_alarms_are_as_rare_as_stated():
    """Under no difference a one-sided test at 97.5% errs once in 40; 2,000 tests stay below 1 in 25 (p < 1e-4)."""
    rng = np.random.default_rng(1)
    wrong = sum(below(rng.normal(size=4), rng.normal(size=4)).holds is True for _ in range(2000))
    assert wrong < 80


def test_numbers_are_compared_up_to_a_share():
    assert within(2683, 2700, 0.15).holds is True
    assert within(2236, 2700, 0.15).holds is False


@pytest.mark.parametrize(
    ("words", "whole"),
    [([True, True], True), ([True, None], None), ([None, False], False), ([True, False], False), ([True], True)],
)
def test_all_of_is_as_weak_as_its_weakest(words, whole):
    assert all_of(Verdict(word, "e") for word in words).holds is whole


def test_one_failure_among_many_comparisons_is_corrected_for_their_number():
    """A failure that one comparison in forty shows by chance decides alone, and not among ten."""
    unlucky = Verdict(False, "e", doubt=0.01)
    assert all_of([unlucky]).holds is False
    assert all_of([unlucky, *[Verdict(True, "e", doubt=0.001)] * 9]).holds is None
    assert all_of([Verdict(False, "e", doubt=0.001), *[Verdict(True, "e")] * 9]).holds is False


@pytest.mark.slow
def test_true_statements_of_many_comparisons_rarely_fail():
    """Twenty equal pairs of four runs: without correction a third of such statements fails; stated rate at most 2.5%.

    Of 400 statements more than 22 fail with probability below 1e-3 if the rate is 2.5%.
    """
    rng = np.random.default_rng(11)
    verdicts = [[below(rng.normal(size=4), rng.normal(size=4)) for _ in range(20)] for _ in range(400)]
    assert sum(all_of(found).holds is False for found in verdicts) <= 22
    assert sum(any(v.holds is False for v in found) for found in verdicts) > 100


def test_a_view_shows_its_version_and_the_references():
    results = {
        "reference/a": measured([[1, 2, 3]]),
        "ours/b": measured([[4, 5, 6]]),
        "published/b": Measured({"refused": "no"}),
    }
    assert View(results, "ours")["a"].total[0] == 3
    assert View(results, "ours")["b"].total[0] == 6
    with pytest.raises(NotMeasured, match="no"):
        View(results, "published")["b"]
    claim = Claim("less", "a is below nothing", lambda view: below(view["a"].total, view["nothing"].total))
    verdict = claim.decide(View(results, "ours"))
    assert verdict.word == "not measured"
    assert "nothing" in verdict.evidence


def test_rates_and_slopes():
    one = measured([[10, 100, 550], [20, 200, 1100]])
    assert one.rate(100).tolist() == [1.0, 2.0]
    assert one.rate(1000).tolist() == [0.55, 1.1]
    assert one.slope().tolist() == [0.5, 1.0]
