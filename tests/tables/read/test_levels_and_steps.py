"""Missing as a level, steps that have labels, elapsed time as steps: as if somebody had written numbers, everywhere."""

from __future__ import annotations

import json

import numpy as np
import polars
import pytest

from discreet import data
from discreet.base.errors import InvalidInput
from discreet.base.policies import load_policy
from discreet.data import Bins, Elapsed
from discreet.tables.read.columns import ABSENT

WEEKS, LABS = ("8", "16", "24"), Bins([0, 1.5, 4])
COMMON = {"user": "who", "action": "a", "reward": "r", "actions": 2}
NUMBERS = {"step": "h", "state": "s", "states": 9, "horizon": 3}


def number(lab, stage):
    """The state of two columns, 9 of them; None where there is none."""
    level = 2 if lab is None else None if not 0 <= lab <= 4 else int(lab >= 1.5)
    kind = 2 if stage is None else {"low": 0, "high": 1}.get(stage)
    return None if level is None or kind is None else level * 3 + kind


def tables(folder, frame):
    """The same rows in every reader, a warehouse among them."""
    import duckdb
    import ibis

    for old in ("t.csv", "t.parquet", "t.duckdb"):
        (folder / old).unlink(missing_ok=True)
    frame.write_csv(folder / "t.csv")
    frame.write_parquet(folder / "t.parquet")
    connection = duckdb.connect(str(folder / "t.duckdb"))
    connection.execute(f"CREATE TABLE t AS FROM '{folder / 't.parquet'}'")
    connection.close()
    yield from ((each, None) for each in (frame, frame.to_pandas(), frame.to_arrow()))
    yield from ((folder / name, None) for name in ("t.csv", "t.parquet"))
    yield folder / "t.duckdb", "t"
    yield ibis.duckdb.connect().read_parquet(folder / "t.parquet"), None


def same_counts(folder, frame, declared, missing):
    """The numbers that somebody wrote by hand, and every reader with the declaration."""
    wanted = data.read(frame, **COMMON, **NUMBERS, missing=missing).joint_counts(seed=1)
    assert len(wanted.keys) > 5
    for source, table in tables(folder, frame):
        found = data.read(source, table=table, **{**COMMON, **declared}, missing=missing).joint_counts(seed=1)
        assert np.array_equal(found.keys, wanted.keys), type(source)
        assert np.array_equal(found.counts, wanted.counts)


def rows(rng, **columns):
    """Sixty people with three rows each, some of them out of order."""
    n = 180
    frame = polars.DataFrame({"who": np.arange(n) // 3, "a": rng.integers(0, 2, n), "r": rng.integers(0, 2, n) * 1.0})
    return frame.with_columns(**{name: polars.Series(cells, strict=False) for name, cells in columns.items()})


@pytest.mark.parametrize("missing", ["end", "drop", "row"])
def test_missing_is_a_level_in_every_reader(tmp_path, missing):
    rng = np.random.default_rng(1)
    labs = [[0.5, 1.5, 4.0, None, 4.5, None][i] for i in rng.integers(0, 6, 180)]
    stages = [["low", "high", None, "Low"][i] for i in rng.choice(4, 180, p=[0.4, 0.3, 0.25, 0.05])]
    states = [number(lab, stage) for lab, stage in zip(labs, stages, strict=True)]
    frame = rows(rng, lab=labs, stage=stages, h=[i % 3 for i in range(180)], s=states)
    declared = {"step": "h", "state": ("lab", "stage"), "states": (LABS, ("low", "high")), "horizon": 3}
    same_counts(tmp_path, frame, {**declared, "missing_level": ("lab", "stage")}, missing)
    plain = data.check(data.read(frame, **COMMON, **declared))
    levels = data.check(data.read(frame, **COMMON, **declared, missing_level=("lab", "stage")))
    assert levels.dropped < plain.dropped
    assert "--missing-level" in " ".join(plain.remedies)


@pytest.mark.parametrize("kind", ["text", "whole"])
def test_steps_have_labels_in_their_order(tmp_path, kind):
    rng = np.random.default_rng(2)
    weeks = [["8", "16", "24"][i % 3] for i in range(180)]
    weeks[5], weeks[9], weeks[10] = "17", "24", None
    known = [WEEKS.index(week) if week in WEEKS else None for week in weeks]
    shown = weeks if kind == "text" else [None if week is None else int(week) for week in weeks]
    frame = rows(rng, week=shown, h=known, s=rng.integers(0, 9, 180).tolist())
    same_counts(tmp_path, frame, {"step": "week", "state": "s", "states": 9, "steps": WEEKS}, "end")


def test_elapsed_time_is_a_step_in_every_reader(tmp_path):
    rng = np.random.default_rng(3)
    days = [
        [-400.0, 0.0, 364.999, 365.0, 729.0, 1095.0][i] for i in rng.choice(6, 180, p=[0.05, 0.35, 0.1, 0.2, 0.2, 0.1])
    ]
    days[3:6] = [None, 1e300, float("inf")]
    known = [None if day is None or not 0 <= day < 3 * 365 else int(day // 365) for day in days]
    frame = rows(rng, days=days, h=known, s=rng.integers(0, 9, 180).tolist())
    same_counts(
        tmp_path, frame, {"step": "days", "state": "s", "states": 9, "steps": Elapsed(365), "horizon": 3}, "end"
    )
    later = frame.with_columns((polars.col("days") - 100.5) / 24)
    declared = {"step": "days", "state": "s", "states": 9, "steps": Elapsed(365 / 24, -100.5 / 24), "horizon": 3}
    assert int(data.read(later, **COMMON, **declared).joint_counts(seed=1).counts.sum()) > 0


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"steps": WEEKS, "horizon": 4}, "3 labels of steps contradict"),
        ({"steps": 3}, "the list of their labels in order"),
        ({"steps": WEEKS, "first_step": 8}, "declare one"),
        ({"steps": WEEKS, "step": None}, "step= is missing"),
        ({"steps": WEEKS, "dates": data.Dates(7)}, "declare one"),
        ({"missing_level": ("a",), "horizon": 3}, "'a' is none"),
        ({"missing_level": ("s",), "horizon": 3, "next_state": "s2"}, "leave one of them out"),
        ({"missing_level": ("s",), "horizon": 3, "states": ("missing", "b")}, "has a label 'missing'"),
    ],
)
def test_what_contradicts_itself_is_refused(declared, said):
    frame = polars.DataFrame({"who": [1], "h": [0], "s": [0], "s2": [0], "a": [0], "r": [0.0]})
    with pytest.raises(InvalidInput, match=said):
        data.read(frame, **COMMON, **{"step": "h", "state": "s", "states": 9, **declared})


