"""Adversarial losses: the paper has no experiments, so its statements are checked one by one, on its own setting.

Each check simulates layered worlds (sizes 1,4,4,4,1, three actions, fresh worlds per run, paired seeds) and returns a
verdict with the numbers it rests on. ``check_statements("quick")`` takes about a minute on one core.

=====  =============================================================================================================
S1     without noise a private run is the non-private one, bit for bit
S2     regret without privacy <= central <= local, at equal epsilon
S3     regret falls as epsilon grows
S4     full information <= bandit feedback, without privacy
S5     full-information regret grows like the square root of the number of episodes
S6     the box of transitions holds the true ones at every episode
S7     the published bandit estimate has linear regret against an adversary that changes its mind, the corrected has not
S8     with the theory's constants the boxes of a private run say nothing at practical sizes
S9     regret rises with the effective support C_M of the transitions where all else is equal
=====  =============================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from discreet.adversarial.layers import Layers
from discreet.adversarial.learners import OREPS, UCOREPS, UOBLBPS, LayeredState
from discreet.adversarial.loop import run_adversarial
from discreet.adversarial.recipes import silenced
from discreet.adversarial.world import LayeredWorld, Recorded, layered
from discreet.errors import unknown_name
from discreet.learners.base import Learner, Problem
from discreet.policies import StochasticPolicy
from discreet.recipes.registry import build
from discreet.recipes.trust import Central, Local, NoPrivacy, Privacy
from discreet.release import Release, Request
from discreet.reproduce.adversarial_kinds import kinds_world
from discreet.simulation.run import simulate
from discreet.streams import Stream
from discreet.types import Floats


@dataclass(frozen=True)
class Verdict:
    """One statement, whether the runs agree with it, and the numbers."""

    name: str
    statement: str
    holds: bool
    numbers: dict[str, Any]


class Scale(NamedTuple):
    """How much to run."""

    episodes: int
    runs: int
    growing: tuple[int, ...]  # episodes of the growth checks
    seed: int
    threads: int | None


SCALES = {"quick": (1500, 3, (500, 2000)), "paper": (20_000, 10, (5000, 20_000, 80_000))}


def check_statements(scale: str = "quick", *, seed: int = 0, threads: int | None = None) -> tuple[Verdict, ...]:
    """All verdicts at a scale, ``quick`` or ``paper``."""
    if scale not in SCALES:
        raise unknown_name("scale", scale, SCALES)
    sizes = Scale(*SCALES[scale], seed, threads)
    return tuple(check(sizes) for check in CHECKS.values())


def noise_off(sizes: Scale) -> Verdict:
    world, K = layered(instance=sizes.seed), min(sizes.episodes, 500)
    assert isinstance(world, LayeredWorld)
    differences = {}
    for learner, recipe in ((UCOREPS(), "loss-tables"), (UOBLBPS(), "observed-losses")):
        options = {"accumulator": "tree", "losses": "k-norm"} if recipe == "loss-tables" else {}
        target = Central(1.0, recipe=f"central/{recipe}", options=options)
        private = silenced(build(target, world.shape, K))
        plain = build(NoPrivacy(recipe=f"none/{recipe}"), world.shape, K)
        runs = [run_adversarial(world, learner, p, K, sizes.seed, 0, lambda _served: None) for p in (private, plain)]
        differences[learner.name] = float(np.abs(runs[0].regret - runs[1].regret).max())
    return Verdict("S1", "noise off equals no privacy", not any(differences.values()), differences)


def trust_models(sizes: Scale) -> Verdict:
    targets: dict[str, Privacy] = {"none": NoPrivacy(), "central": Central(3.0), "local": Local(3.0)}
    means = {name: _regret(sizes, layered(), UCOREPS(), target) for name, target in targets.items()}
    ordered = means["none"] <= means["central"] <= means["local"]
    return Verdict("S2", "no privacy <= central <= local at epsilon 3", ordered, means)


def epsilons(sizes: Scale) -> Verdict:
    means = {f"epsilon {e:g}": _regret(sizes, layered(), UCOREPS(), Central(e)) for e in (0.3, 3.0, 30.0)}
    values = list(means.values())
    return Verdict("S3", "regret falls as epsilon grows", values == sorted(values, reverse=True), means)


def feedback(sizes: Scale) -> Verdict:
    means = {learner.name: _regret(sizes, layered(), learner, NoPrivacy()) for learner in (UCOREPS(), UOBLBPS())}
    return Verdict("S4", "full information <= bandit", means["uc-o-reps"] <= means["uob-lbps"], means)


def square_root(sizes: Scale) -> Verdict:
    means = {
        K: _regret(sizes._replace(episodes=K), layered(adversary="fixed"), UCOREPS(), NoPrivacy())
        for K in sizes.growing
    }
    slope = float(np.polyfit(np.log(list(means)), np.log(list(means.values())), 1)[0])
    numbers = {**{f"K {K}": mean for K, mean in means.items()}, "slope": slope}
    return Verdict("S5", "log-log slope about 0.5, below 0.75", 0.25 < slope < 0.75, numbers)


def boxes_hold(sizes: Scale) -> Verdict:
    missed = {}
    for name, target in (("none", NoPrivacy()), ("central", Central(100.0)), ("local", Local(100.0))):
        seen = [_watched(sizes, run, target).missed for run in range(sizes.runs)]
        missed[f"runs with a miss, {name}"] = sum(seen)
    return Verdict("S6", "the box holds the true transitions in all runs", not any(missed.values()), missed)


def changing_mind(sizes: Scale) -> Verdict:
    numbers: dict[str, Any] = {}
    ratios = {}
    for estimator in ("corrected", "published"):
        means = []
        for K in sizes.growing:
            tables = np.full((K, 1, 3), 0.5)
            tables[: K // 4, 0, 0] = tables[K // 4 :, 0, 1] = 0.0
            world = LayeredWorld("arms", Layers((1, 1), 3), np.ones(3), Recorded(tables))
            target = Central(10.0, recipe="central/observed-losses")
            means.append(_regret(sizes._replace(episodes=K), world, UOBLBPS(estimator=estimator), target))
            numbers[f"{estimator}, K {K}"] = means[-1]
        ratios[estimator] = means[-1] / means[-2]
    times = sizes.growing[-1] / sizes.growing[-2]
    last = f"K {sizes.growing[-1]}"
    holds = ratios["published"] > 0.8 * times and 3 * numbers[f"corrected, {last}"] < numbers[f"published, {last}"]
    return Verdict(
        "S7", "the published estimate is linear, the corrected one is not", holds, {**numbers, "growth": ratios}
    )


def vacuous(sizes: Scale) -> Verdict:
    tree = Central(1.0, recipe="central/loss-tables", options={"accumulator": "tree"})
    shares = {
        name: _watched(sizes, 0, target).vacuous for name, target in (("none", NoPrivacy()), ("central tree", tree))
    }
    return Verdict("S8", "all private boxes are vacuous at epsilon 1", shares["central tree"] == 1.0, shares)


def effective_support(sizes: Scale) -> Verdict:
    """Paired worlds that differ in C_M only; the regret of a learner who knows the transitions must not rise."""
    learners: dict[str, Callable[[LayeredWorld], Learner]] = {
        "uc-o-reps": lambda _world: UCOREPS(),
        "uob-lbps": lambda _world: UOBLBPS(),
        "known transitions": lambda world: OREPS(np.array(world.transitions)),
    }
    pairs = [[kinds_world(sizes.seed + run, wide) for wide in (False, True)] for run in range(sizes.runs)]
    numbers: dict[str, Any] = {"C_M": {world.name: world.effective_support().total for world in pairs[0]}}
    resolved = {}
    for name, learner in learners.items():
        regret = np.array([[_one_run(sizes, world, learner(world)) for world in pair] for pair in pairs])
        rise = regret[:, 1] - regret[:, 0]
        error = float(rise.std(ddof=1) / np.sqrt(sizes.runs))
        narrow, wide = regret.mean(axis=0)
        numbers[name] = {"narrow": narrow, "wide": wide, "rise": rise.mean(), "standard error": error}
        resolved[name] = bool(rise.mean() > 2 * error)
    statement = "regret rises with C_M where all else is equal, full information and bandit, by two standard errors"
    holds = resolved["uc-o-reps"] and resolved["uob-lbps"] and not resolved["known transitions"]
    return Verdict("S9", statement, holds, numbers)


CHECKS: dict[str, Callable[[Scale], Verdict]] = {
    "S1": noise_off,
    "S2": trust_models,
    "S3": epsilons,
    "S4": feedback,
    "S5": square_root,
    "S6": boxes_hold,
    "S7": changing_mind,
    "S8": vacuous,
    "S9": effective_support,
}


def _regret(sizes: Scale, world: Any, learner: Learner, privacy: Privacy) -> float:
    result = simulate(
        world, learner, privacy, episodes=sizes.episodes, runs=sizes.runs, seed=sizes.seed, threads=sizes.threads
    )
    return float(result.total_regret.mean())


def _one_run(sizes: Scale, world: LayeredWorld, learner: Learner) -> float:
    return float(simulate(world, learner, episodes=sizes.episodes, seed=sizes.seed, threads=1).total_regret[0])


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

    def update(self, state: _Seen, release: Release) -> _Seen:
        after = self.inner.update(state.state, release)
        lower, upper = after.box
        outside = ((self.transitions < lower - 1e-12) | (self.transitions > upper + 1e-12)).any()
        unknown = slice(0, after.layers.unknown)
        share = float(((upper - lower)[unknown] >= 1).mean())
        self.seen[:] = [_Seen(after, state.missed or bool(outside), share)]
        return self.seen[0]


def _watched(sizes: Scale, run: int, privacy: Privacy) -> _Seen:
    world = layered(instance=sizes.seed + run)
    assert isinstance(world, LayeredWorld)
    watcher = _Watcher(UCOREPS(), np.array(world.transitions), [])
    privatizer = build(privacy, world.shape, sizes.episodes, watcher.needs)
    run_adversarial(world, watcher, privatizer, sizes.episodes, sizes.seed, run, lambda _served: None)
    return watcher.seen[0]
