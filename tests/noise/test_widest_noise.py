"""Noise stays where floating point holds all whole numbers: wider laws are refused, with the smallest target."""

from __future__ import annotations

import math

import numpy as np
import polars
import pytest

import discreet
import discreet.data
from discreet.base.errors import InvalidInput
from discreet.learners.apvi import APVI
from discreet.mechanisms.sums.accumulator import SecureNoise
from discreet.noise import DiscreteGaussian, DiscreteKNorm, DiscreteLaplace
from discreet.noise.calibration import calibrate_noise
from discreet.noise.distribution import HELD, WIDEST, NoiseTooWide
from discreet.noise.knorm import TableNoise
from discreet.noise.symmetric_gaussian import DiscreteSymmetricGaussianMatrix
from discreet.offline import evaluate, train
from discreet.privacy.sensitivity import Sensitivity
from discreet.recipes.registry import build
from discreet.simulation.data_sets import privatizer_for


@pytest.mark.parametrize(
    "make",
    [DiscreteLaplace, DiscreteGaussian, lambda b: DiscreteKNorm(9, b / 10), lambda b: TableNoise(9, b / 10),
     lambda b: DiscreteSymmetricGaussianMatrix(3, b * b / 2)],
)  # fmt: skip
def test_wider_laws_are_refused(make) -> None:
    make(WIDEST * 0.999)
    with pytest.raises(NoiseTooWide, match="floating point holds"):
        make(WIDEST * 1.01)


def test_the_stated_tail_is_the_laws() -> None:
    # A count below 2^52 and one draw: 2 t^k / (1 + t) with k = 2^53 - 2^52.
    assert (2.0**53 - HELD) / WIDEST == 64
    assert math.exp(-64) < 2e-28
    # Sixty draws, by Chernoff at .8 / b, and counts below 2^49.
    assert 2 * (1 / (1 - 0.8**2)) ** 60 * math.exp(-0.8 * (2.0**53 - 2.0**49) / WIDEST) < 1e-14
    mgf = [(1 - t) ** 2 / ((1 - t * math.exp(l / b)) * (1 - t * math.exp(-l / b)))
           for b in (1.0, 3.0, 100.0) for l in (0.5, 0.8) for t in (math.exp(-1 / b),)]  # fmt: skip
    assert all(found <= 1 / (1 - l * l) for found, l in zip(mgf, (0.5, 0.8) * 3, strict=True))


def test_the_widest_draws_are_whole_numbers_of_both_parities() -> None:
    drawn = SecureNoise(sampler="discreet").draw(DiscreteLaplace(WIDEST), 1, 4000)
    assert np.abs(drawn).max() < 2.0**53
    # 4,000 fair bits: 6 deviations are exceeded with probability 2e-9. The same draws at scale 9e15 have 37% even ones.
    assert abs((drawn % 2).mean() - 0.5) < 6 * 0.5 / math.sqrt(4000)


@pytest.mark.parametrize("law", [DiscreteLaplace, DiscreteGaussian])
def test_calibration_names_the_smallest_target(law) -> None:
    moves = Sensitivity(1e8, 1e8, 1e8)
    for target in ({"epsilon": 1e-9}, {"rho": 1e-18}, {"epsilon": 1e-9, "delta": 1e-12}):
        if law is DiscreteGaussian and target == {"epsilon": 1e-9}:
            continue  # never pure
        with pytest.raises(NoiseTooWide, match=r"must be at least") as refusal:
            calibrate_noise(law, moves, **target)
        name = "rho" if "rho" in target else "epsilon"
        least = float(str(refusal.value).split("at least ")[1].split(",")[0])
        assert calibrate_noise(law, moves, **{**target, name: least})
        with pytest.raises(NoiseTooWide):
            calibrate_noise(law, moves, **{**target, name: least * 0.8})


VISITS = polars.DataFrame(
    {"who": range(60), "stay": [0] * 60, "day": [0] * 60, "state": [0] * 60, "drug": [0, 1] * 30, "r": [0.0, 1.0] * 30}
)


def table(per_user: int = 1) -> discreet.data.Table:
    return discreet.data.read(
        VISITS, user="who", step="day", state="state", action="drug", reward="r", states=1, actions=2, horizon=1,
        per_user=per_user, **({"episode": "stay"} if per_user > 1 else {}),
    )  # fmt: skip


@pytest.mark.parametrize("behaviour", ["uniform", None])
def test_an_evaluation_names_the_smallest_epsilon(behaviour: str | None) -> None:
    with pytest.raises(InvalidInput, match=r"epsilon must be at least") as refusal:
        evaluate(table(), discreet.Policy([[1]]), epsilon=1e-8, behaviour=behaviour)
    least = float(str(refusal.value).split("at least ")[1].split(",")[0])
    assert least < 2e-6
    found = evaluate(table(), discreet.Policy([[1]]), epsilon=least, behaviour=behaviour)
    assert found.guarantee.epsilon <= least
    with pytest.raises(InvalidInput, match=r"epsilon must be at least"):
        evaluate(table(), discreet.Policy([[1]]), epsilon=least * 0.7, behaviour=behaviour)


def test_training_names_the_smallest_epsilon() -> None:
    with pytest.raises(InvalidInput, match=r"epsilon must be at least 2.9e-08, not 1e-09"):
        privatizer_for(APVI(), discreet.Central(1e-9), discreet.Shape(1, 2, 1), 60, per_user=10**6)
    with pytest.raises(InvalidInput, match=r"epsilon must be at least 2.9e-08, not 1e-09"):
        train(table(10**6), epsilon=1e-9)
    assert train(table(10**6), epsilon=3e-8).guarantee.epsilon <= 3e-8


@pytest.mark.parametrize("recipe", ["offline/laplace", "central/joint-histogram-laplace", "central/two-tables-laplace"])
def test_long_horizons_at_a_tiny_epsilon_are_refused(recipe: str) -> None:
    """Claimed 1e-9 and measured at least 2.08 before: the last digit of a count survived the sum."""
    shape = discreet.Shape(1, 1, 2_000_000, homogeneous=True)
    options = {"pooling": "every-visit"} if recipe.startswith("offline") else {"blocks": 1}
    target = discreet.Central(1e-9, recipe=recipe, options=options)
    with pytest.raises(InvalidInput, match="must be at least"):
        build(target, shape, 1, data_set=recipe.startswith("offline"))
