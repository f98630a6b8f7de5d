"""Policies as tables: every state once, equal steps together, and nothing that the policy does not say."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.base.policies import Mixture, Policy, StochasticPolicy
from discreet.tables.policy_table import policy_rows


def spelled_out(rows, horizon, states):
    """The action of every step and state that a table states."""
    found, state = {}, -1
    for row in rows:
        state += row.state != ""
        first, _, last = ("0", "", str(horizon - 1)) if row.steps == "all" else row.steps.partition("-")
        for step in range(int(first), int(last or first) + 1):
            assert (step, state) not in found
            found[step, state] = row.action
    return found


@pytest.mark.parametrize("seed", range(5))
def test_the_table_says_what_the_policy_does(seed):
    rng = np.random.default_rng(seed)
    H, S, A = rng.integers(1, 6, 3).tolist()
    names = [f"do {a}" for a in range(A)]
    policy = Policy(rng.integers(0, A, (H, S)), None, names)
    found = spelled_out(policy_rows(policy), H, S)
    assert found == {(h, s): names[policy.actions[h, s]] for h in range(H) for s in range(S)}
    # One row more for every change of the action, and no more than that.
    assert len(list(policy_rows(policy))) == S + int((np.diff(policy.actions, axis=0) != 0).sum())


def test_chances_add_up_over_components_and_actions():
    first, second = Policy([[0], [1]]), Policy([[1], [1]])
    rows = list(policy_rows(Mixture((first, second, first), [0.25, 0.5, 0.25])))
    assert [(row.steps, row.action) for row in rows] == [("0", "0 50%, 1 50%"), ("1", "1")]
    drawn = StochasticPolicy([[[0.5, 0.0, 0.5]], [[0.5, 0.0, 0.5]]])
    assert [tuple(row) for row in policy_rows(drawn)] == [("0", "all", "0 50%, 2 50%")]


def test_some_states_only():
    assert [row.state for row in policy_rows(Policy([[0, 1, 0]], ("a", "b", "c")), [2, 0])] == ["c", "a"]
