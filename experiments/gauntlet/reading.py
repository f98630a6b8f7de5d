"""Read stored cells, and say them as Markdown.

A folder may hold several versions of the code and several seeds; one of each is read at a time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from discreet.base.errors import InvalidInput
from discreet.simulation.experiments import table

from .cells import FOR_HEAVY, HEAVY, STANDARD, TRUST, TUNING, USERS, VALIDATION, WORLDS
from .running import STUCK

Row: TypeAlias = dict[str, Any]

_ORDER = {entry.name: position for position, entry in enumerate(WORLDS)}
_LEARNERS = tuple(dict.fromkeys((*STANDARD, *FOR_HEAVY)))


def load(folder: Path, tag: str | None = None, seed: int | None = None) -> list[Row]:
    """The stored cells of one version and one seed; of two numbers of runs for the same cell, the larger."""
    rows = []
    for path in sorted(folder.glob("*.json")):
        try:
            row = json.loads(path.read_text())
            rows.append({**row, "finished": row.get("finished", 0)})
            _ = row["tag"], row["seed"], row["status"], row["world"], row["learner"], row["trust"], row["users"]
        except (ValueError, KeyError, TypeError):
            raise InvalidInput(f"{str(path)!r} is not a cell of the gauntlet: move it elsewhere") from None
    rows = [row for row in rows if tag in (None, row["tag"]) and seed in (None, row["seed"])]
    if not rows:
        raise InvalidInput(f"there are no such cells in {str(folder)!r}: run the gauntlet with --out first")
    for name in ("tag", "seed"):
        found = sorted({row[name] for row in rows})
        if len(found) > 1:
            raise InvalidInput(f"{str(folder)!r} holds more than one {name}: give --{name}, one of {found}")
    best: dict[tuple[Any, ...], Row] = {}
    for row in sorted(rows, key=lambda row: row["finished"]):
        best[identity(row)] = row
    return sorted(best.values(), key=_place)


def identity(row: Row) -> tuple[Any, ...]:
    """What two rows must share to be compared."""
    return row["world"], row["users"], row["learner"], row["trust"]


def _place(row: Row) -> tuple[Any, ...]:
    return (
        _ORDER.get(row["world"], len(_ORDER)),
        row["users"],
        rank(row["learner"], _LEARNERS),
        rank(row["trust"], TRUST),
    )


def rank(name: str, order: Iterable[str]) -> tuple[int, str]:
    """Where a name stands: known ones in their order, each followed by itself with options, then the others."""
    known = list(order)
    plain = name.partition(",")[0]
    return (known.index(plain) if plain in known else len(known), name)


def worlds_in(rows: Sequence[Row]) -> list[tuple[str, int]]:
    """Worlds and numbers of users, in order."""
    return list(dict.fromkeys((row["world"], row["users"]) for row in rows))


def name_of(world: str, users: int) -> str:
    """A world as a row of a table is called; the number of users is said where it is not the usual one."""
    return world if users == USERS else f"{world}, {users:,} users"


def halves_of(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """Rows by half, heavy tails apart because they have learners of their own."""
    found = []
    for half in (TUNING, VALIDATION):
        for heavy in (False, True):
            part = [row for row in rows if row["half"] == half and (row["kind"] == HEAVY) == heavy]
            if part:
                found.append((f"{half}, heavy tails" if heavy else half, part))
    return found


def ordered(names: Iterable[str], order: Iterable[str]) -> list[str]:
    """Different names in their usual order."""
    known = list(order)
    return sorted(set(names), key=lambda name: rank(name, known))


def learners_in(rows: Sequence[Row]) -> list[str]:
    """The learners of these rows, in order."""
    return ordered((row["learner"] for row in rows), _LEARNERS)


def trusts_in(rows: Sequence[Row]) -> list[str]:
    """The trust models of these rows, in order."""
    return ordered((row["trust"] for row in rows), TRUST)


def markdown(rows: Sequence[Row]) -> str:
    """All tables: a summary, one table per half and learner, and what was refused or cut short."""
    first = rows[0]
    lines = [
        f"Version {first['tag']}, seed {first['seed']}. Regret as % of uniform play's: mean ± standard error / "
        f"worst run. **(n)**: n runs are stuck, which means that the recommended policy has more than {STUCK:.0%} of "
        "uniform play's gap. A dash refuses; * marks fewer runs than planned; reasons are below.",
        "",
    ]
    for half, part in halves_of(rows):
        lines += [f"## {half.capitalize()}", "", *_summary(part), ""]
        for learner in learners_in(part):
            lines += [f"### {learner}, {half}", "", *_grid([row for row in part if row["learner"] == learner]), ""]
    return "\n".join([*lines, *_remarks(rows)]) + "\n"


def _summary(rows: Sequence[Row]) -> list[str]:
    trusts = trusts_in(rows)
    texts = [
        [learner, *(over_worlds([r for r in rows if (r["learner"], r["trust"]) == (learner, t)]) for t in trusts)]
        for learner in learners_in(rows)
    ]
    return [
        *table(["all worlds", *trusts], texts), "",
        "Geometric mean over worlds / worst run anywhere, and stuck runs of all runs; "
        "learners that refuse some worlds are averaged over fewer.",
    ]  # fmt: skip


def over_worlds(rows: Sequence[Row]) -> str:
    """Several worlds in one cell of a table."""
    told = [row for row in rows if "share" in row]
    if not told:
        return "–"
    mean = float(np.exp(np.mean([np.log(max(row["share"], 1e-6)) for row in told])))
    stuck, runs = sum(row["stuck"] for row in told), sum(row["finished"] for row in told)
    worlds = "" if len(told) == len(rows) else f", {len(told)} of {len(rows)} worlds"
    return f"{percent(mean)} / {percent(max(row['worst'] for row in told))}, {stuck} of {runs:,}{worlds}"


def _grid(rows: Sequence[Row]) -> list[str]:
    trusts = trusts_in(rows)
    here = {(row["world"], row["users"], row["trust"]): row for row in rows}
    cells = [[name_of(*of), *(_cell(here.get((*of, trust))) for trust in trusts)] for of in worlds_in(rows)]
    return table(["world", *trusts], cells)


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    if "share" not in row:
        return "–"
    stuck = f" **({row['stuck']})**" if row["stuck"] else ""
    fewer = "" if row["status"] == "done" else "*"
    return f"{percent(row['share'])} ± {percent(row['share_error'])} / {percent(row['worst'])}{stuck}{fewer}"


def percent(share: float) -> str:
    """A share in percent with two digits that count, and no more decimals than three."""
    value = 100 * share
    return f"{value:.0f}" if value >= 9.95 else f"{value:.1f}" if value >= 0.995 else f"{value:.2g}"


def _remarks(rows: Sequence[Row]) -> list[str]:
    lines = []
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if "share" not in row:
            where = f"{row['world']}, {row['learner']}, {row['trust']}"
            reasons.setdefault(f"{row['status']}: {row['reason']}", []).append(where)
    if reasons:
        lines += ["## Without numbers", ""]
        lines += [f"- {_some(cells)}: {reason}" for reason, cells in reasons.items()]
        lines.append("")
    fewer = [row for row in rows if row["status"] == "fewer runs"]
    if fewer:
        lines += [f"## Fewer runs, because a cell may take {fewer[0]['limit']:g} seconds", ""]
        texts = [f"{r['world']}, {r['learner']}, {r['trust']} ({r['finished']} of {r['runs']})" for r in fewer]
        lines += [f"- {text}" for text in texts]
    return lines


def _some(cells: list[str]) -> str:
    return "; ".join(cells[:4]) + (f"; and {len(cells) - 4} more" if len(cells) > 4 else "")
