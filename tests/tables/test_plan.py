"""Plans: noise against counts and what may be expected, without data."""

from __future__ import annotations

import json
import math

import pytest

import discreet
from discreet import Shape
from discreet.base.errors import InvalidInput
from discreet.learners import APVI
from discreet.recipes.calibrate import calibrate
from discreet.recipes.targets import Central


@pytest.fixture(scope="module")
def plan():
    return discreet.offline.plan(Shape(3, 2, 3), users=[500, 4000], epsilons=[1.0, 8.0], delta=1e-6, runs=2)


def test_noise_is_that_of_the_recipe_and_falls_with_epsilon(plan):
    found = {(row.users, row.epsilon): row for row in plan.rows}
    assert set(found) == {(users, epsilon) for users in (500, 4000) for epsilon in (1.0, 8.0, None)}
    stated = calibrate(Central(1.0, 1e-6), plan.shape, learner=APVI(), episodes=2600, data_set=True)
    assert stated.recipe.startswith("offline/")
    assert found[4000, 1.0].noise == pytest.approx(next(e.sd_end for e in stated.errors if e.statistic == "visits"))
    assert found[4000, None].noise == 0
    assert found[4000, 1.0].noise > found[4000, 8.0].noise
    assert found[4000, 8.0].per_row == pytest.approx(2600 / 6, rel=0.1)


def test_more_users_and_more_epsilon_are_expected_to_do_better(plan):
    found = {(row.users, row.epsilon): row for row in plan.rows}
    assert found[4000, 8.0].width < found[500, 1.0].width
    assert found[4000, None].gap <= found[500, 1.0].gap
    assert found[500, 1.0].shown < found[4000, 8.0].shown


def test_a_plan_is_data_and_a_picture(plan, tmp_path):
    text = json.dumps(plan.as_dict(), allow_nan=False)
    assert json.loads(text)["rows"][0]["users"] == 500
    plan.plot(tmp_path / "plan.svg")
    assert (tmp_path / "plan.svg").stat().st_size > 1000
    assert not any(math.isnan(row.width) for row in plan.rows)


def test_bad_plans_are_refused():
    for wrong in ({"users": 5}, {"users": []}, {"users": 100, "epsilons": []}, {"users": 100, "epsilons": [-1]}):
        with pytest.raises(InvalidInput):
            discreet.offline.plan(Shape(2, 2, 2), **wrong)
    with pytest.raises(InvalidInput, match="needs a Shape"):
        discreet.offline.plan(3, users=100)
