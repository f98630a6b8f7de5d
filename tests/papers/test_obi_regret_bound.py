"""The bound of Theorem 5 on LDP-OBI: its pieces by hand, its rates, and no measured regret above it."""

from __future__ import annotations

import math

import numpy as np
import pytest

import discreet
from discreet.base.errors import InvalidInput
from discreet.base.shape import Shape
from discreet.learners import OBI
from discreet.papers.ldp_obi import obi_regret_bound

SMALL = Shape(2, 2, 2, homogeneous=True)


def test_it_is_what_the_proof_adds_up():
    """At K = 1e6, epsilon 2, failure probability 0.1 and alpha 2, written out once more in plain numbers."""
    S = A = H = 2
    K, b, f = 1e6, 6.0, 0.1
    T, d = K * H, 3 * f / (2 * math.pi**2 * K**2)
    one, many = math.log(24 / d), math.log(48 / d)
    c1 = c2 = 1e3 * math.sqrt(8 * one) * b
    c3, c4 = 1e3 * math.sqrt(2) * math.sqrt(8 * many) * b, 1e3 * math.sqrt(8 * many) * b
    level, sums = math.log(14 * 4 * T / f), math.sqrt(2 * S * A * T) + H * S * A
    wanted = H * math.sqrt(46 * S * level) * sums + math.sqrt(6 * level) * sums
    wanted += 2 * S * A * H * (3 * c3 + S * c4) * (math.log(2 * T * S * A) + H)
    wanted += 2 * S * A * (3 * c2 + c1) * (math.log(2 * T * S * A) + H) + 2 * H * math.sqrt(T * math.log(2 / f))
    assert float(obi_regret_bound(SMALL, 2.0, K)) == pytest.approx(wanted, rel=1e-12)


def test_it_grows_like_the_root_of_users_and_falls_with_epsilon():
    K = np.array([1e8, 4e8])
    ratio = obi_regret_bound(SMALL, 2.0, K)
    assert 2.0 < ratio[1] / ratio[0] < 2.3, "two, and logarithms"
    assert obi_regret_bound(SMALL, 0.2, 1e8) > 9 * obi_regret_bound(SMALL, 2.0, 1e8)


def test_measured_regret_is_below_it():
    target = discreet.Local(20.0, recipe="local/published-laplace", options={"growth": 0.05})
    learner = OBI(constants="laplace")
    result = discreet.simulate(discreet.worlds.random_mdp(), learner, target, episodes=20_000, runs=2, seed=3)
    assert (result.regret <= obi_regret_bound(SMALL, 20.0, result.episodes)).all()


@pytest.mark.parametrize("wrong", [{"epsilon": 0.0}, {"failure_probability": 1.0}, {"alpha": 1.0}])
def test_bad_input(wrong):
    with pytest.raises(InvalidInput):
        obi_regret_bound(SMALL, wrong.pop("epsilon", 1.0), 100, **wrong)
