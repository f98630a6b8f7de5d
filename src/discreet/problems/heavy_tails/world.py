r"""Worlds with heavy-tailed rewards: the laws of rewards, and the hard worlds of two lower bounds.

**Laws.** A mean plus noise whose variance may be infinite, with the moment bound that is public.

========  =====================================  ===================================================================
name      reward                                 parameters
========  =====================================  ===================================================================
stable    mean + symmetric alpha-stable noise    tail index alpha in (1, 2], scale; alpha = 2 is Gaussian, variance
                                                 2 scale^2
student   mean + Student t noise                 degrees of freedom alpha > 1, scale
pareto    mean + or - scale U^(-1/alpha)         tail index alpha > 1, scale
two-point mean / q with probability q, else 0    q in (0, 1] in place of alpha
========  =====================================  ===================================================================

Moments of order p exist for p < alpha only (for alpha = 2 stable: all). ``moment`` computes E|X|^p exactly: for stable
noise by

    E|X|^p = 2 Gamma(1+p) sin(pi p / 2) / pi * integral_0^inf (1 - cos(mean t) exp(-(scale t)^alpha)) t^(-1-p) dt,

for 0 < p < 2, otherwise from the density. Stable noise is drawn as Chambers, Mallows and Stuck (1976) do, Student's t
as Bailey (1994).

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
which is paid with probability g (in the *null* instance there is no such action), where

    g = gamma^(1+v),   gamma = (L A / (32 K epsilon^2))^(1/(1+v)),   g <= 3/4.

Being paid means 1 / gamma, on the transition out of the leaf, so that the moment of order 1 + v is at most one. The
best policy is worth gamma^v, any other half of it. No local-private learner does better than of the order of

    (L A / epsilon^2)^(v/(1+v)) K^(1/(1+v)).

The printed construction pays at the absorbing state, whose reward is then certain and as large as 1 / gamma: its moment
is not bounded by one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from discreet.base.errors import InvalidInput, check_name
from discreet.base.scientific import integrate, special, stats
from discreet.base.shape import Moments, Shape, check_size
from discreet.base.streams import WORLD, Stream, generator, uniform
from discreet.base.types import Floats
from discreet.base.validation import check_array, check_count, check_epsilon, check_positive
from discreet.worlds.family import WorldFamily, family_or_member
from discreet.worlds.rewards import OnTransition, checked_elsewhere, draw_reward, mean
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

    Args:
        states: How many bandits.
        actions: Arms of each.
        episodes: For which the gap is made.
        epsilon: For which the gap is made.
        order: Moments of order 1 + ``order`` are bounded.
        instance: A seed for one world; without it every run draws another one.

    Examples:
        >>> import discreet
        >>> discreet.worlds.hard_central(instance=1).shape.actions
        3
    """
    n, A = check_count("states", states), check_count("actions", actions, at_least=2)
    K, epsilon = check_count("episodes", episodes), check_epsilon("epsilon", epsilon)
    check_size(Shape(n + 2, A, 1), successors=True)
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
    """The largest lower bound that the proof gives, by the gap that is best for it.

    For two instances with gap D it has K D / 4 exp(-12 5^(1/v) epsilon K D^((1+v)/v) / (A - 1)) in the sum of their
    regrets, for each of n bandits with a chance of one half; largest at D^((1+v)/v) = v / (1 + v) over that factor of
    it in the exponent. With the printed gap, which :func:`hard_central` has, the exponential alone is below 1e-26.
    """
    share = order / (1 + order)
    arms = (shape.actions - 1) * (shape.states - 2)
    gap = share * arms / (12 * 5 ** (1 / order) * epsilon * episodes)
    return float(episodes / 16 * (gap / math.e) ** share)


