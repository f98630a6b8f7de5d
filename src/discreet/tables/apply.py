"""From raw rows to actions: a policy with the rules of its columns, which its file holds (version 3).

The rules are those of the table that it was learned from: which columns, their labels and edges, the number of the
first step, days as steps. Cells are read by the same readers as when it was learned (:mod:`discreet.tables.read`), so
there is one definition of what a cell means. A row whose step or state is outside of the domain has no action. Nothing
here is private: an action follows from its own row and from a policy that is public.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.policies import AnyPolicy, Mixture, Policy
from discreet.base.shape import Shape
from discreet.base.types import Integers, Mask
from discreet.tables.read.columns import (
    Bins,
    Columns,
    Dates,
    Declaration,
    Elapsed,
    OrMissing,
    Part,
    labels_of,
    listed,
    size_of,
    total_size,
)

if TYPE_CHECKING:
    import pyarrow as pa

_KEYS = {"step", "first_step", "dates", "steps", "step_names", "state", "states", "action", "actions"}
_NOBODY = ""  # rules of a policy name no column of users


def written(declaration: Declaration) -> dict[str, Any]:
    """What of a declaration a policy takes along, as plain data."""
    columns, dates, steps = declaration.columns, declaration.dates, declaration.steps
    return {
        "step": columns.step,
        "first_step": declaration.first_step,
        "dates": None if dates is None else {"days": dates.days, "origin": dates.origin and dates.origin.isoformat()},
        "steps": asdict(steps) if isinstance(steps, Elapsed) else steps,
        "step_names": declaration.step_names,
        "state": list(listed(columns.state)),
        "states": [_plain(part) for part in declaration.state_parts],
        "action": list(listed(columns.action)),
        "actions": [_plain(part) for part in declaration.action_parts],
    }


def same_values(columns: Mapping[str, Any]) -> Any:
    """What two policies must agree in to be about the same situations; columns may have other names."""
    steps = columns.get("steps")
    return [columns.get("states"), columns.get("actions"), list(steps) if isinstance(steps, tuple) else steps]


def _plain(part: Part) -> Any:
    if isinstance(part, OrMissing):
        return {"or_missing": _plain(part.part)}
    if isinstance(part, Bins):
        return {"edges": [edge if math.isfinite(edge) else None for edge in part.edges]}
    return part if isinstance(part, int) else list(part)


def _part(plain: Any) -> Part:
    if isinstance(plain, dict) and "or_missing" in plain:
        inner = _part(plain["or_missing"])
        if isinstance(inner, OrMissing):
            raise ValueError("missing twice")
        return OrMissing(inner)
    if isinstance(plain, dict):
        low, *inner, high = plain["edges"]
        return Bins([-math.inf if low is None else low, *inner, math.inf if high is None else high])
    if isinstance(plain, list) and plain and all(isinstance(label, str) for label in plain):
        return tuple(plain)
    if type(plain) is not int or plain < 1:
        raise ValueError("no domain")
    return plain


def rules_of(policy: AnyPolicy) -> Declaration:
    """The rules of a policy's columns, or a refusal."""
    given = policy.columns
    if given is None:
        raise InvalidInput(
            "this policy does not say how rows become states (an older release saved it, or it was not learned from a "
            "table): train it again, or give act(step, state) numbers or labels"
        )
    try:
        if set(given) != _KEYS:
            raise ValueError("other keys")
        states, actions = tuple(map(_part, given["states"])), tuple(map(_part, given["actions"]))
        names = *given["state"], *given["action"], *([] if given["step"] is None else [given["step"]])
        sizes = len(given["state"]), len(given["action"]), total_size(states)
        if sizes != (len(states), len(actions), policy.states) or not all(isinstance(name, str) for name in names):
            raise ValueError("other sizes")
        steps = given["steps"]
        steps = Elapsed(**steps) if isinstance(steps, dict) else None if steps is None else tuple(map(str, steps))
        dates = None if given["dates"] is None else Dates(**given["dates"])
        found = Declaration(
            Columns(_NOBODY, given["step"], tuple(given["state"]), tuple(given["action"])),
            Shape(total_size(states), total_size(actions), policy.horizon),
            first_step=given["first_step"], state_parts=states, action_parts=actions, dates=dates,
            steps=steps,
        )  # fmt: skip
        labels = labels_of(states), labels_of(actions)
    except (ArithmeticError, KeyError, TypeError, ValueError):  # of which InvalidInput is one
        raise InvalidInput("the columns of this policy are damaged: save it again") from None
    own = (policy.state_labels, policy.action_labels)
    if own != labels or json.loads(json.dumps(written(found))) != given or _most_actions(policy) > found.shape.actions:
        raise InvalidInput("the columns of this policy contradict its tables: save it again")
    return found


def _most_actions(policy: AnyPolicy) -> int:
    if isinstance(policy, Mixture):
        return max(map(_most_actions, policy.components))
    return int(policy.actions.max()) + 1 if isinstance(policy, Policy) else int(policy.probabilities.shape[2])


class Chosen(NamedTuple):
    """The number of an action for each of some rows, -1 for none, and which rows have no step or no state."""

    actions: Integers
    no_step: Mask
    no_state: Mask


def needed(rules: Declaration) -> tuple[str, ...]:
    """The columns that rows must have."""
    columns = rules.columns
    return tuple(dict.fromkeys((*listed(columns.step), *listed(columns.state))))


