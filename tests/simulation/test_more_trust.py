"""More trust is never worse under "auto": central, shuffle and local privacy in small worlds, run by run.

The full comparison is ``python -m experiments.gauntlet compare``; this one is small enough for every commit. In each
world the three models play the same runs, and regret is a share of uniform play's. The claim is refuted where the mean
of paired differences exceeds 4.5 standard errors of 12 runs and a hundredth of uniform play's regret: by chance in
fewer than 5 of 10,000 comparisons (Student's law with 11 degrees of freedom), if the models cost the same. The wrong
claim, that less trust is never worse, must be refuted.
"""

from __future__ import annotations

import numpy as np
import pytest

import discreet
from discreet.base.policies import uniform_policy
from discreet.worlds import from_arrays, river_swim

EPISODES, RUNS = 3000, 12


def arms(*means):
    return from_arrays(np.ones((1, len(means), 1)), np.array([means]), horizon=1, start=0)


WORLDS = {
    "four arms": arms(0.7, 0.5, 0.5, 0.3),
    "ten arms": arms(*np.linspace(0.9, 0.1, 10)),
    "river": river_swim(states=3, horizon=4),
}
MODELS = {"central": discreet.Central, "shuffle": discreet.Shuffle, "local": discreet.Local}


def shares(world, privacy):
    played = discreet.simulate(world, "ucbvi", privacy, episodes=EPISODES, runs=RUNS, seed=2, threads=2)
    return played.total_regret / (EPISODES * world.gap(uniform_policy(world.shape)))


def refuted(more, less):
    """Whether the claim that ``more`` costs no more than ``less`` is refuted by paired runs."""
    excess = more - less
    return excess.mean() > 4.5 * excess.std(ddof=1) / np.sqrt(len(excess)) and excess.mean() > 0.01


@pytest.mark.parametrize("name", WORLDS)
def test_more_trust_is_never_worse(name):
    measured = {model: shares(WORLDS[name], kind(1.0, 1e-5)) for model, kind in MODELS.items()}
    for more, less in (("central", "shuffle"), ("shuffle", "local"), ("central", "local")):
        assert not refuted(measured[more], measured[less]), f"{more} is worse than {less}"
    if name == "river":
        assert refuted(shares(WORLDS[name], discreet.Local(0.5)), measured["central"])
