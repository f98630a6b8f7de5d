"""Blocks of bandit losses, and what is decided about them from public numbers alone."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import discreet
from discreet import Central
from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.shape import layered_shape
from discreet.base.streams import USERS, stream
from discreet.mechanisms.counts.encoder import encode
from discreet.mechanisms.schedule import sizes
from discreet.mechanisms.sums.blocks import Blocks, EachAlone
from discreet.mechanisms.sums.tree import Tree
from discreet.mechanisms.trajectories import Trajectories
from discreet.noise import DiscreteGaussian, DiscreteLaplace
from discreet.problems.adversarial.encoders import LossBits, SignedLosses
from discreet.problems.adversarial.layered_budget import quieter_counts, share_of_counts, table_error, tells
from discreet.recipes.registry import build

SHAPE = layered_shape((1, 5, 5, 5, 1), 3)
K, D, H = 5000, 48, 4
NAME = "central/observed-losses-blocks"


def built(epsilon=3.0, delta=0.0, shape=SHAPE, episodes=K, **options):
    return build(Central(epsilon, delta, recipe=NAME, options=options), shape, episodes)


def test_a_block_pays_for_two_cells_per_step_once():
    counts, losses = (channel.law for channel in built(split=0.1, blocks=100).channels)
    assert losses.scale == pytest.approx(2 * H / (0.9 * 3.0))
    assert counts.scale == pytest.approx(2 * (H - 1) / (0.1 * 3.0))
    privatizer = built(split=0.1, blocks=100)
    assert privatizer.guarantee.epsilon == pytest.approx(3.0)
    assert len(sizes(privatizer.schedule, K)) == 100
    assert isinstance(privatizer.channels[1].accumulator, EachAlone)
    assert privatizer.statistics == {"transitions", "observed_losses", "signed_losses"}


def test_replacing_any_user_of_a_block_moves_what_is_promised():
    """Brute force: every pair of records, in a block with somebody else, moves H cells up and H down at most."""
    shape = layered_shape((1, 2, 2, 1), 2)
    steps = [product(range(size), range(2), (0.0, 1.0)) for size in shape.sizes[:-1]]
    records = np.array(list(product(*steps)))
    everyone = Trajectories.from_arrays(records[..., 0], records[..., 1], records[..., 2], shape)

    def moves(encoder):
        cells = encode(encoder, everyone, stream(0, 0, USERS))
        return (cells[:, None] + cells[7]) - (cells[None] + cells[7])

    moved = moves(LossBits(shape))
    stated = LossBits(shape).sensitivity()
    assert np.abs(moved).sum(axis=-1).max() == stated.l1 == 2 * shape.horizon
    assert (moved > 0).sum(axis=-1).max() == (moved < 0).sum(axis=-1).max() == shape.horizon
    assert np.abs(moved).max() == stated.linf == 1
    signs, stated = moves(SignedLosses(shape)), SignedLosses(shape).sensitivity()
    assert np.abs(signs).sum(axis=-1).max() == stated.l1 == 2 * shape.horizon
    assert np.sqrt((signs**2).sum(axis=-1).max()) == pytest.approx(stated.l2)
    assert np.abs(signs).max() == stated.linf == 2


def test_signs_have_half_the_noise_of_ones_less_zeros_if_it_is_laplace():
    both = [built(1.0, split=0.1, blocks=20, cells=cells) for cells in ("bits", "signed")]
    bits, signed = (privatizer.channels[1] for privatizer in both)
    assert isinstance(signed.encoder, SignedLosses)
    assert signed.law == bits.law
    assert (bits.cells_per_count()["signed_losses"], signed.cells_per_count()["signed_losses"]) == (2, 1)
    assert both[0].guarantee.epsilon == both[1].guarantee.epsilon
    assert both[1].statistics == {"transitions", "signed_losses"}
    shorter = [len(sizes(built(1.0, split=0.1, cells=cells).schedule, K)) for cells in ("bits", "signed")]
    assert shorter[1] / shorter[0] == pytest.approx(math.sqrt(2), rel=0.05)  # blocks follow the deviation of the noise
    gaussian = built(0.1, 1e-5, noise="gaussian", cells="signed")  # one cell may move by two: nothing is gained
    assert isinstance(gaussian.channels[1].encoder, LossBits)
    with pytest.raises(InvalidInput, match="cells"):
        built(cells="halves")


def test_auto_compares_noises_by_that_of_signs():
    """Laplace noise gains from signs, so it is taken where noise of two cells would be louder than Gaussian noise."""

    def variance(noise, cells):
        channel = built(2.5, 1e-5, split=0.1, blocks=20, noise=noise, cells=cells).channels[1]
        return channel.law.variance * channel.cells_per_count()["signed_losses"]

    for cells in ("bits", "signed"):
        assert variance("auto", cells) == min(variance("laplace", cells), variance("gaussian", cells))
    assert variance("laplace", "signed") < variance("gaussian", "signed") < variance("laplace", "bits")


def test_signs_serve_whoever_needs_observed_losses():
    signed = Central(1.0, recipe=NAME, options={"cells": "signed", "blocks": 4})
    leader, barrier = discreet.learners.PerturbedLeader(), discreet.learners.UOBLBPS()
    assert build(Central(1.0), SHAPE, K, leader.needs).options["cells"] == "signed"
    assert build(Central(1.0), SHAPE, K, barrier.needs).options["cells"] == "bits"
    world = discreet.worlds.layered((1, 2, 2, 1), 2, "random")
    for learner in (leader, barrier):
        assert np.isfinite(discreet.simulate(world, learner, signed, episodes=40, runs=1, seed=5).regret).all()
    with pytest.raises(Unsupported, match="observed_losses"):
        discreet.simulate(world, replace(barrier, estimator="published"), signed, episodes=40, runs=1)


def test_the_length_of_blocks_balances_noise_and_waiting():
    """m = sqrt(4 d V / H) for noise of variance V in ones less zeros over two."""
    for epsilon in (1.0, 3.0, 10.0):
        privatizer = built(epsilon)
        variance = privatizer.channels[1].law.variance / 2
        assert len(sizes(privatizer.schedule, K)) == round(K / math.sqrt(4 * D * variance / H))
    assert len(sizes(built(1e4).schedule, K)) == K  # next to no noise: nobody waits
    assert len(sizes(built(1e-6).schedule, K)) == 1


def test_auto_takes_the_quieter_noise():
    def family(epsilon, delta):
        return type(built(epsilon, delta).channels[1].law)

    assert family(1.0, 0.0) is DiscreteLaplace
    assert family(10.0, 1e-5) is DiscreteLaplace
    assert family(0.1, 1e-5) is DiscreteGaussian
    both = [built(0.1, 1e-5, noise=noise).channels[1].law.variance for noise in ("laplace", "gaussian", "auto")]
    assert both[2] == both[1] < both[0]
    exact = built(1.0, 1e-5, noise="gaussian").guarantee
    assert 0.9999 < exact.epsilon <= 1.0
    with pytest.raises(Unsupported, match="delta"):
        built(1.0, 0.0, noise="gaussian")
    with pytest.raises(InvalidInput, match="noise"):
        built(noise="cauchy")
    by_rho = build(Central(rho=0.1, recipe=NAME), SHAPE, K)
    assert by_rho.guarantee.rho == pytest.approx(0.1)


def test_counts_take_the_quieter_of_sums_and_trees():
    """With one draw of scale b per block B b^2 against a tree's (L + 1) / 2 draws of scale L b."""

    def chosen(blocks):
        return quieter_counts(lambda way: DiscreteLaplace(4.0 * (way.levels if isinstance(way, Tree) else 1)), blocks)

    assert isinstance(chosen(250), Blocks)  # 250 against 4.5 * 64
    assert chosen(2000) == Tree(users=2000)  # 2000 against 6 * 121


