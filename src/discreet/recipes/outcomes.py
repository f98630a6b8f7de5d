"""Recipes for a data set whose rewards have units: means with their own spread, at the price of the sums.

A reward bit pays for the variance of a coin whatever the rewards do, and a wide declared range makes that variance
large. Counts, sums and slacks (:mod:`discreet.mechanisms.counts.outcome_table`) show the spread that there is.

**Formal guarantees.** One release of a whole data set: central differential privacy for replacing one user.
"""

from __future__ import annotations

from functools import partial

from discreet.base.errors import Unsupported
from discreet.base.shape import Shape
from discreet.mechanisms.counts.outcome_table import GRID, OutcomeTable
from discreet.mechanisms.outcome_channel import OutcomeChannel
from discreet.mechanisms.schedule import Equal
from discreet.mechanisms.session import Privatizer
from discreet.mechanisms.sums.blocks import Once
from discreet.noise.calibration import calibrate_noise
from discreet.privacy.guarantee import Several, from_mechanism
from discreet.recipes.data_set import LAWS, TOO_LARGE, stated
from discreet.recipes.recipe import Options, Recipe
from discreet.recipes.targets import Privacy

OPTIONS: Options = {"rewards": "private", "per_user": 1}
_WEIGHT = {"laplace": GRID // 2, "gaussian": GRID}


def table_for(law: str, shape: Shape, per_user: int = 1) -> OutcomeTable:
    """What is counted where noise is of this law."""
    return OutcomeTable(shape, _WEIGHT[law], successors=shape.horizon > 1, per_user=per_user)


def _build(law: str, privacy: Privacy, shape: Shape, users: int, options: Options) -> Privatizer:
    if options["rewards"] != "private":
        raise Unsupported("mean rewards were declared public, and outcomes are released: leave known_rewards out")
    encoder = table_for(law, shape, options["per_user"])
    if encoder.size > TOO_LARGE:
        raise Unsupported(f"{encoder.size:,} cells are too many for noise in every one of them: merge states")
    moved = encoder.sensitivity()
    noise = calibrate_noise(LAWS[law], moved, epsilon=privacy.epsilon, delta=privacy.delta, rho=privacy.rho)
    m = encoder.per_user
    several = None if m == 1 else Several(m, table_for(law, shape).sensitivity())
    promise = from_mechanism(noise, moved, delta=privacy.delta, name=encoder.name, cells=encoder.size, several=several)
    channel = OutcomeChannel(encoder, noise, Once())
    return Privatizer("", shape, (channel,), Equal(1), stated(promise, options), masked=False, options=options)


def best_law(privacy: Privacy, shape: Shape, per_user: int = 1) -> str:
    """The law with less noise in a sum of rewards: a function of the target and of public sizes."""
    if privacy.rho is not None:
        return "gaussian"
    if privacy.delta == 0:
        return "laplace"
    scales = {
        law: calibrate_noise(
            LAWS[law], table_for(law, shape, per_user).sensitivity(), epsilon=privacy.epsilon, delta=privacy.delta
        ).variance
        for law in LAWS
    }
    return min(scales, key=lambda law: scales[law])


def recipe_for(privacy: Privacy, shape: Shape, per_user: int) -> str:
    """The recipe for outcomes of one step in units of their own, where nothing follows; "auto" for anything else.

    The range 0 to 1 is taken for yes and no, of which a bit says everything at less noise.
    """
    if shape.horizon > 1 or shape.rewards == (0.0, 1.0):
        return "auto"
    return f"offline/outcomes-{best_law(privacy, shape, per_user)}"


def _recipe(law: str) -> Recipe:
    summary = f"one release of counts, sums and slacks of rewards with discrete {law.capitalize()} noise"
    return Recipe(
        f"offline/outcomes-{law}", "central", summary, partial(_build, law), pure=law == "laplace", automatic=False,
        encoder="outcomes", law=law, accumulator="once", options=OPTIONS,
    )  # fmt: skip


RECIPES: tuple[Recipe, ...] = tuple(_recipe(law) for law in LAWS)
