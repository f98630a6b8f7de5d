"""Named recipes: an encoder, a law and an accumulator for a trust model, calibrated to a target. All of it is data.

``build`` turns a target, a public shape and a number of episodes into a privatizer with a computed guarantee. With
``recipe="auto"`` it takes the quietest recipe that is valid for the shape and the target; it sees no data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from discreet.accumulators.base import Accumulator
from discreet.accumulators.schedule import Equal, EveryEpisode, Growing, GrowThenEqual, Schedule
from discreet.accumulators.sums import Blocks, Total
from discreet.accumulators.tree import Tree
from discreet.encoders.base import Encoder
from discreet.encoders.first_visit import FirstVisit
from discreet.encoders.joint_histogram import JointHistogram
from discreet.encoders.three_tables import ThreeTables
from discreet.errors import InvalidInput, Unsupported, unknown_name
from discreet.noise import DiscreteGaussian, DiscreteLaplace, NoNoise
from discreet.privacy.calibration import calibrate_noise
from discreet.privacy.guarantee import Guarantee, billboard, from_mechanism, locally, nothing, parallel
from discreet.privacy.sensitivity import Sensitivity
from discreet.privatizers.channel import Channel, Privatizer
from discreet.privatizers.trust import Privacy
from discreet.shape import Shape
from discreet.validation import check_count

ENCODERS: Mapping[str, Callable[[Shape], Encoder]] = {
    "three-tables": ThreeTables,
    "joint-histogram": JointHistogram,
    "first-visit": FirstVisit,
}
LAWS: Mapping[str, type[Any]] = {"laplace": DiscreteLaplace, "gaussian": DiscreteGaussian}


@dataclass(frozen=True)
class Recipe:
    """A named combination. ``options`` are the recipe's knobs with their defaults; None lets the recipe decide."""

    name: str
    model: str
    summary: str
    encoder: str
    law: str
    accumulator: str
    source: str = "discreet"
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def pure(self) -> bool:
        """Whether the recipe reaches delta = 0."""
        return self.law != "gaussian"


def _central(encoder: str, law: str, accumulator: str = "blocks") -> Recipe:
    words = {"blocks": "one release per block of users", "tree": "binary tree, a release after every user"}
    options = {"blocks": None, "first": None, "masked": True} if accumulator == "blocks" else {}
    name = f"central/{encoder}-{law}" + ("" if accumulator == "blocks" else f"-{accumulator}")
    summary = f"{encoder} counts, discrete {law.capitalize()} noise, {words[accumulator]}"
    return Recipe(name, "central", summary, encoder, law, accumulator, options=options)


def _local(encoder: str, law: str) -> Recipe:
    summary = f"every user adds discrete {law.capitalize()} noise to her own {encoder} counts"
    options = {"growth": 0.02, "masked": True}
    return Recipe(f"local/{encoder}-{law}", "local", summary, encoder, law, "total", options=options)


_ENCODER_ORDER = ("joint-histogram", "first-visit", "three-tables")  # auto prefers the first of equally quiet ones
_RECIPES = (
    Recipe("none", "none", "the counts as they are; no promise", "three-tables", "none", "total"),
    *(_central(encoder, law) for encoder in _ENCODER_ORDER for law in LAWS),
    *(_central("three-tables", law, "tree") for law in LAWS),
    *(_local(encoder, law) for encoder in _ENCODER_ORDER for law in LAWS),
)


def recipes(model: str | None = None) -> tuple[Recipe, ...]:
    """All recipes, or those of one trust model."""
    return tuple(recipe for recipe in _RECIPES if model is None or recipe.model == model)


def build(privacy: Privacy, shape: Shape, episodes: int, needs: Iterable[str] = ()) -> Privatizer:
    """The privatizer for a target: calibrated, with a computed guarantee. Sees no data."""
    if privacy.recipe != "auto":
        privatizer = assemble(find(privacy.recipe, privacy.model), privacy, shape, episodes)
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


