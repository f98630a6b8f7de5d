"""Reward laws: how a reward is drawn from a step, a state, an action and the state that follows.

A law is a NamedTuple of arrays. ``draw_reward`` is compiled once per law and chosen by the law's class, so a new law is
a NamedTuple, a kernel registered with ``@draw_reward.implement(...)`` and two plain functions: ``mean``, from which
exact values come, and ``value_range``, the smallest and the largest reward that can occur, which a world compares with
the range it declares. G is 1 for laws that do not depend on the step and the horizon otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from discreet.base.compiled import dispatch
from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.streams import Stream, categorical, uniform
from discreet.base.types import Floats
from discreet.base.validation import check_array


class Deterministic(NamedTuple):
    """The reward is ``means[g, s, a]``, always."""

    means: Floats


class Bernoulli(NamedTuple):
    """The reward is 1 with probability ``means[g, s, a]`` and 0 otherwise."""

    means: Floats


class OnTransition(NamedTuple):
    """The reward is ``values[g, s, a, t]``, where t is the state that follows."""

    values: Floats


class Finite(NamedTuple):
    """The reward is ``values[i]`` with ``cumulative[g, s, a, i]`` the probability of an index of at most i."""

    values: Floats
    cumulative: Floats


class FiniteOnTransition(NamedTuple):
    """As ``Finite``, given the state t that follows: ``cumulative[g, s, a, t, i]``."""

    values: Floats
    cumulative: Floats


RewardLaw: TypeAlias = Deterministic | Bernoulli | OnTransition | Finite | FiniteOnTransition


@dispatch
def draw_reward(law: RewardLaw, g: int, s: int, a: int, t: int, stream: Stream) -> float:
    """Draw the reward of action ``a`` in state ``s`` of group ``g`` when state ``t`` followed."""
    raise NotImplementedError


@draw_reward.implement(Deterministic)
def _draw_deterministic(law: Deterministic, g: int, s: int, a: int, _t: int, _stream: Stream) -> float:
    return law.means[g, s, a]  # type: ignore[no-any-return]


@draw_reward.implement(Bernoulli)
def _draw_bernoulli(law: Bernoulli, g: int, s: int, a: int, _t: int, stream: Stream) -> float:
    return 1.0 if uniform(stream) < law.means[g, s, a] else 0.0


@draw_reward.implement(OnTransition)
def _draw_on_transition(law: OnTransition, g: int, s: int, a: int, t: int, _stream: Stream) -> float:
    return law.values[g, s, a, t]  # type: ignore[no-any-return]


@draw_reward.implement(Finite)
def _draw_finite(law: Finite, g: int, s: int, a: int, _t: int, stream: Stream) -> float:
    return law.values[categorical(law.cumulative[g, s, a], stream)]  # type: ignore[no-any-return]


@draw_reward.implement(FiniteOnTransition)
def _draw_finite_on_transition(law: FiniteOnTransition, g: int, s: int, a: int, t: int, stream: Stream) -> float:
    return law.values[categorical(law.cumulative[g, s, a, t], stream)]  # type: ignore[no-any-return]


@singledispatch
def mean(law: Any, transitions: Floats) -> Floats:
    """The expected reward of every group, state and action: (G, S, A)."""
    raise Unsupported(f"{type(law).__name__} is not a reward law: use one of those in discreet.worlds.rewards")


@mean.register(Deterministic)
@mean.register(Bernoulli)
def _(law: Deterministic | Bernoulli, transitions: Floats) -> Floats:
    return law.means


@mean.register(OnTransition)
def _(law: OnTransition, transitions: Floats) -> Floats:
    return np.asarray(np.einsum("gsat,gsat->gsa", transitions, law.values))


@mean.register(Finite)
def _(law: Finite, transitions: Floats) -> Floats:
    return np.asarray(_probabilities(law) @ law.values)


@mean.register(FiniteOnTransition)
def _(law: FiniteOnTransition, transitions: Floats) -> Floats:
    return np.asarray(np.einsum("gsat,gsat->gsa", transitions, _probabilities(law) @ law.values))


@singledispatch
def value_range(law: Any, transitions: Floats) -> tuple[float, float]:
    """The smallest and the largest reward that have a positive probability somewhere."""
    raise Unsupported(f"{type(law).__name__} is not a reward law: use one of those in discreet.worlds.rewards")


@value_range.register(Deterministic)
def _(law: Deterministic, transitions: Floats) -> tuple[float, float]:
    return float(law.means.min()), float(law.means.max())


@value_range.register(Bernoulli)
def _(law: Bernoulli, transitions: Floats) -> tuple[float, float]:
    return float((law.means >= 1).all()), float((law.means > 0).any())


@value_range.register(OnTransition)
def _(law: OnTransition, transitions: Floats) -> tuple[float, float]:
    possible = law.values[transitions > 0]
    return float(possible.min()), float(possible.max())


@value_range.register(Finite)
def _(law: Finite, transitions: Floats) -> tuple[float, float]:
    possible = law.values[(_probabilities(law) > 0).any(axis=(0, 1, 2))]
    return float(possible.min()), float(possible.max())


@value_range.register(FiniteOnTransition)
def _(law: FiniteOnTransition, transitions: Floats) -> tuple[float, float]:
    possible = law.values[(_probabilities(law)[transitions > 0] > 0).any(axis=0)]
    return float(possible.min()), float(possible.max())


def checked(law: RewardLaw, groups: int, states: int, actions: int) -> RewardLaw:
    """The law as float64 arrays of the world's shape, or an error that says what is wrong with it."""
    cells = (groups, states, actions)
    match law:
        case Deterministic(means):
            return Deterministic(_own("reward means", means, cells))
        case Bernoulli(means):
            table = _own("reward means", means, cells)
            if table.min() < 0 or table.max() > 1:
                raise InvalidInput(
                    f"Bernoulli reward means must lie in [0, 1], got {table.min():g} to {table.max():g}; "
                    "rescale them or use deterministic rewards"
                )
            return Bernoulli(table)
        case OnTransition(values):
            return OnTransition(_own("rewards on transitions", values, (*cells, states)))
        case Finite(values, cumulative):
            return Finite(*_finite(values, cumulative, cells))
        case FiniteOnTransition(values, cumulative):
            return FiniteOnTransition(*_finite(values, cumulative, (*cells, states)))
        case _:
            own: RewardLaw = checked_elsewhere(law, cells)
            return own


