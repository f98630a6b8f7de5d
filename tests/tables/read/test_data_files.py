"""A path is the file that it names, folders are columns only where declared, and no value in a file stops a run."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import discreet.data as data
from discreet.base.errors import InvalidInput

S, A, H = 5, 3, 4
NAMES = {"user": "patient", "step": "day", "state": "state", "action": "drug"}
DOMAIN = {"states": S, "actions": A, "horizon": H}


def visits(path, users, first=0, states=S, **changed):
    path.parent.mkdir(parents=True, exist_ok=True)
    i = np.arange(users * H)
    columns = {"patient": i // H + first, "day": i % H, "state": i % states, "drug": i % A, **changed}
    pq.write_table(pa.table(columns), path)
    return path


def read(path, **declared):
    return data.read(path, **NAMES, **DOMAIN, **declared)


class TestNames:
    @pytest.mark.parametrize("name", ["visits[1]", "v*", "v?", "v{1,2}", "v\\1", "v'1", "~v", "v%31"])
    def test_no_character_is_a_pattern(self, tmp_path, name):
        visits(tmp_path / "visits1.parquet", 700)
        visits(tmp_path / "vvv.parquet", 50, first=1000)
        path = visits(tmp_path / f"{name}.parquet", 11, first=5000)
        assert read(path).users() == 11
        assert read(path).joint_counts().counts.sum() == 44
        assert read(tmp_path).users() == 761  # and the same for each file of a folder

    def test_the_same_for_text(self, tmp_path):
        for name, users in (("v[1].csv", 3), ("v1.csv", 9)):
            rows = "".join(f"{user},0,0,0\n" for user in range(users))
            (tmp_path / name).write_text("patient,day,state,drug\n" + rows)
        assert read(tmp_path / "v[1].csv").users() == 3

    def test_a_name_that_no_file_can_have(self):
        with pytest.raises(InvalidInput, match="there is no file or folder"):
            read("x" * 5000 + ".parquet")


class TestFolders:
    def test_their_names_do_not_overwrite_columns(self, tmp_path):
        joint = read(visits(tmp_path / "state=4" / "drug=zzz" / "v.parquet", 100, states=4)).joint_counts()
        assert joint.counts.sum() == 400
        assert set((joint.keys // 2 // (S + 1) // A % S).tolist()) == {0, 1, 2, 3}

    def test_declared_ones_are_columns(self, tmp_path):
        for state in range(3):
            path = tmp_path / f"state={state}" / "v.parquet"
            path.parent.mkdir()
            pq.write_table(pa.table({"patient": [state, 7], "day": [0, state], "drug": [0, 1]}), path)
        joint = read(tmp_path, partitions=["state"]).joint_counts()
        assert joint.counts.sum() == 6
        assert set((joint.keys // 2 // (S + 1) // A % S).tolist()) == {0, 1, 2}

    def test_one_that_is_in_the_file_too_is_refused(self, tmp_path):
        visits(tmp_path / "state=4" / "v.parquet", 2)
        with pytest.raises(InvalidInput, match="has a column 'state' of its own"):
            read(tmp_path, partitions=["state"])
        with pytest.raises(InvalidInput, match="is not in a folder site="):
            read(tmp_path, partitions=["site"])

    def test_files_that_differ_are_refused_by_their_schema(self, tmp_path):
        visits(tmp_path / "a.parquet", 2)
        visits(tmp_path / "b.parquet", 2, state=np.array(["x"] * 8))
        with pytest.raises(InvalidInput, match="column 'state' has another type"):
            read(tmp_path)
        pq.write_table(pa.table({"patient": [1], "day": [0], "drug": [0]}), tmp_path / "b.parquet")
        with pytest.raises(InvalidInput, match="column 'state' is not in all files"):
            read(tmp_path)


class TestValues:
    @pytest.mark.parametrize("column", ["day", "state", "drug", "outcome"])
    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300, 0.5])
    def test_none_stops_a_run(self, tmp_path, column, value):
        """An engine may leave out a test of range that the file's minimum and maximum answer: NaN is not in them."""
        i = np.arange(200 * H)
        columns = {"day": i % H, "state": i % S, "drug": i % A, "outcome": i % 2}
        for changed in (False, True):
            given = {name: values.astype(float) for name, values in columns.items()}
            if changed:
                given[column][77] = value
            path = visits(tmp_path / "v.parquet", 200, **given)
            table = read(path, reward="outcome")
            assert table.users() == 200
            lost = 800 - table.joint_counts().counts.sum()
            assert lost == 0 if column == "outcome" or not changed else 0 < lost <= H

    @pytest.mark.parametrize("kind", [pa.int8(), pa.uint64(), pa.float32(), pa.decimal128(25, 3)])
    def test_every_type_of_number_counts_the_same(self, tmp_path, kind):
        expected = read(visits(tmp_path / "plain.parquet", 20)).joint_counts()
        state = pa.array([i % S for i in range(20 * H)]).cast(kind)
        found = read(visits(tmp_path / "v.parquet", 20, state=state)).joint_counts()
        np.testing.assert_array_equal(found.keys, expected.keys)
        np.testing.assert_array_equal(found.counts, expected.counts)

    def test_numbers_beyond_all_domains(self, tmp_path):
        state = pa.array([2**64 - 1, 0, 1, 2] * 3, pa.uint64())
        path = visits(tmp_path / "v.parquet", 3, state=state)
        assert read(path, missing="row").joint_counts().counts.sum() == 9
        assert read(path).joint_counts().counts.sum() == 0  # records end before their first row

    def test_text_that_is_none(self, tmp_path):
        """Bytes in a column of text that are not UTF-8 are another user, and no label."""
        offsets = pa.array([0, 1, 3, 4], pa.int32()).buffers()[1]
        broken = pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer(b"a\xff\xfeb")])
        columns = {"patient": broken, "day": [0, 0, 0], "state": broken, "drug": [0, 0, 0]}
        pq.write_table(pa.table(columns), tmp_path / "v.parquet")
        table = data.read(tmp_path / "v.parquet", **NAMES, states=["a", "b"], actions=1, horizon=1)
        assert table.users() == 3
        assert table.joint_counts().counts.tolist() == [1, 1]

    @pytest.mark.parametrize("kind", [pa.bool_(), pa.list_(pa.int64()), pa.duration("s")])
    def test_columns_that_cannot_be_what_is_declared_are_refused_at_once(self, tmp_path, kind):
        path = visits(tmp_path / "v.parquet", 2, state=pa.nulls(8, kind))
        with pytest.raises(InvalidInput, match="column 'state' holds the state and must be numeric"):
            read(path)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
