"""Tables that people have: pandas, Arrow, anything with its stream, ibis; bins, several columns, dates as steps."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hostile import in_engine

import discreet.data as data
from discreet.base.errors import InvalidInput
from discreet.data import Bins, Dates

NAMES = {"user": "u", "step": "t", "state": "s", "action": "a", "reward": "r"}
DOMAIN = {"states": 3, "actions": 2, "horizon": 4, "missing": "row"}


class Streamed:
    """A table of some other library: it has the stream of Arrow and nothing else."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def rows(users=30):
    rng = np.random.default_rng(0)
    many = users * 4
    return {
        "u": np.repeat([f"user {user}" for user in range(users)], 4),
        "t": np.tile(np.arange(4), users),
        "s": rng.integers(0, 4, many),  # some are outside their domain
        "a": rng.integers(0, 2, many),
        "r": rng.choice([0.0, 0.25, 1.0, np.nan], many),
    }


def arrow(columns):
    return pa.table({name: pa.array(values, from_pandas=True) for name, values in columns.items()})


FORMS = {
    "arrow": arrow,
    "a stream": lambda columns: Streamed(arrow(columns)),
    "a reader": lambda columns: arrow(columns).to_reader(),
    "chunks": lambda columns: pa.concat_tables([arrow(columns).slice(0, 50), arrow(columns).slice(50)]),
    "dictionaries": lambda columns: pa.table(
        {name: column.combine_chunks().dictionary_encode() for name, column in zip(columns, arrow(columns).columns)}
    ),
    "pandas": pd.DataFrame,
    "objects": lambda columns: pd.DataFrame(columns).astype(object),
    "categories": lambda columns: pd.DataFrame(columns).astype({"u": "category", "s": "category"}),
    "nullable": lambda columns: pd.DataFrame(columns).convert_dtypes(),
    "ibis": lambda columns: in_engine(arrow(columns)),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_kind_of_table_counts_the_same(tmp_path, form):
    path = tmp_path / "rows.parquet"
    pq.write_table(arrow(rows()), path)
    expected = data.read(path, **NAMES, **DOMAIN)
    found = data.read(FORMS[form](rows()), **NAMES, **DOMAIN)
    assert found.users() == expected.users() == 30
    for ours, theirs in zip(found.joint_counts(seed=3)[:2], expected.joint_counts(seed=3)[:2], strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert data.check(found) == data.check(expected)
    assert "user" not in repr(found) + repr(found.source)


def labelled_rows():
    """Positions 1 to 3, and arms 1 to 4 of which some are missing, which makes them floats in pandas."""
    rng = np.random.default_rng(5)
    arms = rng.choice([1.0, 2.0, 3.0, 4.0, 9.0, np.nan], 120)
    return {**rows(), "s": rng.integers(0, 5, 120), "a": arms}


def in_file(tmp_path, name):
    import duckdb

    whole = pa.table(labelled_rows()).set_column(3, "a", pa.array(labelled_rows()["a"], from_pandas=True).cast("int64"))
    frame, path = whole, tmp_path / name
    if name.endswith(".parquet"):
        pq.write_table(frame, path)
    elif name.endswith(".csv"):
        frame.to_pandas().astype({"a": "Int64"}).to_csv(path, index=False)
    else:
        with duckdb.connect(str(path)) as connection:
            connection.execute("CREATE TABLE rows AS SELECT * FROM frame")
    return path


@pytest.mark.parametrize("form", [*FORMS, "polars", "rows.parquet", "rows.csv", "rows.duckdb"])
def test_numbers_are_labels_in_every_kind_of_table(tmp_path, form):
    """As many cells of every arm as numpy counts; the last arm is not dropped, and 9 is no label."""
    if "." in form:
        source = in_file(tmp_path, form)
    elif form == "polars":
        source = pytest.importorskip("polars").DataFrame(pd.DataFrame(labelled_rows()).to_dict("list"))
    else:
        source = FORMS[form](labelled_rows())
    table = data.read(
        source, **NAMES, **{**DOMAIN, "states": ["1", "2", "3"], "actions": [2, 1, 3, 4]},
        table="rows" if form.endswith("duckdb") else None, early_end=False,
    )  # fmt: skip
    drawn = labelled_rows()
    coded = {**drawn, "s": drawn["s"] - 1, "a": [{2: 0, 1: 1, 3: 2, 4: 3}.get(arm, -1) for arm in drawn["a"]]}
    expected = data.read(arrow(coded), **NAMES, **{**DOMAIN, "actions": 4}, early_end=False)
    for ours, theirs in zip(table.joint_counts(seed=3)[:2], expected.joint_counts(seed=3)[:2], strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert data.check(table).dropped == data.check(expected).dropped < 100


def test_numbers_that_are_labels_as_they_are_written():
    table = pa.table({"u": [1, 2, 3, 4, 5], "t": [0] * 5, "s": [0.5, 1.0, 2.0, 0.1, None], "a": [-1, 10, 10, 10, 10]})
    labels = {"states": ["0.5", "1", "02", "0.10"], "actions": ["-1", "010", "10"], "horizon": 1}
    for source in (table, in_engine(table)):
        found = data.read(source, user="u", step="t", state="s", action="a", **labels).joint_counts(seed=1)
        assert (found.keys // 2 // 5).tolist() == [0, 5], "0.5 with -1, and 1 with 10; 02 and 0.10 are no numbers"


def test_missing_columns_of_frames_are_named():
    with pytest.raises(InvalidInput, match="has no column 'x'; it has only u, t, s, a, r of those that were declared"):
        data.read(arrow(rows()), **{**NAMES, "state": "x"}, **DOMAIN)
    with pytest.raises(InvalidInput, match="more than one column 's'"):
        data.read(pd.DataFrame(np.zeros((1, 5)), columns=list("utsas")), **{**NAMES, "reward": None}, **DOMAIN)


def both(columns, **declared):
    """The cells of a table, by the compiled rules and by the query."""
    table = arrow(columns)
    found = [data.read(source, **declared) for source in (table, in_engine(table))]
    ours, theirs = (each.joint_counts(seed=0) for each in found)
    assert ours.keys.tolist() == theirs.keys.tolist()
    assert ours.counts.tolist() == theirs.counts.tolist()
    shape = found[0].shape
    axes = (shape.groups, shape.states, shape.actions, shape.states + 1, 2)
    cells = zip(*np.unravel_index(ours.keys, axes), strict=True)
    return {tuple(int(i) for i in cell): int(n) for cell, n in zip(cells, ours.counts, strict=True)}


class TestBins:
    def test_edges_belong_to_the_bin_above_and_the_last_one_to_the_last(self):
        values = [0.0, 0.999, 1.0, 2.5, 3.0, 3.001, -0.1, np.nan]
        columns = {"u": np.arange(8), "t": np.zeros(8, int), "s": values, "a": np.zeros(8, int)}
        names = {**NAMES, "reward": None}
        found = both(columns, **names, states=Bins([0, 1, 2, 3]), actions=1, horizon=1)
        assert found == {(0, 0, 0, 3, 0): 2, (0, 1, 0, 3, 0): 1, (0, 2, 0, 3, 0): 2}

    def test_infinite_edges_catch_everything(self):
        columns = {"u": np.arange(3), "t": np.zeros(3, int), "s": [-np.inf, 0.0, 1e300], "a": np.zeros(3, int)}
        names = {**NAMES, "reward": None}
        found = both(columns, **names, states=Bins([-np.inf, 0, np.inf]), actions=1, horizon=1)
        assert found == {(0, 0, 0, 2, 0): 1, (0, 1, 0, 2, 0): 2}

    @pytest.mark.parametrize("edges", [[1], [1, 1], [2, 1], [0, np.nan], ["x", "y"], 3])
    def test_edges_that_are_none(self, edges):
        with pytest.raises(InvalidInput, match="edges of bins"):
            Bins(edges)


class TestSeveralColumns:
    def test_the_last_one_counts_fastest(self):
        columns = {
            "u": [1, 1, 2, 3], "t": [0, 1, 0, 0], "heart": ["slow", "fast", "fast", "slow"],
            "pressure": [0.5, 9.0, 1.5, None], "a": [0, 1, 0, 0], "b": [1, 2, 0, 0],
        }  # fmt: skip
        found = both(
            columns, user="u", step="t", state=("heart", "pressure"), action=("a", "b"), horizon=2,
            states=(["slow", "fast"], Bins([0, 1, 10])), actions=(2, 3),
        )  # fmt: skip
        assert found == {(0, 0, 1, 3, 0): 1, (1, 3, 5, 4, 0): 1, (0, 3, 0, 4, 0): 1}

    def test_next_states_have_as_many(self):
        columns = {"u": [1, 2, 3], "t": [0, 0, 0], "x": [0, 0, 0], "y": [1, 1, 1], "a": [0, 0, 0],
                   "nx": [1, None, 1], "ny": [0, None, None]}  # fmt: skip
        declared = {"user": "u", "step": "t", "state": ("x", "y"), "action": "a", "states": (2, 2), "actions": 1,
                    "missing": "row"}  # fmt: skip
        found = both(columns, **declared, next_state=("nx", "ny"), horizon=3)
        assert found == {(0, 1, 0, 2, 0): 1, (0, 1, 0, 4, 0): 1}  # one that is half missing is dropped
        with pytest.raises(InvalidInput, match="as many columns as state"):
            data.read(arrow(columns), **declared, next_state="nx", horizon=3)
        with pytest.raises(InvalidInput, match="one domain for each of the 2 columns"):
            data.read(arrow(columns), **{**declared, "states": 4}, horizon=3)


class TestDates:
    DAYS = tuple(datetime.date.fromisoformat(day) for day in ("2024-02-27", "2024-02-29", "2024-03-05", "2024-01-01"))

    def columns(self, kind):
        dates = {
            "date": self.DAYS,
            "time": [datetime.datetime.combine(day, datetime.time(13, 30)) for day in self.DAYS],
            "text": [f"{day.isoformat()}{' 10:00' if n else ''}" for n, day in enumerate(self.DAYS)],
        }[kind]
        return {"u": [1, 1, 1, 2], "t": pa.array(dates), "s": [0, 1, 2, 0], "a": [0, 0, 0, 0]}

    def counted(self, kind, **declared):
        columns = self.columns(kind)
        table = pa.table({**columns, "t": columns["t"]})
        names = {**NAMES, "reward": None}
        found = [
            data.read(source, **names, states=3, actions=1, missing="row", **declared).joint_counts(seed=0)
            for source in (table, in_engine(table))
        ]
        assert found[0].keys.tolist() == found[1].keys.tolist()
        rest = found[0].keys // 2
        return sorted(zip((rest // 4 // 3).tolist(), (rest // 4 % 3).tolist(), (rest % 4).tolist(), strict=True))

    @pytest.mark.parametrize("kind", ["date", "time", "text"])
    def test_from_the_first_date_of_each_user(self, kind):
        """Days 0, 2 and 7 of the first user, day 0 of the second."""
        counted = self.counted(kind, horizon=2, dates=Dates(days=7))
        assert counted == [(0, 0, 2), (0, 0, 3), (1, 2, 3)]  # of the first week the smaller state is kept
        assert self.counted(kind, horizon=8, dates=Dates()) == [(0, 0, 3), (7, 2, 3)]  # gaps before days 2 and 7

    @pytest.mark.parametrize("kind", ["date", "time", "text"])
    def test_from_a_declared_day(self, kind):
        counted = self.counted(kind, horizon=3, dates=Dates(days=30, origin="2024-01-01"))
        assert counted == [(0, 0, 3), (1, 0, 2), (2, 2, 3)]
        assert (
            self.counted(kind, horizon=8, dates=Dates(origin=datetime.date(2024, 2, 29))) == [(0, 1, 3), (5, 2, 3)][1:]
        )

    def test_dates_that_are_none(self):
        for origin in ("yesterday", 5, datetime.datetime(2024, 1, 1)):
            with pytest.raises(InvalidInput, match="origin must be a date"):
                Dates(origin=origin)
        with pytest.raises(InvalidInput, match="holds the date of the step"):
            data.read(arrow(rows()), **NAMES, **DOMAIN, dates=Dates())


def test_nan_is_a_missing_next_state_and_no_user():
    table = pa.table(
        {
            "u": [0.0, -0.0, float("nan"), 1.0],
            "t": [0, 1, 0, 0],
            "s": [0] * 4,
            "a": [0] * 4,
            "n": [None, 1.0, 0.0, float("nan")],
        }
    )
    declared = {"user": "u", "step": "t", "state": "s", "action": "a", "states": 2, "actions": 1, "horizon": 3,
                "missing": "row"}  # fmt: skip
    found = [data.read(source, **declared, next_state="n") for source in (table, in_engine(table))]
    assert [each.users() for each in found] == [2, 2]  # zero is one user, whatever its sign
    ours, theirs = (each.joint_counts(seed=0) for each in found)
    assert ours.keys.tolist() == theirs.keys.tolist() == [0, 4, 14]  # (step, state, action, successor), reward level 0


@pytest.mark.parametrize("form", [*FORMS, "rows.parquet", "rows.csv", "rows.duckdb"])
def test_one_step_needs_no_column_of_steps(tmp_path, form):
    """The same counts as with a column of zeros: one row of each user, by the old rule the smallest."""
    kept = {name: column for name, column in labelled_rows().items() if name != "t"}
    source = in_file(tmp_path, form) if "." in form else FORMS[form](kept)
    declared = {**NAMES, "states": ["1", "2", "3"], "actions": ["1", "2", "3", "4"], "horizon": 1, "missing": "row"}
    found = data.read(source, **{**declared, "step": None}, table="rows" if form.endswith("duckdb") else None)
    expected = data.read(arrow({**kept, "t": np.zeros(120, np.int64)}), **declared)
    for ours, theirs in zip(found.joint_counts(seed=3)[:2], expected.joint_counts(seed=3)[:2], strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert 20 < expected.joint_counts(seed=3).counts.sum() <= 30
    assert data.check(found).dropped == data.check(expected).dropped


def test_several_steps_need_a_column():
    for more in ({"horizon": 2}, {"horizon": 1, "dates": Dates(7)}):
        with pytest.raises(InvalidInput, match="step= is missing: name the column of steps, which horizon=1 alone"):
            data.read(arrow(rows()), user="u", state="s", action="a", states=3, actions=2, **more)
