"""A declared table of trajectories: it can be counted, and nothing else. Rows never reach Python.

``check`` is a validator for the owner of the table: how many rows break which rule. Its output is NOT private. A real
release repairs all of this silently, by the rules of :mod:`discreet.data.query`; a count of repaired rows would be a
release of its own.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.data.columns import Columns, Declaration, Domain, domain
from discreet.data.engines import Source, check_columns, open_source
from discreet.data.query import count_users, followed_rows, joint_histogram, load_ibis, member, number_of, whole
from discreet.encoders.base import Context, Encoder
from discreet.encoders.joint import JointCounts, as_counted
from discreet.errors import InvalidInput, Unsupported
from discreet.shape import Shape
from discreet.types import Floats
from discreet.validation import check_count


@dataclass(frozen=True, repr=False)
class Table:
    """Trajectories that lie in a table, with everything that was declared about them."""

    source: Source
    declaration: Declaration

    @property
    def shape(self) -> Shape:
        """The declared shape: states, actions, horizon and reward range."""
        return self.declaration.shape

    def users(self) -> int:
        """How many users there are; this number is public."""
        counted = int(self.source.run(lambda table: count_users(table, self.declaration))["users"][0])
        if counted == 0:
            raise InvalidInput(f"{self.source.name} has no users: there is nothing to learn from")
        return counted

    def joint_counts(self, *, levels: int = 2, first_visit: bool = False) -> JointCounts:
        """The joint histogram, counted by the engine in one grouped query: raw data, for privatizers only."""
        found = self.source.run(
            lambda table: joint_histogram(table, self.declaration, levels=levels, first_visit=first_visit)
        )
        order = np.argsort(found["key"])
        return JointCounts(found["key"][order].astype(np.int64), found["count"][order].astype(np.int64), levels)

    def __repr__(self) -> str:
        return f"<Table {self.source.name}, contents not shown>"


class TableUsers:
    """The users of a table, as privatizers see them: sums of encodings."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._joint: dict[tuple[int, bool], JointCounts] = {}  # one query serves all encoders that count alike

    def tally(self, encoders: Sequence[Encoder], context: Context, users: int) -> list[Floats]:
        """The encodings of everybody in the table, counted once however often they are asked for."""
        return [self._counted(encoder) for encoder in encoders]

    def messages(self, encoder: Encoder, context: Context, users: int) -> Floats:
        """Refused: a table is counted as a whole."""
        raise Unsupported("a data set is counted by the one who holds it: nobody sends messages")

    def _counted(self, encoder: Encoder) -> Floats:
        counted = as_counted(encoder)
        if counted.parts > 1:
            raise Unsupported(
                "split=True is for simulation, and so is recipe 'offline/linear-as-printed', which splits by itself: "
                "the "
                "users of a table are not assigned to halves, so ask all of them"
            )
        how = counted.reward_levels, counted.first_visit
        if how not in self._joint:
            self._joint[how] = self._table.joint_counts(levels=how[0], first_visit=how[1])
        return counted.from_joint(self._joint[how])


def read(
    source: str | os.PathLike[str] | Any,
    *,
    user: str,
    step: str,
    state: str,
    action: str,
    reward: str | None = None,
    episode: str | None = None,
    next_state: str | None = None,
    states: Domain | None = None,
    actions: Domain | None = None,
    horizon: int | None = None,
    rewards: tuple[float, float] = (0.0, 1.0),
    per_user: int = 1,
    homogeneous: bool = False,
    early_end: bool | None = None,
    first_step: int = 0,
    table: str | None = None,
) -> Table:
    """Declare a table of trajectories: one row per user, (episode,) step, with state, action and reward.

    ``source`` is a Parquet or CSV file, a folder of them, a DuckDB database (with ``table``), the address of a
    warehouse as ibis takes it (with ``table``), or an ibis table. ``states`` and ``actions`` are how many there are,
    or the list of their labels; ``horizon``, ``rewards`` (the range) and ``per_user`` (trajectories that a user may
    contribute) are public too. ``homogeneous`` declares that laws are the same at every step. ``early_end`` says that
    episodes may end before the horizon (default: yes, unless homogeneous). Nothing is read but the column names.
    """
    if horizon is None:
        raise InvalidInput(
            "horizon= is missing: give the largest number of steps of an episode. It is a public input, because the "
            "longest episode in the data belongs to somebody"
        )
    number_of_states, state_labels = domain("states", states)
    number_of_actions, action_labels = domain("actions", actions)
    shape = Shape(number_of_states, number_of_actions, check_count("horizon", horizon), homogeneous, rewards)
    columns = Columns(user, step, state, action, reward, episode, next_state)
    ends = not homogeneous if early_end is None else early_end
    declaration = Declaration(columns, shape, per_user, first_step, ends, state_labels, action_labels)
    opened = open_source(os.fspath(source) if isinstance(source, os.PathLike) else source, table)
    check_columns(opened, columns.names)
    return Table(opened, declaration)


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
