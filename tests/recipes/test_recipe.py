"""A recipe hands its options to whoever builds it, and refuses what it does not know."""

from __future__ import annotations

import pytest

from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.shape import Moments, Shape
from discreet.mechanisms.schedule import Equal
from discreet.mechanisms.session import unnamed
from discreet.privacy.guarantee import nothing
from discreet.recipes.recipe import Recipe
from discreet.recipes.targets import Central

SHAPE = Shape(2, 2, 2)
HEAVY = Shape(2, 2, 2, rewards=(-1.0, 1.0), moments=Moments(1.0, 0.5))


def echo(privacy, shape, episodes, options):
    """A privatizer without channels that remembers what it was built from."""
    return unnamed(shape, (), Equal(episodes), nothing(), False, {**options, "target": privacy})


def recipe(**fields):
    return Recipe(
        "central/echo", "central", "hands back what it is given", echo, options={"blocks": 3, "first": None}, **fields
    )


def test_options_of_the_target_replace_the_defaults():
    target = Central(1.0, options={"blocks": 7})
    made = recipe().assemble(target, SHAPE, 10)
    assert (made.shape, made.schedule) == (SHAPE, Equal(10))
    assert made.options == {"blocks": 7, "first": None, "target": target}


def test_a_recipe_names_its_privatizer():
    assert recipe().assemble(Central(1.0), SHAPE, 10).recipe == "central/echo"


@pytest.mark.parametrize(
    ("law", "accumulator", "pure"),
    [
        ("laplace", "blocks", True),
        ("gaussian", "blocks", False),
        ("laplace, gaussian", "blocks", True),
        ("laplace", "sparse", False),
        ("randomised-response", "shuffled-blocks", False),
        ("", "", True),
    ],
)
def test_whether_it_is_pure_follows_from_law_and_accumulator(law, accumulator, pure):
    assert recipe(law=law, accumulator=accumulator).pure is pure
    assert recipe(law=law, accumulator=accumulator, pure=not pure).pure is not pure


def test_unknown_options_are_refused_with_those_that_there_are():
    with pytest.raises(InvalidInput, match="'central/echo' has no option 'growth'; its options: blocks, first"):
        recipe().assemble(Central(1.0, options={"growth": 2}), SHAPE, 10)


def test_heavy_tails_need_a_recipe_that_is_made_for_them():
    with pytest.raises(Unsupported, match="declares heavy tails"):
        recipe().assemble(Central(1.0), HEAVY, 10)
    assert recipe(heavy_tails=True).assemble(Central(1.0), HEAVY, 10).shape == HEAVY
