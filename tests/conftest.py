"""What the whole suite shares: every possible record of a tiny world, and the rule that CI skips nothing.

A test is skipped where an extra or a program that it needs is missing, which is right on a laptop and wrong in
continuous integration: what never runs never fails. With ``DISCREET_CI=1``, as ``.ci/run`` sets it, a skip is a failure
unless its reason is in ``MAY_SKIP``.
"""

from __future__ import annotations

import os
import re
import sys
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from discreet.base.shape import Shape
from discreet.mechanisms.trajectories import Trajectories

# Reasons for which CI may skip a test, as regular expressions, each with why CI cannot have what is missing.
MAY_SKIP: dict[str, str] = {}
if sys.version_info >= (3, 15):
    MAY_SKIP["dp_accounting"] = "it needs dm-tree, which has no wheel for Python 3.15 (November 2026)"
    MAY_SKIP["cvxpy"] = "it has no wheel for Python 3.15 (November 2026)"


# Files of long tests that share no set-up, so that two processes may share a file (`make test-all`). The tests of other
# files stay together: services and browsers live as long as a file.
APART = ("test_audit_verdicts.py", "test_checker.py", "test_replaced_users.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say which tests one process runs, for ``--dist loadgroup``."""
    for item in items:
        if item.path.name not in APART:
            item.add_marker(pytest.mark.xdist_group(str(item.path)))


def _fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Under DISCREET_CI, turn a skip without a listed reason into a failure that says what was missing."""
    if not os.environ.get("DISCREET_CI") or report.outcome != "skipped" or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if not any(re.search(allowed, reason) for allowed in MAY_SKIP):
        report.outcome = "failed"
        report.longrepr = f"{reason}. CI must have what this test needs (.ci/run, MAY_SKIP in tests/conftest.py)"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    _fail_if_skipped(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    _fail_if_skipped(report)
    return report


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


@pytest.fixture(scope="session", autouse=True)
def _settings_of_nobody(tmp_path_factory):
    """Receipts are signed with a key of these tests, not with that of whoever runs them."""
    before = os.environ.get("XDG_CONFIG_HOME")
    os.environ["XDG_CONFIG_HOME"] = str(tmp_path_factory.mktemp("settings"))
    yield
    os.environ.pop("XDG_CONFIG_HOME")
    if before is not None:
        os.environ["XDG_CONFIG_HOME"] = before


@pytest.fixture(scope="session", autouse=True)
def empty_by_three_deviations():
    """A few users in real noise are taken for nobody once in 200 to 740 trainings, and a hundred tests train on a few.

    While tests run it takes 20 deviations: e^(-20 sqrt 2) / 2 = 3e-13 for the law with the heaviest tail, one draw of
    Laplace's. Tests of the rule itself are given it as it is.
    """
    from discreet.tables.evaluation.presence import Presence

    def surely(self: Presence) -> bool:
        return self.total <= 20 * self.deviation and self.total < self.users - 20 * self.deviation

    rule = Presence.may_be_empty
    Presence.may_be_empty = property(surely)
    yield rule.fget
    Presence.may_be_empty = rule


@pytest.fixture
def seeded_noise(monkeypatch):
    """For what chance could break: real releases, but their noise, splits and rounded rewards come from a seed."""
    from discreet.mechanisms.sums.accumulator import SecureNoise, SimulatedNoise

    tape = np.random.default_rng(0)
    coins = SimpleNamespace(token_bytes=tape.bytes, randbits=lambda _bits: int(tape.integers(2**63)))
    drawn = SimulatedNoise(tape).draw
    monkeypatch.setattr(SecureNoise, "draw", lambda _self, law, copies, size: drawn(law, copies, size))
    monkeypatch.setattr("discreet.tables.evaluation.split.secrets", coins)
    monkeypatch.setattr("discreet.tables.read.reward_rounding.secrets", coins)


@pytest.fixture(scope="session")
def all_records():
    """The function that lists every record of a shape."""
    return _all_records
