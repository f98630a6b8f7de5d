"""Odd values for every number that a user may give: an object that works, or one sentence, and never a traceback."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet.audit.audit import audit
from discreet.base.errors import DiscreetError, InvalidInput
from discreet.base.shape import Shape
from discreet.mechanisms.sums.matrix import Matrix
from discreet.mechanisms.sums.tree import EqualLawTree, EvenTree, Tree
from discreet.noise import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from discreet.noise.binomial import BinomialNoise
from discreet.noise.bounded import BoundedNoise
from discreet.noise.calibration import calibrate_binomial, calibrate_noise
from discreet.noise.discrete_gaussian import GridGaussian
from discreet.noise.knorm import DiscreteKNorm, KNorm, TableNoise
from discreet.noise.randomized_response import KaryRandomizedResponse, RandomizedResponse, UnaryEncoding
from discreet.noise.shuffled_randomized_response import ShuffledResponse, calibrate_response
from discreet.privacy.profiles import PureProfile, ZeroConcentratedProfile
from discreet.privacy.sensitivity import Sensitivity
from discreet.recipes.calibrate import calibrate
from discreet.recipes.registry import build, recipes
from discreet.recipes.targets import Central, Local, NoPrivacy, Shuffle
from discreet.simulation.simulate import simulate
from discreet.worlds.catalogue import river_swim


class Mute:
    """Prints nothing, not even itself."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")


class Almost(float):
    """A float of a stranger's class."""


NUMBERS = [
    math.nan, math.inf, -math.inf, 0, 0.0, -0.0, -1, -1.5, 1e300, 1.7e308, 1e-300, 5e-324, -1e-300, 1e-9, 0.99e-9, 1e6,
    1.01e6, 800, 710.0, 0.5, 1.5, 2, 10**400, -(10**400), 10**5000, 2**53 + 1, 2**63, 2**64, 1e-18, 1e-40, 0.999999999,
]  # fmt: skip
NUMPYS = [
    np.float64("nan"), np.float32("inf"), np.float16(1), np.float32(0.5), np.int8(-1), np.int64(50),
    np.uint64(2**64 - 1), np.bool_(True), np.array(1.0), np.array([1.0]), np.array([]), np.array("1"),
    np.datetime64("2020-01-01"), np.complex128(1), np.longdouble(1),
]  # fmt: skip
STRANGERS = [
    True, False, "1", "", "abc", "1e400", b"1", [], [1.0], (1, 2), {}, {"a": 1}, set(), 1j, Fraction(1, 2), Decimal(1),
    object(), Mute(), Almost(1.0), int, len, ..., range(3), Path("1"), "x" * 10_000,
]  # fmt: skip
ODD = [*NUMBERS, *NUMPYS, *STRANGERS]
UNIT, SHAPE, EPISODES = Sensitivity.unit_shifts(1, 1), Shape(2, 2, 2), 40
POOLED = Shape(2, 2, 2, homogeneous=True)


def outcome(make: Callable[[Any], Any], value: Any) -> Any:
    """What came of it: the object, or None after one sentence."""
    try:
        return make(value)
    except DiscreetError as error:
        text = str(error)
        assert "\n" not in text
        assert 10 < len(text) < 2000
        return None


def kept(target: Central | Local | Shuffle, shape: Shape = SHAPE) -> float:
    """Assemble the recipe and check that no more is spent than was asked for."""
    guarantee = calibrate(target, shape, episodes=EPISODES).guarantee
    if target.epsilon is not None:
        assert guarantee.delta <= target.delta
        assert guarantee.epsilon <= target.epsilon
        return guarantee.epsilon
    assert guarantee.rho is not None
    assert target.rho is not None
    assert guarantee.rho <= target.rho
    return guarantee.rho


TARGETS = {
    "central epsilon": lambda v: kept(Central(v, recipe="central/joint-histogram-laplace")),
    "central delta": lambda v: kept(Central(1.0, v, recipe="central/joint-histogram-gaussian")),
    "central rho": lambda v: kept(Central(rho=v, recipe="central/joint-histogram-gaussian")),
    "local epsilon": lambda v: kept(Local(v, recipe="local/sampled-step")),
    "local question": lambda v: kept(Local(v, recipe="local/asked-first-visit"), POOLED),
    "local question unary": lambda v: kept(
        Local(v, recipe="local/asked-first-visit", options={"response": "unary"}), POOLED
    ),
    "local response": lambda v: kept(Local(1.0, recipe="local/asked-first-visit", options={"response": v}), POOLED),
    "local bits": lambda v: kept(Local(v, recipe="local/three-tables-randomised-response")),
    "local delta": lambda v: kept(Local(1.0, v, recipe="local/joint-histogram-gaussian")),
    "shuffle epsilon": lambda v: kept(Shuffle(v, 1e-5, recipe="shuffle/three-tables-randomised-response")),
    "shuffle delta": lambda v: kept(Shuffle(1.0, v, recipe="shuffle/three-tables-randomised-response")),
    "shuffle rho": lambda v: kept(Shuffle(rho=v, delta=1e-5)),
    "recipe": lambda v: kept(Central(1.0, recipe=v)),
    "options": lambda v: kept(Central(1.0, recipe="central/joint-histogram-laplace", options=v)),
    "blocks": lambda v: kept(Central(1.0, recipe="central/joint-histogram-laplace", options={"blocks": v})),
    "none": lambda v: NoPrivacy(v),
    "none delta": lambda v: NoPrivacy(None, v),
}


