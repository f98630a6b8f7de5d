"""How often intervals of private off-policy evaluation cover, how wide they are, and what may be said about a policy.

    python -m benchmarks.evaluation                          # every cell, 100 repetitions of each, resumable
    python -m benchmarks.evaluation --repetitions 1000       # goes on where the last call stopped
    python -m benchmarks.evaluation --world hospital --epsilon 1
    python -m benchmarks.evaluation --summary                # what is known so far

A cell is a world with a number of users, an epsilon (inf: no privacy), a policy (given, learned, safe) and whether the
behaviour is declared. In every repetition users act in memory, 65% of them fill the table that the policy is learned
from and 35% judge it; a *given* policy is fixed beforehand. True values are computed exactly. Every quantity gets the
full epsilon (so that it can be compared with methods for one quantity); real evaluations divide it.

Worlds: ``dirichlet`` random transitions, drawn anew in every repetition (5 states, 3 actions, 5 steps); ``hospital``
the made-up hospital of examples/ (12 states, 4 actions, 14 steps, early ends, outcomes -1 or +1 at the end); ``river``
RiverSwim with 6 states and 20 steps; ``...-pooled`` the last two with counts of all steps pooled; ``wards`` a stand-in
for ICU-Sepsis, which cannot be shipped: 120 random states and 9 actions with early ends, a table of which would be too
large, so that it is judged by importance sampling alone, for policies (1 - b) behaviour + b best.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from discreet.accumulators.base import SimulatedNoise
from discreet.data.parts import Paths
from discreet.evaluation.first_states import first_states
from discreet.evaluation.judging import Judged, Shares, judge
from discreet.evaluation.limits import Limits, limits_of
from discreet.evaluation.model import Model, model_of, nothing_shown
from discreet.evaluation.safe import safe_policy
from discreet.evaluation.unknown import judge_unknown
from discreet.evaluation.verdict import verdict_of
from discreet.learners import APVI
from discreet.learners.base import Problem
from discreet.offline.data_sets import learn, privatizer_for
from discreet.offline.path_users import PathUsers
from discreet.policies import Policy
from discreet.recipes.trust import Central, NoPrivacy
from discreet.shape import Shape
from discreet.types import Floats
from discreet.worlds import river_swim

HOLDOUT, DELTA = 0.35, 1e-6
_NUMBERS = {"dirichlet": 0, "hospital": 1, "river": 2, "wards": 3, "river-pooled": 4, "hospital-pooled": 5}  # of seeds
FILE = Path(__file__).parent / "results" / "evaluation.jsonl"


class World(NamedTuple):
    """Outcomes of a row: successors 0 .. S - 1, then ends, each with a reward (G, S, A, S + E)."""

    shape: Shape
    chances: Floats  # (G, S, A, S + E)
    rewards: Floats  # the same shape: the reward that comes with each outcome
    start: Floats
    behaviour: Floats  # (H, S, A)
    given: Floats  # (H, S, A)
    returns: tuple[float, float] | None
    ends: bool


def dirichlet(seed: int) -> World:
    rng = np.random.default_rng([seed, 1])
    S, A, H = 5, 3, 5
    chances = rng.dirichlet(np.ones(S), (H, S, A))
    means = rng.random((H, S, A))
    start = rng.dirichlet(np.ones(S))
    behaviour = np.full((H, S, A), 1 / A)
    world = World(Shape(S, A, H), *two_point(chances, means), start, behaviour, behaviour, None, False)
    return world._replace(given=greedy(world, rng))


def river(seed: int) -> World:
    made = river_swim(states=6, horizon=20)
    S, A, H = made.shape.states, made.shape.actions, made.shape.horizon
    P = np.broadcast_to(made.transitions, (H, S, A, S))
    means = np.broadcast_to(made.means, (H, S, A))
    behaviour = np.full((H, S, A), 0.5)
    right = np.zeros((H, S, A))
    right[..., 1] = 1.0
    chances, rewards = two_point(P, means)
    return World(Shape(S, A, H), chances, rewards, np.asarray(made.start), behaviour, right, None, False)


def hospital(seed: int) -> World:
    where = Path(__file__).parents[1] / "examples" / "hospital" / "patients.py"
    spec = importlib.util.spec_from_file_location("patients", where)
    assert spec is not None
    assert spec.loader is not None
    patients = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(patients)
    S, A, H = patients.S, patients.A, patients.DAYS
    following, ends = patients.dynamics()
    chances = np.broadcast_to(np.concatenate([following, ends], axis=2), (H, S, A, S + 2))
    rewards = np.zeros((1, 1, 1, S + 2))
    rewards[..., S], rewards[..., S + 1] = 1.0, -1.0
    start = np.zeros(S)
    start[3:9] = 1 / 6
    behaviour = np.broadcast_to(patients.clinicians(), (H, S, A))
    shape = Shape(S, A, H, rewards=(-1.0, 1.0))
    rewards = np.broadcast_to(rewards, chances.shape)
    return World(shape, chances, rewards, start, behaviour, patients.best(), (-1.0, 1.0), True)


def wards(seed: int, mixed: float = 0.25) -> World:
    rng = np.random.default_rng([7, 3])  # one world for all repetitions
    S, A, H = 120, 9, 12
    chances = np.zeros((1, S, A, S + 2))
    for s in range(S):
        for a in range(A):
            chances[0, s, a, rng.choice(S, 6, replace=False)] = rng.dirichlet(np.full(6, 0.4)) * 0.8
            share = rng.beta(2, 2) if a else 0.5
            chances[0, s, a, S:] = 0.2 * share, 0.2 * (1 - share)
    rewards = np.zeros((1, 1, 1, S + 2))
    rewards[..., S] = 1.0
    behaviour = np.broadcast_to(rng.dirichlet(np.full(A, 1.0), (1, S)), (H, S, A))
    shape = Shape(S, A, H)
    chances = np.broadcast_to(chances, (H, *chances.shape[1:]))
    start = rng.dirichlet(np.ones(S))
    world = World(
        shape, chances, np.broadcast_to(rewards, chances.shape), start, behaviour, behaviour, (0.0, 1.0), True
    )
    return world._replace(given=(1 - mixed) * behaviour + mixed * greedy(world, None))


def pooled(make: Callable[[int], World]) -> Callable[[int], World]:
    """The same world with counts of all steps pooled: its laws are the same at every step."""

    def made(seed: int) -> World:
        world = make(seed)
        return world._replace(shape=replace(world.shape, homogeneous=True))

    return made


WORLDS: dict[str, Callable[[int], World]] = {
    "dirichlet": dirichlet, "river": river, "hospital": hospital, "wards": wards,
    "river-pooled": pooled(river), "hospital-pooled": pooled(hospital),
}  # fmt: skip
CELLS = [
    *(("dirichlet", users, epsilon) for users in (2_000, 10_000) for epsilon in (1.0, 4.0, math.inf)),
    *(("river", users, epsilon) for users in (10_000, 50_000) for epsilon in (1.0, 4.0, math.inf)),
    *(("hospital", users, epsilon) for users in (10_000, 50_000) for epsilon in (1.0, 4.0, math.inf)),
    *(("river-pooled", 10_000, epsilon) for epsilon in (1.0, 4.0, math.inf)),
    *(("hospital-pooled", users, epsilon) for users in (10_000, 50_000) for epsilon in (1.0, 4.0, math.inf)),
    *(("wards", 50_000, epsilon) for epsilon in (1.0, 4.0, math.inf)),
]
KINDS = [
    ("given", "declared"), ("learned", "declared"), ("safe", "declared"), ("given", "unknown"), ("learned", "unknown")
]  # fmt: skip


def two_point(chances: Floats, means: Floats) -> tuple[Floats, Floats]:
    """Rewards of 0 or 1 beside successors: their means, drawn as 0 or 1 when users act."""
    return chances, np.broadcast_to(means[..., None], chances.shape)


def greedy(world: World, rng: np.random.Generator | None) -> Floats:
    """The best policy; with a generator one that takes another action in every fifth state."""
    q = values(world, None)[0]
    best = q.argmax(axis=2)
    if rng is not None:
        other = rng.integers(world.shape.actions, size=best.shape)
        best = np.where(rng.random(best.shape) < 0.2, other, best)
    return np.eye(world.shape.actions)[best]


def values(world: World, policy: Floats | None) -> tuple[Floats, float]:
    """Q of a policy (None: the best), and its value."""
    H, S, A = world.behaviour.shape
    q, v = np.zeros((H, S, A)), np.zeros(world.chances.shape[-1])
    for h in range(H - 1, -1, -1):
        q[h] = (world.chances[h] * (world.rewards[h] + v)).sum(axis=2)
        v = np.zeros_like(v)
        v[:S] = q[h].max(axis=1) if policy is None else (policy[h] * q[h]).sum(axis=1)
    return q, float(world.start @ v[:S])


def act(world: World, users: int, rng: np.random.Generator) -> Paths:
    """Trajectories of users who follow the behaviour."""
    shape, (low, span) = world.shape, (world.shape.rewards[0], world.shape.reward_span)
    S, H = shape.states, shape.horizon
    edges = world.chances.cumsum(axis=3)
    who = np.arange(users)
    state = (rng.random(users)[:, None] > world.start.cumsum()[:-1]).sum(axis=1)
    parts = []
    for h in range(H):
        acts = world.behaviour[h].cumsum(axis=1)[:, :-1]
        action = (rng.random(len(who))[:, None] > acts[state]).sum(axis=1)
        outcome = np.minimum((rng.random(len(who))[:, None] > edges[h, state, action]).sum(axis=1), edges.shape[3] - 1)
        reward = (world.rewards[h, state, action, outcome] - low) / span
        if not world.ends:  # two_point
            reward = (rng.random(len(who)) < reward).astype(float)
        end = np.where((outcome >= S) | (h == H - 1), S, outcome)
        parts.append((who, np.full(len(who), h), state, action, end, reward))
        going = outcome < S
        who, state = who[going], outcome[going]
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    order = np.argsort(columns[0], kind="stable")  # user behind user
    return Paths(users, *(column[order] for column in columns))


def split(paths: Paths, first: int) -> tuple[Paths, Paths]:
    """The first users and the others: they are independent, so no permutation is needed."""
    early = paths.user < first
    one, two = (Paths(0, *(column[which] for column in paths[1:])) for which in (early, ~early))
    return one._replace(users=first), two._replace(users=paths.users - first, user=two.user - first)


def target(epsilon: float) -> Any:
    return NoPrivacy() if math.isinf(epsilon) else Central(epsilon, DELTA)


class Bench:
    """One cell's privatizers, built once."""

    def __init__(self, name: str, users: int, epsilon: float) -> None:
        world = WORLDS[name](0)
        self.name, self.users, self.epsilon = name, users, epsilon
        self.held = int(users * HOLDOUT + 0.5)
        self.learner = APVI(ends=world.ends)
        self.table = name != "wards"
        self.privatizer = (
            privatizer_for(self.learner, target(epsilon), world.shape, users - self.held) if self.table else None
        )

    def run(self, repetition: int, kinds: list[tuple[str, str]]) -> list[dict[str, Any]]:
        """All kinds of one repetition."""
        seed = [20261, repetition, self.users, int(10 * min(self.epsilon, 99)), _NUMBERS[self.name]]
        rng = np.random.default_rng(seed)
        world = WORLDS[self.name](1000 + repetition)
        shape, limits = world.shape, limits_of(world.shape, world.ends, world.returns)
        first, second = split(act(world, self.users, rng), self.users - self.held)
        noise, policies = SimulatedNoise(rng), {"given": world.given}
        model: Model = nothing_shown(shape, first.users)
        if self.privatizer is not None:
            session = self.privatizer.open(PathUsers(first, shape, world.ends, rng), noise, first.users)
            state, release = learn(self.learner, session, Problem(shape, first.users), np.zeros(1, np.uint64))
            found = self.learner.policy(state)
            policies["learned"] = (
                found.stochastic(shape.actions) if isinstance(found, Policy) else found
            ).probabilities
            start = first_states(second, shape.states, 0.05 * self.epsilon, noise).shares if shape.homogeneous else None
            model = model_of(shape, release, world.ends, first.users, start)
            policies["safe"] = safe_policy(model, policies["learned"], world.behaviour)
        behaviour = values(world, world.behaviour)[1]
        out = []
        for kind, behaviour_is in kinds:
            if kind not in policies or (behaviour_is == "unknown" and self.privatizer is None):
                continue
            began = time.perf_counter()
            if behaviour_is == "declared":
                shares = Shares(self.epsilon, self.epsilon, self.epsilon)
                judged = judge(second, shape, limits, policies[kind], world.behaviour, model, shares, noise)
            else:
                judged = self._unknown(second, world, limits, policies[kind], noise, rng)
            true = values(world, policies[kind])[1]
            out.append(
                {
                    "world": self.name, "users": self.users,
                    "epsilon": self.epsilon if math.isfinite(self.epsilon) else None, "policy": kind,
                    "behaviour": behaviour_is, "repetition": repetition,
                    "truth": [true, behaviour, true - behaviour], **told(judged),
                    "seconds": time.perf_counter() - began,
                }
            )  # fmt: skip
        return out

    def _unknown(
        self, second: Paths, world: World, limits: Limits, policy: Floats, noise: Any, rng: np.random.Generator
    ) -> Judged:
        privatizer = privatizer_for(self.learner, target(self.epsilon), world.shape, second.users)
        start, variance = None, None
        if world.shape.homogeneous:
            start, variance, _ = first_states(second, world.shape.states, 0.05 * self.epsilon, noise)
        return judge_unknown(
            PathUsers(second, world.shape, world.ends, rng), second, world.shape, limits, policy, privatizer,
            self.epsilon, noise, start=start, start_variance=variance,
        )  # fmt: skip


