"""A recipe hands its options to whoever builds it, and refuses what it does not know."""

from __future__ import annotations

import pytest

from discreet.errors import InvalidInput, Unsupported
from discreet.recipes.recipe import Recipe
from discreet.recipes.trust import Central
from discreet.shape import Moments, Shape

SHAPE = Shape(2, 2, 2)
HEAVY = Shape(2, 2, 2, rewards=(-1.0, 1.0), moments=Moments(1.0, 0.5))


def echo(*arguments):
    return arguments


def recipe(**fields):
    return Recipe(
        "central/echo", "central", "hands back what it is given", echo, options={"blocks": 3, "first": None}, **fields
    )


def test_options_of_the_target_replace_the_defaults():
    target = Central(1.0, options={"blocks": 7})
    assert recipe().assemble(target, SHAPE, 10) == (target, SHAPE, 10, {"blocks": 7, "first": None})


def test_unknown_options_are_refused_with_those_that_there_are():
    with pytest.raises(InvalidInput, match="'central/echo' has no option 'growth'; its options: blocks, first"):
        recipe().assemble(Central(1.0, options={"growth": 2}), SHAPE, 10)


def test_heavy_tails_need_a_recipe_that_is_made_for_them():
    with pytest.raises(Unsupported, match="declares heavy tails"):
        recipe().assemble(Central(1.0), HEAVY, 10)
    assert recipe(heavy_tails=True).assemble(Central(1.0), HEAVY, 10)[1] == HEAVY
