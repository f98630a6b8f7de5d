"""Counting in the engine: the same cells as the compiled encoder, from every kind of source, with every repair."""

from __future__ import annotations

import numpy as np
import polars
import pyarrow as pa
import pytest

import discreet.data as data
from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.streams import stream
from discreet.mechanisms.counts.encoder import encode
from discreet.mechanisms.counts.joint_histogram import MarginalTable
from discreet.mechanisms.trajectories import Trajectories
from discreet.tables.read.grouping import without_repeats
from discreet.tables.read.table_check import NOT_PRIVATE

S, A, H = 3, 2, 4
NAMES = {"user": "u", "step": "t", "state": "s", "action": "a", "reward": "r"}
DOMAIN = {"states": S, "actions": A, "horizon": H, "missing": "row"}


def records(users=60, seed=1):
    rng = np.random.default_rng(seed)
    return Trajectories(
        rng.integers(0, S, (users, H)), rng.integers(0, A, (users, H)), rng.integers(0, 2, (users, H)).astype(float),
        rng.integers(1, H + 1, users),
    )  # fmt: skip


def columns(trajectories):
    """The long table of some trajectories, in no particular order."""
    user, step = np.nonzero(np.arange(H) < trajectories.lengths[:, None])
    order = np.random.default_rng(0).permutation(len(user))
    user, step = user[order], step[order]
    fields = (trajectories.states, trajectories.actions, trajectories.rewards)
    s, a, r = (field[user, step] for field in fields)
    return {"u": user, "t": step, "s": s, "a": a, "r": r}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rows.parquet", "rows.csv"])
def test_both_forms_of_the_encoder_agree(write, name):
    """The relational query and the compiled kernel count the same cells."""
    path = write(name, **columns(records()))
    for homogeneous in (False, True):
        table = data.read(path, **NAMES, **DOMAIN, homogeneous=homogeneous, early_end=False)
        assert table.users() == 60
        for first_visit in (False, True) if homogeneous else (False,):
            joint = table.joint_counts(first_visit=first_visit)
            encoder = MarginalTable(table.shape, bits=True, first_visit=first_visit)
            expected = encode(encoder, records(), stream(0, 0, 0)).sum(axis=0)
            np.testing.assert_array_equal(encoder.from_joint(joint), expected)
            assert (np.diff(joint.keys) > 0).all()


def test_folders_and_databases(write, tmp_path):
    rows = columns(records())
    expected = data.read(write("all.parquet", **rows), **NAMES, **DOMAIN).joint_counts()
    (tmp_path / "parts").mkdir()
    half = len(rows["u"]) // 2
    for number, part in enumerate((slice(None, half), slice(half, None))):
        write(f"parts/{number}.parquet", **{name: values[part] for name, values in rows.items()})
    database = write("store.duckdb", **rows)
    for found in (
        data.read(tmp_path / "parts", **NAMES, **DOMAIN),
        data.read(database, table="rows", **NAMES, **DOMAIN),
    ):
        np.testing.assert_array_equal(found.joint_counts().keys, expected.keys)
        np.testing.assert_array_equal(found.joint_counts().counts, expected.counts)


def cells_of(path, **declared):
    """The cells that occur, as (step, state, action, successor or end, bit): count."""
    table = data.read(path, **{**NAMES, **DOMAIN, **declared})
    joint, shape = table.joint_counts(), table.shape
    axes = (shape.groups, shape.states, shape.actions, shape.states + 1, 2)
    where = zip(*np.unravel_index(joint.keys, axes), strict=True)
    return {tuple(int(i) for i in cell): int(count) for cell, count in zip(where, joint.counts, strict=True)}


def rows_of(*rows, names="utsar"):
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}