def test_counts_that_cannot_tell_anything_get_little():
    assert built().channels[0].law.scale == pytest.approx(2 * (H - 1) / (0.05 * 3.0))
    many = 10**9
    rich = built(10.0, episodes=many)
    assert rich.channels[1].law.scale == pytest.approx(2 * H / 5.0)
    assert not tells(1e6, SHAPE, K)
    assert tells(1.0, SHAPE, K)
    for wrong in (-0.1, 1.5, "most"):
        with pytest.raises(InvalidInput, match="split"):
            share_of_counts(wrong, SHAPE, K, lambda: 0.0)
    assert share_of_counts("auto", layered_shape((1, 1), 3), K, lambda: 0.0) == 0  # nothing to count


def test_a_tree_of_tables_pays_from_the_beginning():
    assert table_error(1, 100.0**2, K, constant=True) > table_error(1, 100.0**2, K)
    few, many = (build(Central(1.0, recipe="central/loss-tables"), SHAPE, episodes) for episodes in (K, 1_000_000_000))
    assert isinstance(few.channels[1].accumulator, Blocks)
    assert isinstance(many.channels[1].accumulator, Tree)
    assert few.guarantee.epsilon == pytest.approx(1.0) == pytest.approx(many.guarantee.epsilon)


def test_auto_takes_blocks_and_the_promise_survives_an_audit():
    needs = discreet.learners.UOBLBPS().needs
    assert build(Central(1.0), SHAPE, K, needs).recipe == NAME
    report = discreet.audit(Central(1.0, 1e-5, recipe=NAME), SHAPE, episodes=K, trials=10_000)
    assert report.holds
    assert report.certified <= 1.0
    narrow = built(1.0, blocks=2, split=0.5)
    thin = tuple(replace(channel, law=DiscreteLaplace(channel.law.scale / 3)) for channel in narrow.channels)
    broken = replace(narrow, channels=thin)
    assert not discreet.audit(broken, SHAPE, episodes=K, trials=40_000).holds
