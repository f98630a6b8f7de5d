"""Policy elimination: explore with all policies that may still be the best, and drop those that cannot be.

Qiao, Yin, Min and Wang, "Sample-efficient reinforcement learning with loglog(T) switching cost" (2022), and its
shuffle-private form SDP-PE (Bai, Talebi, Zhao, Cheng and Chen), Algorithms 1 to 3. Stage b has 3 L_b users, L_b = 2^b:

1. *crude exploration*: for each step h, L_b / H users play, for a (state, action) drawn uniformly, the active policy
   that visits it most in the model estimated so far, and layer h alone is released. Transitions that do not stand out
   of the noise are absorbed (:mod:`discreet.problems.elimination.absorbing_model`);
2. *fine exploration*: 2 L_b users play half the crude policies and half the mixture of active policies that minimises
   the worst coverage ratio (:mod:`discreet.problems.elimination.coverage_design`); all layers are released and
   estimated;
3. *elimination*: policies that are worse than the best by more than the error are dropped
   (:mod:`discreet.problems.elimination.active_sets`).

=======  ============================================================================================================
X, A     states and actions
H, K     steps of an episode, episodes of the run
b, L_b   the stage, and the users of its crude exploration
q, E     the width of the noise in a count (a quantile), and the papers' error bound E = 4 q
iota     ln(2 H A K / failure probability)
=======  ============================================================================================================

The learner dictates how many users every request has, and asks for one layer where one is enough, which costs a private
release far less noise.

**Formal guarantees.** None of the knobs touches privacy. With the published constants and without noise the optimal
policy survives with probability 1 - failure_probability (up to a gap in the published proof, which bounds one policy
and claims all); with the defaults that is an observation, not a theorem. At most H + 1 mixtures are deployed in each of
at most log2(K/6 + 1) + 1 stages; users follow more deterministic policies than that, since each draws a component.

**Differences from the paper.** The last stage gets the users that are left (the printed rule makes it empty). The fine
exploration policy is a mixture, as its analysis needs. Both halves of a fine batch are one mixture, so the number of
users of each half is binomial. The last step has no transitions. ``lean`` also skips the crude batch of the last step,
which nothing is estimated from, and replaces exploration in the last stage by the best estimate, since nobody is left
who could profit from elimination. ``forgetting=False`` pools all batches by inverse variance; forgetting them, as the
paper does, buys no privacy. Scales below one are heuristics: at the usual benchmark sizes the published constants
eliminate nobody. ``PolicyElimination.published()`` has the constants of the paper.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, ClassVar, NamedTuple

import numpy as np

from discreet.base.errors import InvalidInput, Unsupported, check_name
from discreet.base.policies import MIXED, Mixture, Policy
from discreet.base.shape import Shape
from discreet.base.streams import Stream
from discreet.base.types import Floats, Mask
from discreet.base.validation import check_count, check_not_negative, check_open_unit
from discreet.learners.base import Problem
from discreet.mechanisms.release import LAYERS, Layer, Release, Request
from discreet.problems.elimination.absorbing_model import (
    REPAIRS,
    Counts,
    Model,
    absorbed,
    counts_of,
    estimate,
    last_batch,
    no_counts,
    pool,
    start_law,
)
from discreet.problems.elimination.active_sets import RULES, ActiveSet, Candidates, Rule, all_policies


class EliminationState(NamedTuple):
    """Where a run stands: its stage and step, what was released, the model of the stage, and who is left."""

    problem: Problem
    support: Mask  # (H, X)
    stages: tuple[int, ...]  # L of each
    stage: int
    step: int  # of the crude exploration; its number of steps stands for the fine one
    served: int
    active: ActiveSet
    released: Counts  # everything so far
    pooled: Counts
    model: Model  # of this stage
    lost: Mask  # (H, X, A, X): absorbed in this stage
    crude: tuple[Candidates, ...]
    request: Request


@dataclass(frozen=True)
class PolicyElimination:
    """SDP-PE, and policy elimination without privacy, on released counts of every step.

    Args:
        rule: How policies are dropped: ``sink``, ``data`` or ``paper``
            (:mod:`discreet.problems.elimination.active_sets`).
        statistical_scale: Of the error of sampling; the paper's is 1.
        privacy_scale: Of the error of the noise; the paper's is 1.
        threshold: How many widths of noise a transition must exceed not to be absorbed; None takes the paper's 6 E H^2
            iota.
        repair: How counts become probabilities: ``clip`` or ``program``.
        forgetting: Use the last batch only, as the paper does.
        lean: Leave out batches that nothing is estimated from.
        first_batch: Users L of the crude exploration of the first stage.
        one_layer: False asks for whole tables in crude batches too, for recipes that release nothing narrower.
        support: (H, X) declares publicly which states can be reached at each step; by default all but those other than
            a public start state.
        failure_probability: With which a bound may not hold.

    Examples:
        >>> import discreet
        >>> discreet.learners.PolicyElimination.published().forgetting
        True
    """

    rule: str = "sink"
    statistical_scale: float = 0.1
    privacy_scale: float = 0.1
    threshold: float | None = 0.25
    repair: str = "clip"
    forgetting: bool = False
    lean: bool = True
    first_batch: int = 2
    one_layer: bool = True
    support: tuple[tuple[bool, ...], ...] | None = None
    failure_probability: float = 0.1
    name: ClassVar[str] = "policy-elimination"
    needs: ClassVar[frozenset[str]] = frozenset({"visits", "transitions", "rewards", MIXED, LAYERS})

    def __post_init__(self) -> None:
        for what, value, known in (("rule", self.rule, RULES), ("repair", self.repair, REPAIRS)):
            check_name(what, value, known)
        check_not_negative("statistical_scale", self.statistical_scale)
        check_not_negative("privacy_scale", self.privacy_scale)
        if self.threshold is not None:
            check_not_negative("threshold", self.threshold)
        check_count("first_batch", self.first_batch)
        check_open_unit("failure_probability", self.failure_probability)

    @classmethod
    def published(cls, **knobs: Any) -> PolicyElimination:
        """The constants and the repairs of the paper, where no knob says otherwise."""
        paper = {
            "rule": "paper",
            "statistical_scale": 1.0,
            "privacy_scale": 1.0,
            "threshold": None,
            "repair": "program",
            "forgetting": True,
            "lean": False,
        }
        return cls(**{**paper, **knobs})

    def init(self, problem: Problem, coins: Stream) -> EliminationState:
        """All policies are active and everything is absorbed; refuses worlds whose steps are pooled."""
        shape = problem.shape
        if shape.homogeneous and shape.horizon > 1:
            raise Unsupported(
                "policy elimination estimates every step by itself: declare the world per step "
                "(world.with_time(False), --per-step)"
            )
        support = self._support(shape)
        rows = (shape.horizon, shape.states, shape.actions)
        nothing = no_counts(*rows)
        state = EliminationState(
            problem=problem,
            support=support,
            stages=tuple(stage_sizes(problem.episodes, self.first_batch)),
            stage=0,
            step=0,
            served=0,
            active=all_policies(support, shape.actions, np.random.default_rng(coins)),
            released=nothing,
            pooled=nothing,
            model=_blind_model(shape, nothing),
            lost=np.ones((*rows, shape.states), np.bool_),
            crude=(),
            request=Request(Policy(np.zeros(rows[:2], np.int64))),
        )
        return self._with_request(state)

    def ask(self, state: EliminationState) -> Request:
        """The request that was made with the state: its policy, how many users, and which layer."""
        return state.request

    def policy(self, state: EliminationState) -> Policy:
        """The active policy with the best estimate; what is deployed while exploring is in the request."""
        return Policy(state.active.best())

    def recommend(self, state: EliminationState) -> Policy:
        """The same: the best active policy by its estimate."""
        return self.policy(state)

    def update(self, state: EliminationState, release: Release) -> EliminationState:
        """What the last batch adds to the model of the stage, and the next request."""
        now = counts_of(release)
        batch = last_batch(now, state.released)
        pooled = batch if self.forgetting else pool(state.pooled, batch)
        served = state.served + (state.request.users or 0)
        state = state._replace(released=now, pooled=pooled, served=served)
        if state.stage >= self._exploring(state):
            return self._with_request(state)
        return self._with_request(
            self._after_crude_batch(state) if state.step < self._crude_steps(state) else self._after_fine_batch(state)
        )

    def _after_crude_batch(self, state: EliminationState) -> EliminationState:
        """After a crude batch: what it says about its step."""
        h, (problem, counts) = state.step, (state.problem, state.pooled)
        z = self._quantile(state)
        lost = state.lost.copy()
        lost[h] = absorbed(counts, z, self._threshold(problem), self.repair)[h]
        start = _start(problem.shape, state.released)
        found = estimate(counts, lost, start, state.support, z, self.repair)
        transitions = state.model.transitions.copy()
        transitions[h] = found.transitions[h]
        return state._replace(model=state.model._replace(transitions=transitions, start=start), lost=lost, step=h + 1)

    def _after_fine_batch(self, state: EliminationState) -> EliminationState:
        """After a fine batch: the model of all steps, and who is left."""
        shape = state.problem.shape
        start = _start(shape, state.released)
        model = estimate(state.pooled, state.lost, start, state.support, self._quantile(state), self.repair)
        rule = Rule(self.rule, self.statistical_scale, self.privacy_scale, self._log_term(state.problem))
        active = state.active.eliminate(model, rule, state.stages[state.stage])
        return state._replace(
            active=active,
            stage=state.stage + 1,
            step=0,
            crude=(),
            lost=np.ones_like(state.lost),
            model=_blind_model(shape, state.released),
        )

    def _with_request(self, state: EliminationState) -> EliminationState:
        """The next request: a crude layer, a fine batch, or the best policy for everybody who is left."""
        left = state.problem.episodes - state.served
        if state.stage >= self._exploring(state):
            return state._replace(request=Request(self.policy(state), max(1, left)))
        size, steps = state.stages[state.stage], self._crude_steps(state)
        users = shares(size, steps)
        while state.step < steps:
            h = state.step
            found = state.active.crude(state.model, h)
            state = state._replace(crude=(*state.crude, found))
            if users[h]:
                what = Layer(h) if self.one_layer else None
                return state._replace(request=Request(mixture([found]), users[h], what))
            state = state._replace(step=h + 1)
        crude = list(state.crude)
        if steps < state.problem.shape.horizon:
            crude.append(state.active.crude(state.model, steps))
        everybody = Candidates(*(np.concatenate(fields) for fields in zip(*crude, strict=True)))
        covering = state.active.cover(state.model, everybody)
        fine = Candidates(covering.actions[:, None], covering.weights[:, None])
        return state._replace(request=Request(mixture([everybody, fine]), 3 * size - sum(users)))

    def _exploring(self, state: EliminationState) -> int:
        """How many stages explore."""
        return max(0, len(state.stages) - self.lean)

    def _crude_steps(self, state: EliminationState) -> int:
        """How many steps have a crude batch of their own."""
        return state.problem.shape.horizon - self.lean

    def _log_term(self, problem: Problem) -> float:
        """iota = ln(2 H A K / failure probability)."""
        shape = problem.shape
        return math.log(2 * shape.horizon * shape.actions * problem.episodes / self.failure_probability)

    def _quantile(self, state: EliminationState) -> float:
        """How many standard deviations no count of any stage exceeds, but with the failure probability."""
        S, A, H = state.problem.shape.states, state.problem.shape.actions, state.problem.shape.horizon
        counters = H * S * A * (S + 2) * max(1, len(state.stages))
        return NormalDist().inv_cdf(1 - self.failure_probability / (2 * counters))

    def _threshold(self, problem: Problem) -> float:
        """The threshold of absorption in widths q; the paper has 6 E H^2 iota with E = 4 q."""
        if self.threshold is not None:
            return self.threshold
        return 24.0 * problem.shape.horizon**2 * self._log_term(problem)

    def _support(self, shape: Shape) -> Mask:
        """The declared support, or all states but those other than a public start state."""
        if self.support is None:
            support = np.ones((shape.horizon, shape.states), np.bool_)
            if shape.start is not None:
                support[0] = np.arange(shape.states) == shape.start
            return support
        support = np.asarray(self.support, dtype=np.bool_)
        if support.shape != (shape.horizon, shape.states) or not support.any(axis=1).all():
            raise InvalidInput(
                f"support must be a mask of {shape.horizon} steps and {shape.states} states, with a state at every "
                f"step; got shape {support.shape}"
            )
        return support


def stage_sizes(episodes: int, first: int = 2) -> list[int]:
    """L of every stage: doubling from ``first``, the last one what is left. Stage b takes three times L_b users.

    >>> stage_sizes(20_000)
    [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 2572]
    """
    sizes, left, size = [], episodes, first
    while left >= 3:
        size = min(size, left // 3)
        if left - 3 * size < 3:
            size = left // 3
        sizes.append(size)
        left -= 3 * size
        size *= 2
    return sizes


def shares(users: int, parts: int) -> list[int]:
    """Whole numbers that add up to ``users``, as equal as can be."""
    return [users // parts + (i < users % parts) for i in range(parts)]


def mixture(parts: list[Candidates]) -> Mixture | Policy:
    """All candidates with their weights, each part with the same total, as one mixture of distinct policies."""
    actions = np.concatenate([part.actions.reshape(-1, *part.actions.shape[2:]) for part in parts])
    weights = np.concatenate([part.weights.reshape(-1) / part.weights.sum() for part in parts])
    distinct, where = np.unique(actions[weights > 0], axis=0, return_inverse=True)
    shares = np.bincount(where.reshape(-1), weights=weights[weights > 0])
    if len(distinct) == 1:
        return Policy(distinct[0])
    return Mixture(tuple(Policy(table) for table in distinct), shares / shares.sum())


def _start(shape: Shape, released: Counts) -> Floats:
    """The law of the first state: public, or estimated."""
    return start_law(released) if shape.start is None else np.eye(shape.states)[shape.start]


def _blind_model(shape: Shape, released: Counts) -> Model:
    """A stage begins with everything absorbed."""
    rows = (shape.horizon, shape.states, shape.actions)
    return Model(
        transitions=np.zeros((*rows, shape.states)),
        rewards=np.zeros(rows),
        visits=np.ones(rows),
        widths=np.zeros(rows),
        start=_start(shape, released),
    )
