"""How much of a spread is signal: against slow plain versions, at the truth on average, and numbers that stay put."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.base.scientific import optimize
from discreet.worlds.planning.shrinkage import onto_simplex, shrink_nested, shrink_rows, signal_variance

RNG = np.random.default_rng(3)


def plain_signal(values, errors):
    """Paule and Mandel's variance for numbers, by a root finder on their equation as it is printed."""

    def equation(T):
        weights = [1 / (T + e) for e in errors]
        mean = sum(w * y for w, y in zip(weights, values, strict=True)) / sum(weights)
        return sum(w * (y - mean) ** 2 for w, y in zip(weights, values, strict=True)) - (len(values) - 1)

    return optimize.brentq(equation, 0.0, 1e3, xtol=1e-14) if equation(0.0) > 0 else 0.0


@pytest.mark.parametrize("signal", [0.0, 0.3, 2.0])
def test_numbers_are_drawn_to_their_mean_as_paule_and_mandel_have_it(signal):
    errors = RNG.uniform(0.1, 2.0, 40)
    values = 5.0 + np.sqrt(signal) * RNG.normal(size=40) + np.sqrt(errors) * RNG.normal(size=40)
    T = plain_signal(values, errors)
    weights = 1 / (T + errors)
    mean = (weights * values).sum() / weights.sum()
    shrunk = shrink_rows(values, errors)
    assert shrunk.values == pytest.approx(mean + T / (T + errors) * (values - mean), abs=1e-6)
    assert shrunk.errors == pytest.approx(T / (T + errors) * errors, abs=1e-6)


def test_the_signal_is_found_on_average_and_a_wrong_noise_is_not():
    """400 rows with a signal of 0.5: the estimate has a deviation of about 0.1, so 0.35 is off once in 2,000 runs."""
    errors = np.full(400, 1.0)
    rows = np.sqrt(1.5) * np.random.default_rng(1).normal(size=(400, 1))

    def found(e):
        return signal_variance(lambda T: float(((rows - rows.mean()) ** 2 / (e[:, None] + T)).sum()), 399, most=10.0)

    assert found(errors) == pytest.approx(0.5, abs=0.35)
    assert abs(found(errors / 4) - 0.5) > 0.35


def test_rows_share_one_signal_and_keep_what_is_well_known():
    rows = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    assert shrink_rows(rows, np.full(4, 1e-9)).values == pytest.approx(rows, abs=1e-6)
    assert shrink_rows(rows, np.full(4, 1e3)).values == pytest.approx(np.full((4, 2), 0.5), abs=1e-9)


def test_entries_are_drawn_to_their_row_and_rows_to_their_group():
    group = np.array([0, 0, 1, 1])
    quiet = RNG.random((4, 3))
    assert shrink_nested(quiet, np.full((4, 3), 1e-9), group).values == pytest.approx(quiet, abs=1e-5)
    loud = shrink_nested(quiet, np.full((4, 3), 1e4), group).values
    assert loud == pytest.approx(np.repeat(quiet.reshape(2, -1).mean(axis=1), 2)[:, None] * np.ones(3), abs=1e-3)


def test_an_entry_that_was_not_seen_looks_like_the_others_of_its_row():
    values = np.array([[0.1, 0.1, 3.0], [0.9, 0.9, -2.0]])
    errors = np.array([[1e-4, 1e-4, 25.0], [1e-4, 1e-4, 25.0]])
    shrunk = shrink_nested(values, errors, np.zeros(2, np.int64), least=1e-3)
    assert shrunk.values[:, 2] == pytest.approx([0.1, 0.9], abs=0.02)
    assert shrunk.errors[0, 2] > 10 * shrunk.errors[0, 0]


def test_the_least_signal_is_always_believed_in():
    values, errors = np.array([[0.4, 0.6]]), np.full((1, 2), 0.09)
    assert np.ptp(shrink_nested(values, errors, np.zeros(1, np.int64)).values) == pytest.approx(0.0, abs=1e-12)
    kept = shrink_nested(values, errors, np.zeros(1, np.int64), least=0.01).values
    assert np.ptp(kept) == pytest.approx(0.2 * 0.01 / 0.1)


def test_projection_finds_the_nearest_distribution():
    rows = RNG.normal(size=(20, 5))
    projected = onto_simplex(rows)
    assert projected.min() >= 0
    assert projected.sum(axis=1) == pytest.approx(np.ones(20))
    for row, near in zip(rows, projected, strict=True):
        for other in RNG.dirichlet(np.ones(5), 50):
            assert ((row - near) ** 2).sum() <= ((row - other) ** 2).sum() + 1e-12
