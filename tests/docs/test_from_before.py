"""The page on what changed: blocks of before end with an error now, and those of after run."""

from __future__ import annotations

import re

import pytest
from tests.docs.test_pages import DOCS

PAGE = (DOCS / "from-0.2.md").read_text()
BEFORE, AFTER = (
    re.findall(rf"^```{kind}\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE) for kind in ("py", "python")
)


def lines(block: str) -> list[str]:
    """Each import by itself: every one of them has moved."""
    return block.splitlines() if all(line.startswith("from ") for line in block.splitlines()) else [block]


@pytest.mark.parametrize("program", [line for block in BEFORE for line in lines(block)])
def test_what_was_before_is_gone(program):
    with pytest.raises((ImportError, TypeError)):
        exec(program, {})


@pytest.mark.slow
@pytest.mark.parametrize("program", AFTER)
def test_what_is_after_runs(program):
    exec(program, {})


def test_the_page_is_short():
    assert BEFORE
    assert len(BEFORE) == len(AFTER)
    assert len(PAGE.split()) <= 600
