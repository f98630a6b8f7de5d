"""One grouped query from a long table of trajectories to the sums of its cells, for any SQL engine.

Bad content never stops a release, is never counted and never logged; each user's rows are repaired by a fixed rule:

* a row without user or episode, with a step outside first_step .. first_step + H - 1, or with a state or an action
  outside the declared domain is dropped;
* of a user's episodes the ``per_user`` with the smallest identifiers are kept;
* rows for one (user, episode, step) that agree in state, action, reward and next state are one; where they differ the
  step is missing, or (rule ``"row"``) the smallest is kept;
* rewards are clipped to the declared range, missing ones count as declared (as zero unless told otherwise), and are
  rounded at random to levels (:mod:`discreet.tables.read.reward_rounding`);
* of each record (the rows of an episode) what stands before the first missing step is kept, and there it ends
  (``missing="end"``); or a record with a missing step or a row that is not valid is dropped (``"drop"``; rows outside
  of the horizon do not count, and without ``early_end`` every step must be there); or nothing is done yet
  (``"row"``);
* a row counts with the state of the next step; if nothing follows, the record has ended there. If the next step is
  missing but a later one is there (a gap: rule ``"row"`` alone), the row is dropped;
* where steps are pooled and records may end early, a row at the last step of the horizon is not counted: nothing tells
  whether the episode ended there or was cut;
* where the table has a column of next states, a row counts with that one, even if the next row says otherwise. A row
  whose next state is outside the domain is not valid, and one without a next state goes by the rule above: it is an end
  only if nothing follows. What comes after the last step of the horizon, or of a record (rule ``"row"`` excepted), is
  an end, whatever the column says.

Each user then has at most one row per episode and step, and at most one end per episode, whatever the table holds: that
is what the sensitivities rest on. The rules act on one user at a time, so neighbouring tables differ in one user's
cells only. Tables that this process goes through itself follow the same rules in a compiled loop
(:mod:`discreet.tables.read.per_user`).

No expression here can fail on a value: casts that can are TRY_CASTs, NaN is tested for by itself, and no test relies on
another one being evaluated first, because engines may leave one out that the statistics of a file answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from discreet.tables.read.columns import (
    DAYS,
    FIRST_DAY,
    Bins,
    Declaration,
    Elapsed,
    OrMissing,
    Packing,
    Part,
    days_since_epoch,
    listed,
    numbers_of_labels,
    size_of,
)
from discreet.tables.read.engines import load_ibis
from discreet.tables.read.numerals import DATE_PATTERN, PATTERN


def count_users(table: Any, declaration: Declaration) -> Any:
    """How many users there are: public, and counted before any look at the content of their rows."""
    if declaration.columns.user is None:
        return table.aggregate(users=table.count())
    user = identifier(table, declaration.columns.user)
    return table.aggregate(users=user.nunique())


def cell_sums(table: Any, declaration: Declaration, *, levels: int = 2, first_visit: bool = False) -> Any:
    """The query: one row (key, count, above) for every cell and lower level that occurs."""
    keyed = contributions(table, declaration, levels=levels, first_visit=first_visit)
    return keyed.group_by("key").aggregate(count=keyed.count(), above=keyed.above.sum())


def contributions(table: Any, declaration: Declaration, *, levels: int = 2, first_visit: bool = False) -> Any:
    """What every user adds: one row (user, key, above) for every step that counts.

    The key numbers the cell and the lower of the two levels that the reward lies between, ``above`` is its position.
    """
    ibis = load_ibis()
    pack, shape = declaration.packing(levels), declaration.shape
    S, A = shape.states, shape.actions
    rows = followed_rows(table, declaration, pack)
    rows = rows.filter(rows.successor.notnull())
    if declaration.counted_steps < shape.horizon:
        rows = rows.filter(rows.step < declaration.counted_steps)
    rows = rows.mutate(pair=_quotient(rows.item, pack.positions), position=rows.item % pack.positions)
    if first_visit and declaration.columns.user is not None:
        earliest = ibis.window(group_by=[rows.user, rows.pair], order_by=[rows.episode, rows.step])
        rows = rows.mutate(visit=ibis.row_number().over(earliest))
        rows = rows.filter(rows.visit == 0)
    level = ibis.least(_quotient(rows.position, pack.grid), levels - 2)
    group = 0 if shape.homogeneous else rows.step
    cell = (group * (S * A) + rows.pair) * (S + 1) + rows.successor
    return rows.select(
        user=rows.user,
        key=(cell * (levels - 1) + level).cast("int64"),
        above=(rows.position - level * pack.grid).cast("int64"),
    )


def followed_rows(table: Any, declaration: Declaration, pack: Packing) -> Any:
    """The rows that are kept, with what came next: S for the end, nothing where it is not known (before a gap).

    A missing next state must not be an end by itself: H of them in one cell would be more ends than one user may have.
    """
    ibis = load_ibis()
    rows = whole_records(one_per_step(table, declaration, pack), declaration)
    S, H = declaration.shape.states, declaration.shape.horizon
    if declaration.columns.user is None:  # every row is a record, which ends with it
        ended = ibis.literal(S, "int64")
        return rows.select("user", "episode", "step", item=_quotient(rows.item, pack.following), successor=ended)
    following = ibis.window(group_by=["user", "episode"], order_by="step")
    told = rows.item % pack.following
    rows = rows.mutate(item=_quotient(rows.item, pack.following), told=told)
    rows = rows.mutate(later=rows.step.lead(1).over(following), after=rows.item.lead(1).over(following))
    after = _quotient(rows.after, pack.actions * pack.positions)
    last, cases = (rows.later.isnull(), S), [(rows.later == rows.step + 1, after)]
    if declaration.columns.next_state is not None:
        cases = [(rows.told < S, rows.told.cast("int64")), *cases]
    cases = [(rows.step == H - 1, S), *([*cases, last] if declaration.missing == "row" else [last, *cases])]
    return rows.select("user", "episode", "step", "item", successor=ibis.cases(*cases))


def whole_records(rows: Any, declaration: Declaration) -> Any:
    """What the rule for missing rows keeps: steps 0, 1, 2, ... of every record, or of whole records only."""
    if declaration.missing == "row":
        return rows
    if declaration.columns.user is None:
        return rows.filter(rows.bad == 0)
    ibis = load_ibis()
    rows = rows.mutate(rank=ibis.row_number().over(ibis.window(group_by=["user", "episode"], order_by="step")))
    if declaration.missing == "drop":
        record = ibis.window(group_by=["user", "episode"])
        rows = rows.mutate(last=rows.step.max().over(record), many=rows.step.count().over(record),
                           invalid=rows.bad.max().over(record))  # fmt: skip
        rows = rows.filter((rows.invalid == 0) & (rows.many == rows.last + 1))
        if not declaration.early_end:
            rows = rows.filter(rows.last == declaration.shape.horizon - 1)
    return rows.filter(rows.rank == rows.step).select("user", "episode", "step", "item")


def _quotient(number: Any, divisor: int) -> Any:
    """Whole numbers divided without a remainder, which floating-point division answers exactly."""
    if divisor == 1:
        return number
    return ((number - number % divisor) / divisor + 0.25).floor().cast("int64")


def valid_rows(table: Any, declaration: Declaration, pack: Packing) -> Any:
    """Rows whose step, state and action lie in their domains, with (state, action, reward) packed into one number.

    A next state is packed below them, as S where it is missing. Where rows that are not valid drop a record, those with
    a step are kept, without a number.
    """
    ibis = load_ibis()
    columns = declaration.columns
    user, episode = user_of(table, declaration), ibis.literal(0)
    step, state, action = (columns_of(table, declaration)[name] for name in ("step", "state", "action"))
    item = (state * pack.actions + action) * pack.positions + _position(table, declaration, pack)
    placed, valid = user.notnull() & step.notnull(), state.notnull() & action.notnull()
    if columns.episode is not None:
        episode = identifier(table, columns.episode)
        placed &= episode.notnull()
    if columns.next_state is not None:
        successor, missing = columns_of(table, declaration)["next_state"], absent(table, columns.next_state)
        valid &= missing | successor.notnull()
        item = item * pack.following + missing.ifelse(pack.states, successor)
    if columns.reward is not None and declaration.missing_reward is None:
        valid &= number_of(table, columns.reward).notnull()
    valid = valid.fill_null(False)
    rows = table.select(
        user=user, episode=episode, step=step, item=valid.ifelse(item, None), bad=valid.ifelse(0, 1), placed=placed
    )
    kept = rows.placed if declaration.missing == "drop" else rows.placed & (rows.bad == 0)
    rows = rows.filter(kept).drop("placed")
    dates = declaration.dates
    if dates is not None and dates.first_day is None:
        known = (rows.bad == 0).ifelse(rows.step, None)
        ahead = rows.step - known.min().over(ibis.window(group_by=["user", "episode"])).fill_null(DAYS)
        rows = rows.mutate(ahead=ahead)
        rows = rows.filter(rows.ahead < declaration.shape.horizon * dates.days)
        rows = rows.mutate(step=(rows.ahead < 0).ifelse(-1, _quotient(rows.ahead, dates.days))).drop("ahead")
    return rows


def kept_episodes(rows: Any, declaration: Declaration) -> Any:
    """At most ``per_user`` episodes of every user, chosen by their identifiers alone."""
    if declaration.columns.episode is None:
        return rows
    ibis = load_ibis()
    order = ibis.window(group_by="user", order_by="episode")
    ranked = rows.mutate(rank=ibis.dense_rank().over(order))
    return ranked.filter(ranked["rank"] < declaration.per_user).drop("rank")


def one_per_step(table: Any, declaration: Declaration, pack: Packing) -> Any:
    """The valid row of every step, and whether one is not valid or two differ (rule "row": the smallest counts)."""
    rows = kept_episodes(valid_rows(table, declaration, pack), declaration)
    if declaration.columns.user is None:
        return rows
    rows = rows.group_by(["user", "episode", "step"]).aggregate(
        item=rows.item.min(), largest=rows.item.max(), bad=rows.bad.max()
    )
    if declaration.missing != "row":
        agree = (rows.item == rows.largest).fill_null(False)
        rows = rows.mutate(item=agree.ifelse(rows.item, None), bad=agree.ifelse(rows.bad, 1))
        rows = rows if declaration.missing == "drop" else rows.filter(rows.bad == 0)
    return rows.drop("largest")


def columns_of(table: Any, declaration: Declaration) -> dict[str, Any]:
    """Steps, states, actions and next states as numbers from zero on; missing where they are outside their domain."""
    columns = declaration.columns
    found = {
        "step": _step(table, declaration),
        "state": _members(table, listed(columns.state), declaration.state_parts),
        "action": _members(table, listed(columns.action), declaration.action_parts),
    }
    if columns.next_state is not None:
        found["next_state"] = _members(table, listed(columns.next_state), declaration.state_parts)
    return found


def user_of(table: Any, declaration: Declaration) -> Any:
    """The column of users; where every row is one, any number: rows then are never brought together."""
    name = declaration.columns.user
    return load_ibis().literal(0, "int64") if name is None else identifier(table, name)


def identifier(table: Any, name: str) -> Any:
    """A column of users or episodes; NaN is missing."""
    column = table[name]
    return column.isnan().ifelse(None, column) if column.type().is_floating() else column


def number_of(table: Any, name: str) -> Any:
    """A column as numbers; NaN and text that is no number by the written grammar are missing. Whole ones stay whole."""
    column = table[name]
    kind = column.type()
    if kind.is_integer():
        return column
    if kind.is_string():
        number = (column + "x").re_search(PATTERN).ifelse(column, None)
        return number.replace(" ", "").try_cast("float64")
    number = column.cast("float64")
    return number.isnan().ifelse(None, number)


def _step(table: Any, declaration: Declaration) -> Any:
    dates, H = declaration.dates, declaration.shape.horizon
    name = declaration.columns.step
    if name is None:  # every row is at the only step
        return table[declaration.columns.names[0]].isnull().ifelse(0, 0).cast("int64")
    if isinstance(declaration.steps, tuple):
        return _member(table, name, declaration.steps)
    if isinstance(declaration.steps, Elapsed):
        number, origin = number_of(table, name).cast("float64"), declaration.steps.origin
        place = (number - origin) / declaration.steps.every
        return ((number >= origin) & (place < H)).ifelse((place - place % 1.0).try_cast("int64"), None)
    if dates is None:
        return _whole(table, name, declaration.first_step, H)
    column = table[name]
    if column.type().is_string():
        written = (column + "x").re_search(DATE_PATTERN).ifelse(column.left(10), None)
        column = written.try_cast("date")
    elif column.type().is_timestamp():
        column = column.date()
    ibis = load_ibis()
    day = column.epoch_days().cast("int64") - days_since_epoch(0)
    day = ((column >= ibis.date(FIRST_DAY)) & (day < DAYS)).ifelse(day, None)
    if dates.first_day is None:
        return day
    ahead = day - dates.first_day
    return ((ahead >= 0) & (ahead < H * dates.days)).ifelse(_quotient(ahead, dates.days), None)


def _whole(table: Any, name: str, low: int, size: int) -> Any:
    """Whole numbers in low .. low + size - 1, counted from zero; anything else is missing."""
    column = number_of(table, name)
    number = column.try_cast("int64")
    inside = (number >= low) & (number < low + size) & (column >= low) & (column < low + size)
    if not column.type().is_integer():
        inside &= number.cast("float64") == column
    return inside.ifelse(number, None) - low


def _members(table: Any, names: Sequence[str], parts: Sequence[Part]) -> Any:
    """The position of a row's values in the declared domains, the last column fastest; anything else is missing."""
    position = None
    for name, part in zip(names, parts, strict=True):
        own = _member(table, name, part)
        position = own if position is None else position * size_of(part) + own
    return position


