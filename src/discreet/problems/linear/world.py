"""The linear benchmark of "Offline reinforcement learning with differential privacy", appendix G, and its features.

Two states, a hundred actions, H = 20 steps, d = 10. With bits(a) the eight binary digits of the action and
same = 1 if exactly one or none of "state is 0", "action is 0" fails to hold,

    phi(s, a) = (bits(a), same, 1 - same),     P_h(0 | s, a) = <phi, (0, .., 0, alpha_h1, alpha_h2)>,
    r_h(s, a) = <phi, theta_h>,  theta_h = (u/8, 0, u/8, 1/2 - u/2, u/8, 0, u/8, 0, u/2, 1/2 - u/2),

alpha and u uniform on [0, 1] at every step. The start is uniform, and data are collected with action 0 three times out
of five (``behaviour="mostly-first"``).

**Differences from the paper.** Its features have norms up to sqrt(7) where its theorems assume 1; here they are divided
by sqrt(7). The order of the binary digits is not stated there: the most significant comes first here.
"""

from __future__ import annotations

import numpy as np

from discreet.base.errors import check_name
from discreet.base.shape import Shape
from discreet.base.streams import WORLD, generator
from discreet.base.types import Floats
from discreet.base.validation import check_count
from discreet.worlds.family import WorldFamily, family_or_member
from discreet.worlds.rewards import Bernoulli, Deterministic
from discreet.worlds.tabular import TabularWorld

_NAME = "linear-benchmark"
_ACTIONS, _BITS = 100, 8
_LARGEST_NORM = np.sqrt(7.0)  # of actions 63 and 95: six ones among the digits, and one of same and not same


def linear_benchmark(
    horizon: int = 20,
    rewards: str = "deterministic",
    instance: int | None = None,
) -> TabularWorld | WorldFamily[TabularWorld]:
    """The benchmark of appendix G; a fresh instance per seed.

    Args:
        horizon: Steps of an episode.
        rewards: ``deterministic`` or ``bernoulli``.
        instance: A seed for one world; without it every run draws another one.

    Examples:
        >>> import discreet
        >>> discreet.worlds.linear_benchmark(horizon=3, instance=1).shape.actions
        100
    """
    check_count("horizon", horizon)
    check_name("reward law", rewards, ("deterministic", "bernoulli"))
    raw = _raw_features()

    def draw(seed: int) -> TabularWorld:
        rng = generator(seed, 0, WORLD)
        alpha, u = rng.random((horizon, 2)), rng.random(horizon)
        theta = np.zeros((horizon, _BITS + 2))
        theta[:, [0, 2, 4, 6]] = u[:, None] / 8
        theta[:, [3, 9]] = (1 - u)[:, None] / 2
        theta[:, 8] = u / 2
        first = raw[..., _BITS:] @ alpha.T  # (S, A, H): the probability of state 0
        transitions = np.moveaxis(np.stack([first, 1 - first], axis=-1), 2, 0)
        means = np.clip(np.moveaxis(raw @ theta.T, 2, 0), 0.0, 1.0)
        law = Bernoulli(means) if rewards == "bernoulli" else Deterministic(means)
        return TabularWorld(_NAME, transitions, law, np.full(2, 0.5), horizon)

    family = WorldFamily(_NAME, Shape(2, _ACTIONS, horizon, homogeneous=horizon == 1), draw)
    return family_or_member(family, instance)


def benchmark_features() -> Floats:
    """The features of the benchmark, (2, 100, 10), scaled to norms of at most one.

    Examples:
        >>> import discreet
        >>> discreet.worlds.benchmark_features().shape
        (2, 100, 10)
    """
    return np.asarray(_raw_features() / _LARGEST_NORM)


def features_of(world: TabularWorld | WorldFamily[TabularWorld]) -> Floats:
    """The features that a world is linear in: its own, or one coordinate per state and action."""
    if world.name == _NAME:
        return benchmark_features()
    S, A = world.shape.states, world.shape.actions
    return np.eye(S * A).reshape(S, A, S * A)


def _raw_features() -> Floats:
    digits = (np.arange(_ACTIONS)[:, None] >> np.arange(_BITS - 1, -1, -1)) & 1
    features = np.zeros((2, _ACTIONS, _BITS + 2))
    features[:, :, :_BITS] = digits
    same = (np.arange(2)[:, None] == 0) == (np.arange(_ACTIONS) == 0)
    features[:, :, _BITS] = same
    features[:, :, _BITS + 1] = ~same
    return features
