"""Offline learning, as printed: noisy counts of DP-APVI, noisy vectors and matrices of DP-VAPVI."""

from __future__ import annotations

import math

from discreet.audit.cases import Setting
from discreet.noise import Gaussian, Laplace
from discreet.papers.mechanism import Part, Published, needs_epsilon, steps_of
from discreet.privacy.sensitivity import Sensitivity

_PAPER = "Qiao, Wang, offline reinforcement learning"


def _offline_laplace(setting: Setting) -> tuple[Part, ...]:
    law = Laplace(4 * setting.shape.horizon / needs_epsilon(setting))
    return Part("visits", law, steps_of(setting)), Part("transitions", law, steps_of(setting))


def _offline_gaussian(setting: Setting) -> tuple[Part, ...]:
    law = Gaussian(math.sqrt(2 * setting.shape.horizon / (setting.rho or math.nan)))
    return Part("visits", law, steps_of(setting)), Part("transitions", law, steps_of(setting))


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
        _offline_gaussian,
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
        _offline_laplace,
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
