"""Small worlds on which exploration is usually tried: arms with given means, a chain, deep sea, random layers.

Each tests one thing. *Arms* have no states: only the gaps between means matter. In the *chain* a small reward is near
and the large one far away. In *deep sea* a single sequence of actions out of 2^n earns anything, so that trying actions
at random needs 2^n episodes. In *random layers* nothing is earned before the last layer, and there only the state
counts: whoever does not learn transitions learns nothing.

All rewards lie in [0, 1]. Worlds of operations research are in :mod:`discreet.worlds.operations_research`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from discreet.base.errors import InvalidInput
from discreet.base.shape import Shape
from discreet.base.streams import WORLD, generator
from discreet.base.types import Floats
from discreet.base.validation import check_array, check_count, check_not_negative
from discreet.worlds.family import WorldFamily, family_or_member
from discreet.worlds.rewards import Bernoulli, Deterministic, OnTransition
from discreet.worlds.tabular import TabularWorld


def bernoulli_arms(means: str | Sequence[float] = "0.75,0.625,0.5,0.375,0.25") -> TabularWorld:
    """A bandit whose arms pay 1 with the given probabilities and 0 otherwise: one state, one step.

    The five arms of the default are those with which private bandits are usually compared, for example by Azize and
    Basu (2022).

    Args:
        means: The probability of each arm, as numbers or as text with commas.

    Examples:
        >>> import discreet
        >>> discreet.worlds.bernoulli_arms([0.3, 0.4, 0.55]).optimal_value
        0.55
    """
    table = numbers("means", means)
    return TabularWorld(
        f"arms-{table.size}", np.ones((1, 1, table.size, 1)), Bernoulli(table.reshape(1, 1, -1)), np.ones(1), 1
    )


def chain(states: int = 6, horizon: int = 20, slip: float = 0.2, small: float = 0.2) -> TabularWorld:
    """A chain: action 0 goes one state on, action 1 back to the first one; with probability ``slip`` the other happens.

    What really happened pays: going back earns ``small``, going on in the last state, where one stays, earns 1, and
    going on elsewhere earns nothing. Everybody starts in the first state. This is the problem of Dearden, Friedman and
    Russell (1998) and Strens (2000), there with five states and rewards of 2 and 10.

    Args:
        states: The length of the chain.
        horizon: Steps of an episode.
        slip: The probability of the other move.
        small: What going back earns.

    Examples:
        >>> import discreet
        >>> discreet.worlds.chain(states=3, horizon=5).shape.actions
        2
    """
    n = check_count("states", states, at_least=2)
    slip, small = check_chance("slip", slip), check_chance("small", small)
    transitions, values = np.zeros((1, n, 2, n)), np.zeros((1, n, 2, n))
    for s in range(n):
        onward = min(s + 1, n - 1)
        for action, going_on in ((0, 1.0 - slip), (1, slip)):
            transitions[0, s, action, onward] = going_on
            transitions[0, s, action, 0] = 1.0 - going_on
    values[..., 0] = small
    values[0, n - 1, :, n - 1] = 1.0
    return TabularWorld(f"chain-{n}", transitions, OnTransition(values), first_of(n), horizon)


def deep_sea(size: int = 6, mapping: int | None = None) -> TabularWorld:
    """Deep sea: a grid of ``size`` rows to dive through in ``size`` steps; only the bottom right corner pays, 1.

    Every step leads one row down, and one column to the right (action 1) or to the left (action 0), where there is a
    wall at the first column. One starts at the top left, so that only the policy that goes right ``size`` times earns
    anything; uniform play earns 2^-size. State ``row * size + column``; one more state follows the last row. Osband,
    Van Roy, Russo and Wen (2019), without their cost of moving right.

    With ``mapping``, a seed, a fair coin per state decides which of the two actions goes right there.

    Args:
        size: Rows, columns and steps.
        mapping: A seed for which action goes right where; action 1 everywhere without it.

    Examples:
        >>> import discreet
        >>> discreet.worlds.deep_sea(size=4).optimal_value
        1.0
    """
    n = check_count("size", size, at_least=2)
    end = n * n
    goes_right = np.ones(end, dtype=np.int64)
    if mapping is not None:
        seed = check_count("mapping", mapping, at_least=0)
        goes_right = generator(seed, 0, WORLD).integers(0, 2, size=end)
    transitions, means = np.zeros((1, end + 1, 2, end + 1)), np.zeros((1, end + 1, 2))
    transitions[0, end, :, end] = 1.0
    for s in range(end):
        row, column = divmod(s, n)
        right = int(goes_right[s])
        below = (row + 1) * n
        transitions[0, s, right, below + min(column + 1, n - 1) if row < n - 1 else end] = 1.0
        transitions[0, s, 1 - right, below + max(column - 1, 0) if row < n - 1 else end] = 1.0
    means[0, end - 1, goes_right[end - 1]] = 1.0
    return TabularWorld(f"deep-sea-{n}", transitions, Deterministic(means), first_of(end + 1), n)


def random_layers(
    width: int = 5, layers: int = 4, actions: int = 2, slip: float = 0.1, instance: int | None = None
) -> TabularWorld | WorldFamily[TabularWorld]:
    """One state, then ``layers`` layers of ``width`` states: actions decide where one goes, only the last layer pays.

    In every state each action has a state of the next layer of its own, drawn at random, and leads there except with
    probability ``slip``, when all states of that layer are equally likely. In the last layer every action pays 1 with
    the probability that belongs to the state, 0 otherwise; these probabilities are 0.1 to 0.9 in equal steps, shuffled.
    There are as many steps as layers, the first state's included.

    Args:
        width: States of a layer.
        layers: How many.
        actions: How many.
        slip: The probability that a move goes anywhere.
        instance: A seed for one world; without it every run draws another one.

    Examples:
        >>> import discreet
        >>> discreet.worlds.random_layers(width=3, layers=2, instance=1).horizon
        3
    """
    width, layers = check_count("width", width, at_least=2), check_count("layers", layers)
    actions, slip = check_count("actions", actions, at_least=2), check_chance("slip", slip)
    if actions > width:
        raise InvalidInput(f"actions must not outnumber the states of a layer, {width}, got {actions}")
    states, horizon = 1 + width * layers, layers + 1
    last = np.arange(states - width, states)

    def draw(seed: int) -> TabularWorld:
        rng = generator(seed, 0, WORLD)
        transitions, means = np.zeros((1, states, actions, states)), np.zeros((1, states, actions))
        for s in range(states - width):
            following = 1 + width * ((s + width - 1) // width) + np.arange(width)
            aims = rng.permutation(following)[:actions]
            transitions[0, s][:, following] = slip / width
            transitions[0, s, np.arange(actions), aims] += 1.0 - slip
        transitions[0, last, :, last] = 1.0
        means[0, last] = rng.permutation(np.linspace(0.1, 0.9, width))[:, None]
        return TabularWorld("random-layers", transitions, Bernoulli(means), first_of(states), horizon)

    shape = Shape(states, actions, horizon, homogeneous=True, start=0)
    return family_or_member(WorldFamily("random-layers", shape, draw), instance)


def first_of(states: int) -> Floats:
    """The start of everybody in state 0."""
    start = np.zeros(states)
    start[0] = 1.0
    return start


def check_chance(name: str, value: float) -> float:
    """A probability, 0 and 1 included."""
    chance = check_not_negative(name, value)
    if chance > 1:
        raise InvalidInput(f"{name} must lie between 0 and 1, got {chance:g}")
    return chance


def numbers(name: str, given: str | Sequence[float]) -> Floats:
    """A list of numbers, or text with commas between them as a command line gives it."""
    if not isinstance(given, str):
        table = check_array(name, given)
    else:
        try:
            table = np.array([float(part) for part in given.split(",")])
        except ValueError:
            raise InvalidInput(f"{name} must be numbers with commas between them, got {given!r}") from None
    if table.ndim != 1 or not table.size:
        raise InvalidInput(f"{name} must be a list of numbers, got shape {table.shape}")
    return table
