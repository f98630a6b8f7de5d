"""Statements about lower bounds on made-up results: what holds, what fails, and that uniform play passes none."""

from __future__ import annotations

import numpy as np
import pytest
from experiments.papers.figure import AT, UNIFORM, Measured
from experiments.papers.heavy_tailed import LOWER_BOUNDS, ORDERS, SIZES, lower_bound, power_of

from discreet.problems.heavy_tails.world import central_lower_bound, local_lower_bound
from discreet.worlds.registry import make_world

RUNS = 1 + 0.01 * np.linspace(-1, 1, 10)


def made_up(share, power=None, clear=0.3):
    """Results of all jobs: uniform play K^p, no privacy a part of it, private learners ``share`` K^power."""
    found = {}
    for job in LOWER_BOUNDS.jobs:
        order, K = job.world_options["order"], job.episodes
        level = float(K) ** power_of(order)
        if job.name.startswith("none"):
            level *= clear
        elif not job.name.startswith(UNIFORM):
            own = power_of(order) if power is None else power
            level = share * SIZES[0] ** power_of(order) * (K / SIZES[0]) ** own
        model = "none" if job.model == "none" else job.model
        found[job.key] = Measured({
            "guarantee": {"model": model}, "regret": {}, "checkpoints": [K],
            "curve": {"per_run": (level * RUNS).reshape(-1, 1).tolist()},
        })  # fmt: skip
    return LOWER_BOUNDS.verdicts(found)


def test_all_statements_hold_where_somebody_private_learns_at_the_rate():
    found = made_up(0.6)
    assert {name for name, verdict in found.items() if verdict["ours"].word != "holds"} == set()
    assert list(found) == [f"B{n}" for n in range(1, 10)]
    assert not any(verdict[version].idle for verdict in found.values() for version in verdict)


def test_uniform_play_passes_none_of_them():
    found = made_up(1.0)
    assert not any(verdict["published"].holds for verdict in found.values())


def test_a_learner_that_beats_the_rate_is_seen():
    """Growth far below the bound's, which no theorem allows: B1 to B4 fail, and privacy still costs."""
    found = made_up(0.6, power=0.2, clear=0.05)
    assert [found[f"B{n}"]["certified"].word for n in range(1, 5)] == ["fails"] * 4
    assert found["B6"]["certified"].word == "holds"
    assert found["B5"]["certified"].word != "holds"


def test_privacy_that_is_free_is_seen():
    found = made_up(0.3)
    assert [found[f"B{n}"]["ours"].holds for n in range(6, 10)] == [None] * 4


@pytest.mark.parametrize("row", sorted({job.row for job in LOWER_BOUNDS.jobs}))
def test_the_curves_are_those_of_the_worlds_that_are_run(row):
    job = next(job for job in LOWER_BOUNDS.jobs if job.row == row)
    shape = make_world(job.world, **job.world_options).shape
    formula = central_lower_bound if job.world == "hard-central" else local_lower_bound
    epsilon, order = job.world_options["epsilon"], job.world_options["order"]
    assert order in ORDERS
    assert lower_bound(row, np.array([job.episodes]))[0] == pytest.approx(formula(shape, job.episodes, epsilon, order))
    assert AT in job.name
