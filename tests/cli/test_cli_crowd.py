"""``discreet crowd``: one command rehearses a whole study; what cannot be done is refused before anything starts."""

from __future__ import annotations

import json

import pytest

from discreet.study.service.study_files import new_study

WORLD = ("--world", "river-swim", "--states", "3", "--horizon", "3")


def study_file(folder, **changes):
    """A small study; ``changes`` are whole lines by their key."""
    file = folder / "small.toml"
    new_study(file)
    lines = {
        "states": "states = 3",
        "horizon": "horizon = 3",
        "number": "number = 60",
        **changes,
    }
    text = [lines.get(line.split(" = ")[0], line) for line in file.read_text().splitlines()]
    file.write_text("\n".join(text) + "\n")
    return file


@pytest.mark.service
@pytest.mark.parametrize("key", [True, False], ids=["with its key", "with another key"])
@pytest.mark.parametrize("model", ["local", "central"])
def test_one_command_rehearses_a_whole_study(discreet, tmp_path, model, key):
    """Central people are invited here as well; the copy has invitations of its own."""
    changes = {"model": f'model = "{model}"', "delta": f"delta = {0.0 if model == 'local' else 1e-5}"}
    if model == "central":
        changes |= {"tokens": "tokens = true", "epsilon": "epsilon = 4.0", "title": 'title = "Small"'}
    file = study_file(tmp_path, **changes)
    if not key:
        (tmp_path / "small.signing.pem").unlink()
    before = sorted(path.name for path in tmp_path.iterdir())
    result = discreet("crowd", str(file), *WORLD, "--runs", "2", "--json", str(tmp_path / "out.json"))
    assert result.code == 0, result.err
    assert "60 acted, 60 reports were accepted" in result.out
    unsaid = (
        "about;" if model == "central" else "title, about and epsilon; a study starts when its file says them, and this"
    )
    assert f"not said yet: {unsaid}" in result.err
    assert f"epsilon {4 if model == 'central' else 1}" in result.out
    assert "in 2 runs" in result.out
    out = json.loads((tmp_path / "out.json").read_text())
    assert out["accepted"] == out["people"][-1] == 60
    assert out["refused"] == {}
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*before, "out.json"])


def test_a_world_of_another_size_is_refused_before_a_service_starts(discreet, tmp_path, monkeypatch):
    monkeypatch.setattr("discreet.cli.crowd_service.served", None)
    result = discreet("crowd", str(study_file(tmp_path)), "--states", "4", "--horizon", "3")
    assert (result.code, result.out) == (2, "")
    assert result.err == "discreet: the study has states 3, and world river-swim-4 4: choose another world\n"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--runs", "3", "--users", "10"), "--runs compares whole studies"),
        (("--url", "nowhere"), "address of a service"),
        (("--world", "nowhere"), "unknown world"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_starts(discreet, tmp_path, options, words):
    result = discreet("crowd", str(study_file(tmp_path)), *(() if "--world" in options else WORLD), *options)
    assert result.code == 2
    assert result.err.count("\n") == 1
    assert words in " ".join(result.err.split())
    assert result.out == ""


def test_random_worlds_need_an_instance_and_invited_people_their_tokens(discreet, tmp_path):
    file = study_file(tmp_path, tokens="tokens = true")
    result = discreet("crowd", str(file), "--world", "random-mdp")
    assert (result.code, "--instance" in result.err) == (2, True)
    result = discreet("crowd", str(file), *WORLD, "--url", "http://127.0.0.1:1")
    assert (result.code, "--tokens FILE" in result.err) == (2, True)


def test_nobody_there_is_one_sentence(discreet, tmp_path, monkeypatch):
    monkeypatch.setattr("discreet.study.crowd.people._TRIES", 1)
    result = discreet("crowd", str(study_file(tmp_path)), *WORLD, "--url", "http://127.0.0.1:1")
    assert result.code == 2
    assert "cannot be reached" in result.err
    assert len(result.err.strip().splitlines()) == 1
