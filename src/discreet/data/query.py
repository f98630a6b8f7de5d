"""One grouped query from a long table of trajectories to the joint histogram, for any SQL engine.

Bad content never stops a release, is never counted and never logged; each user's rows are repaired by a fixed rule:

* a row without user or episode, with a step outside first_step .. first_step + H - 1, or with a state or an action
  outside the declared domain is dropped;
* of a user's episodes the ``per_user`` with the smallest identifiers are kept;
* of several rows for one (user, episode, step) the one with the smallest (state, action, reward, next state) is kept;
* rewards are clipped to the declared range, missing ones count as declared (as zero unless told otherwise), and are
  rounded stochastically to levels;
* a row counts with the state of the next step. If the next step is missing but a later one is there (a gap), the row is
  dropped; if nothing follows, the episode has ended there;
* where steps are pooled and episodes may end early, a row at the last step of the horizon is not counted: nothing tells
  whether the episode ended there or was cut;
* where the table has a column of next states, a row counts with that one, even if the next row says otherwise. A row
  whose next state is outside the domain is dropped, and one without a next state goes by the rule above: it is an end
  only if nothing follows. What comes after the last step of the horizon is an end, whatever the column says.

Each user then has at most one row per episode and step, and at most one end per episode, whatever the table holds: that
is what the sensitivities rest on. The rules act on one user at a time, so neighbouring tables differ in one user's
cells only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from discreet.data.columns import Declaration
from discreet.errors import InvalidInput, MissingExtra


def load_ibis() -> Any:
    """The ibis package, which writes the query for every engine."""
    try:
        import ibis
    except ImportError:
        raise MissingExtra("ibis-framework", "data") from None
    return ibis


def count_users(table: Any, declaration: Declaration) -> Any:
    """How many users there are: public, and counted before any look at the content of their rows."""
    user = table[declaration.columns.user]
    return table.filter(user.notnull()).aggregate(users=table[declaration.columns.user].nunique())


def joint_histogram(table: Any, declaration: Declaration, *, levels: int = 2, first_visit: bool = False) -> Any:
    """The query: one row (key, count) for every cell of the joint histogram that occurs."""
    keyed = contributions(table, declaration, levels=levels, first_visit=first_visit)
    return keyed.group_by("key").aggregate(count=keyed.count())


def contributions(table: Any, declaration: Declaration, *, levels: int = 2, first_visit: bool = False) -> Any:
    """What every user adds to the joint histogram: one row (user, key) for every step that counts."""
    ibis = load_ibis()
    declaration.check_size(levels)
    shape = declaration.shape
    S, A = shape.states, shape.actions
    rows = followed_rows(table, declaration, levels)
    rows = rows.filter(rows.successor.notnull())
    if declaration.leaves_out_last_step:
        rows = rows.filter(rows.step < shape.horizon - 1)
    if first_visit:
        earliest = ibis.window(group_by=[rows.user, rows.item // levels], order_by=[rows.episode, rows.step])
        rows = rows.mutate(visit=ibis.row_number().over(earliest))
        rows = rows.filter(rows.visit == 0)
    item = rows.item.cast("int64")
    pair, level = item // levels, item % levels
    group = 0 if shape.homogeneous else rows.step
    key = ((group * (S * A) + pair) * (S + 1) + rows.successor) * levels + level
    return rows.select(user=rows.user, key=key.cast("int64"))


def followed_rows(table: Any, declaration: Declaration, levels: int) -> Any:
    """The rows that are kept, with what came next: S for the end, nothing where it is not known (before a gap).

    A missing next state must not be an end by itself: H of them in one cell would be more ends than one user may have.
    """
    ibis = load_ibis()
    rows = _one_per_step(_kept_episodes(_valid_rows(table, declaration, levels), declaration))
    S, A, H = declaration.shape.states, declaration.shape.actions, declaration.shape.horizon
    given = declaration.columns.next_state is not None
    items = A * levels * (S + 2 if given else 1)  # of one state
    following = ibis.window(group_by=["user", "episode"], order_by="step")
    rows = rows.mutate(later=rows.step.lead(1).over(following), after=(rows.item.lead(1).over(following) // items))
    cases = [(rows.later.isnull(), S), (rows.later == rows.step + 1, rows.after.cast("int64"))]
    item = rows.item
    if given:
        item, told = rows.item // (S + 2), rows.item % (S + 2)
        cases = [(rows.step == H - 1, S), (told < S, told.cast("int64")), *cases]
    return rows.select("user", "episode", "step", item=item, successor=ibis.cases(*cases))


def _valid_rows(table: Any, declaration: Declaration, levels: int) -> Any:
    """Rows whose step, state and action lie in their domains, with (state, action, level) packed into one number.

    A column of next states is packed below them, as S where it is missing.
    """
    ibis = load_ibis()
    columns, shape = declaration.columns, declaration.shape
    S, A = shape.states, shape.actions
    step = whole(table, columns.step, "step", declaration.first_step, shape.horizon)
    state = member(table, columns.state, "state", S, declaration.state_labels)
    action = member(table, columns.action, "action", A, declaration.action_labels)
    level = _level(table, columns.reward, shape.rewards, levels, declaration.missing_reward or 0.0)
    item = (state * A + action) * levels + level
    valid = table[columns.user].notnull() & step.notnull() & state.notnull() & action.notnull()
    if columns.episode is not None:
        valid &= table[columns.episode].notnull()
    if columns.next_state is not None:
        successor = member(table, columns.next_state, "next_state", S, declaration.state_labels)
        missing = table[columns.next_state].isnull()
        valid &= missing | successor.notnull()
        item = item * (S + 2) + missing.ifelse(S, successor)
    episode = ibis.literal(0) if columns.episode is None else table[columns.episode]
    return table.filter(valid).select(
        user=table[columns.user], episode=episode, step=step - declaration.first_step, item=item
    )


def _kept_episodes(rows: Any, declaration: Declaration) -> Any:
    """At most ``per_user`` episodes of every user, chosen by their identifiers alone."""
    if declaration.columns.episode is None:
        return rows
    ibis = load_ibis()
    order = ibis.window(group_by="user", order_by="episode")
    ranked = rows.mutate(rank=ibis.dense_rank().over(order))
    return ranked.filter(ranked["rank"] < declaration.per_user).drop("rank")


def _one_per_step(rows: Any) -> Any:
    return rows.group_by(["user", "episode", "step"]).aggregate(item=rows.item.min())


def number_of(table: Any, name: str, role: str) -> Any:
    """A column as numbers; words that are none become missing. Whole numbers stay whole."""
    column = table[name]
    kind = column.type()
    if kind.is_integer():
        return column
    if kind.is_floating() or kind.is_decimal():
        return column.cast("float64")
    if kind.is_string():
        return column.try_cast("float64")
    raise InvalidInput(f"column {name!r} holds the {role} and must be numeric, its type is {kind}")


def whole(table: Any, name: str, role: str, low: int, size: int) -> Any:
    """Whole numbers in low .. low + size - 1; anything else is missing."""
    column = number_of(table, name, role)
    inside = (column >= low) & (column < low + size)
    if not column.type().is_integer():
        inside &= column.floor() == column
    return inside.ifelse(column, None).cast("int64")


def member(table: Any, name: str, role: str, size: int, labels: Sequence[str] | None) -> Any:
    """The position of a value in its declared domain; anything else is missing."""
    if labels is None:
        return whole(table, name, role, 0, size)
    kind = table[name].type()
    if not kind.is_string():
        raise InvalidInput(f"column {name!r} holds the {role} as declared labels and must be text, its type is {kind}")
    ibis = load_ibis()
    return ibis.cases(*((table[name] == label, position) for position, label in enumerate(labels))).cast("int64")


def _level(table: Any, name: str | None, limits: tuple[float, float], levels: int, missing: float) -> Any:
    """A reward as one of equally spaced levels: clipped, missing ones as declared, rounded stochastically."""
    ibis = load_ibis()
    if name is None:
        return ibis.literal(0)
    reward = number_of(table, name, "reward").cast("float64")
    low, high = limits
    usable = reward.notnull() & ~reward.isnan()
    share = usable.ifelse((reward - low) / (high - low), (missing - low) / (high - low))
    position = share.clip(0.0, 1.0) * (levels - 1) + ibis.random()
    return position.floor().clip(0, levels - 1).cast("int64")
