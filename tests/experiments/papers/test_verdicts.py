"""Claims are decided by measurement, with its error: clear differences both ways, and nothing in between."""

from __future__ import annotations

import numpy as np
import pytest
from experiments.papers.figure import (
    UNIFORM,
    Claim,
    Figure,
    Job,
    Measured,
    NotMeasured,
    Scale,
    Verdict,
    View,
    all_of,
    at_most,
    below,
    bootstrap,
    within,
)

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


def skewed(rng, runs):
    """Totals of runs of which one in five never learns: a median of about 1 and a mean of about 20."""
    return np.where(rng.random(runs) < 0.2, 100.0, 1.0) * rng.lognormal(size=runs)


def test_false_alarms_are_as_rare_as_stated_for_skewed_totals():
    """Under no difference a one-sided test at 97.5% errs at most once in 40; of 2,000 tests at most 80 (p < 1e-4)."""
    rng = np.random.default_rng(1)
    verdicts = [below(skewed(rng, 12), skewed(rng, 12)).holds for _ in range(2000)]
    assert sum(holds is True for holds in verdicts) < 80
    assert sum(holds is False for holds in verdicts) < 80


def test_runs_that_all_agree_decide_whatever_their_spread():
    """Student's test cannot tell these apart, because one run weighs as much as all others; six runs that agree do."""
    few, many = np.ones(6), 1 + np.array([1.0, 2.0, 1.0, 3.0, 1.0, 9_000.0])
    assert below(few, many).holds is True
    assert below(few, many).doubt == 1 / 64
    assert below(few[:5], many[:5]).holds is None, "five cannot"


def test_most_runs_do_not_decide_against_the_mean():
    """Nine runs of ten are a little better and one is far worse: regret in the mean is what the theorems bound."""
    one = np.array([*np.linspace(1.0, 1.9, 19), 500.0])
    other = np.full(20, 2.0)
    verdict = below(one, other)
    assert verdict.holds is None
    assert verdict.doubt < 1e-3
    assert "the mean is on the other side" in verdict.evidence


@pytest.mark.parametrize("n", [6, 9, 20, 33])
def test_the_interval_excludes_one_exactly_where_the_sign_test_decides(n):
    rng = np.random.default_rng(n)
    for _ in range(200):
        one, other = rng.lognormal(size=n), rng.lognormal(rng.normal(0, 0.6), size=n)
        verdict = below(one, other)
        decided = verdict.doubt < 0.025
        assert decided == (not verdict.effect.low <= 1 <= verdict.effect.high)


def test_the_interval_holds_the_median_as_often_as_stated():
    """At least 95%: of 2,000 intervals at most 140 miss (p < 1e-4); half as wide they would miss far more."""
    rng = np.random.default_rng(4)
    effects = [below(np.ones(20), rng.lognormal(1.0, 2.0, size=20)).effect for _ in range(2000)]
    missed = sum(not each.low <= np.e <= each.high for each in effects)
    narrow = sum(not each.value - (each.value - each.low) / 2 <= np.e <= each.value + (each.high - each.value) / 2
                 for each in effects)  # fmt: skip
    assert missed < 140 < narrow


def test_an_undecided_verdict_says_how_many_runs_would_decide():
    one, other = np.ones(8), np.array([2, 2, 2, 2, 2, 2, 0.9, 0.9])
    verdict = below(one, other)
    assert verdict.sentence() == "undecided at 8 runs; about 20 would decide"
    repeated = below(np.tile(one, 3)[:20], np.tile(other, 3)[:20])
    assert repeated.holds is True, "and so many do"
    assert below(one, np.array([2, 2, 2, 2, 0.9, 0.9, 0.9, 0.9])).needed is None


def test_less_noise_than_printed_is_not_a_failure():
    quiet = within(80.0, 100.0, 0.1, "sd", (78.0, 82.0), less_is_better=True)
    assert quiet.word == "better"
    assert within(80.0, 100.0, 0.1, "sd", (78.0, 82.0)).word == "fails"
    assert within(120.0, 100.0, 0.1, "sd", (118.0, 122.0), less_is_better=True).word == "fails"
    assert all_of([quiet, within(100.0, 100.0, 0.1)]).word == "better"
    assert all_of([quiet, Verdict(False, "e")]).word == "fails"


def test_numbers_are_decided_by_their_interval():
    assert within(100.0, 100.0, 0.1, "sd", (80.0, 120.0)).holds is None
    assert at_most(0.1, 0.2, "x", (0.05, 0.15)).holds is True
    assert at_most(0.1, 0.2, "x", (0.05, 0.25)).holds is None
    assert at_most(0.9, 0.2, "x", (0.85, 0.95)).holds is False


def test_resampled_intervals_hold_the_truth():
    """Of 100 intervals for the deviation of normal draws about 5 to 7 miss; more than 20 would be a wrong law."""
    rng = np.random.default_rng(5)
    intervals = [bootstrap(lambda x: float(x.std(ddof=1)), rng.normal(size=200)) for _ in range(100)]
    assert sum(not low <= 1 <= high for low, high in intervals) <= 20
    assert sum(not low <= 1.3 <= high for low, high in intervals) > 80


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
    """Twenty equal pairs of 20 runs: without correction a third of such statements fails; stated rate at most 2.5%.

    Of 400 statements more than 22 fail with probability below 1e-3 if the rate is 2.5%.
    """
    rng = np.random.default_rng(11)
    verdicts = [[below(rng.normal(size=20), rng.normal(size=20)) for _ in range(20)] for _ in range(400)]
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


def test_what_uniform_play_passes_is_marked():
    """A claim that a learner which learns nothing passes too says so; one that it fails does not."""
    clear, kept = {"guarantee": {"model": "none"}}, {"guarantee": {"model": "local"}}
    lowest, high, higher = ([[0, 0, 10.0 + x + i / 10] for i in range(8)] for x in (0, 10, 20))
    results = {
        "reference/a": measured(lowest, **clear),
        f"reference/{UNIFORM}": measured(higher, **clear),
        "ours/b": measured(high, **kept),
    }
    claims = (
        Claim("costs", "privacy costs", lambda view: below(view["a"].total, view["b"].total)),
        Claim("learns", "better than nothing", lambda view: below(view["b"].total, view[UNIFORM].total)),
    )
    job = Job("ours", "b", "b", "river-swim", "ucbvi", "local", 1.0)
    figure = Figure("x/y", "x", "a paper", (job,), {"quick": Scale(1, 8)}, claims)
    found = figure.verdicts(results)
    assert [found[name]["ours"].word for name in ("costs", "learns")] == ["holds", "holds"]
    assert [found[name]["ours"].idle for name in ("costs", "learns")] == [True, False]


def test_rates_and_slopes():
    one = measured([[10, 100, 550], [20, 200, 1100]])
    assert one.rate(100).tolist() == [1.0, 2.0]
    assert one.rate(1000).tolist() == [0.55, 1.1]
    assert one.slope().tolist() == [0.5, 1.0]
