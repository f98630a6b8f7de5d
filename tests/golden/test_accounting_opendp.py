"""opendp's own accounting of the measurements that real releases use."""

import math

import opendp.prelude as dp
import pytest

from discreet.noise import DiscreteGaussian, DiscreteLaplace
from discreet.privacy.sensitivity import Sensitivity

dp.enable_features("contrib")


@pytest.mark.parametrize(("scale", "moved"), [(1.0, 1), (7.5, 12)])
def test_discrete_laplace_epsilon(scale, moved):
    measurement = dp.m.make_laplace(dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64"), scale=scale)
    ours = DiscreteLaplace(scale).profile(Sensitivity.unit_shifts(moved, 0)).epsilon(0.0)
    assert ours == pytest.approx(measurement.map(moved), rel=1e-12)


@pytest.mark.parametrize(("sigma", "moved"), [(1.0, 1), (7.5, 12)])
def test_discrete_gaussian_rho(sigma, moved):
    measurement = dp.m.make_gaussian(dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64"), scale=sigma)
    ours = DiscreteGaussian(sigma).profile(Sensitivity.unit_shifts(moved, 0)).rho
    assert ours == pytest.approx(measurement.map(math.sqrt(moved)), rel=1e-12)
