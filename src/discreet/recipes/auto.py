"""``recipe="auto"``: of the recipes that are valid for a target, a shape and a learner, the one that scores best.

The score is a function of public numbers, so the choice sees no data and costs no privacy. Recipes of the target's own
trust model come first. Those of models that trust less are tried where they count something else: whoever may see the
counts of an encoder needs no more noise for them than users or a shuffler would have to add. They are taken where they
score clearly better.

Where nothing serves, the refusal says what stood in the way of each recipe, and which recipe would serve that "auto"
does not take by itself, or which delta would help.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from discreet.base.errors import DiscreetError, InvalidInput, Unsupported, nearest, unknown_name
from discreet.base.policies import MIXED
from discreet.base.shape import LayeredShape, Shape
from discreet.base.validation import shown
from discreet.mechanisms.release import LAYERS, Layer
from discreet.mechanisms.session import Privatizer
from discreet.noise.distribution import NoiseTooWide
from discreet.recipes.recipe import Recipe
from discreet.recipes.targets import Privacy

Score = Callable[[Privatizer, int], float]
_USUAL_DELTA = 1e-5
_STATISTICS = frozenset({"visits", "transitions", "rewards", "losses", "observed_losses", "matrix", "vectors"})
_OF_LOSSES = frozenset({"losses", "observed_losses"})  # what only worlds with adversarial losses release
_CLEARLY = 1.25  # formulas are not exact, and a mechanism made for the model is what its users expect


def choose(
    own: Iterable[Recipe],
    trusting_less: Iterable[Recipe],
    privacy: Privacy,
    shape: Shape,
    episodes: int,
    needs: frozenset[str],
    score: Score,
) -> Privatizer:
    """The candidate with the lowest score; of equal ones the first."""
    own, trusting_less = list(own), list(trusting_less)
    _check_options(own, privacy)
    by_layer = LAYERS in needs and shape.horizon > 1
    candidates: list[tuple[float, Privatizer]] = []
    reasons, refused, counted = [], [], set()
    for recipe in own:
        made = _attempt(recipe, privacy, shape, episodes, needs)
        if isinstance(made, Privatizer):
            candidates.append((score(made, episodes), made))
            if not by_layer or _answers_layers(made):
                counted.add(recipe.encoder)
        elif isinstance(made, InvalidInput):
            refused.append(made)
        elif made:
            reasons.append(made)
    if not candidates and refused:  # an input that none of them takes; of noise that is too wide the narrowest
        raise min(refused, key=lambda refusal: refusal.factor if isinstance(refusal, NoiseTooWide) else 0.0)
    if not candidates:
        if needs & _OF_LOSSES and not isinstance(shape, LayeredShape):
            raise Unsupported(
                f"this learner needs {' and '.join(sorted(needs & _OF_LOSSES))}, which only worlds with adversarial "
                "losses have: choose one, such as layered or kinds, or another learner"
            )
        _check_statistics(needs, reasons, privacy.model)
        raise Unsupported(
            f"no recipe of the {privacy.model} model serves this learner and world: "
            + ("; ".join(reasons) or "there is none for such problems yet")
            + _remedy([*own, *trusting_less], privacy, shape, episodes, needs)
        )
    for recipe in trusting_less:
        made = None if recipe.encoder in counted else _attempt(recipe, privacy, shape, episodes, needs)
        if isinstance(made, Privatizer):
            candidates.append((_CLEARLY * score(made, episodes), made))
    if by_layer:
        candidates = [found for found in candidates if _answers_layers(found[1])] or candidates
    best = min(value for value, _made in candidates)
    return next(candidate for value, candidate in candidates if value <= best * (1 + 1e-9))


def _check_statistics(needs: frozenset[str], reasons: Iterable[str], model: str) -> None:
    """Where no recipe releases what a learner needs, one sentence instead of one for each recipe."""
    for need in sorted(needs - _STATISTICS):
        told = [each for each in (reason.partition("does not release")[2] for reason in reasons) if each]
        if told and all(f" {need}" in each for each in told):
            near = nearest(need, _STATISTICS)
            hint = f"did you mean {' or '.join(near)}?" if near else "register a recipe of your own that releases it"
            raise Unsupported(
                f"the learner needs {shown(need)}, and no {model} recipe that fits here releases it: {hint}"
            )


def _check_options(recipes: Iterable[Recipe], privacy: Privacy) -> None:
    """Refuse an option that no recipe of the trust model has, by its name."""
    known = {name for recipe in recipes for name in recipe.options}
    for name in privacy.options:
        if name not in known:
            raise unknown_name(f"option of the recipes of the {privacy.model} model", name, known)


def _answers_layers(privatizer: Privatizer) -> bool:
    return all(Layer in channel.answers for channel in privatizer.channels)


def _attempt(
    recipe: Recipe, privacy: Privacy, shape: Shape, episodes: int, needs: frozenset[str]
) -> Privatizer | InvalidInput | str | None:
    """The recipe assembled; or why it does not serve; or None where "auto" does not take it."""
    if not recipe.automatic or not recipe.suits(privacy, shape):
        return None
    if MIXED in needs and not recipe.mixes:
        return f"{recipe.name}: not for learners that mix actions"
    if privacy.delta == 0 and privacy.rho is None and not recipe.pure:
        return f"{recipe.name}: needs delta above 0, try delta={_USUAL_DELTA:g}"
    unknown = [name for name in privacy.options if name not in recipe.options]
    if unknown:
        return f"{recipe.name}: no option {', '.join(map(repr, unknown))}"
    try:
        candidate = recipe.assemble(privacy, shape, episodes, needs)
        candidate.check(needs)
        return candidate
    except InvalidInput as refusal:
        return refusal
    except Unsupported as refusal:
        return f"{recipe.name}: {refusal}"


def _remedy(recipes: Iterable[Recipe], privacy: Privacy, shape: Shape, episodes: int, needs: frozenset[str]) -> str:
    """What would serve instead, as the end of a refusal; empty where nothing would."""
    with_delta = replace(privacy, delta=_USUAL_DELTA) if privacy.epsilon is not None and privacy.delta == 0 else None
    recipes = [recipe for recipe in recipes if all(name in recipe.options for name in privacy.options)]
    for recipe in recipes:
        taken = recipe.automatic and recipe.model == privacy.model
        if not taken and _serves(recipe, privacy, shape, episodes, needs):
            return f'; recipe={recipe.name!r} serves this, which "auto" does not take by itself'
    for recipe in recipes:
        if with_delta is not None and not recipe.pure and _serves(recipe, with_delta, shape, episodes, needs):
            return f"; with delta={_USUAL_DELTA:g} recipe={recipe.name!r} serves this"
    return ""


def _serves(recipe: Recipe, privacy: Privacy, shape: Shape, episodes: int, needs: frozenset[str]) -> bool:
    """Whether the recipe can be assembled with a finite promise; every refusal of one is in plain words elsewhere."""
    try:
        privatizer = recipe.assemble(privacy, shape, episodes, needs)
        privatizer.check(needs)
    except DiscreetError:
        return False
    return privatizer.guarantee.delta_at(privacy.epsilon) <= privacy.delta if privacy.epsilon is not None else True
