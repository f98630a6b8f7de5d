"""Named worlds: the ones of the papers, worlds from arrays, and the registry that the command line reads.

RiverSwim is the chain of Strehl and Littman (2008) with the probabilities of Osband, Russo and Van Roy (2013); random
MDPs are those of Garcelon et al. (2021); the bandit is the one-state problem used with shuffle-private policy
elimination. A world that is drawn at random is a ``WorldFamily`` until ``instance`` fixes its seed.

**The hard world of the local model** (:func:`hard_local`). The world in which local privacy must cost: a tree of
actions, and one leaf that is slightly better.

Garcelon, Perchet, Pike-Burke, Pirotta (2021), appendix B. Actions walk down a tree of S - 2 nodes; every leaf leads to
a state that earns 1 for ever or to one that earns nothing, by a fair coin, except that one action in one leaf wins with
probability 1/2 + gap. With L leaves, K users and

    gap = sqrt(L A / K) / (16 sqrt(2) min(e^epsilon - 1, 1/2)),

every learner under pure local differential privacy has, in one of these worlds, a regret of at least (theorem 2)

    (H - d) sqrt(K L A) / (64 sqrt(2) min(e^epsilon - 1, 1/2)),

where d is the number of levels of the tree.

**Differences from the paper.** The bound printed there lacks the sqrt(2) that its own proof carries. The tree is the
one with the fewest levels that holds all nodes; a node that has fewer than A children shares them out among its
actions, and one without any above the deepest level leads to leaves of that level, so that all leaves are equally deep.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from discreet.base.errors import InvalidInput, check_name
from discreet.base.packages import load
from discreet.base.scientific import special
from discreet.base.shape import Shape, check_size
from discreet.base.streams import WORLD, generator
from discreet.base.types import ArrayLike, Floats, Integers
from discreet.base.validation import check_array, check_count, check_not_negative, check_positive
from discreet.worlds.family import WorldFamily, family_or_member
from discreet.worlds.planning.backward_induction import best_policy
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

    Left moves one state down (or stays in the first). Right, from a state in the middle, moves down, stays or moves up
    with probabilities 0.05, 0.6, 0.35; from the first state it stays or moves up (0.4, 0.6), from the last one it moves
    down or stays (0.4, 0.6). Everybody starts in state 0.

    Args:
        states: The length of the river.
        horizon: Steps of an episode.
        rewards: ``bernoulli``, or heavy-tailed around the same means: ``stable``, ``student``, ``pareto`` or
            ``two-point`` (see :mod:`discreet.problems.heavy_tails.world`).
        alpha: The tail index of heavy tails.
        scale: Their scale.
        order: The public moment bound is that of order 1 + ``order``; by default one that exists with room to spare.

    Examples:
        >>> import discreet
        >>> world = discreet.worlds.river_swim(states=4, horizon=6)
        >>> world.shape.states, round(world.optimal_value, 3)
        (4, 0.476)
    """
    check_count("states", states, at_least=2)
    check_size(Shape(states, 2, horizon, homogeneous=True), successors=True)
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
    if isinstance(rewards, str) and rewards == "bernoulli":
        return TabularWorld(name, transitions, Bernoulli(means), start, horizon)
    law, moments = load("discreet.problems.heavy_tails.world:around")(rewards, means, alpha, scale, order)
    return TabularWorld(f"{name}-{rewards}", transitions, law, start, horizon, (-1.0, 1.0), moments)


