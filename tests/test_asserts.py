"""``python -O`` drops asserts, so none may guard data, a length, a key or a law: in the package they only tell the type
checker that an optional value is there, where its absence would fail in the next lines anyway."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "discreet"


def guards(source: str) -> list[int]:
    """Lines of asserts that say more than ``name is not None``."""
    return [
        node.lineno for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Assert) and not _is_there(node.test)
    ]


def _is_there(test: ast.expr) -> bool:
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.left, ast.Name | ast.Attribute)
        and isinstance(test.ops[0], ast.IsNot)
        and isinstance(test.comparators[0], ast.Constant)
        and test.comparators[0].value is None
    )


def test_no_assert_guards_anything():
    found = {str(file.relative_to(PACKAGE)): guards(file.read_text()) for file in PACKAGE.rglob("*.py")}
    assert {file: lines for file, lines in found.items() if lines} == {}


@pytest.mark.parametrize("guard", ["len(x) == n", "isinstance(x, int)", "x in y", "f(x) is not None"])
def test_a_guard_is_seen(guard):
    assert guards(f"def f(x):\n    assert {guard}\n    assert x is not None\n") == [2]


OPTIMISED = """
from types import SimpleNamespace
from discreet.base.errors import InvalidInput
from discreet.study.service.sealing import bound_to
from discreet.study.shuffler.shuffler import Shuffler
view = SimpleNamespace(number=3, users=2, messages=1)
shuffler = SimpleNamespace(_shuffle=lambda messages: print("went on with", len(messages)), point=print)
for guarded in (lambda: bound_to("study", 1, "rumour"), lambda: Shuffler._batch(shuffler, view, [])):
    try:
        guarded()
    except InvalidInput as error:
        print("refused:", error)
"""


def test_guards_hold_without_asserts():
    done = subprocess.run([sys.executable, "-O", "-c", OPTIMISED], capture_output=True, text=True)
    first, second = done.stdout.splitlines()
    assert first.startswith("refused: unknown purpose of a sealed content 'rumour'")
    assert second.startswith("refused: the batch of round 3 has 0 reports with 0 messages")
