"""``offline.evaluate``: what a policy from elsewhere is worth, judged by the users of a table under privacy.

With a declared behaviour the users are divided by a fresh random split: 65% fill a table, 35% judge, each part at the
full epsilon. Without one, all of them fill a table and the policy is valued in it. Of a table that a policy was learned
from with ``holdout``, only the held-out users may judge: give the recorded split.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from discreet.accumulators.base import NoiseSource, SecureNoise
from discreet.data.parts import Ordered, PartUsers, ordered
from discreet.data.table import Table
from discreet.errors import InvalidInput
from discreet.evaluation.interval import Interval
from discreet.evaluation.limits import Limits, limits_of
from discreet.evaluation.split import Split, draw_split, load_split
from discreet.evaluation.unknown import with_rewards
from discreet.evaluation.verdict import Verdict
from discreet.files import as_path, check_writable, shortened, write_atomically
from discreet.learners.pessimistic import APVI
from discreet.offline.data_sets import known_table, privatizer_for
from discreet.offline.judged import (
    Budget,
    Judgement,
    check_judgeable,
    has_small_table,
    judge_held_out,
    of_both_parts,
)
from discreet.offline.receipt import guarantee_facts, mechanism_facts, policy_hash, versions
from discreet.offline.tables_of import AnyBehaviour, behaviour_table, policy_table
from discreet.policies import AnyPolicy, load_policy, uniform_policy
from discreet.privacy.guarantee import Guarantee
from discreet.recipes.trust import Central
from discreet.release import Release, Request
from discreet.types import ArrayLike, Floats, Mask

HOLDOUT = 0.35


@dataclass(frozen=True)
class Evaluation:
    """Value, behaviour and difference with intervals in the owner's units, a verdict, and the promise to the users."""

    value: Interval
    behaviour: Interval
    difference: Interval
    verdict: Verdict
    guarantee: Guarantee
    facts: Mapping[str, Any] = field(repr=False)

    def summary(self) -> str:
        """One line: what may be said, and under which promise."""
        return f"{self.verdict.sentence()} ({self.guarantee.statement()})"

    def receipt(self, path: str | os.PathLike[str]) -> None:
        """Write everything as JSON: intervals, verdict, guarantee, noise and declarations."""
        file = check_writable(as_path(path))
        if file.suffix != ".json":
            raise InvalidInput(f"receipts of evaluations end in .json, got {shortened(file.name)}")
        write_atomically(file, json.dumps(self.facts, indent=1, allow_nan=False) + "\n")

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw the three intervals (.png, .svg, .pdf)."""
        from discreet.offline.interval_plot import plot_intervals

        plot_intervals(self.facts["evaluation"], path)


def evaluate(
    data: Table,
    policy: AnyPolicy | str | os.PathLike[str],
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    rho: float | None = None,
    behaviour: AnyBehaviour | None = None,
    returns: tuple[float, float] | None = None,
    split: Split | str | os.PathLike[str] | None = None,
    holdout: float = HOLDOUT,
    known_rewards: ArrayLike | None = None,
    confidence: float = 0.95,
    seed: object = None,
) -> Evaluation:
    """What a policy is worth, what the users' own behaviour is worth, and the difference, each with an interval.

    ``policy`` must not have been learned from the users who judge it: if it was learned from this table, give the
    ``split`` that ``train(..., holdout=)`` recorded, and the held-out users judge. ``behaviour`` is the policy that
    users followed, if it is known: a policy, its file, "uniform", or probabilities (S, A) or (H, S, A); it makes
    intervals far narrower. ``returns`` declares the range of the sum of rewards from any step on, where that is
    narrower than what the range of rewards allows. ``holdout`` is the share of users who judge where others fill a
    table. Everything counts under one guarantee.
    """
    if seed is not None:
        raise InvalidInput("a real release takes no seed: noise that can be replayed can be subtracted")
    if not isinstance(data, Table):
        raise InvalidInput(f"evaluate needs a table that discreet.data.read declared, got {type(data).__name__}")
    loaded = load_policy(policy) if isinstance(policy, str | os.PathLike) else policy
    table, usual = policy_table("policy", loaded, data.declaration), behaviour_table(behaviour, data.declaration)
    limits = limits_of(data.shape, data.declaration.early_end, returns)
    known = known_table(data.shape, known_rewards)
    if known is None and data.declaration.columns.reward is None:
        raise InvalidInput("there is no reward column and no known_rewards=: declare one of them")
    Central(epsilon, delta, rho)  # refused before anything is read
    budget = Budget(epsilon, delta, rho)
    check_judgeable(data.shape, limits.ends, budget, usual)
    people = ordered(data)
    recorded = load_split(split) if isinstance(split, str | os.PathLike) else split
    if recorded is not None:
        recorded.check(people)
    counted, judging, used = _parts(
        people, recorded, holdout, usual is not None and has_small_table(data.shape, limits.ends, budget)
    )
    noise: NoiseSource = SecureNoise()
    release, promise, tables = _table(people, counted, budget, limits, known, noise)
    judgement = judge_held_out(
        people, judging, table, limits, budget, noise, behaviour=usual, release=release, table_users=int(counted.sum()),
        known=known, split=used, confidence=confidence,
    )  # fmt: skip
    sizes = int(counted.sum()), int(judging.sum())
    whole = of_both_parts(promise, judgement.guarantee, sizes, judgement.guarantee)
    facts = _facts(data, loaded, judgement, whole, tables, people.users)
    return Evaluation(judgement.value, judgement.behaviour, judgement.difference, judgement.verdict, whole, facts)


def _parts(
    people: Ordered, recorded: Split | None, holdout: float, with_table: bool
) -> tuple[Mask, Mask, Split | None]:
    """Who fills a table and who judges, and the split that was used."""
    nobody = np.zeros(people.users, np.bool_)
    if recorded is not None:
        if not with_table:
            return nobody, recorded.held_out_mask(), recorded
        return *recorded.halves_of_held_out(holdout), recorded
    if not with_table:
        return nobody, ~nobody, None
    fresh = draw_split(people, holdout)
    judging = fresh.held_out_mask()
    return ~judging, judging, fresh


def _table(
    people: Ordered, counted: Mask, budget: Budget, limits: Limits, known: Floats | None, noise: NoiseSource
) -> tuple[Release | None, Guarantee | None, list[dict[str, Any]]]:
    """The table of the users who do not judge, if there are any."""
    users, shape = int(counted.sum()), people.table.shape
    if users == 0:
        return None, None, []
    made = privatizer_for(APVI(ends=limits.ends), budget.target(), shape, users, known=known is not None)
    session = made.open(PartUsers(people, counted), noise, users)
    release = session.answer(Request(uniform_policy(shape)))
    if known is not None:
        release = with_rewards(release, known)
    facts = [mechanism_facts(*part) for channel in made.channels for part in channel.mechanisms()]
    return release, release.guarantee, facts


def _facts(
    data: Table, policy: AnyPolicy, judgement: Judgement, whole: Guarantee, tables: list[dict[str, Any]], users: int
) -> dict[str, Any]:
    shape, declaration = data.shape, data.declaration
    return {
        "format": "discreet-evaluation",
        "version": 1,
        "guarantee": guarantee_facts(whole),
        "evaluation": judgement.facts,
        "mechanisms": tables + judgement.facts["mechanisms"],
        "declared": {
            "users": users,
            "states": shape.states,
            "actions": shape.actions,
            "horizon": shape.horizon,
            "rewards": list(shape.rewards),
            "homogeneous": shape.homogeneous,
            "early_end": declaration.early_end,
            "missing_reward": declaration.missing_reward,
        },
        "policy": {"sha256": policy_hash(policy), "horizon": policy.horizon, "states": policy.states},
        "noise": "operating system entropy, exact samplers of OpenDP",
        "versions": versions(),
    }
