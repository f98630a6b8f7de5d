"""Offline learning, as printed: noisy counts of DP-APVI, noisy vectors and matrices of DP-VAPVI.

DP-APVI runs as ``offline/apvi-gaussian`` and ``offline/apvi-laplace``, with discrete noise of the printed scale, which
has the same rho and epsilon.

DP-VAPVI divides the data into two halves and gives every statistic rho0 = rho / (5 H). A replaced trajectory of unit
features moves a vector by 2 in units of its range, which costs rho0, and a matrix by sqrt(2) in the Frobenius norm,
which costs 2 rho0 with the printed noise: (2 + 2) / 5 of rho for a trajectory in the half D', whose statistics are two
vectors and one matrix a step, (1 + 2) / 5 for one in the half D. So the theorem holds, with room to spare. The paper's
experiment does not split the data and has longer features; :func:`linear_costs` computes both. It runs as
``offline/linear-as-printed`` (:mod:`discreet.problems.linear.recipes`), in two halves.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

from discreet.base.errors import InvalidInput, Unsupported, unknown_name
from discreet.base.shape import Shape
from discreet.mechanisms.session import Privatizer
from discreet.mechanisms.sums.blocks import Once
from discreet.noise import DiscreteGaussian, DiscreteLaplace, Gaussian
from discreet.papers.published_mechanism import AtLeast, Part, Published, Setting, needs_epsilon
from discreet.privacy.sensitivity import Sensitivity
from discreet.recipes.data_set import LAWS, OPTIONS, assemble, stated, tables
from discreet.recipes.recipe import Options, Recipe
from discreet.recipes.targets import Privacy

_PAPER = "Qiao, Wang, offline reinforcement learning"
_NO_SUCCESSOR = "a trajectory ends with its last step, so there are none to release"
_AS_PRINTED = {"release": "both", "rewards": "known"}


def _apvi(setting: Setting, law: str, per_user: int = 1) -> tuple[Part, ...]:
    """Visits and successors of every step, with noise of one scale, on whole numbers as it is shipped."""
    shape = replace(setting.shape, homogeneous=False)
    H = shape.horizon
    noise = (
        DiscreteGaussian((2 * H / (setting.rho or math.nan)) ** 0.5)
        if law == "gaussian"
        else DiscreteLaplace(4 * H / needs_epsilon(setting))
    )
    released = tables(shape, {**OPTIONS, **_AS_PRINTED, "per_user": per_user})
    last = Sensitivity.unit_shifts(1, 1).scaled(per_user)
    return (
        Part(released.name, noise, released.sensitivity(), Once(), released.encoders),
        Part("successors of the last step", noise, last, Once(), left_out=_NO_SUCCESSOR),
    )


# The largest squared moves of a vector, in units of its range, and of a matrix: of features of norm one (opposite ones,
# orthogonal ones), and over the 200 pairs of the experiment's own features, whose squared norms are up to 7.
_MOVES = {"unit": (4, 2), "experiment": (9, 57)}
# The statistics of one step that a trajectory is in: vectors and matrices.
_HALVES = {"D'": (2, 1), "D": (1, 1)}
_EVERYBODY = {"everybody": (3, 2)}


def _linear(setting: Setting, who: str, features: str) -> tuple[Part, ...]:
    """What a trajectory moves in the statistics of all steps, with the printed noise.

    Vectors are in units of their targets' range, so that unit features move one by at most 2 and its variance is
    2/rho0. Symmetric noise of variance v off and 2v on the diagonal is spherical in the Frobenius norm with variance
    2v, so a matrix that moves by m in that norm is a vector with m^2 unit moves; as printed v = 1 / (4 rho0).
    """
    H = setting.shape.horizon
    vectors, matrices = {**_HALVES, **_EVERYBODY}[who]
    vector, matrix = _MOVES[features]
    share = (setting.rho or math.nan) / (5 * H)
    cells = matrices * matrix * H
    return (
        Part(
            f"targets, {vectors} vectors a step, of a trajectory in {who}",
            Gaussian(math.sqrt(2 / share)),
            Sensitivity.worst_shift((math.isqrt(vector), vectors * H, 0)),
        ),
        Part(
            f"Gram matrices, {matrices} a step, in the Frobenius norm",
            Gaussian(math.sqrt(1 / (2 * share))),
            Sensitivity.unit_shifts(cells - cells // 2, cells // 2),
        ),
    )


def _unweighted(setting: Setting) -> AtLeast:
    """What the matrices of the variances cost by themselves: no weight makes their moves smaller."""
    H, rho = setting.shape.horizon, setting.rho or math.nan
    return AtLeast("rho", H * _MOVES["experiment"][1] * rho / (5 * H))


def linear_costs(*, split: bool, features: str = "unit") -> dict[str, float]:
    """What replacing a trajectory costs in DP-VAPVI with the printed noise, at most, as a multiple of rho.

    With ``split``, as in Algorithm 2, for a trajectory in each half; else for everybody. ``features`` are of norm one
    (``unit``) or those of the paper's experiment.

    >>> linear_costs(split=True)
    {"D'": 0.8, 'D': 0.6}
    >>> linear_costs(split=False, features="experiment")
    {'everybody': 24.15}
    """
    if features not in _MOVES:
        raise unknown_name("kind of features", features, _MOVES)
    setting = Setting(Shape(1, 1, 1), 1, rho=1.0)
    whole = {who: _linear(setting, who, features) for who in (_HALVES if split else _EVERYBODY)}
    return {who: round(sum(part.guarantee(0.0).rho or 0.0 for part in parts), 9) for who, parts in whole.items()}


ENTRIES = (
    Published(
        "published/offline-apvi",
        _PAPER,
        "offline",
        "rho",
        "N(0, 2 H/rho) on visits and transitions of all steps",
        "true and tight: the squared L2 norm of a replacement is 4H",
        "2H - 1 instead of 2H if successors of the last step are not released",
        partial(_apvi, law="gaussian"),
        recipe="offline/apvi-gaussian",
        concentrated=True,
    ),
    Published(
        "published/offline-apvi-laplace",
        _PAPER,
        "offline",
        "epsilon",
        "Lap(4 H/eps) on visits and transitions of all steps",
        "true and tight: the L1 norm of a replacement is 4H",
        "Lap((4 H - 2)/eps) if successors of the last step are not released",
        partial(_apvi, law="laplace"),
        recipe="offline/apvi-laplace",
    ),
    Published(
        "published/offline-vapvi",
        _PAPER,
        "offline",
        "rho",
        "rho0 = rho/(5 H) for each of three vectors and two matrices per step; matrix noise of variance 1/(4 rho0)",
        "true: a trajectory is in one half, and costs at most 0.8 rho in D' and 0.6 rho in D. Lemma E.1 takes a "
        "matrix to "
        "cost rho0, which is right for adding a trajectory and 2 rho0 for replacing one; the theorem has room for it",
        "none needed; with a whole budget for each half, rho/(4 H) in D' and rho/(3 H) in D",
        partial(_linear, who="D'", features="unit"),
        concentrated=True,
        bound=True,
    ),
    Published(
        "published/offline-vapvi-experiment",
        _PAPER,
        "offline",
        "rho",
        "the same noise, run without the split on features of squared norms up to 7",
        "at most 24.15 rho, and at least 11.4 rho in the unweighted matrices alone. With the split it would be at most "
        "12.3 rho, and features of norm one without the split at most 1.4 rho",
        "split the data, and divide the features by sqrt(7)",
        partial(_linear, who="everybody", features="experiment"),
        reached=_unweighted,
        concentrated=True,
        bound=True,
    ),
)


def _run(law: str, privacy: Privacy, shape: Shape, users: int, options: Options) -> Privatizer:
    """DP-APVI as printed: visits and successors of every step, sigma^2 = 2H / rho or scale 4H / epsilon."""
    if shape.homogeneous and shape.horizon > 1:
        raise Unsupported("DP-APVI as printed has one table per step: declare homogeneous=False")
    if privacy.rho is None if law == "gaussian" else privacy.epsilon is None or privacy.delta > 0:
        wanted = "rho=" if law == "gaussian" else "epsilon= without delta"
        raise InvalidInput(f"recipe 'offline/apvi-{law}' is calibrated as printed: give {wanted}")
    options = {**options, **_AS_PRINTED}
    released = tables(shape, options)
    setting = Setting(shape, users, privacy.epsilon, privacy.delta, privacy.rho)
    parts = _apvi(setting, law, options["per_user"])
    (entry,) = (entry for entry in ENTRIES if entry.recipe == f"offline/apvi-{law}")
    guarantee = stated(entry.as_run(setting, parts), options)
    return assemble(f"offline/apvi-{law}", released, parts[0].law, guarantee, options)


def _recipe(law: str) -> Recipe:
    return Recipe(
        f"offline/apvi-{law}", "central", f"DP-APVI as printed: visits and successors, {law.capitalize()} noise",
        partial(_run, law), pure=law == "laplace", automatic=False, encoder="visits and successors", law=law,
        accumulator="once", source="Qiao and Wang (2023), algorithm 1", options={**OPTIONS, **_AS_PRINTED},
    )  # fmt: skip


RECIPES = tuple(_recipe(law) for law in LAWS)
