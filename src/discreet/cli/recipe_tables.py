"""Recipes as people look for them: those that ``auto`` chooses from, those for which one must ask, those of papers.

``discreet recipes NAME`` shows one of them with a table of its options; ``discreet recipes --markdown`` is the page of
the documentation about all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import typer

from discreet.base.errors import unknown_name
from discreet.cli.output import print_facts, print_table

if TYPE_CHECKING:
    from discreet.recipes.recipe import Recipe

AUTO = "Recipes that auto chooses from"
BY_NAME = "Recipes that are taken only by name"
PRINTED = "As papers print them: by name; the guarantee is computed, and may be weaker than what the paper claims"
_HEAD = """# Recipes and their options

A recipe is a mechanism with a name. In Python it is chosen by
`discreet.Central(1.0, 1e-5, recipe="central/first-visit-matrix", options={"blocks": 60})`, on the command line by
`--recipe central/first-visit-matrix --option blocks=60`. `recipe="auto"`, the default, takes the one of the
first list that is expected to cost the least regret among those that serve the world, the learner and the target
(for data sets and layered worlds: that adds the least noise); `discreet calibrate` says which one that is, before
anything runs. No option weakens a guarantee: it is computed for the options that are given. A default of *auto* leaves
the choice to the recipe.

`discreet recipes` lists this, `discreet recipes NAME` shows one recipe, [Add a recipe](guides/recipe.md) says how to
register one of your own. This page is written by `discreet recipes --markdown`.
"""


def sections(found: Iterable[Recipe]) -> dict[str, list[Recipe]]:
    """The recipes under three headings."""
    from discreet.papers import entries

    of_papers = {entry.recipe for entry in entries().values()}
    sorted_out: dict[str, list[Recipe]] = {AUTO: [], BY_NAME: [], PRINTED: []}
    for recipe in found:
        printed = recipe.name in of_papers or recipe.name.endswith("-as-printed")
        sorted_out[PRINTED if printed else AUTO if recipe.automatic else BY_NAME].append(recipe)
    return sorted_out


def print_sections(found: Iterable[Recipe], printed: int) -> None:
    """All recipes, one line each, and how to see more."""
    for title, recipes in sections(found).items():
        if recipes:
            typer.echo(title)
            print_table(["recipe", "delta", "what it is"], [[r.name, delta_words(r), r.summary] for r in recipes])
    typer.echo(
        "Options: discreet recipes NAME. What auto takes for a world and a target: discreet calibrate. "
        f"What {printed} mechanisms of papers claim, and what is true: discreet recipes --papers."
    )


def print_recipe(name: str) -> None:
    """One recipe, with a table of its options."""
    recipe = find_recipe(name)
    title = next(title for title, recipes in sections([recipe]).items() if recipes)
    print_facts(
        [
            ("recipe", recipe.name),
            ("what", recipe.summary),
            ("model", recipe.model),
            ("delta", delta_words(recipe) or "nothing is promised"),
            ("auto", {AUTO: "may take it", BY_NAME: "never takes it"}.get(title, "never takes it: printed in a paper")),
            ("source", recipe.source),
        ]
    )
    rows = option_rows(recipe)
    if rows:
        print_table(["option", "default", "what it does"], rows)
    else:
        typer.echo("It has no options.")


def find_recipe(name: str) -> Recipe:
    """The recipe of that name, of any model."""
    from discreet.recipes.registry import recipes

    known = {recipe.name: recipe for recipe in recipes()}
    if name not in known:
        raise unknown_name("recipe", name, known)
    return known[name]


def option_rows(recipe: Recipe) -> list[list[str]]:
    """Options, their defaults, and what they do."""
    from discreet.recipes.option_help import default_words, option_words

    words = option_words(recipe)
    return [[name, default_words(value), words[name]] for name, value in recipe.options.items()]


def delta_words(recipe: Recipe) -> str:
    """Which delta it needs."""
    return "" if recipe.model == "none" else "0" if recipe.pure else "> 0"


def markdown(found: Iterable[Recipe]) -> str:
    """The page of the documentation: every recipe, with one table of options each; alike tables are shown once."""
    lines = [_HEAD]
    for title, recipes in sections(found).items():
        lines += [f"## {title}", ""]
        lines += _table(["recipe", "trust model", "delta", "what it is"], [_overview(recipe) for recipe in recipes])
        alike: dict[tuple[tuple[str, ...], ...], list[str]] = {}
        for recipe in recipes:
            alike.setdefault(tuple(map(tuple, option_rows(recipe))), []).append(f"`{recipe.name}`")
        for rows, names in alike.items():
            if rows:
                lines += [f"Options of {', '.join(names)}:", ""]
                lines += _table(["option", "default", "what it does"], [[f"`{name}`", *rest] for name, *rest in rows])
    return "\n".join(lines).rstrip() + "\n"


def _overview(recipe: Recipe) -> list[str]:
    return [f"`{recipe.name}`", recipe.model, delta_words(recipe).replace(">", "above"), recipe.summary]


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    cells = [[cell.replace("|", "\\|") for cell in row] for row in [columns, ["---"] * len(columns), *rows]]
    return [*(f"| {' | '.join(row)} |" for row in cells), ""]
