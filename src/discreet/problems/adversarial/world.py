"""Layered worlds with adversarial losses: users walk from layer to layer, an adversary prices every pair.

The transitions are one fixed law, flat over (x, a, x') as in :mod:`discreet.problems.adversarial.layers`; the losses
change from episode to episode as an oblivious adversary decided beforehand. Regret compares with the best fixed policy
in hindsight,

    R_k = sum_{i<=k} <q(pi_i), l_i>  -  min_pi <q(pi), l_1 + ... + l_k>,

and both terms are computed exactly: occupancies by a forward pass, the minimum by backward induction.

An adversary gives each pair (x, a) a loss in [0, 1]. ``tables(layers, episodes)`` returns the tables of all episodes,
(episodes, states, actions); episode k of a shorter run is not episode k of a longer one where an adversary paces itself
by the number of episodes.

``unroll`` turns any tabular world into layers, one per step, with losses 1 - reward.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from discreet.base.compiled import kernel
from discreet.base.errors import InvalidInput, check_name
from discreet.base.notebook import facts_html, one_line
from discreet.base.policies import AnyPolicy, Mixture, Policy
from discreet.base.shape import LayeredShape, layered_shape
from discreet.base.streams import WORLD, Stream, categorical, generator, uniform
from discreet.base.types import ArrayLike, Floats, Integers
from discreet.base.validation import check_array, check_count, check_positive
from discreet.problems.adversarial.layers import LayerArrays, Layers, occupancy, pair_occupancy
from discreet.worlds.family import WorldFamily, family_or_member, shape_facts
from discreet.worlds.tabular import TabularWorld

# How random layered worlds are drawn: every row mixes an even law with a sparse one.
_EVEN = 0.15
_CONCENTRATION = 0.3


class EffectiveSupport(NamedTuple):
    """How hard the transitions are to learn: one number per pair, and the paper's C_M of the whole world."""

    pairs: Floats  # (states, actions)
    total: float


