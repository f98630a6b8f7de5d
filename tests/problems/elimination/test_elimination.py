"""Policy elimination: stages and batches, the requests it makes, and that it finds the best policy."""

from __future__ import annotations

import numpy as np
import pytest

import discreet
from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.policies import Mixture, Policy, uniform_policy
from discreet.base.streams import COINS, NOISE, USERS, generator, stream
from discreet.learners.base import Problem
from discreet.mechanisms.release import Layer
from discreet.mechanisms.sums.accumulator import SimulatedNoise
from discreet.problems.elimination.active_sets import Candidates, Constrained, Listed
from discreet.problems.elimination.learners import PolicyElimination, mixture, shares, stage_sizes
from discreet.recipes.registry import build
from discreet.simulation.users import TabularUsers

WORLD = discreet.worlds.river_swim(states=3, horizon=3).with_time(False)
SHUFFLE = discreet.Shuffle(1.0, 1e-5, recipe="shuffle/joint-histogram-binomial")
CLEAR = PolicyElimination(one_layer=False)


def play(learner, privacy, episodes, world=WORLD, run=0, watch=lambda state: None):
    """All requests of a run, the last state, and the exact regret; ``watch`` sees every state."""
    privatizer = build(privacy, world.shape, episodes, learner.needs)
    users = TabularUsers(world, stream(0, run, USERS), generator(0, run, COINS))
    session = privatizer.open(users, SimulatedNoise(generator(0, run, NOISE)), episodes)
    state, requests, regret = learner.init(Problem(world.shape, episodes), stream(0, run, COINS)), [], 0.0
    while session.left:
        requests.append(learner.ask(state))
        served = session.served
        release = session.answer(requests[-1])
        regret += (session.served - served) * world.gap(requests[-1].policy)
        state = learner.update(state, release)
        watch(state)
    return requests, state, regret


@pytest.mark.parametrize("episodes", [1, 2, 3, 5, 6, 7, 17, 18, 19, 20, 100, 20_000, 200_000])
@pytest.mark.parametrize("first", [1, 2, 32])
def test_stages_serve_everybody_but_two(episodes, first):
    sizes = stage_sizes(episodes, first)
    assert 0 <= episodes - 3 * sum(sizes) < 3
    assert all(size >= 1 for size in sizes)
    assert sizes[:-1] == [first * 2**b for b in range(len(sizes) - 1)]
    if first == 2 and sizes:
        assert len(sizes) <= np.ceil(np.log2(episodes / 6 + 1)) + 1


def test_shares_are_whole_and_even():
    assert shares(7, 3) == [3, 2, 2]
    assert shares(2, 3) == [1, 1, 0]
    assert shares(5, 0) == []


@pytest.mark.parametrize("lean", [True, False])
def test_requests_follow_the_schedule(lean):
    """3 L users a stage: L over the crude layers, asked one by one, then 2 L (and what is left) for the fine batch."""
    requests, _, _ = play(PolicyElimination(lean=lean), SHUFFLE, 200)
    sizes = stage_sizes(200)
    steps = 2 if lean else 3
    expected = []
    for size in sizes[: len(sizes) - lean]:
        crude = [(h, n) for h, n in enumerate(shares(size, steps)) if n]
        expected += [*crude, (None, 2 * size)]
    served = sum(users for _, users in expected)
    if served < 200:
        expected.append((None, 200 - served))
    got = [(request.what.step if isinstance(request.what, Layer) else None, request.users) for request in requests]
    assert got == expected
    assert sum(request.users for request in requests) == 200


def test_crude_batches_play_every_action_and_fine_batches_all_of_it():
    requests, _, _ = play(PolicyElimination(), SHUFFLE, 2000)
    first = next(request for request in requests if request.what == Layer(0) and request.users > 20)
    assert {int(policy.actions[0, 0]) for policy in first.policy.components} == {0, 1}
    np.testing.assert_allclose(first.policy.weights.sum(), 1)
    fine = next(request for request in requests if request.what is None and request.users > 20)
    assert len(fine.policy.components) > len(first.policy.components)
    last = requests[-1]
    assert isinstance(last.policy, Policy)


def test_half_of_a_fine_batch_covers_and_half_repeats_the_crude_policies():
    """Without the uniform half of crude policies, a half is left that is not the crude one again."""
    states = []
    play(PolicyElimination(lean=False), SHUFFLE, 2000, watch=states.append)
    state = next(state for state in states if state.step == 3 and state.request.users > 20)
    rest = dict(zip(state.request.policy.components, state.request.policy.weights, strict=True))
    crude = mixture([Candidates(*(np.concatenate(fields) for fields in zip(*state.crude, strict=True)))])
    for policy, weight in zip(crude.components, crude.weights, strict=True):
        rest[policy] -= weight / 2
    assert min(rest.values()) > -1e-12
    assert sum(rest.values()) == pytest.approx(0.5)
    difference = [rest[policy] - weight / 2 for policy, weight in zip(crude.components, crude.weights, strict=True)]
    assert np.abs(difference).max() > 0.01


