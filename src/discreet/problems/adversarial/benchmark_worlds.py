"""Layered worlds in which it matters where one goes, and arms whose best one changes.

The random worlds of :func:`discreet.problems.adversarial.world.layered` are close to contextual bandits: who plays the
cheapest action of every state and ignores transitions has about a twentieth of uniform play's regret. A learner that
shows its worth there has not shown that it learns transitions. In the worlds of ``kinds`` and in an unrolled RiverSwim
nothing else can be learned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from discreet.base.shape import layered_shape
from discreet.base.types import Floats
from discreet.base.validation import check_count, check_flag, check_open_unit
from discreet.problems.adversarial.layers import Layers
from discreet.problems.adversarial.world import FixedLosses, LayeredWorld, checked_table, layered, unroll
from discreet.worlds.catalogue import river_swim
from discreet.worlds.family import WorldFamily, family_or_member

_KIND = 4  # states of each kind in a layer
_LAYERS = Layers((1, 2 * _KIND, 2 * _KIND, 2 * _KIND, 1), actions=3)
_BEST, _OTHER = 0.7, 0.4  # the chance of a good state by the best action of a kind, and by any other


@dataclass(frozen=True, eq=False)
class ChangesOnce:
    """One table for the first ``after`` of all episodes, another one from then on."""

    first: Floats
    second: Floats
    after: float = 0.25
    name: ClassVar[str] = "changes once"

    def tables(self, layers: Layers, episodes: int) -> Floats:
        """The first table up to episode floor(after * episodes), then the second."""
        both = np.stack([checked_table(layers, self.first), checked_table(layers, self.second)])
        changed = np.arange(episodes) >= int(check_open_unit("after", self.after) * episodes)
        return both[changed.astype(np.int64)]


def kinds(wide: bool = False, instance: int | None = None) -> LayeredWorld | WorldFamily[LayeredWorld]:
    """Good and bad states, 1,8,8,8,1 with three actions: what is lost depends on where one is, not on what one does.

    ``wide``: an action leads to all states of a kind, not to one of each. See :func:`kinds_world`.

    Args:
        wide: See above.
        instance: A seed for one world; without it every run draws another one.

    Examples:
        >>> import discreet
        >>> discreet.worlds.kinds(instance=1).layers.actions
        3
    """
    check_flag("wide", wide)
    name = "kinds-wide" if wide else "kinds-narrow"
    shape = layered_shape(_LAYERS.sizes, _LAYERS.actions)
    return family_or_member(WorldFamily(name, shape, lambda seed: kinds_world(seed, wide)), instance)


def kinds_world(seed: int, wide: bool) -> LayeredWorld:
    """The narrow or the wide world of a seed: they differ in nothing but how many states a transition may lead to.

    The paper's regret bound holds C_M = sum_h sqrt(sum_{x,a in h} (sum_x' sqrt(P (1 - P)))^2), the effective support of
    the transitions. To see it one must change C_M and leave the problem alone, which spreading a row of its own accord
    does not: it also averages what comes after.

    Here every inner layer has states of two kinds: good ones cost nothing, bad ones cost one whatever is done there.
    The chance that an action leads to a good state depends on the kind and the action only, so kinds are all that a
    policy needs to look at. A narrow world sends the good mass of each pair to one good state and the bad mass to one
    bad state, drawn pair by pair; a wide world sends it evenly to all states of the kind. Sizes, the optimal value and
    the value of every policy that looks at kinds are the same in both.
    """
    rng, actions = np.random.default_rng(seed), _LAYERS.actions
    rows, tables = [], []
    for h, size in enumerate(_LAYERS.sizes[:-1]):
        bad = np.arange(size) // _KIND  # the single first state counts as good
        tables.append(np.repeat(bad[:, None], actions, axis=1).astype(float))
        chance = np.full((2, actions), _OTHER)
        chance[np.arange(2), rng.integers(actions, size=2)] = _BEST
        mass = np.stack([chance, 1 - chance], axis=-1)[bad]
        one = np.eye(_KIND)[rng.integers(_KIND, size=mass.shape)]
        within = np.full(one.shape, 1 / _KIND) if wide else one
        last = h == _LAYERS.horizon - 1
        rows.append(np.ones(size * actions) if last else (mass[..., None] * within).ravel())
    name = "wide" if wide else "narrow"
    return LayeredWorld(name, _LAYERS, np.concatenate(rows), FixedLosses(np.concatenate(tables)))


def river_layers(states: int = 6, horizon: int = 12) -> LayeredWorld:
    """RiverSwim with a layer for every step, losses 1 - reward: swim up against the current, or lose all the way.

    Args:
        states: The length of the river.
        horizon: Steps of an episode.

    Examples:
        >>> import discreet
        >>> discreet.worlds.river_layers(states=3, horizon=4).layers.horizon
        4
    """
    return unroll(river_swim(states, horizon))


def long_layers(
    layers: int = 20, width: int = 3, actions: int = 3, adversary: str = "switching", instance: int | None = None
) -> LayeredWorld | WorldFamily[LayeredWorld]:
    """Random worlds with many steps: ``layers`` of them, of ``width`` states each but for the first and the last.

    Args:
        layers: How many.
        width: States of a layer.
        actions: How many.
        adversary: Who chooses the losses.
        instance: A seed for one world; without it every run draws another one.

    Examples:
        >>> import discreet
        >>> discreet.worlds.long_layers(layers=5, instance=1).layers.actions
        3
    """
    inner = check_count("layers", layers, at_least=2) - 1
    return layered((1, *[check_count("width", width)] * inner, 1), actions, adversary, instance)


def wide_layers(
    width: int = 8, actions: int = 5, adversary: str = "switching", instance: int | None = None
) -> LayeredWorld | WorldFamily[LayeredWorld]:
    """Random worlds with many states and actions: layers 1,8,8,8,1 with five actions.

    Args:
        width: States of a layer.
        actions: How many.
        adversary: Who chooses the losses.
        instance: A seed for one world; without it every run draws another one.

    Examples:
        >>> import discreet
        >>> discreet.worlds.wide_layers(width=4, instance=1).layers.horizon
        4
    """
    return layered((1, *[check_count("width", width)] * 3, 1), actions, adversary, instance)


def changing_arms(arms: int = 3, gap: float = 0.5, after: float = 0.25) -> LayeredWorld:
    """One step: arm 0 costs nothing, the others ``gap``; ``after`` a share of the episodes arm 1 takes its place.

    Args:
        arms: How many.
        gap: What the other arms cost.
        after: The share of the episodes after which the best arm changes.

    Examples:
        >>> import discreet
        >>> discreet.worlds.changing_arms(arms=4).layers.actions
        4
    """
    count, gap = check_count("arms", arms, at_least=2), check_open_unit("gap", gap)
    check_open_unit("after", after)
    first, second = np.full((2, 1, count), gap)
    first[0, 0] = second[0, 1] = 0.0
    return LayeredWorld("changing-arms", Layers((1, 1), count), np.ones(count), ChangesOnce(first, second, after))
