"""Samplers on trial: right ones pass with fixed seeds, and every kind of wrong one is seen.

Each test inside errs with probability 1e-6, so the noise from the operating system, which has no seed, makes this file
fail once in some thousands of runs of the whole suite at most.
"""

from __future__ import annotations

import numpy as np
import pytest

from discreet.audit.goodness_of_fit import (
    LEVEL,
    bins_of,
    chi_square,
    counted,
    independence,
    quieter,
    scale_seen,
)
from discreet.audit.samplers import SIMULATED, try_law
from discreet.mechanisms.sums.accumulator import SecureNoise, SimulatedNoise
from discreet.noise import (
    BinomialNoise,
    BoundedNoise,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    GridGaussian,
    KaryRandomizedResponse,
    Laplace,
    RandomizedResponse,
    UnaryEncoding,
)
from discreet.noise.knorm import TableNoise
from discreet.noise.symmetric_gaussian import DiscreteSymmetricGaussianMatrix

LAWS = [
    DiscreteLaplace(4.0),
    DiscreteLaplace(0.7),
    DiscreteGaussian(0.8),
    DiscreteGaussian(2500.0),
    GridGaussian(9.3, 32),
    Gaussian(3.0),
    Laplace(2.0),
    BoundedNoise(9.0),
    BinomialNoise(2000, 0.25),
    BinomialNoise(12, 0.5),
    TableNoise(4, 3.0),
    DiscreteSymmetricGaussianMatrix(3, 4e6),
    RandomizedResponse(1.0),
    KaryRandomizedResponse(1.0, 6),
    UnaryEncoding(1.0, 6),
]
SCALAR = LAWS[:10]


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_what_is_drawn_is_what_is_stated(law):
    tested = try_law(law)
    assert tested.tests >= 4
    assert tested.faults == ()


@pytest.mark.parametrize("law", SCALAR, ids=repr)
def test_noise_at_the_share_that_is_stated_is_convicted(law):
    """The power that a report states, tried: at that share 20 of 20 samples are convicted, or nearly; at 1 none."""
    share, bins = scale_seen(law, SIMULATED), bins_of(law, 1, SIMULATED)
    assert 0.9 < share < 1
    rng = np.random.default_rng(5)
    other = quieter(law, share - 0.01)
    convicted = [chi_square(counted(other.draw(rng, SIMULATED), bins), bins.masses) < LEVEL for _ in range(20)]
    assert sum(convicted) >= 16
    honest = [chi_square(counted(law.draw(rng, SIMULATED), bins), bins.masses) for _ in range(20)]
    assert min(honest) > LEVEL
    assert max(honest) > 0.3  # p-values of a right law are spread out


@pytest.mark.parametrize("law", SCALAR, ids=repr)
def test_noise_that_is_handed_out_twice_is_seen(law):
    rng, bins = np.random.default_rng(6), bins_of(law, 1, SIMULATED)
    x, y = law.draw(rng, SIMULATED), law.draw(rng, SIMULATED)
    assert independence(x, y, bins) > LEVEL
    assert independence(x, np.where(rng.random(SIMULATED) < 0.2, x, y), bins) < LEVEL


@pytest.mark.parametrize(
    ("what", "replacement"),
    [
        ("draw", lambda self, rng, size: np.zeros(size)),
        ("draw", lambda self, rng, size: np.round(0.8 * self.draw_sum(1, rng, size))),
        ("draw", lambda self, rng, size: np.repeat(self.draw_sum(1, rng, size // 2 + 1), 2)[:size]),
        ("draw_sum", lambda self, copies, rng, size: rng.geometric(0.2, size) - rng.geometric(0.2, size)),
        ("secure", lambda self, size: np.zeros(size, np.int64)),
        ("secure", lambda self, size: DiscreteGaussian(self.scale).draw(np.random.default_rng(0), size)),
        ("kernel", lambda self: DiscreteLaplace(0.8 * self.scale)._kernel()),
    ],
)
def test_wrong_samplers_of_a_law_are_seen(monkeypatch, what, replacement):
    honest = DiscreteLaplace.kernel
    monkeypatch.setattr(DiscreteLaplace, "_kernel", honest, raising=False)
    assert try_law(DiscreteLaplace(4.0)).faults == ()
    monkeypatch.setattr(DiscreteLaplace, what, replacement)
    assert try_law(DiscreteLaplace(4.0)).faults


@pytest.mark.parametrize("source", [SimulatedNoise, SecureNoise])
def test_a_source_that_forgets_copies_is_seen(monkeypatch, source):
    honest = source.draw
    monkeypatch.setattr(source, "draw", lambda self, law, copies, size: honest(self, law, 1, size))
    assert any("sum of two" in fault.sampler for fault in try_law(DiscreteLaplace(4.0)).faults)


def test_secure_noise_that_repeats_itself_is_seen(monkeypatch):
    kept = {}
    honest = DiscreteGaussian.secure
    monkeypatch.setattr(DiscreteGaussian, "secure", lambda self, size: kept.setdefault(size, honest(self, size)).copy())
    assert any("twice" in fault.sampler for fault in try_law(DiscreteGaussian(8.0)).faults)
