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
from typing import Any, NamedTuple

import numpy as np

from discreet import checker
from discreet.base.errors import InvalidInput
from discreet.base.files import as_path, shortened
from discreet.base.notebook import facts_html, one_line
from discreet.base.policies import AnyPolicy, load_policy, uniform_policy
from discreet.base.types import ArrayLike, Floats, Mask
from discreet.base.validation import check_open_unit
from discreet.learners.apvi import APVI
from discreet.ledger.paying import paid
from discreet.mechanisms.release import Release, Request
from discreet.mechanisms.sums.accumulator import NoiseSource, SecureNoise
from discreet.privacy.guarantee import Guarantee, drawn
from discreet.recipes.targets import Central
from discreet.simulation.data_sets import known_table, privatizer_for
from discreet.tables.evaluation.interval import Interval
from discreet.tables.evaluation.released_model import with_rewards
from discreet.tables.evaluation.return_bounds import Limits, limits_of
from discreet.tables.evaluation.split import Split, draw_split, load_split, remember
from discreet.tables.evaluation.verdict import Verdict
from discreet.tables.holdout_evaluation import (
    Budget,
    check_judgeable,
    has_small_table,
    judge_held_out,
    judgement_from,
    of_both_parts,
    promised,
    stored_promise,
)
from discreet.tables.policy_arrays import AnyBehaviour, behaviour_table, policy_table
from discreet.tables.read.table import Table
from discreet.tables.read.user_subsets import Ordered, PartUsers, ordered
from discreet.tables.receipt import (
    guarantee_facts,
    judgement_facts,
    mechanism_facts,
    noise_facts,
    policy_hash,
    versions,
    write_receipt,
)
from discreet.tables.receipt_words import adds_up
from discreet.tables.requests import as_plain, declaration_hash

HOLDOUT = 0.35
_WHAT = "value of a policy"


