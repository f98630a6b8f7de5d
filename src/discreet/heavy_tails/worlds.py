r"""Hard worlds for heavy-tailed rewards, where privacy must cost regret: those of the two lower bounds.

**The joint lower bound** (:func:`hard_central`): parallel bandits that pay rarely and much.

n states, in one of which an episode starts, uniformly; A actions, one step, and two states that end it. With g =
gamma^(1+v), gamma = (5 Delta)^(1/v), Delta = ((A - 1) n / (K epsilon))^(v/(1+v)):

    P(paid | s, 0) = g / 2,    P(paid | s, a) = 3 g / 10,    and 7 g / 10 for one action of every state;

that action is drawn at random, and if it is the first one, nothing is better than g / 2. Being paid means 1 / gamma, on
the transition. Means are 2.5, 1.5 and 3.5 Delta, and the moment of order 1 + v is at most 0.7. No joint-private learner
does better there than of the order of

    ((A - 1) n / epsilon)^(v/(1+v)) K^(1/(1+v)).

The printed construction has g / 2 for all other actions, which leaves no gap; 3 g / 10 is what its proof uses.

**The local lower bound** (:func:`hard_tree`): a tree with one good leaf.

A perfect A-ary tree of depth d whose moves are deterministic (the child's number is the action), L = A^(d-1) leaves,
and two states that absorb. From a leaf every action is paid with probability g / 2, except one action of one leaf,
which is paid with probability g, where

    g = gamma^(1+v),   gamma = (L A / (32 K epsilon^2))^(1/(1+v)),   g <= 3/4.

Being paid means 1 / gamma, on the transition out of the leaf, so that the moment of order 1 + v is at most one. The
best policy is worth gamma^v, any other half of it. No local-private learner does better than of the order of

    (L A / epsilon^2)^(v/(1+v)) K^(1/(1+v)).

The printed construction pays at the absorbing state, whose reward is then certain and as large as 1 / gamma: its moment
is not bounded by one.
"""

from __future__ import annotations

import numpy as np

from discreet.errors import InvalidInput
from discreet.shape import Moments, Shape
from discreet.streams import WORLD, generator
from discreet.types import Floats
from discreet.validation import check_count, check_positive
from discreet.worlds.family import WorldFamily, family_or_member
from discreet.worlds.rewards import OnTransition
from discreet.worlds.tabular import TabularWorld


def hard_central(
    states: int = 3,
    actions: int = 3,
    episodes: int = 20_000,
    epsilon: float = 1.0,
    order: float = 0.5,
    instance: int | None = None,
) -> TabularWorld | WorldFamily[TabularWorld]:
    """Parallel bandits whose gap is just too small to see in ``episodes`` episodes at ``epsilon``.

    Which action is the best one of each state is drawn per instance.
    """
    n, A = check_count("states", states), check_count("actions", actions, at_least=2)
    K, epsilon = check_count("episodes", episodes), check_positive("epsilon", epsilon)
    moments = Moments(0.7, order)
    v = moments.order
    gap = float(((A - 1) * n / (K * epsilon)) ** (v / (1 + v)))
    if not gap < 0.2:
        raise InvalidInput(f"the gap of this world would be {gap:.3g}, and must be below 0.2: take more episodes")
    gamma = (5 * gap) ** (1 / v)
    g = gamma ** (1 + v)

    def draw(seed: int) -> TabularWorld:
        best = generator(seed, 0, WORLD).integers(0, A, size=n)
        pays = np.full((n, A), 0.3 * g)
        pays[:, 0] = 0.5 * g
        pays[np.arange(n)[best > 0], best[best > 0]] = 0.7 * g
        return _bandits(pays, gamma, moments)

    family = WorldFamily("hard-central", draw(0).shape, draw)
    return family_or_member(family, instance)


def _bandits(pays: Floats, gamma: float, moments: Moments) -> TabularWorld:
    n, A = pays.shape
    S, paid, unpaid = n + 2, n, n + 1
    transitions = np.zeros((1, S, A, S))
    transitions[0, :n, :, paid], transitions[0, :n, :, unpaid] = pays, 1 - pays
    transitions[0, paid, :, paid] = transitions[0, unpaid, :, unpaid] = 1.0
    values = np.zeros((1, S, A, S))
    values[0, :n, :, paid] = 1 / gamma
    start = np.concatenate([np.full(n, 1 / n), [0.0, 0.0]])
    return TabularWorld("hard-central", transitions, OnTransition(values), start, 1, (-1.0, 1.0), moments)


def central_lower_bound(shape: Shape, episodes: int, epsilon: float, order: float) -> float:
    """The bound's curve, without its constant."""
    arms = (shape.actions - 1) * (shape.states - 2)
    return float((arms / epsilon) ** (order / (1 + order)) * episodes ** (1 / (1 + order)))


def hard_tree(
    depth: int = 3,
    actions: int = 3,
    episodes: int = 20_000,
    epsilon: float = 1.0,
    order: float = 0.5,
    instance: int | None = None,
) -> TabularWorld | WorldFamily[TabularWorld]:
    """The tree whose good leaf is just too well hidden to be found in ``episodes`` episodes at ``epsilon``.

    Which leaf and which of its actions that is is drawn per instance.
    """
    d, A = check_count("depth", depth), check_count("actions", actions, at_least=2)
    K, epsilon = check_count("episodes", episodes), check_positive("epsilon", epsilon)
    moments = Moments(1.0, order)
    leaves = A ** (d - 1)
    g = leaves * A / (32 * K * epsilon**2)
    if not g <= 0.75:
        raise InvalidInput(f"a leaf would pay with probability {g:.3g}, and must with at most 0.75: take more episodes")
    gamma = g ** (1 / (1 + moments.order))

    def draw(seed: int) -> TabularWorld:
        pays = np.full((leaves, A), g / 2)
        pays.reshape(-1)[generator(seed, 0, WORLD).integers(pays.size)] = g
        return _tree(pays, d, gamma, moments)

    family = WorldFamily("hard-tree", draw(0).shape, draw)
    return family_or_member(family, instance)


def _tree(pays: Floats, depth: int, gamma: float, moments: Moments) -> TabularWorld:
    leaves, A = pays.shape
    nodes = (A**depth - 1) // (A - 1)
    S, paid, unpaid, first_leaf = nodes + 2, nodes, nodes + 1, nodes - leaves
    transitions = np.zeros((1, S, A, S))
    for node in range(first_leaf):
        transitions[0, node, np.arange(A), node * A + 1 + np.arange(A)] = 1.0
    transitions[0, first_leaf:nodes, :, paid], transitions[0, first_leaf:nodes, :, unpaid] = pays, 1 - pays
    transitions[0, paid, :, paid] = transitions[0, unpaid, :, unpaid] = 1.0
    values = np.zeros((1, S, A, S))
    values[0, first_leaf:nodes, :, paid] = 1 / gamma
    return TabularWorld("hard-tree", transitions, OnTransition(values), np.eye(S)[0], depth, (-1.0, 1.0), moments)


def local_lower_bound(shape: Shape, episodes: int, epsilon: float, order: float) -> float:
    """The bound's curve, without its constant."""
    actions_of_leaves = shape.actions**shape.horizon
    return float((actions_of_leaves / epsilon**2) ** (order / (1 + order)) * episodes ** (1 / (1 + order)))
