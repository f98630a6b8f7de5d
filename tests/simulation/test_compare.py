"""Comparisons: paired differences against a computation by hand, labels, sweeps, and what is refused."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

import discreet
from discreet.base.errors import InvalidInput, Unsupported
from discreet.learners.ucbvi import UCBVI
from discreet.recipes.registry import build
from discreet.simulation.comparison import paired_difference

WORLD = discreet.worlds.river_swim(states=3, horizon=3)
# Quantiles of Student's law with 3 degrees of freedom, from printed tables: two-sided 95%, and 95% for two at once.
T_ONE, T_TWO = 3.182446305284263, 4.176534846


@pytest.fixture(scope="module")
def results():
    """One made-up result per list of regrets, so that everything can be computed by hand."""
    base = discreet.simulate(WORLD, "ucbvi", episodes=20, runs=4)

    def made(regrets, **changes):
        curve = np.array(regrets, float)[:, None] * np.array([0.5, 1.0])
        return replace(base, episodes=np.array([10, 20]), regret=curve, **changes)

    return made([10, 20, 30, 40]), made([12, 21, 33, 46], learner="b"), made([1, 2, 3, 4], learner="c")


def test_differences_are_paired_run_by_run(results):
    one, two, three = results
    row = discreet.compare([one, two]).rows[1]
    gaps = [2, 1, 3, 6]
    mean = sum(gaps) / 4
    deviation = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / 3)
    half = T_ONE * deviation / 2
    assert row.difference.mean == pytest.approx(3.0)
    assert row.difference.low == pytest.approx(mean - half)
    assert row.difference.high == pytest.approx(mean + half)
    assert not row.difference.beyond_noise  # 3 - 3.44 is below zero
    assert row.against == discreet.compare([one, two]).labels[0]
    together = discreet.compare([one, two, three]).rows[1].difference
    assert (together.high - together.low) / 2 == pytest.approx(T_TWO * deviation / 2, rel=1e-6)
    assert discreet.compare([one, three]).rows[1].difference.beyond_noise


def test_a_difference_without_spread_is_certain():
    found = paired_difference(np.array([2.0, 3.0]), np.array([1.0, 2.0]), 0.95)
    assert (found.mean, found.low, found.high) == (1.0, 1.0, 1.0)
    assert found.beyond_noise


def test_all_intervals_together_hold_as_often_as_is_stated():
    """Of 2,000 tables of three differences at 90%, 1,737 or fewer hold with probability below 1e-5; with the wrong law,
    as if each difference stood alone, fewer do."""
    rng = np.random.default_rng(7)
    tables, runs, rivals = 2_000, 6, 3
    held = alone = 0
    for _ in range(tables):
        first, others = rng.normal(size=runs), rng.normal(size=(rivals, runs))
        wide = [paired_difference(other, first, 0.9, rivals) for other in others]
        narrow = [paired_difference(other, first, 0.9) for other in others]
        held += all(not found.beyond_noise for found in wide)
        alone += all(not found.beyond_noise for found in narrow)
    assert held > 1_737
    assert alone < 1_737


def test_only_the_same_runs_are_paired(results):
    one, two, _ = results
    fewer = replace(two, regret=two.regret[:3])
    elsewhere = replace(two, world="another")
    larger = replace(two, sizes="30 states")
    longer = replace(two, episodes=np.array([10, 200]))
    for other in (replace(two, seed=1), fewer, elsewhere, larger, longer):
        row = discreet.compare([one, other]).rows[1]
        assert row.difference is None
        assert row.against == ""
    single = [replace(result, regret=result.regret[:1]) for result in (one, two)]
    assert discreet.compare(single).rows[1].difference is None
    assert "±" not in discreet.compare(single).summary()
    assert "Over 1 run." in discreet.compare(single).summary()


def test_every_world_has_its_own_first(results):
    one, two, three = results
    there = [replace(result, world="there") for result in (two, three)]
    comparison = discreet.compare([one, two, *there])
    assert [row.against for row in comparison.rows] == ["", comparison.labels[0], "", comparison.labels[2]]
    assert comparison.table()[0][-1] == "from"
    assert "from" not in discreet.compare([one, two]).table()[0]


def test_labels_tell_results_apart(results):
    one, two, _ = results
    assert discreet.compare([one, two]).labels == ("ucbvi, no privacy", "b, no privacy")
    assert discreet.compare([one, replace(one, recipe="other")]).labels == (
        "ucbvi, no privacy, none",
        "ucbvi, no privacy, other",
    )
    assert discreet.compare([one, one]).labels == ("ucbvi, no privacy (1)", "ucbvi, no privacy (2)")
    assert discreet.compare([one, replace(one, world="w")]).labels[1] == "ucbvi, no privacy in w"
    assert discreet.compare({"x": one, "y": two})["y"] is two
    assert discreet.compare([one, two], labels=["x", "y"]).labels == ("x", "y")
    assert len(discreet.compare([one, two])) == len(list(discreet.compare([one, two]))) == 2
    with pytest.raises(InvalidInput, match="no result is labelled 'z'; the labels are x; y"):
        discreet.compare({"x": one, "y": two})["z"]


def test_plain_data_and_pictures(results, tmp_path):
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="needs the extra 'plots'")
    comparison = discreet.compare(list(results))
    data = json.loads(json.dumps(comparison.as_dict(), allow_nan=False))
    assert data["rows"][1]["difference"]["mean"] == pytest.approx(3.0)
    assert data["rows"][0]["difference"] is None
    axes = comparison.plot(tmp_path / "three.svg")
    assert len(axes.get_lines()) == 3
    assert [text.get_text() for text in axes.get_legend().get_texts()] == list(comparison.labels)
    assert "svg" in (tmp_path / "three.svg").read_text()[:300]
    figure, mine = pyplot.subplots()
    assert comparison.plot(ax=mine) is mine
    assert results[0].plot(ax=mine, label="again") is mine
    assert len(mine.get_lines()) == 4
    before = len(pyplot.get_fignums())
    made = results[0].plot()
    assert len(pyplot.get_fignums()) == before + 1
    assert made.get_ylabel().startswith("cumulative regret")
    pyplot.close(figure)
    pyplot.close(made.figure)


def test_a_single_run_is_drawn_without_a_band(results, tmp_path):
    pytest.importorskip("matplotlib", reason="needs the extra 'plots'")
    several = results[0].plot(tmp_path / "several.svg")
    single = replace(results[0], regret=results[0].regret[:1]).plot(tmp_path / "single.svg")
    assert len(several.collections) == 1
    assert len(single.collections) == 0


def test_a_sweep_plays_every_combination_once():
    privacy = [discreet.NoPrivacy(), discreet.Central(1.0, options={"blocks": 4})]
    learners = ["ucbvi", discreet.learners.PSRL()]
    comparison = discreet.compare(WORLD, learners=learners, privacy=privacy, episodes=30, runs=2, seed=3)
    assert comparison.labels == (
        "ucbvi, no privacy",
        "ucbvi, joint, epsilon 1",
        "psrl, no privacy",
        "psrl, joint, epsilon 1",
    )
    again = discreet.simulate(WORLD, discreet.learners.PSRL(), privacy[1], episodes=30, runs=2, seed=3)
    np.testing.assert_array_equal(comparison["psrl, joint, epsilon 1"].regret, again.regret)
    assert {row.against for row in comparison.rows[1:]} == {"ucbvi, no privacy"}


def test_what_cannot_be_served_is_listed_and_not_hidden():
    privacy = {"none": None, "heavy": discreet.Central(1.0, recipe="central/observed-losses")}
    comparison = discreet.compare("river-swim", privacy=privacy, episodes=10, runs=1)
    assert comparison.labels == ("ucbvi, none",)
    assert list(comparison.refused) == ["ucbvi, heavy"]
    assert "not run: ucbvi, heavy" in comparison.summary()
    several = [None, privacy["heavy"], discreet.Central(1.0, recipe="central/loss-tables")]
    assert list(discreet.compare("river-swim", privacy=several, episodes=10, runs=1).refused) == [
        "ucbvi, central, epsilon 1, central/observed-losses",
        "ucbvi, central, epsilon 1, central/loss-tables",
    ]
    with pytest.raises(Unsupported, match="nothing could be played: ucbvi, heavy"):
        discreet.compare("river-swim", privacy={"heavy": privacy["heavy"]}, episodes=10)


def test_worlds_knobs_and_data_sets():
    worlds = ["bandit", WORLD]
    learners = [discreet.learners.UCBVI(), discreet.learners.UCBVI(threshold=2.0)]
    comparison = discreet.compare(worlds, learners=learners, episodes=10, runs=2)
    assert comparison.labels[1] == "ucbvi, threshold=2.0, no privacy in bandit"
    assert comparison.labels[2] == "ucbvi, no privacy in river-swim-3"
    learned = discreet.compare(
        WORLD, learners="apvi", privacy=[None, discreet.Central(1.0)], episodes=40, runs=2, behaviour="uniform"
    )
    assert learned.measure == "final gap"
    assert learned.rows[1].difference is not None
    assert "final gap" in learned.summary()


@dataclass(frozen=True)
class Mine(UCBVI):
    name: ClassVar[str] = "mine"


def test_things_of_your_own_are_taken_wherever_names_are():
    shape = WORLD.shape
    privatizer = build(discreet.Central(2.0, options={"blocks": 4}), shape, 30)

    def make(shape, episodes):
        return build(discreet.Local(2.0), shape, episodes)

    comparison = discreet.compare(
        replace(WORLD, name="mine-too"), learners=[Mine()], privacy={"built": privatizer, "made": make}, episodes=30
    )
    assert comparison.labels == ("mine, built", "mine, made")
    assert [result.world for result in comparison] == ["mine-too"] * 2
    assert comparison["mine, built"].promised == (privatizer.guarantee.epsilon, 0.0)


@pytest.mark.parametrize(
    ("what", "how", "sentence"),
    [
        ([], {}, "nothing to compare"),
        (WORLD, {}, "episodes must be given"),
        ([1, 2], {"episodes": 10}, "world must be a world from discreet.worlds or the name of one, got 1"),
        ("River_Swim", {"episodes": 10}, "did you mean river-swim?"),
        (WORLD, {"episodes": 10, "learners": [discreet.learners.UCBVI]}, "is a class: write UCBVI()"),
        (WORLD, {"episodes": 10, "learners": ["UCBVI"]}, "did you mean ucbvi?"),
        (WORLD, {"episodes": 10, "privacy": [7]}, "privacy must be a trust model"),
        (WORLD, {"episodes": 10, "confidence": 1.0}, "confidence must lie strictly between 0 and 1"),
    ],
)
def test_mistakes_are_one_sentence(what, how, sentence):
    with pytest.raises(InvalidInput) as refusal:
        discreet.compare(what, **how)
    assert sentence in str(refusal.value)


def test_mistakes_with_results(results):
    one, two, _ = results
    learned = discreet.simulate(WORLD, "apvi", episodes=10, behaviour="uniform")
    for what, how, sentence in (
        ([one, two], {"episodes": 10}, "are for worlds; leave them out"),
        ([one, learned], {}, "compare them apart"),
        ([one, WORLD], {}, "compare takes results of discreet.simulate"),
        ([one, two], {"labels": ["x"]}, "labels must be 2 different words"),
        ([one, two], {"labels": ["x", "x"]}, "labels must be 2 different words"),
    ):
        with pytest.raises(InvalidInput, match=sentence):
            discreet.compare(what, **how)
