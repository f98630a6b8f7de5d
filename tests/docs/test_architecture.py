"""What ARCHITECTURE.md names is there: files, functions, and the rooms in the order that imports keep."""

from __future__ import annotations

import re
from pathlib import Path

from tests.test_imports import PACKAGE, ROOMS

PAGE = (Path(__file__).parents[2] / "ARCHITECTURE.md").read_text()


def rooms(page: str) -> tuple[str, ...]:
    """The rooms of the table, from top to bottom."""
    table = page[page.index("## The rooms") : page.index("## The rules")]
    return tuple(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))


def missing(page: str) -> list[str]:
    """Files that are not there, and what the page looks for in a file and is not in it."""
    files = {name for name in re.findall(r"`([\w/]+\.py)`", page) if "/" in name}
    found = [name for name in files if not (PACKAGE / name).exists() and not (PACKAGE.parents[1] / name).exists()]
    for what, file in re.findall(r"`([^`]+)`(?: in `_at`,| in| of) `([\w/]+\.py)`", page):
        text = (PACKAGE / file).read_text() if (PACKAGE / file).exists() else ""
        found += [f"{what} in {file}" for part in what.split(".") if part not in text]
    return found


def test_rooms_stand_in_the_order_of_imports():
    assert rooms(PAGE) == ROOMS


def test_everything_named_is_there():
    assert missing(PAGE) == []
    assert len(PAGE.split()) < 800, "it is one page"


def test_the_reader_finds_what_is_missing():
    page = "`choose` in `recipes/auto.py`, `Draws.never` of `mechanisms/sums/blocks.py`, `learners/none.py`"
    assert missing(page) == ["learners/none.py", *["Draws.never in mechanisms/sums/blocks.py"] * 2]
    assert rooms("## The rooms\n| `noise` | x |\n| `base` | y |\n## The rules") == ("noise", "base")
