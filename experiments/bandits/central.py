"""Bandits under a trusted curator, as published: pure epsilon, one kernel each.

Every kernel has the same arguments: the means of the arms, epsilon, one constant ``c`` (what papers leave open or what
tuning changes), a seed, and ``arms``, where it writes which arm each user got. Rewards are bits. Kernels keep what is
private (``hits``) apart from what they decide by, and each says where the noise comes in.

**Privacy.** All of them protect a user's *reward*: replacing it changes the sum of one arm in one epoch by at most one,
so that noise Lap(1/epsilon) on the sum of an epoch is pure epsilon, and epochs are disjoint users, whom nothing else is
said about (parallel composition). Which arm she got is decided before she comes. :mod:`experiments.bandits.claims` has
the library compute these numbers. DP-UCB is different: in the tree of an arm she is in as many sums as it has levels.

**Sources.** DP-SE: Sajed and Sheffet (2019), with beta = 1/T. AdaP-UCB and AdaP-KLUCB: Azize and Basu (2022), alpha =
3.1 as in their experiments. Lazy-DP-TS: Hu and Hegde (2022). DP-KLUCB and DP-IMED: Azize, Wu, Honda, Orabona, Ito and
Basu (2025), which leave the ratio of the batches open. DP-UCB: Mishra and Thakurta (2015), gamma = 0.1.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from discreet.base.types import Floats, Integers


@njit(cache=True)
def pull(arm: int, users: int, means: Floats, arms: Integers, served: int) -> tuple[int, int]:
    """Give an arm to the next users, as many as are left: how many had a reward, and how many have been served."""
    users = min(users, len(arms) - served)
    arms[served : served + users] = arm
    return np.random.binomial(users, means[arm]), served + users


@njit(cache=True)
def laplace(scale: float) -> float:
    """One draw of noise."""
    return np.random.laplace(0.0, scale)


@njit(cache=True)
def kl(x: float, y: float) -> float:
    """The divergence of a coin with mean x from one with mean y."""
    y = min(max(y, 1e-12), 1 - 1e-12)
    found = 0.0
    if x > 0:
        found += x * math.log(x / y)
    if x < 1:
        found += (1 - x) * math.log((1 - x) / (1 - y))
    return found


@njit(cache=True)
def private_divergence(x: float, y: float, epsilon: float) -> float:
    """min over z in [x, y] of epsilon (z - x) + kl(z, y), for x below y: what tells two coins apart under privacy."""
    if x >= y:
        return 0.0
    y = min(max(y, 1e-12), 1 - 1e-12)
    z = 1 / (1 + math.exp(epsilon) * (1 - y) / y)
    return kl(x, y) if z <= x else epsilon * (z - x) + kl(z, y)


@njit(cache=True)
def largest_mean(x: float, bound: float, epsilon: float) -> float:
    """The largest y with a divergence of at most ``bound`` from x; epsilon 0 asks for plain kl."""
    low, high = x, 1.0
    for _ in range(30):
        y = (low + high) / 2
        divergence = kl(x, y) if epsilon == 0 else private_divergence(x, y, epsilon)
        if divergence <= bound:
            low = y
        else:
            high = y
    return low


@njit(cache=True)
def dp_se(means: Floats, epsilon: float, c: float, seed: int, arms: Integers) -> None:
    """DP-SE: epochs in which every arm that is left is pulled R times; c multiplies its logarithms (printed: 1)."""
    np.random.seed(seed)
    T, served, epoch = len(arms), 0, 0
    left = np.arange(len(means))
    while served < T:
        epoch += 1
        gap = 2.0**-epoch
        wide = c * math.log(8 * len(left) * epoch**2 * T)
        loud = c * math.log(4 * len(left) * epoch**2 * T)
        pulls = int(max(32 * wide / gap**2, 8 * loud / (epsilon * gap))) + 1
        if len(left) == 1:
            pulls = T
        noisy = np.zeros(len(left))
        for i, arm in enumerate(left):
            hits, served = pull(arm, pulls, means, arms, served)
            noisy[i] = (hits + laplace(1 / epsilon)) / pulls
        if served < T:
            width = math.sqrt(wide / (2 * pulls)) + loud / (epsilon * pulls)
            left = left[noisy >= noisy.max() - 2 * width]


@njit(cache=True)
def adap(means: Floats, epsilon: float, c: float, seed: int, arms: Integers, divergence: bool) -> None:
    """AdaP: an arm is played as often again as it was played before, and only that last episode counts for it."""
    np.random.seed(seed)
    K, served = len(means), 0
    pulls, noisy = np.ones(K, np.int64), np.zeros(K)  # noisy: mean of the last episode, of half the pulls
    counted = np.ones(K)
    for arm in range(K):
        hits, served = pull(arm, 1, means, arms, served)
        noisy[arm] = hits + laplace(1 / epsilon)
    index = np.zeros(K)
    while served < len(arms):
        t = served + 1.0
        for arm in range(K):
            optimistic = noisy[arm] + c * math.log(t) / (epsilon * counted[arm])
            if divergence:
                index[arm] = largest_mean(min(1.0, max(0.0, optimistic)), c * math.log(t) / counted[arm], 0.0)
            else:
                index[arm] = optimistic + math.sqrt(c * math.log(2 * t) / (2 * counted[arm]))
        arm = np.argmax(index)
        users = pulls[arm]
        hits, served = pull(arm, users, means, arms, served)
        noisy[arm] = (hits + laplace(1 / epsilon)) / users
        pulls[arm], counted[arm] = 2 * users, users


@njit(cache=True)
def adap_ucb(means: Floats, epsilon: float, c: float, seed: int, arms: Integers) -> None:
    """AdaP-UCB; c is the paper's alpha (printed: 3.1)."""
    adap(means, epsilon, c, seed, arms, False)


