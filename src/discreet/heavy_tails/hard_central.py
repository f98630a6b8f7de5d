r"""The hard world of the joint lower bound for heavy-tailed rewards: parallel bandits that pay rarely and much.

n states, in one of which an episode starts, uniformly; A actions, one step, and two states that end it. With g =
gamma^(1+v), gamma = (5 Delta)^(1/v), Delta = ((A - 1) n / (K epsilon))^(v/(1+v)):

    P(paid | s, 0) = g / 2,    P(paid | s, a) = 3 g / 10,    and 7 g / 10 for one action of every state;

that action is drawn at random, and if it is the first one, nothing is better than g / 2. Being paid means 1 / gamma, on
the transition. Means are 2.5, 1.5 and 3.5 Delta, and the moment of order 1 + v is at most 0.7. No joint-private learner
does better there than of the order of

    ((A - 1) n / epsilon)^(v/(1+v)) K^(1/(1+v)).

The printed construction has g / 2 for all other actions, which leaves no gap; 3 g / 10 is what its proof uses.
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
