from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from discreet.cli import main


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine adds no line that says how long a command has been at work."""
    monkeypatch.setattr("discreet.simulation.progress.FIRST_LINE", 1e6)


@pytest.fixture
def discreet(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outcome]:
    """Run the command line in this process, as the entry point does."""
    monkeypatch.setenv("COLUMNS", "100")

    def run(*arguments: str) -> Outcome:
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        captured = capsys.readouterr()
        return Outcome(int(stop.value.code or 0), captured.out, captured.err)

    return run
