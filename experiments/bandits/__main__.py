"""Measure every cell that is missing, then write the tables and the pictures of docs/bandits.md.

    python -m experiments.bandits [--tune] [--kept FOLDER] [--trust central shuffle local]
    python -m experiments.bandits --trust local --bandit "5 arms" --epsilon 1 --runs 1000 --seed 3

An interrupted measurement goes on where it stopped. ``--tune`` only prints how constants were chosen. The tables
replace what stands between the two marks of the page. ``--bandit`` prints one cell with other seeds and more runs, ours
and the tuned ones, and keeps nothing.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from experiments.bandits import comparators
from experiments.bandits.measure import HERE, Cell, fingerprint, kept_cell, play, simulate, tuned
from experiments.bandits.page import Results, write_page
from experiments.bandits.settings import BANDITS, EPSILONS, TUNING

ROOT = HERE.parents[1]


def measured(kept: Path, trusts: list[str]) -> Results:
    """All cells: (trust, bandit, epsilon) and then by the name of the algorithm and its version."""
    found: Results = {}
    settings, library = HERE / "settings.py", ROOT / "src"
    kernels = fingerprint(settings, HERE / "central.py", HERE / "distributed.py")
    ours = fingerprint(settings, library)
    for trust in trusts:
        for name, means in BANDITS.items():
            for epsilon in EPSILONS[trust]:
                cells: dict[tuple[str, str], Cell] = {}
                for one in comparators.of(trust):
                    for version in ("printed", "tuned"):
                        constant = one.printed if version == "printed" else one.tuned
                        key = f"{one.name} {version} {constant:g}, {name}, epsilon {epsilon:g}"
                        cells[one.name, version] = kept_cell(
                            kept, key, kernels, lambda: play(one, version, means, epsilon)  # noqa: B023
                        )  # fmt: skip
                cells["discreet", trust] = kept_cell(
                    kept, f"discreet {trust}, {name}, epsilon {epsilon:g}", ours,
                    lambda: simulate(trust, name, means, epsilon),  # noqa: B023
                )  # fmt: skip
                found[trust, name, epsilon] = cells
    return found


def tune() -> None:
    """How constants were chosen: the score of each constant, the least one marked."""
    for one in comparators.ALL:
        scores = tuned(one, TUNING, EPSILONS[one.trust])
        best = min(scores, key=lambda c: scores[c])
        line = "  ".join(f"{c:g}: {score:.3f}{' <-' if c == best else ''}" for c, score in scores.items())
        print(f"{one.name} (has {one.tuned:g}): {line}", flush=True)


def print_cell(trust: str, name: str, epsilon: float, runs: int, seed: int) -> None:
    """One cell anew: ours with this seed, the tuned ones with the next."""
    cells = {"discreet": simulate(trust, name, BANDITS[name], epsilon, runs, seed=seed)}
    for one in comparators.of(trust):
        cells[f"{one.name}, tuned"] = play(one, "tuned", BANDITS[name], epsilon, runs, seed + 1)
    for who, cell in cells.items():
        print(f"{who}: {cell.mean:.5f} ± {cell.error:.5f}, median {np.median(cell.regret):.5f}, worst {cell.worst:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tune", action="store_true", help="print how constants were chosen, and nothing else")
    parser.add_argument("--kept", type=Path, default=ROOT / "build" / "bandits", help="where cells are kept")
    parser.add_argument("--trust", nargs="+", choices=list(EPSILONS), default=list(EPSILONS))
    parser.add_argument("--bandit", choices=list(BANDITS), help="measure one cell of each trust model again")
    parser.add_argument("--epsilon", type=float, default=1.0, help="of that cell")
    parser.add_argument("--runs", type=int, default=1000, help="of that cell")
    parser.add_argument("--seed", type=int, default=1, help="of that cell")
    chosen = parser.parse_args()
    if chosen.tune:
        tune()
    elif chosen.bandit is not None:
        for trust in chosen.trust:
            print_cell(trust, chosen.bandit, chosen.epsilon, chosen.runs, chosen.seed)
    else:
        found = measured(chosen.kept, chosen.trust)
        if list(chosen.trust) == list(EPSILONS):
            write_page(found, ROOT / "docs")


if __name__ == "__main__":
    main()
