"""The policy of a round: which action to take, and where it can be taken."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

from discreet.client.errors import Refused
from discreet.client.exact import Tape
from discreet.client.study import Study
from discreet.client.words import field, known

_ROUNDING = 1e-9


class Policy(NamedTuple):
    """A table of actions ``actions[step][state]``, or of their probabilities ``[step][state][action]``."""

    actions: list[list[int]] | None
    probabilities: list[list[list[float]]] | None

    def plays(self, step: int, state: int, action: int) -> bool:
        """Whether the policy can take this action here."""
        if self.actions is not None:
            return self.actions[step][state] == action
        assert self.probabilities is not None
        return self.probabilities[step][state][action] > 0

    def draw(self, step: int, state: int, tape: Tape) -> int:
        """The action to take; where the policy draws it, exactly by its probabilities."""
        if self.actions is not None:
            return self.actions[step][state]
        assert self.probabilities is not None
        shares = [Fraction(p) for p in self.probabilities[step][state]]
        left = sum(shares)
        for action, share in enumerate(shares):
            odds = share / left if share else Fraction(0)
            if share and (share == left or tape.chance(odds.numerator, odds.denominator)):
                return action
            left -= share
        raise AssertionError("probabilities add up to more than nothing")


def read_policy(content: dict[str, Any], study: Study) -> Policy:
    """A policy as the service states it, for this study."""
    kind = field(content, "kind", str)
    if kind == "deterministic":
        rows = _table(field(content, "actions", list), study)
        if not all(type(action) is int and 0 <= action < study.actions for row in rows for action in row):
            raise Refused("the policy names actions that the study does not have")
        return Policy(rows, None)
    if kind == "stochastic":
        tables = _table(field(content, "probabilities", list), study)
        if not all(_is_law(law, study.actions) for row in tables for law in row):
            raise Refused("the policy holds probabilities that are none")
        return Policy(None, tables)
    raise Refused(f"this client does not follow policies of kind {kind[:30]!r}")


def reaches(study: Study, policy: Policy, state: int, action: int) -> bool:
    """Whether an episode can play this pair at any step; at step 0 in the start state alone, if there is one."""
    return any(
        policy.plays(step, state, action) and (step > 0 or study.start is None or state == study.start)
        for step in range(study.horizon)
    )


def _table(rows: list[Any], study: Study) -> list[Any]:
    if len(rows) != study.horizon or any(len(known(row, list, "a row")) != study.states for row in rows):
        raise Refused(f"the policy must have {study.horizon} steps and {study.states} states in each")
    return rows


def _is_law(law: Any, actions: int) -> bool:
    numbers = isinstance(law, list) and all(type(p) in (int, float) and 0 <= p <= 1 for p in law)
    return numbers and len(law) == actions and abs(sum(law) - 1) <= _ROUNDING
