"""A learner for adversarial losses that plans with estimated transitions as far as their noise allows.

The learners with regret bounds (:mod:`discreet.problems.adversarial.learners`) trust transitions only inside of
confidence boxes, which say nothing in most private runs. This one follows the perturbed leader with estimates. It is a
heuristic: privacy is exact, because everything here is post-processing of releases, and no regret bound is known. Per
block of m users:

**Transitions** are the same in all blocks, so blocks are added with weights w = n / (n / 2 + v), n the visits of a row
that the deployed policy is expected to make and v the noise of a count: blocks in which a row was rarely played add
little noise. A row r = sum w c / sum w n has error e per cell. It is used in two ways, averaged: (1) drawn to the law
of its layer and put onto the simplex, cell by cell, which suits rows with few successors; (2) the number r.V alone,
drawn to the other rows' numbers, which suits rows with many: only the direction of the values V that follow matters,
where a signal stands out that is lost in every single cell.

**Losses** of a pair may drift: a random walk is tracked through all blocks (:func:`track`), which gives its sum L over
all users so far and the deviation sigma of that sum, also where the pair was hardly visited. Sums are drawn to those of
their state and of their layer (:mod:`discreet.worlds.planning.shrinkage`): an action that was not seen must not look
worse than a good one that was.

**Policy**, backward from the last layer, in every state by itself, however rarely one is planned to be there:

    Z_a  = L_a + (P V)_a - sqrt((2 sigma_a)^2 + (tau_a / 4)^2),
    pi_a = 0.98 Pr[ Z_a + s_a N_a is the smallest ] + 0.02 / A,             V = sum_a pi_a Z_a,
    s_a^2 = G / (4 ln A) + (E / 4)^2 + (tau_a / 4)^2 + (sigma_a / 10)^2,

tau the deviation of P V, G the sum over blocks of the variance under the deployed policy of what the actions of the
state cost in that block, E their largest range in a block: the perturbation follows what the adversary has shown, and
to a small part what noise hides. The optimism of 2 sigma, which grows for actions that are not played, is what finds an
arm again that became good after it had been bad.

Releases that come more often than a hundredth of all users are collected first.

**The smallest of several numbers**, with independent normal noise added to all of them, is number a with probability

    p_a = Pr[ z_a + s_a N_a < z_b + s_b N_b for all b != a ] = E prod_{b != a} Phi((z_b - z_a - s_a N) / s_b),

an integral over one normal variable, by Gauss-Hermite quadrature. Following the perturbed leader plays action a with
this probability.

**Means that may drift**, seen in noisy sums now and then: where each stands, and what they add up to over time. A mean
l_b of block b moves by steps of variance d from block to block (a random walk). A block of m users shows

    y_b = n_b l_b + noise of variance v_b,

with n_b of them (0 shows nothing). Wanted are l_b and its sum over all users so far, S_b = m_1 l_1 + ... + m_b l_b, as
their best guesses from everything seen until now. Past levels are guessed from later sums, too: the pair (l_b, S_b) is
the state of a Kalman filter, so nothing has to be kept or gone through again. A mean that is not looked at keeps its
level, and the variance of its sum grows with the third power of the time that nobody looked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, NamedTuple

import numpy as np

from discreet.base.errors import check_name
from discreet.base.policies import StochasticPolicy
from discreet.base.scientific import special
from discreet.base.shape import LayeredShape
from discreet.base.streams import Stream
from discreet.base.types import Floats
from discreet.base.validation import check_not_negative, check_open_unit
from discreet.learners.base import HoldsPolicy, Problem
from discreet.mechanisms.release import ESTIMATES, Release
from discreet.problems.adversarial.layers import Layers, occupancy, pair_occupancy
from discreet.problems.adversarial.learners import deployed, layers_of
from discreet.worlds.planning.shrinkage import onto_simplex, shrink_nested, shrink_rows

_TINY = 1e-12


class Tracked(NamedTuple):
    """Best guesses of levels and of their sums over users, with variances; arrays of one shape."""

    level: Floats
    total: Floats
    level_variance: Floats
    covariance: Floats
    total_variance: Floats
    blocks: int = 0


def untracked(shape: tuple[int, ...], level: float, variance: float) -> Tracked:
    """Before any block: every level is guessed, with this variance."""
    nothing = np.zeros(shape)
    return Tracked(np.full(shape, level), nothing, np.full(shape, variance), nothing, nothing)


def track(before: Tracked, users: float, drift: float, seen: Floats, among: Floats, noise: Floats) -> Tracked:
    """After one more block of ``users``, of whom ``among`` showed the sums ``seen`` with noise of this variance.

    ``drift`` is the variance of the step from the last block to this one.
    """
    level_variance = before.level_variance + (drift if before.blocks else 0.0)
    surprise = seen - among * before.level
    variance = among**2 * level_variance + noise + _TINY
    gain, gain_of_total = among * level_variance / variance, among * before.covariance / variance
    level, total = before.level + gain * surprise, before.total + gain_of_total * surprise
    total_variance = before.total_variance - gain_of_total * among * before.covariance
    covariance = before.covariance * (1 - gain * among)
    level_variance = level_variance * (1 - gain * among)
    return Tracked(
        level=level,
        total=total + users * level,
        level_variance=level_variance,
        covariance=covariance + users * level_variance,
        total_variance=total_variance + 2 * users * covariance + users**2 * level_variance,
        blocks=before.blocks + 1,
    )


_NODES = 41
_LEAST = 1e-9  # of a deviation: below it the smallest number wins for certain


def chances_of_smallest(values: Floats, deviations: Floats) -> Floats:
    """For every row of ``values`` (n, A) with these deviations: the probability of each to be the smallest.

    >>> chances_of_smallest(np.array([[0.0, 0.0], [0.0, 1.0]]), np.full((2, 2), 0.5)).round(4).tolist()
    [[0.5, 0.5], [0.9214, 0.0786]]
    """
    nodes, weights = _quadrature()
    values = values - values.min(axis=1, keepdims=True)
    scale = np.maximum(deviations, _LEAST * (1.0 + values.max(axis=1, keepdims=True)))
    drawn = values[:, :, None] + scale[:, :, None] * nodes  # (n, A, nodes): what action a may come to
    above = special.ndtr((values[:, None, :, None] - drawn[:, :, None, :]) / scale[:, None, :, None])
    each = np.arange(values.shape[1])
    above[:, each, each, :] = 1.0
    chances = (above.prod(axis=2) * weights).sum(axis=2)
    return np.asarray(chances / chances.sum(axis=1, keepdims=True))


@cache
def _quadrature() -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    return nodes, weights / weights.sum()


FEEDBACK = {"full": "losses", "bandit": "observed_losses"}
_PLANS = 100  # at most, in a run
_DRIFT = 0.1  # the variance of a loss's walk over a whole run
_UNKNOWN = 25.0  # the variance of a loss before any data, as good as infinite for numbers in [0, 1]
_SAMPLING = {"full": 1 / 16, "bandit": 1 / 4}  # the variance that one user adds to the sum of a loss
_LEAST_SIGNAL = 0.002  # the variance of the losses of a state's actions that is always believed in
_LOSS_NOISE, _TRANSITION_NOISE = 0.1, 0.25  # how much of the deviation of noise is played as a perturbation
_MISJUDGED = 0.3  # how far expected visits may be off, as a share of them
_SURE = 0.25  # the deviation below which the share of users who were counted is believed


class Rows(NamedTuple):
    """Weighted sums over blocks, per row (x, a) that has unknown transitions."""

    counts: Floats  # (unknown triples,) sum w c
    expected: Floats  # (rows,) sum w n
    noise: Floats  # (rows,) sum w^2 v: the variance of the noise in an entry of counts
    drawn: Floats  # (rows,) sum w^2 n: that of drawing successors, times p (1 - p)


class LayerRows(NamedTuple):
    """The estimated rows of one layer, which sum to one but may leave [0, 1], and the error variance of a cell."""

    laws: Floats  # (rows, successors)
    errors: Floats  # (rows,)


class Waiting(NamedTuple):
    """What has been released since the last plan, and what had been released in all by then."""

    counts: Floats  # (unknown triples,) of all users until the last plan
    count_variance: float
    losses: Floats  # (states, actions) full information: of all users until then; bandit: of those since
    loss_variance: float
    users: int = 0  # at the last plan


class LeaderState(NamedTuple):
    """What the learner remembers."""

    problem: Problem
    shape: LayeredShape
    layers: Layers
    policy: StochasticPolicy
    table: Floats  # (states, actions) the same policy over all states
    transitions: Floats  # flat, as estimated cell by cell
    rows: Rows
    losses: Tracked  # (states, actions)
    shown: Floats  # (states,) G
    widest: Floats  # (states,) E
    waiting: Waiting


@dataclass(frozen=True)
class PerturbedLeader(HoldsPolicy):
    """Follow the perturbed leader in estimated transitions.

    Args:
        feedback: ``bandit`` or ``full``.
        floor: The share of users who play evenly.
        loss_optimism: In deviations of the noise that is left in losses.
        transition_optimism: In deviations of the noise that is left in transitions.

    Examples:
        >>> import discreet
        >>> discreet.learners.PerturbedLeader(feedback="full").name
        'perturbed-leader'
    """

    feedback: str = "bandit"
    floor: float = 0.02
    loss_optimism: float = 2.0
    transition_optimism: float = 0.25
    name: ClassVar[str] = "perturbed-leader"

    def __post_init__(self) -> None:
        check_name("feedback", self.feedback, FEEDBACK)
        check_open_unit("floor", self.floor)
        check_not_negative("loss_optimism", self.loss_optimism)
        check_not_negative("transition_optimism", self.transition_optimism)

    @property
    def needs(self) -> frozenset[str]:
        """Transitions, losses as the feedback shows them, and a recipe that serves estimates rather than bounds."""
        return frozenset({"transitions", FEEDBACK[self.feedback], ESTIMATES})

    def init(self, problem: Problem, coins: Stream) -> LeaderState:
        """Even play."""
        shape, layers = layers_of(problem)
        table = np.full((layers.states, layers.actions), 1.0 / layers.actions)
        per_row = np.zeros(unknown_rows(layers))
        return LeaderState(
            problem=problem,
            shape=shape,
            layers=layers,
            policy=deployed(shape, table),
            table=table,
            transitions=layers.uniform_transitions(),
            rows=Rows(np.zeros(layers.unknown), per_row, per_row, per_row),
            losses=untracked(table.shape, 0.5, _UNKNOWN),
            shown=np.zeros(layers.states),
            widest=np.zeros(layers.states),
            waiting=Waiting(np.zeros(layers.unknown), 0.0, np.zeros(table.shape), 0.0),
        )

    def update(self, state: LeaderState, release: Release) -> LeaderState:
        """Plan anew once enough users have been released; until then collect."""
        episodes = state.problem.episodes
        waiting = state.waiting
        if self.feedback == "bandit":
            seen, variance = _bandit_losses(state, release)
            waiting = waiting._replace(losses=waiting.losses + seen, loss_variance=waiting.loss_variance + variance)
        users = release.users - waiting.users
        if users * _PLANS < episodes and release.users < episodes:
            return state._replace(waiting=waiting)
        counts, count_variance = _flat_counts(state, release)
        rows, transitions, laws = self._learn_rows(state, counts, count_variance, users)
        reached = pair_occupancy(state.layers, occupancy(state.layers, transitions, state.table))
        if self.feedback == "full":
            losses, loss_variance = _table(state, release, "losses")
            seen, among = losses - waiting.losses, np.full(reached.shape, float(users))
            noise = grown(waiting.loss_variance, loss_variance)
        else:
            losses, loss_variance = np.zeros(reached.shape), 0.0
            among = users * reached
            signed = "signed_losses" in release.statistics
            seen, noise = (waiting.losses + (among / 2 if signed else 0.0)), waiting.loss_variance
        noisy = noise + _SAMPLING[self.feedback] * among
        tracked = track(state.losses, users, _DRIFT * users / episodes, seen, among, noisy)
        learned = state._replace(
            transitions=transitions,
            rows=rows,
            losses=tracked,
            waiting=Waiting(counts, count_variance, losses, loss_variance, release.users),
        )
        return self._planned(learned, laws, users)

    def _learn_rows(
        self, state: LeaderState, counts: Floats, variance: float, users: int
    ) -> tuple[Rows, Floats, list[LayerRows]]:
        """The sums with the counts since the last plan, the transitions cell by cell, and the rows behind them."""
        layers, waiting = state.layers, state.waiting
        if not layers.unknown:
            return state.rows, state.transitions, []
        visits = users * pair_occupancy(layers, occupancy(layers, state.transitions, state.table)).ravel()
        noise = grown(waiting.count_variance, variance)
        rows = add_counts(layers, state.rows, counts - waiting.counts, visits, noise)
        counted = share_counted(layers, counts, variance, waiting.users + users)
        laws = estimated_rows(layers, rows._replace(expected=counted * rows.expected, drawn=counted * rows.drawn))
        known = layers.uniform_transitions()[layers.unknown :]
        cells = [onto_simplex(shrink_rows(*layer).values).ravel() for layer in laws]
        return rows, np.concatenate([*cells, known]), laws

    def _planned(self, state: LeaderState, laws: list[LayerRows], users: int) -> LeaderState:
        """The policy after a block, and what the block has shown of the adversary."""
        layers, first = state.layers, state.layers.arrays.first
        served, tracked, group = state.waiting.users, state.losses, layers.layer[:-1]
        mean, error = shrink_nested(tracked.total / served, tracked.total_variance / served**2, group, _LEAST_SIGNAL)
        total, variance = served * np.clip(mean, 0.0, 1.0), served**2 * error
        block = users * np.clip(
            shrink_nested(tracked.level, tracked.level_variance, group, _LEAST_SIGNAL).values, 0.0, 1.0
        )
        table, shown, widest = np.empty_like(state.table), state.shown.copy(), state.widest.copy()
        values, block_values = np.zeros(1), np.zeros(1)
        for h, cells in reversed(list(enumerate(layers.split(state.transitions)))):
            here, old = slice(first[h], first[h + 1]), state.table[first[h] : first[h + 1]]
            following, doubt = cells @ values, np.zeros(old.shape)
            if h < len(laws):
                along, doubt = (part.reshape(old.shape) for part in value_of_rows(laws[h], values))
                following = (following + along) / 2
            cost = block[here] + cells @ block_values
            block_values = (old * cost).sum(axis=1)
            shown[here] += (old * (cost - block_values[:, None]) ** 2).sum(axis=1)
            widest[here] = np.maximum(widest[here], np.ptp(cost, axis=1))
            optimism = self.loss_optimism**2 * variance[here] + self.transition_optimism**2 * doubt
            leader = total[here] + following - np.sqrt(optimism)
            adversary = shown[here] / (4 * math.log(max(layers.actions, 2))) + (widest[here] / 4) ** 2
            spread = np.sqrt(adversary[:, None] + _TRANSITION_NOISE**2 * doubt + _LOSS_NOISE**2 * variance[here])
            chances = chances_of_smallest(leader, spread)
            table[here] = (1 - self.floor) * chances + self.floor / layers.actions
            values = (table[here] * leader).sum(axis=1)
        return state._replace(policy=deployed(state.shape, table), table=table, shown=shown, widest=widest)


def unknown_rows(layers: Layers) -> int:
    """How many pairs have unknown transitions: all but those of the last layer."""
    return layers.pairs - layers.sizes[-2] * layers.actions


def grown(before: float, now: float) -> float:
    """The variance of the noise in what was added between two releases.

    Noise of sums grows by what is added. That of a tree comes and goes: the two releases' own noise is a bound.
    """
    return now - before if now > before else now + before


def add_counts(layers: Layers, rows: Rows, counts: Floats, visits: Floats, noise: float) -> Rows:
    """The sums with one more block: its counts, the visits (pairs,) that were expected, and the noise of a count."""
    n = visits[: len(rows.expected)]
    weight = n / (n / 2 + noise + _TINY)
    widths = np.diff(layers.arrays.offset)[: len(n)]
    return Rows(
        rows.counts + np.repeat(weight, widths) * counts,
        rows.expected + weight * n,
        rows.noise + weight**2 * noise,
        rows.drawn + weight**2 * n,
    )


def share_counted(layers: Layers, counts: Floats, variance: float, users: int) -> float:
    """The share of steps that were counted: 1, unless users report one step only; 1, too, while noise hides it."""
    steps = users * (layers.horizon - 1)
    if math.sqrt(variance * layers.unknown) > _SURE * steps:
        return 1.0
    return float(np.clip(counts.sum() / steps, 0.5 / layers.horizon, 1.0))


def estimated_rows(layers: Layers, rows: Rows) -> list[LayerRows]:
    """Laws of all rows with their errors, layer by layer.

    Expected visits may be misjudged, and the sum of a row's counts shows them with noise: both are weighed.
    """
    first, offset, A = layers.arrays.first, layers.arrays.offset, layers.actions
    found = []
    for h in range(layers.horizon - 1):
        here, successors = slice(first[h] * A, first[h + 1] * A), layers.sizes[h + 1]
        counts = rows.counts[offset[here.start] : offset[here.stop]].reshape(-1, successors)
        expected, noise, drawn = rows.expected[here], rows.noise[here], rows.drawn[here]
        doubt, noise_of_sum = (_MISJUDGED * expected) ** 2, successors * noise + drawn
        weighed = (expected * noise_of_sum + counts.sum(axis=1) * doubt) / (noise_of_sum + doubt + _TINY)
        visits = np.maximum(weighed, _MISJUDGED * expected + 1e-9)
        laws = counts / visits[:, None]
        laws += (1 - laws.sum(axis=1, keepdims=True)) / successors
        chance = 1 / successors
        found.append(LayerRows(laws, (noise + drawn * chance * (1 - chance)) / visits**2))
    return found


def value_of_rows(rows: LayerRows, values: Floats) -> tuple[Floats, Floats]:
    """What follows the rows of a layer, P V, and its error variance: drawn together in the direction of V alone."""
    spread = float(((values - values.mean()) ** 2).sum())
    follows, errors = shrink_rows(rows.laws @ values, rows.errors * spread)
    return np.clip(follows, values.min(), values.max()), errors


def _flat_counts(state: LeaderState, release: Release) -> tuple[Floats, float]:
    """Counts of all users so far (unknown triples,), and the variance of the noise in one."""
    if not state.layers.unknown:
        return state.waiting.counts, 0.0
    estimate = release["transitions"]
    mask = state.shape.triple_mask
    return estimate.values[mask], float(estimate.variance.max())


def _table(state: LeaderState, release: Release, name: str) -> tuple[Floats, float]:
    """A statistic over pairs as (states, actions), and the variance of the noise in one entry."""
    estimate = release[name]
    return estimate.values[state.shape.pair_mask].reshape(state.table.shape), float(estimate.variance.max())


def _bandit_losses(state: LeaderState, release: Release) -> tuple[Floats, float]:
    """What the users since the last release lost where they went: above one half per visit if zeros are counted too."""
    if "signed_losses" in release.statistics:
        signed, variance = _table(state, release, "signed_losses")
        return signed / 2, variance / 4
    return _table(state, release, "observed_losses")
