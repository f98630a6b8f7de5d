"""``discreet study`` and ``discreet serve``: what they print, what they refuse, and that nothing is left half done."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import numpy as np
import pytest
from tests.study.service.small_studies import TOKENS, coordinator, declared, report

from discreet.base.policies import load_policy
from discreet.cli import main
from discreet.study.service.study_database import Database
from discreet.study.service.study_files import places_of


@pytest.fixture
def rng():
    """Where made-up behaviour comes from."""
    return np.random.default_rng(5)


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main([str(word) for word in words])
    return int(stop.value.code or 0)


def test_a_study_is_written_checked_and_invited_to(tmp_path, capsys):
    file = tmp_path / "reminders.toml"
    assert run("study", "new", file) == 0
    assert "study check" in capsys.readouterr().out
    assert run("study", "new", file) == 2
    assert "not overwritten" in capsys.readouterr().err
    assert run("study", "check", file, "--runs", "0") == 0
    shown = capsys.readouterr().out
    assert "sha256:" in shown
    assert "not said yet: title, about and epsilon; a study starts when its file says them" in shown
    assert "pure local differential privacy, epsilon 1" in " ".join(shown.split())
    assert "3 requests" in shown
    assert run("study", "tokens", file, "--number", 2, "--out", tmp_path / "tokens.txt") == 2
    assert "tokens = true" in capsys.readouterr().err
    assert not (tmp_path / "tokens.txt").exists()
    assert not places_of(file).database.exists()


@pytest.mark.parametrize(
    ("reports", "recipe"), [(1, "central/first-visit-matrix"), (3, "central/joint-histogram-laplace")]
)
def test_auto_takes_what_can_be_served_and_says_where_it_differs(tmp_path, capsys, reports, recipe):
    file = tmp_path / "reminders.toml"
    assert run("study", "new", file) == 0
    capsys.readouterr()
    changes = {
        '"local"': '"central"',
        'epsilon = ""': "epsilon = 1.0",
        "delta = 0.0": "delta = 1e-5",
        "tokens = false": "tokens = true",
    }
    for old, new in {**changes, "reports_per_user = 1": f"reports_per_user = {reports}"}.items():
        file.write_text(file.read_text().replace(old, new, 1))
    assert run("study", "check", file, "--runs", "0") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"recipe {recipe} " in shown
    differs = "auto took a recipe that can be served; for such rounds it would take 'central/first-visit-matrix', but"
    assert (differs in shown) == (reports > 1)


def test_the_rehearsal_says_what_to_expect(tmp_path, capsys):
    assert run("study", "check", declared(tmp_path, number=300), "--runs", "1") == 0
    assert "with 300 reports expect" in capsys.readouterr().out


def test_tokens_are_in_the_file_and_only_their_digests_in_the_database(tmp_path, capsys, rng):
    file = declared(tmp_path, TOKENS)
    assert run("study", "tokens", file, "--number", 2, "--out", tmp_path / "tokens.txt") == 0
    made = (tmp_path / "tokens.txt").read_text().split()
    assert len(made) == 2
    at = coordinator(file)
    at.accept(report(at, rng), token=made[0])
    at.stop()
    content = b"".join(path.read_bytes() for path in tmp_path.glob("small.db*"))
    assert all(token.encode() not in content for token in made)
    assert run("study", "tokens", file, "--number", 2, "--out", tmp_path / "tokens.txt") == 2


def test_an_early_end_and_what_cannot_be_ended_or_restored(tmp_path, capsys, rng):
    file = declared(tmp_path)
    assert run("study", "end", file) == 2
    assert "discreet serve" in capsys.readouterr().err
    assert run("study", "restored", file) == 2
    assert "small.head is missing" in capsys.readouterr().err
    assert not places_of(file).database.exists()
    Database(places_of(file).database).prepare()
    assert run("study", "end", file) == 2
    assert "not been opened" in capsys.readouterr().err
    at = coordinator(file)
    at.accept(report(at, rng))
    at.stop()
    assert run("study", "restored", file) == 0
    assert "round 2" in capsys.readouterr().out
    assert run("study", "end", file) == 0
    assert "ended by the operator" in capsys.readouterr().out
    assert run("study", "restored", file) == 2
    assert "has ended" in capsys.readouterr().err


def test_what_was_learned_is_a_policy_file_with_the_labels_of_the_study(tmp_path, capsys, rng):
    labels = {"states = 2": 'states = ["calm", "tired"]', "actions = 2": 'actions = ["walk", "rest"]'}
    file, out = declared(tmp_path, labels), tmp_path / "policy.json"
    assert run("study", "policy", file, "--out", out) == 2
    assert "discreet serve" in capsys.readouterr().err
    at = coordinator(file)
    at.accept(report(at, rng))
    at.stop()
    assert run("study", "policy", file, "--out", tmp_path / "policy.csv") == 2
    assert ".json or .npz" in capsys.readouterr().err
    assert run("study", "policy", file, "--out", out) == 0
    assert "may still explore" in capsys.readouterr().out
    assert run("study", "end", file) == 0
    assert "discreet study policy" in capsys.readouterr().out
    assert run("study", "policy", file, "--out", out) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "recommended at the end" in shown
    assert "differential privacy" in shown
    at = coordinator(file)
    policy = load_policy(out)
    assert policy.actions.tolist() == json.loads(at.published.row.policy)["actions"]
    at.stop()
    assert (policy.state_labels, policy.action_labels) == (("calm", "tired"), ("walk", "rest"))
    other = tmp_path / "other.toml"
    other.write_text(file.read_text().replace("number = ", "number = 1"))
    assert run("study", "policy", other, "--db", places_of(file).database, "--out", tmp_path / "o.json") == 2
    assert "not the study that this database belongs to" in capsys.readouterr().err
    assert not (tmp_path / "o.json").exists()


@pytest.mark.parametrize("command", [("study", "check"), ("serve",), ("study", "end"), ("study", "restored")])
def test_a_file_that_is_no_study_is_one_sentence(tmp_path, capsys, command):
    (tmp_path / "note.toml").write_text("format = 2\nname = 'x'\n")
    for file in ("note.toml", "note.txt", "nothing.toml"):
        assert run(*command, tmp_path / file) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_serve_refuses_a_missing_operator_token_before_anything_is_opened(tmp_path, capsys):
    file = declared(tmp_path)
    places_of(file).operator.unlink()
    assert run("serve", file) == 2
    assert "small.operator" in capsys.readouterr().err
    assert not places_of(file).database.exists()


@pytest.mark.parametrize(
    ("world", "why"),
    [
        (("--world", "river-swim", "--states", "3"), "the study has states 2, and world river-swim-3 3"),
        (("--world", "random-mdp"), "choose an --instance of a random one"),
        (("--world", "river"), "river-swim"),
    ],
)
def test_serve_refuses_a_rehearsal_in_another_world_before_anything_is_opened(tmp_path, capsys, world, why):
    file = declared(tmp_path)
    assert run("serve", file, *world) == 2
    assert why in " ".join(capsys.readouterr().err.split())
    assert not places_of(file).database.exists()


def test_serve_refuses_an_address_that_it_cannot_have_before_anything_is_opened(tmp_path, capsys):
    file = declared(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert run("serve", file, "--port", taken.getsockname()[1]) == 2
        assert "cannot listen on 127.0.0.1 port" in capsys.readouterr().err
    assert run("serve", file, "--host", "192.0.2.7") == 2
    assert "192.0.2.7" in capsys.readouterr().err
    assert not places_of(file).database.exists()


def test_a_study_that_costs_a_device_too_much_is_refused():
    from discreet.base.errors import Unsupported
    from discreet.study.service.study_check import MOST_BYTES, DeviceCost

    DeviceCost(3, 1000, 100, 1.0).check()
    with pytest.raises(Unsupported, match="bytes"):
        DeviceCost(3, MOST_BYTES, 1, 1.0).check()
    with pytest.raises(Unsupported, match="milliseconds"):
        DeviceCost(3, 1000, 100, 5000.0).check()


@pytest.mark.parametrize(("model", "command"), [("local", "serve"), ("shuffle", "shuffler")])
def test_a_study_that_says_nothing_yet_does_not_start(tmp_path, capsys, model, command):
    file = tmp_path / "new.toml"
    assert run("study", "new", file, "--model", model) == 0
    capsys.readouterr()
    assert run(command, file) == 2
    assert capsys.readouterr().err.strip() == (
        "discreet: study 'new' does not say its title, about and epsilon yet, and nobody else can: write that into its "
        "file, then start it"
    )
    file.write_text(
        file.read_text().replace('\nepsilon = ""', "\nepsilon = 1.0").replace('title = ""', 'title = "New"')
    )
    assert run(command, file) == 2
    assert "does not say its about yet" in capsys.readouterr().err
    assert not places_of(file).database.exists()


def test_no_default_of_anything_is_epsilon_4():
    """Neither a template nor an option of a command."""
    from discreet.study.service.declaration import MODELS, parse_study
    from discreet.study.service.study_files import template

    keys = dict.fromkeys(("signing", "sealing", "shuffler"), "0" * 64)
    for model in MODELS:
        text = template("new", keys if model == "shuffle" else {"signing": "0" * 64}, model)
        assert "epsilon" in parse_study(text).unsaid
    source = Path(__file__).parents[2] / "src" / "discreet"
    four = re.compile(r"epsilon[^\n=]{0,40}=\s*4(\.0)?\b")
    assert [str(file) for file in sorted(source.rglob("*.py")) if four.search(file.read_text())] == []