def hard_tree(
    depth: int = 3,
    actions: int = 3,
    episodes: int = 20_000,
    epsilon: float = 1.0,
    order: float = 0.5,
    instance: int | None = None,
    null: bool = False,
) -> TabularWorld | WorldFamily[TabularWorld]:
    """The tree whose good leaf is just too well hidden to be found in ``episodes`` episodes at ``epsilon``.

    Which leaf and which of its actions that is is drawn per instance. ``null``: no leaf is better than the others, the
    instance that the proof compares all others with; every policy is a best one there.

    Args:
        depth: Of the tree.
        actions: Of each node.
        episodes: For which the gap is made.
        epsilon: For which the gap is made.
        order: Moments of order 1 + ``order`` are bounded.
        instance: A seed for one world; without it every run draws another one.
        null: See above.

    Examples:
        >>> import discreet
        >>> discreet.worlds.hard_tree(depth=2, instance=1).shape.actions
        3
    """
    d, A = check_count("depth", depth), check_count("actions", actions, at_least=2)
    if not isinstance(null, bool):
        raise InvalidInput(f"null must be true or false, got {null!r}")
    K, epsilon = check_count("episodes", episodes), check_epsilon("epsilon", epsilon)
    check_size(Shape(A ** min(d, 20), A, d, homogeneous=True), successors=True)
    moments = Moments(1.0, order)
    leaves = A ** (d - 1)
    g = leaves * A / (32 * K * epsilon**2)
    if not g <= 0.75:
        raise InvalidInput(f"a leaf would pay with probability {g:.3g}, and must with at most 0.75: take more episodes")
    gamma = g ** (1 / (1 + moments.order))

    def draw(seed: int) -> TabularWorld:
        pays = np.full((leaves, A), g / 2)
        if not null:
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
    """The lower bound with the constants of its proof, K gamma^v / 2 (3/4 - 1 / (L A)), in the world of the proof.

    It takes epsilon for e^epsilon - 1, as the proof does.
    """
    actions_of_leaves = shape.actions**shape.horizon
    worth = (actions_of_leaves / (32 * episodes * epsilon**2)) ** (order / (1 + order))
    return float(episodes * worth / 2 * (0.75 - 1 / actions_of_leaves))


KINDS = ("stable", "student", "pareto", "two-point")


class HeavyTailed(NamedTuple):
    """Rewards of one kind; ``parameters`` = (kind, alpha or q, scale)."""

    means: Floats
    parameters: Floats


def heavy_tailed(kind: str, means: Floats, alpha: float, scale: float = 1.0) -> HeavyTailed:
    """A law by name."""
    check_name("heavy-tailed law", kind, KINDS)
    alpha, scale = check_positive("alpha", alpha), check_positive("scale", scale)
    if kind == "two-point" and alpha > 1:
        raise InvalidInput(f"alpha of two-point rewards is a probability in (0, 1], got {alpha!r}")
    if kind != "two-point" and not alpha > 1:
        raise InvalidInput(f"alpha must be above 1, or rewards have no mean, got {alpha!r}")
    if kind == "stable" and alpha > 2:
        raise InvalidInput(f"alpha of a stable law must lie in (1, 2], got {alpha!r}")
    return HeavyTailed(np.asarray(means, np.float64), np.array([KINDS.index(kind), alpha, scale]))


def default_order(kind: str, alpha: float) -> float:
    """A v for which the moment of order 1 + v exists with room to spare: 1 if the variance exists."""
    if kind == "two-point" or (kind == "stable" and alpha == 2) or (kind != "stable" and alpha > 2.5):
        return 1.0
    return 0.625 * min(alpha - 1, 1.0)


def moment_bound(law: HeavyTailed, order: float) -> Moments:
    """The smallest public bound that holds for all means of the law."""
    kind, alpha, scale = KINDS[int(law.parameters[0])], float(law.parameters[1]), float(law.parameters[2])
    worst = max(moment(kind, float(m), alpha, scale, 1 + order) for m in np.unique(np.abs(law.means)))
    return Moments(worst, order)


