"""Guarantees: one rule at a time, what they say, and what they refuse."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from discreet.errors import InvalidInput, Unsupported
from discreet.noise import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from discreet.privacy.guarantee import (
    Claim,
    Guarantee,
    Reason,
    about,
    billboard,
    claimed,
    compose,
    describe_law,
    describe_sensitivity,
    drawn,
    finite_or_none,
    from_mechanism,
    left_out,
    locally,
    nothing,
    parallel,
    post_process,
    several_trajectories,
    through_shuffler,
    unbounded,
    with_more_trust,
)
from discreet.privacy.profiles import PureProfile
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


def test_disjoint_users_cost_what_one_group_costs():
    guarantee = parallel(laplace(), "every user is in one block")
    assert (guarantee.epsilon, guarantee.profile, guarantee.model) == (laplace().epsilon, laplace().profile, "central")
    assert "parallel composition: every user is in one block" in guarantee.explain()


def test_the_billboard_lemma_turns_releases_into_joint_privacy():
    guarantee = billboard(laplace())
    assert guarantee.model == "joint"
    assert guarantee.epsilon == laplace().epsilon
    assert "billboard lemma" in guarantee.explain()
    assert billboard(replace(laplace(), model="shuffle")).model == "shuffle"
    for model in ("local", "joint", "none"):
        with pytest.raises(Unsupported, match="billboard"):
            billboard(replace(laplace(), model=model))


def test_a_local_randomiser_is_private_in_every_weaker_model_too():
    guarantee = locally(laplace())
    assert guarantee.model == "local"
    assert guarantee.also == ("shuffle", "joint")
    assert "local randomiser" in guarantee.explain()
    assert "also holds in the joint model" in guarantee.explain()
    assert laplace().also == ()
    assert replace(laplace(), model="shuffle").also == ("joint",)


def test_a_user_with_several_trajectories_pays_for_each():
    pooled = from_mechanism(DiscreteLaplace(12.0), Sensitivity(6.0, 5.0, 4.0), delta=0.0, name="pooled counts")
    guarantee = several_trajectories(replace(pooled, public=("losses",), simulated=False), 3)
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
    assert "simulated noise" in laplace().explain()
    assert "operating system" in drawn(laplace(), simulated=False).explain()
    assert laplace().simulated
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
        assert behind.derivation == Reason("shuffler", "two bags in a row differ by one message", (part.derivation,))
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


def test_unknown_models_are_refused():
    with pytest.raises(InvalidInput, match="model"):
        Guarantee("magic", 1.0, 0.0, PureProfile(1.0), Reason("rule", "why"))


def test_descriptions():
    assert describe_sensitivity(Sensitivity(4.0, 2.0, 1.0)) == "the cells by at most L1 4, L2 2, L-infinity 1"
    assert "standard deviation" in describe_law(DiscreteLaplace(2.0))
    assert (finite_or_none(math.inf), finite_or_none(None), finite_or_none(math.nan)) == (None, None, None)
    assert finite_or_none(0.5) == 0.5


def test_a_derivation_prints_as_a_tree():
    reason = Reason("a", "1", (Reason("b", "2", (Reason("c", "3"),)), Reason("d", "4")))
    assert reason.lines() == ["a: 1", "   └─ b: 2", "      └─ c: 3", "   └─ d: 4"]


def test_a_law_that_cannot_be_shipped_says_so():
    assert "simulation only" in describe_law(Gaussian(2.0))
    assert "simulation only" in describe_law(Laplace(2.0))
    assert "simulation only" not in describe_law(DiscreteGaussian(2.0))
    assert "simulation only" not in describe_law(DiscreteLaplace(2.0))


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
