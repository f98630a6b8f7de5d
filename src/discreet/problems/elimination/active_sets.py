"""The policies that elimination has left, listed one by one where that can be done and by one constraint beyond.

``Listed`` keeps a mark for each of up to 2^22 classes of policies
(:mod:`discreet.problems.elimination.policy_factors`). ``Constrained`` keeps the newest test instead: all mixtures of
policies that pass it on average (:mod:`discreet.problems.elimination.implicit_set`). Both answer the same three
questions: which policies reach a (state, action) most, which mixture covers everything, and who is left after a test.

Who fails a test, with V the value in the model of the stage and L its users:

    paper   V <= max V - 2 xi,   xi = C1 sqrt(X A H^3 iota / L) + C2 X^3 A H^5 E iota / L
    data    V + rad < max (V - rad),   rad = C1 (sqrt(2 iota Var V(1/N)) + iota V(1/N)) + C2 V(q/N)
    sink    V + rad + bias < max (V - rad),   bias = what the policy loses to the sink, at most

C1 and C2 are the scales of statistical and of privacy error, V(f) the expected sum of f along the policy's path, N the
visits and q the width of the noise in them. A constraint needs one radius for all policies, so ``Constrained`` takes
the largest V(1/N) and V(q/N) of any policy and v (H - v), with v the best value, for the variance of a return. The bias
is linear in the occupancies, so it stays each policy's own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from discreet.base.types import Floats, Integers, Mask
from discreet.problems.elimination.absorbing_model import Model
from discreet.problems.elimination.coverage_design import Design, atoms, coverage_design
from discreet.problems.elimination.implicit_set import ImplicitSet
from discreet.problems.elimination.policy_factors import LIMIT, PolicyFactors, count_classes
from discreet.worlds.planning.backward_induction import best_policy

RULES = ("paper", "data", "sink")


class Rule(NamedTuple):
    """When a policy is eliminated."""

    name: str
    statistical_scale: float
    privacy_scale: float
    log_term: float


_TINY = 1e-12  # what decides between equals, and between nobody else


class Candidates(NamedTuple):
    """One point of the set for each (state, action) of a step: mixtures of m deterministic policies."""

    actions: Integers  # (n, m, H, X)
    weights: Floats  # (n, m)


class ActiveSet(Protocol):
    """The policies that may still be the best, and what a stage does with them."""

    def crude(self, model: Model, step: int) -> Candidates:
        """For each (x, a), what visits (step, x, a) most; of the model only earlier steps are looked at."""

    def cover(self, model: Model, found: Candidates) -> Design:
        """The mixture that visits as evenly as possible whatever the candidates can visit."""

    def eliminate(self, model: Model, rule: Rule, users: int) -> ActiveSet:
        """Who is left after a test in this model, learned from a stage of ``users`` users."""

    def best(self) -> Integers:
        """The actions (H, X) of the policy with the highest estimated value."""


def all_policies(support: Mask, actions: int, coins: np.random.Generator) -> ActiveSet:
    """Everybody, in the form that the number of policies allows. ``coins`` are public and decide between equals."""
    H, X = support.shape
    if count_classes(support, actions) > LIMIT:
        nothing = np.zeros((H, X, actions))
        return Constrained(np.zeros((H, X, actions, X)), nothing, nothing, _TINY * coins.random(nothing.shape))
    factors = PolicyFactors(support, actions)
    ties = _TINY * coins.random(factors.count)
    return Listed(factors, np.ones(factors.count, np.bool_), np.zeros(factors.count), ties, ties)


@dataclass(frozen=True, eq=False)
class Listed:
    """A mark per class of policies, with estimated values and the scores that decide between equals."""

    factors: PolicyFactors
    active: Mask
    values: Floats
    scores: Floats
    ties: Floats  # far below any difference that means something: among equals a random one wins

    def crude(self, model: Model, step: int) -> Candidates:
        """One class of active policies per (x, a) that any of them can visit."""
        found = self.factors.crude(model.transitions, model.start, self.active, self.scores, step)
        classes = found.classes[found.classes >= 0]
        return Candidates(self.factors.decode(classes)[:, None], np.ones((len(classes), 1)))

    def cover(self, model: Model, found: Candidates) -> Design:
        """A design over the listed policies that are active."""
        actions = np.unique(found.actions, axis=0)
        initial = atoms(actions, np.ones(actions.shape[:2]), model.transitions, model.start)
        return coverage_design(self.factors.oracle(model.transitions, model.start, self.active), initial)

    def eliminate(self, model: Model, rule: Rule, users: int) -> Listed:
        """Drop the classes whose upper bound is below the best lower one, or by the paper's radius."""
        factors, (P, r, visits, widths, start) = self.factors, model
        if rule.name == "paper":
            values = factors.values(P, start, r)
            bar = factors.best(values, self.active)[1] - 2 * published_radius(model, rule, users)
            return replace(self, active=self.active & (values > bar), values=values, scores=values + self.ties)
        values, variances = factors.return_variances(P, start, r, r * (1 - r))
        radii = factors.radii(
            P,
            start,
            visits,
            widths,
            variances,
            log_term=rule.log_term,
            scale=rule.statistical_scale,
            width_scale=rule.privacy_scale,
        )
        _, bar = factors.best(values - radii, self.active)
        upper = values + radii
        if rule.name == "sink":
            upper += factors.sink_bias(P, start)
        # Where the model is blind its values are ties, and what might be good is then the better guess.
        scores = (upper if rule.name == "sink" else values) + self.ties
        return replace(self, active=self.active & (upper >= bar), values=values, scores=scores)

    def best(self) -> Integers:
        """The actions of the active class with the highest estimated value."""
        return self.factors.decode(self.factors.best(self.values + self.ties, self.active)[0])


