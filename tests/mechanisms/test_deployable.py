"""Which privatizers can serve real users: all that "auto" takes, or a sentence that says why not and what would."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import discreet
from discreet.base.errors import Unsupported
from discreet.base.policies import Policy
from discreet.learners.registry import make_learner
from discreet.mechanisms.additive import Channel
from discreet.mechanisms.counts.encoder import Context
from discreet.mechanisms.counts.three_tables import ThreeTables
from discreet.mechanisms.deployable import check_shippable
from discreet.mechanisms.schedule import Equal
from discreet.mechanisms.session import Privatizer
from discreet.mechanisms.sums.accumulator import SecureNoise
from discreet.mechanisms.sums.blocks import Blocks
from discreet.noise import Laplace
from discreet.privacy.guarantee import billboard, from_mechanism
from discreet.recipes.registry import build, recipes

SWIM = discreet.worlds.river_swim(states=3, horizon=3).shape
BANDIT = discreet.worlds.from_arrays(np.ones((1, 3, 1)), [[0.2, 0.5, 0.8]], horizon=1).shape
USERS = 200
DEVICES = "take recipe 'local/sampled-step' or 'local/asked-first-visit'"
SERVED = [recipe.name for recipe in recipes("central", "tabular") if recipe.automatic]


def central(recipe, shape=SWIM):
    return build(discreet.Central(1.0, 1e-5, recipe=recipe), shape, USERS)


@pytest.mark.parametrize("recipe", SERVED)
def test_what_auto_takes_can_be_shipped_and_draws_real_noise(recipe):
    shape = BANDIT if "arm" in recipe else SWIM
    privatizer = central(recipe, shape)
    check_shippable(privatizer)
    intake = privatizer.take_in(SecureNoise(), USERS)
    policy = Policy(np.zeros((shape.horizon, shape.states), np.int64))
    (encoder,) = intake.encoders(Context(policy))
    release = intake.take([np.zeros(encoder.size)], 20, Context(policy))
    assert not release.guarantee.simulated
    again = privatizer.resume(intake.save(), USERS, SecureNoise())
    np.testing.assert_array_equal(again.release_now()["rewards"].values, release["rewards"].values)


@pytest.mark.parametrize("response", ["kary", "unary", None])
def test_reports_of_devices_can_be_shipped(response):
    options = {} if response is None else {"response": response}
    target = discreet.Local(2.0, recipe="local/sampled-step", options=options)
    privatizer = build(target, SWIM, USERS)
    check_shippable(privatizer, reports_per_user=3)
    for name in ("ucbvi", "obi"):
        check_shippable(privatizer, needs=make_learner(name).needs)
    for name in ("ucbpo", "psrl"):
        with pytest.raises(Unsupported, match=r"mixes actions.*own_actions"):
            check_shippable(privatizer, needs=make_learner(name).needs)
    drawing = build(replace(target, options={**options, "own_actions": True}), SWIM, USERS)
    check_shippable(drawing, needs=make_learner("ucbpo").needs)
    assert drawing.guarantee.epsilon <= 2.0
    assert privatizer.collect(USERS).left == USERS


@pytest.mark.parametrize("response", ["kary", "unary", None])
def test_answers_of_devices_can_be_shipped_to_learners_that_mix_actions_too(response):
    options = {} if response is None else {"response": response}
    privatizer = build(discreet.Local(2.0, recipe="local/asked-first-visit", options=options), SWIM, USERS)
    for name in ("ucbvi", "obi", "ucbpo", "psrl"):
        check_shippable(privatizer, reports_per_user=3, needs=make_learner(name).needs)
    assert privatizer.guarantee.epsilon <= 2.0
    assert privatizer.collect(USERS).left == USERS
    with pytest.raises(Unsupported, match="AskedChannel between rounds; take recipe 'central/focused"):
        check_shippable(build(discreet.Central(2.0, recipe="local/asked-first-visit", options=options), SWIM, USERS))


@pytest.mark.parametrize(
    "recipe", ["central/first-visit-matrix", "central/joint-histogram-matrix", "central/three-tables-laplace-tree"]
)
def test_users_who_come_back_are_refused_where_releases_share_noise(recipe):
    target = discreet.Central(1.0, 0.0 if "laplace" in recipe else 1e-5, recipe=recipe)
    privatizer = build(target, SWIM, USERS)
    check_shippable(privatizer, reports_per_user=1)
    serves = "focused-first-visit-laplace" if "laplace" in recipe else "focused-first-visit-gaussian"
    with pytest.raises(Unsupported, match=f"2 reports of one user .* take recipe 'central/{serves}'"):
        check_shippable(privatizer, reports_per_user=2)
    check_shippable(central(f"central/{serves}"), reports_per_user=2)


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (discreet.NoPrivacy(), "promises nothing"),
        (discreet.Shuffle(1.0, 1e-3, recipe="shuffle/first-visit-binomial"), "send true bits in clear"),
        (
            discreet.Local(1.0, recipe="local/three-tables-laplace"),
            "take recipe 'local/sampled-step' or 'local/asked-first-visit'",
        ),
        (
            discreet.Local(1.0, recipe="local/three-tables-randomised-response"),
            "take recipe 'local/sampled-step' or 'local/asked-first-visit'",
        ),
        (
            discreet.Local(1.0, 1e-5, recipe="local/three-tables-bounded"),
            "take recipe 'local/sampled-step' or 'local/asked-first-visit'",
        ),
        (discreet.Central(1.0, recipe="local/sampled-step"), "ReportChannel between rounds; take recipe 'central/foc"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.recipe,
)
def test_the_rest_is_refused_with_its_reason(target, reason):
    with pytest.raises(Unsupported, match=reason):
        check_shippable(build(target, SWIM, USERS))


def test_noise_that_is_no_whole_number_is_refused():
    encoder, law = ThreeTables(SWIM), Laplace(12.0)
    guarantee = billboard(from_mechanism(law, encoder.sensitivity(), delta=0.0, name="three tables"))
    privatizer = Privatizer("own/laplace", SWIM, (Channel(encoder, law, Blocks()),), Equal(4), guarantee)
    with pytest.raises(Unsupported, match="drawn exactly, in whole numbers; take recipe 'central/focused-first-visit-"):
        check_shippable(privatizer)
