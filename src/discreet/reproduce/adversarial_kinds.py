"""Pairs of layered worlds that differ in nothing but how many states a transition may lead to.

The paper's regret bound holds C_M = sum_h sqrt(sum_{x,a in h} (sum_x' sqrt(P (1 - P)))^2), the effective support of the
transitions. To see it one must change C_M and leave the problem alone, which spreading a row of its own accord does
not: it also averages what comes after.

Here every inner layer has states of two kinds, good and bad. The losses and the chance that an action leads to a good
state depend on the kind and the action only, so kinds are all that a policy needs to look at. A narrow world sends the
good mass of each pair to one good state and the bad mass to one bad state, drawn pair by pair; a wide world sends it
evenly to all states of the kind. Sizes, the optimal value and the value of every policy that looks at kinds are the
same in both.
"""

from __future__ import annotations

import numpy as np

from discreet.adversarial.layers import Layers
from discreet.adversarial.world import FixedLosses, LayeredWorld

_KIND = 4  # states of each kind in a layer
_LAYERS = Layers((1, 2 * _KIND, 2 * _KIND, 2 * _KIND, 1), actions=3)
_BEST, _OTHER = 0.7, 0.4  # the chance of a good state by the best action of a kind, and by any other


def kinds_world(seed: int, wide: bool) -> LayeredWorld:
    """The narrow or the wide world of a seed: good states cost nothing, bad ones cost one whatever is done there."""
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
