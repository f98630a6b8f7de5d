r"""Learning against adversarial losses in layered worlds: four learners over occupancy measures.

Bai, Zeng, Zhao, Duan, Talebi, Cheng, Chen, "Differentially private no-regret exploration in adversarial MDPs",
algorithms 1 and 2, on top of Rosenberg and Mansour (2019) and Jin et al. (2020). An occupancy measure q fixes a policy
pi(a|x) = q(x,a) / q(x); each episode plays that of a q that minimises losses plus a regulariser over all q whose
transitions lie in a confidence box (:mod:`discreet.problems.adversarial.transition_box`).

=======  ============================================================================================================
X, A, d  states (of all layers but the last), actions, and pairs of them: d = X A
H, K     steps of an episode, which is one less than layers; episodes of the run
m, R     users per release, releases of the run: R = K / m
q, L, l  an occupancy measure, the losses of all users summed, the mean losses of the users since the last release
eta, V   the learning rate, and the variance of the noise in an entry of L or l
iota     2 C K / p with C unknown transition probabilities and the failure probability p, as in the box
=======  ============================================================================================================

* ``UCOREPS`` (full information): with summed losses L of all users so far

      q_{k+1} = argmin  <L, q> + (1/eta) sum q ln q,      eta = sqrt(ln(X A / H) / K) / sqrt(1 + V / users),

  V the variance of the noise in an entry of L (zero without privacy): losses of noise variance V / users per user.
* ``UOBLBPS`` (bandit): each release holds the losses of the m users since the last one, seen where they went and noisy
  everywhere. With l their mean, R = K / m releases and V the variance of the noise in l,

      l_hat = clip(l, -1 / (2 eta), u + 1 / (2 eta)) / u,      q_{k+1} = argmin  <l_hat, q> + (1/eta) D(q || q_k),
      eta = sqrt( X ln(iota) / (R (H / d + V)) ),

  D the divergence of the log barrier and u(x,a) the largest probability of (x,a) under any transitions of the box.
* ``UOBREPS``, the non-private counterpart by Jin et al.: relative entropy instead of the barrier, l / (u + gamma).
* ``OREPS``: known transitions, full information; a reference for what not knowing them costs.

**The law of a block.** A policy is held for m users, so one step of mirror descent costs m episodes. The barrier gives

    regret <= m ( X^2 A ln(iota) / eta  +  eta R sum_{x,a} E l(x,a)^2 ),      sum_{x,a} E l(x,a)^2 <= H + d V,

because visited losses are at most one and a user visits one pair per layer; eta above makes both terms equal, which
leaves 2 sqrt(X^2 A ln(iota) K (m H + d v / m)) with v = m^2 V the noise of one release: m = sqrt(v d / H) is best.
Releases that also count bits that are not lost (``signed_losses``) give l - 1/2 in place of l, whose squares sum to
H / 4 and whose noise is smaller. Subtracting one half from all losses of a layer leaves every difference as it is; the
estimate that stays optimistic is (l - 1/2 + q_low / 2) / u, where q_low is at most the true probability of the pair.

**Why clip at 1 / (2 eta).** The argument for the barrier needs eta q l_hat >= -1/2, and q <= u, so this clip makes it
true whatever the noise does; a rate small enough for the largest noise of a whole run would stand still. Clipping from
below alone would leave an offset of the same size in every l, and dividing it by u makes rare pairs look expensive (the
mistake below). Clipping at u and as much above leaves noise of either sign alike: it draws l_hat towards one half.

**Formal guarantees.** Everything is post-processing of releases; no knob touches privacy. Boxes are intersected over
time (``nested``), which follow-the-leader arguments need; a row that would become empty starts again.

**Differences from the paper.** The published loss estimate (``estimator="published"``) adds E' to every loss, a bound
on all noise of a run, and divides by 2 E' + 1, so that all pairs look half lost however rarely they are seen; dividing
by u then makes rare pairs look expensive, the policy locks in, and regret grows linearly against an adversary that
changes its mind. Here nothing is added. The paper's rate counts d losses of one where H are seen.
The width of the box is corrected (``width``), and rates account for the variance of the noise. ``bonus_scale`` below
one multiplies the noise bound and the logarithm of the box; it is a heuristic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from discreet.base.errors import InvalidInput, Unsupported, check_name
from discreet.base.policies import StochasticPolicy
from discreet.base.shape import LayeredShape
from discreet.base.streams import Stream
from discreet.base.types import Floats
from discreet.base.validation import check_array, check_open_unit, check_positive
from discreet.learners.base import HoldsPolicy, Problem
from discreet.mechanisms.release import Release
from discreet.problems.adversarial.barrier_program import solve_barrier_program
from discreet.problems.adversarial.entropy_program import leader_reference, mirror_reference, solve_entropy_program
from discreet.problems.adversarial.layers import Box, Layers, intersect, occupancy
from discreet.problems.adversarial.transition_box import (
    box_of,
    check_width,
    counts_of,
    first_box,
    log_term,
    upper_occupancy,
    vacuous_share,
)

ESTIMATORS = ("corrected", "published")
RATES = ("noise", "published")
_LARGEST_FAILURE = 0.05
_RAREST = 1e-12  # a loss is never divided by less
_MOST = 0.5  # of the unknown probabilities, above which a run says that its boxes are vacuous


class LayeredState(NamedTuple):
    """What these learners remember between releases."""

    problem: Problem
    shape: LayeredShape
    layers: Layers
    failure: float
    box: Box  # of the episode that is being played
    policy: StochasticPolicy
    table: Floats  # (states, actions) the same policy over all states
    occupancy: Floats  # flat: q_k
    dual: Floats | None  # warm start of the entropy program
    served: int = 0  # users in all releases so far


class Observed(NamedTuple):
    """What the users since the last release lost where they went, per user."""

    mean: Floats  # (states, actions)
    variance: float  # of the noise in it
    size: float  # the largest absolute value of one user's entry
    rounds: float  # how many such releases a run has


@dataclass(frozen=True)
class BoxKnobs(HoldsPolicy):
    """How the box of transitions is built; shared by the learners that do not know them."""

    width: str = "corrected"
    bonus_scale: float = 1.0
    nested: bool = True
    failure_probability: float | None = None

    def __post_init__(self) -> None:
        check_width(self.width)
        check_positive("bonus_scale", self.bonus_scale)
        if self.failure_probability is not None:
            check_open_unit("failure_probability", self.failure_probability)

    def init(self, problem: Problem, coins: Stream) -> LayeredState:
        """The occupancy of even play in even transitions."""
        return first_state(problem, self.failure_probability, None)

    def _narrowed(self, state: LayeredState, release: Release) -> Box:
        """The box after a release."""
        layers, episodes = state.layers, state.problem.episodes
        if not layers.unknown:
            return state.box
        counts = counts_of(release, state.shape, layers, episodes, state.failure, self.bonus_scale)
        log = self.bonus_scale * log_term(self.width, layers, episodes, state.failure)
        fresh = box_of(self.width, layers, counts, log)
        return intersect(layers, state.box, fresh) if self.nested else fresh

    def remark(self, state: LayeredState) -> str:
        """Says so where the box of the last release leaves all or most transition probabilities open."""
        open_share = vacuous_share(state.layers, state.box)
        if open_share <= _MOST:
            return ""
        part = "all" if open_share == 1 else "most"
        return (
            f"its confidence boxes are vacuous: they leave {part} transition probabilities anywhere in [0, 1], so that "
            "it learned from losses alone; perturbed-leader plans with estimates instead"
        )


@dataclass(frozen=True)
class UCOREPS(BoxKnobs):
    """Follow the regularised leader with relative entropy; needs every user's whole loss table.

    ``rate="published"`` is the printed sqrt(ln(X A / H) / K), which does not know how noisy losses are.

    Args:
        width: How wide the boxes of transitions are: ``corrected``, ``published``, ``l1`` or ``jin``.
        bonus_scale: Multiplies the width; below one a heuristic.
        nested: Intersect boxes over time.
        failure_probability: Of the boxes.
        rate_scale: Multiplies the learning rate.
        rate: ``noise`` (knows how noisy losses are) or ``published``.

    Examples:
        >>> import discreet
        >>> discreet.learners.UCOREPS(bonus_scale=0.5).name
        'uc-o-reps'
    """

    rate_scale: float = 1.0
    rate: str = "noise"
    name: ClassVar[str] = "uc-o-reps"
    needs: ClassVar[frozenset[str]] = frozenset({"transitions", "losses"})

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("rate_scale", self.rate_scale)
        check_name("rate", self.rate, RATES)

    def update(self, state: LayeredState, release: Release) -> LayeredState:
        """The leader over the narrowed box."""
        noisy = self.rate == "noise"
        return follow_the_leader(state, release, self._narrowed(state, release), self.rate_scale, noisy=noisy)


@dataclass(frozen=True)
class UOBLBPS(BoxKnobs):
    """Mirror descent with a log barrier on losses divided by upper occupancy bounds; needs observed losses only.

    Args:
        width: How wide the boxes of transitions are: ``corrected``, ``published``, ``l1`` or ``jin``.
        bonus_scale: Multiplies the width; below one a heuristic.
        nested: Intersect boxes over time.
        failure_probability: Of the boxes.
        estimator: ``corrected`` or ``published``: how losses are estimated.
        rate_scale: Multiplies the learning rate.

    Examples:
        >>> import discreet
        >>> discreet.learners.UOBLBPS(estimator="published").name
        'uob-lbps'
    """

    estimator: str = "corrected"
    rate_scale: float = 1.0
    name: ClassVar[str] = "uob-lbps"
    needs: ClassVar[frozenset[str]] = frozenset({"transitions", "observed_losses"})

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("rate_scale", self.rate_scale)
        check_name("estimator", self.estimator, ESTIMATORS)

    def update(self, state: LayeredState, release: Release) -> LayeredState:
        """One step of mirror descent for all users since the last release."""
        layers, K = state.layers, state.problem.episodes
        X, H, d = layers.states, layers.horizon, layers.pairs
        reach = np.maximum(upper_occupancy(layers, state.table, state.box), 1.0 / (X * K))
        u = np.maximum(state.table * reach[:, None], _RAREST)
        if self.estimator == "published":
            observed = observe(state, release)
            bound = math.sqrt(observed.variance / 2) * math.log(d * observed.rounds / state.failure)
            rate = self.rate_scale * math.sqrt(X / observed.rounds)
            estimate = (np.clip(observed.mean, -bound, 1 + bound) + bound) / (2 * bound + 1) / u
        else:
            observed = observe(state, release, signed="signed_losses" in release.statistics)
            log = log_term("corrected", layers, K, state.failure)
            second_moment = observed.size**2 * H / d + observed.variance
            rate = self.rate_scale * math.sqrt(X * log / (observed.rounds * second_moment))
            ceiling = observed.size * u + 0.5 / rate if observed.variance > 0 else math.inf
            estimate = np.clip(observed.mean, -0.5 / rate, ceiling) / u
            if observed.size < 1:
                estimate += (1 - observed.size) * state.table * lower_reach(layers, reach)[:, None] / u
        box = self._narrowed(state, release)
        solution = solve_barrier_program(layers, estimate, rate, state.occupancy, box)
        return _with_solution(state, release, box, solution.policy, solution.occupancy, None)


@dataclass(frozen=True)
class UOBREPS(BoxKnobs):
    """Mirror descent with relative entropy on implicitly explored losses (Jin et al. 2020); without privacy only.

    Args:
        width: How wide the boxes of transitions are: ``corrected``, ``published``, ``l1`` or ``jin``.
        bonus_scale: Multiplies the width; below one a heuristic.
        nested: Intersect boxes over time.
        failure_probability: Of the boxes.

    Examples:
        >>> import discreet
        >>> discreet.learners.UOBREPS().width
        'jin'
    """

    width: str = "jin"
    name: ClassVar[str] = "uob-reps"
    needs: ClassVar[frozenset[str]] = frozenset({"transitions", "observed_losses"})

    def update(self, state: LayeredState, release: Release) -> LayeredState:
        """One step of mirror descent for all users since the last release; refuses noise."""
        layers, observed = state.layers, observe(state, release)
        if observed.variance > 0:
            raise Unsupported("UOB-REPS is proved for losses of at least 0, which noise breaks: use UOB-LBPS")
        H, d = layers.horizon, layers.pairs
        rate = math.sqrt(H * math.log(H * d / state.failure) / (observed.rounds * d))
        reach = upper_occupancy(layers, state.table, state.box)
        estimate = observed.mean / (state.table * reach[:, None] + rate)
        box = self._narrowed(state, release)
        solution = solve_entropy_program(layers, mirror_reference(layers, state.occupancy, estimate, rate), box)
        return _with_solution(state, release, box, solution.policy, solution.occupancy, solution.dual)


@dataclass(frozen=True, eq=False)
class OREPS(HoldsPolicy):
    """Follow the regularised leader in known transitions (flat over (x, a, x')): a reference, not a competitor.

    Without ``transitions`` a simulation tells it those of the world of each run.

    Args:
        transitions: Flat over (x, a, x').
        rate_scale: Multiplies the learning rate.

    Examples:
        >>> import discreet
        >>> world = discreet.worlds.river_layers(states=3, horizon=4)
        >>> discreet.learners.OREPS(world.transitions).name
        'o-reps'
    """

    transitions: Floats | None = None
    rate_scale: float = 1.0
    name: ClassVar[str] = "o-reps"
    needs: ClassVar[frozenset[str]] = frozenset({"losses"})

    def in_world(self, world: Any) -> OREPS:
        """The same learner with the transitions of this world, unless it was given others."""
        known = isinstance(world.shape, LayeredShape) and self.transitions is None
        return replace(self, transitions=np.array(world.transitions)) if known else self

    def init(self, problem: Problem, coins: Stream) -> LayeredState:
        """The occupancy of even play in the known transitions, which are a box without width."""
        layers_of(problem)
        if self.transitions is None:
            raise InvalidInput("o-reps knows the transitions: give transitions=, or simulate it in a layered world")
        return first_state(problem, None, self.transitions)

    def update(self, state: LayeredState, release: Release) -> LayeredState:
        """The leader among the occupancy measures of the known transitions."""
        return follow_the_leader(state, release, state.box, self.rate_scale)


def first_state(problem: Problem, failure_probability: float | None, known: Floats | None) -> LayeredState:
    """Even play, in the known transitions or in even ones."""
    shape, layers = layers_of(problem)
    box = first_box(layers)
    if known is not None:
        box = Box(*(np.array(check_array("transitions", known, (layers.triples,))) for _ in range(2)))
    usual = min(layers.pairs / problem.episodes, _LARGEST_FAILURE)
    table = np.full((layers.states, layers.actions), 1.0 / layers.actions)
    q = occupancy(layers, layers.uniform_transitions() if known is None else box.lower, table)
    failure = usual if failure_probability is None else failure_probability
    return LayeredState(
        problem=problem,
        shape=shape,
        layers=layers,
        failure=failure,
        box=box,
        policy=deployed(shape, table),
        table=table,
        occupancy=q,
        dual=None,
    )


def layers_of(problem: Problem) -> tuple[LayeredShape, Layers]:
    """The shape of a layered problem and its layout; other problems are refused."""
    shape = problem.shape
    if not isinstance(shape, LayeredShape):
        raise Unsupported(
            "this learner needs a layered world: make one with discreet.worlds.layered, or unroll a tabular one"
        )
    return shape, Layers(shape.sizes, shape.actions)


def follow_the_leader(
    state: LayeredState, release: Release, box: Box, scale: float, *, noisy: bool = True
) -> LayeredState:
    """The entropy program at the summed losses, at a rate that knows of their noise or does not.

    The last solution is a warm start.
    """
    layers, estimate = state.layers, release["losses"]
    losses = estimate.values[state.shape.pair_mask].reshape(layers.states, layers.actions)
    per_user = float(estimate.variance.max()) / release.users if noisy else 0.0
    # ln(d / H) is zero where every layer has one pair; there is nothing to choose then, and any rate will do.
    eta = scale * math.sqrt(max(math.log(layers.pairs / layers.horizon), 1e-3) / state.problem.episodes)
    reference = leader_reference(layers, losses, eta / math.sqrt(1 + per_user))
    solution = solve_entropy_program(layers, reference, box, start=state.dual)
    if not solution.converged and state.dual is not None:
        solution = solve_entropy_program(layers, reference, box)
    return _with_solution(state, release, box, solution.policy, solution.occupancy, solution.dual)


def observe(state: LayeredState, release: Release, signed: bool = False) -> Observed:
    """The losses since the last release, or with ``signed`` what they are above one half."""
    estimate = release["signed_losses" if signed else "observed_losses"]
    values = estimate.values[state.shape.pair_mask].reshape(state.layers.states, state.layers.actions)
    users = release.users - state.served
    unit = users * (2 if signed else 1)
    variance = float(estimate.variance.max()) / unit**2
    return Observed(values / unit, variance, 0.5 if signed else 1.0, state.problem.episodes / users)


def lower_reach(layers: Layers, reach: Floats) -> Floats:
    """At most the probability of each state: what the others of its layer leave over at their most."""
    first = layers.arrays.first
    whole = np.add.reduceat(reach, first[:-2])
    return np.maximum(0.0, 1.0 - np.repeat(whole, np.diff(first[:-1])) + reach)


def _with_solution(
    state: LayeredState, release: Release, box: Box, table: Floats, q: Floats, dual: Floats | None
) -> LayeredState:
    """The state after a release whose program was solved by this policy and its occupancy."""
    policy = deployed(state.shape, table)
    return state._replace(box=box, policy=policy, table=table, occupancy=q, dual=dual, served=release.users)


def deployed(shape: LayeredShape, table: Floats) -> StochasticPolicy:
    """A policy over (step, state in its layer, action); states that a layer does not have play evenly."""
    probabilities = np.full((shape.horizon, shape.states, shape.actions), 1.0 / shape.actions)
    probabilities[shape.pair_mask] = (table / table.sum(axis=1, keepdims=True)).ravel()
    return StochasticPolicy(probabilities)
