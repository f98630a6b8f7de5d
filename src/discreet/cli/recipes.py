"""``discreet recipes``: the mechanisms there are."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli.options import JsonFile
from discreet.cli.output import check_outputs, print_catalogue, write_json
from discreet.errors import unknown_name

if TYPE_CHECKING:
    from discreet.papers.mechanism import Setting
    from discreet.privacy.guarantee import Guarantee

_MODELS = ("none", "central", "local", "shuffle")


def recipes(
    model: Annotated[str | None, typer.Option(help=f"Only those of one trust model: {', '.join(_MODELS)}.")] = None,
    json: JsonFile = None,
) -> None:
    """List the mechanisms: trust model, the delta they need, options with their defaults, source."""
    check_outputs(json_file=json)
    if model is not None and model not in _MODELS:
        raise unknown_name("trust model", model, _MODELS)
    from discreet.recipes.offline import recipes as offline
    from discreet.recipes.registry import recipes as find

    papers = {entry["name"]: entry for entry in _published(model)}
    entries = [
        {
            "name": recipe.name,
            "model": recipe.model,
            "delta": None if recipe.model == "none" else "0" if recipe.pure else "> 0",
            "summary": recipe.summary,
            "options": dict(recipe.options),
            "source": recipe.source,
            **_verdict(papers.pop(recipe.name, {})),
        }
        for recipe in (*find(model), *(recipe for recipe in offline() if model in (None, recipe.model)))
    ]
    entries += papers.values()
    write_json(json, entries)
    print_catalogue(entries)


def _published(model: str | None) -> list[dict[str, Any]]:
    """The mechanisms of the papers: what they claim at the sizes they are quoted for, and what is true there."""
    from discreet.papers import PUBLISHED, example

    entries = []
    for name, entry in PUBLISHED.items():
        if model is not None and entry.model != model:
            continue
        at = example(name)
        truth = entry.truth(at.shape, epsilon=at.epsilon, delta=at.delta, rho=at.rho, episodes=at.episodes)
        entries.append(
            {
                "name": name,
                "model": entry.model,
                "summary": f"as printed: {entry.noise}; {entry.wrong}",
                "options": {},
                "source": entry.paper,
                "at": at.describe(),
                "claimed": _promise(at.epsilon, at.delta, at.rho),
                "true": _truth(truth, at),
            }
        )
    return entries


def _verdict(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: entry[key] for key in ("at", "claimed", "true") if key in entry}


def _promise(epsilon: float | None, delta: float, rho: float | None) -> str:
    if rho is not None:
        return f"rho {rho:g}"
    return f"epsilon {epsilon:g}" + (f", delta {delta:g}" if delta else "")


def _truth(truth: Guarantee, at: Setting) -> str:
    """In the unit of the claim: the true rho, the true epsilon, or the true delta where delta is what is missed."""
    if at.rho is not None:
        return f"rho {truth.rho:.4g}"
    if not math.isfinite(truth.epsilon):
        loss = truth.delta_at(at.epsilon or 0.0)
        return "epsilon unbounded" if loss >= 1 else f"delta {loss:.4g} at epsilon {at.epsilon:g}"
    if at.delta and truth.epsilon > (at.epsilon or 0.0):
        return f"epsilon {truth.epsilon:.4g} at delta {at.delta:g}, or delta {truth.delta_at(at.epsilon or 0.0):.4g}"
    return f"epsilon {truth.epsilon:.4g}" + (f" at delta {at.delta:g}" if at.delta else "")
