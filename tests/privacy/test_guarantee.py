"""Guarantees: one rule at a time, what they say, and what they refuse."""

from __future__ import annotations

import copy
import json
import math
import pickle
from dataclasses import fields, replace

import pytest

from discreet.base.errors import InvalidInput, Unsupported
from discreet.noise import DiscreteGaussian, DiscreteLaplace, Gaussian
from discreet.privacy import guarantee as guarantee_module
from discreet.privacy.guarantee import (
    Claim,
    Guarantee,
    Reason,
    about,
    billboard,
    claimed,
    compose,
    drawn,
    finite_or_none,
    from_mechanism,
    left_out,
    locally,
    nothing,
    one_of,
    parallel,
    post_process,
    several_trajectories,
    shuffled,
    through_shuffler,
    unbounded,
    with_more_trust,
)
from discreet.privacy.profiles import GaussianProfile, PureProfile, ZeroConcentratedProfile
from discreet.privacy.sensitivity import Sensitivity

SENSITIVITY = Sensitivity.unit_shifts(up=3, down=3)


def laplace(epsilon: float = 0.5) -> Guarantee:
    return from_mechanism(DiscreteLaplace(6 / epsilon), SENSITIVITY, delta=0.0, name="counts")


def test_a_mechanism_is_as_private_as_its_law_at_the_sensitivity():
    guarantee = laplace(0.5)
    assert guarantee.model == "central"
    assert (guarantee.epsilon, guarantee.delta) == (pytest.approx(0.5), 0.0)
    assert guarantee.delta_at(0.5) == 0.0
    assert 0 < guarantee.delta_at(0.25) < 1
    assert guarantee.epsilon_at(1e-6) < 0.5
    text = guarantee.explain()
    for part in ("mechanism: counts", "sensitivity: counts", "3 up and 3 down by 1", "law: ", "DiscreteLaplace"):
        assert part in text


def test_epsilon_is_read_off_the_profile_at_the_asked_delta():
    law = DiscreteGaussian(9.0)
    guarantee = from_mechanism(law, SENSITIVITY, delta=1e-6, name="counts")
    assert guarantee.epsilon == law.profile(SENSITIVITY).epsilon(1e-6)
    assert guarantee.rho == law.profile(SENSITIVITY).rho == pytest.approx(6 / 81 / 2)


def test_composition_adds_up_and_keeps_its_parts():
    both = compose([laplace(0.5), laplace(0.25)], delta=0.0, why="two tables of the same users")
    assert both.epsilon == pytest.approx(0.75)
    assert both.model == "central"
    text = both.explain()
    for part in ("composition: two tables of the same users", "epsilon 0.5", "epsilon 0.25"):
        assert part in text
    assert compose([laplace()], delta=0.0, why="alone") == laplace()


def test_composition_with_delta_is_better_than_adding_up_and_worse_than_one_part():
    parts = [from_mechanism(DiscreteGaussian(20.0), SENSITIVITY, delta=1e-5, name="counts") for _ in range(4)]
    together = compose(parts, delta=1e-5, why="four")
    assert parts[0].epsilon < together.epsilon < 4 * parts[0].epsilon
    assert together.delta == 1e-5


def test_guarantees_of_different_models_do_not_compose():
    with pytest.raises(Unsupported, match="central, local"):
        compose([laplace(), locally(laplace())], delta=0.0, why="mixed")
    with pytest.raises(InvalidInput, match="at least one"):
        compose([], delta=0.0, why="nothing")
    with pytest.raises(InvalidInput, match="at least one"):
        one_of([], "nothing")


def test_disjoint_users_cost_what_one_group_costs():
    guarantee = parallel(laplace(), "every user is in one block")
    assert (guarantee.epsilon, guarantee.profile, guarantee.model) == (laplace().epsilon, laplace().profile, "central")
    assert "parallel composition: every user is in one block" in guarantee.explain()


def test_the_billboard_lemma_turns_releases_into_joint_privacy():
    guarantee = billboard(laplace())
    assert guarantee.model == "joint"
    assert guarantee.epsilon == laplace().epsilon
    assert "billboard lemma" in guarantee.explain()
    assert billboard(through_shuffler(laplace(), "bags of bits")).model == "shuffle"
    for part in (locally(laplace()), billboard(laplace()), nothing()):
        with pytest.raises(Unsupported, match="billboard"):
            billboard(part)


def test_a_local_randomiser_is_private_in_every_weaker_model_too():
    guarantee = locally(laplace())
    assert guarantee.model == "local"
    assert guarantee.also == ("shuffle", "joint")
    assert "local randomiser" in guarantee.explain()
    assert "also holds in the joint model" in guarantee.explain()
    assert laplace().also == ()
    assert through_shuffler(laplace(), "bags of bits").also == ("joint",)
    with pytest.raises(Unsupported, match="not a promise in the joint model"):
        locally(billboard(laplace()))


