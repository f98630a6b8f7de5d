"""Recipes for linear questions about one data set: every statistic of every question gets one share of the budget.

What a learner will ask is public and comes as options: ``features`` (S, A, d), how many vectors each question has
(``vectors``), and which part of the users it is about (``parts``; a user is in one part, so each part has the whole
budget).

**As printed.** ``offline/linear-as-printed`` is Algorithm 2 of DP-VAPVI: the users are divided into two halves,
questions about variances (two vectors) go to D' and all others to D, and every statistic has rho_0 = rho / (5 H). Its
matrix noise is that of the paper, for adding a trajectory, so a matrix costs 2 rho_0; a trajectory in D' costs at most
0.8 rho and one in D at most 0.6 rho, which keeps the promise of rho.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.shape import Shape
from discreet.base.types import ArrayLike, Floats
from discreet.base.validation import check_array, check_count
from discreet.mechanisms.moments.linear_statistics import (
    MATRIX_GRID,
    VECTOR_GRID,
    FineCounts,
    Laws,
    LinearChannel,
    statistics_of,
)
from discreet.mechanisms.schedule import SameUsers
from discreet.mechanisms.session import Privatizer
from discreet.noise import DiscreteGaussian
from discreet.noise.symmetric_gaussian import DiscreteSymmetricGaussianMatrix
from discreet.privacy.guarantee import (
    Claim,
    Guarantee,
    Several,
    about,
    claimed,
    compose,
    from_mechanism,
    nothing,
    parallel,
)
from discreet.privacy.profiles import ZeroConcentratedProfile
from discreet.privacy.units import unit_of
from discreet.recipes.recipe import Options, Recipe
from discreet.recipes.targets import Privacy

_PRINTED = "Qiao and Wang (2023)"
OPTIONS: dict[str, Any] = {"features": None, "vectors": None, "parts": None, "per_user": 1}


def _build(as_printed: bool, privacy: Privacy, shape: Shape, users: int, options: Options) -> Privatizer:
    """Calibrate all questions to a target."""
    channel = _questions(shape, options)
    if shape.homogeneous and shape.horizon > 1:
        raise Unsupported("linear statistics are released step by step: declare homogeneous=False")
    channel = _in_halves(channel, shape.horizon) if as_printed else channel
    rho, per_user, dimension = concentrated_budget(privacy), channel.per_user, channel.features.shape[2]
    asked = {
        part: [n for n, p in zip(channel.vectors, channel.about, strict=True) if p == part] for part in _parts(channel)
    }
    if as_printed:
        laws = dict.fromkeys(asked, _laws(dimension, rho / (5 * shape.horizon), per_user, 1))
    else:
        shares = {part: rho / sum(1 + n for n in vectors) for part, vectors in asked.items()}
        laws = {part: _laws(dimension, share, per_user, 2) for part, share in shares.items()}
    promises = [_whole(laws[part], vectors, per_user, privacy.delta) for part, vectors in asked.items()]
    guarantee = max(promises, key=lambda each: float(each.rho or 0.0))
    if len(promises) > 1:
        why = f"each user is in one of {len(promises)} parts and moves the answers about it alone; the weakest counts"
        guarantee = parallel(guarantee, why)
    if as_printed:
        delta = privacy.delta or 1e-5
        epsilon, source = ZeroConcentratedProfile(rho).epsilon(delta), f"{_PRINTED}, Theorem 4.1: rho = {rho:g}"
        guarantee = claimed(guarantee, Claim(epsilon, delta, source, "two halves of the data, features of norm one"))
    noisy = _with_laws(channel, tuple(laws[part] for part in channel.about))
    name = "offline/linear-as-printed" if as_printed else "offline/linear"
    return Privatizer(
        name, shape, (noisy,), SameUsers(), about(guarantee, unit=unit_of(per_user)), masked=False, options=options
    )


def _in_halves(channel: LinearChannel, horizon: int) -> LinearChannel:
    """The same questions about two halves of the users: those about variances to the second, all others to the first.

    Refused if they are not those of DP-VAPVI: at most one of each kind per step, and some about variances.
    """
    values, variances = channel.vectors.count(1), channel.vectors.count(2)
    if values + variances < len(channel.vectors) or max(values, variances) > horizon or (horizon > 1 and not variances):
        raise InvalidInput(
            "recipe 'offline/linear-as-printed' is DP-VAPVI, which asks one half of the users about variances and the "
            f"other about values, once per step; {variances} and {values} questions of these kinds, of "
            f"{len(channel.vectors)} in all, are not that: give learner vapvi variance=True, or take 'offline/linear'"
        )
    halves = tuple(int(vectors == 2) for vectors in channel.vectors)
    if any(channel.about) and channel.about != halves:
        raise InvalidInput("DP-VAPVI as printed divides the users by itself: leave the option parts out")
    encoder = FineCounts(channel.encoder.shape, 2, channel.per_user)
    return LinearChannel(encoder, channel.features, channel.vectors, halves, channel.laws, channel.per_user)


def _nothing(privacy: Privacy, shape: Shape, users: int, options: Options) -> Privatizer:
    """The recipe without privacy: exact answers, and a guarantee that promises nothing."""
    channel = _questions(shape, options)
    return Privatizer("offline/none", shape, (channel,), SameUsers(), nothing(), masked=False, options=options)


def _questions(shape: Shape, options: Options) -> LinearChannel:
    """The questions that the options describe, answered exactly."""
    if options["features"] is None or options["vectors"] is None:
        raise InvalidInput(
            "linear questions need features= of shape (S, A, d) and the number of vectors of each question"
        )
    vectors = tuple(int(n) for n in options["vectors"])
    parts = (0,) * len(vectors) if options["parts"] is None else tuple(int(part) for part in options["parts"])
    features, per_user = bounded_features(options["features"], shape), check_count("per_user", options["per_user"])
    encoder = FineCounts(shape, max(parts) + 1, per_user)
    return LinearChannel(encoder, features, vectors, parts, (None,) * len(vectors), per_user)


def _with_laws(channel: LinearChannel, laws: tuple[Laws, ...]) -> LinearChannel:
    return LinearChannel(channel.encoder, channel.features, channel.vectors, channel.about, laws, channel.per_user)


def _parts(channel: LinearChannel) -> list[int]:
    return sorted(set(channel.about))


def concentrated_budget(privacy: Privacy) -> float:
    """The largest rho whose conversion keeps the target."""
    if privacy.rho is not None:
        return privacy.rho
    if privacy.delta == 0:
        raise Unsupported("linear statistics carry Gaussian noise, which needs delta above 0: try delta=1e-5")
    epsilon, low, high = float(privacy.epsilon or 0.0), 0.0, 1.0
    while ZeroConcentratedProfile(high).delta(epsilon) <= privacy.delta:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if ZeroConcentratedProfile(middle).delta(epsilon) <= privacy.delta else (low, middle)
    return low * (1 - 1e-9)  # so that the conversion back does not round above the target


def bounded_features(features: ArrayLike, shape: Shape) -> Floats:
    """Features with norms of at most one: longer ones are shortened, because the noise is sized for that."""
    phi = check_array("features", features)
    if phi.ndim != 3 or phi.shape[:2] != (shape.states, shape.actions):
        raise InvalidInput(f"features must have shape ({shape.states}, {shape.actions}, d), got {phi.shape}")
    norms = np.linalg.norm(phi, axis=2, keepdims=True)
    return np.asarray(phi / np.maximum(1.0, norms))


def _laws(dimension: int, share: float, per_user: int, squared: int) -> Laws:
    """Noise that gives ``share`` to a vector, and to a matrix that moves by ``squared``: 1 if added, 2 if replaced."""
    m = per_user**2
    off_diagonal = squared * m * MATRIX_GRID**4 / (4 * share)
    return (
        DiscreteSymmetricGaussianMatrix(dimension, off_diagonal),
        DiscreteGaussian(VECTOR_GRID * math.sqrt(2 * m / share)),
    )


def _whole(laws: Laws, vectors: list[int], per_user: int, delta: float) -> Guarantee:
    """All questions about one part of the users: zero-concentrated parameters add up, adaptively.

    So n statistics of one law cost as much as one of sqrt(n) times the norm, and are written down as that.
    """
    all_of_them, once = (statistics_of(laws, len(vectors), sum(vectors), m) for m in (per_user, 1))
    parts = [
        from_mechanism(
            part.law, part.sensitivity, delta=delta, name=part.name, cells=part.cells,
            several=None if per_user == 1 else Several(per_user, one.sensitivity),
        )
        for part, one in zip(all_of_them, once, strict=True)
    ]  # fmt: skip
    return compose(parts, delta=delta, why="adaptive composition of zero-concentrated privacy")


RECIPES = (
    Recipe("offline/none", "none", "exact answers to linear questions; no promise", _nothing, options=OPTIONS),
    Recipe(
        "offline/linear",
        "central",
        "linear questions of one data set, answered on a grid with discrete Gaussian noise",
        partial(_build, False),
        pure=False,
        encoder="linear statistics",
        law="gaussian",
        accumulator="once per question",
        options=OPTIONS,
    ),
    Recipe(
        "offline/linear-as-printed",
        "central",
        "DP-VAPVI as printed: two halves of the users, rho / (5 H) for every statistic (simulation only)",
        partial(_build, True),
        pure=False,
        automatic=False,
        encoder="linear statistics",
        law="gaussian",
        accumulator="once per question",
        source=f"{_PRINTED}, algorithm 2",
        options=OPTIONS,
    ),
)
