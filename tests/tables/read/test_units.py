"""Many rows of one unit in tables of one step: how many count and which, in every reader; and tables without units."""

from __future__ import annotations

import json

import numpy as np
import polars
import pytest

import discreet
from discreet import data
from discreet.base.errors import InvalidInput, Unsupported
from discreet.offline import evaluate, train
from discreet.tables.read import per_user as loop
from discreet.tables.requests import declaration_hash

DOMAIN = {"state": "s", "action": "a", "reward": "r", "states": 3, "actions": 2, "horizon": 1}


def rows_of(units, rng, most=6, ids="text"):
    """Units of 1 to ``most`` rows, in no order."""
    who = np.repeat(np.arange(units), rng.integers(1, most + 1, units))
    rng.shuffle(who)
    n = len(who)
    frame = polars.DataFrame({"who": who, "s": rng.integers(0, 3, n), "a": rng.integers(0, 2, n),
                              "r": rng.integers(0, 2, n).astype(float)})  # fmt: skip
    return frame if ids == "whole" else frame.with_columns(polars.format("clinic {}", "who").alias("who"))


def counted(source, *, table=None, seed=1, **declared):
    """The cells of a table, and how often each occurs."""
    options = {"user": "who", **DOMAIN, **declared}
    return data.read(source, table=table, **options).joint_counts(seed=seed)


def sources(folder, frame):
    """The same rows in every reader."""
    import duckdb

    frame.write_csv(folder / "t.csv")
    frame.write_parquet(folder / "t.parquet")
    (folder / "t.duckdb").unlink(missing_ok=True)
    connection = duckdb.connect(str(folder / "t.duckdb"))
    connection.execute(f"CREATE TABLE t AS FROM '{folder / 't.parquet'}'")
    connection.close()
    yield from (frame, frame.to_pandas(), frame.to_arrow(), folder / "t.csv", folder / "t.parquet")
    yield frame.sample(fraction=1.0, shuffle=True, seed=3)  # the order of rows decides nothing


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(cells(one), cells(other), strict=True))


def cells(joint):
    return [np.asarray(part) for part in (joint.keys, joint.counts)]


@pytest.mark.parametrize("cap", [1, 2, 4, 100])
def test_every_reader_draws_the_same_rows(tmp_path, cap):
    frame = rows_of(60, np.random.default_rng(cap))
    wanted, kept = counted(frame, cap=cap), frame.group_by("who").len()["len"].clip(upper_bound=cap).sum()
    assert int(np.asarray(wanted.counts).sum()) == kept
    for source in sources(tmp_path, frame):
        assert same(counted(source, cap=cap), wanted)
    assert same(counted(tmp_path / "t.duckdb", table="t", cap=cap), wanted)


def test_parts_of_a_table_and_passes_draw_the_same_rows(monkeypatch):
    from discreet.tables.read import grouping
    from discreet.tables.read.user_subsets import ordered

    table = data.read(rows_of(80, np.random.default_rng(0), ids="whole"), user="who", **DOMAIN, cap=3)
    whole, people = table.joint_counts(seed=1), ordered(table)
    chosen = np.random.default_rng(1).random(people.users) < 0.4
    parts = [people.joint_counts(each, levels=2, first_visit=False, seed=1) for each in (chosen, ~chosen)]
    assert sum(int(part.counts.sum()) for part in parts) == int(whole.counts.sum())
    monkeypatch.setattr(grouping, "_ROWS_IN_MEMORY", 10)
    assert same(table.joint_counts(seed=1), whole)


def test_replacing_one_unit_moves_her_rows_only():
    """An L1 distance above twice the cap, or another row of somebody else, would be a hole."""
    rng = np.random.default_rng(5)
    moved = 0
    for _ in range(25):
        frame, cap = rows_of(8, rng, most=7), int(rng.integers(1, 5))
        other = rows_of(1, rng, most=9).with_columns(polars.lit("another").alias("who"))
        rest = frame.filter(polars.col("who") != "clinic 0")
        tables = [rest, frame, polars.concat([other, rest])]
        alone, one, two = (
            dict(zip(*map(np.ndarray.tolist, cells(counted(each, cap=cap))), strict=True)) for each in tables
        )
        assert all(with_her.get(key, 0) >= count for with_her in (one, two) for key, count in alone.items())
        moved = max(moved, sum(abs(one.get(key, 0) - two.get(key, 0)) for key in {*one, *two}) / cap)
    assert 1 <= moved <= 2


