"""How many users and steps a release says that it holds: by its own counts, and only where these tell."""

from __future__ import annotations

import pandas as pd
import pytest

import discreet.data as data
import discreet.offline as offline
from discreet.tables.evaluation.presence import Presence

USERS, H = 3000, 3


def table(**declared):
    """Everybody has three steps, but a third of the users starts in a state that is not declared."""
    rows = [
        (user, step, 9 if user % 3 == 0 and step == 0 else 0, step % 2, 1.0)
        for user in range(USERS)
        for step in range(H)
    ]
    frame = pd.DataFrame(rows, columns=list("utsar"))
    names = {"user": "u", "step": "t", "state": "s", "action": "a", "reward": "r"}
    return data.read(frame, **names, **{"states": 1, "actions": 2, "horizon": H, **declared})


@pytest.mark.parametrize("seen", [10, 1], ids=["everybody", "two thirds"])
def test_a_release_says_how_many_users_and_steps_it_holds(seen):
    """False alarm: six deviations of Gaussian noise, below 2e-9 for each."""
    fit = offline.train(table(states=seen), epsilon=2.0, delta=1e-6)
    present, users = fit.facts["values"]["present"], USERS if seen > 1 else 2 * USERS // 3
    assert abs(present["records"] - users) < 6 * present["records_deviation"] < 600
    assert abs(present["steps"] - H * users) < 6 * present["steps_deviation"] < 1200
    about = f"about {round(present['records']):,} ± {3 * present['records_deviation']:,.0f} of 3,000 users are in"
    assert present["meaning"].startswith(about)
    short = present["records"] < USERS - 3 * present["records_deviation"]  # once in 700 where everybody is there
    assert ("too few for 3,000 users: check the declarations" in present["meaning"]) == short
    assert short or seen == 10


def test_pooled_tables_count_steps_and_not_users():
    present = offline.train(table(states=10, homogeneous=True), epsilon=2.0, delta=1e-6).facts["values"]["present"]
    assert (present["records"], "3,000" in present["meaning"]) == (None, False)
    # Two rows of a user differ in state or action; the last step of three is not counted.
    assert abs(present["steps"] - 2 * USERS) < 6 * present["steps_deviation"]
    assert "of a user's rows with one state and action the first" in present["meaning"]


def test_linear_learners_have_no_counts():
    import numpy as np

    features = np.full((1, 2, 1), 0.5)
    fit = offline.train(table(), "vapvi", features=features, epsilon=9.0, delta=1e-6)
    assert fit.facts["values"]["present"] is None


@pytest.mark.parametrize(
    ("total", "users", "empty"),
    [(29.0, 61, True), (31.0, 62, False), (-31.0, 1, True), (-28.0, 1, False), (29.0, 50, False)],
)
def test_a_table_may_be_empty_where_noise_explains_nobody_and_not_everybody(
    total, users, empty, empty_by_three_deviations
):
    assert empty_by_three_deviations(Presence(total, 10.0, users)) is empty
