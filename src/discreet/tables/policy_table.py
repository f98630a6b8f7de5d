"""A policy as a table that people read: for every state the action to take, steps with the same action together.

Rows are (state, steps, action). States and actions go by their labels where the policy has them. Steps count from
``first``, zero unless the table that a policy was learned from counts them otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from discreet.base.policies import AnyPolicy, Mixture, Policy, StochasticPolicy
from discreet.base.types import NDArray


class Row(NamedTuple):
    """What to do in one state during some steps; ``state`` is empty where it is that of the row before."""

    state: str
    steps: str
    action: str


def policy_rows(policy: AnyPolicy, states: Sequence[int] | None = None, first: int = 0) -> Iterator[Row]:
    """The rows of a policy, state by state; of a mixture the rows of each component, with its probability.

    >>> policy = Policy([[0, 1], [0, 0], [0, 0]], ("mild", "severe"), ("wait", "treat"))
    >>> for row in policy_rows(policy):
    ...     print(row)
    Row(state='mild', steps='all', action='wait')
    Row(state='severe', steps='0', action='treat')
    Row(state='', steps='1-2', action='wait')
    """
    names = (policy.columns or {}).get("step_names") or [str(step + first) for step in range(policy.horizon)]
    for state in range(policy.states) if states is None else states:
        name = _label(policy.state_labels, state)
        for steps, action in _runs(policy, state, names):
            yield Row(name, steps, action)
            name = ""


def _runs(policy: AnyPolicy, state: int, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Steps with one action, or one distribution over actions, and that action in words."""
    columns = _columns(policy, state)
    last, H = 0, policy.horizon
    for step in range(1, H + 1):
        if step == H or any((column[step] != column[last]).any() for _, column in columns):
            chosen = [(weight, _words(policy, column[last])) for weight, column in columns]
            text = chosen[0][1] if len({words for _, words in chosen}) == 1 else _shared(chosen)
            yield _span(last, step - 1, names), text
            last = step


def _columns(policy: AnyPolicy, state: int) -> list[tuple[float, NDArray[np.float64]]]:
    """What is done in one state, step by step, with the probability of the component that does it."""
    match policy:
        case Policy():
            return [(1.0, policy.actions[:, state, None].astype(np.float64))]
        case StochasticPolicy():
            return [(1.0, policy.probabilities[:, state])]
        case Mixture():
            pairs = zip(policy.weights.tolist(), policy.components, strict=True)
            return [(weight, one.actions[:, state, None].astype(np.float64)) for weight, one in pairs]


def _words(policy: AnyPolicy, cell: NDArray[np.float64]) -> str:
    if not isinstance(policy, StochasticPolicy):
        return _label(policy.action_labels, int(cell[0]))
    likely = [action for action in np.argsort(-cell, kind="stable").tolist() if cell[action] > 0]
    if len(likely) == 1:
        return _label(policy.action_labels, likely[0])
    return ", ".join(f"{_label(policy.action_labels, action)} {cell[action]:.0%}" for action in likely)


def _shared(chosen: list[tuple[float, str]]) -> str:
    """The actions of a mixture's components, each with the probability of the components that take it."""
    weights: dict[str, float] = {}
    for weight, words in chosen:
        weights[words] = weights.get(words, 0.0) + weight
    return ", ".join(f"{words} {weight:.0%}" for words, weight in sorted(weights.items(), key=lambda item: -item[1]))


def _label(labels: tuple[str, ...] | None, number: int) -> str:
    return str(number) if labels is None else labels[number]


def _span(begin: int, last: int, names: Sequence[str]) -> str:
    if begin == 0 and last == len(names) - 1:
        return "all"
    between = "-" if all(name.isdigit() for name in names) else " .. "
    return names[begin] if begin == last else f"{names[begin]}{between}{names[last]}"
