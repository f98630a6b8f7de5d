"""A public choice between mechanisms is as bad as the worst of them, at every epsilon by itself."""

from __future__ import annotations

import math

import pytest
from discreet.privacy.worst_of import WorstOf

from discreet.privacy.profiles import GaussianProfile, PureProfile

PURE, GAUSSIAN = PureProfile(1.0), GaussianProfile(0.5)
WORST = WorstOf((PURE, GAUSSIAN))


def test_which_one_is_the_worst_depends_on_epsilon():
    assert WORST.delta(0.1) == PURE.delta(0.1) > GAUSSIAN.delta(0.1)
    assert WORST.delta(1.5) == GAUSSIAN.delta(1.5) > PURE.delta(1.5) == 0.0


@pytest.mark.parametrize("delta", [1e-9, 1e-3, 0.05])
def test_epsilon_and_delta_agree(delta):
    epsilon = WORST.epsilon(delta)
    assert epsilon == max(PURE.epsilon(delta), GAUSSIAN.epsilon(delta))
    assert WORST.delta(epsilon) <= delta * (1 + 1e-6)


def test_rho_is_the_largest():
    assert WORST.rho == max(PURE.rho, GAUSSIAN.rho)
    assert WorstOf((PURE, PureProfile(math.inf))).rho == math.inf
