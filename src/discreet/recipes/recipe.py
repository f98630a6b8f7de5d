"""What a recipe is: a name, a trust model, and a way to assemble a privatizer for a target. All of it is data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.notebook import facts_html, one_line, table_html
from discreet.base.shape import Shape
from discreet.mechanisms.session import Privatizer
from discreet.privacy.guarantee import held_by, with_more_trust
from discreet.recipes.targets import TRUSTS_LESS, Privacy, in_model

Options = Mapping[str, Any]
_NEVER_PURE = ("gaussian", "binomial", "bounded")
_COST_A_DELTA = ("shuffled-blocks", "sparse")
_PROMISES = {"central": "joint", "shuffle": "shuffle"}  # what online learning promises where somebody is trusted

# What is learned: from counts of states and actions, from rewards without a range, from losses in layers; or from one
# data set that is there already, by tables or by linear questions.
TABULAR, HEAVY, LAYERED, DATA_SET, LINEAR = "tabular", "heavy tails", "layered", "data set", "linear questions"
PROBLEMS = (TABULAR, HEAVY, LAYERED, DATA_SET, LINEAR)


@dataclass(frozen=True)
class Recipe:
    """A named combination of encoder, law and accumulator for one trust model.

    Args:
        name: ``model/words``.
        model: ``central``, ``shuffle``, ``local`` or ``none``.
        summary: One line for lists.
        build: ``build(target, shape, episodes, options)`` calibrates it; the privatizer gets the name of the recipe.
        pure: Whether it reaches delta = 0 (None: as its law and its accumulator have it).
        automatic: Whether "auto" may choose it.
        encoder: What is counted, by name, for lists.
        law: The noise, by name, for lists.
        accumulator: How tallies add up, by name, for lists.
        source: Where it comes from.
        options: Its parameters with their defaults; None lets the recipe decide.
        heavy_tails: Whether it is made for rewards without a range.
        problem: What is learned from it.
        mixes: False: not for learners that deploy several actions at once.
        suits: For which targets and shapes "auto" may choose it.
        options_for: Other defaults for learners with a certain need, such as ``discreet.mechanisms.release.ESTIMATES``.

    Examples:
        >>> import discreet
        >>> recipe = discreet.recipes("local")[0]
        >>> recipe.model, recipe.problem
        ('local', 'tabular')
    """

    name: str
    model: str
    summary: str
    build: Callable[[Privacy, Shape, int, Options], Privatizer] = field(repr=False)
    pure: bool | None = None
    automatic: bool = True
    encoder: str = ""
    law: str = ""
    accumulator: str = ""
    source: str = "discreet"
    options: Options = field(default_factory=dict)
    heavy_tails: bool = False
    problem: str = TABULAR
    mixes: bool = True
    suits: Callable[[Privacy, Shape], bool] = field(default=lambda privacy, shape: True, repr=False)
    options_for: Mapping[str, Options] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.pure is None:
            object.__setattr__(self, "pure", _reaches_purity(self.law, self.accumulator))

    def __repr__(self) -> str:
        return one_line("Recipe", self.name, f"{self.model} model", "auto may take it" if self.automatic else "")

    def _repr_html_(self) -> str:
        options = ", ".join(f"{name}={'auto' if value is None else value}" for name, value in self.options.items())
        facts = [
            ("what", self.summary),
            ("trust model", self.model),
            ("delta", _delta(self)),
            ("auto", "may take it" if self.automatic else "never takes it: ask for it by name"),
            ("options", options or "none"),
            ("source", self.source),
        ]
        return facts_html(f"Recipe {self.name}", facts)

    def assemble(
        self, privacy: Privacy, shape: Shape, episodes: int, needs: frozenset[str] = frozenset()
    ) -> Privatizer:
        """The recipe calibrated to a target, with the options that the target carries, for a learner with these needs.

        A target of a model that trusts more is served, too: the guarantee is then restated in that model.
        """
        if shape.moments is not None and not self.heavy_tails:
            raise Unsupported(f"recipe {self.name!r} needs rewards with a range, and this world declares heavy tails")
        for name in privacy.options:
            if name not in self.options:
                known = ", ".join(self.options) or "none"
                raise InvalidInput(f"recipe {self.name!r} has no option {name!r}; its options: {known}")
        trusts_more = self.model in TRUSTS_LESS.get(privacy.model, ())
        target = self._restated(privacy) if trusts_more else privacy
        defaults = {**self.options}
        for need in sorted(needs & self.options_for.keys()):
            defaults |= self.options_for[need]
        privatizer = self.build(target, shape, episodes, {**defaults, **privacy.options})
        guarantee = privatizer.guarantee
        if trusts_more:
            guarantee = with_more_trust(guarantee, _PROMISES[privacy.model])
        guarantee = held_by(guarantee, privatizer.parts)
        return replace(privatizer, recipe=self.name, users=episodes, guarantee=guarantee)

    def _restated(self, privacy: Privacy) -> Privacy:
        """The target in the recipe's own model; some cannot be stated there, such as a rho behind a shuffler."""
        try:
            return in_model(privacy, self.model)
        except InvalidInput as refusal:
            raise Unsupported(f"recipe {self.name!r} cannot keep this target: {refusal}") from None


class Recipes(tuple[Recipe, ...]):
    """Recipes as ``discreet.recipes()`` lists them: a tuple that a notebook shows as a table."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "\n".join([f"{len(self)} recipes:", *map(repr, self)])

    def _repr_html_(self) -> str:
        rows = [[r.name, r.model, _delta(r), "yes" if r.automatic else "", r.summary] for r in self]
        return table_html(f"{len(self)} recipes", ["recipe", "trust model", "delta", "auto", "what"], rows)


def _delta(recipe: Recipe) -> str:
    return "" if recipe.model == "none" else "0" if recipe.pure else "above 0"


def _reaches_purity(law: str, accumulator: str) -> bool:
    """Whether one of the laws is pure, and nothing after it costs a delta: thresholds and shufflers do."""
    return accumulator not in _COST_A_DELTA and any(name not in _NEVER_PURE for name in law.split(", "))