def test_whole_tables_where_a_recipe_has_nothing_narrower():
    requests, _, _ = play(CLEAR, discreet.NoPrivacy(), 100)
    assert all(request.what is None for request in requests)
    with pytest.raises(Unsupported, match="Layer"):
        play(PolicyElimination(), discreet.Central(1.0, 1e-5, recipe="central/joint-histogram-gaussian"), 100)


@pytest.mark.parametrize("rule", ["data", "sink"])
@pytest.mark.parametrize("forgetting", [True, False])
def test_without_privacy_it_learns_and_keeps_the_optimal_policy(rule, forgetting):
    learner = PolicyElimination(rule=rule, forgetting=forgetting, one_layer=False)
    _, state, regret = play(learner, discreet.NoPrivacy(), 3000)
    assert WORLD.gap(learner.policy(state)) == pytest.approx(0, abs=1e-9)
    assert regret < 0.5 * 3000 * WORLD.gap(uniform_policy(WORLD.shape))
    assert 1 <= state.active.active.sum() < 0.5 * state.active.active.size


def test_with_privacy_it_learns_and_keeps_the_optimal_policy():
    for run in range(2):
        _, state, regret = play(PolicyElimination(), SHUFFLE, 40_000, run=run)
        values = state.active.factors.values(np.array(WORLD.transitions), WORLD.start, np.array(WORLD.means))
        assert values[state.active.active].max() == pytest.approx(values.max())
        assert regret < 0.6 * 40_000 * WORLD.gap(uniform_policy(WORLD.shape))
        assert state.active.active.sum() < 0.5 * state.active.active.size


def test_the_constants_of_the_paper_eliminate_nobody_here():
    _, state, _ = play(PolicyElimination.published(one_layer=False), discreet.NoPrivacy(), 3000)
    assert state.active.active.all()
    knobs = PolicyElimination.published(statistical_scale=0.01)
    assert (knobs.rule, knobs.repair, knobs.forgetting, knobs.lean) == ("paper", "program", True, False)
    assert (knobs.statistical_scale, knobs.privacy_scale, knobs.threshold) == (0.01, 1.0, None)


@pytest.mark.parametrize(("threshold", "blind"), [(None, True), (0.25, False)])
def test_the_threshold_of_the_paper_absorbs_everything_under_noise(threshold, blind):
    """6 E H^2 iota is 24 * 9 * 13 widths, far above any count here."""
    seen = []
    learner = PolicyElimination.published(threshold=threshold)
    play(learner, SHUFFLE, 2000, watch=lambda state: seen.append(state.model.transitions.any()))
    assert any(seen) is not blind


@pytest.mark.parametrize("forgetting", [True, False])
def test_only_pooling_remembers_earlier_batches(forgetting):
    """At the first step every user counts once, in the batch she was in."""
    learner, users = PolicyElimination(forgetting=forgetting, one_layer=False), []

    def watch(state):
        users.append(state.pooled.visits[0].sum())

    requests, _, _ = play(learner, discreet.NoPrivacy(), 300, watch=watch)
    asked = np.array([request.users for request in requests])
    np.testing.assert_allclose(users, asked if forgetting else np.cumsum(asked))


def test_switches_are_those_of_few_mixtures():
    result = discreet.simulate(WORLD, PolicyElimination(), SHUFFLE, episodes=2000, runs=2, seed=1)
    stages = len(stage_sizes(2000))
    assert (result.switches < 3 * stages).all()
    assert (result.deterministic_switches > result.switches).all()
    assert result.guarantee.model == "shuffle"
    assert result.guarantee.epsilon == 1.0


def test_a_start_that_is_not_public_is_estimated():
    world = discreet.worlds.random_mdp(states=2, actions=2, horizon=2, instance=3).with_time(False)
    _, state, _ = play(CLEAR, discreet.NoPrivacy(), 2000, world)
    assert world.gap(CLEAR.policy(state)) == pytest.approx(0, abs=0.02)
    np.testing.assert_allclose(state.model.start, world.start, atol=0.05)


