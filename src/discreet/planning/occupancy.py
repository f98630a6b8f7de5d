"""Occupancy measures: how likely a policy is to be in each state, and to take each action, at each step.

With d_0 the start distribution,

    d_{h+1}(t) = sum_{s, a} d_h(s) pi_h(a | s) P_h(t | s, a),

and the measure of a mixture is the weighted mean of those of its components. Values are linear in it: the value of a
policy is sum_{h, s, a} d_h(s) pi_h(a | s) r_h(s, a) (Puterman, 1994, section 6.9).
"""

from __future__ import annotations

import numpy as np

from discreet.compiled import kernel
from discreet.errors import InvalidInput
from discreet.planning.backward import group, plain_array
from discreet.policies import AnyPolicy, Mixture, Policy, StochasticPolicy
from discreet.types import Floats, Integers, Mask
from discreet.validation import check_count


@kernel
def forward(transitions: Floats, start: Floats, actions: Integers, states: Floats) -> None:
    """Fill ``states`` (H, S) with the state occupancies of the deterministic policy ``actions``."""
    H, S = actions.shape
    states[0] = start
    for h in range(H - 1):
        states[h + 1] = 0.0
        g = group(transitions.shape[0], h)
        for s in range(S):
            if states[h, s] > 0.0:
                for t in range(S):
                    states[h + 1, t] += states[h, s] * transitions[g, s, actions[h, s], t]


@kernel
def forward_stochastic(transitions: Floats, start: Floats, probabilities: Floats, states: Floats) -> None:
    """Fill ``states`` (H, S) with the state occupancies of the policy that draws from ``probabilities``."""
    H, S, A = probabilities.shape
    states[0] = start
    for h in range(H - 1):
        states[h + 1] = 0.0
        g = group(transitions.shape[0], h)
        for s in range(S):
            for a in range(A):
                mass = states[h, s] * probabilities[h, s, a]
                if mass > 0.0:
                    for t in range(S):
                        states[h + 1, t] += mass * transitions[g, s, a, t]


def state_occupancy(transitions: Floats, start: Floats, policy: AnyPolicy) -> Floats:
    """The probability of every state at every step, (H, S)."""
    match policy:
        case Policy(actions):
            _check(transitions, policy.horizon, policy.states, int(actions.max()) + 1)
            states = np.empty(actions.shape)
            forward(plain_array(transitions), plain_array(start), np.array(actions), states)
            return states
        case StochasticPolicy(probabilities):
            _check(transitions, *probabilities.shape)
            states = np.empty(probabilities.shape[:2])
            forward_stochastic(plain_array(transitions), plain_array(start), np.array(probabilities), states)
            return states
        case Mixture(components, weights):
            parts = [state_occupancy(transitions, start, component) for component in components]
            return np.tensordot(weights, np.stack(parts), axes=1)


def occupancy(transitions: Floats, start: Floats, policy: AnyPolicy) -> Floats:
    """The probability of every state and action at every step, (H, S, A)."""
    match policy:
        case Policy():
            table = policy.stochastic(transitions.shape[2]).probabilities
            return state_occupancy(transitions, start, policy)[:, :, None] * table
        case StochasticPolicy(probabilities):
            return state_occupancy(transitions, start, policy)[:, :, None] * probabilities
        case Mixture(components, weights):
            parts = [occupancy(transitions, start, component) for component in components]
            return np.tensordot(weights, np.stack(parts), axes=1)


def reachable(transitions: Floats, start: Floats, horizon: int) -> Mask:
    """Which states and actions some policy can visit at each step, (H, S, A): all actions of the states in reach."""
    check_count("horizon", horizon)
    G, S, A, _ = transitions.shape
    _check(transitions, horizon, S, A)
    mask = np.zeros((horizon, S), dtype=np.bool_)
    mask[0] = np.asarray(start) > 0
    for h in range(horizon - 1):
        mask[h + 1] = (transitions[h if G > 1 else 0][mask[h]] > 0).any(axis=(0, 1))
    return np.repeat(mask[:, :, None], A, axis=2)


def _check(transitions: Floats, horizon: int, states: int, actions: int) -> None:
    G, S, A, _ = transitions.shape
    if G not in (1, horizon) or states != S or actions > A:
        raise InvalidInput(
            f"a policy for {horizon} steps, {states} states and at least {actions} actions does not fit transitions of "
            f"shape {transitions.shape}"
        )