def told(judged: Judged) -> dict[str, Any]:
    every = judged.value, judged.behaviour, judged.difference
    return {
        "low": [each.low for each in every], "high": [each.high for each in every],
        "verdict": verdict_of(judged.difference, judged.causes).word,
    }  # fmt: skip


def summary(rows: list[dict[str, Any]]) -> str:
    """Coverage and mean width of value, behaviour and difference, verdicts, for every cell."""
    cells = defaultdict(list)
    for row in rows:
        cells[row["world"], row["users"], row["epsilon"] or math.inf, row["policy"], row["behaviour"]].append(row)
    lines = ["world users epsilon policy behaviour | n | value behaviour difference (coverage / width) | untold false"]
    for cell, found in sorted(cells.items(), key=str):
        truth, low, high = (np.array([row[name] for row in found]) for name in ("truth", "low", "high"))
        covered, width = ((low <= truth) & (truth <= high)).mean(axis=0), (high - low).mean(axis=0)
        untold = np.mean([row["verdict"] == "cannot be told" for row in found])
        false = np.mean([row["verdict"] == "better" and row["truth"][2] <= 0 for row in found])
        texts = "  ".join(f"{c:.3f} / {w:.3f}" for c, w in zip(covered, width, strict=True))
        lines.append(f"{' '.join(map(str, cell))} | {len(found)} | {texts} | {untold:.2f} {false:.3f}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--world", choices=sorted(WORLDS))
    parser.add_argument("--users", type=int)
    parser.add_argument("--epsilon", type=float)
    parser.add_argument("--policy", choices=("given", "learned", "safe"))
    parser.add_argument("--behaviour", choices=("declared", "unknown"))
    parser.add_argument("--file", type=Path, default=FILE)
    parser.add_argument("--summary", action="store_true")
    given = parser.parse_args()
    rows = [json.loads(line) for line in given.file.read_text().splitlines()] if given.file.exists() else []
    done = {
        (r["world"], r["users"], r["epsilon"] or math.inf, r["policy"], r["behaviour"], r["repetition"]) for r in rows
    }
    given.file.parent.mkdir(exist_ok=True)
    for cell in [] if given.summary else CELLS:
        name, users, epsilon = cell
        if given.world not in (None, name) or given.epsilon not in (None, epsilon) or given.users not in (None, users):
            continue
        bench = None
        kinds = [kind for kind in KINDS if given.policy in (None, kind[0]) and given.behaviour in (None, kind[1])]
        for repetition in range(given.repetitions):
            waiting = [kind for kind in kinds if (*cell, *kind, repetition) not in done]
            if name == "wards":
                waiting = [kind for kind in waiting if kind == ("given", "declared")]
            if waiting:
                bench = bench or Bench(*cell)
                found = bench.run(repetition, waiting)
                rows += found
                with given.file.open("a") as file:
                    file.writelines(json.dumps(row) + "\n" for row in found)
        print(summary([r for r in rows if (r["world"], r["users"], r["epsilon"] or math.inf) == cell]), flush=True)
    if given.summary:
        print(summary(rows))


if __name__ == "__main__":
    main()
