"""How many noise bits a promise needs: smallest numbers known from an independent computation, and dp-accounting."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from discreet.noise import BinomialNoise
from discreet.noise.calibration import calibrate_binomial
from discreet.privacy.sensitivity import Sensitivity

# Six steps: three tables (18 up, 18 down), transitions and rewards (12, 12), joint cells (6, 6), then one step only.
FAIR_BITS = {
    1.0: {18: 2_008, 12: 1_340, 6: 670, 2: 225, 1: 115},
    0.1: {18: 136_448, 12: 91_008, 6: 45_440, 2: 15_168, 1: 7_584},
}


@pytest.mark.parametrize(("epsilon", "shifts"), [(e, s) for e, row in FAIR_BITS.items() for s in row])
def test_fair_noise_bits(epsilon, shifts):
    bits = calibrate_binomial(1, shifts, shifts, epsilon, 1e-5).bits
    assert bits == pytest.approx(FAIR_BITS[epsilon][shifts], rel=0.01)


@pytest.mark.parametrize(
    ("users", "shifts", "epsilon", "deviation"),
    [(64, 18, 1.0, 22.5), (4096, 18, 1.0, 22.4), (64, 6, 1.0, 13.0), (4096, 6, 1.0, 13.0), (4096, 1, 1.0, 5.8)],
)
def test_deviations_by_size_of_batch(users, shifts, epsilon, deviation):
    bits = calibrate_binomial(users, shifts, shifts, epsilon, 1e-5)
    assert BinomialNoise(users * bits.bits, bits.probability).variance ** 0.5 == pytest.approx(deviation, rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(("trials", "p", "shifts"), [(670, 0.5, 6), (4096, 0.0428924560546875, 6), (2008, 0.5, 18)])
def test_dp_accounting_certifies_the_same_delta(trials, p, shifts):
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")

    counts = np.arange(trials + 2)
    with np.errstate(divide="ignore"):
        here = {int(i): float(v) for i, v in enumerate(binom.logpmf(counts, trials, p)) if v > -700}
        there = {int(i): float(v) for i, v in enumerate(binom.logpmf(counts - 1, trials, p)) if v > -700}

    def direction(upper, lower):
        return pld.from_two_probability_mass_functions(
            lower, upper, pessimistic_estimate=True, value_discretization_interval=2e-5, symmetric=True
        ).self_compose(shifts)

    theirs = direction(there, here).compose(direction(here, there)).get_delta_for_epsilon(1.0)
    ours = BinomialNoise(trials, p).profile(Sensitivity.unit_shifts(shifts, shifts)).delta(1.0)
    assert ours <= 1.005e-5
    assert ours == pytest.approx(theirs, rel=0.01)
