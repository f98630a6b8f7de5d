"""Offline learning, as printed: noisy counts of DP-APVI, noisy vectors and matrices of DP-VAPVI.

DP-APVI runs as ``offline/apvi-gaussian`` and ``offline/apvi-laplace``, with discrete noise of the printed scale, which
has the same rho and epsilon.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

from discreet.accumulators.sums import Once
from discreet.channels.session import Privatizer
from discreet.errors import InvalidInput, Unsupported
from discreet.noise import DiscreteGaussian, DiscreteLaplace, Gaussian
from discreet.papers.mechanism import Part, Published, Setting, needs_epsilon
from discreet.privacy.sensitivity import Sensitivity
from discreet.recipes.offline import LAWS, OPTIONS, assemble, stated, tables
from discreet.recipes.recipe import Options, Recipe
from discreet.recipes.trust import Privacy
from discreet.shape import Shape

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


def _linear(setting: Setting, vector_move: int, squared_matrix_move: int) -> tuple[Part, ...]:
    """Three vectors and two matrices per step.

    Vectors are in units of their targets' range, so that a user moves one by at most 2 and its variance is 2/rho0.
    Symmetric noise of variance v off and 2v on the diagonal is spherical in the Frobenius norm with variance 2v, so a
    matrix that moves by m in that norm is a vector with m^2 unit moves; as printed v = 1 / (4 rho0).
    """
    H = setting.shape.horizon
    share = (setting.rho or math.nan) / (5 * H)
    matrices = Sensitivity.unit_shifts(squared_matrix_move * H, squared_matrix_move * H)
    return (
        Part("weighted targets", Gaussian(math.sqrt(2 / share)), Sensitivity.worst_shift((vector_move, 3 * H, 0))),
        Part("Gram matrices, in the Frobenius norm", Gaussian(math.sqrt(1 / (2 * share))), matrices),
    )


def _vapvi(setting: Setting) -> tuple[Part, ...]:
    # |phi phi^T - psi psi^T|_F^2 = 2 for orthogonal unit features.
    return _linear(setting, 2, 2)


def _vapvi_experiment(setting: Setting) -> tuple[Part, ...]:
    # The largest moves over the 200 pairs of the experiment's own features, whose norm is up to sqrt(7).
    return _linear(setting, 3, 57)


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
        "rho/(5 H) for each of three vectors and two matrices per step; matrix noise of variance 1/(4 rho0)",
        "the matrices are calibrated for adding a user, the vectors for replacing one: 1.4 rho",
        "matrix noise of variance 1/(2 rho0)",
        _vapvi,
        concentrated=True,
    ),
    Published(
        "published/offline-vapvi-experiment",
        _PAPER,
        "offline",
        "rho",
        "the same, run on features of norm up to sqrt(7)",
        "the bound of 1 on the norm of the features is broken: 24.15 rho",
        "divide the features by sqrt(7) and clip",
        _vapvi_experiment,
        concentrated=True,
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
