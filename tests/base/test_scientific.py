"""SciPy is what it is, only later."""

from __future__ import annotations

import subprocess
import sys

import pytest
import scipy.special

from discreet.base import scientific


def test_each_part_is_scipys_own():
    assert scientific.special.ndtri is scipy.special.ndtri
    assert all(getattr(scientific, name) is not None for name in scientific.__all__)


def test_a_name_that_scipy_lacks_is_an_error_when_it_is_used():
    with pytest.raises(AttributeError, match="nonsense"):
        scientific.special.nonsense  # noqa: B018


def test_nothing_is_loaded_before_its_first_use():
    script = (
        "import sys; from discreet.base.scientific import special\n"
        "before = 'scipy.special' in sys.modules; special.ndtri\n"
        "print(before, 'scipy.special' in sys.modules, 'scipy.stats' in sys.modules)"
    )
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert output.split() == ["False", "True", "False"]
