"""The worlds that have a name on the command line."""

from __future__ import annotations

from typing import Any

from discreet.base.registry import Named, Registry

WORLDS = Registry(
    "world",
    {
        "river-swim": Named(
            "discreet.worlds.catalogue:river_swim",
            "a chain to swim up against the current, with a small reward at the near end",
        ),
        "random-mdp": Named(
            "discreet.worlds.catalogue:random_mdp",
            "sparse random transitions and 0/1 rewards, a fresh instance per run",
        ),
        "bandit": Named("discreet.worlds.catalogue:bandit", "one state, one step, many arms, a fresh instance per run"),
        "bernoulli-arms": Named("discreet.worlds.classics:bernoulli_arms", "a bandit with the means that you give"),
        "chain": Named(
            "discreet.worlds.classics:chain", "a small reward for going back to the start, a large one at the far end"
        ),
        "deep-sea": Named(
            "discreet.worlds.classics:deep_sea", "a grid to dive through: one sequence of actions earns anything"
        ),
        "random-layers": Named(
            "discreet.worlds.classics:random_layers",
            "actions decide where one goes, only the last layer pays, a fresh instance per run",
        ),
        "forest": Named(
            "discreet.worlds.operations_research:forest", "let a forest grow old, or cut it before it burns"
        ),
        "machine-repair": Named(
            "discreet.worlds.operations_research:machine_repair",
            "run a machine that wears out, or lose a step to repair it",
        ),
        "admission": Named(
            "discreet.worlds.operations_research:admission",
            "let customers into a queue, or send them away while it is long",
        ),
        "inventory": Named("discreet.worlds.operations_research:inventory", "order stock before the demand is known"),
        "layered": Named(
            "discreet.problems.adversarial.world:layered",
            "random layers with losses that an adversary fixed beforehand, fresh per run",
        ),
        "kinds": Named(
            "discreet.problems.adversarial.benchmark_worlds:kinds",
            "layers of good and bad states: losses depend on where one is, so only transitions can be learned",
        ),
        "river-layers": Named(
            "discreet.problems.adversarial.benchmark_worlds:river_layers", "RiverSwim with a layer per step, for losses"
        ),
        "long-layers": Named(
            "discreet.problems.adversarial.benchmark_worlds:long_layers",
            "twenty random layers of three states, fresh per run",
        ),
        "wide-layers": Named(
            "discreet.problems.adversarial.benchmark_worlds:wide_layers",
            "random layers 1,8,8,8,1 with five actions, fresh per run",
        ),
        "changing-arms": Named(
            "discreet.problems.adversarial.benchmark_worlds:changing_arms",
            "one step, three arms; after a quarter of the episodes another arm is the best",
        ),
        "linear-benchmark": Named(
            "discreet.problems.linear.world:linear_benchmark",
            "linear in ten features, for offline learners, fresh per run",
        ),
        "hard-central": Named(
            "discreet.problems.heavy_tails.world:hard_central",
            "bandits that pay rarely and much: where joint privacy must cost regret",
        ),
        "hard-tree": Named(
            "discreet.problems.heavy_tails.world:hard_tree",
            "a tree with one good leaf that pays rarely and much, for the local model",
        ),
        "hard-local": Named(
            "discreet.worlds.catalogue:hard_local",
            "a tree with one slightly better leaf: where local privacy must cost regret",
        ),
        "frozen-lake": Named(
            "discreet.worlds.imported:frozen_lake",
            "Gymnasium's FrozenLake: cross the ice without falling into a hole",
        ),
        "taxi": Named("discreet.worlds.imported:taxi", "Gymnasium's Taxi: fetch a passenger and drop them off"),
        "cliff-walking": Named(
            "discreet.worlds.imported:cliff_walking", "Gymnasium's CliffWalking: walk along a cliff to the goal"
        ),
    },
)

register = WORLDS.register


def make_world(name: str, /, **options: Any) -> Any:
    """Make a world by name; option values may be text, as a command line gives them.

    Args:
        name: A name from ``discreet worlds``.
        options: Its options.

    Examples:
        >>> import discreet
        >>> discreet.worlds.make_world("river-swim", states="4").shape.states
        4
    """
    return WORLDS.create(name, **options)
