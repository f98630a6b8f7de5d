"""All recipes by name, and ``build``: from a target to a privatizer, without seeing any data.

Recipes live in the modules that are named here as text and loaded when they are asked for: those of a slice are not
imported for a problem that has nothing to do with it. With ``recipe="auto"`` the quietest recipe that is valid for the
shape, the target and the learner is taken.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeAlias

from discreet.channels.session import Privatizer
from discreet.errors import InvalidInput, Unsupported, unknown_name
from discreet.recipes.recipe import DATA_SET, HEAVY, LAYERED, LINEAR, TABULAR, Recipe
from discreet.recipes.trust import Privacy
from discreet.shape import LayeredShape, Shape

# What is learned, and the modules whose RECIPES serve it. "auto" prefers the first of equally quiet ones.
_HOMES = {
    TABULAR: (
        "discreet.recipes.additive",
        "discreet.recipes.central",
        "discreet.recipes.local",
        "discreet.recipes.shuffle",
        "discreet.papers.local",
    ),
    HEAVY: ("discreet.heavy_tails.recipes", "discreet.papers.heavy_tailed"),
    LAYERED: ("discreet.adversarial.recipes", "discreet.papers.adversarial"),
    DATA_SET: ("discreet.recipes.offline", "discreet.papers.offline"),
    LINEAR: ("discreet.linear.recipes",),
}
_REGISTERED: list[Recipe] = []

Target: TypeAlias = Privacy | Privatizer | Callable[[Shape, int], Privatizer]


def recipes(model: str | None = None, problem: str | None = None) -> tuple[Recipe, ...]:
    """All recipes, or those of one trust model or for one problem (see ``discreet.recipes.recipe.PROBLEMS``)."""
    if problem is not None and problem not in _HOMES:
        raise unknown_name("problem", problem, _HOMES)
    found = _known(*_HOMES) if problem is None else _known(problem)
    return tuple(recipe for recipe in found if model is None or recipe.model == model)


def register(recipe: Recipe) -> None:
    """Add a recipe of your own: ``recipe="its/name"`` then works wherever a trust model is given."""
    if any(known.name == recipe.name for known in recipes()):
        raise InvalidInput(f"there is a recipe {recipe.name!r} already: choose another name")
    _REGISTERED.append(recipe)


def build(
    target: Target, shape: Shape, episodes: int, needs: Iterable[str] = (), *, data_set: bool = False
) -> Privatizer:
    """The privatizer for a target: calibrated, with a computed guarantee. Sees no data.

    ``data_set`` asks for a release about users who have acted already. A privatizer of your own, or a function of shape
    and episodes that makes one, is taken as it is.
    """
    needs = frozenset(needs)
    if not isinstance(target, Privacy):
        privatizer = target if isinstance(target, Privatizer) else target(shape, episodes)
        if privatizer.shape != shape:
            raise InvalidInput(f"the privatizer was built for {privatizer.shape}, not for {shape}")
    elif data_set and target.model not in ("none", "central"):
        raise Unsupported(f"a data set is released by the one who holds it: the {target.model} model does not apply")
    elif target.recipe == "auto":
        return _quietest(target, shape, episodes, needs, _problems(shape, needs, data_set))
    else:
        problems = _problems(shape, needs, data_set) if data_set else tuple(_HOMES)
        privatizer = find(target.recipe, target.model, problems).assemble(target, shape, episodes)
    privatizer.check(needs)
    return privatizer


def find(name: str, model: str, problems: Iterable[str] = tuple(_HOMES)) -> Recipe:
    """The recipe of that name, which must serve the trust model. Slices are loaded only where the core has none."""
    problems = tuple(problems)
    for problem in problems:
        for recipe in _known(problem):
            if recipe.name == name and recipe.model != model:
                raise InvalidInput(f"recipe {name!r} is for the {recipe.model} model, not for {model}")
            if recipe.name == name:
                return recipe
    raise unknown_name("recipe", name, [recipe.name for recipe in _known(*problems) if recipe.model == model])


def noise_of(privatizer: Privatizer) -> float:
    """The noise variance in all counts of one (state, action) of one release: what "auto" makes small."""
    return sum(channel.noise_per_row() for channel in privatizer.channels)


def _known(*problems: str) -> list[Recipe]:
    """The recipes for these problems; of two with one name (nothing is promised) the first."""
    found: dict[str, Recipe] = {}
    for problem in problems:
        for home in _HOMES[problem]:
            for recipe in importlib.import_module(home).RECIPES:
                found.setdefault(recipe.name, replace(recipe, problem=problem))
    return [*found.values(), *(recipe for recipe in _REGISTERED if recipe.problem in problems)]


def _problems(shape: Shape, needs: frozenset[str], data_set: bool) -> tuple[str, ...]:
    """What may be learned in a world of this shape; learners that count rewards play layered worlds too."""
    if data_set:
        return (LINEAR,) if "matrix" in needs else (DATA_SET,)
    if isinstance(shape, LayeredShape):
        return TABULAR, LAYERED
    return (TABULAR,) if shape.moments is None else (HEAVY,)


def _quietest(
    privacy: Privacy, shape: Shape, episodes: int, needs: frozenset[str], problems: tuple[str, ...]
) -> Privatizer:
    candidates, reasons = [], []
    for recipe in _known(*problems):
        if recipe.model != privacy.model or not recipe.automatic or not recipe.suits(privacy, shape):
            continue
        if privacy.delta == 0 and privacy.rho is None and not recipe.pure:
            reasons.append(f"{recipe.name}: needs delta above 0, try delta=1e-5")
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
        raise Unsupported(
            f"no recipe of the {privacy.model} model serves this learner and world: {_why(reasons, problems)}"
        )
    quietest = min(noise_of(candidate) for candidate in candidates)
    return next(candidate for candidate in candidates if noise_of(candidate) <= quietest * (1 + 1e-9))


def _why(reasons: list[str], problems: tuple[str, ...]) -> str:
    return "; ".join(reasons) or f"there is none for {' or '.join(problems)} problems yet"