@dataclass(frozen=True, eq=False)
class LayeredWorld:
    """Layers, their transitions (flat, rows sum to one) and the adversary who chooses the losses.

    Args:
        name: What results call it.
        layers: Sizes of the layers and the number of actions.
        transitions: Flat over (x, a, x'); rows sum to one.
        adversary: Who chooses the losses.

    Examples:
        >>> import discreet
        >>> type(discreet.worlds.layered("1,3,1", actions=2, instance=1)).__name__
        'LayeredWorld'
    """

    name: str
    layers: Layers
    transitions: Floats
    adversary: Adversary
    people: ClassVar[str] = "discreet.problems.adversarial.simulator:layered_people"  # who acts here, for simulations

    def __post_init__(self) -> None:
        flat = np.array(check_array("transitions", self.transitions, (self.layers.triples,)))
        sums = np.add.reduceat(flat, self.layers.arrays.offset[:-1])
        if flat.min() < 0 or np.abs(sums - 1).max() > 1e-8:
            x, a = divmod(int(np.abs(sums - 1).argmax()), self.layers.actions)
            raise InvalidInput(
                f"transitions must not be negative and must sum to one in every row; the row of state {x}, action {a} "
                f"sums to {sums[x * self.layers.actions + a]:.6g}"
            )
        flat /= np.repeat(sums, np.diff(self.layers.arrays.offset))
        flat.flags.writeable = False
        object.__setattr__(self, "transitions", flat)

    def __repr__(self) -> str:
        return one_line("LayeredWorld", self.name, self.shape.words())

    def _repr_html_(self) -> str:
        return facts_html(f"Layered world {self.name}", shape_facts(self.shape))

    @cached_property
    def shape(self) -> LayeredShape:
        """What is public: the sizes of the layers and the number of actions."""
        return layered_shape(self.layers.sizes, self.layers.actions)

    def losses(self, episodes: int) -> Floats:
        """The adversary's tables, (episodes, states, actions)."""
        return self.adversary.tables(self.layers, check_count("episodes", episodes))

    def effective_support(self) -> EffectiveSupport:
        """C(x, a) = (sum_x' sqrt(P (1 - P)))^2 and C_M = sum over layers of sqrt(sum of C(x, a) in the layer)."""
        P = self.transitions
        spread = np.add.reduceat(np.sqrt(P * (1 - P)), self.layers.arrays.offset[:-1]) ** 2
        pairs = spread.reshape(self.layers.states, self.layers.actions)
        first = self.layers.arrays.first
        total = sum(math.sqrt(pairs[first[h] : first[h + 1]].sum()) for h in range(self.layers.horizon))
        return EffectiveSupport(pairs, total)

    def occupancy(self, policy: AnyPolicy) -> Floats:
        """How often each pair is visited under a policy, (states, actions): a mixture's is the mean of its parts'."""
        if isinstance(policy, Mixture):
            parts = (w * self.occupancy(part) for part, w in zip(policy.components, policy.weights, strict=True))
            return np.asarray(sum(parts))
        table = self.action_probabilities(policy)
        return pair_occupancy(self.layers, occupancy(self.layers, np.array(self.transitions), table))

    def action_probabilities(self, policy: AnyPolicy) -> Floats:
        """A policy over (step, state in its layer) as a table (states, actions) over all states."""
        if isinstance(policy, Mixture):
            raise InvalidInput("a mixture draws one component per episode: take its components one by one")
        stochastic = policy.stochastic(self.layers.actions) if isinstance(policy, Policy) else policy
        shape = self.shape
        if stochastic.probabilities.shape != (shape.horizon, shape.states, shape.actions):
            raise InvalidInput(
                f"the policy has shape {stochastic.probabilities.shape}, world {self.name} needs "
                f"{(shape.horizon, shape.states, shape.actions)}: steps, states of the largest layer, actions"
            )
        return stochastic.probabilities[shape.pair_mask].reshape(self.layers.states, self.layers.actions)

    def best_fixed(self, total_losses: Floats) -> tuple[float, Policy]:
        """The smallest total loss of any fixed policy under summed tables, and a policy that attains it."""
        shape, first = self.shape, self.layers.arrays.first
        actions = np.zeros((shape.horizon, shape.states), np.int64)
        value = np.zeros(1)
        for h, rows in reversed(list(enumerate(self.layers.split(np.array(self.transitions))))):
            cost = total_losses[first[h] : first[h + 1]] + rows @ value
            actions[h, : shape.sizes[h]] = cost.argmin(axis=1)
            value = cost.min(axis=1)
        return float(value[0]), Policy(actions)

    def with_time(self, homogeneous: bool) -> LayeredWorld:
        """Layers are steps, so there is nothing to choose."""
        _refuse_pooling(homogeneous)
        return self


def _draw(layers: Layers, adversary: str, seed: int) -> LayeredWorld:
    """The world of a seed: rows 0.15 even + 0.85 Dirichlet(0.3), loss tables uniform."""
    rng = generator(seed, 0, WORLD)
    rows = []
    for h in range(layers.horizon):
        size, following = layers.sizes[h], layers.sizes[h + 1]
        sparse = rng.dirichlet(np.full(following, _CONCENTRATION), size=(size, layers.actions))
        rows.append((_EVEN / following + (1 - _EVEN) * sparse).ravel())
    return LayeredWorld("layered", layers, np.concatenate(rows), draw_adversary(adversary, layers, rng, seed))


def layered(
    layers: str | Sequence[int] = "1,4,4,4,1",
    actions: int = 3,
    adversary: str = "switching",
    instance: int | None = None,
) -> LayeredWorld | WorldFamily[LayeredWorld]:
    """Random layered worlds: ``layers`` lists their sizes, ``adversary`` is fixed, switching, drifting or random.

    Args:
        layers: Sizes of the layers, as numbers or as text with commas.
        actions: How many.
        adversary: Who chooses the losses.
        instance: A seed for one world; without it every run draws another one.

    Examples:
        >>> import discreet
        >>> discreet.worlds.layered("1,3,1", actions=2, instance=1).layers.horizon
        2
    """
    check_name("adversary", adversary, ADVERSARIES)
    drawn = Layers(_sizes(layers), actions)
    family = WorldFamily("layered", layered_shape(drawn.sizes, actions), lambda seed: _draw(drawn, adversary, seed))
    return family_or_member(family, instance)