@pytest.mark.parametrize("broken", [False, True])
def test_rows_of_one_kind_are_drawn_as_often_as_they_are_there(monkeypatch, broken):
    """Fifteen rows treated, five not; three of twenty are drawn in each of 3,000 clinics: a share of .75.

    The deviation of the mean share is .0043. The wrong twin draws kinds and not rows: .5. Lots are public numbers, so
    the test is one fixed number.
    """
    if broken:
        honest = loop._drawn

        def kinds(values, begins, lots, rules):
            few, users, firsts = [], [0], np.asarray(lots)
            for user in range(len(firsts)):
                every = np.unique(values[begins[user] : begins[user + 1]])
                few += [every[int(firsts[user] >> np.uint64(7)) % len(every)]] * rules.per_user
                users.append(len(few))
            return np.array(few), np.arange(len(few) + 1), np.array(users)

        assert honest is not kinds
        monkeypatch.setattr(loop, "_drawn", kinds)
    treated = np.tile([1] * 15 + [0] * 5, 3000)
    frame = polars.DataFrame({"who": np.repeat(np.arange(3000), 20), "s": 0 * treated, "a": treated})
    table = data.read(frame, user="who", state="s", action="a", states=1, actions=2, horizon=1, cap=3)
    joint = table.joint_counts(seed=1)
    share = joint.counts[joint.keys >= 2].sum() / joint.counts.sum()
    assert (abs(share - 0.75) < 5 * 0.0043) is not broken


def test_without_a_column_of_users_every_row_is_one(tmp_path):
    import ibis

    frame = rows_of(50, np.random.default_rng(2))
    damaged = frame.with_columns(polars.when(polars.int_range(polars.len()) % 7 == 0).then(9).otherwise("s").alias("s"))
    numbered = damaged.with_columns(polars.int_range(polars.len()).alias("who"))
    for missing in ("end", "drop", "row"):
        wanted = counted(numbered, missing=missing)
        for source in sources(tmp_path, damaged):
            assert same(counted(source, user=None, missing=missing), wanted)
        warehouse = ibis.duckdb.connect().read_parquet(tmp_path / "t.parquet")
        assert same(counted(warehouse, user=None, missing=missing), wanted)
        tables = [data.read(each, **DOMAIN, missing=missing) for each in (damaged, warehouse)]
        assert [table.users() for table in tables] == [len(frame)] * 2
        reports = [data.check(table) for table in tables]
        assert {(report.rows, report.users, report.dropped) for report in reports} == {
            (len(frame), len(frame), -(-len(frame) // 7))
        }


def test_rows_as_units_are_learned_from_and_judge():
    rng = np.random.default_rng(3)
    a, n = rng.integers(0, 2, 4000), 4000
    frame = polars.DataFrame({"s": rng.integers(0, 3, n), "a": a, "r": (rng.random(n) < 0.3 + 0.4 * a).astype(float)})
    table = data.read(frame, **DOMAIN)
    fit = train(table, epsilon=4.0, holdout=0.35, behaviour="uniform")
    assert fit.facts["declared"]["event_level"] is True
    assert fit.facts["data"]["user"] is None
    assert "every row counts as one user" in fit.facts["repairs"]
    judged = evaluate(table, fit.policy, epsilon=4.0, behaviour="uniform", split=fit.split)
    assert judged.facts["declared"]["event_level"] is True
    again = data.read(frame.reverse(), **DOMAIN)
    with pytest.raises(InvalidInput, match="split"):
        evaluate(again, fit.policy, epsilon=4.0, behaviour="uniform", split=fit.split)


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"cap": 0}, "cap must be"),
        ({"cap": 2, "horizon": 2, "step": "s"}, "where horizon=1"),
        ({"cap": 2, "episode": "a"}, "where horizon=1"),
        ({"cap": 2, "per_user": 3}, "give per_user= in its place"),
        ({"per_user": 3}, r"cap=3 \(every row is one\)"),
        ({"user": None, "horizon": 2, "step": "s"}, "user= is missing"),
        ({"user": None, "cap": 2}, "user= is missing"),
    ],
)
def test_what_cannot_be_is_refused(declared, said):
    frame = rows_of(3, np.random.default_rng(0))
    with pytest.raises(InvalidInput, match=said):
        data.read(frame, **{"user": "who", **DOMAIN, **declared})


