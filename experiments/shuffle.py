"""The shuffle model measured: regret under (epsilon, delta)-shuffle privacy, what is eliminated, how fast it runs.

    python -m experiments.shuffle [calibration | elimination | private | bandit | speed] [--runs N] [--seed N]

Every part prints one table. Regret is exact; ± is a standard error over runs. Knobs were
chosen on RiverSwim-3 and -5 and on random MDPs, with other seeds than the ones used here.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

import discreet
from discreet.base.policies import uniform_policy
from discreet.base.streams import COINS, NOISE, USERS, generator, stream
from discreet.learners.base import Problem
from discreet.mechanisms.sums.accumulator import SimulatedNoise
from discreet.noise import BinomialNoise
from discreet.noise.calibration import calibrate_binomial
from discreet.problems.elimination.active_sets import Listed
from discreet.recipes.registry import build
from discreet.recipes.targets import Privacy
from discreet.simulation.users import TabularUsers
from discreet.worlds.planning.backward_induction import reachable
from discreet.worlds.tabular import TabularWorld

UCBVI, PE = discreet.learners.UCBVI, discreet.learners.PolicyElimination
DELTA = 1e-5


class Run(NamedTuple):
    """One run of policy elimination: regret, value lost if the optimal policy is gone, classes left, switches."""

    regret: float
    lost: float
    left: int
    switches: int
    deterministic: int


def river() -> TabularWorld:
    return discreet.worlds.river_swim(states=4, horizon=6)


def public_support(world: TabularWorld) -> tuple[tuple[bool, ...], ...]:
    """Which states can be reached at each step, declared as public knowledge."""
    mask = reachable(world.transitions, world.start, world.horizon).any(axis=2)
    return tuple(tuple(bool(x) for x in row) for row in mask)


def eliminate(world: TabularWorld, learner: Any, privacy: Privacy, episodes: int, seed: int, run: int) -> Run:
    """As ``discreet.simulate`` does it, but the set of policies that are left is looked at in the end."""
    privatizer = build(privacy, world.shape, episodes, learner.needs)
    users = TabularUsers(world, stream(seed, run, USERS), generator(seed, run, COINS))
    session = privatizer.open(users, SimulatedNoise(generator(seed, run, NOISE)), episodes)
    state = learner.init(Problem(world.shape, episodes), stream(seed, run, COINS))
    regret, before, switches = 0.0, None, 0
    while session.left:
        request, served = learner.ask(state), session.served
        release = session.answer(request)
        regret += world.gap(request.policy) * (session.served - served)
        switches += before is not None and before != request.policy
        before = request.policy
        state = learner.update(state, release)
    lost, left = np.nan, -1
    if isinstance(state.active, Listed):
        values = state.active.factors.values(np.array(world.transitions), world.start, np.array(world.means))
        lost, left = float(values.max() - values[state.active.active].max()), int(state.active.active.sum())
    return Run(regret, lost, left, switches, users.deterministic_switches)


def in_threads(one: Callable[[int], Run], runs: int) -> list[Run]:
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(one, range(runs)))


def mean(values: Any) -> str:
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return f"{np.mean(values):9,.0f} ± {error:5,.0f}"


def calibration(runs: int, seed: int) -> None:
    """Fair noise bits per counter, and the deviation of the noise."""
    rows = (("three tables", 17), ("joint cells", 6), ("one layer of three tables", 3), ("one layer of joint cells", 1))
    for epsilon in (1.0, 0.1):
        for name, shifts in rows:
            fair = calibrate_binomial(1, shifts, shifts, epsilon, DELTA).bits
            sizes = []
            for users in (64, 512, 4096):
                bits = calibrate_binomial(users, shifts, shifts, epsilon, DELTA)
                deviation = np.sqrt(BinomialNoise(users * bits.bits, bits.probability).variance)
                sizes.append(f"n={users}: m={bits.bits} p={bits.probability:.3f} sd {deviation:.1f}")
            print(f"epsilon {epsilon:g}, {name:26s} fair bits {fair:7,d}  {'; '.join(sizes)}", flush=True)


def _report(name: str, found: list[Run], seconds: float) -> None:
    gone = [run.lost for run in found if run.lost > 1e-9]
    print(
        f"{name:58s} regret {mean([run.regret for run in found])}  optimal policy lost {len(gone)} of {len(found)} "
        f"times (by {max(gone, default=0.0):.4f})  switches {np.mean([run.switches for run in found]):.0f} mixtures, "
        f"{np.mean([run.deterministic for run in found]):,.0f} deterministic  {seconds / len(found):.2f} s a run",
        flush=True,
    )


def _table(episodes: int, cases: list[tuple[str, Any, Privacy]], runs: int, seed: int) -> None:
    world = river().with_time(False)
    print(f"K = {episodes:,}, uniform play {episodes * world.gap(uniform_policy(world.shape)):,.0f}")
    for name, learner, privacy in cases:
        began = time.perf_counter()
        found = in_threads(
            lambda run, c=(learner, privacy): eliminate(world, *c, episodes, seed, run),  # type: ignore[misc]
            runs,
        )
        _report(name, found, time.perf_counter() - began)


def elimination(runs: int, seed: int) -> None:
    """Policy elimination without privacy."""
    none, known = discreet.NoPrivacy(), {"support": public_support(river()), "one_layer": False}
    cases: list[tuple[str, Any, Privacy]] = [
        ("constants of the paper", PE.published(**known), none),
        ("paper rule, C = 0.01", PE.published(statistical_scale=0.01, lean=True, **known), none),
        ("paper rule, C = 0.005", PE.published(statistical_scale=0.005, lean=True, **known), none),
        ("sink rule, forgetting", PE(forgetting=True, **known), none),
        ("sink rule, pooled (default)", PE(**known), none),
        ("sink rule, pooled, support not declared", PE(one_layer=False), none),
    ]
    _table(20_000, cases, runs, seed)


def private(runs: int, seed: int) -> None:
    """SDP-PE under (1, 1e-5) and, with more users, (0.1, 1e-5) shuffle privacy."""
    known = {"support": public_support(river())}
    published = {"statistical_scale": 0.01, "privacy_scale": 0.0, "threshold": 0.5, "lean": True}
    data = {"rule": "data", "statistical_scale": 0.25, "threshold": 0.5}

    def cases(epsilon: float) -> list[tuple[str, Any, Privacy]]:
        joint, three = (
            discreet.Shuffle(epsilon, DELTA, recipe=f"shuffle/{name}-binomial")
            for name in ("joint-histogram", "three-tables")
        )
        return [
            ("three tables, program, paper rule C = 0.01", PE.published(**published, **known), three),
            ("joint cells, data rule, forgetting", PE(forgetting=True, **data, **known), joint),
            ("joint cells, data rule, pooled", PE(**data, **known), joint),
            ("joint cells, sink rule, forgetting", PE(forgetting=True, **known), joint),
            ("joint cells, sink rule, pooled (default)", PE(**known), joint),
        ]

    for episodes, epsilon in ((20_000, 1.0), (200_000, 1.0), (2_000_000, 0.1)):
        print(f"epsilon {epsilon:g}")
        _table(episodes, cases(epsilon), runs, seed)


def bandit(runs: int, seed: int) -> None:
    """Twenty arms, users who differ, a fresh instance per run."""
    world, episodes = discreet.worlds.bandit(arms=20, sigma=0.1), 20_000
    cases: list[tuple[Any, Privacy]] = [
        (PE(), discreet.Shuffle(1.0, DELTA)),
        (PE(), discreet.Shuffle(0.1, DELTA)),
        (UCBVI(), discreet.Shuffle(1.0, DELTA)),
        (UCBVI(), discreet.Central(1.0, recipe="central/three-tables-laplace-tree")),
        (UCBVI(), discreet.Central(1.0, DELTA, recipe="central/three-tables-gaussian-tree")),
        (UCBVI(), discreet.Central(1.0, DELTA, recipe="central/first-visit-gaussian")),
        (UCBVI(), discreet.Central(1.0, recipe="central/focused-first-visit-laplace")),
        (UCBVI(), discreet.Local(1.0, recipe="local/three-tables-laplace")),
        (UCBVI(), discreet.Local(1.0, recipe="local/sampled-step")),
        (PE(one_layer=False), discreet.NoPrivacy()),
        (UCBVI(), discreet.NoPrivacy()),
    ]
    for learner, privacy in cases:
        result = discreet.simulate(world, learner, privacy, episodes=episodes, runs=runs, seed=seed)
        target = "" if privacy.epsilon is None else f"epsilon {privacy.epsilon:g}"
        print(
            f"{learner.name:18s} {result.recipe:36s} {target:12s} regret {mean(result.total_regret)}  final gap "
            f"{result.final_gap.mean():.4f}  switches {result.switches.mean():.0f}, deterministic "
            f"{result.deterministic_switches.mean():.0f}",
            flush=True,
        )


def speed(runs: int, seed: int) -> None:
    """Seconds of a whole run, warm, and of the slowest stage of the implicit set."""
    world = river().with_time(False)
    for name, learner in (
        ("2^18 classes", PE(support=public_support(world), one_layer=False)),
        ("2^21 classes", PE(one_layer=False)),
    ):
        times = []
        for run in range(3):
            began = time.perf_counter()
            eliminate(world, learner, discreet.NoPrivacy(), 20_000, seed, run)
            times.append(time.perf_counter() - began)
        print(f"{name}: {min(times):.2f} s for 12 stages, {min(times) / 12:.3f} s a stage", flush=True)
    rng = np.random.default_rng(seed)
    X, A, H = 20, 4, 20
    large = discreet.worlds.from_arrays(rng.dirichlet(np.full(X, 0.3), size=(H, X, A)), rng.uniform(size=(H, X, A)) / H)
    learner, episodes, spent = PE(), 60_000, {}
    privacy = discreet.Shuffle(1.0, DELTA, recipe="shuffle/joint-histogram-binomial")
    users = TabularUsers(large, stream(seed, 0, USERS), generator(seed, 0, COINS))
    session = build(privacy, large.shape, episodes).open(users, SimulatedNoise(generator(seed, 0, NOISE)), episodes)
    state = learner.init(Problem(large.shape, episodes), stream(seed, 0, COINS))
    while session.left:
        release = session.answer(learner.ask(state))
        began, stage = time.perf_counter(), state.stage
        state = learner.update(state, release)
        spent[stage] = spent.get(stage, 0.0) + time.perf_counter() - began
    print(f"implicit set, X={X} A={A} H={H}: slowest of {len(spent)} stages {max(spent.values()):.2f} s")


PARTS = {part.__name__: part for part in (calibration, elimination, private, bandit, speed)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="*", choices=[[], *PARTS], help="all of them by default")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=2025)
    arguments = parser.parse_args()
    for name in arguments.part or PARTS:
        print(f"== {name}: {PARTS[name].__doc__}")
        PARTS[name](arguments.runs, arguments.seed)


if __name__ == "__main__":
    main()