class Reader:
    """A policy that is applied to rows of a table."""

    def __init__(self, policy: AnyPolicy, rng: np.random.Generator | None) -> None:
        if isinstance(policy, Mixture):
            if len(policy.components) > 1:
                raise Unsupported("a mixture draws one component per episode: call draw(rng) first and use its result")
            policy = policy.components[0]
        self.rules, self._rng = rules_of(policy), rng
        self._table = policy.actions if isinstance(policy, Policy) else policy.probabilities
        dates = self.rules.dates
        if dates is not None and dates.first_day is None:
            raise Unsupported(
                "steps of this policy are counted from each user's own first date, which a row does not hold: give "
                "act(step, state) the number of the step"
            )
        self._actions(np.zeros(0, np.int64), np.zeros(0, np.int64))  # refuses a policy that draws, without coins

    def chosen(self, batch: pa.RecordBatch, encoding: str) -> Chosen:
        """What the policy does in each row."""
        from discreet.tables.read.arrow_values import members, plain, steps

        rules, rows = self.rules, batch.num_rows
        arrays = [plain(batch.column(name)) for name in listed(rules.columns.state)]
        state, known = members(arrays, rules.state_parts, encoding)
        step, placed = np.zeros(rows, np.int64), np.ones(rows, np.bool_)
        if rules.columns.step is not None:
            column = plain(batch.column(rules.columns.step))
            step, placed = steps(column, rules, encoding)
        found = np.full(rows, -1, np.int64)
        there = np.flatnonzero(known & placed)
        found[there] = self._actions(step[there], state[there])
        return Chosen(found, ~placed, ~known)

    def _actions(self, step: Integers, state: Integers) -> Integers:
        cells = self._table[step, state]
        if cells.ndim == 1:
            return np.asarray(cells, np.int64)
        if not isinstance(self._rng, np.random.Generator):
            raise InvalidInput("this policy draws at random: pass rng=numpy.random.default_rng(seed)")
        above = (cells.cumsum(axis=1) <= self._rng.random((len(step), 1))).sum(axis=1)
        last = cells.shape[1] - 1 - (cells[:, ::-1] > 0).argmax(axis=1)  # sums of shares may end below one
        drawn: Integers = np.minimum(above, last).astype(np.int64)
        return drawn

    def names(self, actions: Integers) -> list[list[Any]]:
        """The cells of each column of actions: labels, or numbers; None where there is no action."""
        columns: list[list[Any]] = []
        rest = actions
        for part in reversed(self.rules.action_parts):
            rest, own = np.divmod(rest, size_of(part))
            words = range(size_of(part)) if isinstance(part, int) else labels_of([part])
            cells = [None if one < 0 else (words or ())[place] for one, place in zip(actions.tolist(), own.tolist())]
            columns.insert(0, cells)
        return columns


def predict(policy: AnyPolicy, frame: Any, rng: np.random.Generator | None) -> list[Any]:
    """The action for each row of a frame: a dictionary where an action is made of several columns."""
    from discreet.tables.read.engines import load_arrow, quietly
    from discreet.tables.read.schema import check_schema

    load_arrow()
    from discreet.tables.read.dataframes import frame_of

    reader = Reader(policy, rng)
    names = needed(reader.rules)
    source = quietly("the table", lambda: frame_of(frame, names))
    if source is None:
        raise InvalidInput(f"predict takes a table of pandas, polars or Arrow, got {type(frame).__name__}")
    check_schema(source, reader.rules, names)
    found = [reader.chosen(batch, source.encoding).actions for batch in source.batches(names)]
    columns = reader.names(np.concatenate(found) if found else np.zeros(0, np.int64))
    if len(columns) == 1:
        return columns[0]
    action = listed(reader.rules.columns.action)
    return [None if row[0] is None else dict(zip(action, row, strict=True)) for row in zip(*columns, strict=True)]


def act(policy: AnyPolicy, row: Mapping[str, Any], rng: np.random.Generator | None) -> Any:
    """The action for one raw row; a row that is not in the domain is refused by the name of its column."""
    from discreet.tables.read.engines import load_arrow

    pa = load_arrow()
    from discreet.tables.read.dataframes import cell_text

    reader = Reader(policy, rng)
    for name in needed(reader.rules):
        if name not in row:
            raise InvalidInput(f"a row must have the column {name!r}, and this one has none")
    cells = {name: pa.array([cell_text(row[name])], pa.large_binary()) for name in needed(reader.rules)}
    found = reader.chosen(pa.RecordBatch.from_pydict(cells), "utf-8")
    if found.actions[0] < 0:
        names, what = (listed(reader.rules.columns.step), "step") if found.no_step[0] else (
            listed(reader.rules.columns.state), "state")  # fmt: skip
        raise InvalidInput(f"this row has no {what} that the policy knows: look at {' and '.join(map(repr, names))}")
    columns = [cells[0] for cells in reader.names(found.actions)]
    return columns[0] if len(columns) == 1 else dict(zip(listed(reader.rules.columns.action), columns, strict=True))


def outside(rules: Declaration, no_step: int, no_state: int) -> Iterator[str]:
    """How many rows have no action, and which columns to look at; no cell is quoted."""
    for many, what, names in (
        (no_step, "step", listed(rules.columns.step)),
        (no_state, "state", listed(rules.columns.state)),
    ):
        if many:
            rows = "1 row has" if many == 1 else f"{many:,} rows have"
            yield f"{rows} no {what} that the policy knows: look at {_several(names)}."


def _several(names: Sequence[str]) -> str:
    return " and ".join(map(repr, names))
