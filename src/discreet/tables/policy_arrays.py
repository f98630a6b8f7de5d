"""Policies and behaviours as tables over (step, state, action), whatever form they were given in."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.files import shortened
from discreet.base.policies import Mixture, Policy, StochasticPolicy, load_policy, uniform_policy
from discreet.base.types import ArrayLike, Floats
from discreet.base.validation import check_probabilities
from discreet.tables.apply import same_values, written
from discreet.tables.read.columns import Declaration

AnyBehaviour = Policy | StochasticPolicy | Mixture | os.PathLike[str] | ArrayLike


def policy_table(name: str, policy: Any, declaration: Declaration) -> Floats:
    """The probabilities (H, S, A) of a policy, which must be one for the declared states, actions and steps."""
    shape = declaration.shape
    if isinstance(policy, Mixture):
        raise Unsupported(f"{name} draws one of several policies per episode: judge its components one by one")
    if not isinstance(policy, Policy | StochasticPolicy):
        raise InvalidInput(f"{name} must be a policy, or the file of one, got {type(policy).__name__}")
    for kind, own, declared in (
        ("states", policy.state_labels, declaration.state_labels),
        ("actions", policy.action_labels, declaration.action_labels),
    ):
        if own is not None and declared is not None and own != declared:
            raise InvalidInput(f"{name} has other labels of {kind} than the table declares, or in another order")
    if policy.columns is not None and same_values(policy.columns) != same_values(written(declaration)):
        raise InvalidInput(f"{name} reads states or actions by other rules than the table declares: declare the same")
    actions = shape.actions
    if isinstance(policy, Policy):
        actions = int(policy.actions.max()) + 1
        policy = policy.stochastic(max(actions, shape.actions))
    found: Floats = policy.probabilities
    if found.shape != (shape.horizon, shape.states, shape.actions):
        raise InvalidInput(
            f"{name} is for {found.shape[0]} steps, {found.shape[1]} states and {found.shape[2]} actions; the table "
            f"declares {shape.horizon}, {shape.states} and {shape.actions}"
        )
    return found


def behaviour_table(behaviour: AnyBehaviour | None, declaration: Declaration) -> Floats | None:
    """The declared behaviour (H, S, A): a policy, its file, "uniform", or probabilities (A,), (S, A) or (H, S, A).

    Text that is no file holds the probabilities of the actions with commas between them, as ``.35,.30,.35``.
    """
    if behaviour is None:
        return None
    shape = declaration.shape
    if isinstance(behaviour, str) and behaviour == "uniform":
        return uniform_policy(shape).probabilities
    if isinstance(behaviour, str) and "," in behaviour and not os.path.exists(behaviour):
        behaviour = _listed(behaviour)
    if isinstance(behaviour, str | os.PathLike):
        return policy_table("behaviour", load_policy(behaviour), declaration)
    if isinstance(behaviour, Policy | StochasticPolicy | Mixture):
        return policy_table("behaviour", behaviour, declaration)
    table = check_probabilities("behaviour", behaviour)
    rows = (shape.states, shape.actions)
    if table.ndim == 1 and len(table) != shape.actions:
        raise InvalidInput(f"behaviour must be one probability for each of {shape.actions} actions, got {len(table)}")
    if table.ndim != 1 and table.shape not in (rows, (shape.horizon, *rows)):
        raise InvalidInput(f"behaviour must have shape {rows} or {(shape.horizon, *rows)}, got {table.shape}")
    return np.ascontiguousarray(np.broadcast_to(table, (shape.horizon, *rows)))


def _listed(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidInput(
            f"behaviour must be the file of a policy, uniform, or numbers such as .35,.30,.35, got {shortened(text)}"
        ) from None
