"""One cell of the tables: many runs of one algorithm on one bandit, exact regret, kept on disk.

The regret of a user is the gap of the arm that she got; nothing is estimated. A cell is kept under a fingerprint of the
code that it depends on (the kernels, or the library), so an interrupted measurement goes on where it stopped and a
changed algorithm is measured again.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import discreet
from discreet.base.types import Floats
from discreet.recipes.targets import Central, Local, Privacy, Shuffle
from discreet.simulation.block_loop import checkpoints
from discreet.simulation.experiments import address, kept
from experiments.bandits.comparators import Comparator
from experiments.bandits.settings import (
    DELTA,
    OURS_RUNS,
    OURS_SEED,
    SEED,
    TUNING_RUNS,
    TUNING_SEED,
    USERS,
    uniform_regret,
    world_of,
)

HERE = Path(__file__).parent
MARKS = checkpoints(USERS)


class Cell(NamedTuple):
    """Regret per user: of every run at the end, and on average at the checkpoints (cumulative, not per user)."""

    regret: Floats
    curve: Floats
    note: str

    @property
    def mean(self) -> float:
        return float(self.regret.mean())

    @property
    def error(self) -> float:
        return float(self.regret.std(ddof=1) / np.sqrt(len(self.regret)))

    @property
    def worst(self) -> float:
        return float(self.regret.max())


OURS: dict[str, Callable[[float], Privacy]] = {
    "central": lambda epsilon: Central(epsilon=epsilon),
    "shuffle": lambda epsilon: Shuffle(epsilon=epsilon, delta=DELTA),
    "local": lambda epsilon: Local(epsilon=epsilon),
}


def play(
    one: Comparator, version: str, means: Floats, epsilon: float, runs: int | None = None, seed: int = SEED,
    users: int = USERS,
) -> Cell:  # fmt: skip
    """Many runs of a published algorithm; arms are listed in another order in every run, so that ties are fair."""
    runs = one.runs if runs is None else runs
    arms, total, curve = np.zeros(users, np.int64), np.zeros(runs), np.zeros(len(checkpoints(users)))
    for run in range(runs):
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(run,)))
        order = rng.permutation(means)
        one.played(version, order, epsilon, int(rng.integers(2**31)), arms)
        regret = np.cumsum(order.max() - order[arms])
        total[run] = regret[-1] / users
        curve += regret[checkpoints(users) - 1] / runs
    return Cell(total, curve, f"constant {one.printed if version == 'printed' else one.tuned:g}")


def simulate(
    trust: str, name: str, means: Floats, epsilon: float, runs: int | None = None, users: int = USERS,
    seed: int = OURS_SEED,
) -> Cell:  # fmt: skip
    """UCBVI as it is by default, with the recipe that the library chooses; its epsilon is computed, and checked."""
    privacy, runs = OURS[trust](epsilon), OURS_RUNS[trust] if runs is None else runs
    found = discreet.simulate(world_of(name, means), "ucbvi", privacy, episodes=users, runs=runs, seed=seed)
    guarantee = found.guarantee
    assert not isinstance(guarantee, dict)
    assert guarantee.epsilon <= epsilon * (1 + 1e-9), guarantee.statement()
    return Cell(found.total_regret / users, found.regret.mean(axis=0), found.recipe)


def tuned(one: Comparator, bandits: dict[str, Floats], epsilons: tuple[float, ...]) -> dict[float, float]:
    """For each constant the geometric mean, over bandits and epsilons, of regret as a share of uniform play's."""
    return {
        c: float(
            np.exp(
                np.mean(
                    [
                        np.log(
                            play(one.with_constant(c), "tuned", means, epsilon, TUNING_RUNS, TUNING_SEED).mean
                            / uniform_regret(means)
                        )
                        for means in bandits.values()
                        for epsilon in epsilons
                    ]
                )
            )
        )
        for c in one.grid
    }


@lru_cache
def fingerprint(*paths: Path) -> str:
    """A hash of what these files do, and all Python files in these folders: of their code, not of its description."""
    digest = hashlib.sha256()
    for path in paths:
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            tree = ast.parse(file.read_text())
            for node in ast.walk(tree):
                body = getattr(node, "body", None)
                if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
                    body[0].value = ast.Constant(None)  # a docstring
            digest.update(ast.dump(tree).encode())
    return digest.hexdigest()[:12]


def kept_cell(folder: Path, key: str, code: str, measure: Callable[[], Cell]) -> Cell:
    """The cell of that name if it was measured with this code, or else measured now."""

    def plain() -> dict[str, Any]:
        cell = measure()
        print(f"{key}: {cell.mean:.4f} ± {cell.error:.4f}, worst {cell.worst:.3f} ({cell.note})", flush=True)
        return {"key": key, "regret": cell.regret.tolist(), "curve": cell.curve.tolist(), "note": cell.note}

    found = kept(address(folder, [key], {"key": key, "code": code}), plain)
    return Cell(np.array(found["regret"]), np.array(found["curve"]), found["note"])
