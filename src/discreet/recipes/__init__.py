"""Recipes: named ways to release statistics for a trust model, each with a guarantee that is computed.

``discreet.recipes()`` lists them, ``discreet.recipes.register(recipe)`` adds one of your own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from discreet.base.packages import lazily, make_callable

if TYPE_CHECKING:
    from discreet.recipes.recipe import Recipe
    from discreet.recipes.registry import forget, register

__all__ = ["Recipe", "forget", "register"]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "Recipe": "discreet.recipes.recipe",
        "forget": "discreet.recipes.registry",
        "register": "discreet.recipes.registry",
    },
)
make_callable(__name__, "discreet.recipes.registry:recipes")