ONE_OF_EACH = {(0, 0, 0, 3, 1): 1, (0, 0, 0, 3, 0): 1}
REPAIRS = {
    "a plain short episode ends": ([(1, 0, 0, 1, 1.0), (1, 1, 2, 0, 0.0)], {(0, 0, 1, 2, 1): 1, (1, 2, 0, 3, 0): 1}),
    "a state outside the domain leaves a gap": (
        [(1, 0, 0, 0, 0.0), (1, 1, 9, 0, 0.0), (1, 2, 1, 0, 0.0)],
        {(2, 1, 0, 3, 0): 1},
    ),
    "an action outside the domain": ([(1, 0, 0, 7, 0.0)], {}),
    "more steps than the horizon": ([(1, 3, 1, 0, 0.0), (1, 4, 2, 0, 0.0)], {(3, 1, 0, 3, 0): 1}),
    "duplicates keep the smallest": ([(1, 0, 2, 1, 1.0), (1, 0, 1, 0, 1.0)], {(0, 1, 0, 3, 1): 1}),
    "rewards out of range are clipped": ([(1, 0, 0, 0, 99.0), (2, 0, 0, 0, -5.0)], ONE_OF_EACH),
    "no reward counts as the lower end": ([(1, 0, 0, 0, float("nan")), (2, 0, 0, 0, None)], {(0, 0, 0, 3, 0): 2}),
    "infinite rewards": ([(1, 0, 0, 0, float("inf")), (2, 0, 0, 0, float("-inf"))], ONE_OF_EACH),
    "rows without a user": ([(None, 0, 0, 0, 0.0), (1, 0, 1, 1, 0.0)], {(0, 1, 1, 3, 0): 1}),
    "a million rows of one user": ([(1, 0, 0, 0, 1.0)] * 1000, {(0, 0, 0, 3, 1): 1}),
    "halves": ([(1, 0.5, 0, 0, 0.0), (2, 0, 1.5, 0, 0.0), (3, 0.0, 1.0, 0, 0.0)], {(0, 1, 0, 3, 0): 1}),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.parametrize("name", REPAIRS)
def test_bad_content_is_repaired_by_the_public_rule(write, name, kind):
    rows, expected = REPAIRS[name]
    if (name, kind) == ("infinite rewards", "csv"):  # the words inf and -inf are no numbers: the reward is missing
        expected = {(0, 0, 0, 3, 0): 2}
    assert cells_of(write(f"rows.{kind}", **rows_of(*rows))) == expected


def test_words_that_are_no_numbers_in_a_csv_file_are_missing(write):
    rows = rows_of(("x", "zero", "1", "0", "1"), ("x", "1", "2", "0", "much"), ("y", "0", "0", "1", "1"))
    assert cells_of(write("rows.csv", **rows)) == {(1, 2, 0, 3, 0): 1, (0, 0, 1, 3, 1): 1}


def test_labels_map_through_the_declared_list(write):
    rows = rows_of((1, 0, "ill", "wait", 0.0), (1, 1, "well", "treat", 1.0), (1, 2, "secret", "treat", 1.0))
    found = cells_of(write("rows.parquet", **rows), states=["ill", "well", "dead"], actions=["wait", "treat"])
    assert found == {(0, 0, 0, 1, 0): 1, (1, 1, 1, 3, 1): 1}


def test_next_states_may_stand_in_a_column_of_their_own(write):
    rows = rows_of(
        (1, 0, 0, 0, 0.0, 2), (1, 2, 1, 1, 1.0, None), (2, 0, 0, 0, 0.0, 9), (3, 3, 1, 0, 0.0, 1), names="utsarn"
    )
    found = cells_of(write("rows.parquet", **rows), next_state="n")
    assert found == {(0, 0, 0, 2, 0): 1, (2, 1, 1, 3, 1): 1, (3, 1, 0, 3, 0): 1}


def test_users_contribute_no_more_episodes_than_declared(write):
    episodes = [(1, e, 0, e % 3, 0, 1.0) for e in range(5)]
    path = write("rows.parquet", **rows_of(*episodes, names="uetsar"))
    assert cells_of(path, episode="e") == {(0, 0, 0, 3, 1): 1}
    assert sum(cells_of(path, episode="e", per_user=3).values()) == 3
    assert sum(cells_of(path, episode="e", per_user=9).values()) == 5


def test_steps_may_count_from_one(write):
    path = write("rows.parquet", **rows_of((1, 1, 0, 0, 0.0), (1, 4, 1, 0, 0.0), (1, 5, 1, 0, 0.0)))
    assert cells_of(path, first_step=1) == {(3, 1, 0, 3, 0): 1}


def test_first_visits_are_taken_over_all_episodes_of_a_user(write):
    rows = rows_of((1, 0, 0, 0, 0, 0.0), (1, 0, 1, 0, 0, 0.0), (1, 1, 0, 0, 0, 1.0), names="uetsar")
    table = data.read(write("r.parquet", **rows), **NAMES, **DOMAIN, homogeneous=True, episode="e", per_user=2)
    joint = table.joint_counts(first_visit=True)
    assert joint.counts.tolist() == [1]
    assert joint.keys.tolist() == [0]  # state 0, action 0, successor 0, bit 0


def test_rewards_round_to_levels_without_bias(write):
    path = write("rows.parquet", **rows_of(*((user, 0, 0, 0, 0.3) for user in range(1000))))
    table = data.read(path, **NAMES, **DOMAIN)
    joint = table.joint_counts(levels=5)  # 0.3 lies between the levels 0.25 and 0.5
    level = joint.keys % 5
    assert set(level.tolist()) == {1, 2}
    # Binomial(1000, 0.2): six standard deviations either side, a false alarm in 5e8.
    assert abs(joint.counts[level == 2].sum() - 200) < 6 * 13


class TestDeclarations:
    def test_a_missing_domain_is_refused_with_the_reason(self, write):
        path = write("rows.parquet", **columns(records()))
        with pytest.raises(InvalidInput, match=r"states= is missing.*reveal which values occur"):
            data.read(path, **NAMES, actions=A, horizon=H)
        with pytest.raises(InvalidInput, match=r"horizon= is missing.*belongs to somebody"):
            data.read(path, **NAMES, states=S, actions=A)

    def test_a_missing_column_is_named(self, write):
        path = write("rows.parquet", **columns(records()))
        with pytest.raises(InvalidInput, match="has no column 'patient'; it has u, t, s, a, r"):
            data.read(path, **{**NAMES, "user": "patient"}, **DOMAIN)

    @pytest.mark.parametrize(
        ("declared", "message"),
        [
            ({"per_user": 2}, "needs an episode column"),
            ({"states": ["a", "a"]}, "different labels"),
            ({"states": "many"}, "a whole number or a list"),
            ({"horizon": 0}, "horizon must be"),
            ({"rewards": (1, 0)}, "low < high"),
        ],
    )
    def test_contradictions_are_refused(self, write, declared, message):
        with pytest.raises(InvalidInput, match=message):
            data.read(write("rows.parquet", **columns(records(2))), **{**NAMES, **DOMAIN, **declared})

    def test_cells_that_floats_cannot_number_are_refused(self, write):
        path = write("rows.parquet", **columns(records(2)))
        assert len(data.read(path, **NAMES, states=10**6, actions=10, horizon=400).joint_counts().keys) > 0
        with pytest.raises(Unsupported, match="too many transitions to number"):
            data.read(path, **NAMES, states=10**6, actions=10, horizon=500).joint_counts()

    def test_what_a_missing_reward_counts_as_is_declared(self, write):
        path = write("r.csv", **rows_of(*((user, 0, 0, 0, "") for user in range(200))))
        counted = lambda **how: data.read(path, **NAMES, **DOMAIN, **how).joint_counts(levels=3)  # noqa: E731
        assert (counted().keys % 3).tolist() == [0]
        assert (counted(rewards=(-1, 1)).keys % 3).tolist() == [1]  # zero, and not the lower end
        assert (counted(rewards=(-1, 1), missing_reward=1.0).keys % 3).tolist() == [2]
        assert (counted(rewards=(2, 4)).keys % 3).tolist() == [0]  # the value of the range next to zero
        for bad in (2.0, "0", float("nan"), True):
            with pytest.raises(InvalidInput, match="missing_reward must be a number in the declared range"):
                counted(missing_reward=bad)

    def test_columns_of_the_wrong_type_are_named(self, write):
        rows = columns(records(3))
        path = write("rows.parquet", **{**rows, "s": [f"secret-{i}" for i in rows["s"]]})
        with pytest.raises(InvalidInput, match="column 's' holds the state and must be numeric, its type is string"):
            data.read(path, **NAMES, states=2, actions=["p", "q"], horizon=H)

    @pytest.mark.parametrize("content", [b"", b"PAR1 and then nothing", b"\x00\xff" * 100])
    def test_damaged_files_are_refused_without_their_content(self, tmp_path, content):
        path = tmp_path / "rows.parquet"
        path.write_bytes(content)
        with pytest.raises(InvalidInput, match="cannot be read") as caught:
            data.read(path, **NAMES, **DOMAIN)
        assert caught.value.__context__ is None

    @pytest.mark.parametrize(
        ("source", "message"),
        [("nowhere.parquet", "no file or folder"), (7, "a source is a path"), ("postgres://x/y", "give table=")],
    )
    def test_sources_that_are_none(self, source, message):
        with pytest.raises(InvalidInput, match=message):
            data.read(source, **NAMES, **DOMAIN)

    def test_a_truncated_file_is_refused_when_it_is_counted(self, write):
        path = write("rows.parquet", **columns(records()))
        content = path.read_bytes()
        path.write_bytes(content[:200] + b"\x00" * 300 + content[500:])
        with pytest.raises(InvalidInput, match="cannot be read"):
            data.read(path, **NAMES, **DOMAIN).joint_counts()


@pytest.mark.slow
def test_the_owner_is_told_everything_and_that_it_is_not_private(write):
    rows = [(1, 0, 2, 0, 0.5), (1, 0, 1, 0, 7.0), (None, 1, 9, 0, 0.0), (2, 99, 0, 5, None), (3, 0, 0, 0, 0.5)]
    report = data.check(data.read(write("rows.parquet", **rows_of(*rows)), **NAMES, **DOMAIN))
    found = {what.split(" ")[3 if what.startswith("rows whose") else -1]: count for what, count in report.findings}
    counts = [count for _, count in report.findings]
    assert (report.rows, report.users, report.clean) == (5, 3, False), found
    assert counts == [1, 1, 1, 1, 2, 1, 1, 0, 0]
    assert (report.dropped, report.unseen, report.too_many) == (3, 1, True)
    clean = data.check(data.read(write("ok.parquet", **columns(records())), **NAMES, **DOMAIN))
    assert clean.clean
    gap = rows_of(
        (1, 0, 0, 0, 0.5, None), (1, 2, 0, 0, 0.5, 1), (2, 0, 0, 0, 0.5, 1), (2, 2, 0, 0, 0.5, 1), names="utsarn"
    )
    for column, lost in ((None, 2), ("n", 1)):
        report = data.check(data.read(write("gap.parquet", **gap), **NAMES, **DOMAIN, next_state=column))
        assert [count for what, count in report.findings if "a step of the record is missing" in what] == [lost]
        assert not report.clean
    assert "NOT private" in NOT_PRIVATE


def test_several_columns_and_bins_have_labels_that_people_read(write):
    path = write("r.csv", u=["a"], t=[0], s=["low"], m=[0.5], a=["rest"], r=[1])
    declared = {**NAMES, "horizon": 2, "state": ["s", "m"], "states": [("low", "high"), data.Bins([0, 1, 2])]}
    table = data.read(path, **declared, actions=["rest", "walk"])
    assert table.declaration.state_labels == ("low, 0 to 1", "low, 1 to 2", "high, 0 to 1", "high, 1 to 2")
    assert table.declaration.action_labels == ("rest", "walk")
    assert (
        data.read(path, **{**NAMES, "state": "t"}, states=2, actions=["rest"], horizon=2).declaration.state_labels
        is None
    )


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.int64(), pa.float64()])
def test_repeated_identifiers_are_left_out_and_no_others(kind):
    """Users are counted from fewer rows where many in a row are alike; nobody gets lost, and nobody twice."""
    rng = np.random.default_rng(4)
    for longest in (1, 3, 40):
        numbers = np.repeat(rng.integers(0, 12, 300), rng.integers(1, longest + 1, 300))
        ids = [None if n == 5 else 10**n if pa.types.is_integer(kind) else n for n in numbers.tolist()]
        if "binary" in str(kind):
            ids = [None if n is None else b"ab" * n + b"\0" * (n % 2) for n in ids]
        array = pa.array(ids, kind)
        kept = without_repeats(array.slice(3))
        assert set(kept.to_pylist()) == set(ids[3:]) - {None}
        if longest == 40 and not pa.types.is_floating(kind):
            assert len(kept) <= 300


