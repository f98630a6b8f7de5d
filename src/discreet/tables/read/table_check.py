"""``check``: a validator for the owner of a table, how many rows break which rule. Its output is NOT private.

A real release repairs all of this silently, by the rules of :mod:`discreet.tables.read.query`; a count of repaired rows
would be a release of its own. What to declare in place of what was declared follows from which rules dropped rows, and
quotes none of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.base.notebook import counted, one_line, table_html
from discreet.tables.read import grouping, query
from discreet.tables.read.arrow_values import floats, plain
from discreet.tables.read.columns import Bins, Declaration, OrMissing, Part
from discreet.tables.read.engines import IbisSource, quietly
from discreet.tables.read.in_process import CsvFiles, LocalSource
from discreet.tables.read.per_user import rules_of
from discreet.tables.read.table import Table

NOT_PRIVATE = "These counts are NOT private: they describe single users. Do not publish them."


@dataclass(frozen=True)
class CheckReport:
    """What is wrong with a table, as (what, rows or users) pairs; only its owner may see it.

    Args:
        rows: Of the table.
        users: How many there are.
        findings: What would be repaired, and how often; see the example of ``check``.
        starts: Rows of the first step; none of them may mean that steps are counted from another number.
        dropped: Rows that no release counts, for whatever reason.
        unseen: Users of whom no row is counted.
        remedies: What to change, for every finding: options of the command line, which ``read`` has, too.

    Examples:
        >>> import discreet.data
        >>> discreet.data.CheckReport(rows=4, users=2, findings=(("rows without a state", 1),)).users
        2
    """

    rows: int
    users: int
    findings: tuple[tuple[str, int], ...]
    starts: int = 0
    dropped: int = 0
    unseen: int = 0
    remedies: tuple[str, ...] = ()

    def __repr__(self) -> str:
        verdict = "nothing to repair" if self.clean else "some rows would be repaired"
        return one_line("CheckReport, NOT private", counted(self.rows, "row"), counted(self.users, "user"), verdict)

    def _repr_html_(self) -> str:
        title = f"{counted(self.rows, 'row')}, {counted(self.users, 'user')}"
        rows = [[what, f"{count:,}"] for what, count in self.findings]
        return table_html(title, ["finding", "count"], rows, " ".join([*self.remedies, NOT_PRIVATE]))

    @property
    def clean(self) -> bool:
        """Whether nothing would be repaired."""
        return all(count == 0 for what, count in self.findings if what != _LABELS["several_lines"])

    @property
    def too_many(self) -> bool:
        """Whether more than a tenth of the rows, or of the users with all of theirs, is dropped."""
        return self.dropped * _TOO_MANY > self.rows or self.unseen * _TOO_MANY > self.users


_TOO_MANY, _FEW = 10, 6
_LABELS = {
    "unreadable": "records of a CSV file that cannot be read: quotes that do not match, too many or too few fields",
    "several_lines": "records of a CSV file that go over several lines, as quotes allow",
    "user": "rows without a user",
    "episode": "rows without an episode",
    "step": "rows whose step is none of those that were declared",
    "state": "rows whose state is outside the declared domain",
    "action": "rows whose action is outside the declared domain",
    "next_state": "rows whose next state is outside the declared domain",
    "reward": "rows whose reward is missing, not a number or outside the declared range",
    "duplicates": "rows beyond the first of a (user, episode, step)",
    "conflicts": "steps of one user (and episode) whose rows differ",
    "episodes": "users with more trajectories than declared",
    "capped": "rows beyond the declared cap of their user, left out by lot",
    "gaps": "rows that are left out because a step of the record is missing, as declared",
}


def check(table: Table) -> CheckReport:
    """Count, for the owner, everything that a release would repair.

    Args:
        table: That ``read`` declared. The report is not private.

    Examples:
        >>> import polars, discreet.data
        >>> visits = polars.DataFrame({"who": [0, 0, 1], "day": [0, 1, 0], "state": [0, 7, 1], "drug": [0, 1, 1]})
        >>> table = discreet.data.read(
        ...     visits, user="who", step="day", state="state", action="drug", states=2, actions=2, horizon=2
        ... )
        >>> report = discreet.data.check(table)
        >>> report.rows, report.users
        (3, 2)
    """
    source = table.source
    found = _in_warehouse(source, table) if isinstance(source, IbisSource) else _here(source, table)
    findings = tuple((label, found[name]) for name, label in _LABELS.items() if name in found)
    dropped, unseen = found["rows"] - found["used"], found["users"] - found["seen"]
    remedies = tuple(_remedies(table.declaration, found))
    return CheckReport(found["rows"], found["users"], findings, found["starts"], dropped, unseen, remedies)


def _remedies(declaration: Declaration, found: Mapping[str, int]) -> Iterator[str]:
    """What may be declared otherwise, from the rules that dropped rows; no cell is quoted."""
    first, parts = declaration.first_step, {"state": declaration.state_parts, "action": declaration.action_parts}
    parts["next_state"] = declaration.state_parts
    there, old = {name for name, count in found.items() if count}, declaration.missing == "row"
    if there & {"user", "episode"}:
        yield "Rows that belong to nobody: fill in the column, or name another one (--user, --episode)."
    if "unreadable" in there:
        yield "Records that cannot be read: declare the form of the file (--csv)."
    if "step" in there and declaration.dates is not None:
        yield "Dates: a larger --horizon, --days as long as a step is, or the day of the first step (--origin)."
    elif "step" in there and declaration.steps is not None:
        yield f"Steps: {declaration.step_words()}: declare others, too (--steps), or a larger --horizon (--every)."
    elif "step" in there:
        if found["starts"] == 0 < found["rows"]:
            yield (
                f"No row has step {first}, the first: if your steps are counted from {first + 1}, give --first-step "
                f"{first + 1}."
            )
        yield (
            f"Steps: whole numbers from {first} to {first + declaration.shape.horizon - 1} count: --first-step, a "
            "larger --horizon, or --days where they are dates."
        )
    for name in ("state", "action", "next_state"):
        if name in there:
            level = " --missing-level makes missing cells of a column a level." if name == "state" else ""
            option, named = "--actions" if name == "action" else "--states", name.replace("_", " ").capitalize()
            yield f"{named}s: {_domain_words(parts[name])}; declare others, too ({option}).{level}"
    if "reward" in there:
        low, high = declaration.shape.rewards
        yield (
            f"Rewards: they are clipped to {low:g} .. {high:g} (--rewards), and {declaration.without_reward()} "
            "(--missing-reward)."
        )
    if "duplicates" in there and declaration.shape.horizon == 1 and declaration.columns.episode is None:
        yield (
            "Several rows of one user (a household, a clinic, a school): --cap says how many of them count, drawn by "
            f"lot; without it {'the smallest one of each does' if old else 'users whose rows differ do not count'}."
        )
    elif "duplicates" in there:
        yield (
            "Several rows of one step: name the column that tells records apart (--episode), or keep one of them; "
            f"where they differ, {'the smallest counts' if old else 'the step is missing'}."
        )
    if "capped" in there:
        yield "Users with more rows than --cap: a larger one keeps more of them, and noise grows with it."
    if "episodes" in there:
        yield "Users with more trajectories: declare how many count (--per-user); noise grows with them."
    if "gaps" in there:
        kept = "" if old else "; --missing row keeps what stands behind, and judges no policy"
        yield f"Missing steps: number the rows of a record without gaps{kept}."


def _domain_words(parts: Sequence[Part]) -> str:
    """Which values count, as declared."""
    words = []
    for part in parts:
        more = " or no value at all" if isinstance(part, OrMissing) else ""
        part = part.part if isinstance(part, OrMissing) else part
        if isinstance(part, int):
            words.append(
                f"whole numbers from 0 to {part - 1} (others are labels, and listed: {_counted_from_one(part)})"
            )
        elif isinstance(part, Bins):
            words.append(f"numbers from {part.edges[0]:g} to {part.edges[-1]:g}")
        else:
            words.append(f"{len(part):,} labels, letter by letter")
        words[-1] += more
    return f"{' and '.join(words)} count"


def _counted_from_one(size: int) -> str:
    """The labels of people who count from one, as they are typed."""
    return ",".join(str(number + 1) for number in range(size)) if size <= _FEW else "1,2,3 and so on"


def _here(source: LocalSource, table: Table) -> dict[str, int]:
    declaration = table.declaration
    columns, (low, high) = declaration.columns, declaration.shape.rewards
    found: Counter[str] = Counter()
    batches = iter(quietly(source.name, lambda: source.batches(columns.names)))
    while (batch := quietly(source.name, lambda: next(batches, None))) is not None:
        domains, ids = grouping.checked(batch, source.encoding, declaration)
        found["rows"] += batch.num_rows
        for name, (values, inside) in domains.items():
            found[name] += int((~inside).sum())
            if name == "step":
                found["starts"] += int((inside & (values == 0)).sum())
        for name, array in zip(("user", "episode"), ids, strict=False):
            found[name] += array.null_count
        if columns.reward is not None:
            reward, there = floats(plain(batch.column(columns.reward)))
            found["reward"] += int((~(there & (reward >= low) & (reward <= high))).sum())
    if isinstance(source, CsvFiles):
        found["unreadable"], found["several_lines"] = quietly(source.name, source.unreadable)
    packing = declaration.packing(2)
    repaired = np.zeros(5, np.int64)
    # The last row of pooled steps is no cell of its own, but the row before counts with its state.
    rules = rules_of(declaration, packing, False)._replace(counted_steps=declaration.shape.horizon)
    for part in grouping.contributions(source, declaration, packing, rules):
        repaired += part.repaired
        found["used"] += len(part.keys)
        found["seen"] += int((np.diff(part.ends, prepend=0) > 0).sum())
    found["duplicates"], found["gaps"], found["episodes"], left_out, found["conflicts"] = repaired.tolist()
    if declaration.cap is not None:
        found["capped"] = left_out
    found["users"] = grouping.count_users(source, columns)
    return {"used": 0, "seen": 0, "starts": 0, "rows": 0, **found}


def _in_warehouse(source: IbisSource, table: Table) -> dict[str, int]:
    counted = source.run(lambda rows: _findings(rows, table))
    counted |= source.run(lambda rows: _gaps(rows, table))
    if table.declaration.columns.user is not None:  # rows that are users repeat nothing
        counted |= source.run(lambda rows: _repeated(rows, table))
    return {
        name: 0 if values[0] is None or values[0] != values[0] else int(values[0]) for name, values in counted.items()
    }


def _findings(rows: Any, table: Table) -> Any:
    declaration = table.declaration
    columns, shape = declaration.columns, declaration.shape
    user = query.user_of(rows, declaration)
    bad = {} if columns.user is None else {"user": user.isnull()}
    values = query.columns_of(rows, declaration)
    bad |= {name: column.isnull() for name, column in values.items()}
    if columns.episode is not None:
        bad["episode"] = query.identifier(rows, columns.episode).isnull()
    if columns.next_state is not None:
        bad["next_state"] &= ~query.absent(rows, columns.next_state)
    if columns.reward is not None:
        reward = query.number_of(rows, columns.reward).cast("float64")
        low, high = shape.rewards
        bad["reward"] = reward.isnull() | (reward < low) | (reward > high)
    counts = {name: condition.fill_null(False).sum() for name, condition in bad.items()}
    starts = (values["step"] == 0).fill_null(False).sum()
    users = rows.count() if columns.user is None else user.nunique()
    return rows.aggregate(rows=rows.count(), users=users, starts=starts, **counts)


def _repeated(rows: Any, table: Table) -> Any:
    declaration = table.declaration
    valid = query.valid_rows(rows, declaration, declaration.packing(2))
    per_user = valid.group_by("user").aggregate(kept=valid.episode.nunique())
    second = per_user.aggregate(episodes=(per_user.kept > declaration.per_user).sum())
    kept = query.kept_episodes(valid, declaration)
    kept = kept.filter(kept.bad == 0)
    per_step = kept.group_by(["user", "episode", "step"]).aggregate(
        copies=kept.count(), differ=kept.item.min() < kept.item.max()
    )
    first = per_step.aggregate(duplicates=(per_step.copies - 1).sum(), conflicts=per_step.differ.sum())
    return first.cross_join(second)


def _gaps(rows: Any, table: Table) -> Any:
    declaration, pack = table.declaration, table.declaration.packing(2)
    there = query.one_per_step(rows, declaration, pack)
    kept = query.followed_rows(rows, declaration, pack)
    kept = kept.filter(kept.successor.notnull())
    every = there.aggregate(every=there.item.count())
    seen = kept.count() if declaration.columns.user is None else kept.user.nunique()
    both = every.cross_join(kept.aggregate(used=kept.count(), seen=seen))
    return both.select(gaps=both.every - both.used, used=both.used, seen=both.seen)
