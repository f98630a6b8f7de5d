"""Validators: what they let through, and that an error names the thing, the value and the bound."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.base import validation as v
from discreet.base.errors import DiscreetError, InvalidInput, MissingExtra, unknown_name

GOOD = [
    (v.check_count, 3, 3),
    (v.check_count, np.int64(1), 1),
    (v.check_positive, 1e-300, 1e-300),
    (v.check_positive, np.float32(2), 2.0),
    (v.check_not_negative, 0, 0.0),
    (v.check_delta, 0, 0.0),
    (v.check_delta, 0.999, 0.999),
    (v.check_open_unit, 0.5, 0.5),
    (v.check_range, (0, 1), (0.0, 1.0)),
    (v.check_range, np.array([-2, 3]), (-2.0, 3.0)),
]
BAD = [
    (v.check_count, [0, -1, 1.0, 2.5, True, "3", None]),
    (v.check_positive, [0, 0.0, -1, np.inf, np.nan, True, "1", None, 1j]),
    (v.check_not_negative, [-1e-9, np.inf, np.nan, False, None]),
    (v.check_delta, [-1e-9, 1, 1.0, 2, np.nan, "0", None]),
    (v.check_open_unit, [0, 1, -0.1, 1.1, np.nan, True]),
    (v.check_range, [(1, 1), (2, 1), (0, np.inf), (np.nan, 1), (1,), (1, 2, 3), 5, None, ("a", "b")]),
    (v.check_array, [[[1, 2], [3]], "text", [np.nan], [np.inf], [None]]),
    (v.check_probabilities, [[0.5, 0.4], [-0.1, 1.1], [], [[1.0, 0.0], [0.5, 0.6]], [np.nan, 1.0]]),
]


@pytest.mark.parametrize(("check", "value", "expected"), GOOD)
def test_good_values_come_back_as_plain_ones(check, value, expected):
    assert check("thing", value) == expected
    assert type(check("thing", value)) is type(expected)


@pytest.mark.parametrize(("check", "value"), [(check, value) for check, values in BAD for value in values])
def test_bad_values_are_refused_by_name(check, value):
    with pytest.raises(InvalidInput, match="thing"):
        check("thing", value)


def test_bounds_are_stated():
    with pytest.raises(InvalidInput, match="at least 2, got 1"):
        v.check_count("states", 1, at_least=2)
    assert v.check_count("states", 0, at_least=0) == 0
    assert v.check_positive("scale", np.inf, finite=False) == np.inf
    with pytest.raises(InvalidInput, match=r"shape \(2,\), got \(3,\)"):
        v.check_array("table", [1, 2, 3], (2,))
    with pytest.raises(InvalidInput, match=r"row \(1,\) sums to 1.1"):
        v.check_probabilities("table", [[0.5, 0.5], [0.5, 0.6]])


def test_probabilities_are_normalised_exactly():
    table = v.check_probabilities("table", [0.1, 0.2, 0.7 + 1e-10])
    assert table.sum() == pytest.approx(1.0, abs=1e-15)


def test_unknown_names_are_answered_with_near_ones():
    error = unknown_name("world", "river-swum", ["river-swim", "taxi"])
    assert isinstance(error, InvalidInput)
    assert "did you mean river-swim?" in str(error)
    assert "choose one of a, b" in str(unknown_name("world", "zzz", ["b", "a"]))


def test_errors_have_one_root_and_are_what_python_expects():
    assert issubclass(InvalidInput, DiscreetError)
    assert issubclass(InvalidInput, ValueError)
    missing = MissingExtra("duckdb", "data")
    assert isinstance(missing, ImportError)
    assert "pip install '.[data]'" in str(missing)
