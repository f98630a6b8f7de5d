"""Guarantees of real releases to charge, and small ledgers to charge them to."""

from __future__ import annotations

import pytest

from discreet import ledger
from discreet.noise import DiscreteGaussian, DiscreteLaplace
from discreet.privacy.guarantee import drawn, from_mechanism
from discreet.privacy.sensitivity import Sensitivity

ONE_CELL = Sensitivity(1.0, 1.0, 1.0)


def pure(epsilon: float, name: str = "a count"):
    """A real release with exactly this epsilon."""
    return drawn(from_mechanism(DiscreteLaplace(1 / epsilon), ONE_CELL, delta=0.0, name=name), False)


def gaussian(sigma: float, delta: float):
    """A real release with discrete Gaussian noise, stated at a delta."""
    return drawn(from_mechanism(DiscreteGaussian(sigma), ONE_CELL, delta=delta, name="a count"), False)


@pytest.fixture
def budget_file(tmp_path):
    """A ledger file with the data set "people" and a budget of (1, 1e-6)."""
    file = tmp_path / "budget.db"
    with ledger.opened(file, new=True) as connection, ledger.transaction(connection):
        ledger.open_data_set(connection, "people", ledger.make_budget(epsilon=1.0, delta=1e-6))
    return file


@pytest.fixture
def books(budget_file):
    """An open connection to that ledger."""
    with ledger.opened(budget_file) as connection:
        yield connection
