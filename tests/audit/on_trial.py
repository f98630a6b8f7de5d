"""Small privatizers of every recipe, for tests that put all of them on trial."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import cache

import numpy as np

from discreet.base.errors import DiscreetError
from discreet.base.shape import Moments, Shape, layered_shape
from discreet.recipes.recipe import HEAVY, LAYERED, LINEAR, PROBLEMS
from discreet.recipes.registry import build, recipes
from discreet.recipes.targets import Central, Local, Shuffle

TRUST = {kind.model: kind for kind in (Central, Local, Shuffle)}
USERS = 9  # four levels of a tree
SMALL = Shape(2, 2, 2)
POOLED = replace(SMALL, homogeneous=True)
BANDITS = (Shape(1, 3, 1), Shape(1, 3, 1, homogeneous=True, start=0))
LAYERS = layered_shape((1, 2, 1), 2)
TAILS = Shape(2, 2, 2, rewards=(-1.0, 1.0), moments=Moments(1.0, 1.0))
FEATURES = np.eye(4).reshape(2, 2, 4)
SHAPES = {HEAVY: (TAILS, replace(TAILS, homogeneous=True)), LAYERED: (LAYERS,)}
RECIPES = {
    recipe.name: (problem, recipe)
    for problem in PROBLEMS
    for recipe in recipes(problem=problem)
    if recipe.model != "none"
}
AUTOMATIC = [name for name, (_, recipe) in RECIPES.items() if recipe.automatic]
ASK_RHO = {"offline/apvi-gaussian"}  # as the paper has it
PROMISES_NOTHING = {"central/heavy-tailed-published"}


def target(name, *, epsilon=1.0, delta=None, rho=None, **options):
    """A target for a recipe: epsilon 1, pure where it can be; six blocks, so that several are released."""
    problem, recipe = RECIPES[name]
    if delta is None:
        delta = 0.0 if recipe.pure and recipe.model != "shuffle" else 1e-5
    chosen = {key: value for key, value in {"blocks": 6, "enough": 1.0}.items() if key in recipe.options}
    if problem == LINEAR:
        chosen |= {"features": FEATURES, "vectors": (1, 2)}
    if rho is not None:
        return TRUST[recipe.model](rho=rho, recipe=name, options=chosen | options)
    return TRUST[recipe.model](epsilon, delta, recipe=name, options=chosen | options)


@cache
def privatizers(name):
    """The recipe in all small worlds that it serves: laws per step, pooled laws, layers, heavy tails."""
    problem, recipe = RECIPES[name]
    found = []
    for shape in BANDITS if recipe.encoder == "arm-rewards" else SHAPES.get(problem, (SMALL, POOLED)):
        asked = target(name, rho=0.1) if name in ASK_RHO else target(name)
        with suppress(DiscreetError):
            found.append(build(asked, shape, USERS))
    assert found, f"no world here serves {name}"
    return tuple(found)
