"""Bandits that trust a shuffler, a secure sum, or nobody, as published; arguments as in ``central.py``.

**Shuffle**: SDP-AE, Tenenbaum, Kaplan, Mansour and Stemmer (2021): successive elimination in batches that double, each
arm's batch counted by a shuffled binary sum. Its text leaves the sum to a protocol with sub-Gaussian noise of deviation
O(sqrt(ln(1/delta)) / epsilon); "as printed" here takes the protocol of Balcer and Cheu (2020), noise bits of variance
50 ln(2/delta) / epsilon^2 in a counter, and confidence intervals that hold with probability 1 - 1/T. Small batches get
that much noise too, as in VB-SDP-AE, where users send several noise bits. The tuned one has the least binomial noise
that the library certifies for the size of each batch, with a sensitivity of one.

**Secure sum**: Dist-DP-SE, Chowdhury and Zhou (2023): discrete Laplace noise from a secure sum, pure epsilon; batches
of 4^b and failure probability 0.1 as in its experiments.

**Local**: LDP-UCB-L and LDP-UCB-B, Ren, Zhou, Liu and Shroff (2020), with the constants of the authors' code: every
user adds Lap(1/epsilon) to her reward, or answers it by randomised response.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from discreet.base.types import Floats, Integers
from experiments.bandits.central import laplace, pull


@njit(cache=True)
def sdp_ae(means: Floats, deviations: Floats, c: float, seed: int, arms: Integers) -> None:
    """SDP-AE; ``deviations[b]`` is the noise of a batch of 2^b users, c multiplies its logarithms (printed: 1)."""
    np.random.seed(seed)
    T, served, batch = len(arms), 0, 0
    left = np.arange(len(means))
    while served < T:
        batch += 1
        pulls = 2**batch if len(left) > 1 else T
        sure = c * math.log(4 * len(left) * batch**2 * T)
        deviation = deviations[min(batch, len(deviations) - 1)]
        noisy = np.zeros(len(left))
        for i, arm in enumerate(left):
            hits, served = pull(arm, pulls, means, arms, served)
            noisy[i] = (hits + np.random.normal(0.0, deviation)) / pulls  # binomial noise of many bits
        if served < T:
            width = math.sqrt(sure / (2 * pulls)) + deviation * math.sqrt(2 * sure) / pulls
            left = left[noisy >= noisy.max() - 2 * width]


@njit(cache=True)
def dist_dp_se(means: Floats, epsilon: float, c: float, seed: int, arms: Integers) -> None:
    """Dist-DP-SE; c multiplies its logarithms (printed: 1)."""
    np.random.seed(seed)
    T, served, batch = len(arms), 0, 0
    left = np.arange(len(means))
    while served < T:
        batch += 1
        pulls = 4**batch if len(left) > 1 else T
        wide = c * math.log(4 * len(left) * batch**2 / 0.1)
        loud = c * math.log(2 * len(left) * batch**2 / 0.1)
        width = math.sqrt(wide / (2 * pulls)) + (math.sqrt(2 * loud) + loud) / (epsilon * pulls)
        noisy = np.zeros(len(left))
        for i, arm in enumerate(left):
            hits, served = pull(arm, pulls, means, arms, served)
            noisy[i] = (hits + laplace(1 / epsilon)) / pulls
        if served < T:
            left = left[noisy >= noisy.max() - 2 * width]


@njit(cache=True)
def ldp_ucb(means: Floats, epsilon: float, c: float, seed: int, arms: Integers, bits: bool) -> None:
    """UCB on randomised rewards; c multiplies the logarithm in its widths (printed: 2)."""
    np.random.seed(seed)
    K, T, served = len(means), len(arms), 0
    total, counted = np.zeros(K), np.zeros(K)
    honest = math.exp(epsilon) / (1 + math.exp(epsilon))
    while served < T:
        log = math.log(served + 1.0)
        arm, best = 0, -np.inf
        for i in range(K):
            n = counted[i]
            if n == 0 or (not bits and n <= 2 * c * math.log(served + 2.0)):
                index = np.inf
            elif bits:
                index = total[i] / n + math.sqrt(c * log / n)
            else:
                index = total[i] / n + math.sqrt(c * log / n) * (1 + 4 / epsilon)
            if index > best:
                arm, best = i, index
        hit, served = pull(arm, 1, means, arms, served)
        if bits:
            total[arm] += hit if np.random.random() < honest else 1 - hit
        else:
            total[arm] += hit + laplace(1 / epsilon)
        counted[arm] += 1


@njit(cache=True)
def ldp_ucb_l(means: Floats, epsilon: float, c: float, seed: int, arms: Integers) -> None:
    """LDP-UCB-L: Laplace noise on every reward."""
    ldp_ucb(means, epsilon, c, seed, arms, False)


@njit(cache=True)
def ldp_ucb_b(means: Floats, epsilon: float, c: float, seed: int, arms: Integers) -> None:
    """LDP-UCB-B: every reward answered by randomised response."""
    ldp_ucb(means, epsilon, c, seed, arms, True)
