"""``discreet study``: declare a study, check it, invite participants, go on after a backup came back, end it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from discreet.cli.output import plain_errors, print_facts
from discreet.errors import MissingExtra

if TYPE_CHECKING:
    from discreet.service.coordinator import Coordinator

StudyFile: TypeAlias = Annotated[Path, typer.Argument(metavar="STUDY.toml", help="The declaration of the study.")]
Db: TypeAlias = Annotated[
    str | None,
    typer.Option("--db", metavar="FILE|URL", help="The database; by default STUDY.db beside the declaration."),
]


def new(study: StudyFile) -> None:
    """Write a commented study file, a signing key and an operator's token beside it."""
    from discreet.service.places import new_study

    places = new_study(study)
    print_facts([("study", str(study)), ("signing key", str(places.signing)), ("operator", str(places.operator))])
    typer.echo(f"change {study} as you need it, then:  discreet study check {study}")


def make_app() -> typer.Typer:
    """The group of commands."""
    app = typer.Typer(no_args_is_help=True, help="Run a study with real users: new, check, tokens, restored, end.")
    for name, command in (("new", new),):
        app.command(name)(plain_errors(command))
    return app


def open_coordinator(study_file: Path, db: str | None) -> Coordinator:
    """The coordinator of a study on its database; opens the study where it has not been opened."""
    from discreet.service.study import file_name, read_study

    for package in ("msgspec", "cryptography", "starlette", "uvicorn", "prometheus_client"):
        if find_spec(package) is None:
            raise MissingExtra(package, "serve")
    study = read_study(file_name(study_file))
    from discreet.service.coordinator import Coordinator
    from discreet.service.database import Database
    from discreet.service.places import places_of

    places = places_of(study_file)
    return Coordinator(study, Database(places.database if db is None else db), places)
