"""``table.toml``: the same declaration as by keywords and by options, to the hash; and what it refuses."""

from __future__ import annotations

import inspect
import json

import polars
import pytest

from discreet import data
from discreet.base.errors import InvalidInput
from discreet.cli import tables
from discreet.data import Bins, Dates, Elapsed
from discreet.tables.read.declaration_file import FIELDS, keywords, load_declaration
from discreet.tables.requests import declaration_hash

HEAD = 'format = "discreet-table"\nversion = 1\n'
BODY = """user = "who"
step = "week"
steps = ["8", "16"]
reward = "cd4"
rewards = [0, 1200]
missing = "drop"

[[state]]
column = "age"
edges = [0, 40, inf]
missing = "level"

[[state]]
column = "stage"
levels = ["low", "high"]

[[action]]
column = "arm"
levels = ["1", "2"]
"""
KEYWORDS = {
    "user": "who", "step": "week", "steps": ["8", "16"], "reward": "cd4", "rewards": (0, 1200), "missing": "drop",
    "state": ("age", "stage"), "states": (Bins([0, 40, float("inf")]), ["low", "high"]), "missing_level": ["age"],
    "action": "arm", "actions": ["1", "2"],
}  # fmt: skip
OPTIONS = ("--user", "who", "--step", "week", "--steps", "8,16", "--reward", "cd4", "--rewards", "0", "1200",
           "--missing", "drop", "--state", "age", "--states", "0:40:inf", "--state", "stage", "--states", "low,high",
           "--missing-level", "age", "--action", "arm", "--actions", "1,2")  # fmt: skip
ROWS = [(i, week, None if i % 5 == 0 else 30.0 + i % 30, ("low", "high")[i % 2], 1 + i % 2, 600.0 * (i % 2) + 300)
        for i in range(2000) for week in (8, 16)]  # fmt: skip
FRAME = polars.DataFrame(ROWS, schema=["who", "week", "age", "stage", "arm", "cd4"], orient="row")


@pytest.fixture
def file(tmp_path):
    def write(body=BODY, head=HEAD):
        path = tmp_path / "table.toml"
        path.write_text(head + body)
        return path

    return write


def test_a_file_keywords_and_options_declare_the_same(tmp_path, file, command):
    path, rows = str(file()), str(tmp_path / "t.csv")
    by_file, by_keywords = data.read(FRAME, declaration=path), data.read(FRAME, **KEYWORDS)
    assert by_file.declaration == by_keywords.declaration
    FRAME.write_csv(rows)
    hashes = {declaration_hash(by_file.declaration)}
    for number, declared in enumerate((OPTIONS, ("--declaration", path))):
        assert command("check", rows, *declared)[0] == 0
        files = ("--out", str(tmp_path / f"{number}.json"), "--receipt", str(tmp_path / f"r{number}.json"))
        code, out, err = command("train", rows, *declared, "--epsilon", "20", *files)
        assert code == 0, err
        assert f"discreet check {rows}" in " ".join(out.split())
        assert number == 0 or f"--declaration {path}" in " ".join(out.split())
        hashes.add(json.loads((tmp_path / f"r{number}.json").read_text())["data"]["declaration"])
    assert len(hashes) == 1
    judging = ("--behaviour", "uniform", "--epsilon", "20", "--json", str(tmp_path / "e.json"))
    code, _, err = command("evaluate", str(tmp_path / "1.json"), "--data", rows, "--declaration", path, *judging)
    assert code == 0, err
    assert json.loads((tmp_path / "e.json").read_text())["declared"]["states"] == 6


def test_fields_are_arguments_of_read_and_options_of_commands():
    """One list: who adds an argument of a declaration adds a field, or says here why it is none."""
    where = {"source", "table", "csv", "partitions", "declaration"}  # where the rows are
    inside = {"states", "actions", "missing_level", "dates"}  # [[state]], [[action]], days with origin
    assert set(inspect.signature(data.read).parameters) - where - inside == set(FIELDS) - {"days", "every", "origin"}
    from discreet.cli.train import check, train

    for run in (check, train):
        options = set(inspect.signature(run).parameters)
        assert set(FIELDS) <= options
    assert inspect.signature(tables.open_table).parameters["declaration"].default is None


