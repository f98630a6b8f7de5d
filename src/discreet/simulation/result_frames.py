"""Results as data frames of pandas or polars, whichever is installed; neither is needed for anything else.

Tables are tidy: one row per run, or one row per run and checkpoint, with what was run in every row, so that groups are
formed by names of columns.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from discreet.base.errors import InvalidInput, Unsupported, check_name

if TYPE_CHECKING:
    from discreet.simulation.result import OfflineResult, SimulationResult

LIBRARIES = ("pandas", "polars")
RUNS, CHECKPOINTS = "runs", "checkpoints"


def make_frame(columns: Mapping[str, Sequence[Any]], library: str | None = None) -> Any:
    """A frame of these columns; without a library the first of pandas and polars that is installed."""
    found = [name for name in LIBRARIES if find_spec(name) is not None]
    if library is None and not found:
        raise Unsupported("a frame needs pandas or polars: install one of them, for example  pip install pandas")
    chosen = found[0] if library is None else check_name("library of frames", library, LIBRARIES)
    if chosen not in found:
        raise Unsupported(f"{chosen} is not installed: install it with  pip install {chosen}, or ask for another frame")
    return importlib.import_module(chosen).DataFrame({name: list(values) for name, values in columns.items()})


def together(tables: Sequence[Mapping[str, Sequence[Any]]]) -> dict[str, list[Any]]:
    """Tables of the same columns, one below the other."""
    return {name: [value for table in tables for value in table[name]] for name in tables[0]}


def columns_of(result: SimulationResult, rows: str) -> dict[str, list[Any]]:
    """The columns of a result: one row per run, or per run and checkpoint."""
    if check_name("kind of rows", rows, (RUNS, CHECKPOINTS)) == CHECKPOINTS:
        points = len(result.episodes)
        return {
            **_what(result, result.runs * points),
            "run": [run for run in range(result.runs) for _ in range(points)],
            "episodes": result.episodes.tolist() * result.runs,
            "regret": result.regret.ravel().tolist(),
        }
    return {
        **_what(result, result.runs),
        "run": list(range(result.runs)),
        "episodes": [int(result.episodes[-1])] * result.runs,
        "regret": result.total_regret.tolist(),
        "final_gap": result.final_gap.tolist(),
        "deployed_gap": result.deployed_gap.tolist(),
        "switches": result.switches.tolist(),
    }


def offline_columns_of(result: OfflineResult, rows: str) -> dict[str, list[Any]]:
    """The columns of what was learned from data sets: one row per data set."""
    if rows != RUNS:
        raise InvalidInput(f"what was learned from a data set has no checkpoints: its rows are {RUNS!r}")
    return {
        **_what(result, result.runs),
        "run": list(range(result.runs)),
        "users": [result.users] * result.runs,
        "value": result.value.tolist(),
        "optimal_value": result.optimal_value.tolist(),
        "behaviour_value": result.behaviour_value.tolist(),
        "final_gap": result.final_gap.tolist(),
    }


def _what(result: SimulationResult | OfflineResult, times: int) -> dict[str, list[Any]]:
    """What was run, the same in every row. Where no epsilon is promised it is infinite."""
    epsilon, delta = result.promised
    facts = {
        "world": result.world,
        "learner": result.learner,
        "privacy": result.privacy,
        "recipe": result.recipe,
        "epsilon": math.inf if epsilon is None else epsilon,
        "delta": delta,
        "seed": result.seed,
    }
    return {name: [fact] * times for name, fact in facts.items()}