def test_a_user_with_several_trajectories_pays_for_each():
    pooled = from_mechanism(DiscreteLaplace(12.0), Sensitivity(6.0, 4.5, 4.0), delta=0.0, name="pooled counts")
    guarantee = several_trajectories(drawn(about(pooled, public=("losses",)), simulated=False), 3)
    assert guarantee.epsilon == pytest.approx(1.5)
    assert guarantee.public == ("losses",)
    assert not guarantee.simulated
    assert "up to 3 trajectories" in guarantee.explain()
    assert several_trajectories(laplace(), 1) == laplace()
    with pytest.raises(Unsupported, match="group privacy"):  # unit shifts grow with the group: ask the law again
        several_trajectories(laplace(), 2)


def test_post_processing_is_free_and_noted():
    guarantee = post_process(laplace(), "a policy planned from the release")
    assert guarantee.epsilon == laplace().epsilon
    assert "post-processing: a policy planned from the release" in guarantee.explain()


def test_a_real_release_says_where_its_noise_came_from():
    assert "no noise was drawn yet" in laplace().explain()
    assert "simulated noise" in drawn(laplace(), simulated=True).explain()
    assert "operating system" in drawn(laplace(), simulated=False).explain()
    assert laplace().simulated is None
    assert not drawn(laplace(), simulated=False).simulated


def test_no_privacy_promises_nothing():
    guarantee = nothing()
    assert guarantee.model == "none"
    assert math.isinf(guarantee.epsilon)
    assert guarantee.delta_at(100.0) == 1.0
    assert guarantee.statement() == "no privacy"
    assert guarantee.also == ()
    assert guarantee.explain().startswith("no privacy")


def test_a_statement_names_model_numbers_and_neighbours():
    assert laplace().statement() == "pure central differential privacy, epsilon 0.5, replace one user"
    gaussian = billboard(from_mechanism(DiscreteGaussian(20.0), SENSITIVITY, delta=1e-5, name="counts"))
    assert gaussian.statement().startswith("joint differential privacy, epsilon 0.")
    assert "delta 1e-05" in gaussian.statement()


def test_a_claim_is_judged_by_the_profile():
    true = claimed(laplace(0.5), Claim(0.6, 0.0, "a paper"))
    false = claimed(laplace(0.5), Claim(0.3, 1e-3, "another paper"))
    exact = claimed(laplace(0.5), Claim(0.3, laplace(0.5).delta_at(0.3), "a third"))
    assert "claimed in a paper: epsilon 0.6 (true)" in true.explain()
    assert "claimed in another paper: epsilon 0.3, delta 0.001 (NOT TRUE)" in false.explain()
    assert "(true)" in exact.explain()
    assert false.as_dict()["claimed"] == {"epsilon": 0.3, "delta": 1e-3, "source": "another paper"}
    assert laplace().as_dict()["claimed"] is None


@pytest.mark.parametrize("guarantee", [laplace(), nothing(), locally(laplace())], ids=["central", "none", "local"])
def test_plain_data_is_json_without_infinities(guarantee):
    text = json.dumps(guarantee.as_dict(), allow_nan=False)
    back = json.loads(text)
    assert back["model"] == guarantee.model
    assert back["epsilon"] == (None if math.isinf(guarantee.epsilon) else guarantee.epsilon)
    assert set(back) >= {"model", "epsilon", "delta", "rho", "neighbours", "unit", "claimed", "also", "derivation"}
    assert back["derivation"] == guarantee.explain().splitlines()


def test_what_was_declared_public_is_said():
    guarantee = about(laplace(), public=("the losses",))
    assert "public: the losses" in guarantee.explain()
    assert guarantee.as_dict()["public"] == ["the losses"]
    both = about(guarantee, unit="one user = up to 3 whole trajectories")
    assert (both.public, both.epsilon) == (("the losses",), guarantee.epsilon)
    assert "unit: one user = up to 3 whole trajectories" in both.explain()


def test_a_shuffler_adds_nothing_by_itself():
    for part in (laplace(), locally(laplace())):
        behind = through_shuffler(part, "two bags in a row differ by one message")
        assert (behind.model, behind.epsilon, behind.profile) == ("shuffle", part.epsilon, part.profile)
        line = Reason("shuffler", "two bags in a row differ by one message", (part.derivation,))
        assert replace(behind.derivation, facts=None) == line
    with pytest.raises(Unsupported, match="not of the joint model"):
        through_shuffler(billboard(laplace()), "why")