@pytest.mark.parametrize(
    ("body", "head", "said"),
    [
        ("", "", "is no declaration of a table"),
        ("", HEAD.replace("1", "2"), "is no declaration of a table"),
        ("user = ", HEAD, "is no TOML"),
        ('rewrads = [0, 1]\n', HEAD, "no field 'rewrads': did you mean rewards"),
        ("horizon = 2.5\n", HEAD, "horizon must be a whole number"),
        ("homogeneous = 1\n", HEAD, "homogeneous must be true or false"),
        ("rewards = [0]\n", HEAD, "two numbers such as [0, 1]"),
        ('state = "s"\n', HEAD, "columns, each under [[state]]"),
        ('[[state]]\nlevels = ["a"]\n', HEAD, "[[state]] 1: column is missing"),
        ('[[state]]\ncolumn = "s"\n', HEAD, "give one of number, levels, edges; got none"),
        ('[[state]]\ncolumn = "s"\nnumber = 2\nedges = [0, 1]\n', HEAD, "got number and edges"),
        ('[[state]]\ncolumn = "s"\nnumber = 2\nmissing = "carry"\n', HEAD, 'missing must be "level"'),
        ('[[action]]\ncolumn = "s"\nnumber = 2\nmissing = "level"\n', HEAD, "no field 'missing'"),
        ('days = 7\nevery = 2\n', HEAD, "in several ways"),
        ('origin = 7\n', HEAD, "declare days or every"),
        ('horizon = 1\n', HEAD, "state= is missing"),
    ],
)  # fmt: skip
def test_a_file_that_declares_nothing_is_refused(file, body, head, said):
    with pytest.raises(InvalidInput) as refused:
        data.read(FRAME, declaration=file(body, head))
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_what_is_declared_twice_is_refused(tmp_path, file, command):
    path = file()
    with pytest.raises(InvalidInput, match=r"rewards= was given, and .* declares it"):
        data.read(FRAME, declaration=path, rewards=(0, 1))
    FRAME.write_csv(tmp_path / "t.csv")
    for option in (("--rewards", "0", "1"), ("--states", "3"), ("--missing", "end"), ("--missing-level", "stage"),
                       ("--missing", "drop")):  # fmt: skip
        code, _, err = command("check", str(tmp_path / "t.csv"), "--declaration", str(path), *option)
        assert (code, f"{option[0]} was given, and table.toml declares it" in err) == (2, True)
    assert command("check", str(tmp_path / "t.csv"), "--declaration", str(path), "--no-early-end")[0] == 0
    code, _, err = command("check", str(tmp_path / "t.csv"), "--declaration", str(tmp_path / "none.toml"))
    assert (code, "cannot be read" in err) == (2, True)
    code, _, err = command("check", str(tmp_path / "t.csv"))
    assert (code, "--state is missing" in err) == (2, True)


def test_every_form_of_steps(file):
    domain = '[[state]]\ncolumn = "s"\nnumber = 2\n[[action]]\ncolumn = "a"\nnumber = 2\n'
    for body, wanted in (
        ("days = 7\n", {"dates": Dates(7)}),
        ('days = 7\norigin = "2026-01-05"\n', {"dates": Dates(7, "2026-01-05")}),
        ("every = 365\norigin = 1\n", {"steps": Elapsed(365, 1)}),
    ):
        found = keywords(load_declaration(file(body + domain)))
        assert {name: found[name] for name in wanted} == wanted
        assert not {"days", "every", "origin"} & {*found}


def test_plan_takes_the_shape_of_the_file(tmp_path, file, command):
    asked = ("--users", "300", "--epsilons", "1", "--runs", "1", "--json")
    code, _, err = command("plan", "--declaration", str(file()), *asked, str(tmp_path / "a.json"))
    assert code == 0, err
    shape = ("--states", "6", "--actions", "2", "--horizon", "2", "--rewards", "0", "1200")
    assert command("plan", *shape, *asked, str(tmp_path / "b.json"))[0] == 0
    one, other = (json.loads((tmp_path / name).read_text()) for name in ("a.json", "b.json"))
    assert one == other
    assert "--states was given" in command("plan", "--declaration", str(file()), "--states", "2", *asked, "-")[2]
    capped = str(file(BODY.replace('missing = "drop"', "cap = 3")))
    assert "plan is for one trajectory" in command("plan", "--declaration", capped, *asked, "-")[2]
    assert "--horizon is missing" in command("plan", "--states", "2", "--actions", "2", *asked, "-")[2]


@pytest.fixture
def command(capsys, monkeypatch):
    from discreet.cli import main

    monkeypatch.setenv("COLUMNS", "300")

    def run(*arguments):
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        captured = capsys.readouterr()
        return int(stop.value.code or 0), captured.out, captured.err

    return run
