"""The count of lines counts what does something, and refuses too many."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests import size

SOURCE = '''"""Two lines
of a docstring."""

import os  # one that is not counted
from pathlib import (
    Path,
)


# a comment
def f(x):  # a line
    """What it is."""
    return """text

    that is code"""
'''


def test_lines_that_do_something_are_counted():
    assert size.lines_of_code(SOURCE) == 3  # the blank line within a text is none
    assert size.room_of("src/discreet/noise/gaussian.py") == "noise"
    assert size.room_of("src/discreet/checker.py") == "root"
    assert size.room_of("experiments/loops.py") == "experiments"


@pytest.mark.parametrize(("most", "code"), [(3, 0), (2, 1)])
def test_more_than_there_may_be_is_refused(tmp_path, monkeypatch, capsys, most, code):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["size.py", "--rooms"])
    monkeypatch.setattr(size, "MOST", most)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "long.py").write_text("x = 1\n" * 10)
    (tmp_path / "module.py").write_text(SOURCE)
    subprocess.run(["git", "init", "--quiet"], check=True)
    subprocess.run(["git", "add", "."], check=True)
    assert size.main() == code
    assert f"3 lines of code of at most {most}, 0 modules" in capsys.readouterr().out
