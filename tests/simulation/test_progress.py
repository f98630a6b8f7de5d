"""The progress bar: on a terminal only, only when asked for, and on stderr."""

from __future__ import annotations

import io

import pytest

from discreet.simulation.progress import progress_bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def drawn(monkeypatch, stream, shown):
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    with progress_bar("learning", 10, shown) as tick:
        tick(4)
        tick(6)
    return stream.getvalue()


def test_a_terminal_is_told_what_is_done(monkeypatch):
    text = drawn(monkeypatch, Terminal(), shown=True)
    assert "learning" in text
    assert "100%" in text


@pytest.mark.parametrize(("stream", "shown"), [(Terminal, False), (io.StringIO, True)], ids=["unasked", "a file"])
def test_nobody_else_is(monkeypatch, stream, shown):
    assert drawn(monkeypatch, stream(), shown) == ""
