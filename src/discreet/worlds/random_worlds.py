"""Random worlds of a declared shape: what a rehearsal plays in where nobody says what the world may look like.

Three kinds, because a mechanism that suits one of them need not suit another:

* *mixing*: successors are spread over a few states (Dirichlet with parameter 0.3), mean rewards are uniform. Every
  policy sees most states.
* *sparse*: successors are nearly certain (Dirichlet with parameter 0.05); one pair in S pays well, the others little.
* *corridor*: states in a random order; in each of them one action leads on with probability 0.8, and the others lead
  back. The end pays 1 a step and the beginning a tenth. Only a plan over many steps finds the end.

A problem of one state has two kinds instead: arms with uniform means, and one good arm among equal ones. Laws differ
from step to step where the shape says that they may, except in corridors.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from discreet.base.errors import Unsupported
from discreet.base.shape import LayeredShape, Shape
from discreet.base.streams import WORLD, generator
from discreet.base.types import Floats
from discreet.worlds.family import WorldFamily
from discreet.worlds.rewards import Bernoulli, Finite
from discreet.worlds.tabular import TabularWorld

_Tables = tuple[Floats, Floats]  # transitions (G, S, A, S) and means in [0, 1] (G, S, A)
_AHEAD = 0.8


def worlds_of_shape(shape: Shape) -> tuple[WorldFamily[TabularWorld], ...]:
    """Families of random worlds that have exactly this shape."""
    if isinstance(shape, LayeredShape) or shape.moments is not None:
        raise Unsupported("random worlds are made for shapes with rewards in a range; give a world of your own instead")
    if shape.states == 1:
        kinds: dict[str, Callable[[Shape, np.random.Generator], _Tables]] = {"spread": _spread, "one-good": _one_good}
    else:
        kinds = {"mixing": _mixing, "sparse": _sparse, "corridor": _corridor}
    return tuple(_family(name, shape, tables) for name, tables in kinds.items())


def _family(
    name: str, shape: Shape, tables: Callable[[Shape, np.random.Generator], _Tables]
) -> WorldFamily[TabularWorld]:
    def draw(seed: int) -> TabularWorld:
        transitions, means = tables(shape, generator(seed, 0, WORLD))
        start = np.full(shape.states, 1.0 / shape.states)
        if shape.start is not None:
            start = np.asarray(np.arange(shape.states) == shape.start, np.float64)
        return TabularWorld(f"{name}-world", transitions, _law(shape, means), start, shape.horizon, shape.rewards)

    return WorldFamily(f"{name}-world", shape, draw)


def _law(shape: Shape, means: Floats) -> Bernoulli | Finite:
    """The lowest or the highest reward that the shape declares."""
    if shape.rewards == (0.0, 1.0):
        return Bernoulli(means)
    return Finite(np.array(shape.rewards), np.stack([1.0 - means, np.ones_like(means)], axis=-1))


def _rows(shape: Shape) -> tuple[int, int, int]:
    return shape.groups, shape.states, shape.actions


def _nowhere(shape: Shape) -> Floats:
    return np.ones((*_rows(shape), 1))


def _spread(shape: Shape, rng: np.random.Generator) -> _Tables:
    return _nowhere(shape), rng.random(_rows(shape))


def _one_good(shape: Shape, rng: np.random.Generator) -> _Tables:
    best = rng.integers(shape.actions, size=(shape.groups, 1, 1))
    return _nowhere(shape), np.where(np.arange(shape.actions) == best, 0.7, 0.5)


def _mixing(shape: Shape, rng: np.random.Generator) -> _Tables:
    return rng.dirichlet(np.full(shape.states, 0.3), size=_rows(shape)), rng.random(_rows(shape))


def _sparse(shape: Shape, rng: np.random.Generator) -> _Tables:
    pays = rng.random(_rows(shape)) < 1.0 / shape.states
    pays[np.arange(shape.groups), rng.integers(shape.states, size=shape.groups), 0] = True
    return rng.dirichlet(np.full(shape.states, 0.05), size=_rows(shape)), np.where(pays, 0.9, 0.1)


def _corridor(shape: Shape, rng: np.random.Generator) -> _Tables:
    states, actions = shape.states, shape.actions
    order = rng.permutation(states)
    if shape.start is not None:  # everybody starts where the corridor begins
        at = int(np.flatnonzero(order == shape.start)[0])
        order[[0, at]] = order[[at, 0]]
    length = min(states, max(2, shape.horizon // 2))
    right = rng.integers(actions, size=states)
    transitions, means = np.zeros((1, states, actions, states)), np.zeros((1, states, actions))
    for place, s in enumerate(order):
        behind, ahead = (
            (order[max(place - 1, 0)], order[min(place + 1, length - 1)]) if place < length else order[[0, 0]]
        )
        for a in range(actions):
            forwards = _AHEAD if a == right[s] else 1 - _AHEAD
            transitions[0, s, a, ahead] += forwards
            transitions[0, s, a, behind] += 1 - forwards
    means[0, order[length - 1]] = 1.0
    means[0, order[0]] = 0.1
    return np.repeat(transitions, shape.groups, axis=0), np.repeat(means, shape.groups, axis=0)
