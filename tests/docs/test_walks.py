"""The walks of docs/design.md name files and functions that are there."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import discreet

ROOT = Path(discreet.__file__).parent
PAGE = (Path(__file__).parents[2] / "docs" / "design.md").read_text()
WALKS = PAGE[PAGE.index("### (a)") : PAGE.index("## Privacy is a type")]
FOLDERS = {path.name for path in ROOT.iterdir() if (path / "__init__.py").exists()}
TOKEN = re.compile(r"\*\*(\w+)\*\*|`(\w+(?:\.\w+)+)`")


def named(text: str) -> list[tuple[str, str]]:
    """Every ``file.function`` with the folder that was named last before it."""
    folder, found = "", []
    for match in TOKEN.finditer(text):
        if match[1]:
            folder = match[1]
        elif match[2].partition(".")[2] != "py":
            found.append((folder, match[2]))
    return found


def is_there(folder: str, name: str) -> bool:
    """Whether the file of the room or of its parts, or one of its files, has it (a class without its file will do)."""
    first, *rest = name.split(".")
    if folder not in FOLDERS:
        return False
    paths = [path for path in (ROOT / folder).rglob("*.py") if path.stem != "__init__"]
    found = [path for path in paths if path.stem == first]
    if not found:
        found, rest = paths, [first, *rest]
    for path in found:
        owner = importlib.import_module(".".join(path.relative_to(ROOT.parent).with_suffix("").parts))
        for part in rest:
            owner = getattr(owner, part, None)
        if owner is not None:
            return True
    return False


@pytest.mark.parametrize(("folder", "name"), sorted(set(named(WALKS))))
def test_what_a_walk_names_is_there(folder, name):
    assert is_there(folder, name), f"docs/design.md: there is no {name} in {folder}/"


def test_the_reader_finds_what_is_missing():
    assert named("**cli**: `simulate.simulate`, **noise** `gaussian.nothing`") == [
        ("cli", "simulate.simulate"),
        ("noise", "gaussian.nothing"),
    ]
    assert is_there("cli", "simulate.simulate")
    assert is_there("mechanisms", "AdditiveRun.estimates")
    assert is_there("problems", "world.layered")
    assert not is_there("noise", "gaussian.nothing")
    assert not is_there("nowhere", "distribution.Law")
    assert len(named(WALKS)) > 80
