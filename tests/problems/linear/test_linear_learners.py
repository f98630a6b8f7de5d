"""VAPVI and PEVI: regression by hand, centring that changes nothing without noise, and the benchmark's targets."""

from __future__ import annotations

import math

import numpy as np
import pytest

import discreet
import discreet.offline
from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.shape import Shape
from discreet.base.streams import COINS, stream
from discreet.learners.base import Problem
from discreet.problems.linear import learners as linear_learners
from discreet.problems.linear.learners import PEVI, VAPVI, norm_quantile
from discreet.problems.linear.world import linear_benchmark
from discreet.simulation.data_sets import privatizer_for

BENCHMARK = linear_benchmark()


def simulated(learner, privacy=None, *, users, runs=6, seed=2024, world=BENCHMARK, **options):
    settings = {"users": users, "runs": runs, "seed": seed, "behaviour": "mostly-first", "options": options}
    return discreet.offline.simulate(world, learner, privacy, **settings)


@pytest.mark.slow
@pytest.mark.parametrize(("users", "bound"), [(5_000, 0.35), (20_000, 0.05)])
def test_the_benchmark_is_solved_at_rho_one(users, bound):
    assert simulated("vapvi", discreet.Central(rho=1.0), users=users).final_gap.mean() < bound


@pytest.mark.slow
def test_more_budget_and_more_users_help_and_nothing_beats_no_noise():
    gaps = [simulated("vapvi", discreet.Central(rho=rho), users=1000).final_gap.mean() for rho in (0.1, 5.0, 100.0)]
    exact = simulated("vapvi", users=1000).final_gap.mean()
    assert gaps[0] > gaps[1] > gaps[2] > exact
    assert exact < 0.05


@pytest.mark.parametrize("options", [{}, {"variance": True}, {"variance": True, "split": True}], ids=str)
def test_a_large_budget_is_as_good_as_none(options):
    """rho to infinity: values of the exact learner, up to the grid; rounding makes ties, so values are compared."""
    exact = simulated("vapvi", users=2000, runs=2, **options)
    private = simulated("vapvi", discreet.Central(rho=1e6), users=2000, runs=2, **options)
    np.testing.assert_allclose(private.value, exact.value, atol=0.03)


def test_under_the_printed_recipe_variances_come_from_one_half_and_values_from_the_other():
    """Whether or not the learner would split: the users are divided, and each half is asked its kind of question."""
    target = discreet.Central(rho=1.0, recipe="offline/linear-as-printed")
    for split in (False, True):
        learner = VAPVI(features=np.ones((2, 100, 1)), variance=True, split=split)
        (channel,) = privatizer_for(learner, target, BENCHMARK.shape, 101).channels
        assert channel.encoder.parts == 2
        assert channel.about == tuple(int(n == 2) for n in learner.vectors(Problem(BENCHMARK.shape, 101)))
    result = simulated("vapvi", target, users=101, runs=1, variance=True)
    assert result.guarantee.rho == pytest.approx(0.8 * 19 / 20)  # nothing is asked about variances at the last step
    with pytest.raises(InvalidInput, match="variance=True"):
        simulated("vapvi", target, users=101, runs=1)


def test_vapvi_and_pevi_with_one_coefficient_are_the_same():
    first = simulated("vapvi", users=500, runs=2, coefficient=0.2 / math.sqrt(10))
    second = simulated("pevi", users=500, runs=2, beta=0.2)
    assert first.policies == second.policies


def test_one_hot_features_are_counts():
    """With one coordinate per pair the regression is the ridge mean of r + V(s'), by hand for the last step."""
    world = discreet.worlds.from_arrays(
        np.ones((2, 1, 2, 1)), [[[0.2, 0.8]], [[0.5, 0.25]]], reward_law="deterministic"
    )
    result = simulated("pevi", users=1000, runs=1, world=world, beta=0.0)
    assert result.policies[0].actions[:, 0].tolist() == [1, 0]
    assert result.final_gap[0] == 0


def test_questions_shrink_to_the_range_of_what_is_asked():
    """Targets lie in [-1, 1] and use the whole of it, whatever the values are."""
    learner = VAPVI(features=np.ones((2, 1, 1)))
    state = learner.init(Problem(Shape(2, 1, 3), 10), stream(0, 0, COINS))
    values = state.values.copy()
    values[3] = [5.0, 5.5]
    asked = learner.ask(state._replace(values=values)).what
    assert asked.targets.shape == (1, 17, 3)
    assert (asked.targets[0, 0, 0], asked.targets[0, -1, 1]) == (-1.0, 1.0)
    middle = asked.targets[0, 8, 0] * 0.75 + 5.75
    assert middle == pytest.approx(5.5)  # r = 1/2 and V = 5
    weighed = learner.ask(state._replace(values=values, weighing=True)).what
    assert weighed.targets.shape == (2, 17, 3)
    assert weighed.targets[0, 0, :2].tolist() == [-1.0, 1.0]
    assert weighed.targets[1, 0, :2].tolist() == [1.0, 1.0]