def random_mdp(
    states: int = 2, actions: int = 2, horizon: int = 2, alpha: float = 0.1, instance: int | None = None
) -> TabularWorld | WorldFamily[TabularWorld]:
    """Random MDPs: next-state laws are Dirichlet(alpha, ..., alpha), rewards are 0 or 1 by one fair coin per pair.

    The start is uniform. Instances whose rewards do not depend on the action, or in which all policies are worth the
    same, have nothing to learn and are drawn again.

    Args:
        states: How many.
        actions: How many.
        horizon: Steps of an episode.
        alpha: The smaller, the more certain what follows.
        instance: A seed for one world; without it every run draws another one.

    Examples:
        >>> import discreet
        >>> discreet.worlds.random_mdp(states=3, instance=1).name
        'random-mdp'
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
    check_size(shape, successors=True)
    return family_or_member(WorldFamily("random-mdp", shape, draw), instance)


def bandit(arms: int = 20, sigma: float = 0.1, instance: int | None = None) -> TabularWorld | WorldFamily[TabularWorld]:
    """A Bernoulli bandit of users who differ: arm a is worth clip(r_a + N(0, sigma^2)) to a user, clipped to [0, 1].

    The r_a are uniform on [0, 0.99]. Users are drawn afresh, so this is exactly the bandit with the means over users,
    E clip(r_a + N(0, sigma^2)), and those are its means here.

    Args:
        arms: How many.
        sigma: How much users differ.
        instance: A seed for one world; without it every run draws another one.

    Examples:
        >>> import discreet
        >>> discreet.worlds.bandit(arms=5, instance=1).shape.actions
        5
    """
    check_count("arms", arms)
    check_not_negative("sigma", sigma)

    def draw(seed: int) -> TabularWorld:
        centres = generator(seed, 0, WORLD).uniform(0.0, 0.99, size=arms)
        means = clipped_normal_mean(centres, sigma).reshape(1, 1, arms)
        return TabularWorld("bandit", np.ones((1, 1, arms, 1)), Bernoulli(means), np.ones(1), 1)

    shape = Shape(1, arms, 1, homogeneous=True, start=0)
    check_size(shape, successors=True)
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

    Args:
        transitions: Probabilities of successors; each row sums to one.
        rewards: Mean rewards.
        horizon: Steps of an episode.
        start: Where episodes start.
        reward_range: The declared range of rewards.
        reward_law: ``bernoulli`` draws the ends of the range with the right mean; ``deterministic`` pays the mean.
        name: What results call it.

    Examples:
        >>> import discreet
        >>> stay_or_go = [[[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.5], [0.0, 1.0]]]
        >>> world = discreet.worlds.from_arrays(stay_or_go, [[0.1, 0.0], [0.0, 0.9]], horizon=5)
        >>> world.shape.states, world.shape.actions, world.horizon
        (2, 2, 5)
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
    check_name("reward law", name, laws)
    return laws[name](means)


def _start(start: ArrayLike | int | None, states: int) -> Floats:
    if start is None or isinstance(start, int | str) or np.ndim(check_array("start", start)) == 0:
        state = check_count("start", 0 if start is None else start, at_least=0)
        if state >= states:
            raise InvalidInput(f"start must be a state in 0..{states - 1}, got {state}")
        return _point(states, state)
    return check_array("start", start, (states,))


def _point(states: int, state: int) -> Floats:
    point = np.zeros(states)
    point[state] = 1.0
    return point


def hard_local(
    states: int = 5,
    actions: int = 2,
    horizon: int = 6,
    epsilon: float = 1.0,
    episodes: int = 100_000,
    instance: int | None = None,
) -> TabularWorld | WorldFamily[TabularWorld]:
    """The hard instance for ``episodes`` users at pure local ``epsilon``; which pair is lucky is drawn per instance.

    Args:
        states: How many.
        actions: How many.
        horizon: Steps of an episode.
        epsilon: For which the gap is made.
        episodes: For which the gap is made.
        instance: A seed for one world; without it every run draws another one.

    Examples:
        >>> import discreet
        >>> discreet.worlds.hard_local(instance=1).shape.states
        5
    """
    check_size(Shape(states, actions, horizon, homogeneous=True), successors=True)
    levels, leaves = _tree(states, actions)
    if horizon < levels + 1:
        raise InvalidInput(f"horizon must be at least {levels + 1} to leave the tree, got {horizon}")
    gap = hard_local_gap(states, actions, epsilon, episodes)
    if gap > 0.5:
        raise InvalidInput(
            f"episodes must be large enough for a gap of at most 1/2, got a gap of {gap:.3g}: raise episodes or epsilon"
        )

    def draw(seed: int) -> TabularWorld:
        lucky = generator(seed, 0, WORLD).integers(len(leaves) * actions)
        leaf, action = leaves[int(lucky) // actions], int(lucky) % actions
        return _world(states, actions, horizon, gap, leaves, leaf, action)

    family = WorldFamily("hard-local", Shape(states, actions, horizon, homogeneous=True, start=0), draw)
    return family_or_member(family, instance)


def hard_local_gap(states: int, actions: int, epsilon: float, episodes: int) -> float:
    """How much more often the lucky pair wins."""
    _, leaves = _tree(states, actions)
    return math.sqrt(len(leaves) * actions / check_count("episodes", episodes)) / (16 * math.sqrt(2) * _price(epsilon))


def hard_local_bound(states: int, actions: int, horizon: int, epsilon: float, episodes: Integers | int) -> Floats:
    """The lower bound of theorem 2 at each number of users: no local learner has less regret in all of these worlds.

    It holds for K >= L A / min(8 (e^epsilon - 1), 4)^2 users; smaller K give 0.

    Args:
        states: How many.
        actions: How many.
        horizon: Steps of an episode.
        epsilon: Of local differential privacy.
        episodes: Numbers of users.

    Examples:
        >>> import discreet
        >>> bool(discreet.worlds.hard_local_bound(5, 2, 6, 1.0, 100_000) > 0)
        True
    """
    levels, leaves = _tree(states, actions)
    K, pairs = np.asarray(episodes, np.float64), len(leaves) * actions
    bound = (horizon - levels) * np.sqrt(K * pairs) / (64 * math.sqrt(2) * _price(epsilon))
    return np.where(pairs / min(8 * math.expm1(epsilon), 4.0) ** 2 <= K, bound, 0.0)


def _price(epsilon: float) -> float:
    return min(math.expm1(min(check_positive("epsilon", epsilon), 1.0)), 0.5)


def _tree(states: int, actions: int) -> tuple[int, list[int]]:
    """The number of levels and the deepest leaves of the tree of ``states`` - 2 nodes, in heap order."""
    nodes = check_count("states", states, at_least=3) - 2
    check_count("actions", actions, at_least=2)
    levels, first, width = 1, 0, 1
    while first + width < nodes:
        first, width, levels = first + width, width * actions, levels + 1
    return levels, list(range(first, nodes))


def _world(
    states: int, actions: int, horizon: int, gap: float, leaves: list[int], lucky: int, action: int
) -> TabularWorld:
    nodes, good, bad = states - 2, states - 2, states - 1
    transitions = np.zeros((1, states, actions, states))
    means = np.zeros((1, states, actions))
    means[0, good] = 1.0
    transitions[0, good, :, good] = transitions[0, bad, :, bad] = 1.0
    for node in range(nodes):
        children = [child for child in range(actions * node + 1, actions * (node + 1) + 1) if child < nodes] or leaves
        for a in range(actions):
            if node in leaves:
                win = 0.5 + gap * (node == lucky and a == action)
                transitions[0, node, a, [good, bad]] = win, 1.0 - win
            else:
                transitions[0, node, a, children[a % len(children)]] = 1.0
    start = np.zeros(states)
    start[0] = 1.0
    return TabularWorld("hard-local", transitions, Deterministic(means), start, horizon)