ALWAYS_REFUSED = {"shuffle rho", "recipe", "none", "options", "local response"}


@pytest.mark.parametrize("name", TARGETS)
def test_targets(name):
    found = [outcome(TARGETS[name], value) for value in ODD]
    assert any(value is not None for value in found) or name in ALWAYS_REFUSED
    assert any(value is None for value in found)


OTHERS = {
    "calibrate failure probability": lambda v: calibrate(Central(1.0), SHAPE, episodes=EPISODES, failure_probability=v),
    "calibrate_noise laplace": lambda v: calibrate_noise("laplace", UNIT, epsilon=v, delta=1e-5),
    "calibrate_noise pure epsilon": lambda v: calibrate_noise("discrete-laplace", UNIT, epsilon=v),
    "calibrate_noise delta": lambda v: calibrate_noise("gaussian", UNIT, epsilon=1.0, delta=v),
    "calibrate_noise rho": lambda v: calibrate_noise("discrete-gaussian", UNIT, rho=v),
    "calibrate_noise law": lambda v: calibrate_noise(v, UNIT, rho=1.0) if isinstance(v, str) else None,
    "calibrate_binomial dropout": lambda v: calibrate_binomial(50, 1, 1, 1.0, 1e-5, dropout=v),
    "Sensitivity l1": lambda v: Sensitivity(v, 1.0, 1.0),
    "Sensitivity linf": lambda v: Sensitivity(4.0, 2.0, v),
    "Sensitivity magnitude": lambda v: Sensitivity.worst_shift((v, 1, 1)),
    "Sensitivity up": lambda v: Sensitivity.worst_shift((1, v, 1)),
    "unit shifts": lambda v: Sensitivity.unit_shifts(v, 1),
    "several sums": lambda v: UNIT.in_several_sums(v),
    "scaled": lambda v: UNIT.scaled(v),
    "Laplace": lambda v: Laplace(v).variance,
    "DiscreteLaplace": lambda v: (DiscreteLaplace(v).variance, DiscreteLaplace(v).profile(UNIT).epsilon(0.0)),
    "Gaussian": lambda v: (Gaussian(v).variance, Gaussian(v).profile(UNIT).rho),
    "DiscreteGaussian": lambda v: (DiscreteGaussian(v).variance, DiscreteGaussian(v).log_probability(1)),
    "GridGaussian": lambda v: GridGaussian(v, 30).variance,
    "GridGaussian bits": lambda v: GridGaussian(2.0**-10, v).variance,
    "BoundedNoise": lambda v: BoundedNoise(v).variance,
    "BinomialNoise trials": lambda v: BinomialNoise(v).variance,
    "BinomialNoise p": lambda v: BinomialNoise(100, v).variance,
    "KNorm": lambda v: (KNorm(2, v).variance, KNorm(2, v).profile(UNIT).bound),
    "KNorm dimension": lambda v: KNorm(v, 1.0).variance,
    "DiscreteKNorm": lambda v: DiscreteKNorm(2, v).shipped_scale,
    "TableNoise": lambda v: TableNoise(2, v).profile(UNIT).bound,
    "TableNoise dimension": lambda v: TableNoise(v, 1.0).profile(UNIT).bound,
    "RandomizedResponse": lambda v: (RandomizedResponse(v).shipped_epsilon, RandomizedResponse(v).profile(3)),
    "KaryRandomizedResponse": lambda v: KaryRandomizedResponse(v, 5).shipped_epsilon,
    "KaryRandomizedResponse items": lambda v: KaryRandomizedResponse(1.0, v).shipped_epsilon,
    "UnaryEncoding": lambda v: UnaryEncoding(v, 5).shipped_epsilon,
    "UnaryEncoding items": lambda v: UnaryEncoding(1.0, v).shipped_epsilon,
    "ShuffledResponse": lambda v: ShuffledResponse(v, 20).variance,
    "ShuffledResponse users": lambda v: ShuffledResponse(1.0, v).variance,
    "PureProfile": lambda v: PureProfile(v).delta(1.0),
    "PureProfile delta": lambda v: PureProfile(2.0).epsilon(v),
    "ZeroConcentratedProfile": lambda v: ZeroConcentratedProfile(v).epsilon(1e-5),
}


