"""ICU-Sepsis: the package's own numbers, and private learning from a large sparse domain. Needs the package."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

import discreet
import discreet.offline
from discreet.base.errors import MissingExtra
from discreet.worlds import imported as module
from discreet.worlds.imported import SURVIVAL, clinicians, icu_sepsis

MISSING = find_spec("icu_sepsis") is None


def installed(test):
    """For what needs the package, which ``make test-all`` installs."""
    skip = pytest.mark.skipif(MISSING, reason="the package icu-sepsis is not installed: pip install 'discreet[icu]'")
    return pytest.mark.service(skip(test))


@installed
def test_the_published_values_are_met_without_a_limit_on_decisions():
    """0.78 for the clinicians and 0.88 for the best policy, as its authors state."""
    world = icu_sepsis(horizon=100)
    assert world.value(clinicians(100)) == pytest.approx(0.78, abs=0.005)
    assert world.optimal_value == pytest.approx(0.88, abs=0.01)


@installed
def test_rewards_are_a_public_function_of_the_state():
    world = icu_sepsis()
    assert world.shape == discreet.Shape(716, 25, 20, homogeneous=True)
    assert np.argwhere(world.means > 0)[:, 1].tolist() == [SURVIVAL] * 25
    assert (world.transitions[0, SURVIVAL:, :, -1] == 1).all()


@installed
def test_a_large_domain_gets_a_sparse_release_by_itself():
    result = discreet.offline.simulate(
        icu_sepsis(), "apvi", discreet.Central(4.0, 1e-6), users=2000, behaviour="clinicians", runs=1,
        known_rewards=True, options={"penalty_scale": 0.1},
    )  # fmt: skip
    assert result.recipe.startswith("offline/sparse")
    assert result.guarantee.epsilon <= 4.0
    assert "sparse first-visit successors" in result.guarantee.explain()
    assert 0.5 < result.value[0] < result.optimal_value[0]


def test_without_the_package_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda _name: None)
    with pytest.raises(MissingExtra, match="icu-sepsis"):
        icu_sepsis()
