"""The released table as a frame: numbers of the release, words of the owner, noise as stated."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest

import discreet.data as data
import discreet.offline as offline
from discreet.base.errors import Unsupported

USERS = 2000
NAMES = {"user": "u", "step": "t", "state": "s", "action": "a", "reward": "r"}


def fitted(learner="apvi", **how):
    rows = [(user, step + 1, "ill", user % 2 + 1, user % 2) for user in range(USERS) for step in range(2)]
    declared = {name: how.pop(name) for name in ("homogeneous",) if name in how}
    table = data.read(
        pd.DataFrame(rows, columns=list("utsar")), **NAMES, states=["ill", "well"], actions=[1, 2], horizon=2,
        first_step=1, **declared,
    )  # fmt: skip
    return offline.train(table, learner, epsilon=4.0, delta=1e-6, **how)


def test_the_frame_holds_the_release_in_the_owners_words():
    """False alarms: 2e-9 for too much noise in sixteen numbers; 4e-7 for none, which is a zero in eight whole ones."""
    fit = fitted()
    frame = fit.table()
    assert list(frame) == [
        "step",
        "state",
        "action",
        "visits",
        "visits_deviation",
        "reward_shares",
        "reward_shares_deviation",
    ]
    assert frame[["step", "state", "action"]].values.tolist()[:5] == [
        [1, "ill", "1"], [1, "ill", "2"], [1, "well", "1"], [1, "well", "2"], [2, "ill", "1"],
    ]  # fmt: skip
    np.testing.assert_array_equal(frame["visits"], fit.release["visits"].values.ravel())
    truth = np.where(frame["state"] == "ill", USERS / 2, 0)
    for column, expected in (("visits", truth), ("reward_shares", truth * (frame["action"] == "2"))):
        errors = (frame[column] - expected) / frame[f"{column}_deviation"]
        assert np.abs(errors).max() < 6.5
        assert column != "visits" or np.abs(errors).max() > 0
        assert (frame[f"{column}_deviation"] > 1).all()


def test_pooled_tables_have_no_steps_and_known_rewards_no_sums():
    assert "step" not in fitted(homogeneous=True).table()
    assert not [name for name in fitted(known_rewards=np.full((2, 2), 0.5)).table() if "reward" in name]


def test_other_packages_and_none(monkeypatch):
    polars, fit = pytest.importorskip("polars"), fitted()
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert isinstance(fit.table(), polars.DataFrame)
    monkeypatch.setitem(sys.modules, "polars", None)
    assert isinstance(fit.table(), dict)


def test_moments_are_no_table():
    with pytest.raises(Unsupported, match="it is sparse, or of moments"):
        fitted("vapvi", features=np.full((2, 2, 1), 0.5)).table()