def test_bandits_have_no_crude_exploration():
    world = discreet.worlds.bandit(arms=3, instance=1)
    requests, state, _ = play(PolicyElimination(), discreet.Shuffle(1.0, 1e-5), 4000, world)
    assert all(request.what is None for request in requests)
    assert [request.users for request in requests][:3] == [6, 12, 24]
    assert world.gap(PolicyElimination().policy(state)) < 0.02


def test_many_policies_are_kept_by_a_constraint():
    world = discreet.worlds.river_swim(states=5, horizon=6).with_time(False)
    _, state, regret = play(PolicyElimination(one_layer=False), discreet.NoPrivacy(), 3000, world)
    assert isinstance(state.active, Constrained)
    assert np.isfinite(state.active.slack)
    assert regret < 3000 * world.gap(uniform_policy(world.shape))


def test_a_public_support_makes_the_set_smaller():
    support = ((True, False, False), (True, True, False), (True, True, True))
    learner = PolicyElimination(support=support)
    state = learner.init(Problem(WORLD.shape, 100), stream(0, 0, COINS))
    assert isinstance(state.active, Listed)
    assert state.active.active.size == 2**6
    wide = PolicyElimination().init(Problem(WORLD.shape, 100), stream(0, 0, COINS))
    assert wide.active.active.size == 2**7


def test_update_is_a_pure_function():
    learner = PolicyElimination()
    privatizer = build(SHUFFLE, WORLD.shape, 100, learner.needs)
    users = TabularUsers(WORLD, stream(0, 0, USERS), generator(0, 0, COINS))
    session = privatizer.open(users, SimulatedNoise(generator(0, 0, NOISE)), 100)
    state = learner.init(Problem(WORLD.shape, 100), stream(0, 0, COINS))
    for _ in range(5):
        release = session.answer(learner.ask(state))
        first, again = learner.update(state, release), learner.update(state, release)
        assert learner.ask(first) == learner.ask(again)
        np.testing.assert_array_equal(first.model.transitions, again.model.transitions)
        state = first


@pytest.mark.parametrize("episodes", [1, 2, 3, 4, 9])
def test_a_handful_of_users_is_enough_to_run(episodes):
    requests, _, _ = play(PolicyElimination(), SHUFFLE, episodes)
    assert sum(request.users for request in requests) == episodes


def test_mixtures_merge_equal_policies():
    tables = np.array([[[[0, 1]]], [[[1, 1]]], [[[0, 1]]]])
    both = mixture([Candidates(tables, np.ones((3, 1))), Candidates(tables[1:2], np.ones((1, 1)))])
    assert isinstance(both, Mixture)
    assert {policy.actions.tobytes(): weight for policy, weight in zip(both.components, both.weights, strict=True)} == {
        tables[0].tobytes(): pytest.approx(1 / 3),
        tables[1].tobytes(): pytest.approx(2 / 3),
    }
    assert isinstance(mixture([Candidates(tables[:1], np.ones((1, 1)))]), Policy)


def test_pooled_worlds_are_refused():
    world = discreet.worlds.river_swim(states=3, horizon=3)
    with pytest.raises(Unsupported, match="per step"):
        discreet.simulate(world, CLEAR, discreet.NoPrivacy(), episodes=10)


@pytest.mark.parametrize(
    "knobs",
    [
        {"rule": "papers"},
        {"repair": "none"},
        {"statistical_scale": -1.0},
        {"privacy_scale": float("nan")},
        {"threshold": -0.1},
        {"first_batch": 0},
        {"failure_probability": 1.0},
    ],
)
def test_knobs_outside_their_domain_are_refused(knobs):
    with pytest.raises(InvalidInput):
        PolicyElimination(**knobs)


@pytest.mark.parametrize("support", [((True, True),), ((True,) * 3, (False,) * 3, (True,) * 3), "all"])
def test_a_support_of_the_wrong_shape_is_refused(support):
    with pytest.raises(InvalidInput, match="support"):
        PolicyElimination(support=support).init(Problem(WORLD.shape, 10), stream(0, 0, COINS))


def test_elimination_without_privacy_runs_as_it_is():
    """Whole tables answer who asks for one step, where nothing is promised; elsewhere the refusal names the option."""
    world = discreet.worlds.river_swim(3, 3).with_time(homogeneous=False)
    asked, whole = (
        discreet.simulate(world, PolicyElimination(one_layer=narrow), episodes=300, runs=2, seed=2)
        for narrow in (True, False)
    )
    assert asked.regret.tolist() == whole.regret.tolist()
    target = discreet.Central(1.0, 1e-5, recipe="central/joint-histogram-gaussian")
    with pytest.raises(Unsupported, match="one_layer=False"):
        discreet.simulate(world, PolicyElimination(), target, episodes=300, runs=1)
