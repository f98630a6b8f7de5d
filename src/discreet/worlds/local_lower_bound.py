"""The world in which local privacy must cost: a tree of actions, and one leaf that is slightly better.

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

import numpy as np

from discreet.errors import InvalidInput
from discreet.shape import Shape
from discreet.streams import WORLD, generator
from discreet.types import Floats, Integers
from discreet.validation import check_count, check_positive
from discreet.worlds.family import WorldFamily, family_or_member
from discreet.worlds.rewards import Deterministic
from discreet.worlds.tabular import TabularWorld


def hard_local(
    states: int = 5,
    actions: int = 2,
    horizon: int = 6,
    epsilon: float = 1.0,
    episodes: int = 100_000,
    instance: int | None = None,
) -> TabularWorld | WorldFamily[TabularWorld]:
    """The hard instance for ``episodes`` users at pure local ``epsilon``; which pair is lucky is drawn per instance."""
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
    """
    levels, leaves = _tree(states, actions)
    K, pairs = np.asarray(episodes, np.float64), len(leaves) * actions
    bound = (horizon - levels) * np.sqrt(K * pairs) / (64 * math.sqrt(2) * _price(epsilon))
    return np.where(pairs / min(8 * math.expm1(epsilon), 4.0) ** 2 <= K, bound, 0.0)


def _price(epsilon: float) -> float:
    return min(math.expm1(check_positive("epsilon", epsilon)), 0.5)


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
