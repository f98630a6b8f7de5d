"""The same query on Spark: the counts that DuckDB finds, repairs included. Needs Java and Spark."""

from __future__ import annotations

import shutil
from importlib.util import find_spec

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hostile import Family, check_chain

import discreet.data as data
import discreet.offline
from discreet.base.errors import InvalidInput
from discreet.data import Bins, Dates
from discreet.tables.read.engines import IbisSource

pytestmark = [
    pytest.mark.service,
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java, which is not installed"),
    pytest.mark.skipif(find_spec("pyspark") is None, reason="pyspark is not installed: pip install 'discreet[spark]'"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

SECRET = "4815162342"
NAMES = {"user": "u", "episode": "e", "step": "t", "state": "s", "action": "a", "reward": "r"}
DOMAIN = {"states": ["ill", "well", "dead"], "actions": 2, "horizon": 4, "per_user": 2}


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    import ibis
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    yield ibis.pyspark.connect(session)
    session.stop()


@pytest.fixture
def both(spark, write):
    """The same rows on Spark and in a file: random ones, every fifth broken in some way."""
    rng = np.random.default_rng(3)
    rows = 600
    columns = {
        "u": rng.integers(0, 60, rows),
        "e": rng.integers(0, 3, rows),
        "t": rng.integers(0, 5, rows),
        "s": rng.choice(["ill", "well", "dead", SECRET], rows, p=[0.4, 0.3, 0.25, 0.05]),
        "a": rng.choice([0, 1, 2, 9], rows, p=[0.5, 0.4, 0.05, 0.05]),
        "r": rng.choice([0.0, 1.0, 7.0, -3.0, np.nan], rows),
        "n": rng.choice(np.array(["ill", "well", "dead", "gone", None], object), rows, p=[0.2, 0.2, 0.2, 0.05, 0.35]),
    }
    path = write("rows.parquet", **columns)
    table = spark.read_parquet(str(path), table_name="rows")
    declared = {**NAMES, **DOMAIN, "missing": "row"}  # the other rules would leave little of it
    return data.read(table, **declared), data.read(path, **declared), path


def test_spark_counts_what_duckdb_counts(both, capfd):
    on_spark, in_file, _ = both
    assert on_spark.users() == in_file.users()
    found, expected = on_spark.joint_counts(), in_file.joint_counts()
    np.testing.assert_array_equal(found.keys, expected.keys)
    np.testing.assert_array_equal(found.counts, expected.counts)
    assert expected.counts.sum() > 100
    for rule, least in (("end", 10), ("drop", 1)):  # rows that differ
        named = {**NAMES, **DOMAIN, "missing": rule}
        found, expected = (data.read(source, **named).joint_counts() for source in (on_spark.source.table, both[2]))
        np.testing.assert_array_equal(found.keys, expected.keys)
        np.testing.assert_array_equal(found.counts, expected.counts)
        assert expected.counts.sum() >= least
    out, err = capfd.readouterr()
    assert SECRET not in out + err


@pytest.mark.parametrize("pooled", [False, True])
def test_spark_reads_next_states_as_duckdb_does(both, pooled):
    """Missing ones too, which are ends only where nothing follows."""
    named = {**NAMES, **DOMAIN, "next_state": "n", "homogeneous": pooled, "missing": "row"}
    found, expected = (
        data.read(source, **named).joint_counts(first_visit=pooled) for source in (both[0].source.table, both[2])
    )
    np.testing.assert_array_equal(found.keys, expected.keys)
    np.testing.assert_array_equal(found.counts, expected.counts)
    assert expected.counts.sum() > 50


def test_a_policy_from_spark(both):
    on_spark, in_file, _ = both
    rich = {"rho": 1e6, "options": {"penalty_scale": 0.0}}
    fits = [discreet.offline.train(table, **rich) for table in (on_spark, in_file)]
    assert fits[0].facts["declared"] == fits[1].facts["declared"]
    np.testing.assert_allclose(fits[0].values, fits[1].values, atol=1e-6)


def test_errors_of_spark_are_not_repeated(both, capfd, recwarn):
    """A cast that fails on a cell: Spark quotes it, we do not."""
    on_spark, _, _ = both
    with pytest.raises(InvalidInput) as caught:
        on_spark.source.run(lambda table: table.select(x=table.s.cast("int64")))
    out, err = capfd.readouterr()
    said = str(caught.value) + out + err + "".join(str(warning.message) for warning in recwarn)
    assert not any(cell in said for cell in (SECRET, "'ill'", "'well'", "'dead'"))
    assert caught.value.__context__ is None


@pytest.mark.parametrize("text", [False, True], ids=["numbers", "text"])
def test_spark_counts_hostile_tables_as_the_compiled_rules_do(spark, tmp_path, text):
    """NaN, infinities, numbers in odd text, quotes and line breaks: the same cells, levels and positions of rewards."""
    for seed in range(3):
        family = Family(seed, "text parquet" if text else "parquet", tmp_path, users=25)
        here = family.table()
        path = str(family.written)
        name = f"hostile_{text}_{seed}_{next(family.version)}"
        there = data.Table(IbisSource("Spark", spark.read_parquet(path, table_name=name)), here.declaration)
        assert here.users() == there.users() == 25
        for levels, first in ((2, False), (17, family.pooled)):
            for ours, theirs in zip(here._sums(levels, first), there._sums(levels, first), strict=True):
                np.testing.assert_array_equal(ours, theirs)


def test_replacing_a_user_on_spark(spark, tmp_path):
    """Ten neighbours: users, and every release, against what is stated."""
    family = Family(11, "text parquet", tmp_path)
    written = family.table

    def table():
        here = written()
        path, name = str(family.written), f"neighbour_{next(family.version)}"
        return data.Table(IbisSource("Spark", spark.read_parquet(path, table_name=name)), here.declaration)

    family.table = table
    assert check_chain(family, 10, 0) > 1


@pytest.mark.parametrize("dates", [Dates(days=7), Dates(days=3, origin="2024-01-02")], ids=["own", "declared"])
def test_dates_bins_and_several_columns_on_spark(spark, tmp_path, dates):
    rng = np.random.default_rng(1)
    rows = 300
    days = np.datetime64("2024-01-01") + rng.integers(0, 40, rows)
    written = np.where(rng.random(rows) < 0.1, "2024-02-30", days.astype(str))
    columns = {
        "u": pa.array(rng.integers(0, 40, rows)), "d": pa.array(days), "w": pa.array(written),
        "x": pa.array(rng.normal(0, 2, rows)), "y": pa.array(rng.choice(["lo", "hi", "?"], rows)),
        "a": pa.array(rng.integers(0, 3, rows)), "r": pa.array(rng.random(rows)),
    }  # fmt: skip
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table(columns), path)
    there = spark.read_parquet(str(path), table_name=f"dated_{dates.days}")
    for step, missing in (("d", "end"), ("d", "row"), ("w", "drop"), ("w", "row")):
        declared = {
            "user": "u", "step": step, "state": ("x", "y"), "states": (Bins([-1, 0, 1, 9]), ["lo", "hi"]),
            "action": "a", "actions": 2, "reward": "r", "horizon": 5, "dates": dates, "missing": missing,
        }  # fmt: skip
        found, expected = (data.read(source, **declared)._sums(2, False) for source in (there, path))
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        assert found.counts.sum() > 20 or missing != "row"


@pytest.mark.parametrize(
    "declared",
    [
        {"user": None, "state": "s", "states": ["ill", "well"], "horizon": 1},
        {"user": "u", "step": "t", "state": ("n", "s"), "states": (["ill", "well"], ["ill", "well", "dead"]),
         "horizon": 5, "missing_level": ("n",), "missing": "row"},
        {"user": "u", "step": "s", "steps": ["ill", "well", "dead"], "state": "a", "states": 3, "missing": "row"},
        {"user": "u", "step": "d", "steps": data.Elapsed(7.5, -1), "state": "a", "states": 3, "horizon": 4},
    ],
)  # fmt: skip
def test_spark_reads_rows_as_units_levels_and_steps_as_files_are_read(spark, write, declared):
    rng = np.random.default_rng(4)
    columns = {
        "u": rng.integers(0, 60, 300),
        "t": rng.integers(0, 6, 300),
        "s": rng.choice(["ill", "well", "dead", SECRET], 300, p=[0.4, 0.3, 0.25, 0.05]),
        "n": rng.choice(np.array(["ill", "well", None], object), 300, p=[0.4, 0.2, 0.4]),
        "a": rng.choice([0, 1, 2], 300),
        "d": rng.choice([-2.0, -1.0, 6.4999, 6.5, 20.0, 1e300, np.nan], 300, p=[0.05, 0.3, 0.1, 0.3, 0.15, 0.05, 0.05]),
        "r": rng.choice([0.0, 1.0], 300),
    }
    path = write("levels.parquet", **columns)
    declared = {"action": "a", "reward": "r", "actions": 2, **declared}
    on_spark = data.read(spark.read_parquet(str(path), table_name="levels"), **declared)
    in_file = data.read(path, **declared)
    assert on_spark.users() == in_file.users()
    one, other = on_spark.joint_counts(seed=1), in_file.joint_counts(seed=1)
    assert np.array_equal(one.keys, other.keys)
    assert np.array_equal(one.counts, other.counts)
    assert len(one.keys) > 3
