"""Progress, if asked for: a bar on a terminal, a cell of a notebook, and elsewhere a line now and then on stderr."""

from __future__ import annotations

import io
import sys
from contextlib import contextmanager
from threading import Event
from types import ModuleType, SimpleNamespace

import pytest

from discreet.base.compiled import COMPILE_CLOCK, CompileClock, kernel
from discreet.simulation import progress
from discreet.simulation.progress import Work, notebook_cell, progress_bar, silent, still_at


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
def test_nobody_else_is_told_of_short_work(monkeypatch, stream, shown):
    assert drawn(monkeypatch, stream(), shown) == ""


def test_nobody_is_told_in_silence(monkeypatch):
    with silent():
        assert drawn(monkeypatch, Terminal(), shown=True) == ""
    assert drawn(monkeypatch, Terminal(), shown=True) != ""


def test_a_file_gets_a_line_now_and_then(monkeypatch):
    """The thread that tells is real; the work waits until it has told twice, however long that takes."""

    class File(io.StringIO):
        def __init__(self):
            super().__init__()
            self.twice = Event()

        def flush(self):
            lines = self.getvalue().splitlines()
            if len(lines) >= 2 and " 50% after" in lines[-1]:
                self.twice.set()

    file = File()
    monkeypatch.setattr(progress, "FIRST_LINE", 0.0)
    monkeypatch.setattr(progress, "NEXT_LINE", 0.0)
    monkeypatch.setattr("sys.stderr", file)
    with progress_bar("learning", 10, True) as tick:
        tick(5)
        assert file.twice.wait(60)
    lines = file.getvalue().splitlines()
    assert len(lines) >= 2
    assert all(line.startswith("learning [") for line in lines)
    assert " 50% after" in lines[-1]


def test_work_of_unknown_length_says_that_it_goes_on(monkeypatch):
    class File(io.StringIO):
        def __init__(self):
            super().__init__()
            self.told = Event()

        def flush(self):
            self.told.set()

    file = File()
    monkeypatch.setattr(progress, "FIRST_LINE", 0.0)
    monkeypatch.setattr("sys.stderr", file)
    with silent(), still_at("auditing"):
        pass
    assert file.getvalue() == ""
    with still_at("auditing"):
        assert file.told.wait(60)
    assert file.getvalue().startswith("auditing: 0 s so far\n")


def test_it_does_not_speak_over_a_bar(monkeypatch):
    told = Event()
    monkeypatch.setattr(progress, "_told_by_a_thread", lambda tell, *_times: _once(tell, told))
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with progress_bar("learning", 10, True), still_at("auditing"):
        pass
    assert told.is_set()
    assert "auditing" not in terminal.getvalue()
    with still_at("auditing"):
        pass
    assert "auditing: 0 s so far" in terminal.getvalue()


@contextmanager
def _once(tell, told):
    tell()
    told.set()
    yield


@pytest.mark.parametrize(
    ("seconds", "done", "said"),
    [
        (0, 0, "work [------------------------]   0% after 0 s"),
        (12, 0, "work [------------------------]   0% after 12 s"),
        (30, 25, "work [######------------------]  25% after 30 s, about 1:30 left"),
        (3723, 50, "work [############------------]  50% after 1:02:03, about 1:02:03 left"),
        (61, 100, "work [########################] 100% after 1:01"),
        (61, 200, "work [########################] 100% after 1:01"),
        (61, 4, "work [#-----------------------]   4% after 1:01"),  # too early to say
        (60, 5, "work [#-----------------------]   5% after 1:00, about 19:00 left"),
    ],
)
def test_a_line_says_how_much_is_done_and_how_long_the_rest_takes(seconds, done, said):
    times = iter([100.0, 100.0 + seconds])
    work = Work("work", 100, clock=lambda: next(times))
    work.tick(done)
    assert work.line() == said


def test_compiling_is_no_work():
    """A simulated minute of compiling, one compilation inside of another, then work that takes 40 seconds."""
    now = 0.0
    compiling = CompileClock(lambda: now)
    work = Work("work", 100, lambda: now, compiling)
    now = 3.0
    compiling.begin()
    now = 23.0
    compiling.begin()
    assert work.line() == "work [------------------------]   0%, compiling, once: 20 s so far"
    compiling.end()
    now = 63.0
    assert work.remark() == "compiling, once: 1:00 so far"
    compiling.end()
    assert work.line() == "work [------------------------]   0% after 3 s"
    now = 70.0
    work.tick(25)
    assert work.line() == "work [######------------------]  25% after 10 s, about 30 s left"
    later = Work("later", 100, lambda: now, compiling)  # what was compiled before is none of its time
    now = 80.0
    later.tick(50)
    assert later.remark() == "about 10 s left"


def test_the_clock_knows_when_numba_compiles():
    from uuid import uuid4

    number = uuid4().int % 2**31  # part of the code, so that no cache knows it

    @kernel
    def add(x):
        return x + number

    before = COMPILE_CLOCK.read()
    assert add(1) == 1 + number
    running, after = COMPILE_CLOCK.read()
    assert (before[0], running) == (False, False)
    assert after > before[1]
    assert add(2) == 2 + number
    assert COMPILE_CLOCK.read()[1] == after


def notebook(monkeypatch, shell):
    """Modules that stand for IPython; what a cell shows comes back as a list."""
    shown: list[str] = []
    display = ModuleType("IPython.display")

    def show(data, raw, display_id):
        assert raw
        assert display_id
        shown.append(data["text/plain"])
        return SimpleNamespace(update=lambda data, raw: shown.append(data["text/plain"]))

    display.display = show
    package = ModuleType("IPython")
    package.get_ipython = lambda: shell
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return shown


def test_a_notebook_shows_one_line_that_is_replaced(monkeypatch):
    shown = notebook(monkeypatch, SimpleNamespace(kernel=object()))
    assert drawn(monkeypatch, io.StringIO(), shown=True) == ""
    assert shown[0] == ""
    assert shown[-1].startswith("learning [########################] 100%")


def test_ipython_in_a_terminal_is_a_terminal(monkeypatch):
    shown = notebook(monkeypatch, SimpleNamespace())
    assert notebook_cell() is None
    assert "100%" in drawn(monkeypatch, Terminal(), shown=True)
    assert shown == []
    monkeypatch.setitem(sys.modules, "IPython", None)
    assert notebook_cell() is None
