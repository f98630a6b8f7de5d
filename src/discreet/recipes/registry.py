"""All recipes by name, and ``build``: from a target to a privatizer, without seeing any data.

Recipes live in the modules that are named here as text and loaded when they are asked for: those of a slice are not
imported for a problem that has nothing to do with it. ``recipe="auto"`` is :mod:`discreet.recipes.auto`.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from discreet.base.errors import InvalidInput, Unsupported, check_name, unknown_name
from discreet.base.shape import LayeredShape, Shape, check_size
from discreet.base.validation import check_count
from discreet.mechanisms.release import LAYERS
from discreet.mechanisms.session import Privatizer
from discreet.recipes.auto import choose
from discreet.recipes.predicted_regret import expected_regret, noise_of
from discreet.recipes.recipe import DATA_SET, HEAVY, LAYERED, LINEAR, TABULAR, Recipe, Recipes
from discreet.recipes.targets import TRUSTS_LESS, Privacy

# What is learned, the modules whose RECIPES serve it, and their trust models, so that no others are loaded. "auto"
# prefers the first of those that it expects to be equally good.
_HOMES: dict[str, dict[str, tuple[str, ...]]] = {
    TABULAR: {
        "discreet.recipes.additive_noise": ("none", "central", "local"),
        "discreet.recipes.central": ("central",),
        "discreet.recipes.local": ("local",),
        "discreet.recipes.shuffle": ("shuffle",),
        "discreet.recipes.bandits": ("central", "shuffle"),
        "discreet.papers.ldp_obi": ("local", "shuffle"),
        "discreet.papers.sdp_pe": ("shuffle",),
    },
    HEAVY: {
        "discreet.problems.heavy_tails.recipes": ("none", "central", "local"),
        "discreet.papers.heavy_ucbvi": ("central", "local"),
    },
    LAYERED: {
        "discreet.problems.adversarial.recipes": ("none", "central", "local", "shuffle"),
        "discreet.papers.uc_o_reps": ("central", "local"),
    },
    DATA_SET: {
        "discreet.recipes.data_set": ("none", "central"),
        "discreet.recipes.outcomes": ("central",),
        "discreet.papers.dp_apvi": ("central",),
    },
    LINEAR: {"discreet.problems.linear.recipes": ("none", "central")},
}
_REGISTERED: list[Recipe] = []

Target: TypeAlias = Privacy | Privatizer | Callable[[Shape, int], Privatizer]


def recipes(model: str | None = None, problem: str | None = None) -> Recipes:
    """All recipes, or those of one trust model or for one problem (see ``discreet.recipes.recipe.PROBLEMS``).

    Args:
        model: ``central``, ``shuffle``, ``local`` or ``none``.
        problem: ``tabular``, ``heavy tails``, ``layered``, ``data set`` or ``linear questions``.

    Examples:
        >>> import discreet
        >>> "local/sampled-step" in [recipe.name for recipe in discreet.recipes("local")]
        True
    """
    if problem is not None:
        check_name("problem", problem, _HOMES)
    if model is not None and not isinstance(model, str):
        raise unknown_name("trust model", model, ("none", "central", "local", "shuffle"))
    return Recipes(_known(_HOMES if problem is None else (problem,), model))


def forget(name: str) -> None:
    """Take a recipe away that was registered.

    Args:
        name: The name that it was registered with; see the example of ``register``.

    Examples:
        >>> import discreet
        >>> discreet.recipes.forget("central/nobodys")  # a name that is not there is no error
    """
    _REGISTERED[:] = [recipe for recipe in _REGISTERED if recipe.name != name]


def register(recipe: Recipe) -> None:
    """Add a recipe of your own: ``recipe="its/name"`` then works wherever a trust model is given.

    Args:
        recipe: The recipe, with a name that is not taken.

    Examples:
        >>> import discreet
        >>> from dataclasses import replace
        >>> known = next(each for each in discreet.recipes("central") if each.name == "central/first-visit-laplace")
        >>> discreet.recipes.register(replace(known, name="central/mine", automatic=False))
        >>> discreet.Central(1.0, recipe="central/mine").recipe
        'central/mine'
        >>> discreet.recipes.forget("central/mine")
    """
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
    episodes, needs = check_count("episodes", episodes), frozenset(needs)
    check_size(shape, successors=not data_set)
    if not isinstance(target, Privacy):
        privatizer = target if isinstance(target, Privatizer) else _made(target, shape, episodes)
        if privatizer.shape != shape:
            raise InvalidInput(f"the privatizer was built for {privatizer.shape}, not for {shape}: give its own shape")
        privatizer.check_users(episodes)
    elif not isinstance(target.recipe, str):
        raise unknown_name("recipe", target.recipe, ("auto", *(known.name for known in recipes(target.model))))
    elif data_set and target.model not in ("none", "central"):
        raise Unsupported(f"a data set is released by the one who holds it: the {target.model} model does not apply")
    elif target.recipe == "auto":
        return _chosen(target, shape, episodes, needs, _problems(shape, needs, data_set))
    else:
        problems = _problems(shape, needs, data_set) if data_set else tuple(_HOMES)
        privatizer = find(target.recipe, target.model, problems).assemble(target, shape, episodes, needs)
    privatizer.check(needs)
    return privatizer


def _made(make: Callable[[Shape, int], Privatizer], shape: Shape, episodes: int) -> Privatizer:
    made = make(shape, episodes) if _takes_two(make) else None
    if not isinstance(made, Privatizer):
        raise InvalidInput(
            "privacy must be a trust model such as Central(epsilon=1.0), a privatizer, or a function of shape and "
            f"episodes that makes one, got {type(make).__name__}"
        )
    return made


def _takes_two(make: object) -> bool:
    """Whether it can be called with a shape and a number of episodes."""
    if not callable(make) or isinstance(make, type):
        return False
    try:
        inspect.signature(make).bind(None, None)
    except (TypeError, ValueError):
        return False
    return True


def find(name: str, model: str, problems: Iterable[str] = tuple(_HOMES)) -> Recipe:
    """The recipe of that name, which must serve the trust model: its own, or one of those that trust less.

    Slices are loaded only where the core has none.
    """
    problems = tuple(problems)
    for served in (model, *TRUSTS_LESS.get(model, ())):
        for problem in problems:
            for recipe in _known((problem,), served):
                if recipe.name == name:
                    return recipe
    others = {recipe.name: recipe for recipe in _known(problems)}
    if isinstance(name, str) and name in others:
        raise InvalidInput(f"recipe {name!r} is for the {others[name].model} model, not for {model}")
    if isinstance(name, str) and name.startswith(("broken/", "published/")):
        raise InvalidInput(f"{name[:60]!r} keeps no promise that can be run: only audit takes it")
    raise unknown_name("recipe", name, [known for known, recipe in others.items() if recipe.model == model])


def _known(problems: Iterable[str], model: str | None = None) -> list[Recipe]:
    """The recipes for these problems and this trust model; of two with one name (nothing is promised) the first."""
    found: dict[str, Recipe] = {}
    for problem in problems:
        homes = (home for home, models in _HOMES[problem].items() if model is None or model in models)
        own = (recipe for recipe in _REGISTERED if recipe.problem == problem)
        for recipe in (*(recipe for home in homes for recipe in importlib.import_module(home).RECIPES), *own):
            if model is None or recipe.model == model:
                found.setdefault(recipe.name, replace(recipe, problem=problem))
    return list(found.values())


def _problems(shape: Shape, needs: frozenset[str], data_set: bool) -> tuple[str, ...]:
    """What may be learned in a world of this shape; learners that count rewards play layered worlds too."""
    if data_set:
        return (LINEAR,) if "matrix" in needs else (DATA_SET,)
    if isinstance(shape, LayeredShape):
        return TABULAR, LAYERED
    return (TABULAR,) if shape.moments is None else (HEAVY,)


def _chosen(
    privacy: Privacy, shape: Shape, episodes: int, needs: frozenset[str], problems: tuple[str, ...]
) -> Privatizer:
    """What "auto" takes: by expected regret where a formula foretells it, with rewards to count; else by noise."""
    foretold = problems in ((TABULAR,), (HEAVY,)) and privacy.model != "none"
    wider = [recipe for model in TRUSTS_LESS.get(privacy.model, ()) for recipe in _known(problems, model)]
    return choose(
        _known(problems, privacy.model), wider if foretold or LAYERS in needs else (), privacy, shape, episodes, needs,
        partial(expected_regret, needs=needs) if foretold else noise_of,
    )  # fmt: skip
