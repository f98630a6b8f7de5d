"""The equal-law tree: the law of its noise, and that counts are exact without it; what an even tree is charged."""

from __future__ import annotations

import math

import numpy as np

from discreet.mechanisms.sums.accumulator import SimulatedNoise
from discreet.mechanisms.sums.tree import EqualLawTree, EvenTree
from discreet.noise import DiscreteLaplace, NoNoise

ROWS, SIZE = (1, 2, 1), 4
EVERYTHING = np.ones(ROWS, bool), np.ones(SIZE, bool)


def test_equal_law_releases_all_carry_as_many_draws_as_there_are_levels():
    """5,000 runs of 7 releases; the standard error of a sample variance of Laplace sums is below 3%, 5 are allowed."""
    law = DiscreteLaplace(3.0)
    tree = EqualLawTree(7)
    values = np.zeros((7, 5000 * SIZE))
    run = tree.start(5000 * SIZE, (1, 5000, SIZE), law, SimulatedNoise(np.random.default_rng(1)))
    everything = np.ones((1, 5000, SIZE), bool), np.ones(5000 * SIZE, bool)
    for t in range(7):
        run.add(np.full(5000 * SIZE, 2.0), 1, *everything)
        values[t] = run.values - 2.0 * (t + 1)
        assert (run.copies == tree.levels).all()
    np.testing.assert_allclose(values.var(axis=1), 3 * law.variance, rtol=0.15)
    assert np.corrcoef(values[3], values[4])[0, 1] > 0.2  # releases 4 and 5 share the node of four


def test_equal_law_counts_are_exact_without_noise():
    run = EqualLawTree(9).start(SIZE, ROWS, NoNoise(), SimulatedNoise(np.random.default_rng(0)))
    for t in range(9):
        run.add(np.arange(SIZE, dtype=float), 1, *EVERYTHING)
        np.testing.assert_array_equal(run.values, (t + 1) * np.arange(SIZE))


def test_whole_numbers_in_an_even_tree_show_more_than_their_covariance_says():
    """Three users, exactly: releases a + d, b + e, b + c of discrete Gaussian draws; the first user moves all by one.

    So an even tree must not be charged by the covariance of its releases, as one with continuous noise could be.
    """

    def divergence(p, q, order):
        both = (p > 0) & (q > 0)
        return np.log((p[both] ** order * q[both] ** (1 - order)).sum()) / (order - 1)

    for sigma, excess in ((0.5, 1.03), (1.5, 1 - 1e-9)):
        reach = math.ceil(9 * sigma) + 4
        draws = np.arange(-reach, reach + 1)
        law = np.exp(-(draws**2) / (2 * sigma**2))
        law /= law.sum()
        first, pair = np.convolve(law, law), np.zeros((4 * reach + 1, 4 * reach + 1))
        for i, chance in enumerate(law):
            pair[i : i + len(law), i : i + len(law)] += chance * np.outer(law, law)
        exact = divergence(first[1:], first[:-1], 1.5) + divergence(pair[1:, 1:], pair[:-1, :-1], 1.5)
        covariance = sigma**2 * np.array([[2, 0, 0], [0, 2, 1], [0, 1, 2]])
        by_covariance = 1.5 * np.ones(3) @ np.linalg.inv(covariance) @ np.ones(3) / 2
        by_nodes = 1.5 * EvenTree(3).levels / sigma**2 / 2
        assert excess * by_covariance < exact <= by_nodes
