"""Rearranging the code moves no result: fixed simulations have the numbers that they had.

``python -m tests.golden.fixed_simulations`` writes them anew, where a change of results is meant. Kept as text with all
digits, and compared with a tolerance far below any change of meaning: processors differ in the last of them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from fixed_simulations import CASES, FILE, run_case

pytestmark = pytest.mark.slow

KEPT = json.loads(FILE.read_text())


def test_all_cases_are_kept():
    assert set(KEPT) == set(CASES)
    assert len(CASES) >= 60


@pytest.mark.parametrize("name", CASES)
def test_a_fixed_simulation_has_the_numbers_that_it_had(name):
    kept, found = KEPT[name], run_case(name)
    assert found["recipe"] == kept["recipe"]
    assert found["model"] == kept["model"]
    for key in ("epsilon", "delta", "rho"):
        assert found[key] == kept[key] or float(found[key]) == pytest.approx(float(kept[key]), rel=1e-9)
    for key in ("regret", "final_gap", "value"):
        if key in kept:
            numbers = [float(text) for text in kept[key]]
            assert [float(text) for text in found[key]] == pytest.approx(numbers, rel=1e-9, nan_ok=True)
    assert found.get("switches") == kept.get("switches")
