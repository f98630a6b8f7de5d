"""How commands speak: tables on stdout, one-line errors on stderr, whole files or none."""

from __future__ import annotations

import functools
import inspect
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from contextvars import ContextVar
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from discreet.base.errors import DiscreetError, InvalidInput, MissingExtra
from discreet.base.files import written

STDOUT = Path("-")  # where --json - goes
READER_IS_GONE = 141  # as shells say it of a program that SIGPIPE ended
_BETWEEN = 3  # letters between two columns of a table
# What is said to whoever writes Python, and what to whoever types.
_TYPED = {
    "give Csv(names=...)": "give --csv names=a,b,c",
    "there is no reward column and no known_rewards=: declare one of them": "--reward is missing: name its column",
}
_LONG = ("audit", "calibrate", "check", "doctor", "evaluate", "train", "verify")
_JSON = ("json", "json_file", "out")  # arguments that may name it
_REAL: ContextVar[TextIO | None] = ContextVar("real", default=None)
_QUIET: Any = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.", rich_help_panel="Output")]


def plain_errors(command: Callable[..., None]) -> Callable[..., None]:
    """The same command with ``--quiet``, and with every expected failure as one line on stderr and an exit code."""

    @functools.wraps(command)
    def wrapped(*arguments: Any, quiet: bool = False, **keywords: Any) -> None:
        before = written()
        try:
            with _voice(quiet, piped=any(keywords.get(name) == STDOUT for name in _JSON)), _patience(command.__name__):
                command(*arguments, **keywords)
        except DiscreetError as error:
            typer.echo(f"discreet: {_as_typed(str(error), own.parameters)}", err=True)
            raise typer.Exit(error.exit_code) from None
        except BrokenPipeError as error:
            raise typer.Exit(unwritten(error)) from None
        except (MemoryError, OSError, OverflowError, RecursionError) as error:
            typer.echo(f"discreet: {_beyond(error)}", err=True)
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            typer.echo(f"discreet: {_interrupted(before)}", err=True)
            raise typer.Exit(130) from None

    own = inspect.signature(command, eval_str=True)
    option = inspect.Parameter("quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=_QUIET)
    setattr(wrapped, "__signature__", own.replace(parameters=[*own.parameters.values(), option]))  # noqa: B010
    return wrapped


def _interrupted(before: Sequence[str]) -> str:
    """What stands on the disk after an interruption: whole files only, and their names."""
    names = list(dict.fromkeys(written()[len(before) :]))
    if not names:
        return "interrupted, nothing was written"
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"interrupted; written before, and whole: {', '.join(names[:3])}{more}"


def _as_typed(message: str, parameters: Iterable[str]) -> str:
    """A message of the library in the words of the command line: ``horizon=`` is ``--horizon`` here."""

    def option(found: re.Match[str]) -> str:
        name, value = found[1], found[2]
        if name not in parameters:
            return found[0]
        return f"--{name.replace('_', '-')}" + (f" {value}" if value.isdigit() else "")

    words = " ".join(message.split())
    for ours, typed in _TYPED.items():
        words = words.replace(ours, typed)
    return re.sub(r"(?<!option )\b([a-z_]+)=(True\b|\d+\b(?!\.)|)(?=[\s,:;.)]|$)", option, words)


@contextmanager
def _patience(name: str) -> Iterator[None]:
    """Say now and then that a command is at work, if it is one that may take long before it says anything."""
    if name not in _LONG:
        yield
        return
    from discreet.simulation.progress import still_at

    with still_at(f"discreet {name} is at work"):
        yield


@contextmanager
def _voice(quiet: bool, piped: bool) -> Iterator[None]:
    """Who hears what a command says: with --quiet nobody, and where JSON goes to stdout it goes there alone."""
    if not (quiet or piped):
        yield
        return
    from discreet.simulation.progress import silent

    token = _REAL.set(sys.stdout)
    try:
        with redirect_stdout(io.StringIO()), silent() if quiet else nullcontext():
            yield
    finally:
        _REAL.reset(token)


def delivered(code: int) -> int:
    """The exit code once everything printed has left: Python would try it after us, and say what we do not."""
    try:
        sys.stdout.flush()
    except OSError as error:
        return unwritten(error, said=code != 0) if code in (0, 1) or isinstance(error, BrokenPipeError) else code
    return code


def unwritten(error: OSError, said: bool = False) -> int:
    """The exit code where standard output takes no more. A reader who has enough, as ``head`` does, hears nothing."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return READER_IS_GONE
    if not said:
        typer.echo(f"discreet: {_beyond(error)}", err=True)
    return 2


def _beyond(error: BaseException) -> str:
    """What the machine could not do, in one sentence; nothing of the error itself but the system's own words."""
    if isinstance(error, OSError):
        return f"the system refused: {error.strerror or type(error).__name__}"
    if isinstance(error, MemoryError):
        return "this needs more memory than there is: choose fewer states, actions, steps or users"
    return "a number is too large to compute with: choose fewer states, actions, steps or users"


def check_outputs(
    *,
    json_file: Path | None = None,
    page: Path | None = None,
    plot: Path | None = None,
    folder: Path | None = None,
    inputs: Iterable[tuple[str, Path]] = (),
) -> None:
    """Refuse, before any work, an output that could not be written after it, or would overwrite another or an input."""
    from discreet.base.files import check_distinct, check_writable

    json_file = None if json_file == STDOUT else json_file
    check_distinct({"--json": json_file, "--out": page, "--plot": plot, "--save": folder}, inputs)
    for file in (json_file, page):
        if file is not None:
            check_writable(file)
    if page is not None:
        _check_can_draw()
    if plot is not None:
        _check_plot(check_writable(plot))
    if folder is not None:
        _check_folder(folder)


def write_json(file: Path | None, data: Any) -> None:
    """Write plain data, if a file was asked for; ``-`` is standard output."""
    from discreet.base.files import write_atomically

    if file is None:
        return
    text = json.dumps(data, indent=1, allow_nan=False) + "\n"
    if file == STDOUT:
        print(text, end="", file=_REAL.get() or sys.stdout)
    else:
        write_atomically(file, text)


def print_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Two columns: what, and its value."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 3))
    for name, value in facts:
        grid.add_row(Text(name, style="dim"), Text(value))
    Console(highlight=False).print(grid)


def print_promise(facts: Mapping[str, Any]) -> None:
    """What is said below the statement of a real release: what delta is, and what adds to it."""
    from discreet.tables.receipt_words import delta_of

    for line in (delta_of(facts), facts["adds_up"]):
        if line:
            typer.echo(line)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[str] = ()) -> None:
    """A table with a header; columns named in ``right`` hold numbers.

    Where a terminal is too narrow, names in the first column are broken before any number is; where not even half of a
    word has room beside the numbers, numbers are broken and names are not.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console, listed = Console(highlight=False), list(rows)
    texts = [[column, *(row[index] for row in listed)] for index, column in enumerate(columns)]
    whole = [index == 0 or column in right for index, column in enumerate(columns)]
    needed = [
        max(map(len, cells if unbroken else " ".join(cells).split()), default=0)
        for cells, unbroken in zip(texts, whole, strict=True)
    ]
    room = console.width - _BETWEEN * len(columns) - sum(needed[1:])
    if room < needed[0]:
        too_narrow = 2 * room < max(map(len, " ".join(texts[0]).split()), default=0)
        whole = [too_narrow] + [unbroken and not too_narrow for unbroken in whole[1:]]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column, unbroken in zip(columns, whole, strict=True):
        table.add_column(column, justify="right" if column in right else "left", no_wrap=unbroken)
    for row in listed:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)


def print_catalogue(entries: Sequence[Mapping[str, Any]]) -> None:
    """Named things, one paragraph each: what it is, its options with their defaults, and what else is known."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    console = Console(highlight=False)
    for entry in entries:
        console.print(Text(entry["name"], style="bold"))
        options = ", ".join(f"{name}={_default(value)}" for name, value in entry["options"].items())
        lines = [entry["summary"], f"options: {options}" if options else "", "; ".join(_facts(entry))]
        console.print(Padding(Text("\n".join(filter(None, lines))), (0, 0, 1, 2), expand=False))


def _facts(entry: Mapping[str, Any]) -> Iterator[str]:
    for fact, value in entry.items():
        if fact not in ("name", "summary", "options") and value is not None:
            yield f"{fact}: {', '.join(value) if isinstance(value, list) else value}"


def _default(value: Any) -> str:
    """A default as it would be typed; None, which leaves the choice to the program, is shown as auto."""
    return "auto" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _check_plot(file: Path) -> None:
    from discreet.simulation.plots import FORMATS

    if file.suffix not in FORMATS:
        raise InvalidInput(f"cannot draw {file.name!r}: the name must end in {', '.join(FORMATS)}")
    _check_can_draw()


def _check_can_draw() -> None:
    if find_spec("matplotlib") is None:
        raise MissingExtra("matplotlib", "plots")


def _check_folder(folder: Path) -> None:
    from discreet.base.files import as_path

    as_path(folder.absolute())
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(f"cannot write results to {str(folder)!r}: it is a file; give a folder")
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise InvalidInput(f"cannot write results to {str(folder)!r}: no permission to write in {str(nearest)!r}")
