"""``offline.train``: a policy and a receipt from a table of trajectories. Real noise, real data, one release."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from discreet.accumulators.base import SecureNoise
from discreet.channels.sparse import SparseTable
from discreet.data.table import Table, TableUsers
from discreet.errors import InvalidInput
from discreet.learners.base import Problem
from discreet.linear.channel import LEVELS
from discreet.offline.driver import is_linear, known_table, learn, linear_privatizer, offline_learner
from discreet.offline.receipt import (
    guarantee_facts,
    mechanism_facts,
    policy_hash,
    repairs,
    versions,
    write_receipt,
)
from discreet.policies import AnyPolicy
from discreet.privacy.guarantee import Guarantee
from discreet.recipes.offline import build
from discreet.recipes.trust import Central
from discreet.simulation.progress import progress_bar
from discreet.types import Floats

_COINS = 0  # planners here break no ties at random, so public coins are a constant


@dataclass(frozen=True)
class Fit:
    """What training leaves: a policy, the guarantee of the release that it was planned from, and its receipt."""

    policy: AnyPolicy
    values: Floats  # (H + 1, S): pessimistic values, in units of the declared reward range
    guarantee: Guarantee
    recipe: str
    facts: Mapping[str, Any] = field(repr=False)

    def receipt(self, path: str | os.PathLike[str]) -> None:
        """Write the privacy receipt: .json for programs, .html for people."""
        write_receipt(path, self.facts)

    def summary(self) -> str:
        """One line: what was released and what it promises."""
        return f"{self.facts['learner']['name']} by {self.recipe}: {self.guarantee.statement()}"


def train(
    data: Table,
    learner: str | Any = "apvi",
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    rho: float | None = None,
    recipe: str = "auto",
    known_rewards: ArrayLike | None = None,
    features: ArrayLike | None = None,
    options: Mapping[str, Any] | None = None,
    recipe_options: Mapping[str, Any] | None = None,
    seed: object = None,
    progress: bool = False,
) -> Fit:
    """Learn a policy from a table under differential privacy, with noise from the operating system.

    Give ``epsilon`` (with ``delta``) or ``rho``. ``known_rewards`` is the table of mean rewards if it is public,
    (S, A) or (H, S, A); otherwise rewards are part of the release. ``features`` (S, A, d) are for linear learners;
    those longer than one are shortened. ``options`` are knobs of the learner: none of them
    touches privacy, but choosing them by looking at private results does.
    """
    SecureNoise(seed)  # refuses a seed, before anything else is looked at
    chosen = offline_learner(learner, **{"ends": data.declaration.early_end, **(options or {})})
    known = known_table(data.shape, known_rewards)
    if known is None and data.declaration.columns.reward is None:
        raise InvalidInput("there is no reward column and no known_rewards=: declare one of them")
    if is_linear(chosen):
        return _train_linear(data, chosen, Central(epsilon, delta, rho, recipe), known, features)
    settings = {"per_user": data.declaration.per_user, "rewards": "private" if known is None else "known"}
    # What the table declares comes last: an option must not contradict the bound that the query enforces.
    target = Central(epsilon, delta, rho, recipe, {**(recipe_options or {}), **settings})
    users = data.users()
    privatizer = build(target, data.shape, users, chosen.needs - (set() if known is None else {"rewards"}))
    dense = [channel.encoder for channel in privatizer.channels if not isinstance(channel.encoder, SparseTable)]
    cells = sum(int(np.count_nonzero(encoder.possible())) for encoder in dense)
    with progress_bar("drawing noise", cells, progress) as tick:
        session = privatizer.open(TableUsers(data), SecureNoise(tick=tick), users)
        coins = np.full(1, _COINS, np.uint64)
        state, release = learn(chosen, session, Problem(data.shape, users), coins, known)
    policy = chosen.policy(state)
    mechanisms = [
        mechanism_facts(channel.encoder.name, channel.encoder.size, channel.encoder.sensitivity(), channel.law)  # type: ignore[attr-defined]
        for channel in privatizer.channels
    ]
    first_visit = any(getattr(channel.encoder, "first_visit", False) for channel in privatizer.channels)
    rules = repairs(data.declaration, levels=2 if known is None else None, first_visit=first_visit)
    facts = _facts(data, chosen, privatizer.recipe, mechanisms, rules, release.guarantee, policy, users)
    return Fit(policy, state.values, release.guarantee, privatizer.recipe, facts)


def _train_linear(data: Table, learner: Any, target: Central, known: Floats | None, features: ArrayLike | None) -> Fit:
    """The same for learners that ask linear questions."""
    if known is not None:
        raise InvalidInput(f"learner {learner.name} regresses rewards too: leave known_rewards out")
    if features is None and learner.features is None:
        raise InvalidInput(f"learner {learner.name} needs features= of shape (S, A, d), with norms of at most one")
    users, per_user = data.users(), data.declaration.per_user
    given = learner.features if features is None else features
    learner, privatizer = linear_privatizer(learner, target, data.shape, users, given, per_user)
    session = privatizer.open(TableUsers(data), SecureNoise(), users)
    state, release = learn(learner, session, Problem(data.shape, users), np.full(1, _COINS, np.uint64), None)
    policy = learner.policy(state)
    mechanisms = [mechanism_facts(*statistics) for statistics in privatizer.statistics()]
    rules = repairs(data.declaration, levels=LEVELS)
    facts = _facts(data, learner, privatizer.recipe, mechanisms, rules, release.guarantee, policy, users)
    return Fit(policy, state.values, release.guarantee, privatizer.recipe, facts)


def _facts(
    data: Table, learner: Any, recipe: str, mechanisms: list[dict[str, Any]], rules: tuple[str, ...],
    guarantee: Guarantee, policy: AnyPolicy, users: int,
) -> dict[str, Any]:  # fmt: skip
    shape, declaration = data.shape, data.declaration
    knobs = {knob.name: getattr(learner, knob.name) for knob in fields(learner) if knob.name not in ("name", "needs")}
    return {
        "format": "discreet-receipt",
        "version": 1,
        "guarantee": guarantee_facts(guarantee),
        "recipe": recipe,
        "mechanisms": mechanisms,
        "budget": {"rho": guarantee_facts(guarantee)["rho"], "parts": [part["rho"] for part in mechanisms]},
        "declared": {
            "users": users,
            "states": shape.states,
            "actions": shape.actions,
            "horizon": shape.horizon,
            "rewards": list(shape.rewards),
            "trajectories_per_user": declaration.per_user,
            "homogeneous": shape.homogeneous,
            "early_end": declaration.early_end,
            "public": list(guarantee.public),
        },
        "repairs": list(rules),
        "noise": "operating system entropy, exact samplers of OpenDP",
        "learner": {"name": learner.name, **{name: plain(value) for name, value in knobs.items()}},
        "policy": {"sha256": policy_hash(policy), "horizon": policy.horizon, "states": policy.states},
        "versions": versions(),
    }


def plain(value: Any) -> Any:
    """A knob as plain data: tables by their shape."""
    return value if isinstance(value, bool | int | float | str | None) else f"table of shape {np.shape(value)}"
