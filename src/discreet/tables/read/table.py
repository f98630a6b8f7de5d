"""A declared table of trajectories: it can be counted, and nothing else. No row is ever shown.

Every rule that turns its bytes into counts is public: how files are read (:mod:`discreet.tables.read.csv_dialect`),
what a number is (:mod:`discreet.tables.read.numerals`), how each user's rows are repaired
(:mod:`discreet.tables.read.query`), how rewards are rounded (:mod:`discreet.tables.read.reward_rounding`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np

from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.shape import Shape
from discreet.base.types import Floats
from discreet.base.validation import check_count, shown
from discreet.mechanisms.counts.encoder import Context, Encoder
from discreet.mechanisms.counts.joint_histogram import JointCounts, as_counted
from discreet.tables.read import grouping, query
from discreet.tables.read.columns import (
    Bins,
    Columns,
    Dates,
    Declaration,
    Domain,
    Elapsed,
    domain,
    domains,
    labels_of,
    listed,
    or_missing,
    total_size,
)
from discreet.tables.read.csv_dialect import Csv
from discreet.tables.read.declaration_file import check_said_once, keywords, load_declaration
from discreet.tables.read.engines import IbisSource, open_source
from discreet.tables.read.in_process import LocalSource
from discreet.tables.read.per_user import rules_of
from discreet.tables.read.reward_rounding import CellSums, coin_seed, rounded
from discreet.tables.read.schema import check_schema


@dataclass(frozen=True, repr=False)
class Table:
    """Trajectories that lie in a table, with everything that was declared about them.

    Args:
        source: Where the rows are.
        declaration: Columns, domains and everything else that is public.

    Examples:
        >>> import polars, discreet.data
        >>> visits = polars.DataFrame({"who": [0, 0, 1], "day": [0, 1, 0], "state": [0, 1, 1], "drug": [0, 1, 1]})
        >>> table = discreet.data.read(
        ...     visits, user="who", step="day", state="state", action="drug", states=2, actions=2, horizon=2
        ... )
        >>> type(table).__name__, table.shape.horizon
        ('Table', 2)
    """

    source: IbisSource | LocalSource
    declaration: Declaration

    @property
    def shape(self) -> Shape:
        """The declared shape: states, actions, horizon and reward range."""
        return self.declaration.shape

    def users(self) -> int:
        """How many users there are; this number is public."""
        source = self.source
        if isinstance(source, IbisSource):
            counted = int(source.run(lambda table: query.count_users(table, self.declaration))["users"][0])
        else:
            counted = grouping.count_users(source, self.declaration.columns)
        if counted == 0:
            raise InvalidInput(f"{source.name} has no users: there is nothing to learn from")
        return counted

    def joint_counts(self, *, levels: int = 2, first_visit: bool = False, seed: int | None = None) -> JointCounts:
        """The joint histogram: raw data, for privatizers only. Tests give a ``seed`` for the coins of rounding."""
        packing = self.declaration.packing(levels)
        sums = self._sums(levels, first_visit)
        return rounded(sums, levels, packing.grid, coin_seed() if seed is None else seed)

    def _sums(self, levels: int, first_visit: bool) -> CellSums:
        source, declaration = self.source, self.declaration
        packing = declaration.packing(levels)
        if not isinstance(source, IbisSource):
            return grouping.cell_sums(source, declaration, packing, rules_of(declaration, packing, first_visit))
        found = source.run(
            lambda table: query.cell_sums(table, declaration, levels=levels, first_visit=first_visit)
        )  # fmt: skip
        order = np.argsort(found["key"])
        return CellSums(*(found[name][order].astype(np.int64) for name in ("key", "count", "above")))

    def __repr__(self) -> str:
        return f"<Table {self.source.name}, contents not shown>"


class CountedUsers:
    """Users as privatizers see them, sums of encodings, where ``count(levels, first_visit)`` counts all of them."""

    def __init__(self, count: Callable[[int, bool], JointCounts]) -> None:
        self._count = count
        self._joint: dict[tuple[int, bool], JointCounts] = {}  # one query serves all encoders that count alike

    def tally(self, encoders: Sequence[Encoder], context: Context, users: int) -> list[Floats]:
        """The encodings of everybody, counted once however often they are asked for."""
        return [self._counted(encoder) for encoder in encoders]

    def messages(self, encoder: Encoder, context: Context, users: int) -> Floats:
        """Refused: a table is counted as a whole."""
        raise Unsupported("a data set is counted by the one who holds it: nobody sends messages")

    def _counted(self, encoder: Encoder) -> Floats:
        counted = as_counted(encoder)
        if counted.parts > 1:
            raise Unsupported(
                "split=True is for simulation, and so is recipe 'offline/linear-as-printed', which splits by itself: "
                "the users of a table are not assigned to halves, so ask all of them"
            )
        how = counted.reward_levels, counted.first_visit
        if how not in self._joint:
            self._joint[how] = self._count(*how)
        return counted.from_joint(self._joint[how])


class TableUsers(CountedUsers):
    """All users of a table."""

    def __init__(self, table: Table) -> None:
        super().__init__(lambda levels, first_visit: table.joint_counts(levels=levels, first_visit=first_visit))


def read(
    source: str | os.PathLike[str] | Any,
    *,
    user: str | None = None,
    step: str | None = None,
    state: str | Sequence[str] | None = None,
    action: str | Sequence[str] | None = None,
    reward: str | None = None,
    episode: str | None = None,
    next_state: str | Sequence[str] | None = None,
    states: Domain | Sequence[Domain] | None = None,
    actions: Domain | Sequence[Domain] | None = None,
    horizon: int | None = None,
    rewards: tuple[float, float] = (0.0, 1.0),
    missing_reward: float | None = None,
    missing: str = "end",
    per_user: int = 1,
    cap: int | None = None,
    homogeneous: bool = False,
    early_end: bool = True,
    first_step: int = 0,
    dates: Dates | None = None,
    steps: Elapsed | Sequence[str] | None = None,
    missing_level: Sequence[str] = (),
    declaration: str | os.PathLike[str] | None = None,
    table: str | None = None,
    csv: Csv | None = None,
    partitions: Sequence[str] = (),
) -> Table:
    """Declare a table of trajectories: one row per user, (episode,) step, with state, action and reward.

    Nothing is read but names and types of columns. Everything that is declared is public.

    Args:
        source: A Parquet or CSV file, a folder of them, a DuckDB database (with ``table``), the address of a warehouse
            as ibis takes it (with ``table``), or a table of pandas, polars, Arrow or ibis.
        user: The column that says who, or which household, clinic or school: whatever is to be protected as one. With
            ``horizon=1`` it may be left out: then every row counts as one user (event level).
        step: The column of the step within the episode. With ``horizon=1`` it may be left out: every row is at the
            only step.
        state: The column of the state, or several.
        action: The column of the action, or several.
        reward: The column of the reward.
        episode: The column of the episode, where users have several.
        next_state: The column of the successor, where it is not the next row's state.
        states: How many there are, the list of their labels, or :class:`~discreet.data.Bins` of a continuous column;
            one of these for each column of ``state``.
        actions: The same for actions.
        horizon: The largest number of steps.
        rewards: The range; what is outside is clipped.
        missing_reward: What a missing reward counts as (0 unless declared, or the end of the range next to it; with one
            step a user without the outcome is not counted unless it is declared).
        missing: What becomes of a record in which a step is missing or not valid: "end", it ends before; "drop", it is
            dropped; "row", what stands behind is kept, and policies are not judged.
        per_user: Trajectories that a user may contribute.
        cap: With ``horizon=1``, where users have many rows: every row is a trajectory, and so many of a user's are
            counted, drawn by lot. Noise grows with it.
        homogeneous: The model is stationary: counts of all steps are pooled.
        early_end: Episodes may end before the horizon, and nothing is gained or lost afterwards; with False every
            episode is taken to have all its steps.
        first_step: The number of the first step.
        dates: How the dates of ``step`` become steps.
        steps: Where ``step`` holds neither numbers of steps nor dates: the list of its labels in their order, or
            :class:`~discreet.data.Elapsed` time.
        missing_level: Columns of ``state`` of which missing cells are a level of their own, ``missing``.
        declaration: A file that declares all of this (:mod:`discreet.tables.read.declaration_file`).
        table: The table of a database.
        csv: The form of CSV files.
        partitions: Columns that stand in the names of folders.

    Examples:
        >>> import polars, discreet.data
        >>> visits = polars.DataFrame({"who": [0, 0, 1], "day": [0, 1, 0], "state": ["a", "b", "b"], "drug": [0, 1, 1]})
        >>> table = discreet.data.read(
        ...     visits, user="who", step="day", state="state", action="drug", states=["a", "b"], actions=2, horizon=2
        ... )
        >>> table.shape.states
        2
    """
    if declaration is not None:
        asked, told = dict(locals()), load_declaration(declaration)
        usual = {name: each.default for name, each in signature(read).parameters.items()}
        typed = {name: value for name, value in asked.items() if name in usual and value is not usual[name]}
        del typed["declaration"]
        del typed["source"]
        more = keywords(told)
        check_said_once(declaration, sorted({*typed} & {*more}))
        return read(source, **typed, **more)
    if state is None or action is None:
        name = "state" if state is None else "action"
        raise InvalidInput(f"{name}= is missing: name its column, or give declaration=, a file that does")
    labels = None if steps is None or isinstance(steps, Elapsed) else domain("steps", steps)
    if isinstance(labels, int | Bins):
        raise InvalidInput(f"steps must be the list of their labels in order, or Elapsed, got {shown(steps)}")
    if horizon is None and labels is not None:
        horizon = len(labels)
    if horizon is None:
        raise InvalidInput(
            "horizon= is missing: give the largest number of steps of an episode. It is a public input, because the "
            "longest episode in the data belongs to somebody"
        )
    for name in (each for each in (user, step, reward, episode) if each is not None):
        if not isinstance(name, str):
            raise InvalidInput(f"a column is named by text, got {shown(name)}")
    columns = Columns(user, step, _several(state), _several(action), reward, episode, _several(next_state))
    state_parts, action_parts = domains("states", columns.state, states), domains("actions", columns.action, actions)
    state_parts = or_missing(state_parts, listed(columns.state), missing_level)
    sizes = total_size(state_parts), total_size(action_parts)
    shape = Shape(*sizes, check_count("horizon", horizon), homogeneous, rewards)
    declared = Declaration(
        columns, shape, per_user, first_step, early_end, labels_of(state_parts), labels_of(action_parts),
        state_parts=state_parts, action_parts=action_parts, dates=dates,
        missing_reward=missing_reward, missing=missing, cap=cap,
        steps=steps if isinstance(steps, Elapsed) else labels,
    )  # fmt: skip
    opened = open_source(
        os.fspath(source) if isinstance(source, os.PathLike) else source, columns.names,
        table=table, csv=csv or Csv(), partitions=tuple(partitions),
    )  # fmt: skip
    check_schema(opened, declared)
    if cap is not None and isinstance(opened, IbisSource):
        raise Unsupported(
            f"cap={cap} draws rows by lot, which no warehouse does: export {opened.name} to a Parquet file, or name the"
            "  column that tells a user's rows apart (episode=, per_user=)"
        )
    return Table(opened, declared)


def _several(columns: str | Sequence[str] | None) -> Any:
    if columns is None or isinstance(columns, str):
        return columns
    if not isinstance(columns, Sequence) or not columns or not all(isinstance(name, str) for name in columns):
        raise InvalidInput(f"columns are named by text, got {shown(columns)}")
    return tuple(columns)
