from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog

from discreet.base.errors import InvalidInput
from discreet.worlds.planning.count_projection import lift_counts, project_counts, project_rows


def min_max_deviation(cells: np.ndarray, total: float, slack: float) -> float | None:
    """The optimal value of the linear program, or None where it is infeasible."""
    S = len(cells)
    eye, ones = np.eye(S), np.ones((S, 1))
    sums = np.append(np.ones(S), 0.0)
    answer = linprog(
        np.append(np.zeros(S), 1.0),
        A_ub=np.vstack((np.hstack((eye, -ones)), np.hstack((-eye, -ones)), sums, -sums)),
        b_ub=np.concatenate((cells, -cells, [total + slack, slack - total])),
    )
    return float(answer.fun) if answer.success else None


def test_the_closed_form_is_optimal_for_the_linear_program() -> None:
    rng = np.random.default_rng(0)
    infeasible = inside = below = above = 0
    for _ in range(400):
        S = int(rng.integers(1, 7))
        cells = rng.normal(3, 10, S)
        total, slack = rng.normal(cells.sum(), 15), rng.uniform(0, 10)
        n = project_counts(cells, total, slack)
        best = min_max_deviation(cells, total, slack)
        assert (n >= 0).all()
        if best is None:
            infeasible += 1
            assert total + slack < 0
            assert (n == 0).all()
            continue
        assert abs(n.sum() - total) <= slack + 1e-9
        assert np.abs(n - cells).max() == pytest.approx(best, abs=1e-7)
        positive = np.maximum(cells, 0).sum()
        inside += abs(positive - total) <= slack
        below += positive < total - slack
        above += positive > total + slack
    assert min(infeasible, inside, below, above) > 30


def test_it_is_the_euclidean_projection() -> None:
    """Optimality in the variational form: (c - n).(m - n) <= 0 for every feasible m."""
    rng = np.random.default_rng(1)
    for _ in range(200):
        cells = rng.normal(2, 5, 4)
        total = abs(rng.normal(cells.sum(), 8))
        n = project_counts(cells, total, 1.0)
        for m in rng.dirichlet(np.ones(4), 20) * rng.uniform(max(0, total - 1), total + 1, (20, 1)):
            assert (cells - n) @ (m - n) <= 1e-9


def test_truncated_counts_have_the_offline_closed_form() -> None:
    rng = np.random.default_rng(2)
    cells, totals = rng.normal(2, 4, (300, 5)), rng.normal(10, 12, 300)
    n = project_counts(cells, totals, 2.0, truncate=True)
    y, z = np.maximum(cells, 0), np.maximum(totals, 0)
    lifted = 0
    for row, c, total in zip(n, y, z):
        if abs(c.sum() - total) <= 2:
            np.testing.assert_array_equal(row, c)
        elif c.sum() < total - 2:
            lifted += 1
            np.testing.assert_allclose(row, c + (total - 2 - c.sum()) / 5)
        else:
            assert row.sum() == pytest.approx(total + 2)
    assert lifted > 30
    # Cutting first is another program: the sign of a cell matters where mass is missing.
    assert not np.allclose(n, project_counts(cells, totals, 2.0))


def test_noise_within_a_quarter_of_the_error_keeps_totals_between_n_and_n_plus_e() -> None:
    error = 8.0
    for truth in ([0, 0, 0], [5, 0, 1], [40, 2, 0]):
        for signs in itertools.product((-1, 0, 1), repeat=4):
            noise = error / 4 * np.array(signs)
            n = project_counts(np.array(truth) + noise[:3], sum(truth) + noise[3], error / 4)
            cells, total = lift_counts(n, error)
            assert sum(truth) - 1e-9 <= total <= sum(truth) + error + 1e-9
            assert np.abs(cells - truth).max() <= error + 1e-9
            assert cells.sum() == pytest.approx(total)
            assert cells.min() > 0


def test_that_promise_needs_the_slack_to_cover_the_noise() -> None:
    error = 8.0
    n = project_counts(np.zeros(3), -error, error / 4)
    with pytest.raises(InvalidInput, match="1 of 1 rows"):
        project_counts(np.zeros(3), -error, error / 4, infeasible="refuse")
    assert (n == 0).all()
    assert (project_counts(np.zeros(3), -error, error / 4, truncate=True, infeasible="refuse") == 0).all()


def test_batches_and_ragged_rows_are_row_by_row() -> None:
    rng = np.random.default_rng(3)
    cells, totals = rng.normal(2, 4, (6, 7, 5)), rng.normal(8, 9, (6, 7))
    batch = project_counts(cells, totals, 1.5)
    for index in np.ndindex(6, 7):
        np.testing.assert_array_equal(batch[index], project_counts(cells[index], totals[index], 1.5))
    offsets, flat = np.array([0, 1, 5, 8]), cells.reshape(-1)[:8].copy()
    counts = np.empty(8)
    project_rows(flat, totals[0, :3].copy(), 1.5, offsets, counts)
    for r, (begin, end) in enumerate(itertools.pairwise(offsets)):
        np.testing.assert_array_equal(counts[begin:end], project_counts(flat[begin:end], totals[0, r], 1.5))


def test_inputs_are_checked() -> None:
    with pytest.raises(InvalidInput, match="totals"):
        project_counts(np.zeros((2, 3)), np.zeros(3), 1.0)
    with pytest.raises(InvalidInput, match="slack"):
        project_counts(np.zeros(3), 0.0, -1.0)
    with pytest.raises(InvalidInput, match="cells"):
        project_counts(np.zeros((2, 0)), np.zeros(2), 1.0)
    with pytest.raises(InvalidInput, match="did you mean empty"):
        project_counts(np.zeros(3), 0.0, 1.0, infeasible="emty")  # type: ignore[arg-type]
