"""Named worlds: the ones of the papers, worlds from arrays, and the registry that the command line reads.

RiverSwim is the chain of Strehl and Littman (2008) with the probabilities of Osband, Russo and Van Roy (2013); random
MDPs are those of Garcelon et al. (2021); the bandit is the one-state problem used with shuffle-private policy
elimination. A world that is drawn at random is a ``WorldFamily`` until ``instance`` fixes its seed.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from discreet.errors import InvalidInput, unknown_name
from discreet.packages import load
from discreet.planning.backward import best_policy
from discreet.scientific import special
from discreet.shape import Shape
from discreet.streams import WORLD, generator
from discreet.types import Floats
from discreet.validation import check_array, check_count, check_not_negative, check_positive
from discreet.worlds.family import WorldFamily, family_or_member
from discreet.worlds.rewards import Bernoulli, Deterministic, RewardLaw
from discreet.worlds.tabular import TabularWorld


def river_swim(
    states: int = 6,
    horizon: int = 20,
    rewards: str = "bernoulli",
    alpha: float = 1.8,
    scale: float = 1.0,
    order: float | None = None,
) -> TabularWorld:
    """RiverSwim: swim right (action 1) against the current to a reward of 1, or drift left (action 0) to one of 0.005.

    Left always moves one state down. Right, from a state in the middle, moves down, stays or moves up with
    probabilities 0.05, 0.6, 0.35; from the first state it stays or moves up (0.4, 0.6), from the last one it moves down
    or stays (0.4, 0.6). Everybody starts in state 0.

    Rewards are Bernoulli, or heavy-tailed around the same means: stable, student, pareto or two-point, with tail index
    ``alpha`` and ``scale`` (see :mod:`discreet.heavy_tails.worlds`). The public moment bound is then that of order
    1 + ``order``, by default one that exists with room to spare.
    """
    check_count("states", states, at_least=2)
    check_count("horizon", horizon)
    last = states - 1
    transitions = np.zeros((1, states, 2, states))
    for s in range(states):
        transitions[0, s, 0, max(s - 1, 0)] = 1.0
        if 0 < s < last:
            transitions[0, s, 1, s - 1 : s + 2] = 0.05, 0.6, 0.35
    transitions[0, 0, 1, :2] = 0.4, 0.6
    transitions[0, last, 1, last - 1 :] = 0.4, 0.6
    means = np.zeros((1, states, 2))
    means[0, 0, 0] = 0.005
    means[0, last, 1] = 1.0
    name, start = f"river-swim-{states}", _point(states, 0)
    if rewards == "bernoulli":
        return TabularWorld(name, transitions, Bernoulli(means), start, horizon)
    law, moments = load("discreet.heavy_tails.worlds:around")(rewards, means, alpha, scale, order)
    return TabularWorld(f"{name}-{rewards}", transitions, law, start, horizon, (-1.0, 1.0), moments)


def random_mdp(
    states: int = 2, actions: int = 2, horizon: int = 2, alpha: float = 0.1, instance: int | None = None
) -> TabularWorld | WorldFamily[TabularWorld]:
    """Random MDPs: next-state laws are Dirichlet(alpha, ..., alpha), rewards are 0 or 1 by one fair coin per pair.

    The start is uniform. Instances whose rewards do not depend on the action, or in which all policies are worth the
    same, have nothing to learn and are drawn again.
    """
    check_count("states", states)
    check_count("actions", actions, at_least=2)
    check_count("horizon", horizon)
    check_positive("alpha", alpha)

    def draw(seed: int) -> TabularWorld:
        rng = generator(seed, 0, WORLD)
        while True:
            transitions = rng.dirichlet(np.full(states, alpha), size=(1, states, actions))
            means = np.asarray(rng.random((1, states, actions)) <= 0.5, dtype=np.float64)
            start = np.full(states, 1.0 / states)
            world = TabularWorld("random-mdp", transitions, Deterministic(means), start, horizon)
            if _actions_matter(world):
                return world

    start = 0 if states == 1 else None
    shape = Shape(states, actions, horizon, homogeneous=True, start=start)
    return family_or_member(WorldFamily("random-mdp", shape, draw), instance)


def bandit(arms: int = 20, sigma: float = 0.1, instance: int | None = None) -> TabularWorld | WorldFamily[TabularWorld]:
    """A Bernoulli bandit of users who differ: arm a is worth clip(r_a + N(0, sigma^2)) to a user, clipped to [0, 1].

    The r_a are uniform on [0, 0.99]. Users are drawn afresh, so this is exactly the bandit with the means over users,
    E clip(r_a + N(0, sigma^2)), and those are its means here.
    """
    check_count("arms", arms)
    check_not_negative("sigma", sigma)

    def draw(seed: int) -> TabularWorld:
        centres = generator(seed, 0, WORLD).uniform(0.0, 0.99, size=arms)
        means = clipped_normal_mean(centres, sigma).reshape(1, 1, arms)
        return TabularWorld("bandit", np.ones((1, 1, arms, 1)), Bernoulli(means), np.ones(1), 1)

    shape = Shape(1, arms, 1, homogeneous=True, start=0)
    return family_or_member(WorldFamily("bandit", shape, draw), instance)


def from_arrays(
    transitions: ArrayLike,
    rewards: ArrayLike,
    horizon: int | None = None,
    start: ArrayLike | int | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
    reward_law: Literal["bernoulli", "deterministic"] = "bernoulli",
    name: str = "arrays",
) -> TabularWorld:
    """A world from its tables: transitions (S, A, S) or (H, S, A, S), mean rewards (S, A) or (H, S, A).

    The horizon is needed where neither table has one entry per step. ``start`` is a state, a distribution over
    states, or None for state 0.
    """
    P = check_array("transitions", transitions)
    r = check_array("rewards", rewards)
    if P.ndim not in (3, 4) or r.ndim not in (2, 3) or P.shape[-1] != P.shape[-3] or r.shape[-2:] != P.shape[-3:-1]:
        raise InvalidInput(
            "transitions must have shape (S, A, S) or (H, S, A, S) and rewards (S, A) or (H, S, A), "
            f"got {P.shape} and {r.shape}"
        )
    lengths = {len(table) for table, axes in ((P, 4), (r, 3)) if table.ndim == axes}
    if horizon is not None:
        lengths.add(check_count("horizon", horizon))
    if len(lengths) != 1:
        given = f"they say {sorted(lengths)}" if lengths else "pass horizon="
        raise InvalidInput(f"transitions, rewards and horizon must agree on one number of steps; {given}")
    (steps,) = lengths
    groups = 1 if P.ndim == 3 and r.ndim == 2 else steps
    states, actions = P.shape[-1], P.shape[-2]
    P = np.broadcast_to(P, (groups, states, actions, states))
    r = np.broadcast_to(r, (groups, states, actions))
    return TabularWorld(name, P, _law(reward_law, r), _start(start, states), steps, reward_range)


def clipped_normal_mean(centre: Floats, sigma: float) -> Floats:
    """E clip(X, 0, 1) for X ~ N(centre, sigma^2): the expected excess over 0 less that over 1.

    The excess over c has mean sigma * (z Phi(z) + phi(z)) with z = (centre - c) / sigma.
    """
    if sigma == 0:
        return np.clip(centre, 0.0, 1.0)

    def excess(bound: float) -> Floats:
        z = (centre - bound) / sigma
        return np.asarray(sigma * (z * special.ndtr(z) + np.exp(-z * z / 2) / np.sqrt(2 * np.pi)))

    return np.clip(excess(0.0) - excess(1.0), 0.0, 1.0)


def _actions_matter(world: TabularWorld) -> bool:
    if (world.means == world.means[..., :1]).all():
        return False
    _, values = best_policy(world.transitions, -world.means, world.horizon)
    return bool(world.optimal_value + world.start @ values[0] > 1e-12)


def _law(name: str, means: Floats) -> RewardLaw:
    laws: dict[str, type[Bernoulli] | type[Deterministic]] = {"bernoulli": Bernoulli, "deterministic": Deterministic}
    if name not in laws:
        raise unknown_name("reward law", str(name), laws)
    return laws[name](means)


def _start(start: ArrayLike | int | None, states: int) -> Floats:
    if start is None or np.ndim(start) == 0:
        state = check_count("start", 0 if start is None else start, at_least=0)
        if state >= states:
            raise InvalidInput(f"start must be a state in 0..{states - 1}, got {state}")
        return _point(states, state)
    return check_array("start", start, (states,))


def _point(states: int, state: int) -> Floats:
    point = np.zeros(states)
    point[state] = 1.0
    return point
