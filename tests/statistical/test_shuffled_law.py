"""The shortcut of one binomial per counter has the law of the bits that users really send.

Chi-square tests at a false-alarm rate of 1e-4 each, seeds fixed; a wrong number of noise bits is rejected.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, chisquare

from discreet.base.policies import Policy
from discreet.base.shape import Shape
from discreet.mechanisms.counts.encoder import Context
from discreet.mechanisms.counts.joint_histogram import MarginalTable
from discreet.mechanisms.shuffled import CertifiedBits, ShuffledChannel
from discreet.mechanisms.sums.accumulator import SimulatedNoise
from discreet.noise.calibration import ShuffledBits

pytestmark = pytest.mark.slow

USERS, BITS, TRUE = 12, ShuffledBits(3, 0.25), 5.0
DRAWS = 20_000


def ones(bit_level):
    shape = Shape(DRAWS, 1, 1)
    encoder = MarginalTable(shape, successors=False)
    channel = ShuffledChannel(encoder, CertifiedBits(((USERS, BITS),)), USERS, bit_level=bit_level)
    run = channel.start(shape, SimulatedNoise(np.random.default_rng(7)), masked=False)
    run.add(np.full(DRAWS, TRUE), USERS, Context(Policy(np.zeros((1, DRAWS), np.int64))))
    values = run.estimates()["visits"].values.ravel()
    return np.round(values + USERS * BITS.bits * BITS.probability - TRUE).astype(int)


def fits(counts, trials, p):
    observed = np.bincount(np.clip(counts, 3, 16) - 3, minlength=14)
    masses = binom.pmf(np.arange(trials + 1), trials, p)
    expected = np.concatenate([[masses[:4].sum()], masses[4:16], [masses[16:].sum()]]) * len(counts)
    return chisquare(observed, expected).pvalue > 1e-4


@pytest.mark.parametrize("bit_level", [False, True])
def test_counts_of_ones_are_binomial(bit_level):
    counts = ones(bit_level)
    assert fits(counts, 36, 0.25)
    assert not fits(counts, 36, 0.25 * 2 / 3)
    assert not fits(counts, 36, 0.25 * 3 / 2)
    assert not fits(counts, 38, 0.25)
