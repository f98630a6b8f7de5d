"""The worlds that have a name on the command line, with their options.

An option of a world is a keyword of the function that makes it; its default and its type are read off the signature,
so there is nothing to keep in step.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import NoneType
from typing import Any, get_args, get_type_hints

from discreet.errors import InvalidInput, unknown_name
from discreet.worlds.catalogue import bandit, random_mdp, river_swim
from discreet.worlds.family import WorldFamily
from discreet.worlds.gym_bridge import cliff_walking, frozen_lake, taxi
from discreet.worlds.hard_central import hard_central
from discreet.worlds.hard_local import hard_local
from discreet.worlds.hard_tree import hard_tree
from discreet.worlds.layered import LayeredFamily, LayeredWorld, layered
from discreet.worlds.linear import linear_benchmark
from discreet.worlds.tabular import TabularWorld

_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


@dataclass(frozen=True)
class NamedWorld:
    """How to make a world, and what it is in one line."""

    make: Callable[..., TabularWorld | WorldFamily | LayeredWorld | LayeredFamily]
    description: str

    @property
    def options(self) -> dict[str, Any]:
        """Option names and their defaults."""
        return {name: parameter.default for name, parameter in inspect.signature(self.make).parameters.items()}


WORLDS: dict[str, NamedWorld] = {
    "river-swim": NamedWorld(river_swim, "a chain to swim up against the current, with a small reward at the near end"),
    "random-mdp": NamedWorld(random_mdp, "sparse random transitions and 0/1 rewards, a fresh instance per run"),
    "bandit": NamedWorld(bandit, "one state, one step, many arms, a fresh instance per run"),
    "layered": NamedWorld(layered, "random layers with losses that an adversary fixed beforehand, fresh per run"),
    "linear-benchmark": NamedWorld(linear_benchmark, "linear in ten features, for offline learners, fresh per run"),
    "hard-central": NamedWorld(hard_central, "bandits that pay rarely and much: where joint privacy must cost regret"),
    "hard-tree": NamedWorld(hard_tree, "a tree with one good leaf that pays rarely and much, for the local model"),
    "hard-local": NamedWorld(hard_local, "a tree with one slightly better leaf: where local privacy must cost regret"),
    "frozen-lake": NamedWorld(frozen_lake, "Gymnasium's FrozenLake: cross the ice without falling into a hole"),
    "taxi": NamedWorld(taxi, "Gymnasium's Taxi: fetch a passenger and drop them off"),
    "cliff-walking": NamedWorld(cliff_walking, "Gymnasium's CliffWalking: walk along a cliff to the goal"),
}


def make_world(name: str, **options: Any) -> TabularWorld | WorldFamily | LayeredWorld | LayeredFamily:
    """Make a world by name; option values may be text, as a command line gives them."""
    if name not in WORLDS:
        raise unknown_name("world", name, WORLDS)
    world = WORLDS[name]
    known = world.options
    types = get_type_hints(world.make)
    arguments = {}
    for given, value in options.items():
        option = given.replace("-", "_")
        if option not in known:
            raise unknown_name(f"option of world {name}:", given, known)
        arguments[option] = _parse(option, value, types[option]) if isinstance(value, str) else value
    return world.make(**arguments)


def _parse(option: str, text: str, annotation: Any) -> Any:
    kinds = get_args(annotation) or (annotation,)
    if NoneType in kinds and text.lower() == "none":
        return None
    kind = next(kind for kind in kinds if kind is not NoneType)
    try:
        return _TRUTH[text.lower()] if kind is bool else kind(text)
    except (KeyError, ValueError):
        wanted = {bool: "true or false", int: "a whole number", float: "a number"}[kind]
        raise InvalidInput(f"option {option} must be {wanted}, got {text!r}") from None
