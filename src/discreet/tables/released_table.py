"""The released table as a frame: a row for every step, state and action, with noisy counts and their deviations.

It is what a policy was planned from, and nothing else: post-processing, which costs nothing and may be published as it
is. Counts are unbiased, so some are below zero.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from discreet.base.errors import Unsupported
from discreet.base.types import NDArray
from discreet.mechanisms.release import Release
from discreet.tables.read.columns import Declaration

_MEANING = {"visits": "visits", "rewards": "reward_shares", "slacks": "reward_slacks"}


def released_table(release: Release, declaration: Declaration) -> Any:
    """A frame of pandas, or of polars, or a dictionary of arrays, whichever is installed."""
    if {"matrix", "threshold"} & set(release.statistics):
        raise Unsupported(
            "this release has no table of counts for every step, state and action: it is sparse, or of moments"
        )
    columns = table_columns(release, declaration)
    for package in ("pandas", "polars"):
        try:
            return importlib.import_module(package).DataFrame(columns)
        except ImportError:
            continue
    return columns


def table_columns(release: Release, declaration: Declaration) -> dict[str, NDArray[Any]]:
    """The columns: steps as the table numbers them (none where they are pooled), labels where there are some."""
    shape = declaration.shape
    size = shape.groups, shape.states, shape.actions
    group, state, action = (index.ravel() for index in np.indices(size))
    named = ((declaration.state_labels, state), (declaration.action_labels, action))
    states, actions = (index if labels is None else np.array(labels)[index] for labels, index in named)
    first = 0 if declaration.dates is not None else declaration.first_step
    columns = {} if shape.homogeneous else {"step": group + first}
    columns |= {"state": states, "action": actions}
    for name, column in _MEANING.items():
        if name in release.statistics:
            values, variance = release[name]
            columns[column] = np.broadcast_to(values, size).ravel()
            columns[f"{column}_deviation"] = np.sqrt(np.broadcast_to(variance, size)).ravel()
    return columns