@pytest.mark.parametrize("role", ["state", "drug", "day", "reward"])
def test_text_where_numbers_are_declared_is_refused_before_anything_is_spent(tmp_path, role, kind):
    """A file with types says what it holds: "1,5" or "lost" in a column of text would be missing, row by row."""
    path = tmp_path / "v.parquet"
    columns = {"patient": [0, 1], "day": [0, 0], "state": [0, 1], "drug": [0, 1], "reward": [0.0, 1.0]}
    text = pa.array([str(cell) for cell in columns[role]]).cast(kind)
    pq.write_table(pa.table({**columns, role: text}), path)
    with pytest.raises(InvalidInput, match=f"column '{role}' holds the .* and must be numeric, its type is .*string"):
        data.read(path, **NAMES, reward="reward", states=2, actions=2, horizon=1)
    pq.write_table(pa.table(columns), path)
    assert data.read(path, **NAMES, reward="reward", states=2, actions=2, horizon=1).users() == 2


def test_folders_are_text_and_may_say_numbers(tmp_path):
    for state in (0, 1):
        (tmp_path / f"state={state}").mkdir()
        pq.write_table(
            pa.table({"patient": [state], "day": [0], "drug": [0]}), tmp_path / f"state={state}" / "v.parquet"
        )
    table = data.read(tmp_path, **NAMES, states=2, actions=1, horizon=1, partitions=["state"])
    assert table.joint_counts().counts.tolist() == [1, 1]


def test_tables_of_a_database_are_found_by_their_names(tmp_path):
    path = tmp_path / "store.duckdb"
    with duckdb.connect(str(path)) as connection:
        for name in ('"a.b"', "plain", "other.plain"):
            connection.execute("CREATE SCHEMA IF NOT EXISTS other")
            connection.execute(
                f"CREATE TABLE {name} AS SELECT 1 AS patient, 0 AS day, 'NaN'::DOUBLE AS state, 0 AS drug"
            )
    assert read(path, table="a.b").users() == 1
    assert read(path, table="other.plain").joint_counts().counts.sum() == 0
    with pytest.raises(InvalidInput, match="several tables 'plain'"):
        read(path, table="plain")
    with pytest.raises(InvalidInput, match="no table 'nowhere'"):
        read(path, table="nowhere")
