"""Where a command speaks: JSON alone on standard output, nothing in quiet, names for a shell to complete."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from contextlib import contextmanager

import pytest

import discreet as library
from discreet.cli import COMMANDS, main, make_app
from discreet.cli.output import print_table
from discreet.recipes.registry import build

SMALL = ("--states", "3", "--horizon", "3", "--episodes", "20")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A saved run, a policy and a certificate under the names that the commands below use."""
    monkeypatch.chdir(tmp_path)
    world = library.worlds.river_swim(states=3, horizon=3)
    library.simulate(world, "ucbvi", episodes=10, runs=2).save("run")
    world.optimal()[1].save("policy.json")
    guarantee = build(library.Central(1.0), world.shape, 10).guarantee
    (tmp_path / "receipt.json").write_text(json.dumps(guarantee.certificate()))
    return tmp_path


SPEAKING = {
    "simulate": (("simulate", *SMALL, "--runs", "2"), "regret"),
    "compare": (("compare", "run", "run"), "rows"),
    "rehearse": (
        ("rehearse", "--world", "river-swim", *SMALL, "--runs", "2", "--epsilon", "1", "--recipe",
         "central/joint-histogram-laplace"),
        "verdict",
    ),
    "calibrate": (("calibrate", *SMALL, "--epsilon", "1"), "law"),
    "audit": (("audit", "--recipe", "broken/noise-halved", "--epsilon", "1", "--trials", "2000"), "holds"),
    "worlds": (("worlds",), None),
    "learners": (("learners",), None),
    "recipes": (("recipes", "local/sampled-step"), "options_do"),
    "verify": (("verify", "receipt.json"), "answer"),
    "evaluate": (("evaluate", "policy.json", "--world", "river-swim", "--states", "3", "--horizon", "3"), "value"),
    "plan": (
        ("plan", "--states", "2", "--actions", "2", "--horizon", "1", "--users", "50", "--epsilon", "1", "--runs", "1"),
        "rows",
    ),
    "ledger open": (("ledger", "open", "books.db", "--dataset", "d", "--epsilon", "1"), "dataset"),
}  # fmt: skip
SLOW = ("plan",)
COMMANDS_HERE = [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in SPEAKING]


@pytest.mark.parametrize("name", COMMANDS_HERE)
def test_json_to_standard_output_stands_there_alone(discreet, folder, name):
    typed, key = SPEAKING[name]
    outcome = discreet(*typed, "--json", "-")
    data = json.loads(outcome.out)
    assert key is None or key in data
    assert outcome.code == (1 if name == "audit" else 0)
    assert not (folder / "-").exists()


@pytest.mark.parametrize("name", ["simulate", "compare", "calibrate", "audit", "worlds", "verify", "ledger open"])
def test_quiet_prints_nothing_and_keeps_the_exit_code(discreet, folder, name):
    typed, _ = SPEAKING[name]
    loud = discreet(*typed) if name != "ledger open" else None
    for flag in ("--quiet", "-q")[: 1 if name == "ledger open" else 2]:
        outcome = discreet(*typed, flag)
        assert (outcome.out, outcome.err) == ("", "")
        assert outcome.code == (0 if loud is None else loud.code)
    assert loud is None or loud.out


def test_quiet_writes_files_and_says_errors(discreet, folder):
    assert discreet("worlds", "--quiet", "--json", "list.json").out == ""
    assert json.loads((folder / "list.json").read_text())
    outcome = discreet("simulate", "--quiet", "--learner", "UCBVI")
    assert outcome.code == 2
    assert outcome.err.startswith("discreet: unknown learner")


def test_quiet_and_standard_output_together_are_json(discreet, folder):
    assert json.loads(discreet("worlds", "--quiet", "--json", "-").out)


def test_an_error_leaves_standard_output_empty(discreet, folder):
    outcome = discreet("simulate", "--learner", "UCBVI", "--json", "-")
    assert (outcome.code, outcome.out) == (2, "")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_can_be_quiet(discreet, command):
    text = discreet(command, "--help").out
    assert "--quiet" in text
    if "--json" in text:
        assert "(- for stdout)" in " ".join(text.split()).replace("│ │", "")