@njit(cache=True)
def adap_klucb(means: Floats, epsilon: float, c: float, seed: int, arms: Integers) -> None:
    """AdaP-KLUCB; c is the paper's alpha (printed: 3.1)."""
    adap(means, epsilon, c, seed, arms, True)


@njit(cache=True)
def lazy_dp_ts(means: Floats, epsilon: float, c: float, seed: int, arms: Integers) -> None:
    """Lazy-DP-TS: posterior samples from the last full epoch of each arm, moved up by c ln t / (epsilon n) (c: 3)."""
    np.random.seed(seed)
    K, served = len(means), 0
    counted, noisy = np.ones(K), np.zeros(K)
    fresh, hits = np.zeros(K, np.int64), np.zeros(K, np.int64)  # of the epoch that is being filled
    for arm in range(K):
        first, served = pull(arm, 1, means, arms, served)
        noisy[arm] = first + laplace(1 / epsilon)
    sample = np.zeros(K)
    while served < len(arms):
        for arm in range(K):
            n = counted[arm]
            mean = min(1.0, max(0.0, noisy[arm] + c * math.log(served + 1.0) / (epsilon * n)))
            sample[arm] = np.random.beta(mean * n + 1, (1 - mean) * n + 1)
        arm = np.argmax(sample)
        hit, served = pull(arm, 1, means, arms, served)
        fresh[arm] += 1
        hits[arm] += hit
        if fresh[arm] == 2 * counted[arm]:
            counted[arm] = fresh[arm]
            noisy[arm] = (hits[arm] + laplace(1 / epsilon)) / fresh[arm]
            fresh[arm] = hits[arm] = 0


@njit(cache=True)
def batched(means: Floats, epsilon: float, c: float, ratio: float, seed: int, arms: Integers, imed: bool) -> None:
    """Batches that grow by ``ratio`` for each arm; all of them count, each with noise of its own."""
    np.random.seed(seed)
    K, served = len(means), 0
    counted, noisy = np.zeros(K), np.zeros(K)  # noisy: sum of rewards and of the noise of all batches
    for arm in range(K):
        hits, served = pull(arm, 1, means, arms, served)
        counted[arm], noisy[arm] = 1, hits + laplace(1 / epsilon)
    index = np.zeros(K)
    while served < len(arms):
        best = min(1.0, max(0.0, np.max(noisy / counted)))
        for arm in range(K):
            n, mean = counted[arm], min(1.0, max(0.0, noisy[arm] / counted[arm]))
            if imed:
                index[arm] = -(n * private_divergence(mean, best, epsilon) + c * math.log(n))
            else:
                index[arm] = largest_mean(mean, c * math.log(served + 1.0) / n, epsilon)
        arm = np.argmax(index)
        users = int(max(1.0, math.ceil(counted[arm] * ratio) - counted[arm]))
        hits, served = pull(arm, users, means, arms, served)
        counted[arm] += users
        noisy[arm] += hits + laplace(1 / epsilon)


@njit(cache=True)
def dp_klucb(means: Floats, epsilon: float, c: float, seed: int, arms: Integers) -> None:
    """DP-KLUCB with batches that double; c multiplies ln t in its index (printed: 1)."""
    batched(means, epsilon, c, 2.0, seed, arms, False)


@njit(cache=True)
def dp_imed(means: Floats, epsilon: float, c: float, seed: int, arms: Integers) -> None:
    """DP-IMED with batches that double; c multiplies ln n in its index (printed: 1)."""
    batched(means, epsilon, c, 2.0, seed, arms, True)


@njit(cache=True)
def dp_ucb(means: Floats, epsilon: float, c: float, seed: int, arms: Integers) -> None:
    """DP-UCB: a binary tree for each arm, each with epsilon/K; c multiplies the width of its noise (printed: 1)."""
    np.random.seed(seed)
    K, T, served = len(means), len(arms), 0
    levels = int(math.ceil(math.log2(T))) + 1  # noqa: RUF046
    scale = K * levels / epsilon
    nodes, hits, counted = np.zeros((K, levels)), np.zeros(K), np.zeros(K, np.int64)
    loud = K * math.log(T) ** 2 * math.log(K * T * math.log(T) / 0.1) / epsilon
    index = np.zeros(K)
    while served < T:
        arm = served
        if served >= K:
            for i in range(K):
                n = counted[i]
                noise = 0.0
                for level in range(levels):
                    if (n >> level) & 1:
                        noise += nodes[i, level]
                index[i] = (hits[i] + noise + c * loud) / n + math.sqrt(2 * math.log(served + 1.0) / n)
            arm = np.argmax(index)
        hit, served = pull(arm, 1, means, arms, served)
        hits[arm] += hit
        counted[arm] += 1
        closed = 0
        while not (counted[arm] >> closed) & 1:
            closed += 1
        nodes[arm, closed] = laplace(scale)  # the node that has just been filled; smaller ones start again
