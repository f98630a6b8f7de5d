"""Tables of the real polars: all its ways to hold a column count like Parquet, and what has no type is refused."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from test_sources import DOMAIN, NAMES, arrow, rows

import discreet.data as data
from discreet.base.errors import DiscreetError, InvalidInput
from discreet.data import Dates

pl = pytest.importorskip("polars", reason="polars is not installed")


def frame(columns=None):
    """The rows of the other tests; missing rewards are NaN."""
    return pl.DataFrame({name: values.tolist() for name, values in (columns or rows()).items()})


def cast(**types):
    return frame().with_columns(pl.col(name).cast(kind) for name, kind in types.items())


USERS = sorted(set(rows()["u"].tolist()))
FORMS = {
    "plain": frame,
    "nulls": lambda: frame().with_columns(pl.col("r").fill_nan(None)),
    "lazy": lambda: frame().lazy(),
    "a lazy query": lambda: frame().lazy().with_columns(extra=pl.col("s") * 2).filter(pl.col("t") >= 0),
    "pieces": lambda: pl.concat([frame()[:50], frame()[50:]], rechunk=False),
    "categories": lambda: cast(u=pl.Categorical),
    "an enumeration": lambda: cast(u=pl.Enum(USERS)),
    "small numbers": lambda: cast(t=pl.UInt8, s=pl.Int8, a=pl.UInt16, r=pl.Float32),
    "decimals": lambda: cast(s=pl.Decimal(10, 2)),
    "text": lambda: cast(s=pl.String, t=pl.String),
    "bytes": lambda: cast(u=pl.Binary),
    "columns that nobody declared": lambda: frame().with_columns(
        pl.Series("objects", [object()] * 120, dtype=pl.Object), pl.col("s").cast(pl.Int128).alias("^.*$")
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_counts_the_same(form):
    expected, found = (data.read(source, **NAMES, **DOMAIN) for source in (arrow(rows()), FORMS[form]()))
    assert found.users() == expected.users() == 30
    for ours, theirs in zip(found.joint_counts(seed=3)[:2], expected.joint_counts(seed=3)[:2], strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert data.check(found) == data.check(expected)
    assert "user" not in repr(found) + repr(found.source)


def test_dates_are_steps():
    days = pl.DataFrame(
        {"u": [1, 1, 2], "t": ["2026-01-01", "2026-01-03", "2026-02-01"], "s": [0, 1, 2], "a": [0, 0, 0]}
    )
    names = {**NAMES, "reward": None}
    for kind in (pl.Date, pl.Datetime("us"), pl.Datetime("ns"), pl.String):
        source = days.with_columns(pl.col("t").str.to_date().cast(kind))
        found = data.read(source, **names, states=3, actions=1, horizon=4, dates=Dates(2))
        assert found.users() == 2
        assert found.joint_counts(seed=0).counts.sum() == 3


@pytest.mark.parametrize("name", ["u", "t", "s", "r"])
def test_columns_of_python_objects_are_refused(name):
    """Their Arrow stream holds addresses: two equal names of one user would be two users."""
    objects = frame().with_columns(pl.Series(name, frame()[name].to_list(), dtype=pl.Object))
    assert pa.types.is_fixed_size_binary(pa.table(objects.select(name)).schema.field(name).type)
    for source in (objects, objects.lazy()):
        with pytest.raises(InvalidInput, match=f"column '{name}' holds Python objects"):
            data.read(source, **NAMES, **DOMAIN)


def test_types_that_hold_no_number_are_refused():
    for source in (frame().with_columns(s=pl.concat_list("s")), frame().with_columns(s=pl.col("s") > 1)):
        with pytest.raises(InvalidInput, match="holds the state and must be numeric"):
            data.read(source, **NAMES, **DOMAIN)
    with pytest.raises(InvalidInput, match="cannot be read"):
        data.read(cast(s=pl.Int128), **NAMES, **DOMAIN)  # Arrow has no such numbers


def test_missing_columns_are_named():
    with pytest.raises(InvalidInput, match="has no column 'x'"):
        data.read(frame(), **{**NAMES, "state": "x"}, **DOMAIN)
    with pytest.raises(InvalidInput, match="has no column"):
        data.read(frame().select("r").rename({"r": "z"}), **NAMES, **DOMAIN)


@pytest.mark.parametrize(
    "query",
    [
        lambda lazy: lazy.with_columns(s=pl.col("u").cast(pl.Int64)),
        lambda lazy: lazy.with_columns(pl.col("nowhere")),
        lambda lazy: lazy.with_columns(s=pl.col("u").str.to_date().dt.day()),
        lambda lazy: lazy.with_columns(s=pl.col("u").map_elements(lambda user: 1 / 0, return_dtype=pl.Int64)),
    ],
    ids=["a cast", "a column", "a date", "a function"],
)
def test_a_lazy_query_that_fails_quotes_nothing(query, capfd):
    """polars names the cells that upset it; the error here does not, and has no other error behind it."""
    with pytest.raises(DiscreetError, match="cannot be read") as caught:
        data.read(query(frame().lazy()), **NAMES, **DOMAIN)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    told = str(caught.value) + "".join(capfd.readouterr())
    assert "user " not in told


def test_a_panic_of_polars_is_an_error_of_ours(monkeypatch):
    def panic(self):
        raise pl.exceptions.PanicException("user 7")

    monkeypatch.setattr(pl.LazyFrame, "collect", panic)
    with pytest.raises(InvalidInput, match="cannot be read") as caught:
        data.read(frame(), **NAMES, **DOMAIN)
    assert "user 7" not in str(caught.value)
    assert caught.value.__context__ is None


def test_users_are_those_of_names_and_not_of_categories():
    """Categories are numbered per table; a category that nobody has is nobody, and a missing one is nobody either."""
    users = pl.Series("u", ["b", None, "a", "b"], dtype=pl.Enum(["z", "a", "b"]))
    table = pl.DataFrame([users]).with_columns(t=pl.Series([0, 0, 0, 1]), s=0, a=0)
    found = data.read(table, **{**NAMES, "reward": None}, **DOMAIN)
    assert found.users() == 2
