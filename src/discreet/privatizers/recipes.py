"""All recipes by name, and ``build``: from a target to a privatizer, without seeing any data.

With ``recipe="auto"`` the quietest recipe that is valid for the shape, the target and the learner is taken.
"""

from __future__ import annotations

from collections.abc import Iterable

from discreet.errors import InvalidInput, Unsupported, unknown_name
from discreet.privatizers import (
    additive,
    adversarial,
    continual,
    focused,
    heavy_tailed,
    local,
    local_shuffle,
    prefix_shuffle,
    shuffle,
)
from discreet.privatizers.channel import Privatizer
from discreet.privatizers.recipe import Recipe
from discreet.privatizers.trust import Privacy
from discreet.shape import Shape

_RECIPES: tuple[Recipe, ...] = (
    *additive.RECIPES,
    *focused.RECIPES,
    *continual.RECIPES,
    *heavy_tailed.RECIPES,
    *local.RECIPES,
    *shuffle.RECIPES,
    *local_shuffle.RECIPES,
    *prefix_shuffle.RECIPES,
    *adversarial.RECIPES,
)


def recipes(model: str | None = None) -> tuple[Recipe, ...]:
    """All recipes, or those of one trust model."""
    return tuple(recipe for recipe in _RECIPES if model is None or recipe.model == model)


def build(privacy: Privacy, shape: Shape, episodes: int, needs: Iterable[str] = ()) -> Privatizer:
    """The privatizer for a target: calibrated, with a computed guarantee. Sees no data."""
    if privacy.recipe != "auto":
        privatizer = find(privacy.recipe, privacy.model).assemble(privacy, shape, episodes)
        privatizer.check(frozenset(needs))
        return privatizer
    return _quietest(privacy, shape, episodes, frozenset(needs))


def find(name: str, model: str) -> Recipe:
    """The recipe of that name, which must serve the trust model."""
    by_name = {recipe.name: recipe for recipe in _RECIPES}
    if name not in by_name:
        raise unknown_name("recipe", name, [recipe.name for recipe in recipes(model)])
    if by_name[name].model != model:
        raise InvalidInput(f"recipe {name!r} is for the {by_name[name].model} model, not for {model}")
    return by_name[name]


def noise_of(privatizer: Privatizer) -> float:
    """The noise variance in all counts of one (state, action) of one release: what "auto" makes small."""
    return sum(channel.noise_per_row() for channel in privatizer.channels)


def _quietest(privacy: Privacy, shape: Shape, episodes: int, needs: frozenset[str]) -> Privatizer:
    candidates, reasons = [], []
    for recipe in recipes(privacy.model):
        if not recipe.automatic or (privacy.delta == 0 and privacy.rho is None and not recipe.pure):
            continue
        unknown = [name for name in privacy.options if name not in recipe.options]
        if unknown:
            reasons.append(f"{recipe.name}: no option {', '.join(map(repr, unknown))}")
            continue
        try:
            candidate = recipe.assemble(privacy, shape, episodes)
            candidate.check(needs)
            candidates.append(candidate)
        except Unsupported as refusal:
            reasons.append(f"{recipe.name}: {refusal}")
    if not candidates:
        why = "; ".join(reasons) or "there is none for this trust model yet"
        raise Unsupported(f"no recipe of the {privacy.model} model serves this learner and world: {why}")
    quietest = min(noise_of(candidate) for candidate in candidates)
    return next(candidate for candidate in candidates if noise_of(candidate) <= quietest * (1 + 1e-9))
