"""Honaker's refinement and the equal-law tree: the law of their noise, and that counts are exact without it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet.base.streams import NOISE, stream
from discreet.mechanisms.sums.accumulator import SimulatedNoise, advance, draws_at
from discreet.mechanisms.sums.tree import (
    EqualLawTree,
    EvenTree,
    RefinedNoise,
    RefinedTree,
    lowest_digit,
    refined_cost,
    refined_variances,
)
from discreet.noise import DiscreteLaplace, Gaussian, NoNoise
from discreet.privacy.sensitivity import Sensitivity

ROWS, SIZE = (1, 2, 1), 4
EVERYTHING = np.ones(ROWS, bool), np.ones(SIZE, bool)


def test_refined_variances_follow_inverse_variance_weighting():
    np.testing.assert_allclose(refined_variances(4), [1, 2 / 3, 4 / 7, 8 / 15])


def test_refined_noise_has_the_stated_variance_at_every_release():
    """Unit draws, 4,000 cells: the standard error of a sample variance is 0.022 times it; 5 of them are allowed."""
    n, cells = 21, 4000
    rng = np.random.default_rng(5)
    noise, total = RefinedNoise(RefinedTree(n), cells), np.zeros(cells)
    for t in range(1, n + 1):
        total = total + noise.step(lambda: rng.normal(size=cells))
        assert total.var() == pytest.approx(RefinedTree(n).errors()[t], rel=0.11)
    # the wrong law, a plain tree, is told apart by the same tolerance
    assert RefinedTree(n).errors()[8] < 0.89 * 1.0


def test_on_average_the_refinement_saves_what_is_stated():
    digits = sum(t.bit_count() for t in range(1, 2**12)) / (2**12 - 1)
    assert RefinedTree(2**12 - 1).errors()[1:].mean() / digits == pytest.approx(0.56, abs=0.01)


def test_the_compiled_refined_tree_has_the_law_of_the_plain_one():
    n, cells = 13, 4000
    tree = RefinedTree(n)
    arrays, noise, draws = tree.arrays(cells), np.zeros(cells), stream(2, 0, NOISE)
    for t in range(1, n + 1):
        advance(arrays, t, Gaussian(1.0).kernel(), noise, draws)
        assert noise.var() == pytest.approx(tree.errors()[t], rel=0.11)
        assert draws_at(arrays, t) == pytest.approx(tree.errors()[t])


def shown_of_users(releases):
    """mu^2 of every user for a deviation of one: from the covariance of all releases, read off the running code."""
    draws = sum(lowest_digit(t) + 1 for t in range(1, releases + 1))
    each = iter(np.eye(draws))
    noise = RefinedNoise(RefinedTree(releases), draws)
    of_draws = np.cumsum([noise.step(lambda: next(each)) for _ in range(releases)], axis=0)
    prefixes = np.tril(np.ones((releases, releases)))
    whitened = np.linalg.solve(np.linalg.cholesky(of_draws @ of_draws.T), prefixes)
    assert np.abs(np.triu(whitened, 1)).max() < 1e-12  # a mixture of users who came before: valid adaptively
    return (whitened**2).sum(axis=0)


@pytest.mark.parametrize("releases", [1, 2, 3, 4, 7, 8, 11, 16, 31, 63, 100, 255])
def test_a_refined_tree_is_charged_for_what_its_releases_show(releases):
    shown = shown_of_users(releases)
    moved = RefinedTree(releases).sensitivity(Sensitivity.unit_shifts(2, 2)).l2 / 2
    assert shown.max() <= moved**2
    assert shown.max() == pytest.approx(moved**2, rel=1e-9)


def test_a_refined_tree_shows_less_than_one_node_of_every_level():
    for levels, share in ((1, 1.0), (2, 0.9), (10, 0.8557), (15, 0.8561), (30, 0.8477)):
        assert refined_cost(levels) / levels == pytest.approx(share, abs=1e-4)
    assert np.argmax(shown_of_users(16)) > 0  # the first user is not the one who shows the most


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
