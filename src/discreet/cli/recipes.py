"""``discreet recipes``: the mechanisms there are."""

from __future__ import annotations

from typing import Annotated

import typer

from discreet.cli.options import JsonFile
from discreet.cli.output import check_outputs, print_catalogue, write_json
from discreet.errors import unknown_name

_MODELS = ("none", "central", "local", "shuffle")


def recipes(
    model: Annotated[str | None, typer.Option(help=f"Only those of one trust model: {', '.join(_MODELS)}.")] = None,
    json: JsonFile = None,
) -> None:
    """List the mechanisms: trust model, the delta they need, options with their defaults, source."""
    check_outputs(json_file=json)
    if model is not None and model not in _MODELS:
        raise unknown_name("trust model", model, _MODELS)
    from discreet.privatizers.recipes import recipes as find

    entries = [
        {
            "name": recipe.name,
            "model": recipe.model,
            "delta": None if recipe.model == "none" else "0" if recipe.pure else "> 0",
            "summary": recipe.summary,
            "options": dict(recipe.options),
            "source": recipe.source,
        }
        for recipe in find(model)
    ]
    write_json(json, entries)
    if entries:
        print_catalogue(entries)
    else:
        typer.echo(f"no recipe serves the {model} model yet")
