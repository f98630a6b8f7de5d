"""Hostile tables: random rows of which some hold whatever a cell can hold, in every form that a source can have.

A *family* is a declaration, a form (CSV of some dialect, Parquet, a frame, a table of an engine) and a chain of tables
in which one user after another is replaced. Each table and the next one are neighbours.
"""

from __future__ import annotations

import csv
import io
import itertools
import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import discreet.data as data
from discreet.data import Csv
from discreet.recipes.data_set import OPTIONS, tables

COLUMNS = ("note", "u", "e", "t", "s", "a", "r", "n")  # the note is nobody's column
NUMBERS = ["0", "1", "2", "3", "00", "1.0", "+1", "-0", "1e0", " 1", "1 ", "01", "1."]
ODD = ["", "nan", "inf", "-inf", "1d", "1f", "0x1", "1_0", "0.5", "-1", "99", "1e99", "9" * 18, "9" * 40, "x", "#", ";"]
WILD = ['"', '""', 'a"b', '"a', 'a"', ",", "a,b", "a\nb", "\n", "\r\n", "\r", "a\rb", "\0", "#", "'", "\\", "\\\"", "é",
        "\x85", "\u2028", "\n9,9,9,9,9,9,9\n", '",\n"', "u1", "\t"]  # fmt: skip
OBJECTS = [None, b"\xff", 1, 2.0, float("nan"), True, object(), 10**5000, (1,), "\ud800"]
TEXT = ("csv", "semicolons", "escapes", "bare", "lines")
FORMS = (*TEXT, "parquet", "text parquet", "arrow", "pandas", "engine", "parts")


class Family:
    """A declaration, a form and how to replace a user."""

    def __init__(self, seed: int, form: str, folder, users: int = 5) -> None:
        self.rng, self.form, self.folder = random.Random(seed), form, folder
        rng = self.rng
        self.states, self.actions, self.horizon = rng.randint(1, 3), rng.randint(1, 2), rng.randint(1, 4)
        self.per_user, self.next_state = rng.randint(1, 2), rng.random() < 0.4
        self.pooled = rng.random() < 0.4
        self.early_end = not self.pooled or rng.random() < 0.5
        self.missing = ("end", "drop", "row")[seed % 3]
        self.huge = 3_000_000 if rng.random() < 0.05 else 3000
        self.version, self.text = itertools.count(), rng.random() < 0.5
        self.rows = {user: self.upload() for user in range(users)}

    def replace(self) -> None:
        """Give one user other rows."""
        self.rows[self.rng.choice(list(self.rows))] = self.upload()

    def upload(self) -> list[tuple[str, ...]]:
        """All that one user brings; her own name is in each of it."""
        return [self._row() for _ in range(self.rng.randint(1, 2 * self.horizon + 1))]

    def _row(self) -> tuple[str, ...]:
        rng = self.rng
        row = [self._wild() if rng.random() < 0.3 else "ok", ""]
        for size in (3, self.horizon, self.states, self.actions, 0, self.states):
            row.append(f"{rng.choice([0, 1, rng.random()])}" if size == 0 else str(rng.randrange(size)))
        if rng.random() < 0.5:
            row[-1] = ""
        for place in range(2, len(row)):
            if rng.random() < 0.12:
                row[place] = rng.choice([rng.choice(NUMBERS), rng.choice(ODD), self._wild()])
            if self.form == "pandas" and rng.random() < 0.1:
                row[place] = rng.choice(OBJECTS)
        return tuple(row)

    def _wild(self) -> str:
        rng = self.rng
        text = "".join(rng.choices(WILD, k=rng.randint(1, 3))) if rng.random() < 0.95 else "a" * self.huge
        if self.form == "bare":  # what a file without quotes can hold
            text = text.replace(",", ";").replace("\n", "|")
        return text.replace("\n", " ") if self.form == "lines" else text

    def name(self, user: int) -> str:
        """Names need quotes, too, where there are some."""
        return f"u{user}" if user % 2 or self.form in ("bare", "engine") else f'u, "{user}"'

    def table(self, **declared) -> data.Table:
        """Write the table in its form and declare it."""
        rows = [(row[0], self.name(user), *row[2:]) for user, own in self.rows.items() for row in own]
        self.rng.shuffle(rows)
        source, form = getattr(self, "_" + ("text" if self.form in TEXT else self.form.replace(" ", "_")))(rows)
        usual = {
            "user": "u", "episode": "e", "step": "t", "state": "s", "action": "a", "reward": "r",
            "next_state": "n" if self.next_state else None, "states": self.states, "actions": self.actions,
            "horizon": self.horizon, "per_user": self.per_user, "homogeneous": self.pooled,
            "early_end": self.early_end, "missing": self.missing,
        }  # fmt: skip
        return data.read(source, **{**usual, **form, **self.more(), **declared})

    def more(self) -> dict:
        """What else is declared, or otherwise."""
        return {}

    def _path(self, ending: str):
        return self.folder / f"rows-{self.form.replace(' ', '-')}-{next(self.version)}.{ending}"

    def _text(self, rows):
        options = {"csv": {}, "lines": {}, "semicolons": {"delimiter": ";"},
                   "escapes": {"escapechar": "\\", "doublequote": False, "quoting": csv.QUOTE_ALL},
                   "bare": {}}[self.form]  # fmt: skip
        form = {"csv": Csv(), "lines": Csv(line_breaks=False), "semicolons": Csv(delimiter=";"),
                "escapes": Csv(escape="\\"), "bare": Csv(quote=None)}[self.form]  # fmt: skip
        out = io.StringIO(newline="")
        writer = csv.writer(out, **options)
        writer.writerow(COLUMNS)
        for row in rows:
            out.write(",".join(row) + "\r\n") if self.form == "bare" else writer.writerow(row)
            if self.rng.random() < 0.1:  # whole records that are no rows, of nobody
                broken = ['"a"b,c\r\n', "\r\n", "1,2,3\r\n", "," * 20 + "\r\n"]
                out.write(self.rng.choice([*broken, '"open\r\n'] if self.form == "lines" else broken))
        path = self._path("csv")
        path.write_bytes(out.getvalue().encode("utf-8", "surrogatepass").replace(b"\xc3\xa9", b"\xff"))
        return path, {"csv": form}

    def _arrow_table(self, rows):
        """Steps and so on as floating-point numbers, with NaN and infinities; episodes as text."""
        columns = dict(zip(COLUMNS, zip(*rows, strict=True), strict=True))
        arrays = {name: pa.array(columns[name], pa.string()) for name in ("note", "u", "e")}
        arrays |= {name: pa.array([_number(cell) for cell in columns[name]], pa.float64()) for name in "tsarn"}
        return pa.table(arrays)

    def _parquet(self, rows):
        self.written = self._path("parquet")
        pq.write_table(self._arrow_table(rows), self.written, row_group_size=7)
        return self.written, {}

    def _text_parquet(self, rows):
        """Parquet of nothing but text, which is declared as a frame: a file whose numbers are text is refused."""
        self.written = self._path("parquet")
        pq.write_table(as_text(rows), self.written)
        return pq.read_table(self.written), {}

    def _arrow(self, rows):
        return self._arrow_table(rows), {}

    _parts = _text_parquet

    def _pandas(self, rows):
        import pandas as pd

        return pd.DataFrame(rows, columns=list(COLUMNS), dtype=object), {}

    def _engine(self, rows):
        return in_engine(as_text(rows) if self.text else self._arrow_table(rows)), {}