@pytest.mark.parametrize("name", OTHERS)
def test_laws_profiles_and_calibration(name):
    found = [outcome(OTHERS[name], value) for value in ODD]
    assert any(value is not None for value in found) or name == "calibrate_noise law"
    assert any(value is None for value in found)


SLOW = {
    "calibrate_binomial epsilon": lambda v: calibrate_binomial(10**6, 1, 1, v, 1e-5),
    "calibrate_binomial delta": lambda v: calibrate_binomial(50, 1, 1, 1.0, v),
    "calibrate_response epsilon": lambda v: calibrate_response(50, 2, v, 1e-5),
    "calibrate_response delta": lambda v: calibrate_response(50, 2, 1.0, v),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_calibration_of_laws_with_long_tables(name):
    found = [outcome(SLOW[name], value) for value in ODD]
    assert any(value is not None for value in found)
    assert any(value is None for value in found)


TOO_MANY = 60  # whole numbers beyond are valid and only take long


def small(value: Any) -> bool:
    return not (isinstance(value, int | np.integer) and TOO_MANY < value < 2**63)


@pytest.mark.parametrize(
    "make",
    [
        lambda v: build(Central(1.0), SHAPE, v),
        lambda v: build(Local(1.0), SHAPE, v),
        lambda v: build(Shuffle(1.0, 1e-5), SHAPE, v),
        lambda v: calibrate(Central(1.0), SHAPE, episodes=v),
        lambda v: simulate(river_swim(), "ucbvi", episodes=v),
        lambda v: simulate(river_swim(), "ucbvi", episodes=5, runs=v),
        lambda v: simulate(river_swim(), "ucbvi", episodes=5, seed=v),
        lambda v: audit(Central(1.0), SHAPE, episodes=v, trials=200),
        lambda v: audit(Central(1.0), SHAPE, episodes=20, trials=v, sessions=False),
        lambda v: audit(Central(1.0), SHAPE, episodes=20, trials=200, seed=v, sessions=False),
        lambda v: audit(Central(1.0), SHAPE, episodes=20, trials=200, confidence=v, sessions=False),
    ],
    ids=[
        "build", "local", "shuffle", "calibrate", "episodes", "runs", "seed",
        "audit-episodes", "trials", "audit-seed", "confidence",
    ],
)  # fmt: skip
def test_counts_and_seeds(make):
    found = [outcome(make, value) for value in ODD if small(value)]
    assert any(value is None for value in found)


@pytest.mark.parametrize(
    "target",
    [
        lambda recipe, kind: kind(1e-9, 1e-5, recipe=recipe),
        lambda recipe, kind: kind(1e6, 1e-5, recipe=recipe),
        lambda recipe, kind: kind(1e6, 0.0, recipe=recipe),
        lambda recipe, kind: kind(1.0, 1e-300, recipe=recipe),
        lambda recipe, kind: kind(rho=1e-18, delta=1e-5, recipe=recipe),
        lambda recipe, kind: kind(rho=1e12, delta=1e-5, recipe=recipe),
    ],
    ids=["tiny", "huge", "huge-pure", "tiny-delta", "tiny-rho", "huge-rho"],
)
@pytest.mark.slow
def test_every_recipe_at_the_ends_of_its_targets(target):
    kinds = {"central": Central, "local": Local, "shuffle": Shuffle}
    for recipe in recipes(problem="tabular"):
        if recipe.model in kinds and not recipe.name.startswith(("local/published", "shuffle/published")):
            for shape in (SHAPE, POOLED):
                outcome(lambda name: kept(target(name, kinds[recipe.model]), shape), recipe.name)  # noqa: B023


def test_a_message_is_short_whatever_is_given():
    with pytest.raises(InvalidInput, match=r"got 'x+\.\.\.$"):
        Central("x" * 10_000)
    with pytest.raises(InvalidInput, match="got a value of type Mute"):
        Central(Mute())
    with pytest.raises(InvalidInput, match="got a value of type int"):
        Central(10**5000)


def test_whole_numbers_of_numpy_become_ordinary_ones():
    n = np.int64(50)
    assert [tree(n).levels for tree in (Tree, EqualLawTree, EvenTree)] == [6, 6, 6]
    assert type(Matrix(n).releases) is int
    assert build(Central(1.0), SHAPE, n).users == 50
