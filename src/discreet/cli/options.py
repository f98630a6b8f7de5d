"""The options that commands share, and how they become a world, a learner and a privacy target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from discreet.base.errors import InvalidInput, Unsupported, unknown_name

if TYPE_CHECKING:
    from discreet.learners.base import Learner
    from discreet.recipes.targets import Privacy
    from discreet.simulation.simulate import AnyWorld

_WORLD, _LEARNING, _PRIVACY, _OUTPUT = "World", "Learning", "Privacy", "Output"
MODELS = ("none", "central", "local", "shuffle")
# What the literature calls them.
_ELSEWHERE = {
    "ldp": "local",
    "dp": "central",
    "cdp": "central",
    "jdp": "central",
    "joint": "central",
    "sdp": "shuffle",
    "zcdp": "central, with --rho instead of --epsilon",
}


def complete_world(incomplete: str) -> list[str]:
    """Names of worlds, for a shell."""
    from discreet.worlds.registry import WORLDS

    return [name for name in WORLDS if name.startswith(incomplete)]


def complete_learner(incomplete: str) -> list[str]:
    """Names of learners, for a shell."""
    from discreet.learners.registry import LEARNERS

    return [name for name in LEARNERS if name.startswith(incomplete)]


def complete_recipe(incomplete: str) -> list[str]:
    """Names of recipes, for a shell."""
    from discreet.recipes.registry import recipes

    return [name for name in ("auto", *(recipe.name for recipe in recipes())) if name.startswith(incomplete)]


def complete_model(incomplete: str) -> list[str]:
    """Names of trust models, for a shell."""
    return [name for name in MODELS if name.startswith(incomplete)]


WorldName: TypeAlias = Annotated[
    str,
    typer.Option("--world", help="A name from discreet worlds.", rich_help_panel=_WORLD, autocompletion=complete_world),
]
States: TypeAlias = Annotated[
    int | None, typer.Option("--states", help="Short for --world-option states=N.", rich_help_panel=_WORLD)
]
Actions: TypeAlias = Annotated[
    int | None, typer.Option("--actions", help="Short for --world-option actions=N.", rich_help_panel=_WORLD)
]
Horizon: TypeAlias = Annotated[
    int | None, typer.Option("--horizon", help="Short for --world-option horizon=N.", rich_help_panel=_WORLD)
]
WorldOptions: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--world-option", metavar="NAME=VALUE", help="An option of the world.", rich_help_panel=_WORLD),
]
Instance: TypeAlias = Annotated[
    int | None,
    typer.Option("--instance", metavar="SEED", help="Fix one instance of a random world.", rich_help_panel=_WORLD),
]
Homogeneous: TypeAlias = Annotated[
    bool | None,
    typer.Option(
        "--homogeneous/--per-step",
        help="Declare that rewards and transitions have the same distributions at every step, or not. By default as "
        "the world says.",
        rich_help_panel=_WORLD,
    ),
]
LearnerName: TypeAlias = Annotated[
    str,
    typer.Option(
        "--learner", help="A name from discreet learners.", rich_help_panel=_LEARNING, autocompletion=complete_learner
    ),
]
Options: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="NAME=VALUE",
        rich_help_panel=_LEARNING,
        help="An option of the learner (discreet learners) or of the recipe (discreet recipes NAME).",
    ),
]
Episodes: TypeAlias = Annotated[
    int, typer.Option("--episodes", help="How many users act, one episode each.", rich_help_panel=_LEARNING)
]
PrivacyModel: TypeAlias = Annotated[
    str,
    typer.Option(
        "--privacy",
        help="Whom users trust: none, central, local or shuffle.",
        rich_help_panel=_PRIVACY,
        autocompletion=complete_model,
    ),
]
Epsilon: TypeAlias = Annotated[
    float | None, typer.Option("--epsilon", help="At most this much privacy loss.", rich_help_panel=_PRIVACY)
]
Delta: TypeAlias = Annotated[
    float | None, typer.Option("--delta", help="The delta beside epsilon (default 0).", rich_help_panel=_PRIVACY)
]
Rho: TypeAlias = Annotated[
    float | None,
    typer.Option("--rho", help="A zero-concentrated target, instead of epsilon.", rich_help_panel=_PRIVACY),
]
RecipeName: TypeAlias = Annotated[
    str,
    typer.Option(
        "--recipe",
        help="A name from discreet recipes; auto takes what is expected to learn best.",
        rich_help_panel=_PRIVACY,
        autocompletion=complete_recipe,
    ),
]
JsonFile: TypeAlias = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", help="Write everything as JSON (- for stdout).", rich_help_panel=_OUTPUT),
]


def choose_world(
    name: str, shorthands: Mapping[str, int | None], options: Iterable[str] | None, homogeneous: bool | None
) -> AnyWorld:
    """The world that the options describe."""
    from discreet.worlds.registry import WORLDS, make_world

    given: dict[str, Any] = pairs("--world-option", options)
    for option, value in shorthands.items():
        if value is not None and option in given:
            raise InvalidInput(f"world option {option} was given twice, as --{option} and as --world-option")
        if value is not None:
            given[option] = value
    known = WORLDS[name].options if name in WORLDS else given
    for option in given:
        if option not in known:
            raise InvalidInput(f"world {name} has no option {option!r}; it has {', '.join(known) or 'none'}")
    world: AnyWorld = make_world(name, **given)
    return world if homogeneous is None else world.with_time(homogeneous)


def choose_learner(
    name: str,
    model: str,
    recipe: str,
    options: Iterable[str] | None,
    *,
    epsilon: float | None,
    delta: float | None,
    rho: float | None,
) -> tuple[Learner, Privacy]:
    """The learner and the privacy target; an option is the learner's if it has one of that name, else the recipe's."""
    from discreet.learners.registry import LEARNERS, make_learner
    from discreet.recipes.targets import Central, Local, NoPrivacy, Shuffle

    trust = {kind.model: kind for kind in (NoPrivacy, Central, Local, Shuffle)}
    if model not in trust:
        raise unknown_model(model, trust)
    if model == "none" and not (epsilon is None and delta is None and rho is None):
        raise InvalidInput(
            "--privacy none promises nothing, so it takes no epsilon, delta or rho; choose central, local or shuffle"
        )
    entry = LEARNERS.find(name)
    if entry.kind == "offline" and model not in ("none", "central"):
        raise Unsupported(f"offline learners know --privacy none and central, not {model}")
    for_learner, for_recipe = _sorted_options(name, recipe, model, options, offline=entry.kind == "offline")
    privacy = trust[model](epsilon, 0.0 if delta is None else delta, rho, recipe, for_recipe)
    return make_learner(name, **for_learner), privacy


def unknown_model(model: str, known: Iterable[str]) -> InvalidInput:
    """The error for a trust model that does not exist; one that has another name elsewhere is named as it is here."""
    meant = _ELSEWHERE.get(model.casefold())
    if meant is None:
        return unknown_name("privacy model", model, known)
    return InvalidInput(f"unknown privacy model {model!r}: write --privacy {meant}")


def _sorted_options(
    learner: str, recipe: str, model: str, options: Iterable[str] | None, *, offline: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options of the learner as text, and those of the recipe parsed."""
    from discreet.base.registry import parse_value
    from discreet.learners.registry import LEARNERS

    given = pairs("--option", options)
    knobs = LEARNERS[learner].options
    for_learner = {option: text for option, text in given.items() if option in knobs}
    for_recipe: dict[str, Any] = {}
    if len(for_learner) < len(given):
        known = _recipe_options(recipe, model, offline)
        for option in given.keys() - for_learner.keys():
            if option not in known:
                raise _unknown_option(option, learner, knobs, recipe if recipe != "auto" else model, known)
            default, text = known[option], given[option]
            for_recipe[option] = _parse_free(text) if default is None else parse_value(option, text, type(default))
    return for_learner, for_recipe


