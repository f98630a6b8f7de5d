"""Checks inside of private runs against adversaries: each simulates a few runs and looks at what no figure shows.

=====  =============================================================================================================
S1     without noise a private run is the non-private one, bit for bit
S6     the box of transitions holds the true ones at every episode
S8     with the theory's constants the boxes of a private run say nothing at practical sizes
=====  =============================================================================================================

Worlds are random layers, 1,4,4,4,1 with three actions, a fresh one for every run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from discreet.base.errors import of_kind
from discreet.base.policies import StochasticPolicy
from discreet.base.streams import Stream
from discreet.base.types import Floats
from discreet.learners.base import Problem
from discreet.mechanisms.release import Release, Request
from discreet.problems.adversarial.learners import UCOREPS, UOBLBPS, LayeredState
from discreet.problems.adversarial.recipes import silenced
from discreet.problems.adversarial.world import LayeredWorld, layered
from discreet.recipes.registry import build
from discreet.recipes.targets import Central, Local, NoPrivacy, Privacy
from discreet.simulation.block_loop import run_blocks
from experiments.papers.adversarial import PAPER
from experiments.papers.figure import Claim, Figure, Scale, Verdict


def _noise_off(scale: Scale) -> Verdict:
    world, K = of_kind(LayeredWorld, layered(instance=scale.seed)), min(scale.episodes, 500)
    differences = {}
    for learner, recipe in ((UCOREPS(), "loss-tables"), (UOBLBPS(), "observed-losses")):
        options = {"accumulator": "tree", "losses": "k-norm"} if recipe == "loss-tables" else {}
        target = Central(1.0, recipe=f"central/{recipe}", options=options)
        private = silenced(build(target, world.shape, K))
        plain = build(NoPrivacy(recipe=f"none/{recipe}"), world.shape, K)
        runs = [run_blocks(world, learner, p, K, scale.seed, 0, lambda _served: None) for p in (private, plain)]
        differences[learner.name] = float(np.abs(runs[0].regret - runs[1].regret).max())
    return Verdict(not any(differences.values()), numbers=differences)


def _boxes_hold(scale: Scale) -> Verdict:
    missed = {}
    for name, target in (("none", NoPrivacy()), ("central", Central(100.0)), ("local", Local(100.0))):
        seen = [_watched(scale, run, target).missed for run in range(scale.runs)]
        missed[f"runs with a miss, {name}"] = sum(seen)
    return Verdict(not any(missed.values()), numbers=missed)


def _vacuous(scale: Scale) -> Verdict:
    tree = Central(1.0, recipe="central/loss-tables", options={"accumulator": "tree"})
    shares = {
        name: _watched(scale, 0, target).vacuous for name, target in (("none", NoPrivacy()), ("central tree", tree))
    }
    return Verdict(shares["central tree"] == 1.0, numbers=shares)


CHECKS = Figure(
    "adversarial/checks",
    "Inside of private runs against adversaries, one check at a time",
    PAPER,
    (),
    {"quick": Scale(1_500, 3), "paper": Scale(5_000, 10)},
    (
        Claim("S1", "noise off equals no privacy", _noise_off),
        Claim("S6", "the box holds the true transitions in all runs", _boxes_hold),
        Claim("S8", "all private boxes are vacuous at epsilon 1", _vacuous),
    ),
)


class _Seen(NamedTuple):
    """A learner's state, whether its box ever missed the truth, and how much of the last box says nothing."""

    state: LayeredState
    missed: bool
    vacuous: float


@dataclass(frozen=True, eq=False)
class _Watcher:
    """A learner whose box is compared with the truth at every episode; the truth goes no further."""

    inner: UCOREPS
    transitions: Floats
    seen: list[_Seen]
    name: str = "watched"

    @property
    def needs(self) -> frozenset[str]:
        return self.inner.needs

    def init(self, problem: Problem, coins: Stream) -> _Seen:
        return _Seen(self.inner.init(problem, coins), False, 1.0)

    def ask(self, state: _Seen) -> Request:
        return self.inner.ask(state.state)

    def policy(self, state: _Seen) -> StochasticPolicy:
        return state.state.policy

    def recommend(self, state: _Seen) -> StochasticPolicy:
        return state.state.policy

    def update(self, state: _Seen, release: Release) -> _Seen:
        after = self.inner.update(state.state, release)
        lower, upper = after.box
        outside = ((self.transitions < lower - 1e-12) | (self.transitions > upper + 1e-12)).any()
        unknown = slice(0, after.layers.unknown)
        share = float(((upper - lower)[unknown] >= 1).mean())
        self.seen[:] = [_Seen(after, state.missed or bool(outside), share)]
        return self.seen[0]


def _watched(scale: Scale, run: int, privacy: Privacy) -> _Seen:
    world = of_kind(LayeredWorld, layered(instance=scale.seed + run))
    watcher = _Watcher(UCOREPS(), np.array(world.transitions), [])
    privatizer = build(privacy, world.shape, scale.episodes, watcher.needs)
    run_blocks(world, watcher, privatizer, scale.episodes, scale.seed, run, lambda _served: None)
    return watcher.seen[0]
