"""Averages drawn towards their group: how far is found from the rows, and by hand in small cases."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.worlds.planning.count_projection import project_counts
from discreet.worlds.planning.shrinkage import behaviour_shares, on_simplex, shares_kept, spread_of_rows


@pytest.mark.parametrize("true", [0.0, 0.01, 0.04])
def test_the_spread_of_rows_is_found_in_spite_of_unequal_errors(true):
    rng = np.random.default_rng(0)
    errors = rng.choice([1e-4, 0.01, 1.0], 4000)
    differ = rng.normal(size=4000) * np.sqrt(true + errors)
    assert spread_of_rows(differ**2, errors, 0.25) == pytest.approx(true, abs=0.002)


def test_the_spread_stays_within_its_limits():
    assert spread_of_rows(np.array([9.0]), np.array([0.1]), 0.25) == pytest.approx(0.25)
    assert spread_of_rows(np.array([0.01]), np.array([0.1]), 0.25) == 0.0
    assert spread_of_rows(np.empty(0), np.empty(0), 0.25) == 0.25  # nobody was counted: rows may differ as they like


def test_shrinking_has_less_error_than_either_extreme():
    rng = np.random.default_rng(1)
    errors = rng.choice([0.001, 0.1], 4000)
    truth = rng.normal(scale=0.2, size=4000)
    seen = truth + rng.normal(size=4000) * np.sqrt(errors)
    kept = shares_kept(spread_of_rows(seen**2, errors, 1.0), errors, np.ones(4000, np.bool_))
    squares = [float(np.mean((guess - truth) ** 2)) for guess in (kept * seen, seen, 0 * seen)]
    assert squares[0] < 0.8 * min(squares[1:])


def test_what_was_not_counted_keeps_nothing():
    kept = shares_kept(0.5, np.array([0.5, 0.5, 0.0]), np.array([True, False, True]))
    assert kept.tolist() == [0.5, 0.0, 1.0]


def test_what_users_did_by_hand():
    """Counts above one deviation, in proportion; where there is none the largest."""
    visits = np.array([[[60.0, 30.0, 9.0], [-3.0, -1.0, -7.0], [5.0, 9.0, 100.0]]])
    shares = behaviour_shares(visits, np.full(visits.shape, 100.0))
    np.testing.assert_allclose(shares, [[[2 / 3, 1 / 3, 0], [0, 1, 0], [0, 0, 1]]])


def test_shares_of_users_are_right_on_average_where_a_shrunken_share_is_not():
    """A share of 0.85 behind much noise: the mean is near it; half way to even shares it would be 0.6."""
    rng = np.random.default_rng(2)
    true = np.array([0.85, 0.10, 0.05])
    visits = 200 * true + rng.normal(scale=30.0, size=(3000, 1, 3))
    found = behaviour_shares(visits, np.full(visits.shape, 900.0)).mean(axis=(0, 1))
    assert found[0] == pytest.approx(0.85, abs=0.05)


def test_projection_ends_where_rounding_brings_a_cell_back():
    """A cell that equals the threshold but for its last digit went in and out for ever: this call did not return."""
    cells = [0.2929716810900514, 0.49248985854575106, 0.04182562963111268, 0.3400153492575356]
    cells += [-0.08365125926222536, -0.08365125926222536]
    shares = on_simplex(np.array([cells]))
    np.testing.assert_allclose(shares[0], np.maximum(np.array(cells) - cells[2], 0.0), atol=1e-12)
    np.testing.assert_allclose(project_counts(shares, np.ones(1), 0.0), shares)
