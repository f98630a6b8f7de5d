"""What is kept of the measured intervals (experiments/evaluation.json), and the tables of docs/evaluation.md from
it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from math import sqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
_ROOT = Path(__file__).parents[1]
DATA, PAGE = _ROOT / "experiments" / "evaluation.json", _ROOT / "docs" / "evaluation.md"
Name = tuple[str, int, float | None, str, str]
CALLED = {
    "dirichlet": "random, 5 states, 3 actions, 5 steps", "hospital": "made-up hospital, per day",
    "hospital-pooled": "made-up hospital, pooled", "river": "RiverSwim-6, 20 steps",
    "river-pooled": "RiverSwim-6, pooled", "icu-sepsis": "ICU-Sepsis, no table", "wards": "120 states, no table",
}  # fmt: skip
PROMISED, MANY, FEWEST = 0.93, 100, 20


class Cell(NamedTuple):
    """What is known of a cell: value, behaviour, difference in this order."""

    world: str
    users: int
    epsilon: float | None  # None: no privacy
    policy: str
    behaviour: str
    n: int
    covered: tuple[int, int, int]
    width: tuple[float, float, float]
    better: int  # how often this was said
    worse: int
    untold: int  # "cannot be told"
    false_better: int
    told_covered: tuple[int, int, int]  # as covered, where it could be told

    @property
    def name(self) -> Name:
        """Which cell it is."""
        return self.world, self.users, self.epsilon, self.policy, self.behaviour


def cell_of(row: Mapping[str, Any]) -> Name:
    """The cell that a repetition belongs to."""
    return row["world"], row["users"], row["epsilon"], row["policy"], row["behaviour"]


def cells_of(rows: Iterable[Mapping[str, Any]]) -> list[Cell]:
    """Repetitions summed up, in the order of their worlds."""
    found: dict[Name, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        found[cell_of(row)].append(row)
    order = list(CALLED)
    names = sorted(found, key=lambda name: (order.index(name[0]), name[1], name[2] or np.inf, name[4], name[3]))
    return [_cell(name, found[name]) for name in names]


def _cell(name: Name, rows: list[Mapping[str, Any]]) -> Cell:
    truth, low, high = (np.array([row[each] for row in rows]) for each in ("truth", "low", "high"))
    said = [row["verdict"] for row in rows]
    inside = (low <= truth) & (truth <= high)
    told = inside[np.array([word != "cannot be told" for word in said])]
    width = (high - low).mean(axis=0).tolist()
    false = sum(word == "better" and row["truth"][2] <= 0 for word, row in zip(said, rows, strict=True))
    return Cell(
        *name, len(rows), tuple(inside.sum(axis=0).tolist()), tuple(float(f"{each:.4g}") for each in width),
        said.count("better"), said.count("worse"), said.count("cannot be told"), int(false),
        tuple(told.sum(axis=0).tolist()),
    )  # fmt: skip


def write(cells: list[Cell]) -> None:
    """Keep the cells that have enough repetitions, and put the tables between the marks of the page."""
    cells = [cell for cell in cells if cell.n >= FEWEST]
    lines = ",\n".join(json.dumps(cell) for cell in cells)
    DATA.write_text(f'{{"columns": {json.dumps(Cell._fields)},\n"cells": [\n{lines}\n]}}\n')
    before, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text(before + BEGIN + "\n" + tables(cells) + END + rest.split(END)[1])


def read() -> list[Cell]:
    """The cells that are kept."""
    kept = json.loads(DATA.read_text())
    if tuple(kept["columns"]) != Cell._fields:
        raise ValueError(f"{DATA} has other columns than {Cell._fields}: measure again")
    return [Cell(*row[:6], tuple(row[6]), tuple(row[7]), *row[8:12], tuple(row[12])) for row in kept["cells"]]


def tables(cells: list[Cell]) -> str:
    """All that the page says in numbers."""
    return f"{_overall(cells)}\n\n{_low(cells)}\n\n"


def _overall(cells: list[Cell]) -> str:
    """All cells together, and the one that covered least of those with many repetitions."""
    declared, unknown = ([c for c in cells if c.behaviour == kind] for kind in ("declared", "unknown"))
    totals = [
        ("value, behaviour declared", declared, 0),
        ("value, not declared", unknown, 0),
        ("difference, behaviour declared", declared, 2),
        ("difference, not declared", unknown, 2),
        ("value of the behaviour", [c for c in declared if c.policy == "given"], 1),
    ]
    head = "", "intervals", "covered", "least covered cell", "could be told", "of these covered", '"better"', "wrongly"
    return "\n".join([_row(*head), "|" + "---|" * 8, *(_total(*each) for each in totals if each[1])])


def _total(name: str, cells: list[Cell], quantity: int) -> str:
    n, covered = sum(c.n for c in cells), sum(c.covered[quantity] for c in cells)
    many = [c for c in cells if c.n >= MANY] or cells
    least = min(many, key=lambda c: c.covered[quantity] / c.n)
    worst = f"{least.covered[quantity] / least.n:.3f} of {least.n:,}"
    told, inside = n - sum(c.untold for c in cells), sum(c.told_covered[quantity] for c in cells)
    of_these = (f"{told:,}", f"{inside / max(told, 1):.3f}") if quantity != 1 else ("", "")
    said, wrong = (f"{sum(each):,}" for each in zip(*((c.better, c.false_better) for c in cells), strict=True))
    verdicts = (said, wrong) if quantity == 2 else ("", "")
    return _row(name, f"{n:,}", f"{covered / n:.3f}", worst, *of_these, *verdicts)


def _low(cells: list[Cell]) -> str:
    """Every interval that covered less often than promised, with what its chance may be."""
    lines = []
    for cell in cells:
        for i, quantity in enumerate(("value", "behaviour", "difference")):
            if quantity == "behaviour" and (cell.policy, cell.behaviour) != ("given", "declared"):
                continue
            if cell.covered[i] < PROMISED * cell.n:
                low, high = wilson(cell.covered[i], cell.n)
                epsilon = "none" if cell.epsilon is None else f"{cell.epsilon:g}"
                where = f"{CALLED[cell.world]}, {cell.users:,} users, epsilon {epsilon}"
                whose = "" if quantity == "behaviour" else f", {cell.policy} policy, behaviour {cell.behaviour}"
                text = f"{quantity} {cell.covered[i] / cell.n:.3f} of {cell.n:,} ({low:.3f} to {high:.3f})"
                lines.append(f"* {where}{whose}: {text}")
    if not lines:
        return f"No interval covered less often than {PROMISED:g}."
    head = f"Below {PROMISED:g} (in brackets where a cell's coverage lies with 95% confidence):\n\n"
    return head + "\n".join(lines)


def wilson(covered: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's interval for a proportion."""
    share, more = covered / n, z * z / n
    middle, half = (share + more / 2) / (1 + more), z / (1 + more) * sqrt(share * (1 - share) / n + more / (4 * n))
    return middle - half, middle + half


def _row(*entries: str) -> str:
    return "| " + " | ".join(entries) + " |"
