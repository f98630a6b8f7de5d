"""Policies as tables: labels of the study, the likeliest action, and how settled decisions are."""

from __future__ import annotations

import pytest

from discreet.study.dashboard.policy_view import labels, policy_table, settled

PROBLEM = {"states": ["calm", "busy"], "actions": ["wait", "remind", "call"], "horizon": 2}
CERTAIN = {"kind": "deterministic", "actions": [[0, 1], [2, 2]]}
MIXED = {
    "kind": "stochastic",
    "probabilities": [[[0.2, 0.5, 0.3], [1.0, 0.0, 0.0]], [[0.4, 0.2, 0.4 + 1e-12], [0.0, 0.1, 0.9]]],
}


def test_a_deterministic_policy_names_its_actions():
    table = policy_table(CERTAIN, PROBLEM)
    assert [[cell.label for cell in row] for row in table.cells] == [["wait", "remind"], ["call", "call"]]
    assert table.certain
    assert table.as_dict()["cells"][1][0] == {"action": 2, "label": "call", "share": 1.0}


def test_a_stochastic_policy_names_the_likeliest_action_and_its_probability():
    table = policy_table(MIXED, PROBLEM)
    assert [[(cell.label, cell.share) for cell in row] for row in table.cells] == [
        [("remind", 0.5), ("wait", 1.0)],
        [("wait", 0.4), ("call", 0.9)],  # a tie goes to the lower number
    ]
    assert not table.certain


def test_numbers_become_words():
    table = policy_table({"kind": "deterministic", "actions": [[1]]}, {"states": 1, "actions": 2})
    assert (table.states, table.actions, table.cells[0][0].label) == (["state 0"], ["action 0", "action 1"], "action 1")
    assert labels(3, "x") == ["x 0", "x 1", "x 2"]


@pytest.mark.parametrize(("before", "share"), [([], 1.0), ([0], 0.5), ([1, 0, 0], 0.5), ([1, 1, 1], 1.0)])
def test_settled_is_the_share_that_agrees_with_the_last(before, share):
    policies = [{"kind": "deterministic", "actions": [[a]]} for a in [*before, 1]]
    assert settled(policies) == [[share]]