@pytest.mark.parametrize("made", ["csv", "parquet", "ibis"])
def test_who_has_no_outcome_is_not_counted_where_there_is_one_step(tmp_path, made):
    """Complete cases: a missing outcome was worth 0, and a school's mean of 922 came out as 840."""
    ids, arms = np.arange(400), np.arange(400) % 2
    outcome = np.where(ids % 5 == 0, np.nan, 1.0)
    frame = polars.DataFrame({"u": ids, "a": arms, "r": outcome}).with_columns(polars.col("r").fill_nan(None))
    source: object = tmp_path / f"rows.{made}"
    if made == "csv":
        frame.write_csv(tmp_path / "rows.csv")
    elif made == "parquet":
        frame.write_parquet(tmp_path / "rows.parquet")
    else:
        source = pytest.importorskip("ibis").memtable(frame.to_arrow())
    named = {"user": "u", "state": "a", "action": "a", "reward": "r", "states": 2, "actions": 2, "horizon": 1}
    counts = lambda **how: data.read(source, **named, **how).joint_counts(levels=2)  # noqa: E731
    complete = counts()
    assert int(complete.counts.sum()) == 320
    assert (complete.keys % 2).tolist() == [1, 1]
    declared, older = counts(missing_reward=0.0), counts(missing="row")
    assert int(declared.counts.sum()) == int(older.counts.sum()) == 400
    report = data.check(data.read(source, **named))
    assert report.dropped == 80
    assert any("who has no reward is not counted" in line for line in report.remedies)
    assert "complete cases" in data.read(source, **named).declaration.without_reward()