def test_a_warehouse_draws_no_lots_and_many_rows_judge_nothing(tmp_path):
    import ibis

    frame = rows_of(30, np.random.default_rng(0))
    frame.write_parquet(tmp_path / "t.parquet")
    warehouse = ibis.duckdb.connect().read_parquet(tmp_path / "t.parquet")
    with pytest.raises(Unsupported, match="no warehouse does"):
        data.read(warehouse, user="who", **DOMAIN, cap=2)
    table = data.read(frame, user="who", **DOMAIN, cap=2)
    with pytest.raises(Unsupported, match="declare cap=1"):
        train(table, epsilon=1.0, holdout=0.4)
    with pytest.raises(Unsupported, match="declare cap=1"):
        evaluate(table, discreet.Policy(np.zeros((1, 3), int)), epsilon=1.0, behaviour="uniform")


def test_declarations_without_a_cap_keep_their_hash():
    frame = polars.DataFrame({"who": [1], "s": [0], "a": [0], "r": [0.0]})
    table = data.read(frame, user="who", **{**DOMAIN, "states": 2}, missing="row")
    # As it was before there were caps, and before rows that differ were none.
    assert declaration_hash(table.declaration) == "57b7cc0675c27944119aad8c864331cec3fc7c06f7eabee8c5cc6afe471d2d7d"
    table = data.read(frame, user="who", **{**DOMAIN, "states": 2})
    assert declaration_hash(table.declaration) != "cc376737b5053c0c32952f1e7baf0d26e13507963d166bc83b9e3f3bd271a4f2"
    hashes = {declaration_hash(data.read(frame, user="who", **DOMAIN, cap=cap).declaration) for cap in (None, 1, 2)}
    assert len(hashes) == 3


SCHOOLS = "school,arm,score\n" + "".join(f"s{i % 20},{i % 2},{i % 3 / 2}\n" for i in range(1000))
LINE = ("--state", "arm", "--states", "2", "--action", "arm", "--actions", "2", "--reward", "score", "--horizon", "1")


def test_pupils_of_schools_do_not_vanish_in_silence(tmp_path, command):
    (tmp_path / "schools.csv").write_text(SCHOOLS)
    path = str(tmp_path / "schools.csv")
    code, out, _ = command("check", path, "--user", "school", *LINE)
    assert (code, "Dropped: 1,000 rows" in out, "--cap says how many" in out) == (1, True, True)
    code, out, _ = command("check", path, "--user", "school", *LINE, "--cap", "30")
    assert (code, "Dropped: 400 rows" in out, "a larger one keeps more" in out) == (1, True, True)
    assert command("check", path, "--user", "school", *LINE, "--cap", "50")[0] == 0
    code, out, _ = command("check", path, *LINE)
    assert (code, "EVENT LEVEL" in out, "1,000 rows, 1,000 users" in out) == (0, True, True)


def test_a_receipt_says_what_a_unit_is(tmp_path, command):
    (tmp_path / "schools.csv").write_text(SCHOOLS)
    files = ("--out", str(tmp_path / "p.json"), "--receipt")
    asked = ("train", str(tmp_path / "schools.csv"), *LINE, "--epsilon", "8", *files)
    code, out, err = command(*asked, str(tmp_path / "r.json"), "--user", "school", "--cap", "50")
    assert (code, "at most 50 rows of one user count, drawn by lot" in " ".join(out.split())) == (0, True), err
    receipt = json.loads((tmp_path / "r.json").read_text())
    assert receipt["certificate"]["unit"] == "one user = up to 50 whole trajectories"
    assert receipt["mechanisms"][0]["sensitivity"]["l1"] == 100
    assert command("verify", str(tmp_path / "r.json"))[0] == 0
    code, out, err = command(*asked, str(tmp_path / "r.html"))
    assert (code, "EVENT LEVEL" in out) == (0, True), err
    page = (tmp_path / "r.html").read_text()
    assert "EVENT LEVEL" in page
    assert "take rows to be independent" in page
    assert "any one row (event level: not all rows of a person)" in page
    assert "One person:" not in page


def test_a_ledger_of_people_pays_for_no_rows(tmp_path, command):
    (tmp_path / "schools.csv").write_text(SCHOOLS)
    book = str(tmp_path / "b.db")
    assert command("ledger", "open", book, "--dataset", "d", "--epsilon", "100")[0] == 0
    asked = ("train", str(tmp_path / "schools.csv"), *LINE, "--epsilon", "8", "--out", str(tmp_path / "p.json"))
    asked = (*asked, "--ledger", book, "--dataset", "d")
    code, _, err = command(*asked, "--user", "school", "--cap", "50")
    assert code == 0, err
    code, _, err = command(*asked)
    assert code == 2
    assert "event level" in err


@pytest.fixture
def command(capsys, monkeypatch):
    from discreet.cli import main

    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments):
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        captured = capsys.readouterr()
        return int(stop.value.code or 0), captured.out, captured.err

    return run
