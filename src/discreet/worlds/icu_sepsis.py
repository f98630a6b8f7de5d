"""ICU-Sepsis: treating sepsis in intensive care, as a table made from 17,000 real patients (Choudhary et al. 2024).

716 states (713 conditions of a patient, then death, survival and a last state that nothing leaves), 25 actions (five
levels of fluids times five of vasopressors). The tables and the clinicians' own policy are those of the ``icu-sepsis``
package, which must be installed; nothing of it is copied here.

The reward is 1 in the state "survival", which patients pass through once, so that it is a public function of the state:
a learner need not estimate it. A patient who reaches survival with the very last action is therefore not counted.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput, MissingExtra
from discreet.policies import StochasticPolicy
from discreet.validation import check_count
from discreet.worlds.rewards import Deterministic
from discreet.worlds.tabular import TabularWorld

_TABLES = "envs/assets/dynamics.npz"
SURVIVAL, LAST = 714, 715


def icu_sepsis(horizon: int = 20) -> TabularWorld:
    """The world of the ``icu-sepsis`` package with so many decisions per patient; laws are the same at every step."""
    check_count("horizon", horizon)
    tables = _tables()
    transitions = np.array(tables["tx_mat"], np.float64)
    states, actions, _ = transitions.shape
    transitions[SURVIVAL:] = 0.0
    transitions[SURVIVAL:, :, LAST] = 1.0
    means = np.zeros((1, states, actions))
    means[0, SURVIVAL] = 1.0
    return TabularWorld("icu-sepsis", transitions[None], Deterministic(means), tables["d_0"], horizon)


def clinicians(horizon: int = 20) -> StochasticPolicy:
    """What clinicians did: the probability of every treatment in every condition."""
    policy = np.array(_tables()["expert_policy"], np.float64)
    sums = policy.sum(axis=1, keepdims=True)
    policy = np.where(sums > 0, policy / np.where(sums > 0, sums, 1.0), 1.0 / policy.shape[1])
    return StochasticPolicy(np.broadcast_to(policy, (check_count("horizon", horizon), *policy.shape)))


def _tables() -> dict[str, NDArray[Any]]:
    # The package is not imported: it starts an environment, and all that is wanted is its table.
    package = find_spec("icu_sepsis")
    if package is None or not package.submodule_search_locations:
        raise MissingExtra("icu-sepsis", "icu")
    file = Path(next(iter(package.submodule_search_locations))) / _TABLES
    try:
        with np.load(file, allow_pickle=False) as tables:
            return {name: tables[name] for name in ("tx_mat", "d_0", "expert_policy")}
    except (OSError, KeyError, ValueError):
        raise InvalidInput(
            "the installed icu-sepsis package has other tables than those of version 2.0: install that"
        ) from None
