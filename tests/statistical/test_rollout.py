"""Episodes are played by the stated law: chi-square against exact occupancies.

Each statistic is compared with its quantile at 1 - 1e-6, so the false-alarm rate of the file is below 1e-4; seeds are
fixed. The twin, a world with slightly different probabilities, must be rejected by the same test.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from discreet.base.compiled import kernel
from discreet.base.policies import Policy, StochasticPolicy
from discreet.base.streams import USERS, stream
from discreet.worlds import cliff_walking, from_arrays, river_swim
from discreet.worlds.planning.backward_induction import occupancy
from discreet.worlds.rewards import cumulative
from discreet.worlds.tabular import rollout, rollout_stochastic

pytestmark = pytest.mark.slow

S, A, H = 4, 3, 5
EPISODES = 40_000
FALSE_ALARM = 1e-6


@kernel
def play(world, actions, episodes, state, visits, totals):
    H = actions.shape[0]
    states, acts, rewards = np.empty(H + 1, np.int64), np.empty(H, np.int64), np.empty(H)
    for _ in range(episodes):
        rollout(world, actions, state, states, acts, rewards)
        for h in range(H):
            visits[h, states[h], acts[h], states[h + 1]] += 1
            totals[h] += rewards[h]


@kernel
def play_stochastic(world, policy, episodes, state, visits, totals):
    H = policy.shape[0]
    states, acts, rewards = np.empty(H + 1, np.int64), np.empty(H, np.int64), np.empty(H)
    for _ in range(episodes):
        rollout_stochastic(world, policy, state, states, acts, rewards)
        for h in range(H):
            visits[h, states[h], acts[h], states[h + 1]] += 1
            totals[h] += rewards[h]


def world(per_step: bool, tilt: float = 0.0):
    rng = np.random.default_rng(21)
    lead = (H,) if per_step else ()
    transitions = rng.dirichlet(np.full(S, 0.7), size=(*lead, S, A))
    start = rng.dirichlet(np.ones(S))
    means = rng.random((*lead, S, A))
    mixed = (1 - tilt) * transitions + tilt / S
    return from_arrays(mixed, means, horizon=H, start=start)


def simulate(tabular, policy):
    visits, totals = np.zeros((H, S, A, S)), np.zeros(H)
    state = stream(3, 0, USERS)
    if isinstance(policy, Policy):
        play(tabular.arrays(), np.array(policy.actions), EPISODES, state, visits, totals)
    else:
        play_stochastic(tabular.arrays(), cumulative(policy.probabilities), EPISODES, state, visits, totals)
    return visits, totals


def rejected(visits, tabular, policy) -> bool:
    """Whether any step's counts of (state, action, next state) contradict the world, after Bonferroni over steps."""
    measure = occupancy(tabular.transitions, tabular.start, policy)
    expected = EPISODES * measure[..., None] * tabular.transitions
    for h in range(H):
        observed, mean = visits[h].ravel(), expected[h].ravel()
        if observed[mean == 0].any():
            return True
        likely = mean >= 10
        bins = [*zip(observed[likely], mean[likely], strict=True), (observed[~likely].sum(), mean[~likely].sum())]
        pairs = np.array([(o, m) for o, m in bins if m > 0])
        statistic = ((pairs[:, 0] - pairs[:, 1]) ** 2 / pairs[:, 1]).sum()
        if statistic > stats.chi2.isf(FALSE_ALARM / H, len(pairs) - 1):
            return True
    return False


def policies():
    rng = np.random.default_rng(22)
    return [Policy(rng.integers(A, size=(H, S))), StochasticPolicy(rng.dirichlet(np.ones(A), size=(H, S)))]


@pytest.mark.parametrize("per_step", [False, True])
@pytest.mark.parametrize("index", [0, 1], ids=["deterministic", "stochastic"])
def test_visits_follow_the_exact_occupancies(per_step, index):
    tabular, policy = world(per_step), policies()[index]
    visits, totals = simulate(tabular, policy)
    assert visits.sum() == EPISODES * H
    assert not rejected(visits, tabular, policy)
    assert rejected(visits, world(per_step, tilt=0.05), policy)
    # Bernoulli rewards of H steps: at most H/4 of variance per step if all steps moved together; six deviations.
    assert abs(totals.sum() / EPISODES - tabular.value(policy)) < 6 * H / 2 / np.sqrt(EPISODES)


def test_a_wrong_policy_is_rejected():
    tabular, policy = world(True), policies()[1]
    visits, _ = simulate(tabular, policy)
    other = 0.95 * policy.probabilities + 0.05 / A
    assert rejected(visits, tabular, StochasticPolicy(other))


def test_rewards_on_transitions_are_paid_for_the_state_that_followed():
    # On a slippery cliff a fall costs 100 and leads to state 36, any other step costs 1. States 36 and 24 can come to
    # state 36 without a fall.
    cliff = cliff_walking(slippery=True, horizon=8)
    actions = np.ones((8, 49), dtype=np.int64)
    state = stream(4, 0, USERS)
    states, acts, rewards = np.empty(9, np.int64), np.empty(8, np.int64), np.empty(8)
    falls = 0
    for _ in range(500):
        rollout(cliff.arrays(), actions, state, states, acts, rewards)
        back = (states[1:] == 36) & (states[:-1] != 36) & (states[:-1] != 24)
        assert (rewards[back] == -100).all()
        assert (rewards[states[1:] != 36] == -1).all()
        falls += int(back.sum())
    assert falls > 100


def test_the_buffer_for_states_may_stop_before_the_last_one():
    river = river_swim(states=4, horizon=6).arrays()
    right = np.ones((6, 4), dtype=np.int64)
    records = []
    for room in (6, 7):
        states, acts, rewards = np.full(room, -1), np.empty(6, np.int64), np.empty(6)
        rollout(river, right, stream(5, 0, USERS), states, acts, rewards)
        records.append(states)
    assert records[0].tolist() == records[1][:6].tolist()
    assert records[1][6] >= 0
