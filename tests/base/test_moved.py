"""Names of version 0.1 that are elsewhere now: found, the same things, and with a warning that can be followed."""

from __future__ import annotations

import importlib
import subprocess
import sys
import warnings

import pytest

import discreet.base.moved as moved

# What the pages of 0.1 imported, from where.
DOCUMENTED = [
    ("discreet.accumulators.schedule", "Equal"),
    ("discreet.calibration", "calibrate"),
    ("discreet.encoders.joint_histogram", "ALL_THREE"),
    ("discreet.encoders.joint_histogram", "joint_marginals"),
    ("discreet.encoders.joint_histogram", "JointHistogram"),
    ("discreet.offline.result", "OfflineResult"),
    ("discreet.privacy.calibration", "calibrate_noise"),
    ("discreet.privatizers.audit", "audit"),
    ("discreet.privatizers.channel", "Channel"),
    ("discreet.privatizers.channel", "Privatizer"),
    ("discreet.privatizers.local_shuffle", "respond"),
    ("discreet.privatizers.prefix_shuffle", "newcomer"),
    ("discreet.privatizers.prefix_shuffle", "prefix_views"),
    ("discreet.privatizers.published", "PUBLISHED"),
    ("discreet.privatizers.recipe", "Recipe"),
    ("discreet.privatizers.recipes", "build"),
    ("discreet.privatizers.trust", "Central"),
    ("discreet.privatizers.user_side", "randomize_record"),
    ("discreet.worlds.gym_bridge", "from_gymnasium"),
    ("discreet.worlds.linear", "benchmark_features"),
]


@pytest.mark.parametrize(("module", "name"), DOCUMENTED)
def test_a_name_of_the_old_pages_is_found_and_warns(module, name):
    with pytest.warns(
        DeprecationWarning, match=rf"{module}\.{name} has moved: write  from (\S+) import {name}"
    ) as seen:
        found = getattr(importlib.import_module(module), name)
    home = str(seen[0].message).split()[5]
    assert getattr(importlib.import_module(home), name) is found


@pytest.mark.parametrize(("package", "name"), sorted(moved.NAMES))
def test_a_name_of_a_package_is_found_and_warns(package, name):
    with pytest.warns(DeprecationWarning, match="has moved"):
        assert callable(getattr(importlib.import_module(package), name))


def test_other_names_are_not_invented():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        importlib.import_module("discreet.privatizers.recipes").nothing  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        importlib.import_module("discreet.noise").nothing  # noqa: B018
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("discreet.privatizers.nothing")


def test_the_warning_points_at_the_line_that_imports():
    program = "from discreet.privatizers.recipes import build\n"
    done = subprocess.run([sys.executable, "-W", "always", "-c", program], capture_output=True, text=True)
    assert done.returncode == 0
    assert "<string>:1: DeprecationWarning: discreet.privatizers.recipes.build has moved" in done.stderr


def test_new_names_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        importlib.import_module("discreet.recipes.registry").build  # noqa: B018