def unroll(world: TabularWorld, adversary: Adversary | None = None) -> LayeredWorld:
    """Any tabular world as layers, one per step; without an adversary the losses are 1 - mean reward, scaled to [0, 1].

    A start that is not certain becomes a first layer of its own, whose actions do nothing and cost nothing.

    Args:
        world: With tables.
        adversary: Who chooses the losses.

    Examples:
        >>> import discreet
        >>> discreet.worlds.unroll(discreet.worlds.river_swim(states=3, horizon=4)).layers.horizon
        4
    """
    S, A, H = world.shape.states, world.shape.actions, world.horizon
    P, r = (np.broadcast_to(table, (H, *table.shape[1:])) for table in (world.transitions, world.means))
    low, high = world.reward_range
    tables = [(high - r[h]) / (high - low) for h in range(H)]
    certain = world.shape.start
    if certain is None:
        sizes: tuple[int, ...] = (1, *[S] * H, 1)
        rows = [np.tile(world.start, A), *(P[h].ravel() for h in range(H - 1)), np.ones(S * A)]
        tables = [np.zeros((1, A)), *tables]
    else:
        sizes = (1, *[S] * (H - 1), 1)
        inner = [P[h].ravel() for h in range(1, H - 1)]
        rows = [np.ones(A)] if H == 1 else [P[0, certain].ravel(), *inner, np.ones(S * A)]
        tables = [tables[0][[certain]], *tables[1:]]
    losses = np.clip(np.concatenate(tables), 0.0, 1.0)
    chosen = FixedLosses(losses) if adversary is None else adversary
    return LayeredWorld(f"{world.name}-unrolled", Layers(sizes, A), np.concatenate(rows), chosen)


def with_adversary(world: LayeredWorld, adversary: Adversary) -> LayeredWorld:
    """The same transitions under another adversary.

    Args:
        world: With layers.
        adversary: Who chooses the losses.

    Examples:
        >>> import discreet
        >>> world = discreet.worlds.river_layers(states=3, horizon=4)
        >>> discreet.worlds.with_adversary(world, world.adversary).layers == world.layers
        True
    """
    return replace(world, adversary=adversary)


@kernel
def play(
    layers: LayerArrays,
    transitions: Floats,
    cumulative_policy: Floats,
    losses: Floats,
    stream: Stream,
    states: Integers,
    actions: Integers,
    rewards: Floats,
) -> None:
    """One episode per table of ``losses`` (n, states, actions); states count inside their layer, reward = 1 - loss."""
    A, first, offset = layers.actions, layers.first, layers.offset
    H = first.shape[0] - 2
    for i in range(losses.shape[0]):
        x = 0
        for h in range(H):
            a = categorical(cumulative_policy[x], stream)
            states[i, h], actions[i, h], rewards[i, h] = x - first[h], a, 1.0 - losses[i, x, a]
            at, width = offset[x * A + a], first[h + 2] - first[h + 1]
            u = uniform(stream)
            j = 0
            while j < width - 1 and u >= transitions[at + j]:
                u -= transitions[at + j]
                j += 1
            x = first[h + 1] + j


def _sizes(layers: str | Sequence[int]) -> tuple[int, ...]:
    """The sizes of layers, also from text as a command line gives them."""
    if isinstance(layers, Sequence) and not isinstance(layers, str):
        return tuple(layers)
    if not isinstance(layers, str):
        raise InvalidInput(f"layers must be a list of whole numbers, got a {type(layers).__name__}")
    try:
        return tuple(int(part) for part in layers.split(","))
    except ValueError:
        raise InvalidInput(
            f"layers must be whole numbers with commas, such as 1,4,4,4,1, got {layers[:60]!r}"
        ) from None


def _refuse_pooling(homogeneous: bool) -> None:
    if homogeneous:
        raise InvalidInput("a layered world cannot be declared homogeneous: its layers are its steps")


class Adversary(Protocol):
    """Who chooses the losses, obliviously: every episode's table is fixed before the first user acts."""

    @property
    def name(self) -> str:
        """The name by which ``layered`` knows it."""

    def tables(self, layers: Layers, episodes: int) -> Floats:
        """The loss tables of all episodes, fixed beforehand."""


