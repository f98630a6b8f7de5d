"""Trials of one step: is the best arm recommended, and called better? Everybody judges; seeded noise.

    python -m experiments.trials                     # 400 trials of every cell, resumable
    python -m experiments.trials --repetitions 1000  # goes on where the last call stopped
    python -m experiments.trials --match "epsilon 2"

2,000 patients, four arms drawn evenly, outcomes normal (260, 130), one arm .2 deviations above the others or none; the
declared range is 0 to 1,500 (twice that of the data) or 0 to 7,500 (ten times). The clip, the table, the policy and
the judgement are those of ``train(..., clip="auto")``, in memory. "itself" judges the declared behaviour.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from discreet.base.policies import Policy
from discreet.base.shape import Shape
from discreet.learners.apvi import APVI
from discreet.learners.base import Problem
from discreet.mechanisms.counts.joint_histogram import JointCounts
from discreet.mechanisms.counts.outcome_histogram import OutcomeHistogram
from discreet.mechanisms.sums.accumulator import SimulatedNoise, noisy
from discreet.noise import DiscreteLaplace
from discreet.recipes.outcomes import recipe_for
from discreet.recipes.targets import Central
from discreet.simulation.data_sets import learn, privatizer_for
from discreet.tables.evaluation.arms import judged_by_everybody
from discreet.tables.private_clip import SHARE, epsilon_left, interval_of
from discreet.tables.read.table import CountedUsers

STORED = Path(__file__).with_suffix(".json")
PATIENTS, ARMS, MEAN, SPREAD, BEST, SEED = 2000, 4, 260.0, 130.0, 2, 390_000
CELLS = [(epsilon, top, effect) for effect in (26.0, 0.0) for top in (1500.0, 7500.0) for epsilon in (1.0, 2.0)]


def counted(shape: Shape, arms: Any, outcomes: Any, rng: np.random.Generator) -> CountedUsers:
    """Users of a table in memory: rewards to levels at random, as tables are read."""
    low, high = shape.rewards

    def count(levels: int, first_visit: bool) -> JointCounts:
        place = np.clip((outcomes - low) / (high - low), 0.0, 1.0) * (levels - 1)
        level = np.floor(place + rng.random(len(place))).astype(np.int64).clip(0, levels - 1)
        keys, many = np.unique((arms * 2 + 1) * levels + level, return_counts=True)
        return JointCounts(keys, many, levels)

    return CountedUsers(count)


def trial(epsilon: float, top: float, effect: float, seed: int) -> dict[str, Any]:
    """One trial: was the best arm recommended, what was said, does the interval hold the truth of clipped outcomes."""
    rng = np.random.default_rng([SEED, seed, int(epsilon), int(top), int(effect)])
    arms = rng.integers(0, ARMS, PATIENTS)
    outcomes = np.clip(rng.normal(MEAN + effect * (arms == BEST), SPREAD), 0, top)
    noise, wide = SimulatedNoise(rng), Shape(1, ARMS, 1, False, (0.0, top))
    encoder = OutcomeHistogram(wide)
    law = DiscreteLaplace(encoder.sensitivity().l1 / (SHARE * epsilon))
    (tally,) = counted(wide, arms, outcomes, rng).tally([encoder], None, PATIENTS)  # type: ignore[arg-type]
    shape = Shape(1, ARMS, 1, False, interval_of(encoder, noisy(tally, law, 1, noise), float(np.sqrt(law.variance))))
    target = Central(epsilon_left(epsilon))
    target = Central(target.epsilon, recipe=recipe_for(target, shape, 1))
    learner = APVI(penalty_scale=0.0)
    made = privatizer_for(learner, target, shape, PATIENTS)
    session = made.open(counted(shape, arms, outcomes, rng), noise, PATIENTS)
    state, release = learn(learner, session, Problem(shape, PATIENTS), np.zeros(1, np.uint64))
    policy = learner.policy(state)
    table = (policy.stochastic(ARMS) if isinstance(policy, Policy) else policy).probabilities[0]
    found = judged_by_everybody(shape, release, table, None, laplace=True, users=PATIENTS)
    even = np.full((1, ARMS), 1 / ARMS)
    itself = judged_by_everybody(shape, release, even, even, laplace=True, users=PATIENTS)
    # What clipping leaves of the means, from a large sample of each arm.
    sample = np.random.default_rng(0).normal(MEAN, SPREAD, 200_000)
    means = np.array([np.clip(sample + effect * (a == BEST), *shape.rewards).mean() for a in range(ARMS)])
    true = float((table[0] - even[0]) @ means) if isinstance(policy, Policy) else 0.0
    word = found.verdict.word
    return {
        "trials": 1, "best": int(isinstance(policy, Policy) and policy.actions[0, 0] == BEST),
        "better": int(word == "better"), "worse": int(word == "worse"),
        "itself": int(itself.verdict.word in ("better", "worse")),
        "covered": int(found.difference.low <= true <= found.difference.high), "clip": float(shape.rewards[1]),
    }  # fmt: skip


def name_of(cell: tuple[float, float, float]) -> str:
    """A cell in words."""
    epsilon, top, effect = cell
    return f"epsilon {epsilon:g}, range 0 to {top:,.0f}, effect {effect / SPREAD:g} sd"


def summary(sums: dict[str, float]) -> str:
    """Shares of one cell."""
    n = sums["trials"]
    shares = "  ".join(f"{word} {sums[word] / n:.3f}" for word in ("best", "better", "worse", "covered"))
    return f"{n:5} trials  {shares}  itself better or worse {sums['itself']}  clip {sums['clip'] / n:.0f}"


def main() -> None:
    """Run what is missing, store it, print the shares."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repetitions", type=int, default=400)
    parser.add_argument("--match", default="")
    asked = parser.parse_args()
    stored: dict[str, dict[str, float]] = json.loads(STORED.read_text()) if STORED.exists() else {}
    for cell in CELLS:
        name = name_of(cell)
        if asked.match not in name:
            continue
        sums = stored.setdefault(name, {"trials": 0})
        while sums["trials"] < asked.repetitions:
            for word, value in trial(*cell, seed=int(sums["trials"])).items():
                sums[word] = sums.get(word, 0) + value
            if sums["trials"] % 100 == 0 or sums["trials"] == asked.repetitions:
                STORED.write_text(json.dumps(stored, indent=1) + "\n")
        print(f"{name:45} {summary(sums)}", flush=True)


if __name__ == "__main__":
    main()