def _member(table: Any, name: str, part: Part) -> Any:
    ibis = load_ibis()
    if isinstance(part, OrMissing):
        return absent(table, name).ifelse(size_of(part) - 1, _member(table, name, part.part))
    if isinstance(part, int):
        return _whole(table, name, 0, part)
    if isinstance(part, Bins):
        column, edges = number_of(table, name).cast("float64"), part.edges
        inner = [(column < edge, bin) for bin, edge in enumerate(edges[1:-1])]
        outside = [(column.isnull() | (column < edges[0]) | (column > edges[-1]), ibis.null("int64"))]
        return ibis.cases(*outside, *inner, else_=part.size - 1).cast("int64")
    column, whole = table[name], table[name].type().is_integer()
    if column.type().is_string():
        known: dict[Any, int] = {label: position for position, label in enumerate(part)}
    else:
        known = numbers_of_labels(part, whole)
        column = column if whole else number_of(table, name)
    if not known:
        return ibis.null("int64")
    return ibis.cases(*((column == value, position) for value, position in known.items())).cast("int64")


def absent(table: Any, names: str | tuple[str, ...]) -> Any:
    """Where all of some columns are missing."""
    missing = None
    for name in listed(names):
        column = table[name]
        null = column.isnull() | column.isnan() if column.type().is_floating() else column.isnull()
        missing = null if missing is None else missing & null
    return missing


def _position(table: Any, declaration: Declaration, pack: Packing) -> Any:
    """A reward on the grid between levels: clipped to the declared range, missing ones as declared."""
    ibis = load_ibis()
    name, (low, high) = declaration.columns.reward, declaration.shape.rewards
    if name is None:
        return ibis.literal(0)
    reward = number_of(table, name).cast("float64")
    ends = [(reward.isnull(), declaration.missing_reward or 0.0), (reward <= low, low), (reward >= high, high)]
    clipped = ibis.cases(*ends, else_=reward)
    place = (clipped - low) / (high - low) * (pack.positions - 1) + 0.5
    return (place - place % 1.0).try_cast("int64")
