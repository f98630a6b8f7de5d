"""Offline simulation: the targets of the benchmark, the limit of much budget, and reproducible runs."""

from __future__ import annotations

import json

import numpy as np
import pytest

import discreet
import discreet.offline
from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.policies import Policy, uniform_policy
from discreet.base.shape import Shape
from discreet.worlds.family import WorldFamily


def _benchmark():
    """S = 5, A = 3, H = 5; rows Dirichlet(0.3), rewards uniform and known, uniform start."""

    def draw(seed):
        rng = np.random.default_rng([7, seed])
        transitions, means = rng.dirichlet(np.full(5, 0.3), size=(5, 5, 3)), rng.random((5, 5, 3))
        return discreet.worlds.from_arrays(transitions, means, start=np.full(5, 0.2), reward_law="deterministic")

    return WorldFamily("dirichlet", Shape(5, 3, 5), draw)


BENCHMARK = _benchmark()


def simulated(privacy=None, **settings):
    settings = {"users": 10_000, "runs": 8, "seed": 77, "known_rewards": True, **settings}
    return discreet.offline.simulate(BENCHMARK, settings.pop("learner", "apvi"), privacy, **settings)


def test_the_gap_at_rho_one_is_small_and_the_published_one_is_not():
    ours = simulated(discreet.Central(rho=1.0))
    assert ours.final_gap.mean() < 0.02
    published = simulated(
        discreet.Central(rho=1.0, recipe="offline/apvi-gaussian"),
        learner=discreet.learners.APVI(penalty="bernstein", repair="projection"),
    )
    assert published.final_gap.mean() > 0.5


def test_a_large_budget_is_as_good_as_none():
    """rho to infinity: the same policies as APVI on the same data."""
    exact, private = simulated(users=300), simulated(discreet.Central(rho=1e7), users=300)
    assert exact.policies == private.policies
    assert exact.guarantee.model == "none"
    noisy = simulated(discreet.Central(rho=0.001), users=300)
    assert noisy.final_gap.mean() > exact.final_gap.mean() + 0.02


def test_runs_depend_on_the_seed_alone():
    first, again, other = (simulated(discreet.Central(rho=0.05), runs=2, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.final_gap, again.final_gap)
    assert (first.final_gap != other.final_gap).any()


def test_private_rewards_cost_something_but_little():
    assert simulated(discreet.Central(2.0, 1e-5), known_rewards=False).final_gap.mean() < 0.2


def test_pooled_worlds_use_first_visits():
    world = discreet.worlds.river_swim(states=3, horizon=5)
    result = discreet.offline.simulate(world, "apvi", discreet.Central(1.0, 1e-5), users=5000, runs=2, seed=3)
    assert "first-visit successors with rewards" in result.guarantee.explain()
    assert result.final_gap.mean() < 0.5 * (world.optimal_value - world.value(uniform_policy(world.shape)))


def test_a_result_says_everything(tmp_path):
    result = simulated(discreet.Central(1.0, 1e-5), runs=2)
    facts = json.loads(json.dumps(result.as_dict(), allow_nan=False))
    assert facts["regret"] is None
    assert facts["final_gap"]["per_run"] == result.final_gap.tolist()
    assert (facts["users"], facts["behaviour"], facts["guarantee"]["model"]) == (10_000, "uniform", "central")
    assert "gap" in result.summary()
    result.save(tmp_path / "run")
    assert (
        json.loads((tmp_path / "run" / "result.json").read_text())
        == {"format": "discreet-result", "version": 1} | facts
    )


def test_a_picture_of_values_against_users(tmp_path):
    results = [simulated(discreet.Central(1.0, 1e-5), users=users, runs=2) for users in (100, 1000)]
    discreet.offline.plot_values(results, tmp_path / "values.svg")
    text = (tmp_path / "values.svg").read_text()
    assert "</svg>" in text
    with pytest.raises(InvalidInput, match="must end in"):
        discreet.offline.plot_values(results, tmp_path / "values.doc")


def test_behaviour_policies():
    greedy = simulated(behaviour=Policy(np.zeros((5, 5), np.int64)), runs=1)
    assert greedy.behaviour == "a policy"
    first = simulated(behaviour="mostly-first", runs=1)
    assert first.behaviour_value[0] != greedy.behaviour_value[0]
    with pytest.raises(InvalidInput, match="mostly-first"):
        simulated(behaviour="mostly-frist", runs=1)


@pytest.mark.parametrize("settings", [{"users": 0}, {"runs": 0}, {"seed": -1}])
def test_bad_numbers_are_refused(settings):
    with pytest.raises(InvalidInput):
        simulated(**settings)


def test_a_data_set_is_not_local():
    with pytest.raises(Unsupported, match="does not apply"):
        simulated(discreet.Local(1.0))


class TestSparse:
    """Sparse releases in the learner."""

    def test_sparse_and_dense_agree_when_everything_is_well_above_the_threshold(self):
        dense = simulated(discreet.Central(2.0, 1e-6, recipe="offline/gaussian"), users=100_000, runs=4)
        sparse = simulated(discreet.Central(2.0, 1e-6, recipe="offline/sparse-gaussian"), users=100_000, runs=4)
        assert sparse.final_gap.mean() < dense.final_gap.mean() + 0.05

    @pytest.mark.parametrize("rewards", ["known", "private"])
    def test_pooled_sparse_counts(self, rewards):
        world = discreet.worlds.river_swim(states=4, horizon=6)
        privacy = discreet.Central(2.0, 1e-6, recipe="offline/sparse-laplace")
        result = discreet.offline.simulate(
            world,
            "apvi",
            privacy,
            users=30_000,
            runs=2,
            known_rewards=rewards == "known",
            options={"penalty_scale": 0.1},
        )
        assert result.final_gap.mean() < 0.3 * (result.optimal_value - result.behaviour_value).mean()

    def test_nothing_is_learned_below_the_threshold_but_nothing_breaks(self):
        privacy = discreet.Central(0.5, 1e-6, recipe="offline/sparse-laplace")
        assert np.isfinite(simulated(privacy, users=20, runs=2).final_gap).all()


def test_pessimistic_values_are_below_the_truth():
    """Of the tight penalty: they are below in every one of these runs, because it is cautious."""
    from discreet.base.streams import COINS, NOISE, USERS, generator, stream
    from discreet.learners.base import Problem
    from discreet.mechanisms.sums.accumulator import SimulatedNoise
    from discreet.recipes.registry import build
    from discreet.simulation.data_sets import BehaviourUsers, known_table, learn

    learner, useful = discreet.learners.APVI(penalty="tight"), 0
    for seed in range(12):
        world, users = BENCHMARK.instance(seed), (1000, 10_000, 100_000)[seed % 3]
        behaviour = uniform_policy(world.shape)
        people = BehaviourUsers(world, behaviour, stream(seed, 0, USERS), generator(seed, 0, USERS))
        target = discreet.Central(rho=1.0, options={"rewards": "known"})
        privatizer = build(target, world.shape, users, data_set=True)
        session = privatizer.open(people, SimulatedNoise(generator(seed, 0, NOISE)), users)
        known = known_table(world.shape, world.means)
        state, _ = learn(learner, session, Problem(world.shape, users), stream(seed, 0, COINS), known)
        bound, value = float(world.start @ state.values[0]), world.value(learner.policy(state))
        assert bound <= value
        useful += bound > 0.5 * value
    assert useful >= 4  # and with enough users it says something
