"""Local privacy, Figures 8 and 9: what one released sum of rewards looks like, over many repetitions.

Figure 8: after 1,000 episodes, with and without privacy; noise of scale 6 H / epsilon per user has standard deviation
sqrt(2 K) 6 H / epsilon in the sum. Figure 9: after one episode, for two trajectories that differ in their reward.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from discreet.reproduce.figure import Claim, Figure, Number, Scale
from discreet.reproduce.job import Job
from discreet.reproduce.local_regret import EPSILONS, PAPER, UNMASKED
from discreet.reproduce.measured import Measured, Verdict, View, all_of, below, within
from discreet.types import Floats

_HORIZON = 2
_USERS = 1_000
_SCALES = {"quick": Scale(_USERS, 200), "paper": Scale(_USERS, 1_000)}
_RECIPE = {
    "reference": "auto",
    "published": "local/published-laplace",
    "certified": "local/three-tables-laplace",
    "ours": "auto",
}
_RARELY: dict[str, Any] = {"growth": 1.0}  # how often releases are made does not change the last one
_OPTIONS: dict[str, dict[str, Any]] = {
    "reference": {},
    "published": _RARELY,
    "certified": {**UNMASKED, **_RARELY},
    "ours": _RARELY,
}
_REWARD = ("rewards", 0, 0)


def _aggregate(version: str, epsilon: float | None) -> Job:
    """Two states that people drift between, one action: what is played does not depend on what was released."""
    drift = {"transitions": [[[0.5, 0.5]], [[0.5, 0.5]]], "rewards": [[0.5], [0.5]], "horizon": _HORIZON}
    name, line = ("clear", "no privacy") if epsilon is None else (f"{epsilon:g}", f"ε={epsilon:g}")
    return Job(
        version, name, line, "arrays", "ucbvi", "none" if epsilon is None else "local", epsilon,
        recipe=_RECIPE[version], recipe_options=_OPTIONS[version], statistic=_REWARD,
        world_options={**drift, "start": [0.5, 0.5]},
    )  # fmt: skip


def _printed_deviation(epsilon: float) -> float:
    return math.sqrt(2 * _USERS) * 6 * _HORIZON / epsilon


def _noise(view: View, epsilon: float) -> float:
    """The deviation of a release without that of the users themselves."""
    released, clear = view[f"{epsilon:g}"].samples, view["clear"].samples
    return math.sqrt(max(released.var(ddof=1) - clear.var(ddof=1), 0.0))


FIGURE_8 = Figure(
    "local/figure-8",
    "A released sum of rewards after 1,000 episodes (local privacy, Figure 8)",
    PAPER,
    (
        _aggregate("reference", None),
        *(_aggregate(version, e) for version in ("published", "certified", "ours") for e in EPSILONS),
    ),
    _SCALES,
    (
        Claim(
            "spread", "the noise has standard deviation sqrt(2K) 6H / epsilon",
            lambda view: all_of(
                within(_noise(view, e), _printed_deviation(e), 0.15, f"ε={e:g}") for e in EPSILONS if e < 20
            ),
            "certified noise is 6H - 2 over epsilon wide and ours less: less noise for the same promise",
        ),
        Claim(
            "more variation", "private statistics vary much more than clear ones",
            lambda view: all_of(
                below(_deviations(view["clear"]), _deviations(view[f"{e:g}"]), f"ε={e:g}") for e in EPSILONS
            ),
        ),
    ),
    tuple(
        Number(f"deviation of the noise, ε={e:g}", f"{_printed_deviation(e):.4g}", partial(_noise, epsilon=e))
        for e in EPSILONS
    ),
    drawings=("histogram",),
    differences=(
        "The world has two states and one action, so that all repetitions are of one quantity.",
    ),
)  # fmt: skip


def _deviations(measured: Measured) -> Floats:
    return np.asarray(np.abs(measured.samples - measured.samples.mean()))


def _one_episode(version: str, reward: int) -> Job:
    """One pair to play, in which every step earns this much: the trajectory is fixed."""
    only = {"transitions": [[[1.0]]], "rewards": [[float(reward)]], "horizon": _HORIZON, "reward_law": "deterministic"}
    return Job(
        version, f"earned {reward * _HORIZON}", f"earned {reward * _HORIZON}", "arrays", "ucbvi", "local", 20.0,
        recipe=_RECIPE[version], recipe_options=_OPTIONS[version],
        statistic=("rewards", 0, 0), world_options=only, episodes=1,
    )  # fmt: skip


def _told_apart(view: View) -> float:
    """The total variation between the two, by the best test for a shift: is the sum above the middle?"""
    none, all_ = view["earned 0"].samples, view[f"earned {_HORIZON}"].samples
    middle = _HORIZON / 2
    return float((all_ > middle).mean() - (none > middle).mean())


FIGURE_9 = Figure(
    "local/figure-9",
    "One episode's released sum of rewards, two trajectories, epsilon 20 (local privacy, Figure 9)",
    PAPER,
    tuple(_one_episode(version, reward) for version in ("published", "certified", "ours") for reward in (0, 1)),
    {"quick": Scale(1, 400), "paper": Scale(1, 1_000)},
    (
        Claim(
            "indistinguishable", "the two trajectories become almost indistinguishable (told apart by less than 0.2)",
            lambda view: Verdict(_told_apart(view) < 0.2, f"told apart with advantage {_told_apart(view):.3f}"),
            "Laplace noise of scale 0.6 has total variation 1 - exp(-2/1.2) = 0.811 at a shift of 2; the claim needs "
            "two trajectories that earn the same",
        ),
    ),
    (Number("total variation at a shift of 2", "almost 0 (computed: 0.811)", _told_apart),),
    drawings=("histogram",),
    differences=("The paper's two trajectories are random; here one earns nothing and one everything.",),
)  # fmt: skip
