"""Adversarial losses: Private-UC-O-REPS and Private-UOB-LBPS in layered worlds, in a figure and in statements.

Bai, Zeng, Zhao, Duan, Talebi, Cheng, Chen have no experiments. The **experiment** is the figure that their theorems
describe, against a switching adversary. The **statements** are checked one by one: each check simulates layered worlds
(sizes 1,4,4,4,1, three actions, fresh worlds per run, paired seeds) and returns a verdict with the numbers it rests on.

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
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from discreet.adversarial.catalogue import kinds_world
from discreet.adversarial.layers import Layers
from discreet.adversarial.learners import OREPS, UCOREPS, UOBLBPS, LayeredState
from discreet.adversarial.recipes import silenced
from discreet.adversarial.world import LayeredWorld, Recorded, layered
from discreet.learners.base import Learner, Problem
from discreet.policies import StochasticPolicy
from discreet.recipes.registry import build
from discreet.recipes.trust import Central, Local, NoPrivacy, Privacy
from discreet.release import Release, Request
from discreet.reproduce.figure import VERSIONS, Claim, Figure, Job, Scale, Verdict, View, all_of, below, standard_error
from discreet.simulation.block_loop import run_blocks
from discreet.simulation.run import simulate
from discreet.streams import Stream
from discreet.types import Floats

PAPER = "Differentially private no-regret exploration in adversarial Markov decision processes"
EPSILONS = (1.0, 10.0)
_FEEDBACK = {
    "full": ("uc-o-reps", "full information", "loss-tables"),
    "bandit": ("uob-lbps", "bandit", "observed-losses"),
}
_MODELS = {"jdp": ("central", "JDP"), "ldp": ("local", "LDP")}


def _private(version: str, feedback: str, trust: str, epsilon: float) -> Job:
    learner, word, statistic = _FEEDBACK[feedback]
    model, letters = _MODELS[trust]
    recipes = {"published": f"{model}/{statistic}-published", "certified": f"{model}/{statistic}", "ours": "auto"}
    as_in_the_paper = version == "certified" and recipes[version] == "central/loss-tables"
    tree: dict[str, Any] = {"accumulator": "tree"} if as_in_the_paper else {}
    return Job(
        version, f"{feedback} {trust} {epsilon:g}", f"{word}, {letters}, ε={epsilon:g}", "layered", learner, model,
        epsilon, recipe=recipes[version], recipe_options=tree,
    )  # fmt: skip


def _privacy_costs(view: View) -> Verdict:
    return all_of(
        below(view[feedback].total, view[f"{feedback} {trust} {e:g}"].total, f"{feedback}, {trust}, ε={e:g}")
        for feedback in _FEEDBACK
        for trust in _MODELS
        for e in EPSILONS
    )


def _local_costs_more(view: View) -> Verdict:
    return all_of(
        below(view[f"{feedback} jdp {e:g}"].total, view[f"{feedback} ldp {e:g}"].total, f"{feedback}, ε={e:g}")
        for feedback in _FEEDBACK
        for e in EPSILONS
    )


def _falls_with_epsilon(view: View) -> Verdict:
    low, high = EPSILONS
    return all_of(
        below(view[f"{name} {high:g}"].total, view[f"{name} {low:g}"].total, name)
        for name in (f"{feedback} {trust}" for feedback in _FEEDBACK for trust in _MODELS)
    )


def _full_information_helps(view: View) -> Verdict:
    return below(view["full"].total, view["bandit"].total, "without privacy")


EXPERIMENT = Figure(
    "adversarial/experiment",
    "Private learning against a switching adversary, full information and bandit feedback",
    PAPER,
    (
        *(
            Job("reference", feedback, f"{word}, no privacy", "layered", learner)
            for feedback, (learner, word, _) in _FEEDBACK.items()
        ),
        *(
            _private(version, feedback, trust, e)
            for version in VERSIONS
            for feedback in _FEEDBACK
            for trust in _MODELS
            for e in EPSILONS
        ),
    ),
    {"quick": Scale(1_000, 4), "paper": Scale(20_000, 10)},
    (
        Claim("privacy costs", "no privacy has less regret than JDP and LDP", _privacy_costs),
        Claim(
            "local costs more", "JDP has less regret than LDP", _local_costs_more,
            "for few users a sampled coordinate of the loss table, sent by everybody, is quieter than a tree of tables",
        ),
        Claim(
            "less privacy, less regret", "regret falls with epsilon", _falls_with_epsilon,
            "confidence boxes of a private run say nothing at this number of users, whatever epsilon is",
        ),
        Claim("information helps", "full information has less regret than bandit feedback", _full_information_helps),
    ),
    differences=(
        "The paper has no experiments: the world, the adversary and the sizes are this library's.",
        "Certified and ours use the corrected estimate of bandit losses; the printed one has linear regret.",
    ),
)  # fmt: skip


def _noise_off(scale: Scale) -> Verdict:
    world, K = layered(instance=scale.seed), min(scale.episodes, 500)
    assert isinstance(world, LayeredWorld)
    differences = {}
    for learner, recipe in ((UCOREPS(), "loss-tables"), (UOBLBPS(), "observed-losses")):
        options = {"accumulator": "tree", "losses": "k-norm"} if recipe == "loss-tables" else {}
        target = Central(1.0, recipe=f"central/{recipe}", options=options)
        private = silenced(build(target, world.shape, K))
        plain = build(NoPrivacy(recipe=f"none/{recipe}"), world.shape, K)
        runs = [run_blocks(world, learner, p, K, scale.seed, 0, lambda _served: None) for p in (private, plain)]
        differences[learner.name] = float(np.abs(runs[0].regret - runs[1].regret).max())
    return Verdict(not any(differences.values()), numbers=differences)


def _trust_models(scale: Scale) -> Verdict:
    targets: dict[str, Privacy] = {"none": NoPrivacy(), "central": Central(3.0), "local": Local(3.0)}
    means = {name: _regret(scale, layered(), UCOREPS(), target) for name, target in targets.items()}
    ordered = means["none"] <= means["central"] <= means["local"]
    return Verdict(ordered, numbers=means)


def _epsilons(scale: Scale) -> Verdict:
    means = {f"epsilon {e:g}": _regret(scale, layered(), UCOREPS(), Central(e)) for e in (0.3, 3.0, 30.0)}
    values = list(means.values())
    return Verdict(values == sorted(values, reverse=True), numbers=means)


def _feedback(scale: Scale) -> Verdict:
    means = {learner.name: _regret(scale, layered(), learner, NoPrivacy()) for learner in (UCOREPS(), UOBLBPS())}
    return Verdict(means["uc-o-reps"] <= means["uob-lbps"], numbers=means)


def _square_root(scale: Scale) -> Verdict:
    means = {
        K: _regret(replace(scale, episodes=K), layered(adversary="fixed"), UCOREPS(), NoPrivacy())
        for K in scale.growing
    }
    slope = float(np.polyfit(np.log(list(means)), np.log(list(means.values())), 1)[0])
    numbers = {**{f"K {K}": mean for K, mean in means.items()}, "slope": slope}
    return Verdict(0.25 < slope < 0.75, numbers=numbers)


def _boxes_hold(scale: Scale) -> Verdict:
    missed = {}
    for name, target in (("none", NoPrivacy()), ("central", Central(100.0)), ("local", Local(100.0))):
        seen = [_watched(scale, run, target).missed for run in range(scale.runs)]
        missed[f"runs with a miss, {name}"] = sum(seen)
    return Verdict(not any(missed.values()), numbers=missed)


def _changing_mind(scale: Scale) -> Verdict:
    numbers: dict[str, Any] = {}
    ratios = {}
    for estimator in ("corrected", "published"):
        means = []
        for K in scale.growing:
            tables = np.full((K, 1, 3), 0.5)
            tables[: K // 4, 0, 0] = tables[K // 4 :, 0, 1] = 0.0
            world = LayeredWorld("arms", Layers((1, 1), 3), np.ones(3), Recorded(tables))
            target = Central(10.0, recipe="central/observed-losses")
            means.append(_regret(replace(scale, episodes=K), world, UOBLBPS(estimator=estimator), target))
            numbers[f"{estimator}, K {K}"] = means[-1]
        ratios[estimator] = means[-1] / means[-2]
    times = scale.growing[-1] / scale.growing[-2]
    last = f"K {scale.growing[-1]}"
    holds = ratios["published"] > 0.8 * times and 3 * numbers[f"corrected, {last}"] < numbers[f"published, {last}"]
    return Verdict(holds, numbers={**numbers, "growth": ratios})


def _vacuous(scale: Scale) -> Verdict:
    tree = Central(1.0, recipe="central/loss-tables", options={"accumulator": "tree"})
    shares = {
        name: _watched(scale, 0, target).vacuous for name, target in (("none", NoPrivacy()), ("central tree", tree))
    }
    return Verdict(shares["central tree"] == 1.0, numbers=shares)


def _effective_support(scale: Scale) -> Verdict:
    """Paired worlds that differ in C_M only; the regret of a learner who knows the transitions must not rise."""
    learners: dict[str, Callable[[LayeredWorld], Learner]] = {
        "uc-o-reps": lambda _world: UCOREPS(),
        "uob-lbps": lambda _world: UOBLBPS(),
        "known transitions": lambda world: OREPS(np.array(world.transitions)),
    }
    pairs = [[kinds_world(scale.seed + run, wide) for wide in (False, True)] for run in range(scale.runs)]
    numbers: dict[str, Any] = {"C_M": {world.name: world.effective_support().total for world in pairs[0]}}
    resolved = {}
    for name, learner in learners.items():
        regret = np.array([[_one_run(scale, world, learner(world)) for world in pair] for pair in pairs])
        rise = regret[:, 1] - regret[:, 0]
        error = float(standard_error(rise))
        narrow, wide = regret.mean(axis=0)
        numbers[name] = {"narrow": narrow, "wide": wide, "rise": rise.mean(), "standard error": error}
        resolved[name] = bool(rise.mean() > 2 * error)
    holds = resolved["uc-o-reps"] and resolved["uob-lbps"] and not resolved["known transitions"]
    return Verdict(holds, numbers=numbers)


STATEMENTS = Figure(
    "adversarial/statements",
    "What is said about private learning against adversaries, one statement at a time",
    PAPER,
    (),
    {"quick": Scale(1_500, 3, (500, 2_000)), "paper": Scale(20_000, 10, (5_000, 20_000, 80_000))},
    (
        Claim("S1", "noise off equals no privacy", _noise_off),
        Claim("S2", "no privacy <= central <= local at epsilon 3", _trust_models),
        Claim("S3", "regret falls as epsilon grows", _epsilons),
        Claim("S4", "full information <= bandit", _feedback),
        Claim("S5", "log-log slope about 0.5, below 0.75", _square_root),
        Claim("S6", "the box holds the true transitions in all runs", _boxes_hold),
        Claim("S7", "the published estimate is linear, the corrected one is not", _changing_mind),
        Claim("S8", "all private boxes are vacuous at epsilon 1", _vacuous),
        Claim(
            "S9", "regret rises with C_M where all else is equal, full information and bandit, by two standard errors",
            _effective_support,
        ),
    ),
)  # fmt: skip


def _regret(scale: Scale, world: Any, learner: Learner, privacy: Privacy) -> float:
    result = simulate(world, learner, privacy, episodes=scale.episodes, runs=scale.runs, seed=scale.seed)
    return float(result.total_regret.mean())


def _one_run(scale: Scale, world: LayeredWorld, learner: Learner) -> float:
    return float(simulate(world, learner, episodes=scale.episodes, seed=scale.seed, threads=1).total_regret[0])


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
    world = layered(instance=scale.seed + run)
    assert isinstance(world, LayeredWorld)
    watcher = _Watcher(UCOREPS(), np.array(world.transitions), [])
    privatizer = build(privacy, world.shape, scale.episodes, watcher.needs)
    run_blocks(world, watcher, privatizer, scale.episodes, scale.seed, run, lambda _served: None)
    return watcher.seen[0]