def moment(kind: str, centre: float, alpha: float, scale: float, p: float) -> float:
    """E|X|^p of a reward with mean ``centre``."""
    if kind == "two-point":
        return float(abs(centre) ** p * alpha ** (1 - p))
    if p >= alpha and not (kind == "stable" and alpha == 2):
        raise InvalidInput(f"the moment of order {p:g} is infinite for alpha = {alpha:g}: take a smaller order")
    if kind == "stable":
        return _stable_moment(centre, alpha, scale, p)
    start = 0.0 if kind == "student" else scale

    def density(x: float) -> float:
        if kind == "student":
            return float(stats.t.pdf(x / scale, alpha)) / scale
        return float(0.5 * alpha * scale**alpha * x ** (-1 - alpha))

    def both(x: float) -> float:
        return float((abs(centre + x) ** p + abs(centre - x) ** p) * density(x))

    middle = start + 10 * scale + abs(centre)
    near = integrate.quad(
        both, start, middle, limit=400, points=[abs(centre)] if start < abs(centre) < middle else None
    )[0]
    far = integrate.quad(lambda y: both(math.exp(y)) * math.exp(y), math.log(middle), 100 / alpha, limit=400)[0]
    return float(near + far)


def _stable_moment(centre: float, alpha: float, scale: float, p: float) -> float:
    if p == 2:
        return float(centre**2 + 2 * scale**2)

    def integrand(t: float) -> float:
        damped = math.exp(-((scale * t) ** alpha))
        # 1 - cos * exp without cancellation at small t
        moved = -math.expm1(-((scale * t) ** alpha)) + damped * 2 * math.sin(centre * t / 2) ** 2
        return float(moved * t ** (-1 - p))

    # Leading terms near zero, and the one that is left when the exponential has died out.
    low, high = 1e-6 / scale, 60 ** (1 / alpha) / scale
    near = scale**alpha * low ** (alpha - p) / (alpha - p) + centre**2 * low ** (2 - p) / (2 * (2 - p))
    inside = integrate.quad(lambda y: integrand(math.exp(y)) * math.exp(y), math.log(low), math.log(high), limit=800)[0]
    beyond = high**-p / p
    return float(2 * special.gamma(1 + p) * math.sin(math.pi * p / 2) / math.pi * (near + inside + beyond))


@draw_reward.implement(HeavyTailed)
def _draw(law: HeavyTailed, g: int, s: int, a: int, _t: int, stream: Stream) -> float:
    centre = law.means[g, s, a]
    kind, alpha, scale = law.parameters[0], law.parameters[1], law.parameters[2]
    if kind == 3.0:
        return float(centre / alpha) if uniform(stream) < alpha else 0.0
    if kind == 2.0:
        size = scale * uniform(stream) ** (-1.0 / alpha)
        return float(centre + size if uniform(stream) < 0.5 else centre - size)
    if kind == 1.0:
        radius = math.sqrt(alpha * (uniform(stream) ** (-2.0 / alpha) - 1.0))
        return float(centre + scale * radius * math.cos(2.0 * math.pi * uniform(stream)))
    angle = math.pi * (uniform(stream) - 0.5)
    wait = -math.log(uniform(stream))
    bent = math.sin(alpha * angle) / math.cos(angle) ** (1.0 / alpha)
    tail = (math.cos((1.0 - alpha) * angle) / wait) ** ((1.0 - alpha) / alpha)
    return float(centre + scale * bent * tail)


@mean.register(HeavyTailed)
def _(law: HeavyTailed, transitions: Floats) -> Floats:
    return law.means


@checked_elsewhere.register(HeavyTailed)
def _(law: HeavyTailed, cells: tuple[int, int, int]) -> HeavyTailed:
    means = np.array(check_array("reward means", law.means, cells), order="C")
    return HeavyTailed(means, np.array(check_array("reward parameters", law.parameters, (3,))))


def around(name: str, means: Floats, alpha: float, scale: float, order: float | None) -> tuple[HeavyTailed, Moments]:
    """A heavy-tailed law around these means and its public moment bound, of this order or of one with room to spare."""
    law = heavy_tailed(name, means, alpha, scale)
    return law, moment_bound(law, default_order(name, alpha) if order is None else order)
