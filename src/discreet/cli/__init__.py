"""The command line. A command is loaded when it is asked for, and imports what it needs when it runs.

To add a command, write a function of its name in a file of its own, or beside its siblings, and put it into
``COMMANDS``.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from discreet import __version__
from discreet.base.errors import InvalidInput
from discreet.cli.output import READER_IS_GONE, delivered, plain_errors, unwritten
from discreet.cli.usage import UsageError, is_help, missing_command, repeated_choice, usage_sentence

# Commands in the order in which the help shows them, and the modules that hold a function of their name.
COMMANDS = {
    "demo": "discreet.cli.demo",
    "simulate": "discreet.cli.simulate",
    "compare": "discreet.cli.simulate",
    "rehearse": "discreet.cli.rehearse",
    "calibrate": "discreet.cli.promises",
    "audit": "discreet.cli.promises",
    "doctor": "discreet.cli.doctor",
    "recipes": "discreet.cli.lists",
    "worlds": "discreet.cli.lists",
    "learners": "discreet.cli.lists",
    "plan": "discreet.cli.plan",
    "check": "discreet.cli.train",
    "train": "discreet.cli.train",
    "verify": "discreet.cli.promises",
    "show": "discreet.cli.show",
    "apply": "discreet.cli.apply",
    "evaluate": "discreet.cli.evaluate",
    "reproduce": "discreet.cli.reproduce",
    "serve": "discreet.cli.serve",
    "shuffler": "discreet.cli.shuffler",
    "crowd": "discreet.cli.crowd",
}
# Groups of commands, and the modules whose make_app makes them.
_GROUPS = {"ledger": "discreet.cli.ledger", "study": "discreet.cli.study"}
# Without options these print a list: there is nothing to parse, and the parser takes long to load.
_LISTS = ("recipes", "worlds", "learners")


def make_app(only: str | None = None) -> typer.Typer:
    """All commands; or, to be quick, only the one that was asked for."""
    app = typer.Typer(
        no_args_is_help=True,
        add_completion=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    for name in COMMANDS:
        if only in (None, name):
            app.command(name)(_command(name))
    for name, module in _GROUPS.items():
        if only in (None, name):
            app.add_typer(importlib.import_module(module).make_app(), name=name)
    app.callback()(_root)
    return app


def _command(name: str) -> Callable[..., None]:
    """The command of that name, which says expected failures in one line."""
    return plain_errors(vars(importlib.import_module(COMMANDS[name]))[name])


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
    first = arguments[0] if arguments else ""
    known = first in COMMANDS or first in _GROUPS
    return first if known and "_DISCREET_COMPLETE" not in os.environ else None


def _run(given: Sequence[str]) -> Any:
    """Run what was typed, and give its exit code."""
    name = _asked_for(given)
    if name in _LISTS and len(given) == 1:
        return _command(name)()
    command = typer.main.get_command(make_app(name))
    twice = repeated_choice(command, given)
    if twice is not None:
        raise InvalidInput(twice)
    return command(args=given, prog_name="discreet", standalone_mode=False)


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point: exit code 0 on success, 2 for bad input, 130 after Ctrl-C. A mistake of usage is one line."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if sys.stdout is None:  # closed by whoever started this
        if not {"-q", "--quiet"} & {*given}:
            typer.echo("discreet: standard output is closed: open it, give --quiet or redirect it", err=True)
            sys.exit(2)
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that lacks a sign shows a question mark, not a traceback
            stream.reconfigure(errors="replace")
    sys.exit(delivered(_exit_code(given)))


def _exit_code(given: Sequence[str]) -> int:
    try:
        code = _run(given)
    except UsageError as error:
        if is_help(error):  # help that rich drew is printed already
            message = "\n".join(filter(None, (str(error).strip(), missing_command(error))))
        else:
            message = f"discreet: {usage_sentence(error, given)}"
        if message:
            typer.echo(message, err=True)
        return 2
    except InvalidInput as error:
        typer.echo(f"discreet: {error}", err=True)
        return 2
    except typer.Exit as leave:
        return leave.exit_code
    except typer.Abort:
        return 130
    except SystemExit as leave:  # of rich and the parser, where a pipe broke
        return READER_IS_GONE if leave.code == 1 else int(leave.code or 0)
    except OSError as error:  # of help and version; commands say theirs themselves
        return unwritten(error)
    return code if isinstance(code, int) else 0