@dataclass(frozen=True)
class Evaluation:
    """Value, behaviour and difference with intervals in the owner's units, a verdict, and the promise to the users.

    Args:
        value: Of the policy.
        behaviour: Of what users did.
        difference: Value less behaviour.
        verdict: Better, worse, about the same, cannot be told, or not judged, and why.
        guarantee: The promise to the users.
        facts: The content of the receipt.

    Examples:
        >>> import polars, discreet.data, discreet.offline
        >>> visits = polars.DataFrame({"who": range(60), "day": [0] * 60, "state": [0] * 60, "drug": [0, 1] * 30})
        >>> table = discreet.data.read(
        ...     visits, user="who", step="day", state="state", action="drug", states=1, actions=2, horizon=1
        ... )
        >>> known = {"behaviour": "uniform", "known_rewards": [[0.0, 1.0]]}
        >>> found = discreet.offline.evaluate(table, discreet.Policy([[1]]), epsilon=5.0, **known)
        >>> found.guarantee.epsilon <= 5.0, found.guarantee.simulated
        (True, False)
    """

    value: Interval
    behaviour: Interval
    difference: Interval
    verdict: Verdict
    guarantee: Guarantee
    facts: Mapping[str, Any] = field(repr=False)

    def __repr__(self) -> str:
        return one_line("Evaluation", f"value {self.value.words()}", self.guarantee.brief())

    def _repr_html_(self) -> str:
        named = {"value": self.value, "behaviour": self.behaviour, "difference": self.difference}
        facts = [(name, interval.words()) for name, interval in named.items()]
        return facts_html(self.verdict.sentence(), [*facts, ("promise", self.guarantee.statement())])

    def summary(self) -> str:
        """One line: what may be said, and under which promise."""
        return f"{self.verdict.sentence()} ({self.guarantee.statement()})"

    def receipt(self, path: str | os.PathLike[str], *, key: str | os.PathLike[str] | None = None) -> None:
        """Write everything as JSON: intervals, verdict, guarantee, noise and declarations.

        ``key`` is a file of the key that signs it; without one it is your own.
        """
        if as_path(path).suffix != ".json":
            raise InvalidInput(f"receipts of evaluations end in .json, got {shortened(as_path(path).name)}")
        write_receipt(path, self.facts, key)

    def plot(self, path: str | os.PathLike[str] | None = None, *, ax: Any = None, theme: str | None = None) -> Any:
        """Draw the three intervals and return the axes.

        With a path (.png, .svg, .pdf) the picture is written there; ``ax`` are axes of yours to draw into.
        """
        from discreet.tables.interval_plots import plot_intervals

        return plot_intervals(self.facts["evaluation"], path, ax=ax, theme=theme)


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
    ledger: str | os.PathLike[str] | None = None,
    dataset: str | None = None,
    seed: object = None,
) -> Evaluation:
    """What a policy is worth, what the users' own behaviour is worth, and the difference, each with an interval.

    Everything counts under one guarantee.

    Args:
        data: The table.
        policy: A policy or its file. It must not have been learned from the users who judge it: if it was learned from
            this table, give the ``split`` that ``train(..., holdout=)`` recorded, and the held-out users judge.
        epsilon: With ``delta``, or ``rho``: what the judgement may cost.
        delta: By how much a probability may exceed the bound.
        rho: Zero-concentrated differential privacy in place of epsilon.
        behaviour: The policy that users followed, if it is known: a policy, its file, "uniform", or probabilities (A,),
            (S, A) or (H, S, A). Otherwise it is read from the table, and intervals are somewhat wider.
        returns: The range of the sum of rewards from any step on, where that is narrower than what the range of rewards
            allows.
        split: Who was held out.
        holdout: The share of users who judge where others fill a table.
        known_rewards: The table of mean rewards, if it is public.
        confidence: Of the intervals.
        ledger: A file or a PostgreSQL address: the cost is charged there, and the same call again gives the stored
            answer.
        dataset: The name of the data set in the ledger.
        seed: Refused: noise that can be replayed can be subtracted.

    Examples:
        >>> import polars, discreet.data, discreet.offline
        >>> visits = polars.DataFrame({"who": range(60), "day": [0] * 60, "state": [0] * 60, "drug": [0, 1] * 30})
        >>> table = discreet.data.read(
        ...     visits, user="who", step="day", state="state", action="drug", states=1, actions=2, horizon=1
        ... )
        >>> known = {"behaviour": "uniform", "known_rewards": [[0.0, 1.0]]}
        >>> found = discreet.offline.evaluate(table, discreet.Policy([[1]]), epsilon=5.0, **known)
        >>> found.value.low <= found.value.estimate <= found.value.high
        True
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
    if (ledger is None) != (dataset is None):
        raise InvalidInput("a ledger holds the budgets of several data sets: give ledger= and dataset= together")
    Central(epsilon, delta, rho)  # refused before anything is read
    budget, holdout = Budget(epsilon, delta, rho), check_open_unit("holdout", holdout)
    check_judgeable(data.shape, limits.ends, budget, usual)
    people = ordered(data)
    recorded = load_split(split) if isinstance(split, str | os.PathLike) else split
    if recorded is not None:
        recorded.check(people)
    with_table = has_small_table(data.shape, limits.ends, budget)
    parts = _parts(people, recorded, holdout, with_table)
    asked = Asked(data, loaded, table, usual, limits, budget, known, confidence)
    file = None if isinstance(split, Split | None) else split

    def judged() -> tuple[dict[str, Any], Guarantee]:
        if file is not None and recorded is not None:
            remember(recorded, file, _WHAT, epsilon, delta, rho)
        return _judged(asked, people, *parts)

    if ledger is None or dataset is None:
        content, promise = judged()
        if recorded is not None:
            recorded = load_split(file) if file is not None else remember(recorded, None, _WHAT, epsilon, delta, rho)
        return _evaluation(asked, content, promise, people.users, None, recorded)
    planned = _promise(asked, parts[0], parts[1])
    bought = paid(
        ledger, dataset, _request(asked, people, recorded, holdout), planned,
        lambda: json.dumps(judged()[0], sort_keys=True, allow_nan=False).encode(),
        what=_WHAT, declaration=declaration_hash(data.declaration), who=data.declaration.columns.user,
    )  # fmt: skip
    content = json.loads(bought.content)
    promise = _stored_promise(asked, content["judgement"], parts[0], parts[1])
    return _evaluation(asked, content, promise, people.users, bought.facts())


class Asked(NamedTuple):
    """Everything that an evaluation depends on besides the users."""

    data: Table
    policy: AnyPolicy
    table: Floats
    behaviour: Floats | None
    limits: Limits
    budget: Budget
    known: Floats | None
    confidence: float


def _judged(
    asked: Asked, people: Ordered, counted: Mask, judging: Mask, used: Split | None
) -> tuple[dict[str, Any], Guarantee]:
    """Draw the noise: what a ledger keeps of it, released numbers only, and the promise to everybody."""
    noise = SecureNoise()
    release, promise, tables = _table(people, counted, asked.budget, asked.limits, asked.known, noise)
    judgement = judge_held_out(
        people, judging, asked.table, asked.limits, asked.budget, noise, behaviour=asked.behaviour, release=release,
        table_users=int(counted.sum()), split=used, confidence=asked.confidence,
    )  # fmt: skip
    sizes = int(counted.sum()), int(judging.sum())
    content = {"judgement": judgement.facts, "tables": tables, "noise": noise_facts(noise.used)}
    return content, of_both_parts(promise, judgement.guarantee, sizes, judgement.guarantee)


def _promise(asked: Asked, counted: Mask, judging: Mask) -> Guarantee:
    """What everybody is promised, before anything is drawn."""
    sizes, shape, ends = (int(counted.sum()), int(judging.sum())), asked.data.shape, asked.limits.ends
    known = asked.known is not None
    later, table = promised(asked.budget), None
    if sizes[0]:
        table = privatizer_for(APVI(ends=ends), asked.budget.target(), shape, sizes[0], known=known).guarantee
    return drawn(of_both_parts(table, later, sizes, later), False)


def _stored_promise(asked: Asked, judged: Mapping[str, Any], counted: Mask, judging: Mask) -> Guarantee:
    """What a stored evaluation promises, from the noise that it lists."""
    sizes, shape, ends = (int(counted.sum()), int(judging.sum())), asked.data.shape, asked.limits.ends
    known = asked.known is not None
    later, table = stored_promise(judged), None
    if sizes[0]:
        table = privatizer_for(APVI(ends=ends), asked.budget.target(), shape, sizes[0], known=known).guarantee
    return drawn(of_both_parts(table, later, sizes, later), False)


def _request(asked: Asked, people: Ordered, recorded: Split | None, holdout: float) -> dict[str, Any]:
    """What was asked for, as plain data."""
    budget = asked.budget
    return {
        "command": "evaluate",
        "declaration": declaration_hash(asked.data.declaration),
        "source": asked.data.source.name,
        "users": people.users,
        "target": {"epsilon": budget.epsilon, "delta": budget.delta, "rho": budget.rho},
        "policy": policy_hash(asked.policy),
        "behaviour": as_plain(asked.behaviour),
        "limits": [float(asked.limits.worst[0]), float(asked.limits.best[0])],
        "split": None if recorded is None else recorded.facts(),
        "holdout": holdout,
        "known_rewards": as_plain(asked.known),
        "confidence": asked.confidence,
    }


def _evaluation(
    asked: Asked, content: Mapping[str, Any], promise: Guarantee, users: int, ledger: Mapping[str, Any] | None,
    split: Split | None = None,
) -> Evaluation:  # fmt: skip
    found = judgement_from(content["judgement"], promise)
    facts = {**_facts(asked, content, promise, users), "ledger": ledger, "adds_up": adds_up(split, ledger is not None)}
    return Evaluation(found.value, found.behaviour, found.difference, found.verdict, promise, facts)


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


def _facts(asked: Asked, content: Mapping[str, Any], promise: Guarantee, users: int) -> dict[str, Any]:
    shape, declaration, policy = asked.data.shape, asked.data.declaration, asked.policy
    certificate = promise.certificate()
    mechanisms = checker.mechanisms(certificate)
    return {
        "format": checker.RECEIPTS[1],
        "version": checker.RECEIPT_VERSION,
        "guarantee": guarantee_facts(promise),
        "certificate": certificate,
        "evaluation": judgement_facts(content["judgement"], mechanisms),
        "mechanisms": mechanisms,
        "declared": {
            "users": users,
            "states": shape.states,
            "actions": shape.actions,
            "horizon": shape.horizon,
            "rewards": list(shape.rewards),
            "homogeneous": shape.homogeneous,
            "first_step": None if declaration.dates is not None else declaration.first_step,
            "early_end": declaration.early_end,
            "missing_reward": declaration.missing_reward,
            "missing": declaration.missing,
        },
        "policy": {"sha256": policy_hash(policy), "horizon": policy.horizon, "states": policy.states},
        "noise": content["noise"],
        "versions": versions(),
    }
