"""Offline recipes: calibrated to the target, true guarantees of the published noise, refusals in words."""

from __future__ import annotations

import math

import pytest

import discreet
from discreet.base.errors import InvalidInput, Unsupported
from discreet.noise import DiscreteGaussian, DiscreteLaplace
from discreet.recipes.data_set import tables
from discreet.recipes.registry import build as build_any

PER_STEP, POOLED = discreet.Shape(3, 2, 4), discreet.Shape(3, 2, 4, homogeneous=True)


def build(target, shape, users, needs=frozenset()):
    return build_any(target, shape, users, needs, data_set=True)


def built(shape=PER_STEP, options=None, users=100, **target):
    return build(discreet.Central(**target, options=options or {}), shape, users)


@pytest.mark.parametrize("options", [{}, {"release": "both"}, {"rewards": "known"}, {"per_user": 2}], ids=str)
@pytest.mark.parametrize("shape", [PER_STEP, POOLED], ids=["per-step", "pooled"])
@pytest.mark.parametrize("target", [{"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-6}, {"rho": 0.3}], ids=str)
def test_the_target_is_kept_and_little_of_it_is_wasted(shape, options, target):
    privatizer = built(shape, options, **target)
    guarantee = privatizer.guarantee
    assert guarantee.model == "central"
    if "rho" in target:
        assert 0.97 * 0.3 < guarantee.rho <= 0.3 * (1 + 1e-9)
    else:
        assert 0.97 < guarantee.epsilon <= 1.0
        assert guarantee.delta_at(1.0) <= target.get("delta", 0.0)


def test_the_budget_of_two_tables_adds_up():
    """rho of the whole is the sum of what each table loses: L2^2 / 2 sigma^2 each."""
    privatizer = built(options={"release": "both", "rewards": "known"}, rho=0.5)
    sigma = privatizer.channels[0].law.sigma
    assert [channel.law.sigma for channel in privatizer.channels] == [sigma, sigma]
    parts = [channel.encoder.sensitivity().l2 ** 2 / (2 * sigma**2) for channel in privatizer.channels]
    assert sum(parts) == pytest.approx(privatizer.guarantee.rho)
    assert sum(parts) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("shape", "options", "squared"),
    [
        (PER_STEP, {}, 2 * 4),
        (PER_STEP, {"release": "both"}, 4 * 4 - 2),
        (PER_STEP, {"per_user": 3}, 9 * 2 * 4),
        (POOLED, {}, 2 * 4),
        (POOLED, {"per_user": 3}, 2 * 6),  # first visits over all episodes: no more than S A = 6 pairs
        (POOLED, {"pooling": "every-visit"}, 2 * 9 + 2),
    ],
)
def test_what_one_user_moves(shape, options, squared):
    given = {"release": "one", "rewards": "private", "pooling": "first-visit", "per_user": 1, **options}
    assert tables(shape, given).sensitivity().l2 ** 2 == pytest.approx(squared)


def test_published_noise_gets_its_true_guarantee():
    gaussian = build(discreet.Central(rho=0.7, recipe="offline/apvi-gaussian"), PER_STEP, 100)
    assert gaussian.channels[0].law == DiscreteGaussian(math.sqrt(2 * 4 / 0.7))
    assert gaussian.guarantee.rho == pytest.approx(0.7 * (4 * 4 - 2) / (4 * 4))
    laplace = build(discreet.Central(0.7, recipe="offline/apvi-laplace"), PER_STEP, 100)
    assert laplace.channels[1].law == DiscreteLaplace(4 * 4 / 0.7)
    assert laplace.guarantee.epsilon == pytest.approx(0.7 * (4 * 4 - 2) / (4 * 4))
    claim = "claimed in Qiao, Wang, offline reinforcement learning, the paragraph on pure DP after Theorem 3.4"
    assert f"{claim}: epsilon 0.7 (true)" in laplace.guarantee.explain()
    assert laplace.guarantee.public == ("mean rewards",)


def test_auto_takes_the_quieter_law():
    assert built(epsilon=1.0).recipe == "offline/laplace"
    assert built(epsilon=1.0, delta=1e-5).recipe == "offline/gaussian"
    assert built(discreet.Shape(2, 1, 1), epsilon=3.0, delta=1e-9).recipe == "offline/laplace"
    assert build(discreet.NoPrivacy(), PER_STEP, 10).recipe == "offline/none"


@pytest.mark.parametrize(
    ("privacy", "shape", "message"),
    [
        (discreet.Local(1.0), PER_STEP, "does not apply"),
        (discreet.Central(1.0, recipe="offline/apvi-gaussian"), PER_STEP, "give rho="),
        (discreet.Central(rho=1.0, recipe="offline/apvi-laplace"), PER_STEP, "give epsilon="),
        (discreet.Central(rho=1.0, recipe="offline/apvi-gaussian"), POOLED, "one table per step"),
        (discreet.Central(1.0, recipe="offline/gausian"), PER_STEP, "offline/gaussian"),
        (discreet.Central(1.0, options={"rewards": "secret"}), PER_STEP, "unknown rewards"),
        (
            discreet.Central(1.0, options={"blocks": 3}),
            PER_STEP,
            "unknown option of the recipes of the central model 'blocks'",
        ),
    ],
)
def test_refusals_say_why(privacy, shape, message):
    with pytest.raises((InvalidInput, Unsupported), match=message):
        build(privacy, shape, 100)


def test_the_unit_says_how_many_trajectories_it_covers():
    assert built(options={"per_user": 3}, epsilon=1.0).guarantee.unit == "one user = up to 3 whole trajectories"


class TestSparse:
    def test_a_large_domain_is_released_sparsely_if_delta_allows(self):
        large = discreet.Shape(300, 10, 10)
        assert built(large, epsilon=1.0, delta=1e-6).recipe.startswith("offline/sparse")
        assert built(large, epsilon=1.0).recipe == "offline/laplace"
        with pytest.raises(Unsupported, match="sparse release"):
            built(discreet.Shape(2000, 10, 10), epsilon=1.0)
        assert "sparse" not in built(discreet.Shape(20, 2, 4), epsilon=1.0, delta=1e-6).recipe

    @pytest.mark.parametrize("law", ["gaussian", "laplace"])
    def test_the_target_is_kept(self, law):
        privacy = discreet.Central(1.0, 1e-6, recipe=f"offline/sparse-{law}")
        guarantee = build(privacy, PER_STEP, 100).guarantee
        assert 0.97 < guarantee.epsilon <= 1.0 + 1e-9
        assert guarantee.delta_at(1.0) <= 1e-6
        with pytest.raises(InvalidInput, match="needs epsilon="):
            build(discreet.Central(rho=1.0, recipe=f"offline/sparse-{law}"), PER_STEP, 100)
        with pytest.raises(Unsupported, match="delta above 0"):
            build(discreet.Central(1.0, recipe=f"offline/sparse-{law}"), PER_STEP, 100)