@dataclass(frozen=True, eq=False)
class Constrained:
    """All mixtures whose value for ``upper`` is within ``slack`` of the best for ``rewards``, in the newest model."""

    transitions: Floats
    rewards: Floats
    upper: Floats  # rewards plus what the sink may hide
    ties: Floats  # far below any reward: among equals a random one wins
    slack: float = math.inf

    def crude(self, model: Model, step: int) -> Candidates:
        """Mixtures of two policies: one alone may not reach the constraint."""
        found = self._within(model, step).crude(step)
        H, X = self.rewards.shape[:2]
        return Candidates(found.actions.reshape(-1, 2, H, X), found.weights.reshape(-1, 2))

    def cover(self, model: Model, found: Candidates) -> Design:
        """A design by an oracle over the constrained set, within a factor 1.2 of the best."""
        initial = atoms(found.actions, found.weights, model.transitions, model.start)
        return coverage_design(self._within(model, len(self.rewards)).maximise, initial, target=1.2)

    def eliminate(self, model: Model, rule: Rule, users: int) -> Constrained:
        """Replace the constraint by that of the new model; it does not remember earlier ones."""
        upper = model.rewards
        if rule.name == "sink":
            lost = np.maximum(1.0 - model.transitions.sum(axis=-1), 0.0)
            upper = upper + lost * np.arange(len(lost) - 1, -1, -1.0)[:, None, None]
        radius = published_radius(model, rule, users) if rule.name == "paper" else common_radius(model, rule)
        return Constrained(model.transitions, model.rewards, upper, self.ties, 2 * radius)

    def best(self) -> Integers:
        """The actions of the optimal policy of the newest model."""
        return _best(self.transitions, self.rewards + self.ties)[1]

    def _within(self, model: Model, step: int) -> ImplicitSet:
        """The constraint with the steps before ``step`` as the current stage knows them, later ones as the last did.

        The two models disagree about the best value, and by as much about everybody's: the slack grows by that.
        """
        P = np.concatenate([model.transitions[:step], self.transitions[step:]])
        if math.isinf(self.slack):
            return ImplicitSet(P, model.start, self.rewards, 0.0)
        newest, before = (float(model.start @ _best(p, self.rewards)[0]) for p in (P, self.transitions))
        minimum = newest - self.slack - abs(newest - before)
        attainable = float(model.start @ _best(P, self.upper)[0])
        return ImplicitSet(P, model.start, self.upper, min(max(minimum, 0.0), attainable))


def published_radius(model: Model, rule: Rule, users: int) -> float:
    """xi of the paper, with the error bound E = 4 q."""
    H, X, A = model.rewards.shape
    statistical = math.sqrt(X * A * H**3 * rule.log_term / users)
    privacy: float = X**3 * A * H**5 * 4 * float(model.widths.max()) * rule.log_term / users
    return rule.statistical_scale * statistical + rule.privacy_scale * privacy


def common_radius(model: Model, rule: Rule) -> float:
    """A radius for all policies at once, from the data that was met."""
    P, start, H = model.transitions, model.start, len(model.rewards)
    value, spread, noise = (
        float(start @ _best(P, rewards)[0])
        for rewards in (model.rewards, 1.0 / model.visits, model.widths / model.visits)
    )
    variance = max(0.0, value * (H - value))
    statistical = math.sqrt(2 * rule.log_term * variance * spread) + rule.log_term * spread
    return rule.statistical_scale * statistical + rule.privacy_scale * noise


def _best(transitions: Floats, rewards: Floats) -> tuple[Floats, Integers]:
    """The highest values at the first step, and the policy that has them."""
    policy, values = best_policy(transitions, rewards, len(rewards))
    return values[0], np.array(policy.actions)
