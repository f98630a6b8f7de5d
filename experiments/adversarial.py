"""Regret against adversaries as a share of uniform play's, in more worlds than ``docs/adversarial.md`` has.

    python -m experiments.adversarial                      # perturbed-leader, all worlds: some minutes
    python -m experiments.adversarial --learner papers     # UC-O-REPS and UOB-LBPS on the same worlds
    python -m experiments.adversarial --world long-layers --settings 1    # one world, epsilon 1 and 5,000 episodes
    python -m experiments.adversarial --exponent           # growth of bandit regret with the number of episodes

Run i has the world of instance ``first + i`` and that seed. The constants of the learner were chosen on instances 100
to 107; none of those from 9,000 on was looked at before the tables were made.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from discreet import worlds
from discreet.base.policies import uniform_policy
from discreet.base.types import Floats
from discreet.learners import UCOREPS, UOBLBPS, PerturbedLeader
from discreet.recipes.registry import build
from discreet.recipes.targets import Central
from discreet.simulation.block_loop import run_blocks

FIRST = 9_000
SETTINGS = ((1.0, 5_000), (1.0, 20_000), (10.0, 5_000))
WORLDS: dict[str, Callable[[int], Any]] = {
    "kinds, narrow": lambda instance: worlds.kinds(instance=instance),
    "kinds, wide": lambda instance: worlds.kinds(wide=True, instance=instance),
    "layered, fixed": lambda instance: worlds.layered(adversary="fixed", instance=instance),
    "layered, switching": lambda instance: worlds.layered(adversary="switching", instance=instance),
    "layered, drifting": lambda instance: worlds.layered(adversary="drifting", instance=instance),
    "changing-arms": lambda _instance: worlds.changing_arms(),
    "long-layers": lambda instance: worlds.long_layers(instance=instance),
    "wide-layers": lambda instance: worlds.wide_layers(instance=instance),
}


def regret(world: Any, learner: Any, epsilon: float, episodes: int, seed: int) -> float:
    """The regret of one run with pure central privacy."""
    privatizer = build(Central(epsilon), world.shape, episodes, learner.needs)
    return float(run_blocks(world, learner, privatizer, episodes, seed, 0, lambda _served: None).regret[-1])


def uniform_regret(world: Any, episodes: int) -> float:
    """That of uniform play, exactly."""
    total = world.losses(episodes).sum(axis=0)
    return float((world.occupancy(uniform_policy(world.shape)) * total).sum() - world.best_fixed(total)[0])


def shares(name: str, learner: Any, epsilon: float, episodes: int, runs: int, first: int = FIRST) -> Floats:
    """Every run's regret over the mean of uniform play's."""
    seeds = range(first, first + runs)
    played = [WORLDS[name](seed) for seed in seeds]
    uniform = np.mean([uniform_regret(world, episodes) for world in played])
    return np.array([regret(w, learner, epsilon, episodes, s) for w, s in zip(played, seeds, strict=True)]) / uniform


def exponent(runs: int, first: int = FIRST, episodes: Sequence[int] = (5_000, 20_000, 80_000)) -> Floats:
    """The slope of ln(regret) in ln(episodes), world by world: bandit feedback, fixed losses, epsilon 1."""
    slopes = []
    for seed in range(first, first + runs):
        world = WORLDS["layered, fixed"](seed)
        lost = [regret(world, PerturbedLeader(), 1.0, K, seed) for K in episodes]
        slopes.append(np.polyfit(np.log(episodes), np.log(lost), 1)[0])
    return np.array(slopes)


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--learner", choices=("ours", "papers"), default="ours")
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--exponent", action="store_true")
    parser.add_argument("--world", action="append", choices=tuple(WORLDS), help="this one only; may be given again")
    parser.add_argument("--settings", type=int, default=len(SETTINGS), help="so many of the columns only")
    asked = parser.parse_args()
    if asked.exponent:
        print("exponent", _with_error(exponent(asked.runs)))
        return
    ours: dict[str, Any] = {"full": PerturbedLeader("full"), "bandit": PerturbedLeader("bandit")}
    learners = ours if asked.learner == "ours" else {"full": UCOREPS(), "bandit": UOBLBPS()}
    for name in asked.world or WORLDS:
        runs = max(asked.runs, 20) if name == "changing-arms" else asked.runs  # one world: runs differ in noise alone
        for feedback, learner in learners.items():
            cells = (shares(name, learner, epsilon, episodes, runs) for epsilon, episodes in SETTINGS[: asked.settings])
            print(f"{name:20s} {feedback:7s}", *(f"{_with_error(cell):14s}" for cell in cells), flush=True)


def _with_error(values: Floats) -> str:
    return f"{values.mean():.3f} ± {values.std(ddof=1) / len(values) ** 0.5:.3f}"


if __name__ == "__main__":
    main()
