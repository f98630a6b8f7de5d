"""A validator for the owner of a table: how many rows break which rule. Its output is NOT private.

A real release repairs all of this silently, by the rules of :mod:`discreet.data.query`; a count of repaired rows would
be a release of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from discreet.data.query import followed_rows, load_ibis, member, number_of, whole
from discreet.data.table import Table

NOT_PRIVATE = "These counts are NOT private: they describe single users. Do not publish them."


@dataclass(frozen=True)
class CheckReport:
    """What is wrong with a table, as (what, rows or users) pairs; only its owner may see it."""

    rows: int
    users: int
    findings: tuple[tuple[str, int], ...]

    @property
    def clean(self) -> bool:
        """Whether nothing would be repaired."""
        return all(count == 0 for _, count in self.findings)


def check(table: Table) -> CheckReport:
    """Count, for the owner, everything that a release would repair."""
    counted = table.source.run(lambda rows: _findings(rows, table))
    repeated = table.source.run(lambda rows: _repeated(rows, table)) | table.source.run(lambda rows: _gaps(rows, table))
    row = {name: int(values[0]) for name, values in counted.items()}
    more = {name: int(values[0] or 0) for name, values in repeated.items()}
    labels = {**_LABELS, "episodes": f"users with more than {table.declaration.per_user} trajectories"}
    findings = tuple((label, {**row, **more}[name]) for name, label in labels.items() if name in {**row, **more})
    return CheckReport(row["rows"], row["users"], findings)


_LABELS = {
    "user": "rows without a user",
    "episode": "rows without an episode",
    "step": "rows whose step is not a whole number within the horizon",
    "state": "rows whose state is outside the declared domain",
    "action": "rows whose action is outside the declared domain",
    "next_state": "rows whose next state is outside the declared domain",
    "reward": "rows whose reward is missing, not a number or outside the declared range",
    "duplicates": "(user, episode, step) that occur more than once",
    "gaps": "rows of which nothing tells what came next, before a step that is missing",
}


def _findings(rows: Any, table: Table) -> Any:
    declaration = table.declaration
    columns, shape = declaration.columns, declaration.shape
    bad = {
        "user": rows[columns.user].isnull(),
        "step": whole(rows, columns.step, "step", declaration.first_step, shape.horizon).isnull(),
        "state": member(rows, columns.state, "state", shape.states, declaration.state_labels).isnull(),
        "action": member(rows, columns.action, "action", shape.actions, declaration.action_labels).isnull(),
    }
    if columns.episode is not None:
        bad["episode"] = rows[columns.episode].isnull()
    if columns.next_state is not None:
        inside = member(rows, columns.next_state, "next_state", shape.states, declaration.state_labels)
        bad["next_state"] = rows[columns.next_state].notnull() & inside.isnull()
    if columns.reward is not None:
        reward = number_of(rows, columns.reward, "reward").cast("float64")
        low, high = shape.rewards
        bad["reward"] = reward.isnull() | reward.isnan() | (reward < low) | (reward > high)
    counts = {name: condition.fill_null(False).sum() for name, condition in bad.items()}
    return rows.aggregate(rows=rows.count(), users=rows[columns.user].nunique(), **counts)


def _repeated(rows: Any, table: Table) -> Any:
    ibis = load_ibis()
    columns = table.declaration.columns
    episode = ibis.literal(0) if columns.episode is None else rows[columns.episode]
    keyed = rows.select(user=rows[columns.user], episode=episode, step=rows[columns.step])
    keyed = keyed.filter(keyed.user.notnull() & keyed.step.notnull())
    per_step = keyed.group_by(["user", "episode", "step"]).aggregate(copies=keyed.count())
    per_user = keyed.group_by("user").aggregate(kept=keyed.episode.nunique())
    first = per_step.aggregate(duplicates=(per_step.copies > 1).sum())
    second = per_user.aggregate(episodes=(per_user.kept > table.declaration.per_user).sum())
    return first.cross_join(second)


def _gaps(rows: Any, table: Table) -> Any:
    kept = followed_rows(rows, table.declaration, levels=2)
    return kept.aggregate(gaps=kept.successor.isnull().sum())
