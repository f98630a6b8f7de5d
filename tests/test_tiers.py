"""The tiers of the suite: every test belongs to exactly one, and in continuous integration a skip is a failure."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text()

PASSED, NOTHING_TO_RUN = pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED

SKIPS = """
import pytest
def test_runs(): pass
{}
"""
ONE_TEST = SKIPS.format('@pytest.mark.skip(reason="no such engine")\ndef test_skipped(): pass')
IN_A_BODY = SKIPS.format('def test_skipped(): pytest.skip("no such engine")')
A_FILE = SKIPS.format('pytest.importorskip("no_such_engine", reason="no such engine")')
EXPECTED = SKIPS.format('@pytest.mark.xfail(reason="a known gap")\ndef test_gap(): raise AssertionError')


def run(folder: Path, code: str, ci: str) -> subprocess.CompletedProcess[str]:
    """Run a file of tests under the suite's conftest, in a process of its own."""
    (folder / "test_engine.py").write_text(code)
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", "-c", os.devnull]
    environment = {**os.environ, "DISCREET_CI": ci}
    return subprocess.run(
        [*command, "--rootdir", str(folder), str(folder)], cwd=ROOT, env=environment, capture_output=True, text=True
    )


@pytest.mark.slow
@pytest.mark.parametrize("code", [ONE_TEST, IN_A_BODY, A_FILE], ids=["test", "body", "file"])
def test_a_skip_is_a_failure_in_ci_and_nowhere_else(code, tmp_path):
    assert run(tmp_path, code, ci="").returncode in (PASSED, NOTHING_TO_RUN)
    in_ci = run(tmp_path, code, ci="1")
    assert in_ci.returncode not in (PASSED, NOTHING_TO_RUN)
    assert "no such engine" in in_ci.stdout
    assert "CI must have what this test needs" in in_ci.stdout


@pytest.mark.slow
def test_an_expected_failure_is_no_skip(tmp_path):
    assert run(tmp_path, EXPECTED, ci="1").returncode == PASSED


def markers(target: str) -> str:
    """The expression after -m in the recipe of a target of the Makefile."""
    found = re.search(rf"^{target}:.*\n(?:\t.*\n)*?\t\$\(PYTEST\) -m '([^']+)'", MAKEFILE, re.MULTILINE)
    assert found, f"make {target} runs no pytest"
    return found[1]


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("service", [False, True])
def test_no_test_runs_in_two_tiers_or_in_none(slow, long, service):
    """``make test`` and ``make test-all`` share the suite; ``make test-quick`` is a part of ``make test``."""
    marked = {"slow": slow, "long": long, "service": service}
    quick, test, rest = (bool(eval(markers(name), {}, marked)) for name in ("test-quick", "test", "test-all"))
    assert test != rest
    assert not quick or test
    assert quick == (not any(marked.values()))
