"""Fixed simulations whose numbers are kept: whoever rearranges the code sees at once whether a result moved.

``python -m tests.golden.fixed_simulations`` writes ``fixed_simulations.json`` anew: do that only where a change of
results is meant, and say so in the changelog.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np

import discreet
from discreet import learners, worlds
from discreet.problems.linear.learners import VAPVI

FILE = Path(__file__).with_suffix(".json")
DELTA = 1e-6

RIVER = lambda: worlds.river_swim(states=3, horizon=4)  # noqa: E731
PER_STEP = lambda: worlds.river_swim(states=3, horizon=3).with_time(homogeneous=False)  # noqa: E731
RANDOM = lambda: worlds.random_mdp(states=3, actions=2, horizon=3)  # noqa: E731
ARMS = lambda: worlds.bandit(arms=4)  # noqa: E731
HEAVY = lambda: worlds.river_swim(states=3, horizon=3, rewards="stable")  # noqa: E731
LAYERS = lambda: worlds.layered(layers=(1, 2, 2, 1), actions=2)  # noqa: E731

# (world, learner, trust model, recipe, pure, users)
ONLINE = {
    "none ucbvi": (RIVER, learners.UCBVI, "none", "none", True, 1_500),
    "none ucbvi per step": (PER_STEP, learners.UCBVI, "none", "none", True, 1_500),
    "none ucbpo": (RIVER, learners.UCBPO, "none", "none", True, 60),
    "none obi": (RANDOM, learners.OBI, "none", "none", True, 1_500),
    "none psrl": (RANDOM, learners.PSRL, "none", "none", True, 1_500),
    "none policy-elimination": (ARMS, learners.PolicyElimination, "none", "none", True, 80),
    "none heavy-ucbvi": (HEAVY, learners.HeavyUCBVI, "none", "none/heavy-tailed", True, 80),
    "none uc-o-reps": (LAYERS, learners.UCOREPS, "none", "none/loss-tables", True, 60),
    "none uob-lbps": (LAYERS, learners.UOBLBPS, "none", "none/observed-losses", True, 60),
    "none uob-reps": (LAYERS, learners.UOBREPS, "none", "none/observed-losses", True, 60),
    "central auto pure": (RIVER, learners.UCBVI, "central", "auto", True, 3_000),
    "central auto": (RIVER, learners.UCBVI, "central", "auto", False, 3_000),
    "central auto bandit": (ARMS, learners.UCBPO, "central", "auto", False, 3_000),
    "local auto": (RANDOM, learners.OBI, "local", "auto", True, 3_000),
    "shuffle auto": (RIVER, learners.PSRL, "shuffle", "auto", False, 3_000),
    "shuffle elimination": (
        PER_STEP, learners.PolicyElimination, "shuffle", "shuffle/three-tables-binomial", False, 3_000,
    ),
    "central elimination bandit": (ARMS, learners.PolicyElimination, "central", "auto", False, 3_000),
    "central auto layered": (LAYERS, learners.UCOREPS, "central", "auto", True, 400),
    "central auto layered bandit": (LAYERS, learners.UOBLBPS, "central", "auto", True, 400),
    "central auto heavy": (HEAVY, learners.HeavyUCBVI, "central", "auto", False, 3_000),
    "local heavy ucbpo": (HEAVY, learners.HeavyUCBPO, "local", "auto", True, 300),
    "tree ucbvi compiled": (RANDOM, learners.UCBVI, "central", "central/three-tables-laplace-tree", True, 1_200),
    "published obi compiled": (RANDOM, learners.OBI, "local", "local/published-laplace", True, 1_200),
    "published psrl compiled": (RANDOM, learners.PSRL, "local", "local/published-psrl", True, 1_200),
    **{
        f"{model}/{name}": (world, learner, model, f"{model}/{name}", pure, users)
        for world, learner, model, pure, users, names in (
            (RIVER, learners.UCBVI, "central", True, 2_000,
             ("joint-histogram-laplace", "first-visit-laplace", "three-tables-laplace", "focused-first-visit-laplace")),
            (RIVER, learners.UCBPO, "central", False, 2_000,
             ("joint-histogram-gaussian", "first-visit-gaussian", "three-tables-gaussian",
              "focused-first-visit-gaussian", "first-visit-matrix", "joint-histogram-matrix")),
            (RIVER, learners.UCBVI, "central", False, 60, ("three-tables-gaussian-tree",)),
            (RIVER, learners.OBI, "local", True, 1_000,
             ("joint-histogram-laplace", "first-visit-laplace", "three-tables-laplace", "sampled-step",
              "asked-first-visit", "three-tables-randomised-response")),
            (RIVER, learners.UCBVI, "local", False, 300,
             ("joint-histogram-gaussian", "first-visit-gaussian", "three-tables-gaussian", "three-tables-bounded",
              "published-gaussian", "published-bounded")),
            (RIVER, learners.OBI, "local", True, 60, ("published-randomised-response",)),
            (RIVER, learners.UCBVI, "shuffle", False, 4_000,
             ("first-visit-binomial", "first-visit-randomised-response", "first-visit-tables-randomised-response")),
            (PER_STEP, learners.UCBVI, "shuffle", False, 4_000,
             ("joint-histogram-binomial", "joint-histogram-randomised-response", "three-tables-randomised-response")),
            (PER_STEP, learners.UCBVI, "shuffle", False, 200, ("published-prefix",)),
            (HEAVY, learners.HeavyUCBVI, "central", True, 300,
             ("heavy-tailed-focused-laplace", "heavy-tailed", "heavy-tailed-published")),
            (HEAVY, learners.HeavyUCBPO, "central", False, 1_000,
             ("heavy-tailed-focused-gaussian", "heavy-tailed-matrix")),
            (LAYERS, learners.UCOREPS, "central", True, 200, ("loss-tables", "loss-tables-published")),
            (LAYERS, learners.UCOREPS, "central", False, 200, ("loss-tables-gaussian",)),
            (LAYERS, learners.UOBLBPS, "central", True, 100,
             ("observed-losses", "observed-losses-blocks", "observed-losses-published")),
            (LAYERS, learners.UOBLBPS, "central", False, 100, ("observed-losses-gaussian",)),
            (LAYERS, learners.UCOREPS, "shuffle", False, 2_000, ("loss-tables-binomial",)),
            (LAYERS, learners.UOBLBPS, "shuffle", False, 2_000, ("observed-losses-binomial",)),
            (LAYERS, learners.UCOREPS, "local", True, 200, ("loss-tables", "loss-tables-published")),
            (LAYERS, learners.UOBLBPS, "local", True, 200, ("observed-losses", "observed-losses-published")),
        )
        for name in names
    },
}  # fmt: skip

# (world, learner, trust model, recipe, pure, known rewards)
OFFLINE = {
    "offline none": (RANDOM, "apvi", "none", "auto", True, False),
    "offline auto": (RIVER, "apvi", "central", "auto", False, False),
    "offline auto pure known": (PER_STEP, "apvi", "central", "auto", True, True),
    "offline/laplace": (RANDOM, "apvi", "central", "offline/laplace", True, False),
    "offline/gaussian": (RANDOM, "apvi", "central", "offline/gaussian", False, False),
    "offline/sparse-laplace": (RIVER, "apvi", "central", "offline/sparse-laplace", False, False),
    "offline/sparse-gaussian": (PER_STEP, "apvi", "central", "offline/sparse-gaussian", False, False),
    "offline/apvi-laplace": (PER_STEP, "apvi", "central", "offline/apvi-laplace", True, True),
    "offline vapvi": (worlds.linear_benchmark, "vapvi", "central", "auto", False, False),
    "offline pevi": (worlds.linear_benchmark, "pevi", "none", "auto", True, False),
    "offline vapvi as printed": (
        worlds.linear_benchmark,
        VAPVI(variance=True),
        "rho",
        "offline/linear-as-printed",
        False,
        False,
    ),
    "offline/apvi-gaussian": (PER_STEP, "apvi", "rho", "offline/apvi-gaussian", False, True),
}


def target(model, recipe, pure):
    """The privacy target of a case."""
    match model:
        case "none":
            return discreet.NoPrivacy(recipe=recipe)
        case "rho":
            return discreet.Central(rho=1.0, recipe=recipe)
        case "central":
            return discreet.Central(2.0, 0.0 if pure else DELTA, recipe=recipe)
        case "local":
            return discreet.Local(2.0, 0.0 if pure else DELTA, recipe=recipe)
    return discreet.Shuffle(2.0, DELTA, recipe=recipe)


def _promise(guarantee):
    """The numbers of a guarantee."""
    return {
        "model": guarantee.model,
        "epsilon": repr(guarantee.epsilon),
        "delta": repr(guarantee.delta),
        "rho": repr(guarantee.rho),
    }


def _digest(*arrays):
    """A hash of the very bits of arrays."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def run_case(name):
    """Run one case: its numbers as they print, and a hash of all of them."""
    if name in ONLINE:
        world, learner, model, recipe, pure, users = ONLINE[name]
        result = discreet.simulate(world(), learner(), target(model, recipe, pure), episodes=users, runs=2, seed=2024)
        return {
            "recipe": result.recipe,
            "regret": [repr(float(value)) for value in result.regret[:, -1]],
            "final_gap": [repr(float(value)) for value in result.final_gap],
            "switches": result.switches.tolist(),
            "hash": _digest(result.regret, result.final_gap, result.switches, result.deterministic_switches),
            **_promise(result.guarantee),
        }
    world, learner, model, recipe, pure, known = OFFLINE[name]
    result = discreet.offline.simulate(
        world(), learner, target(model, recipe, pure), users=2_000, runs=2, seed=2024, known_rewards=known
    )
    return {
        "recipe": result.recipe,
        "value": [repr(float(value)) for value in result.value],
        "hash": _digest(result.value, result.optimal_value, result.behaviour_value),
        **_promise(result.guarantee),
    }


CASES = (*ONLINE, *OFFLINE)

if __name__ == "__main__":
    found = {}
    for case in CASES:
        found[case] = run_case(case)
        print(case, found[case].get("regret") or found[case].get("value"), flush=True)
    FILE.write_text(json.dumps(found, indent=1) + "\n")
    print(len(found), "cases")
