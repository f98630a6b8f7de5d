"""Who judges what ``train`` learns: decided, with everything that is declared, before any user is counted."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.files import as_path, check_writable
from discreet.base.policies import AnyPolicy, StochasticPolicy
from discreet.base.types import Floats
from discreet.base.validation import check_flag, check_open_unit
from discreet.mechanisms.additive import Channel
from discreet.mechanisms.release import Release
from discreet.mechanisms.session import Privatizer
from discreet.mechanisms.sums.accumulator import NoiseSource
from discreet.privacy.guarantee import Guarantee
from discreet.tables.evaluation.released_model import has_table, model_of, values_of
from discreet.tables.evaluation.return_bounds import Limits, limits_of
from discreet.tables.evaluation.safe_policy import safe_policy
from discreet.tables.evaluation.split import Split, draw_split, load_split, part_size, remember
from discreet.tables.holdout_evaluation import (
    NEEDS_A_TABLE,
    Budget,
    Judgement,
    check_judgeable,
    judge_held_out,
    of_both_parts,
    promised,
    stored_promise,
)
from discreet.tables.policy_arrays import AnyBehaviour, behaviour_table, policy_table
from discreet.tables.read.columns import Declaration
from discreet.tables.read.table import Table
from discreet.tables.read.user_subsets import Ordered, PartUsers, ordered
from discreet.tables.requests import as_plain


def recorded_split(people: Ordered, holdout: float, split: Split | str | os.PathLike[str] | None) -> Split:
    """The split that is recorded in a file, or a fresh one, which ``remember`` records there before noise is drawn."""
    if isinstance(split, Split) or (split is not None and as_path(split).exists()):
        found = split if isinstance(split, Split) else load_split(split)
        found.check(people)
        if found.held_out != part_size(people.users, holdout):
            raise InvalidInput(
                f"the recorded split holds out {found.held_out:,} of {found.users:,} users, and holdout={holdout:g} "
                f"asks for {part_size(people.users, holdout):,}: give the same share again, or another file"
            )
        return found
    if split is not None:
        check_writable(split)
    return draw_split(people, holdout)


@dataclass(frozen=True)
class Jury:
    """Held-out users, if there are any, and what was declared for their judgement."""

    declaration: Declaration
    limits: Limits
    behaviour: Floats | None
    confidence: float
    people: Ordered | None
    split: Split | None
    returns_declared: bool = False
    split_file: Path | None = None

    @classmethod
    def asked_for(
        cls, data: Table, *, holdout: float | None, behaviour: AnyBehaviour | None, returns: tuple[float, float] | None,
        safe: bool, confidence: float, split: Split | str | os.PathLike[str] | None = None,
    ) -> Jury:  # fmt: skip
        """The jury that these options ask for; nobody without ``holdout``."""
        declaration = data.declaration
        usual = behaviour_table(behaviour, declaration)
        if check_flag("safe", safe) and usual is None:
            raise InvalidInput("a safe policy keeps to the behaviour where little is known: declare behaviour=")
        limits = limits_of(data.shape, declaration.early_end, returns)
        check_open_unit("confidence", confidence)
        if holdout is None:
            return cls(declaration, limits, usual, confidence, None, None, returns is not None)
        if isinstance(holdout, int | float) and 1 < holdout < 100:
            raise InvalidInput(f"holdout is a share of the users: write {holdout / 100:g} for {holdout:g}%")
        check_open_unit("holdout", holdout)
        if declaration.columns.reward is None:
            raise InvalidInput("held-out users judge a policy by their rewards: declare a reward column")
        if declaration.per_user > 1:
            raise Unsupported(
                f"a policy is judged by one trajectory of every user, and per_user={declaration.per_user} was "
                "declared: declare per_user=1, or leave holdout out"
            )
        people = ordered(data)
        taken, file = (
            recorded_split(people, holdout, split),
            None if isinstance(split, Split | None) else as_path(split),
        )
        return cls(declaration, limits, usual, confidence, people, taken, returns is not None, file)

    def remember(self, what: str, budget: Budget) -> None:
        """Write into the file of the split what is asked of it, before noise is drawn."""
        if self.split is not None and self.split_file is not None:
            remember(self.split, self.split_file, what, budget.epsilon, budget.delta, budget.rho)

    def asked(self, what: str, budget: Budget) -> Split | None:
        """The split with what was asked of it, this request included: as its file says, if it has one."""
        if self.split is None or self.split_file is not None:
            return self.split if self.split_file is None else load_split(self.split_file)
        return remember(self.split, None, what, budget.epsilon, budget.delta, budget.rho)

    def declared(self) -> dict[str, Floats]:
        """What a learner may know beforehand: the behaviour, and the range of returns as shares (2, H + 1)."""
        found = {} if self.behaviour is None else {"behaviour": self.behaviour}
        if self.returns_declared:
            shape = self.declaration.shape
            least = np.arange(shape.horizon, -1, -1.0) * shape.rewards[0]
            found["returns"] = (np.stack([self.limits.worst, self.limits.best]) - least) / shape.reward_span
        return found

    def promise(self, table: Guarantee, users: int, budget: Budget) -> Guarantee:
        """What everybody is promised, before anything is drawn."""
        if self.split is None:
            return table
        return of_both_parts(table, promised(budget), (users, self.split.held_out), table)

    def stored(self, facts: Mapping[str, Any], table: Guarantee, users: int) -> Guarantee:
        """What a stored judgement and a stored table promise together; what was paid for them is no less."""
        assert self.split is not None
        return of_both_parts(table, stored_promise(facts), (users, self.split.held_out), table)

    def request(self, safe: bool) -> dict[str, Any]:
        """What a judgement depends on, as plain data; nothing without a jury and a safe policy."""
        if self.split is None and not safe:
            return {}
        return {
            "judged_by": None if self.split is None else self.split.facts(),
            "behaviour": as_plain(self.behaviour),
            "limits": [float(self.limits.worst[0]), float(self.limits.best[0])],
            "safe": safe,
            "confidence": self.confidence,
        }

    def check(self, privatizer: Privatizer, budget: Budget, safe: bool) -> None:
        """Refuse, before anything is spent, what could not be planned or judged from the releases that will come."""
        tables = [channel for channel in privatizer.channels if isinstance(channel, Channel)]
        has_counts = any({"transitions", "visits"} <= set(channel.encoder.statistics) for channel in tables)
        if safe and not has_counts:
            raise Unsupported(
                f"a safe policy is planned in a table of all successors, and recipe {privatizer.recipe!r} releases none"
            )
        if self.split is not None:
            if self.behaviour is None and not has_counts:
                raise Unsupported(NEEDS_A_TABLE)
            check_judgeable(self.declaration.shape, self.limits.ends, budget, self.behaviour)

    def counted_users(self) -> PartUsers:
        """The users who are learned from."""
        assert self.people is not None
        assert self.split is not None
        return PartUsers(self.people, ~self.split.held_out_mask())

    def safe_policy(self, learned: AnyPolicy, release: Release, users: int) -> tuple[StochasticPolicy, Floats]:
        """The policy that keeps to the behaviour where little is shown, and cautious values of it (H + 1, S)."""
        assert self.behaviour is not None
        if not has_table(release):
            raise Unsupported(
                "a safe policy is planned in a table of all successors, which this recipe does not release"
            )
        shape = self.declaration.shape
        model = model_of(shape, release, self.limits.ends, users)
        table = safe_policy(model, policy_table("the policy", learned, self.declaration), self.behaviour)
        return StochasticPolicy(table), values_of(model, table, self.limits, upper=False).v[:, : shape.states]

    def judge(
        self, policy: AnyPolicy, release: Release, users: int, budget: Budget, noise: NoiseSource
    ) -> Judgement | None:
        """Let the held-out users judge a policy that was learned from ``users`` others; None where there are none."""
        if self.people is None or self.split is None:
            return None
        return judge_held_out(
            self.people, self.split.held_out_mask(), policy_table("the policy", policy, self.declaration), self.limits,
            budget, noise, behaviour=self.behaviour, release=release, table_users=users,
            split=self.split, confidence=self.confidence,
        )  # fmt: skip
