"""Audit reports: what is tried, what is reported, and that transcripts have the log-likelihood ratios they should."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from discreet.audit.audit import audit
from discreet.audit.likelihoods import AdditiveTranscript
from discreet.audit.neighbours import worst_pair
from discreet.audit.trials import FixedUsers, exact_profile, known_transcript, session_transcript
from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.shape import Shape
from discreet.base.streams import stream
from discreet.mechanisms.additive import Channel
from discreet.mechanisms.counts.joint_histogram import JointHistogram
from discreet.mechanisms.sums.blocks import Blocks, Total
from discreet.mechanisms.sums.tree import Tree
from discreet.noise import DiscreteLaplace, Gaussian, Laplace
from discreet.papers import published
from discreet.privacy.sensitivity import Sensitivity
from discreet.privacy.words import rounded_up
from discreet.recipes.registry import build
from discreet.recipes.targets import Central, Local, NoPrivacy

SMALL = Shape(2, 2, 1)
FEW = 4000


def sampled(accumulator, law, releases, trials=40_000):
    pair = worst_pair(JointHistogram(SMALL))
    differs = pair.shift != 0
    cells = pair.cells[0][differs], pair.cells[1][differs]
    transcript = AdditiveTranscript(Channel(JointHistogram(SMALL), law, accumulator), cells, releases)
    return [transcript.sample(side, trials, stream(0, 0, side))[:, 0] for side in (0, 1)]


@pytest.mark.parametrize("accumulator", [Blocks(), Total()], ids=["blocks", "total"])
def test_ratios_of_a_sum_depend_on_the_users_own_release_alone(accumulator):
    # Two cells move by one under Laplace noise of scale 2: the loss is at most 1, and adaptive users add nothing.
    first, second = sampled(accumulator, Laplace(2.0), releases=3)
    assert first.max() == pytest.approx(1.0)
    assert second.min() == pytest.approx(-1.0)
    # Both cells are at their largest loss with probability 1/4, and e^-1 times that on the other side.
    assert np.mean(first > 0.9999) == pytest.approx(0.25, abs=0.01)
    assert np.mean(second > 0.9999) == pytest.approx(0.25 / math.e, abs=0.01)


def test_ratios_of_a_tree_add_up_over_its_levels():
    levels = 3
    first, second = sampled(Tree(users=7), Gaussian(2.0), releases=7)
    # A Gaussian shift of squared length 2 * levels: the ratio is normal with mean mu^2 / 2 and variance mu^2.
    mu2 = 2 * levels / 4
    assert first.mean() == pytest.approx(mu2 / 2, abs=0.03)
    assert second.mean() == pytest.approx(-mu2 / 2, abs=0.03)
    assert first.var() == pytest.approx(mu2, rel=0.03)


def test_ratios_are_likelihood_ratios():
    # E over side 1 of exp(ratio) is one, whatever the later users do.
    for accumulator, releases in ((Blocks(), 3), (Tree(users=6), 6)):
        _, second = sampled(accumulator, DiscreteLaplace(4.0), releases)
        assert np.exp(second).mean() == pytest.approx(1.0, abs=0.03)


def test_the_exact_profile_follows_from_the_records_and_the_law_alone():
    shape = Shape(3, 2, 4, homogeneous=True)
    for recipe, levels in (("central/three-tables-laplace", 1), ("central/three-tables-laplace-tree", 4)):
        privatizer = build(Central(1.0, recipe=recipe), shape, 15)
        law = privatizer.channels[0].law
        l1 = (6 * 4 - 2) * levels
        assert exact_profile(privatizer).epsilon(0.0) == pytest.approx(l1 / law.scale)


def test_a_lie_in_the_stated_sensitivity_shows_in_exact_and_is_convicted():
    @dataclass(frozen=True)
    class Lying(JointHistogram):
        def sensitivity(self):
            return Sensitivity.unit_shifts(1, 0)

    honest = build(Central(1.0, recipe="central/joint-histogram-laplace"), SMALL, 2)
    law = DiscreteLaplace(1.0)  # enough for one move, and two happen
    lying = replace(honest, channels=(Channel(Lying(SMALL), law, Blocks()),))
    report = audit(lying, SMALL, trials=40_000)
    assert (report.claimed, report.certified) == (1.0, 1.0)
    assert report.exact == pytest.approx(2.0)
    assert not report.holds
    assert audit(honest, SMALL, trials=40_000).holds


def test_a_privatizer_is_tried_at_its_own_shape_only():
    privatizer = build(Central(1.0), SMALL, 2)
    with pytest.raises(InvalidInput, match="give its own shape"):
        audit(privatizer, Shape(3, 2, 1))


def test_the_session_itself_can_be_tried():
    honest = build(Central(1.0, recipe="central/joint-histogram-laplace"), SMALL, 2)
    quiet = replace(honest, channels=(replace(honest.channels[0], law=DiscreteLaplace(0.2)),))
    assert known_transcript(honest) is not None
    first, second = (session_transcript(quiet, 2).sample(side, 500, stream(0, 0, side)) for side in (0, 1))
    best = np.abs(first.mean(axis=0) - second.mean(axis=0)).max()
    assert best == pytest.approx(1.0, abs=0.15)
    assert first.shape[1] <= 24
    longer = build(Central(1.0, recipe="central/joint-histogram-laplace"), Shape(3, 2, 2), 2)
    assert session_transcript(longer, 2).sample(0, 3, stream(0, 0, 0)).shape == (3, 24)


@pytest.mark.slow
def test_a_session_is_tried_with_users_who_follow_a_public_policy():
    # A sampled step reports no action, because the policy gives it: records that defy it would be no neighbours.
    report = audit(Local(1.0, recipe="local/sampled-step"), SMALL, trials=4000)
    assert report.holds
    assert report.exact == pytest.approx(1.0, abs=1e-6)
    assert "a1" not in report.case.compared
    tried = session_transcript(build(Local(1.0, recipe="local/sampled-step"), SMALL, 2), 2)
    assert all((record.actions == 0).all() for record in tried.records)


@pytest.mark.slow
@pytest.mark.parametrize("response", ["kary", "unary"])
def test_answers_to_a_question_go_through_all_stages(response):
    shape, options = replace(SMALL, horizon=2, homogeneous=True), {"response": response}
    report = audit(Local(2.0, recipe="local/asked-first-visit", options=options), shape, trials=4000)
    assert report.holds
    assert report.exact == pytest.approx(2.0, abs=1e-6)
    assert [(stage.name, stage.ran, stage.holds) for stage in report.stages] == [
        ("coupling", True, True),
        ("samplers", True, True),
    ]
    assert 0 < report.lower_bound < 2.0


@pytest.mark.slow
def test_an_accumulator_that_is_not_known_falls_back_on_the_session():
    @dataclass(frozen=True)
    class Unknown:
        name: str = "unknown"

        def start(self, *arguments):
            return Blocks().start(*arguments)

    honest = build(Central(1.0, recipe="central/joint-histogram-laplace"), SMALL, 2)
    channel = replace(honest.channels[0], accumulator=Unknown())
    strange = replace(honest, channels=(channel,))
    report = audit(strange, SMALL, trials=2000)
    assert (report.finding.known, report.exact) == (False, None)
    assert report.holds
    quiet = replace(strange, channels=(replace(channel, law=DiscreteLaplace(0.25)),))
    assert not audit(quiet, SMALL, trials=2000).holds


def test_fixed_users_come_in_order_and_once():
    pair = worst_pair(JointHistogram(SMALL))
    encoder = JointHistogram(SMALL)
    users = FixedUsers([pair.records[0], pair.records[1], pair.records[1]], stream(0, 0, 0))
    np.testing.assert_array_equal(users.tally([encoder], None, 1)[0], pair.cells[0])
    np.testing.assert_array_equal(users.messages(encoder, None, 2), np.stack([pair.cells[1]] * 2))


def test_a_report_as_data_and_as_words(tmp_path):
    report = audit(Central(1.0), Shape(4, 2, 6), episodes=500, trials=FEW)
    data = json.loads(json.dumps(report.as_dict(), allow_nan=False))
    keys = {
        "recipe",
        "claimed",
        "certified",
        "exact",
        "lower_bound",
        "confidence",
        "trials",
        "holds",
        "shape",
        "compared",
    }
    assert keys <= set(data)
    assert (data["claimed"], data["trials"], data["holds"]) == (1.0, FEW, True)
    assert data["shape"]["horizon"] == 6
    assert "no proof of privacy" in report.explain()
    assert "horizon 6" in report.explain()
    assert "#" in report.picture()
    report.plot(tmp_path / "audit.svg")
    assert (
        b"log-likelihood ratio" in (tmp_path / "audit.svg").read_bytes()
        or (tmp_path / "audit.svg").stat().st_size > 5000
    )
    with pytest.raises(InvalidInput, match="must end in"):
        report.plot(tmp_path / "audit.txt")


def test_a_published_recipe_is_reported_with_its_truth():
    report = audit(
        Central(1.0, recipe="published/adversarial-full-information"), Shape(16, 3, 4), episodes=4095, trials=40_000
    )
    assert report.exact == pytest.approx(16 / 3 * 12 / math.log2(4095))
    assert report.certified > report.lower_bound > report.claimed == 1.0
    assert "FALSE" in report.explain()


def test_a_conviction_at_one_size_does_not_quote_the_truth_at_another():
    """The runs proved 2.13 of two users, and "in truth it is 1.75" was that of 20,000."""
    report = audit(Central(1.0, recipe="published/heavy-tailed-central"), Shape(6, 2, 20), trials=40_000)
    proved, _, rest = report.verdict().partition(", with confidence 0.99, at ")
    tried, _, asked = rest.partition("; at the asked ")
    assert float(proved.split()[-1]) == pytest.approx(report.lower_bound, abs=1e-3)
    assert tried.startswith(report.case.setting.describe())
    assert tried.endswith(f"where in truth it is epsilon {rounded_up(report.case.exact)}")
    assert report.case.exact > report.lower_bound > report.exact
    assert asked == f"{report.asked.describe()} it is epsilon 1.75"
    same = replace(report, asked=report.case.setting, exact=report.case.exact)
    assert same.verdict().endswith(f"; in truth it is epsilon {rounded_up(report.case.exact)}")


def test_an_untrue_claim_that_runs_cannot_show_is_still_called_untrue():
    target = Central(1.0, 1e-5, recipe="published/ldp-obi-gaussian")
    report = audit(target, Shape(2, 2, 2, homogeneous=True), trials=FEW)
    assert report.holds
    assert report.certified > report.claimed
    assert "NOT TRUE" in report.explain()


def test_an_unbounded_recipe_has_no_certificate():
    for name, shape in (
        ("published/heavy-tailed-central-raw-counts", Shape(4, 2, 6)),
        ("published/sdp-pe-integer-messages", Shape(1, 20, 1)),
    ):
        report = audit(Central(1.0, 1e-5, recipe=name), shape, trials=2_000)
        assert (report.certified, report.as_dict()["exact"]) == (None, None)
        assert not report.holds
        assert f"stated in    {published(name).paper}, {published(name).statement.where}" in report.explain()
        assert published(name).statement.condition in report.explain()


def test_integer_messages_are_not_convicted_where_everybody_has_many_noise_bits():
    report = audit(Central(1.0, 1e-5, recipe="published/sdp-pe-integer-messages"), Shape(4, 2, 6), trials=FEW)
    assert report.holds
    assert report.exact == 1.0


def test_a_promise_that_is_too_large_or_too_small_to_see_is_tried_at_another_epsilon():
    # Half of the noise at epsilon 0.01 cannot be seen in so few runs, at epsilon 1 it can.
    for epsilon in (0.01, 30.0):
        report = audit(Central(epsilon, recipe="broken/noise-halved"), Shape(4, 2, 6), trials=40_000)
        assert not report.holds
        assert report.claimed in (1.0, 6.0)


def test_a_concentrated_target_is_tried_through_the_epsilon_that_it_implies():
    report = audit(Central(rho=0.5), Shape(4, 2, 6), trials=FEW)
    assert report.holds
    assert 1.5 < report.claimed < 3  # rho + 2 sqrt(rho ln(1/delta)) at delta 0.05, or less
    assert report.case.delta == 0.05


@pytest.mark.slow
def test_local_targets_and_learners_with_needs():
    class Learner:
        needs = frozenset({"visits", "rewards"})

    assert audit(Local(2.0), Shape(3, 2, 2), learner=Learner(), trials=FEW).holds

    class Demanding:
        needs = frozenset({"gradients"})

    with pytest.raises(Unsupported):
        audit(Local(2.0), Shape(3, 2, 2), learner=Demanding(), trials=FEW)


def test_nothing_to_audit():
    with pytest.raises(InvalidInput, match="claims nothing"):
        audit(NoPrivacy(), SMALL)
    with pytest.raises(InvalidInput, match="unknown broken mechanism"):
        audit("broken/nothing", SMALL)


def test_a_function_that_makes_a_privatizer_is_tried_like_the_privatizer():
    shape = Shape(2, 2, 2)

    def make(shape, episodes):
        return build(Central(1.0), shape, episodes)

    made, given = (audit(target, shape, episodes=4, trials=4_000) for target in (make, make(shape, 4)))
    assert made.holds
    assert (made.recipe, made.claimed, made.lower_bound) == (given.recipe, given.claimed, given.lower_bound)
    assert audit(make(shape, 4), shape, trials=4_000).holds  # with as many episodes as it was built for
    with pytest.raises(InvalidInput, match="was built for"):
        audit(make(shape, 4), Shape(3, 2, 2), trials=4_000)