def test_what_is_left_out_is_said_with_what_all_of_it_would_give():
    part, whole = laplace(0.5), laplace(0.75)
    less = left_out(part, "squares are not sent", whole)
    assert (less.epsilon, less.profile) == (part.epsilon, part.profile)
    assert f"squares are not sent; all that is printed would give {whole.statement()}" in less.explain()


def test_a_mechanism_without_any_bound_says_why():
    alone = unbounded("raw counts choose thresholds", model="joint", delta=1e-5)
    assert math.isinf(alone.epsilon)
    assert alone.delta_at(100.0) == 1.0
    assert json.loads(json.dumps(alone.as_dict(), allow_nan=False))["epsilon"] is None
    told = unbounded("raw counts choose thresholds", model="joint", delta=0.0, apart=laplace(0.5))
    assert "no bound: raw counts choose thresholds" in told.explain()
    assert "apart from that: epsilon 0.5" in told.explain()


MADE_UP = Reason("made up", "nobody derived this")


@pytest.mark.parametrize(
    "make",
    [
        lambda: Guarantee("local", 0.0, 0.0, PureProfile(0.0), MADE_UP, simulated=False),
        lambda: Guarantee("joint", math.nan, -3.0, PureProfile(1.0), MADE_UP),
        lambda: Guarantee("central", 1.0, 0.0, PureProfile(1.0), MADE_UP),
        lambda: replace(laplace(), epsilon=0.01),
        lambda: replace(laplace(), simulated=False),
        lambda: replace(laplace()),
    ],
)
def test_nobody_but_the_rules_makes_or_changes_a_guarantee(make):
    with pytest.raises(InvalidInput, match="made and changed by the rules"):
        make()


def test_nobody_makes_a_kind_of_guarantee_without_checks():
    with pytest.raises(InvalidInput, match="no other kinds"):
        type("Generous", (Guarantee,), {"__post_init__": lambda self, by: None})


GAUSSIAN = GaussianProfile(1.0)


@pytest.mark.parametrize(
    ("numbers", "says"),
    [
        (("magic", 1.0, 0.0, PureProfile(1.0)), "model must be one of"),
        (("local", 0.99, 0.0, PureProfile(1.0)), "less than the profile"),
        (("local", math.nan, 0.0, PureProfile(1.0)), "epsilon must be a number, got nan"),
        (("local", -0.5, 0.0, PureProfile(0.0)), "at least 0"),
        (("local", 1.0, -3.0, PureProfile(1.0)), r"delta in \[0, 1\]"),
        (("local", 1.0, 1.5, PureProfile(1.0)), r"delta in \[0, 1\]"),
        (("local", 1.0, math.nan, PureProfile(1.0)), "delta must be a number, got nan"),
        (("local", "1", 0.0, PureProfile(1.0)), "epsilon must be a number"),
        (("local", True, 0.0, PureProfile(1.0)), "epsilon must be a number"),
        (("local", 20.0, 0.0, GAUSSIAN), "less than the profile"),
        (("local", 1e5, 0.0, GAUSSIAN), "less than the profile"),  # its delta there is 0.0 in floating point
        (("local", 1e5, 0.0, ZeroConcentratedProfile(0.1)), "less than the profile"),
        (("local", GAUSSIAN.epsilon(1e-5) * 0.999, 1e-5, GAUSSIAN), "less than the profile"),
        (("local", math.inf, 0.0, GAUSSIAN, MADE_UP, 0.4), "rho 0.4 is below the 0.5"),
        (("local", math.inf, 0.0, GAUSSIAN, MADE_UP, math.nan), "rho must be a number"),
        (("local", 1.0, 0.0, None), "needs the profile"),
        (("local", 1.0, 0.0, PureProfile(1.0), None), "needs the profile and the derivation"),
    ],
)
def test_even_a_rule_cannot_state_less_than_the_profile_says(numbers, says):
    arguments = (*numbers, MADE_UP) if len(numbers) == 4 else numbers
    with pytest.raises(InvalidInput, match=says):
        Guarantee(*arguments, by=guarantee_module._RULES)
    state = dict(zip((f.name for f in fields(Guarantee)), arguments))
    forged = laplace().__reduce_ex__(4)[2] | state
    with pytest.raises(InvalidInput, match=says):
        object.__new__(Guarantee).__setstate__(forged)


