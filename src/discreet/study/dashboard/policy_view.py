"""A policy as people read it: what is done at each step in each situation, and how settled that is.

A message of a policy names actions by numbers, or gives each a probability. Here it becomes a table of *cells*, one for
each step and state: the action that is most likely there, its label, and its probability. How settled a decision is, is
counted over the policies of the last rounds: the share of them that decide as the last one does. Both are functions of
what was released, so they cost no privacy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

_EQUAL = 1e-9  # probabilities that differ by less are a tie, and the lower action is named


class Cell(NamedTuple):
    """What is done at one step in one state: the most likely action and its probability."""

    action: int
    label: str
    share: float


class PolicyTable(NamedTuple):
    """A policy with the labels of its study; ``cells[h][s]`` is step h in state s."""

    states: list[str]
    actions: list[str]
    cells: list[list[Cell]]

    @property
    def certain(self) -> bool:
        """Whether one action is taken for sure everywhere."""
        return all(cell.share == 1.0 for row in self.cells for cell in row)

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        cells = [[cell._asdict() for cell in row] for row in self.cells]
        return {"states": self.states, "actions": self.actions, "cells": cells, "certain": self.certain}


def labels(domain: int | Sequence[str], word: str) -> list[str]:
    """The labels of a domain; numbered words where a study only says how many there are.

    >>> labels(2, "state"), labels(["calm", "busy"], "state")
    (['state 0', 'state 1'], ['calm', 'busy'])
    """
    return [f"{word} {k}" for k in range(domain)] if isinstance(domain, int) else list(domain)


def policy_table(policy: Mapping[str, Any], problem: Mapping[str, Any]) -> PolicyTable:
    """The table of a policy message; ``problem`` is that part of the study's declaration."""
    states, actions = labels(problem["states"], "state"), labels(problem["actions"], "action")
    cells = [[Cell(a, actions[a], share) for a, share in row] for row in _choices(policy)]
    return PolicyTable(states, actions, cells)


def settled(policies: Sequence[Mapping[str, Any]]) -> list[list[float]]:
    """For each step and state, which share of these policies decides as the last one does.

    >>> one, other = ({"kind": "deterministic", "actions": [[a]]} for a in (0, 1))
    >>> settled([one, other, other, other])
    [[0.75]]
    """
    chosen = [[[a for a, _ in row] for row in _choices(policy)] for policy in policies]
    last = chosen[-1]
    return [
        [sum(each[h][s] == last[h][s] for each in chosen) / len(chosen) for s in range(len(last[h]))]
        for h in range(len(last))
    ]


def _choices(policy: Mapping[str, Any]) -> list[list[tuple[int, float]]]:
    """The most likely action and its probability, for each step and state."""
    if policy["kind"] == "deterministic":
        return [[(int(a), 1.0) for a in row] for row in policy["actions"]]
    return [[_likeliest(shares) for shares in row] for row in policy["probabilities"]]


def _likeliest(shares: Sequence[float]) -> tuple[int, float]:
    best = max(shares)
    action = next(a for a, share in enumerate(shares) if share >= best - _EQUAL)
    return action, float(shares[action])
