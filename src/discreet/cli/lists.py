"""``discreet worlds``, ``learners`` and ``recipes``: what there is, with options and their defaults.

Recipes are shown as people look for them: those that ``auto`` chooses from, those for which one must ask, those of
papers.

``discreet recipes NAME`` shows one of them with a table of its options; ``discreet recipes --markdown`` is the page of
the documentation about all of them.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.base.errors import InvalidInput, check_name, unknown_name
from discreet.cli.options import MODELS, JsonFile, complete_learner, complete_recipe, complete_world
from discreet.cli.output import check_outputs, print_catalogue, print_facts, print_table, write_json

if TYPE_CHECKING:
    from discreet.papers.published_mechanism import Published, Setting
    from discreet.privacy.guarantee import Guarantee
    from discreet.recipes.recipe import Recipe


def worlds(
    name: Annotated[
        str | None, typer.Argument(help="Show one world and its options.", autocompletion=complete_world)
    ] = None,
    json: JsonFile = None,
) -> None:
    """List the worlds, and their options with their defaults."""
    check_outputs(json_file=json)
    from discreet.worlds.registry import WORLDS

    entries = [
        {"name": each, "summary": world.summary, "options": world.options}
        for each, world in _asked("world", name, WORLDS).items()
    ]
    write_json(json, entries)
    print_catalogue(entries)


def learners(
    name: Annotated[
        str | None, typer.Argument(help="Show one learner and its options.", autocompletion=complete_learner)
    ] = None,
    json: JsonFile = None,
) -> None:
    """List the learners: what they need to be told, options with their defaults, source."""
    check_outputs(json_file=json)
    from discreet.learners.registry import LEARNERS

    entries = [
        {
            "name": each,
            "summary": learner.summary,
            "needs": sorted(_needs(learner.make)),
            "options": learner.options,
            "source": learner.source,
            "standing": learner.standing or None,
        }
        for each, learner in _asked("learner", name, LEARNERS).items()
    ]
    write_json(json, entries)
    print_catalogue(entries)


def _asked(kind: str, name: str | None, known: Mapping[str, Any]) -> Mapping[str, Any]:
    """The one of that name, or all of them."""
    return known if name is None else {name: known[check_name(kind, name, known)]}


@contextmanager
def without_collection() -> Iterator[None]:
    """Load many modules without looking for garbage in between: definitions stay, so there is none."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def recipes(
    name: Annotated[
        str | None,
        typer.Argument(help="Show one recipe and what its options do.", autocompletion=complete_recipe),
    ] = None,
    model: Annotated[str | None, typer.Option(help=f"Only those of one trust model: {', '.join(MODELS)}.")] = None,
    papers: Annotated[
        bool, typer.Option("--papers", help="What mechanisms of papers claim, and what is true of them.")
    ] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the page of the documentation.")] = False,
    json: JsonFile = None,
) -> None:
    """List the mechanisms that auto chooses from, those taken only by name, and those of papers."""
    check_outputs(json_file=json)
    if model is not None and model not in MODELS:
        raise unknown_name("trust model", model, MODELS)
    for option, given in (("--model", model is not None), ("--papers", papers), ("--markdown", markdown)):
        if name is not None and given:
            raise InvalidInput(f"{option} chooses among all recipes: leave it out, or leave out {name[:60]!r}")
    with without_collection():
        from discreet.papers import entries as published
        from discreet.recipes.registry import recipes as find

        found = find(model)
    if name is not None:
        write_json(json, _listed(find_recipe(name)))
        print_recipe(name)
        return
    if markdown:
        typer.echo(page_of(found), nl=False)
        return
    entries = [entry for entry in published().values() if model in (None, entry.model)]
    printed = {entry: _described(entry) for entry in entries} if papers or json is not None else {}
    write_json(json, [*(_listed(recipe) for recipe in found), *printed.values()])
    if papers:
        print_catalogue([{**facts, **_running(entry)} for entry, facts in printed.items()])
    else:
        print_sections(found, len(entries))


def _listed(recipe: Recipe) -> dict[str, Any]:
    """A recipe as plain data."""
    from discreet.recipes.option_help import option_words

    return {
        "name": recipe.name,
        "model": recipe.model,
        "delta": delta_words(recipe) or None,
        "auto": recipe.automatic,
        "summary": recipe.summary,
        "options": dict(recipe.options),
        "options_do": option_words(recipe),
        "source": recipe.source,
    }


def _described(entry: Published) -> dict[str, Any]:
    """A mechanism of a paper: what it claims at the sizes it is quoted for, and what is true there."""
    from discreet.papers import example

    at = example(entry.name)
    truth = entry.truth(at.shape, epsilon=at.epsilon, delta=at.delta, rho=at.rho, episodes=at.episodes)
    return {
        "name": entry.name,
        "model": entry.model,
        "summary": f"as printed: {entry.noise}; {entry.finding}",
        "options": {},
        "source": f"{entry.paper}, {entry.statement.where}",
        "condition": entry.statement.condition,
        "at": at.describe(),
        "claimed": _promise(at.epsilon, at.delta, at.rho),
        "true": _truth(entry, truth, at),
    }


def _running(entry: Published) -> dict[str, str]:
    """The recipe that runs the mechanism, and what it promises at those sizes where it sends less."""
    from discreet.papers import example

    if entry.recipe is None:
        return {}
    at = example(entry.name)
    less = not entry.no_bound(at) and any(part.left_out for part in entry.parts(at))
    return {"runs as": entry.recipe + (f", which sends less: {_truth(entry, entry.as_run(at), at)}" if less else "")}


def _promise(epsilon: float | None, delta: float, rho: float | None) -> str:
    if rho is not None:
        return f"rho {rho:g}"
    return f"epsilon {epsilon:g}" + (f", delta {delta:g}" if delta else "")


def _truth(entry: Published, truth: Guarantee, at: Setting) -> str:
    """In the unit of the claim: the true rho, the true epsilon, or the true delta where delta is what is missed."""
    from discreet.privacy.words import rounded_up

    if entry.reached is not None and entry.no_bound(at):
        return "{} at least {:.4g}".format(*entry.reached(at))
    most = "at most " if entry.bound else ""
    if at.rho is not None:
        return f"{most}rho {rounded_up(truth.rho)}"
    if not math.isfinite(truth.epsilon):
        return f"delta {rounded_up(truth.delta_at(at.epsilon or 0.0))} at epsilon {at.epsilon:g}"
    if at.delta and truth.epsilon > (at.epsilon or 0.0):
        delta = rounded_up(truth.delta_at(at.epsilon or 0.0))
        return f"epsilon {rounded_up(truth.epsilon)} at delta {at.delta:g}, or delta {delta}"
    return f"{most}epsilon {rounded_up(truth.epsilon)}" + (f" at delta {at.delta:g}" if at.delta else "")


def _needs(make: Any) -> frozenset[str]:
    """What a learner needs with its default options; nothing is known of one that cannot be made without any."""
    needs: Any = getattr(make, "needs", frozenset())
    return needs if isinstance(needs, frozenset) else frozenset(make().needs)


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


def page_of(found: Iterable[Recipe]) -> str:
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