def test_more_than_the_profile_needs_may_be_stated():
    GAUSSIAN.epsilon(1e-5)
    for numbers in (
        ("local", 1.5, 0.0, PureProfile(1.0)),
        ("local", GAUSSIAN.epsilon(1e-5), 1e-5, GAUSSIAN),
        ("local", math.inf, 0.0, GAUSSIAN),
        ("none", math.inf, 1.0, PureProfile(math.inf)),
    ):
        assert Guarantee(*numbers, MADE_UP, by=guarantee_module._RULES).epsilon == numbers[1]


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g))])
def test_copies_and_pickles_stay_what_they_were(again):
    pooled = from_mechanism(DiscreteLaplace(12.0), Sensitivity(6.0, 4.5, 4.0), delta=0.0, name="pooled counts")
    gaussian = billboard(from_mechanism(DiscreteGaussian(9.0), SENSITIVITY, delta=1e-6, name="counts"))
    assert again(pooled) == pooled
    assert again(gaussian).explain() == gaussian.explain()
    assert again(gaussian).delta_at(0.3) == gaussian.delta_at(0.3)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 50.0, 800.0])
def test_a_shuffled_promise_lies_on_its_own_profile_at_any_epsilon(epsilon):
    part = from_mechanism(DiscreteLaplace(6 / epsilon), SENSITIVITY, delta=1e-6, name="counts")
    whole = shuffled([part], epsilon=epsilon, delta=1e-6, why="batches")
    assert (whole.epsilon, whole.delta) == (epsilon, 1e-6)
    assert whole.delta_at(epsilon) <= 1e-6 < whole.delta_at(epsilon * 0.99)
    with pytest.raises(InvalidInput, match="a batch has delta"):
        shuffled([part], epsilon=epsilon * 0.99, delta=1e-9, why="batches")


@pytest.mark.parametrize("numbers", [(math.nan, 0.0), (1.0, math.nan), (-1.0, 0.0), (1.0, 2.0), ("1", 0.0)])
def test_claims_are_numbers(numbers):
    with pytest.raises(InvalidInput, match="a claimed"):
        Claim(*numbers, "a paper")


def test_a_pure_claim_about_gaussian_noise_is_not_true_at_any_epsilon():
    gaussian = from_mechanism(Gaussian(1.0), Sensitivity(1, 1, 1), delta=1e-5, name="a count")
    for epsilon in (20.0, 40.0, 1e5):
        assert "(NOT TRUE)" in claimed(gaussian, Claim(epsilon, 0.0, "a paper")).explain()
    assert "(true)" in claimed(gaussian, Claim(math.inf, 0.0, "a paper")).explain()
    for delta in (1e-16, 1e-20, 1e-30):  # below what a tolerance in absolute terms could see
        epsilon = gaussian.epsilon_at(delta)
        assert "(true)" in claimed(gaussian, Claim(epsilon, delta, "a paper")).explain()
        assert "(NOT TRUE)" in claimed(gaussian, Claim(epsilon * 0.99, delta, "a paper")).explain()


def test_statements_round_up():
    loose = from_mechanism(DiscreteLaplace(6 / 1.00049), SENSITIVITY, delta=0.0, name="counts")
    assert 1.0004 < loose.epsilon < 1.0005
    assert "epsilon 1.001," in loose.statement()
    both = compose([loose, loose], delta=0.0, why="twice")
    assert "part: epsilon 1.001" in both.explain()
    gaussian = from_mechanism(Gaussian(1.0), Sensitivity(1.00049, 1.00049, 1.00049), delta=0.0, name="counts")
    assert f"rho {math.ceil(gaussian.rho * 1e4) / 1e4:.4f}" in gaussian.statement()
    odd = from_mechanism(Gaussian(1.0), Sensitivity(1, 1, 1), delta=1.2341e-5, name="counts")
    assert "delta 1.24e-05" in odd.statement()


def test_json_has_no_infinities():
    assert (finite_or_none(math.inf), finite_or_none(None), finite_or_none(math.nan)) == (None, None, None)
    assert finite_or_none(0.5) == 0.5


def test_a_derivation_prints_as_a_tree():
    reason = Reason("a", "1", (Reason("b", "2", (Reason("c", "3"),)), Reason("d", "4")))
    assert reason.lines() == ["a: 1", "   └─ b: 2", "      └─ c: 3", "   └─ d: 4"]


def test_a_promise_holds_where_more_is_trusted_and_nowhere_else():
    own = locally(laplace())
    for model in ("shuffle", "joint"):
        restated = with_more_trust(own, model)
        assert (restated.model, restated.epsilon, restated.delta) == (model, own.epsilon, own.delta)
        assert restated.profile is own.profile
        assert "more trust: a mechanism of the local model" in restated.explain()
        assert "local randomiser" in restated.explain()
    assert with_more_trust(with_more_trust(own, "shuffle"), "joint").model == "joint"
    for part, model in ((billboard(laplace()), "local"), (billboard(laplace()), "shuffle"), (own, "central")):
        with pytest.raises(Unsupported, match="does not hold in the"):
            with_more_trust(part, model)