@pytest.mark.parametrize("name", ["recipes", "worlds", "learners"])
def test_a_list_is_the_same_with_and_without_the_parser(discreet, capsys, name):
    plain = discreet(name)
    make_app(name)(args=[name], prog_name="discreet", standalone_mode=False)
    assert (plain.code, plain.err) == (0, "")
    assert plain.out == capsys.readouterr().out != ""


def completed(monkeypatch, capsys, typed):
    """What a shell is offered after these words."""
    words = f"discreet {typed}"
    monkeypatch.setenv("_DISCREET_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    with pytest.raises(SystemExit) as stop:
        main([])
    assert not stop.value.code
    return capsys.readouterr().out.split()


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("sim", "simulate"),
        ("simulate --lea", "--learner"),
        ("simulate --learner ucb", "ucbvi"),
        ("simulate --world riv", "river-swim"),
        ("simulate --privacy sh", "shuffle"),
        ("simulate --recipe local/sam", "local/sampled-step"),
        ("recipes local/sam", "local/sampled-step"),
    ],
)
def test_a_shell_completes_commands_options_and_names(monkeypatch, capsys, typed, offered):
    found = completed(monkeypatch, capsys, typed)
    assert offered in found
    assert all(name.startswith(typed.split(" ")[-1]) for name in found)


def test_completion_can_be_installed(discreet, monkeypatch):
    monkeypatch.setattr("shellingham.detect_shell", lambda: ("bash", "/bin/bash"))  # tests may run without a shell
    assert "--install-completion" in discreet("--help").out
    assert "_discreet_completion" in discreet("--show-completion", "bash").out


def test_commands_that_may_take_long_say_that_they_are_at_work(discreet, monkeypatch):
    said = []

    @contextmanager
    def still_at(what):
        said.append(what)
        yield

    monkeypatch.setattr("discreet.simulation.progress.still_at", still_at)
    assert discreet("calibrate", "--epsilon", "1", "--states", "2", "--horizon", "2").code == 0
    assert discreet("worlds", "bandit").code == 0
    assert said == ["discreet calibrate is at work"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_quiet_shows_no_progress(monkeypatch, folder, capsys):
    typed, _ = SPEAKING["simulate"]
    monkeypatch.setenv("TERM", "xterm")
    seen = {}
    for flags in ((), ("--quiet",)):
        terminal = Terminal()
        monkeypatch.setattr("sys.stderr", terminal)
        with pytest.raises(SystemExit):
            main([*typed, *flags])
        seen[flags] = terminal.getvalue()
    assert "ucbvi" in seen[()]
    assert seen[("--quiet",)] == ""


@pytest.mark.parametrize("width", [60, 80, 100])
def test_numbers_of_a_table_are_whole_in_narrow_terminals(width, monkeypatch, capsys):
    """Names give way, and only where there is no room for them."""
    monkeypatch.setenv("COLUMNS", str(width))
    name = "discrete Laplace, scale 1000.5, our own sampler"
    print_table(["noise", "draws", "off by", "allowed", "verdict"], [[name, "20,000", "0.0012", "0.0234", "ok"]],
                right=["draws", "off by", "allowed"])  # fmt: skip
    printed = capsys.readouterr().out
    assert all(number in printed for number in ("20,000", "0.0012", "0.0234", "verdict", "sampler"))
    assert "…" not in printed
    assert (name in printed) == (width == 100)


def test_names_are_whole_where_numbers_alone_are_too_wide(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    columns = [f"model {index}" for index in range(5)]
    print_table(["learner", *columns], [["never-learns", *["1,234.5 ± 56.7 (89%)"] * 5]], right=columns)
    assert "never-learns" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [("recipes",), ("worlds", "--json", "-")])
def test_a_reader_that_has_enough_is_no_bad_input(arguments):
    """discreet recipes | head -1"""
    command = [sys.executable, "-c", "from discreet.cli import main; main()", *arguments]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")
