"""Compilation: dispatch by the class of the first argument, in Python and in kernels; a cache that cannot go stale."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import NamedTuple

import numba
import numpy as np
import pytest
from numba.core.errors import TypingError

from discreet.base.compiled import cache_folder, dispatch, fingerprint, kernel


class Double(NamedTuple):
    factor: float


class Shift(NamedTuple):
    by: float
    twice: bool


class Stranger(NamedTuple):
    by: float


@dispatch
def change(rule, x):
    """Change a number."""


@change.implement(Double)
def _double(rule, x):
    return x * rule.factor


@change.implement(Shift)
def _shift(rule, x):
    return x + (2.0 if rule.twice else 1.0) * rule.by


@kernel
def total(rule, xs):
    result = 0.0
    for x in xs:
        result += change(rule, x)
    return result


@kernel
def divide(a, b):
    return a / b


def test_python_and_kernels_choose_the_same_implementation():
    xs = np.arange(5.0)
    for rule, expected in ((Double(3.0), 30.0), (Shift(2.0, False), 20.0), (Shift(2.0, True), 30.0)):
        assert sum(change(rule, x) for x in xs) == expected
        assert total(rule, xs) == expected


def test_a_loop_is_compiled_once_per_class_and_not_per_value():
    total(Double(1.0), np.zeros(1))
    before = len(total.signatures)
    for factor in (2.0, 3.0, 4.0):
        total(Double(factor), np.zeros(3))
    assert len(total.signatures) == before


@dispatch
def grow(first, x):
    """Larger."""


@grow.implement(object)
def _grow(first, x):
    return x + 1.0


@grow.implement(Double)
def _grow_times(first, x):
    return x * first.factor


@kernel
def grow_in_a_kernel(first, x):
    return grow(first, x)


def test_an_implementation_for_objects_serves_all_without_their_own():
    for call in (grow, grow_in_a_kernel):
        assert (call(Stranger(5.0), 1.0), call(Double(5.0), 1.0)) == (2.0, 5.0)


def test_a_class_without_an_implementation_is_refused():
    with pytest.raises(KeyError):
        change(Stranger(1.0), 1.0)
    with pytest.raises(TypingError):
        total(Stranger(1.0), np.zeros(1))


def test_a_dispatched_kernel_keeps_its_name_and_docstring():
    assert change.__name__ == "change"
    assert change.__doc__ == "Change a number."


def test_kernels_divide_as_numpy_does():
    assert divide(1.0, 0.0) == np.inf


def named(source: str) -> dict:
    """The kernels that a source defines, as if it were a module of the package."""
    module = {"__name__": "discreet.somewhere"}
    exec("from typing import NamedTuple\nfrom discreet.base.compiled import *\n" + source, module)
    return module


_SOURCE = """
FACTOR = 2.0

class Rule(NamedTuple):
    by: float

@dispatch
def apply(rule, x):
    pass

@apply.implement(Rule)
def _apply(rule, x):
    return x + rule.by

@inlined
def inner(x):
    'What it does.'
    return x * FACTOR

@kernel
def outer(rule, x):
    return apply(rule, inner(x))

@kernel
def apart(x):
    return x - 1.0
"""


@pytest.mark.parametrize(
    ("old", "new", "moved"),
    [
        ("return x * FACTOR", "return x / FACTOR", {"inner", "outer"}),  # a kernel that is called
        ("FACTOR = 2.0", "FACTOR = 3.0", {"inner", "outer"}),  # a constant that is read
        ("x + rule.by", "x - rule.by", {"outer"}),  # the implementation for the class of an argument
        ("x - 1.0", "x - 2.0", {"apart"}),  # itself
        ("What it does.", "What it does, said better.", set()),  # words
        ("FACTOR = 2.0", "FACTOR = 2.0\nUNUSED = 1", set()),  # what nobody reads
    ],
)
def test_an_edit_changes_the_fingerprints_of_what_contains_it_and_of_nothing_else(old, new, moved):
    before, after = named(_SOURCE), named(_SOURCE.replace(old, new))
    changed = {
        name
        for name in ("inner", "outer", "apart")
        if fingerprint(before[name], [before["Rule"]]) != fingerprint(after[name], [after["Rule"]])
    }
    assert changed == moved


def test_the_fields_of_an_arguments_class_are_part_of_the_fingerprint():
    before, after = named(_SOURCE), named(_SOURCE.replace("by: float", "by: float\n    again: float = 0.0"))
    assert fingerprint(before["outer"], [before["Rule"]]) != fingerprint(after["outer"], [after["Rule"]])
    assert fingerprint(before["apart"]) == fingerprint(after["apart"])


def test_compiling_does_not_move_anybody_elses_cache():
    before = numba.config.CACHE_DIR
    again = kernel(divide.py_func)
    assert again(1.0, 2.0) == 0.5
    assert before == numba.config.CACHE_DIR
    assert again.compiled.stats.cache_path == str(cache_folder())


def test_a_folder_that_cannot_be_written_costs_time_only(tmp_path, monkeypatch):
    (tmp_path / "taken").write_text("a file, not a folder")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "taken"))
    again = kernel(divide.py_func)
    with pytest.warns(RuntimeWarning, match="set NUMBA_CACHE_DIR"):
        assert again(1.0, 2.0) == 0.5
    assert again.compiled.stats.cache_path is None


_SCRIPT = """
import numpy as np
from typing import NamedTuple
from discreet.noise import add_noise
from discreet.base.compiled import kernel
from discreet.mechanisms.sums.accumulator import TotalArrays, advance
from discreet.noise.laplace import LaplaceKernel

{own}

cells, state = np.zeros(3), np.ones(1, np.uint64)
advance(TotalArrays(), 1, {law}, cells, state)
print(cells.tolist())
"""
_OWN = """
class Mine(NamedTuple):
    size: float

@add_noise.implement(Mine)
def _mine(law, out, state):
    for i in range(out.shape[0]):
        out[i] += law.size
"""


@pytest.mark.slow
def test_a_callers_class_does_not_spoil_the_cache_for_others(tmp_path):
    """A script's own law goes through a kernel of the library; the next process has never heard of that law."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}

    def run(own: str, law: str) -> str:
        script = tmp_path / "script.py"
        script.write_text(_SCRIPT.format(own=own, law=law))
        done = subprocess.run(
            [sys.executable, str(script)], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run(_OWN, "Mine(2.0)") == "[2.0, 2.0, 2.0]\n"
    first = run("", "LaplaceKernel(1.0)")
    assert first == run("", "LaplaceKernel(1.0)") != "[0.0, 0.0, 0.0]\n"
    assert run(_OWN, "Mine(3.0)") == "[3.0, 3.0, 3.0]\n"
