"""A progress bar for long work: on a terminal only, and only when asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock


@contextmanager
def progress_bar(what: str, total: int, shown: bool) -> Iterator[Callable[[int], None]]:
    """Yield a function that is told how much more has been done; it may be called from any thread."""
    if not shown or not sys.stderr.isatty():
        yield lambda _amount: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task, lock = bar.add_task(what, total=total), Lock()

        def tick(amount: int) -> None:
            with lock:
                bar.advance(task, amount)

        yield tick