@dataclass(frozen=True, eq=False)
class FixedLosses:
    """The same table in every episode."""

    table: Floats
    name: ClassVar[str] = "fixed"

    def tables(self, layers: Layers, episodes: int) -> Floats:
        """The one table, as a view: nothing is copied."""
        return np.broadcast_to(checked_table(layers, self.table), (episodes, layers.states, layers.actions))


@dataclass(frozen=True, eq=False)
class Switching:
    """Two tables in turn; the first change comes after a quarter of the episodes (``pieces`` = 4)."""

    first: Floats
    second: Floats
    pieces: int = 4
    name: ClassVar[str] = "switching"

    def tables(self, layers: Layers, episodes: int) -> Floats:
        """The first table in odd pieces, the second in even ones."""
        pieces = check_count("pieces", self.pieces)
        turn = (np.arange(episodes) * pieces // episodes) % 2
        both = np.stack([checked_table(layers, self.first), checked_table(layers, self.second)])
        return both[turn]


@dataclass(frozen=True, eq=False)
class Drifting:
    """A mean per pair and a slow wave around it: mean / 2 + (1 + sin(2 pi (periods k / K + phase))) / 4.

    The means make policies differ in the long run, and a broken number of periods leaves the wave's own trace.
    """

    means: Floats
    phases: Floats
    periods: float = 3.3
    name: ClassVar[str] = "drifting"

    def tables(self, layers: Layers, episodes: int) -> Floats:
        """Means and waves, over as many periods as there are whatever the number of episodes."""
        means = checked_table(layers, self.means)
        phases = check_array("phases", self.phases, (layers.states, layers.actions))
        turns = check_positive("periods", self.periods) * np.arange(episodes)[:, None, None] / episodes + phases
        return np.asarray(0.5 * means + 0.25 * (1.0 + np.sin(2 * math.pi * turns)))


@dataclass(frozen=True, eq=False)
class RandomLosses:
    """Every entry of every table is 0 or 1, drawn from its mean before play."""

    means: Floats
    seed: int = 0
    name: ClassVar[str] = "random"

    def tables(self, layers: Layers, episodes: int) -> Floats:
        """Bits drawn from the adversary's own seed."""
        means = checked_table(layers, self.means)
        draws = generator(self.seed, 1, WORLD).random((episodes, *means.shape))
        return (draws < means).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Recorded:
    """Tables that are given, one per episode."""

    sequence: Floats
    name: ClassVar[str] = "recorded"

    def tables(self, layers: Layers, episodes: int) -> Floats:
        """The first ``episodes`` of them; refused if there are fewer."""
        sequence = np.asarray(self.sequence, np.float64)
        if len(sequence) < episodes:
            raise InvalidInput(f"the recorded losses last {len(sequence)} episodes, {episodes} were asked for")
        return np.stack([checked_table(layers, table) for table in sequence[:episodes]])


ADVERSARIES: dict[str, Callable[[Floats, Floats, int], Adversary]] = {
    "fixed": lambda b, c, seed: FixedLosses(b),
    "switching": lambda b, c, seed: Switching(b, c),
    "drifting": lambda b, c, seed: Drifting(b, c),
    "random": lambda b, c, seed: RandomLosses(b, seed),
}


def draw_adversary(name: str, layers: Layers, rng: np.random.Generator, seed: int) -> Adversary:
    """An adversary of that name whose tables are uniform on [0, 1]."""
    check_name("adversary", name, ADVERSARIES)
    first, second = rng.random((2, layers.states, layers.actions))
    return ADVERSARIES[name](first, second, seed)


def checked_table(layers: Layers, table: ArrayLike) -> Floats:
    """A loss table of a layered world: one number in [0, 1] for every pair."""
    losses = check_array("losses", table, (layers.states, layers.actions))
    if losses.size and not (losses.min() >= 0 and losses.max() <= 1):
        raise InvalidInput(f"losses must lie in [0, 1], got a range of {losses.min():g} to {losses.max():g}")
    return losses