def _recipe_options(recipe: str, model: str, offline: bool) -> dict[str, Any]:
    """The options of the recipe; of all recipes that could serve while none is chosen."""
    from discreet.recipes.recipe import DATA_SET, HEAVY, LAYERED, TABULAR
    from discreet.recipes.registry import find, recipes

    problems = (DATA_SET,) if offline else (TABULAR, HEAVY, LAYERED)
    every = (entry for problem in problems for entry in recipes(model, problem))
    options: dict[str, Any] = {}
    for entry in every if recipe == "auto" else (find(recipe, model),):
        for option, default in entry.options.items():
            options[option] = default if options.get(option) is None else options[option]
    return options


def _parse_free(text: str) -> Any:
    """The value of an option that the recipe decides unless told: its own checks say what it may be."""
    words = {"auto": None, "none": None, "true": True, "false": False}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _unknown_option(
    option: str, learner: str, knobs: Iterable[str], recipe: str, recipe_options: Iterable[str]
) -> InvalidInput:
    first = unknown_name("option", option, [*knobs, *recipe_options])
    return InvalidInput(
        f"{first} (learner {learner} takes {', '.join(knobs) or 'none'}; "
        f"recipe {recipe} takes {', '.join(recipe_options) or 'none'})"
    )


def learner_options(learner: str, options: Iterable[str] | None) -> dict[str, Any]:
    """Options of a learner from data, parsed by the types of its fields."""
    from discreet.base.registry import parse_options
    from discreet.learners.registry import LEARNERS

    offline = [name for name, entry in LEARNERS.items() if entry.kind == "offline"]
    if learner not in offline:
        raise unknown_name("offline learner", learner, offline)
    return parse_options(f"learner {learner}", LEARNERS[learner].make, pairs("--option", options))


def several_values(texts: Iterable[str] | None) -> dict[str, list[Any]]:
    """Options of recipes with one or several values each, separated by commas."""
    return {name: [_parse_free(value) for value in text.split(",")] for name, text in pairs("--option", texts).items()}


def pairs(option: str, texts: Iterable[str] | None) -> dict[str, str]:
    """Options as name=value, each at most once."""
    found: dict[str, str] = {}
    for text in texts or ():
        name, sign, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not sign or not name or not value:
            raise InvalidInput(f"{option} takes name=value, got {text!r}")
        if name in found:
            raise InvalidInput(f"{option} {name} was given twice; give it once")
        found[name] = value.strip()
    return found
