"""The command line. A command imports what it needs when it runs, so ``--help`` is instant.

To add a command, write a function of its name in a file of its own, or beside its siblings, and put it into
``COMMANDS``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from discreet import __version__
from discreet.cli.compare import compare
from discreet.cli.crowd import crowd
from discreet.cli.demo import demo
from discreet.cli.doctor import doctor
from discreet.cli.evaluate import evaluate
from discreet.cli.ledger import make_app as ledger_commands
from discreet.cli.lists import learners, recipes, worlds
from discreet.cli.output import plain_errors
from discreet.cli.plan import plan
from discreet.cli.promises import audit, calibrate
from discreet.cli.rehearse import rehearse
from discreet.cli.reproduce import matrix, reproduce
from discreet.cli.serve import serve
from discreet.cli.show import show
from discreet.cli.shuffler import shuffler
from discreet.cli.simulate import simulate
from discreet.cli.study import make_app as study_commands
from discreet.cli.train import check, train
from discreet.cli.usage import UsageError, is_help, usage_sentence
from discreet.cli.verify import verify

_OFFLINE = (plan, check, train, verify, show, evaluate)
_STUDIES = (reproduce, matrix)
_REAL_USERS = (serve, shuffler, crowd)
COMMANDS: tuple[Callable[..., None], ...] = (
    demo, simulate, compare, rehearse, calibrate, audit, doctor, recipes, worlds, learners, *_OFFLINE, *_STUDIES,
    *_REAL_USERS,
)  # fmt: skip

_GROUPS: dict[str, Callable[[], typer.Typer]] = {"ledger": ledger_commands, "study": study_commands}


def make_app(only: str | None = None) -> typer.Typer:
    """All commands; or, to be quick, only the one that was asked for."""
    app = typer.Typer(no_args_is_help=True, add_completion=True, pretty_exceptions_enable=False)
    for command in COMMANDS:
        if only in (None, command.__name__):
            app.command(command.__name__)(plain_errors(command))
    for name, make in _GROUPS.items():
        if only in (None, name):
            app.add_typer(make(), name=name)
    app.callback()(_root)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"discreet {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Reinforcement learning under differential privacy, with guarantees that are computed."""


def _asked_for(arguments: Sequence[str]) -> str | None:
    """The command, if its name comes first and is right, and no shell asks for completions."""
    known = {command.__name__ for command in COMMANDS} | set(_GROUPS)
    first = arguments[0] if arguments else ""
    return first if first in known and "_DISCREET_COMPLETE" not in os.environ else None


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point: exit code 0 on success, 2 for bad input, 130 after Ctrl-C. A mistake of usage is one line."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that lacks a sign shows a question mark, not a traceback
            stream.reconfigure(errors="replace")
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        code = make_app(_asked_for(given))(args=given, prog_name="discreet", standalone_mode=False)
    except UsageError as error:
        message = str(error).strip() if is_help(error) else f"discreet: {usage_sentence(error, given)}"
        if message:  # help that rich drew is printed already
            typer.echo(message, err=True)
        sys.exit(2)
    except typer.Abort:
        sys.exit(130)
    sys.exit(code if isinstance(code, int) else 0)
