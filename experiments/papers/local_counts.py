"""Local privacy, Figures 8 and 9: what a released sum of rewards looks like, with and without privacy.

Garcelon, Perchet, Pike-Burke, Pirotta (2021). Figure 8: a sum of rewards after 1,000 episodes; noise of scale
6 H / epsilon per user has standard deviation sqrt(2 K) 6 H / epsilon in the sum. Figure 9: the same after one episode,
for two trajectories that differ in their reward.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from discreet.base.types import Floats
from experiments.papers.figure import (
    VERSIONS,
    Claim,
    Figure,
    Job,
    Number,
    Scale,
    Verdict,
    View,
    all_of,
    at_most,
    below,
    bootstrap,
    within,
)
from experiments.papers.local import EPSILONS, PAPER, UNMASKED, deviations

_HORIZON = 2
_USERS = 1_000
_ONCE: dict[str, Any] = {"growth": 1.0}  # how often releases are made does not change the last one
_RECIPE: dict[str, tuple[str, dict[str, Any]]] = {
    "reference": ("auto", {}),
    "published": ("local/published-laplace", _ONCE),
    "certified": ("local/three-tables-laplace", {**UNMASKED, **_ONCE}),
    "ours": ("auto", _ONCE),
}


def _released(version: str, name: str, line: str, model: str, epsilon: float | None, **rest: Any) -> Job:
    """Keep the sum of rewards of the first pair from the last release."""
    recipe, options = _RECIPE[version]
    return Job(
        version, name, line, "arrays", "ucbvi", model, epsilon, recipe=recipe, recipe_options=options,
        statistic=("rewards", 0, 0), **rest,
    )  # fmt: skip


def _aggregate(version: str, epsilon: float | None) -> Job:
    """Two states that people drift between, one action: what is played does not depend on what was released."""
    drift = {"transitions": [[[0.5, 0.5]], [[0.5, 0.5]]], "rewards": [[0.5], [0.5]], "horizon": _HORIZON}
    name, line = ("clear", "no privacy") if epsilon is None else (f"{epsilon:g}", f"ε={epsilon:g}")
    model = "none" if epsilon is None else "local"
    return _released(version, name, line, model, epsilon, world_options={**drift, "start": [0.5, 0.5]})


def _printed_deviation(epsilon: float) -> float:
    return math.sqrt(2 * _USERS) * 6 * _HORIZON / epsilon


def _noise(released: Floats, clear: Floats) -> float:
    """The deviation of a release without that of the users themselves."""
    return math.sqrt(max(float(released.var(ddof=1) - clear.var(ddof=1)), 0.0))


def _noise_in(view: View, epsilon: float) -> float:
    return _noise(view[f"{epsilon:g}"].samples, view["clear"].samples)


def _spread(view: View, epsilon: float) -> Verdict:
    """Whether the noise is as wide as printed; where it was built to be less it may be less."""
    samples = view[f"{epsilon:g}"].samples, view["clear"].samples
    return within(
        _noise(*samples), _printed_deviation(epsilon), 0.15, f"ε={epsilon:g}", bootstrap(_noise, *samples),
        runs=len(samples[0]), less_is_better=view.version != "published",
    )  # fmt: skip


FIGURE_8 = Figure(
    "local/figure-8",
    "A released sum of rewards after 1,000 episodes (local privacy, Figure 8)",
    PAPER,
    (_aggregate("reference", None), *(_aggregate(version, e) for version in VERSIONS for e in EPSILONS)),
    {"quick": Scale(_USERS, 200), "paper": Scale(_USERS, 1_000)},
    (
        Claim(
            "spread", "the noise has standard deviation sqrt(2K) 6H / epsilon",
            lambda view: all_of(_spread(view, e) for e in EPSILONS if e < 20),
            "certified noise is 6H - 2 over epsilon wide and ours less: less noise for the same promise",
        ),
        Claim(
            "more variation", "private statistics vary much more than clear ones",
            lambda view: all_of(
                below(deviations(view["clear"].samples), deviations(view[f"{e:g}"].samples), f"ε={e:g}")
                for e in EPSILONS
            ),
        ),
    ),
    tuple(
        Number(f"deviation of the noise, ε={e:g}", f"{_printed_deviation(e):.4g}", partial(_noise_in, epsilon=e))
        for e in EPSILONS
    ),
    drawings=("histogram",),
    differences=(
        "The world has two states and one action, so that all repetitions are of one quantity.",
    ),
)  # fmt: skip


def _one_episode(version: str, reward: int) -> Job:
    """One pair to play, in which every step earns this much: the trajectory is fixed."""
    only = {"transitions": [[[1.0]]], "rewards": [[float(reward)]], "horizon": _HORIZON, "reward_law": "deterministic"}
    name = f"earned {reward * _HORIZON}"
    return _released(version, name, name, "local", 20.0, world_options=only, episodes=1)


def _advantage(none: Floats, all_: Floats) -> float:
    """The total variation between the two, by the best test for a shift: is the sum above the middle?"""
    middle = _HORIZON / 2
    return float((all_ > middle).mean() - (none > middle).mean())


def _told_apart(view: View) -> float:
    return _advantage(view["earned 0"].samples, view[f"earned {_HORIZON}"].samples)


def _indistinguishable(view: View) -> Verdict:
    both = view["earned 0"].samples, view[f"earned {_HORIZON}"].samples
    return at_most(
        _told_apart(view), 0.2, "told apart with advantage", bootstrap(_advantage, *both), runs=len(both[0])
    )  # fmt: skip


FIGURE_9 = Figure(
    "local/figure-9",
    "One episode's released sum of rewards, two trajectories, epsilon 20 (local privacy, Figure 9)",
    PAPER,
    tuple(_one_episode(version, reward) for version in VERSIONS for reward in (0, 1)),
    {"quick": Scale(1, 400), "paper": Scale(1, 1_000)},
    (
        Claim(
            "indistinguishable", "the two trajectories become almost indistinguishable (told apart by less than 0.2)",
            _indistinguishable,
            "Laplace noise of scale 0.6 has total variation 1 - exp(-2/1.2) = 0.811 at a shift of 2; the claim needs "
            "two trajectories that earn the same",
        ),
    ),
    (Number("total variation at a shift of 2", "almost 0 (computed: 0.811)", _told_apart),),
    drawings=("histogram",),
    differences=("The paper's two trajectories are random; here one earns nothing and one everything.",),
)  # fmt: skip
FIGURES = (FIGURE_8, FIGURE_9)
