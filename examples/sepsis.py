"""ICU-Sepsis: what a private policy is worth as the number of patients grows. Run with  python examples/sepsis.py

Needs the package icu-sepsis (pip install icu-sepsis). Patients are simulated from its published tables, treated by its
clinicians' own policy; a policy is learned from one sparse release of their transitions and evaluated exactly.
"""

from __future__ import annotations

import argparse

import discreet
import discreet.offline
from discreet.worlds.imported import clinicians, icu_sepsis


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--patients", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 4.0])
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", default=None, help="draw the values (.png, .svg, .pdf)")
    given = parser.parse_args()
    world = icu_sepsis()
    print(
        f"clinicians {world.value(clinicians()):.4f}, best policy {world.optimal_value:.4f}, {world.horizon} decisions"
    )
    targets = [discreet.NoPrivacy(), *(discreet.Central(epsilon, 1e-6) for epsilon in given.epsilon)]
    results = []
    for users in given.patients:
        for privacy in targets:
            result = discreet.offline.simulate(
                world,
                "apvi",
                privacy,
                users=users,
                behaviour="clinicians",
                runs=given.runs,
                seed=given.seed,
                known_rewards=True,
                options={"penalty": "tight", "penalty_scale": 0.1},
                progress=True,
            )
            results.append(result)
            print(result.summary())
    if given.plot:
        discreet.offline.plot_values(results, given.plot, title="ICU-Sepsis: survival under the learned policy")


if __name__ == "__main__":
    main()
