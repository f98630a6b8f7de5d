"""Progress of long work, only when asked for: a bar on a terminal or in a notebook, and elsewhere a line now and then.

Work tells how much more of it is done; somebody else says so. On a terminal that is a bar of rich. In a notebook one
line of the output is replaced twice a second. Into a file or a pipe a line is written every five seconds in the first
minute, and every minute after that, so that a log stays short and nobody wonders whether anything happens: a thread of
its own does the telling. Compiling, which happens once, is said apart and is no work; how long the rest will take is
said when 5% are done.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Event, Lock, Thread
from typing import Any

from discreet.base.compiled import COMPILE_CLOCK, CompileClock

FIRST_LINE, NEXT_LINE = 5.0, 60.0  # seconds, where nobody watches
_IN_A_NOTEBOOK = 0.5
_OFTEN = 12  # lines before they become rare
_WIDTH = 24
_TELLING = 0.05  # the share that must be done before anybody says how long the rest will take
_BARS: list[None] = []  # one for each that is shown
_SILENT: ContextVar[bool] = ContextVar("silent", default=False)


@contextmanager
def silent() -> Iterator[None]:
    """No progress is shown inside, whoever asks for it."""
    before = _SILENT.set(True)
    try:
        yield
    finally:
        _SILENT.reset(before)


@contextmanager
def progress_bar(what: str, total: int, shown: bool) -> Iterator[Callable[[int], None]]:
    """Yield a function that is told how much more has been done; it may be called from any thread."""
    if not shown or _SILENT.get():
        yield lambda _amount: None
        return
    with _seen():
        yield from _shown(what, total)


@contextmanager
def _seen() -> Iterator[None]:
    """While a bar is shown, nobody else need say that something is going on."""
    _BARS.append(None)
    try:
        yield
    finally:
        _BARS.pop()


def _shown(what: str, total: int) -> Iterator[Callable[[int], None]]:
    cell = notebook_cell()
    if cell is not None:
        work = Work(what, total)
        with _told_by_a_thread(lambda: cell(work.line()), _IN_A_NOTEBOOK, _IN_A_NOTEBOOK):
            yield work.tick
        cell(work.line())
    elif sys.stderr.isatty():
        with _terminal_bar(what, total) as tick:
            yield tick
    else:
        work, stream = Work(what, total), sys.stderr
        with _told_by_a_thread(lambda: print(work.line(), file=stream, flush=True), FIRST_LINE, NEXT_LINE):
            yield work.tick


@contextmanager
def still_at(what: str) -> Iterator[None]:
    """Say after five seconds, and later now and then, that something is going on of which nobody knows the length."""
    if _SILENT.get():
        yield
        return
    began, stream = time.monotonic(), sys.stderr

    def tell() -> None:
        if not _BARS:
            print(f"{what}: {_duration(time.monotonic() - began)} so far", file=stream, flush=True)

    with _told_by_a_thread(tell, FIRST_LINE, NEXT_LINE):
        yield


class Work:
    """How much of something is done, and what to say about it. Its clock stands still while code is compiled."""

    def __init__(
        self,
        what: str,
        total: int,
        clock: Callable[[], float] = time.monotonic,
        compiling: CompileClock = COMPILE_CLOCK,
    ) -> None:
        self._what, self._total, self._clock, self._compiling = what, max(total, 1), clock, compiling
        self._done, self._lock, self._began, self._compiled = 0, Lock(), clock(), compiling.read()[1]

    def tick(self, amount: int) -> None:
        """So much more is done."""
        with self._lock:
            self._done += amount

    def line(self) -> str:
        """One line: the share that is done, the time that it took, and how long the rest will take."""
        share, spent, remark = self._now()
        bar = "#" * round(share * _WIDTH)
        took = "" if remark.startswith("c") else f" after {_duration(spent)}"
        return f"{self._what} [{bar:-<{_WIDTH}}] {share:4.0%}{took}{remark and f', {remark}'}"

    def remark(self) -> str:
        """That code is being compiled, or how long the rest will take, or nothing yet."""
        return self._now()[2]

    def _now(self) -> tuple[float, float, str]:
        running, compiled = self._compiling.read()
        apart = compiled - self._compiled
        share, spent = min(1.0, self._done / self._total), max(0.0, self._clock() - self._began - apart)
        if running:
            return share, spent, f"compiling, once: {_duration(apart)} so far"
        return share, spent, f"about {_duration(spent / share - spent)} left" if _TELLING <= share < 1 else ""


def notebook_cell() -> Callable[[str], None] | None:
    """Where a notebook shows a line that is replaced by the next one; None where this is no notebook."""
    module = sys.modules.get("IPython")  # whoever runs in a notebook has imported it
    shell: Any = None if module is None else module.get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from importlib import import_module

    handle: Any = import_module("IPython.display").display({"text/plain": ""}, raw=True, display_id=True)
    return lambda text: handle.update({"text/plain": text}, raw=True)


@contextmanager
def _told_by_a_thread(tell: Callable[[], None], first: float, then: float) -> Iterator[None]:
    """Call ``tell`` after so many seconds, and again and again, later more rarely, until the work is over."""
    over = Event()

    def watch() -> None:
        told = 0
        while not over.wait(first if told < _OFTEN else then):
            tell()
            told += 1

    thread = Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def _terminal_bar(what: str, total: int) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
    from rich.text import Text

    work = Work(what, total)

    class Remark(ProgressColumn):
        def render(self, task: Task) -> Text:
            del task
            return Text(work.remark())

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"), Remark())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task, lock = bar.add_task(what, total=total), Lock()

        def tick(amount: int) -> None:
            work.tick(amount)
            with lock:
                bar.advance(task, amount)

        yield tick


def _duration(seconds: float) -> str:
    """Seconds as people say them: ``12 s``, ``3:05``, ``2:10:00``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    hours, rest = divmod(whole, 3600)
    minutes, left = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"
