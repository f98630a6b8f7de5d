"""What the whole suite shares: every possible record of a tiny world, for checks by enumeration."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from discreet.shape import Shape
from discreet.trajectories import Trajectories


def _all_records(shape: Shape, shortest: int | None = None) -> Trajectories:
    """Every sequence of (state, action, reward bit) of the shape, of all lengths from ``shortest`` to the horizon.

    Steps after the end hold values that an encoder must not look at.
    """
    S, A, H = shape.states, shape.actions, shape.horizon
    steps = list(product(range(S), range(A), (0.0, 1.0)))
    rows, lengths = [], []
    for length in range(H if shortest is None else shortest, H + 1):
        for record in product(steps, repeat=length):
            rows.append([*record, *[(S - 1, A - 1, 1.0)] * (H - length)])
            lengths.append(length)
    table = np.array(rows)
    low, high = shape.rewards
    return Trajectories(
        np.ascontiguousarray(table[:, :, 0]).astype(np.int64),
        np.ascontiguousarray(table[:, :, 1]).astype(np.int64),
        low + np.ascontiguousarray(table[:, :, 2]) * (high - low),
        np.array(lengths, np.int64),
    )


@pytest.fixture(scope="session")
def all_records():
    """The function that lists every record of a shape."""
    return _all_records
