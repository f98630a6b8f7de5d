"""``discreet recipes``: what is usable first, papers apart, every option explained, and the page up to date."""

from __future__ import annotations

from pathlib import Path

import pytest

from discreet.cli.lists import AUTO, BY_NAME, PRINTED, page_of, sections
from discreet.recipes.option_help import WORDS, option_words
from discreet.recipes.recipe import Recipe
from discreet.recipes.registry import recipes

PAGE = Path(__file__).parents[2] / "docs" / "recipes.md"


def test_usable_recipes_come_first_and_papers_last(discreet):
    outcome = discreet("recipes")
    assert outcome.code == 0
    text = outcome.out
    assert text.index(AUTO) < text.index("central/first-visit-matrix") < text.index(BY_NAME)
    assert text.index(BY_NAME) < text.index("central/three-tables-laplace-tree") < text.index(PRINTED[:30])
    assert text.index(PRINTED[:30]) < text.index("local/published-laplace")
    assert " published/" not in text


def test_every_recipe_is_in_one_section():
    found = sections(recipes())
    assert sorted(recipe.name for group in found.values() for recipe in group) == sorted(r.name for r in recipes())
    assert all(recipe.automatic for recipe in found[AUTO])
    assert not any(recipe.automatic for recipe in found[BY_NAME] + found[PRINTED])
    assert {recipe.source for recipe in found[BY_NAME]} == {"discreet"}
    assert all(
        "published" in r.name or "printed" in r.name or r.name.startswith("offline/apvi") for r in found[PRINTED]
    )


@pytest.mark.parametrize("recipe", recipes(), ids=lambda recipe: recipe.name)
def test_every_option_says_what_it_does(recipe):
    words = option_words(recipe)
    assert set(words) == set(recipe.options)
    assert all(len(sentence) > 20 for sentence in words.values())


def test_no_words_are_left_over():
    used = {name for recipe in recipes() for name in recipe.options}
    used |= {f"{recipe.name}:{name}" for recipe in recipes() for name in recipe.options}
    assert set(WORDS) <= used


def test_one_recipe_with_its_options(discreet):
    text = " ".join(discreet("recipes", "local/sampled-step").out.split())
    assert "auto may take it" in text
    assert "early_end false true where a record may end before the horizon" in text
    assert "It has no options." in discreet("recipes", "central/three-tables-laplace-tree").out
    assert "printed in a paper" in discreet("recipes", "local/published-psrl").out


def test_recipes_of_your_own_are_listed(discreet):
    from discreet.recipes import forget, register

    mine = Recipe("central/mine", "central", "mine, for a test", build=lambda *_: None, options={"knob": 1})
    register(mine)
    try:
        assert "central/mine" in discreet("recipes", "--model", "central").out
        assert "knob" in discreet("recipes", "central/mine").out
    finally:
        forget("central/mine")


def test_the_page_is_up_to_date():
    assert PAGE.read_text() == page_of(recipes()), "write it anew:  discreet recipes --markdown > docs/recipes.md"