def test_the_number_of_questions_is_known_before_the_first():
    problem = Problem(Shape(2, 2, 4), 10)
    phi = np.ones((2, 2, 1))
    assert VAPVI(phi).vectors(problem) == (1, 1, 1, 1)
    both = VAPVI(phi, variance=True, split=True)
    assert both.vectors(problem) == (1, 2, 1, 2, 1, 2, 1)  # 5H - 3 statistics, matrices included
    assert sum(both.vectors(problem)) + both.questions(problem) == 5 * 4 - 3
    assert both.parts(problem) == (0, 1, 0, 1, 0, 1, 0)
    assert PEVI(phi).questions(problem) == 4


def test_the_norm_of_noise_is_bounded_as_often_as_stated():
    """Measured quantiles of an independent prototype: 8.46 for d = 10, 40 matrices, and 6.59 for d = 5, 20 matrices."""
    assert norm_quantile(10, 40, 0.04) == pytest.approx(8.46, abs=0.25)
    assert norm_quantile(5, 20, 0.04) == pytest.approx(6.59, abs=0.3)
    assert norm_quantile(50, 40, 0.04) == pytest.approx(19.7, abs=0.1)


def test_until_everything_is_planned_the_policy_is_uniform():
    learner = PEVI(np.ones((1, 2, 1)))
    state = learner.init(Problem(Shape(1, 2, 2), 10), stream(0, 0, COINS))
    assert learner.policy(state) == state.uniform


@pytest.mark.parametrize(
    "make",
    [
        lambda: VAPVI(np.ones(3)),
        lambda: VAPVI(ridge=0.0),
        lambda: VAPVI(coefficient=-1.0),
        lambda: VAPVI(split=True),
        lambda: PEVI(beta=-1.0),
        lambda: PEVI(failure_probability=1.0),
        lambda: VAPVI().init(Problem(Shape(1, 2, 2), 10), stream(0, 0, COINS)),
    ],
)
def test_bad_knobs_are_refused(make):
    with pytest.raises(InvalidInput):
        make()


def test_what_linear_learners_do_not_do():
    with pytest.raises(Unsupported, match="known_rewards"):
        discreet.offline.simulate(BENCHMARK, "vapvi", users=10, runs=1, known_rewards=True)
    with pytest.raises(InvalidInput, match="offline/linear"):
        discreet.offline.simulate(BENCHMARK, "vapvi", discreet.Central(rho=1.0, recipe="offline/gaussian"), users=10)


def test_as_printed_nothing_is_centred_and_variances_are_asked_for_at_every_step():
    """Targets are r + V, V and V^2 in units of H and H^2, whatever is known of V by then."""
    problem, coins = Problem(Shape(2, 3, 4), 100), stream(0, 0, COINS)
    features = np.eye(6).reshape(2, 3, 6)
    learner = VAPVI(features, variance=True, split=True, form="printed")
    assert learner.vectors(problem) == (2, 1) * 4
    state = learner.init(problem, coins)._replace(step=1)
    state = state._replace(values=np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 2.0], [0.0, 0.0], [0.0, 0.0]]))
    weighed = learner.ask(state).what.targets
    assert weighed[0, 0].tolist() == [0.25, 0.5, 0.0]
    assert weighed[1, 0].tolist() == [0.0625, 0.25, 0.0]
    planned = learner.ask(state._replace(weighing=False)).what.targets
    assert planned[0, -1].tolist() == [0.5, 0.75, 0.25]
    centred = VAPVI(features, variance=True).ask(state._replace(weighing=False)).what.targets
    assert np.abs(centred).max() == 1.0


def test_the_printed_coefficient_of_pevi(monkeypatch):
    """c d H sqrt(ln(2 d H K / failure)), with ``beta`` in place of c."""
    used = []

    def planned(learner, state, fit, coefficient):
        used.append(coefficient)
        return plan_step(learner, state, fit, coefficient)

    plan_step = linear_learners.plan_step
    monkeypatch.setattr(linear_learners, "plan_step", planned)
    simulated("pevi", users=200, runs=1, form="printed", beta=0.5)
    assert used == pytest.approx([0.5 * 10 * 20 * math.sqrt(math.log(2 * 10 * 20 * 200 / 0.1))] * 20)


@pytest.mark.slow
def test_dp_vapvi_as_printed_needs_a_hundred_times_the_users():
    """Targets up to H instead of a span of about one: the noise is the printed one, and nothing is learned at 1,000."""
    target = discreet.Central(rho=1.0, recipe="offline/linear-as-printed")
    printed = {"variance": True, "split": True, "form": "printed"}
    gaps = simulated("vapvi", target, users=1000, runs=3, **printed).final_gap
    assert gaps.min() > 3.0 > simulated("vapvi", discreet.Central(rho=1.0), users=1000, runs=3).final_gap.max()


def test_the_printed_form_is_for_whole_episodes():
    with pytest.raises(InvalidInput, match="one length"):
        VAPVI(np.ones((1, 1, 1)), form="printed", ends=True)
    with pytest.raises(InvalidInput, match="form"):
        PEVI(np.ones((1, 1, 1)), form="typed")