@singledispatch
def checked_elsewhere(law: Any, cells: tuple[int, int, int]) -> Any:
    """``checked`` for laws that live in files of their own: they register themselves."""
    raise Unsupported(f"{type(law).__name__} is not a reward law: use one of those in discreet.worlds.rewards")


def check_declared(law: RewardLaw, transitions: Floats, declared: tuple[float, float]) -> None:
    """Refuse a law that can leave the declared range."""
    low, high = value_range(law, transitions)
    if low < declared[0] or high > declared[1]:
        raise InvalidInput(
            f"rewards take values from {low:g} to {high:g}, outside the declared range {declared}; "
            "declare a range that holds every reward"
        )


def regroup(law: RewardLaw, change: Callable[[Floats], Floats]) -> RewardLaw:
    """The law with ``change`` applied to every table that has a group axis (those with more than one axis)."""
    return type(law)(*(change(table) if table.ndim > 1 else table for table in law))


def cumulative(probabilities: Floats) -> Floats:
    """Cumulative sums over the last axis, from which ``discreet.base.streams.categorical`` draws."""
    return _closed(np.cumsum(probabilities, axis=-1))


def _closed(sums: Floats) -> Floats:
    # A total that rounding left below one would give the remainder to the last entry, which may be impossible: let
    # the sums reach one where they stop growing.
    return np.where(sums >= sums[..., -1:], 1.0, sums)


def _finite(values: Floats, cumulative: Floats, cells: tuple[int, ...]) -> tuple[Floats, Floats]:
    points = _own("reward values", values, None)
    if points.ndim != 1 or points.size == 0:
        raise InvalidInput(f"reward values must be a non-empty list, got shape {points.shape}")
    table = _own("cumulative reward probabilities", cumulative, (*cells, points.size))
    if np.diff(table, axis=-1, prepend=0.0).min() < 0 or np.abs(table[..., -1] - 1).max() > 1e-8:
        raise InvalidInput("cumulative reward probabilities must not decrease along the last axis and must end at 1")
    return points, _closed(table)


def _probabilities(law: Finite | FiniteOnTransition) -> Floats:
    return np.diff(law.cumulative, axis=-1, prepend=0.0)


def _own(name: str, value: Floats, shape: tuple[int, ...] | None) -> Floats:
    return np.array(check_array(name, value, shape), order="C")
