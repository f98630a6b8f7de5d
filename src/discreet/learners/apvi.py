r"""APVI: plan in the world that the data show, less a penalty for what they do not show.

Adaptive pessimistic value iteration (Yin and Wang 2021) on private counts, after DP-APVI of "Offline reinforcement
learning with differential privacy" (Qiao and Wang 2023), algorithm 1; docs/offline.md says how it differs. One
release of counts N(s, a, s') per step; backwards from
V_{H+1} = 0 (S states, A actions, H steps),

    q(s, a) = r + P V - Gamma,    pi(s) = argmax_a q(s, a),    V(s) = q clipped to what is possible.

Rewards r and values V are shares of the declared range; an early end is a successor
(:mod:`discreet.worlds.planning.reward_units`).

``penalty="noise"`` (default): r and P are drawn towards the state's averages as far as their noise demands, and Gamma
is ``penalty_scale`` times the standard deviation of q, noise and sampling together (:mod:`discreet.learners.evidence`).
With ``fallback`` what users did themselves is one more action, the one that the data know best: where no action is
surer to be better, the policy does what users did, as far as the released visits (or a declared behaviour) tell. By
induction the plan is worth no less than the behaviour, both less their penalties. Sparse releases have no table of all
successors: there Gamma is a tenth of the tight penalty below, and nothing falls back.

The other penalties are bounds, with P(s') = n(s') / n after a repair that makes counts non-negative and consistent.
``"tight"`` is valid for every repair: with b a bound on the noise in every count and W on that in their sum, E = b +
the largest change that the repair made to a count, k successors, R = max V - min V, d half of the failure probability
(the other half is for the noise),

    Gamma = sqrt(2 i / m) (sqrt(Var_P V) + R sqrt(k E / n)) + 7 R i / (3 m) + k E R / n,  m = n - W, i = ln(2HSA / d),

because (P - P_data) V = (1/n) sum_s' e(s') (V(s') - P_data V) exactly, with |e| <= E. Nothing is known of a row with
m <= 0: it is worth min V. ``"bernstein"`` and ``"hoeffding"`` are the penalties as printed,

    sqrt(2 Var_P V i / (n - E)) + 16 S H E i / n     and     sqrt(2) H sqrt(i / (n - E)) + 16 S H E i / n,

with E = 2 (b + that change) and counts below E unknown. Without noise b = W = E = 0 and all this is APVI.

Repairs (``repair``): ``"simplex"`` projects the counts on non-negative ones with the same sum; ``"gls"`` first weighs a
separately released table of visits against that sum by their variances; ``"projection"`` is the paper's min-max program
with slack b. ``"auto"`` takes gls where visits have a table of their own and simplex elsewhere.

Rewards are public, or released: then r = R / n clipped to [0, 1], less sqrt(i / 2m) + (W_R + W) / n.

**Formal guarantees.** Post-processing: no knob touches privacy. What a policy is worth at least, whichever penalty it
was found with, is computed apart from it (:mod:`discreet.learners.lower_bound`). The values of ``"noise"`` are
estimates. Those of ``"tight"`` at scale 1 are lower bounds of their policy if the values of a step are independent of
the table of the step before, which the papers argue for separate steps; with pooled steps they are not.

**Differences from the paper.** The default is no bound but a standard deviation, because bounds learn nothing from less
than tens of thousands of users. The argmax is over the unclipped q (clipping makes all bad actions tie and the lowest
number win); the union bound has the factor 2 of the two-sided inequality, and half of the failure probability, so
i = ln(4HSA / failure_probability); the term 7 R i / 3m stays, so that the limit without noise is APVI; bounds come from
the exact law of the noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from discreet.base.errors import check_name
from discreet.base.policies import MIXED, AnyPolicy, Policy, StochasticPolicy, uniform_policy
from discreet.base.shape import Shape
from discreet.base.streams import Stream
from discreet.base.types import Floats, Integers, Mask
from discreet.base.validation import check_flag, check_not_negative, check_open_unit
from discreet.learners.base import AsksOnce, PlannedState, Problem, Replans
from discreet.learners.evidence import evidence_of, limits_at, scores_at
from discreet.mechanisms.release import Release
from discreet.worlds.planning.count_projection import project_counts
from discreet.worlds.planning.reward_units import end_value, value_limits, widest_step

PENALTIES = ("noise", "tight", "bernstein", "hoeffding")
REPAIRS = ("auto", "simplex", "gls", "projection")
_OF_TIGHT = 0.1  # of the tight penalty, where a sparse release leaves nothing to compute deviations from


class Model(NamedTuple):
    """A world estimated from counts, rows over (group, state, action); successors may end with "the episode ended"."""

    probabilities: Any  # (G, S * A, k), or one sparse (S * A, k) per group
    successors: Floats  # (G, S * A): how many successors can carry an error
    counts: Floats  # (G, S * A): n, after the repair
    sum_width: Floats  # W: bound on the error of n
    cell_error: Floats  # E: bound on the error of one count
    rewards: Floats
    reward_width: Floats  # bound on the error of the rewards
    hidden: Floats  # the share of visits whose successors were too rare to be released


@dataclass(frozen=True)
class APVI(AsksOnce, Replans):
    """Pessimistic value iteration on one release of counts, per step or pooled, as the release is.

    Args:
        penalty: ``noise``, ``tight``, ``bernstein`` or ``hoeffding``.
        penalty_scale: Scale of the penalty.
        fallback: Do what users did where no action is surer to be better.
        repair: How counts are made consistent: ``auto``, ``simplex``, ``gls`` or ``projection``.
        ends: Episodes may end before the horizon: the end is then a successor, worth what zero is worth in shares of
            the declared range of rewards (:mod:`discreet.worlds.planning.reward_units`).
        failure_probability: With which a bound may not hold.

    Examples:
        >>> import discreet
        >>> world = discreet.worlds.river_swim(states=3, horizon=3)
        >>> result = discreet.simulate(world, discreet.learners.APVI(), episodes=50, behaviour="uniform")
        >>> result.value.shape
        (1,)
    """

    penalty: str = "noise"
    penalty_scale: float = 1.0
    fallback: bool = True
    repair: str = "auto"
    ends: bool = False
    failure_probability: float = 0.1
    name: ClassVar[str] = "apvi"
    needs: ClassVar[frozenset[str]] = frozenset({"visits", "transitions", "rewards", MIXED})

    def __post_init__(self) -> None:
        check_name("penalty", self.penalty, PENALTIES)
        check_name("repair", self.repair, REPAIRS)
        check_not_negative("penalty_scale", self.penalty_scale)
        check_flag("fallback", self.fallback)
        check_flag("ends", self.ends)
        check_open_unit("failure_probability", self.failure_probability)

    def plan(self, problem: Problem, coins: Stream, release: Release | None) -> PlannedState:
        """The pessimistic plan; whoever has no data yet plays uniformly. Coins are not needed: nothing is drawn."""
        shape = problem.shape
        values = np.zeros((shape.horizon + 1, shape.states))
        if release is None:
            return PlannedState(problem, coins, uniform_policy(shape), values)
        if self.penalty == "noise" and "threshold" not in release.statistics:
            policy, values, kept = self._by_deviations(shape, release)
            return PlannedState(problem, coins, policy, values, kept=kept)
        model = estimate_model(self, shape, release)
        actions = np.zeros((shape.horizon, shape.states), np.int64)
        for h in range(shape.horizon - 1, -1, -1):
            values[h], actions[h] = self._step(shape, model, h, values[h + 1])
        return PlannedState(problem, coins, Policy(actions), values)

    def _by_deviations(self, shape: Shape, release: Release) -> tuple[AnyPolicy, Floats, Mask]:
        """The plan less standard deviations, what it is worth without them, and where it does what users did."""
        H, S, A = shape.horizon, shape.states, shape.actions
        evidence = evidence_of(shape, release, self.ends)
        chosen, cautious = np.zeros((H, S), np.int64), np.zeros(S)
        for h in range(H - 1, -1, -1):
            scores = scores_at(shape, evidence, h, cautious, self.ends)
            options = np.column_stack([scores.behaviour, scores.actions])
            deviation = np.sqrt(np.column_stack([scores.behaviour_variance, scores.action_variance]))
            options = options - self.penalty_scale * deviation
            if not self.fallback:
                options[:, 0] = -np.inf
            chosen[h] = options.argmax(axis=1)
            cautious = np.clip(options.max(axis=1), *limits_at(shape, release, h, self.ends))
        values = np.zeros((H + 1, S))
        for h in range(H - 1, -1, -1):
            scores = scores_at(shape, evidence, h, values[h + 1], self.ends)
            options = np.column_stack([scores.behaviour, scores.actions])
            worth = np.take_along_axis(options, chosen[h][:, None], axis=1)[:, 0]
            values[h] = np.clip(worth, *limits_at(shape, release, h, self.ends))
        return _played(chosen, np.broadcast_to(evidence.behaviour, (H, S, A))), values, chosen == 0

    def _step(self, shape: Shape, model: Model, h: int, following: Floats) -> tuple[Floats, Integers]:
        """Pessimistic values and actions of one step."""
        g, left = h if shape.groups > 1 else 0, shape.horizon - h
        scale = self.penalty_scale * (_OF_TIGHT if self.penalty == "noise" else 1.0)
        P = model.probabilities[g]
        V = np.append(following, end_value(shape, left - 1))[: P.shape[1]]
        # What was too rare to leave a sparse release may have led to the worst state.
        mean = P @ V + model.hidden[g] * V.min()
        spread = np.maximum(P @ (V * V) - mean**2, 0.0)
        gamma, known = self._penalty(shape, model, g, V, spread)
        # What a row is worth if nothing is known about its successors: the least of them.
        reward = model.rewards[g] - scale * model.reward_width[g]
        q = (reward + mean - scale * gamma).reshape(shape.states, shape.actions)
        sure = np.maximum(reward, 0.0) + np.maximum(np.where(known, mean - scale * gamma, -np.inf), V.min())
        # Exact ties (nothing is known, or nothing matters) go to the action that was taken most often.
        tied = q >= q.max(axis=1, keepdims=True)
        actions = np.where(tied, model.counts[g].reshape(q.shape), -np.inf).argmax(axis=1)
        values = np.take_along_axis(sure.reshape(q.shape), actions[:, None], axis=1)[:, 0]
        return np.clip(values, *value_limits(shape, left, self.ends)), actions

    def _penalty(self, shape: Shape, model: Model, g: int, V: Floats, spread: Floats) -> tuple[Floats, Mask]:
        """Gamma of every row, and which rows anything is known about."""
        S, A, reach = shape.states, shape.actions, shape.horizon * widest_step(shape, self.ends)
        iota = math.log(2 * shape.horizon * S * A / (self.failure_probability / 2))
        n, W, E, k = model.counts[g], model.sum_width[g], model.cell_error[g], model.successors[g]
        R = float(V.max() - V.min())
        if self.penalty in ("tight", "noise"):
            known = (n - W > 0) & (n > 0)
            # Rows below one visit keep a finite penalty, so that the argmax still prefers what was seen more often.
            m, n = np.maximum(n - W, 0.5), np.maximum(n, 0.5)
            first = np.sqrt(2 * iota / m) * (np.sqrt(spread) + R * np.sqrt(k * E / n))
            return first + 7 * R * iota / (3 * m) + k * E * R / n, known
        E = 2 * E
        known = n > E
        m, n = np.maximum(n - E, 0.5), np.maximum(n, 0.5)
        first = np.sqrt(2 * iota * (spread if self.penalty == "bernstein" else reach * reach) / m)
        return np.where(known, first + 16 * S * reach * E * iota / n, 2.0 * reach), known


def _played(chosen: Integers, behaviour: Floats) -> AnyPolicy:
    """The policy of choices (H, S), where 0 is what users did, (H, S, A), and i the action i - 1."""
    table = np.where(chosen[:, :, None] == 0, behaviour, np.arange(1, behaviour.shape[2] + 1) == chosen[:, :, None])
    if (table.max(axis=2) == 1.0).all():
        return Policy(table.argmax(axis=2))
    return StochasticPolicy(table / table.sum(axis=2, keepdims=True))


def estimate_model(learner: APVI, shape: Shape, release: Release) -> Model:
    """Transitions, rewards and the bounds on their errors, from a release."""
    if "threshold" in release.statistics:
        return _sparse_model(learner, shape, release)
    G, rows, S = shape.groups, shape.states * shape.actions, shape.states
    tail = learner.failure_probability / 2 / (4 * G * rows)
    cells = count_cells(shape, release)
    noisy = release["transitions"].values.reshape(G, rows, S)
    visits = release["visits"].values.reshape(G, rows)
    if learner.ends:
        separate = "ends" in release.statistics
        ends = release["ends"].values.reshape(G, rows) if separate else visits - noisy.sum(axis=2)
        noisy = np.concatenate([noisy, ends[:, :, None]], axis=2)
    counts = _repaired(learner, noisy, visits, release)
    moved = np.abs(counts - np.maximum(noisy, 0.0)).max(axis=2)
    total, k = counts.sum(axis=2), noisy.shape[2]
    # Nothing is released about the successors of the last of separate steps, and nothing needs to be known.
    follows = cells.transition > 0
    rewards, reward_width = _rewards(learner, shape, release, visits, cells, tail)
    return Model(
        probabilities=counts / np.maximum(total, 1e-12)[:, :, None],
        successors=np.full((G, rows), float(k)),
        counts=total,
        sum_width=np.where(follows, _widths(release, cells.transition * k, tail), 0.0),
        cell_error=np.where(follows, _widths(release, cells.transition, tail / k) + moved, 0.0),
        rewards=rewards,
        reward_width=reward_width,
        hidden=np.zeros((G, rows)),
    )


def _sparse_model(learner: APVI, shape: Shape, release: Release) -> Model:
    """The same from a sparse release, without a table of all cells.

    Every row may have lost successors, each of fewer visits than the threshold. One threshold's worth of visits per row
    is taken to have led to the worst state: a heuristic, for more may be hidden.
    """
    G, rows, S = shape.groups, shape.states * shape.actions, shape.states
    tail = learner.failure_probability / 2 / (4 * G * rows)
    threshold = float(release["threshold"].values[0])
    table: Any = release["transitions"].values
    columns = S + 1 if learner.ends else S
    table = table[:, :columns]
    released = np.diff(table.indptr).astype(np.float64).reshape(G, rows)
    total = np.asarray(table.sum(axis=1)).reshape(G, rows)
    per_row = total + threshold
    scaled = (table.multiply(1 / per_row.reshape(-1, 1))).tocsr()
    follows = np.broadcast_to(np.arange(G)[:, None] < G - 1, (G, rows)) | (shape.homogeneous and shape.horizon > 1)
    bound = float(release.width(1, tail / max(1.0, released.max()))[0])
    cells = CountCells(*(np.maximum(released, 1.0).astype(np.int64) for _ in range(3)))
    visits = release["visits"].values.reshape(G, rows)
    rewards, reward_width = _rewards(learner, shape, release, visits, cells, tail)
    return Model(
        probabilities=[scaled[g * rows : (g + 1) * rows] for g in range(G)],
        successors=np.maximum(released, 1.0),
        counts=np.where(released > 0, total, 0.0),
        sum_width=np.where(follows, _widths(release, cells.visit, tail), 0.0),
        cell_error=np.where(follows, bound, 0.0),
        rewards=rewards,
        reward_width=reward_width,
        hidden=np.where(follows, threshold / per_row, 0.0),
    )


class CountCells(NamedTuple):
    """How many noisy cells a count of each kind sums, (G, S * A) each; never too few."""

    transition: Integers
    visit: Integers
    reward: Integers


def count_cells(shape: Shape, release: Release) -> CountCells:
    """The cells behind the counts: visits have a table of their own, or everything is a sum over one joint table."""
    rows = (shape.groups, shape.states * shape.actions)
    private = "rewards" in release.statistics
    follows = np.broadcast_to(np.arange(shape.groups) < shape.groups - 1, rows[::-1]).T | shape.homogeneous
    follows = follows & (shape.horizon > 1)
    if "ends" in release.statistics:
        return CountCells(follows * 1, np.full(rows, 1 + private), np.ones(rows, np.int64))
    successors = np.where(follows, shape.states + 1, 1)
    return CountCells(follows * (1 + private), successors * (1 + private), successors)


def _widths(release: Release, cells: Integers, tail: float) -> Floats:
    """A bound on the noise in sums of ``cells`` cells, each exceeded with probability ``tail`` at most."""
    out = np.zeros(cells.shape)
    for n in np.unique(cells[cells > 0]):
        width = release.width(int(n), tail)
        out = np.where(cells == n, width.reshape(cells.shape) if width.size == cells.size else width, out)
    return out


def _repaired(learner: APVI, noisy: Floats, visits: Floats, release: Release) -> Floats:
    """Counts that could be: non-negative, and in keeping with the visits."""
    separate, repair = "ends" in release.statistics, learner.repair
    if repair == "auto":
        repair = "gls" if separate else "simplex"
    k, sums = noisy.shape[2], noisy.sum(axis=2)
    if repair == "projection":
        slack = release.width(1, learner.failure_probability / 2 / noisy.size).max()
        return project_counts(noisy, visits if separate else sums, float(slack), truncate=True)
    if repair == "gls":
        single, own = (release[name].variance.reshape(len(noisy), -1) for name in ("transitions", "visits"))
        weight = np.where(single > 0, k * single / np.maximum(k * single + own, 1e-300), 0.0)
        noisy = noisy + (weight * (visits - sums) / k)[:, :, None]
        sums = noisy.sum(axis=2)
    return project_counts(noisy, np.maximum(sums, 0.0), 0.0)


def _rewards(
    learner: APVI, shape: Shape, release: Release, visits: Floats, cells: CountCells, tail: float
) -> tuple[Floats, Floats]:
    """Mean rewards in units of the declared range, and how far off they may be."""
    if "rewards" in release.public:
        known = release.public["rewards"].reshape(-1, visits.shape[1])
        return np.broadcast_to(known, visits.shape), np.zeros(visits.shape)
    released = release["rewards"].values.reshape(visits.shape)
    visit_width, reward_width = _widths(release, cells.visit, tail), _widths(release, cells.reward, tail)
    n, m = np.maximum(visits, 0.5), np.maximum(visits - visit_width, 0.5)
    iota = math.log(2 * shape.horizon * shape.states * shape.actions / (learner.failure_probability / 2))
    return np.clip(released / n, 0.0, 1.0), np.sqrt(iota / (2 * m)) + (reward_width + visit_width) / n