def assemble(recipe: Recipe, privacy: Privacy, shape: Shape, episodes: int) -> Privatizer:
    """One recipe, calibrated to the target."""
    options = _merged(recipe, privacy.options)
    if recipe.model == "none":
        channel = Channel(ThreeTables(shape, rounded=False), NoNoise(), Total())
        return Privatizer("none", shape, (channel,), EveryEpisode(), nothing(), masked=False)
    encoder = ENCODERS[recipe.encoder](shape)
    accumulator = _accumulator(recipe, episodes)
    sensitivity = _released_sensitivity(encoder, accumulator)
    law = calibrate_noise(
        LAWS[recipe.law], sensitivity, epsilon=privacy.epsilon, delta=privacy.delta, rho=privacy.rho
    )
    schedule = _schedule(recipe, options, episodes)
    guarantee = _guarantee(recipe, from_mechanism(law, sensitivity, delta=privacy.delta, name=encoder.name), schedule)
    masked = bool(options.get("masked", False))
    return Privatizer(recipe.name, shape, (Channel(encoder, law, accumulator),), schedule, guarantee, masked, options)


def _quietest(privacy: Privacy, shape: Shape, episodes: int, needs: frozenset[str]) -> Privatizer:
    best: Privatizer | None = None
    reasons = []
    for recipe in recipes(privacy.model):
        if recipe.accumulator == "tree" or (privacy.delta == 0 and privacy.rho is None and not recipe.pure):
            continue
        try:
            candidate = assemble(recipe, _with_known_options(privacy, recipe), shape, episodes)
            candidate.check(needs)
        except Unsupported as refusal:
            reasons.append(f"{recipe.name}: {refusal}")
            continue
        if best is None or noise_of(candidate) < noise_of(best) * (1 - 1e-9):
            best = candidate
    if best is None:
        why = "; ".join(reasons) or "there is none for this trust model yet"
        raise Unsupported(f"no recipe of the {privacy.model} model serves this learner and world: {why}")
    return best


def noise_of(privatizer: Privatizer) -> float:
    """The noise variance in all counts of one (state, action) of one release: what "auto" makes small."""
    total = 0.0
    for channel in privatizer.channels:
        for statistic in channel.encoder.marginals(np.zeros(channel.encoder.size)).values():
            counts_per_row = statistic.values[0, 0, 0].size
            total += channel.law.variance * float(statistic.cells.mean()) * counts_per_row
    return total


def _accumulator(recipe: Recipe, episodes: int) -> Accumulator:
    if recipe.accumulator == "tree":
        return Tree(users=episodes)  # the policy that would be deployed next is planned from the last user's release
    return Total() if recipe.accumulator == "total" else Blocks()


def _released_sensitivity(encoder: Encoder, accumulator: Accumulator) -> Sensitivity:
    """What one user moves in everything that is released: a tree shows her in several nodes."""
    own = encoder.sensitivity()
    if not isinstance(accumulator, Tree):
        return own
    assert own.shifts is not None
    return Sensitivity.worst_shift(*((m, up * accumulator.levels, down * accumulator.levels) for m, up, down in own.shifts))


def _schedule(recipe: Recipe, options: Mapping[str, Any], episodes: int) -> Schedule:
    if recipe.accumulator == "tree":
        return EveryEpisode()
    if recipe.accumulator == "total":
        return Growing(first=1, growth=options["growth"])
    blocks = check_count("blocks", 60 if options["blocks"] is None else options["blocks"])
    if options["first"] is not None:
        return GrowThenEqual(blocks, options["first"])
    return Equal(min(blocks, episodes))


def _guarantee(recipe: Recipe, one_release: Guarantee, schedule: Schedule) -> Guarantee:
    if recipe.model == "local":
        return locally(one_release)
    if recipe.accumulator == "tree":
        return billboard(one_release)
    return billboard(parallel(one_release, f"every user is in exactly one block ({schedule.describe()})"))


def _merged(recipe: Recipe, given: Mapping[str, Any]) -> dict[str, Any]:
    for name in given:
        if name not in recipe.options:
            known = ", ".join(recipe.options) or "none"
            raise InvalidInput(f"recipe {recipe.name!r} has no option {name!r}; its options: {known}")
    return {**recipe.options, **given}


def _with_known_options(privacy: Privacy, recipe: Recipe) -> Privacy:
    unknown = [name for name in privacy.options if name not in recipe.options]
    if unknown:
        raise Unsupported(f"no option {', '.join(map(repr, unknown))}")
    return privacy
