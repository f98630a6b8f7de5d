"""``discreet worlds``, ``learners`` and ``recipes``: what there is, with options and their defaults."""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.base.errors import InvalidInput, check_name, unknown_name
from discreet.cli import recipe_tables
from discreet.cli.options import MODELS, JsonFile, complete_learner, complete_recipe, complete_world
from discreet.cli.output import check_outputs, print_catalogue, write_json
from discreet.cli.recipe_tables import delta_words, find_recipe, print_recipe, print_sections

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
        typer.echo(recipe_tables.markdown(found), nl=False)
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