class OneStep(Family):
    """Tables of one step, of units with many rows, or whose rows are the units."""

    def __init__(self, seed: int, form: str, folder, cap: int | None) -> None:
        self.cap = cap
        super().__init__(seed, form, folder)

    def upload(self) -> list[tuple[str, ...]]:
        self.horizon = 1
        return [self._row() for _ in range(1 if self.cap is None else self.rng.randint(1, 2 * self.cap + 3))]

    def more(self) -> dict:
        if self.cap is None:
            return {"user": None, "episode": None, "per_user": 1}
        return {"cap": self.cap, "episode": None, "per_user": 1}


class Named(Family):
    """Missing as a level of states, and steps that have labels or elapse."""

    def more(self) -> dict:
        steps = data.Elapsed(0.7, -0.5) if self.states % 2 else [str(step) for step in range(self.horizon)]
        return {"missing_level": ["s"], "next_state": None, "steps": steps}


def as_text(rows):
    """Rows as a table of nothing but text, in which empty cells are missing."""
    columns = zip(COLUMNS, zip(*rows, strict=True), strict=True)
    return pa.table({name: pa.array([cell or None for cell in cells], pa.string()) for name, cells in columns})


def in_engine(table):
    """A table of Arrow as one of an SQL engine, by ibis."""
    import duckdb
    import ibis

    connection = duckdb.connect()
    connection.register("given", table)
    connection.execute("CREATE TABLE rows AS FROM given")
    return ibis.duckdb.from_connection(connection).table("rows")


def _number(text: str) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return float("nan")


def moves(table, seed: int):
    """What is counted for every release that ``train`` offers: the tallies and their stated sensitivity."""
    shape, per_user = table.shape, table.declaration.per_user
    joints = {first: table.joint_counts(first_visit=first, seed=seed) for first in {False, shape.homogeneous}}
    found = []
    for pooling in ("first-visit", "every-visit") if shape.homogeneous else ("first-visit",):
        first = pooling == "first-visit" and shape.homogeneous
        for release, rewards in itertools.product(("one", "both"), ("private", "known")):
            options = {**OPTIONS, "release": release, "rewards": rewards, "pooling": pooling, "per_user": per_user}
            released = tables(shape, options)
            cells = np.concatenate([encoder.from_joint(joints[first]) for encoder in released.encoders])
            found.append((cells, released.sensitivity()))
    return found


def check_chain(family: Family, length: int, seed: int) -> int:
    """Replace users one by one; no table may differ from the last by more than is stated. How many had an effect."""
    before, moved = None, 0
    for _ in range(length):
        table = family.table()
        now = table.users(), moves(table, seed)
        if before is not None:
            assert now[0] == before[0] == len(family.rows)
            for (cells, stated), (previous, _) in zip(now[1], before[1], strict=True):
                shift = np.abs(cells - previous)
                assert shift.sum() <= stated.l1
                assert (shift**2).sum() <= stated.l2**2 * (1 + 1e-9)
                assert shift.max(initial=0) <= stated.linf
            moved += bool(np.abs(now[1][0][0] - before[1][0][0]).any())
        before = now
        family.replace()
    return moved
