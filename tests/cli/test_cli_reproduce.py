"""``discreet reproduce`` finds the figures of a clone by its entry point alone, and says so where there is none."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from discreet.cli import main

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
SENTENCE = (
    "discreet: figures of papers are drawn by the repository, not by the package: run make setup in a clone of it, and "
    ".venv/bin/discreet reproduce there\n"
)


@pytest.mark.parametrize("words", [(), ("--list",), ("local/figure-7", "--out", "here")])
@pytest.mark.parametrize("left", [(), (EntryPoint("papers", "of_a_clone_that_is_gone:reproduce", "x"),)])
def test_without_the_repository_one_sentence_says_where_figures_are(words, left, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: left)
    with pytest.raises(SystemExit) as stop:
        main(["reproduce", *words])
    assert (stop.value.code, capsys.readouterr().err) == (2, SENTENCE)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_folder_of_the_user_that_is_called_experiments_is_never_imported(tmp_path):
    """Python looks into the user's folder first; the entry point is what the set-up installs, written by hand."""
    for name in ("experiments", "experiments/papers"):
        (tmp_path / "user" / name).mkdir(parents=True)
        (tmp_path / "user" / name / "__init__.py").write_text("raise SystemExit('something of the user ran')\n")
    told = tomllib.loads((EXPERIMENTS / "pyproject.toml").read_text())["project"]
    installed = tmp_path / "site" / "discreet_experiments-0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {told['name']}\nVersion: {told['version']}\n")
    for group, entries in told["entry-points"].items():
        lines = "".join(f"{name} = {where}\n" for name, where in entries.items())
        (installed / "entry_points.txt").write_text(f"[{group}]\n{lines}")
    path = [str(installed.parent), str(EXPERIMENTS), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, "-m", "discreet", "reproduce", "--list"],
        cwd=tmp_path / "user", capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "heavy-tailed/figure-4a" in done.stdout