@pytest.mark.parametrize("given", [0, -1, float("nan"), float("inf"), "365", True])
def test_a_step_has_a_length(given):
    with pytest.raises(InvalidInput, match="every of elapsed time"):
        Elapsed(given)


def test_a_trial_of_weeks_goes_from_the_table_to_actions(tmp_path, command):
    lines = [f"p{i},{week},{'' if i % 3 == 0 else i % 2},{i % 2},{i % 2}" for i in range(3000) for week in (8, 16, 24)]
    (tmp_path / "t.csv").write_text("who,week,lab,arm,ok\n" + "\n".join(lines) + "\n")
    declared = ("--user", "who", "--step", "week", "--steps", "8,16,24", "--state", "lab", "--states", "2",
                "--missing-level", "lab", "--action", "arm", "--actions", "2", "--reward", "ok")  # fmt: skip
    path, policy = str(tmp_path / "t.csv"), str(tmp_path / "p.json")
    code, out, _ = command("check", path, *declared)
    assert (code, "nothing to repair" in out) == (0, True)
    code, out, err = command(
        "train", path, *declared, "--epsilon", "20", "--out", policy, "--receipt", str(tmp_path / "r.json")
    )
    assert code == 0, err
    said = " ".join(out.split())
    assert "steps are 8, 16, 24, in this order" in said
    assert "--steps 8,16,24 --missing-level lab" in said
    assert json.loads((tmp_path / "r.json").read_text())["declared"]["state_labels"] == ["0", "1", ABSENT]
    found = load_policy(policy)
    rng = np.random.default_rng(0)
    assert found.act({"week": 16, "lab": None}, rng=rng) in (0, 1)
    with pytest.raises(InvalidInput, match="'week'"):
        found.act({"week": 1, "lab": 0}, rng=rng)
    shown = command("show", policy)[1]
    assert "named as in the table" in shown
    (tmp_path / "new.csv").write_text("who,week,lab\na,24,\nb,8,1\nc,9,1\n")
    code, out, err = command("apply", policy, str(tmp_path / "new.csv"), "--keep", "who")
    assert (code, [line.split(",")[1] != "" for line in out.splitlines()[1:]]) == (1, [True, True, False])


def test_days_since_a_first_visit_on_the_command_line(tmp_path, command):
    lines = [f"p{i},{day + i % 300},{i % 2},{i % 2},{i % 2}" for i in range(2000) for day in (0, 365, 800)]
    (tmp_path / "t.csv").write_text("who,days,s,arm,ok\n" + "\n".join(lines) + "\n")
    declared = ("--user", "who", "--step", "days", "--state", "s", "--states", "2", "--action", "arm", "--actions", "2",
                "--reward", "ok", "--horizon", "3")  # fmt: skip
    path, policy = str(tmp_path / "t.csv"), str(tmp_path / "p.json")
    code, out, _ = command("check", path, *declared, "--every", "365")
    # Day 800 + 295 and later lies in the fourth year.
    assert (code, "a step is 365 long, from 0 on" in out) == (0, True)
    assert command("check", path, *declared, "--every", "365", "--days", "3")[0] == 2
    code, _, err = command("check", path, *declared, "--every", "365", "--origin", "monday")
    assert (code, "--origin must be a number" in err) == (2, True)
    code, out, err = command("train", path, *declared, "--every", "365", "--epsilon", "20", "--out", policy)
    assert code == 0, err
    rng = np.random.default_rng(0)
    assert load_policy(policy).act({"days": 364.9, "s": 1}, rng=rng) in (0, 1)
    assert json.loads((tmp_path / "p.json").read_text())["columns"]["step_names"] == [
        "0 to 365",
        "365 to 730",
        "730 to 1095",
    ]


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
