r"""Linear statistics by request: sums of phi phi^T and of phi times a target, released on a grid with discrete noise.

A learner asks one :class:`~discreet.release.Linear` question after another; what it asks may depend on the answers so
far, and it never sees data. A question about step h, with weights w(s, a) in [0, 1] and T tables of targets
x_t(reward level, successor) in [-c, c], where c is the bound that the question states, is answered by

    M   = sum over users of  w phi phi^T               + symmetric noise,
    b_t = sum over users of  w phi x_t(r, s')          + noise,  t = 1 .. T.

**Formal guarantees.** Features are clipped to norm one and sqrt(w) phi is rounded to a grid of 1/g, and clipped again,
before products are formed, so a user adds a rank-one matrix of norm at most one: replacing her moves M by at most
sqrt(2) in the Frobenius norm, as |phi phi^T - psi psi^T|^2 = |phi|^4 + |psi|^4 - 2 <phi, psi>^2. Contributions to b are
rounded and clipped too, in units of c, and move it by at most 2 of those. Every statistic gets the same share rho_0 of
a zero-concentrated budget: variances g^4 / (2 rho_0) off the diagonal of M (twice that on it) and 2 g^2 / rho_0 in b,
on their grids. Composition is adaptive, and the number of statistics is fixed before the first question. Questions
about disjoint parts of the users compose in parallel: each part has the whole budget.

Weights, targets and features are public, but an answer reads them only where somebody is. A NaN or an infinite number
among them would show exactly when its cell is not empty, so they are refused before data are looked at, by an error
that depends on the question alone; and a row that is no vector of norm at most one never gets past the grid.

**Differences from the paper.** DP-VAPVI prints matrix noise of variance 1 / (4 rho_0), which is right for adding a user
and gives 2 rho_0 for replacing one: 1.4 rho in all. ``as_printed`` has that noise, and its true guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from discreet.accumulators.base import NoiseSource
from discreet.encoders.marginal_table import JointCounts
from discreet.errors import InvalidInput, Unsupported
from discreet.noise import DiscreteGaussian, DiscreteSymmetricGaussianMatrix
from discreet.privacy.guarantee import Claim, Guarantee, claimed, compose, from_mechanism, nothing, parallel
from discreet.privacy.guarantee import about as with_unit
from discreet.privacy.profiles import ZeroConcentratedProfile
from discreet.privacy.sensitivity import Sensitivity
from discreet.recipes.trust import NoPrivacy, Privacy
from discreet.release import Estimate, Linear, Release, Request
from discreet.shape import Shape
from discreet.types import Floats
from discreet.validation import check_array, check_positive

LEVELS = 17  # rewards are rounded, without bias, to sixteenths of their range
_MATRIX_GRID, _VECTOR_GRID = 64, 2048


class JointSource(Protocol):
    """Whoever can count: a table, or simulated users."""

    def joint(self, part: int) -> JointCounts:
        """The joint histogram of one part of the users (all of them are part 0 where there is no split)."""


@dataclass(frozen=True)
class LinearPrivatizer:
    """The budget of all questions: how many vectors each asks for, and the laws that hide them."""

    recipe: str
    shape: Shape
    features: Floats  # (S, A, d), norms at most one
    vectors: tuple[int, ...]  # of each question
    parts: tuple[int, ...]  # which part of the users each question is about
    laws: tuple[tuple[Any, Any] | None, ...]  # matrix and vector noise of each question; None without privacy
    guarantee: Guarantee
    per_user: int = 1

    def statistics(self) -> tuple[LinearStatistics, ...]:
        """Everything that leaves, by kind; for receipts."""
        found: list[LinearStatistics] = []
        for part in sorted(set(self.parts)):
            asked = [(laws, n) for laws, n, p in zip(self.laws, self.vectors, self.parts, strict=True) if p == part]
            if asked[0][0] is not None:
                found += _statistics(asked[0][0], len(asked), sum(n for _, n in asked), self.per_user)
        return tuple(found)

    def open(self, source: JointSource, noise: NoiseSource, users: int) -> LinearSession:
        """Start answering questions about these users."""
        return LinearSession(self, source, noise, users)


class LinearSession:
    """The only holder of data: answers the questions of one learner, in order, until the budget is spent."""

    def __init__(self, privatizer: LinearPrivatizer, source: JointSource, noise: NoiseSource, users: int) -> None:
        self._privatizer, self._noise, self._users = privatizer, noise, users
        self._counts = {part: source.joint(part) for part in sorted(set(privatizer.parts))}
        self._asked = 0
        self._guarantee = replace(privatizer.guarantee, simulated=noise.simulated)

    def answer(self, request: Request) -> Release:
        """A matrix and vectors with noise; refused if it is not the question that was budgeted."""
        what, plan = request.what, self._privatizer
        if not isinstance(what, Linear):
            raise Unsupported(f"recipe {plan.recipe!r} answers linear questions only: the learner must ask one")
        if self._asked == len(plan.vectors):
            raise Unsupported(f"all {self._asked} questions of the budget have been asked")
        # Looked at once more, and from here on a copy: an answer must not depend on when an array was changed.
        what = replace(what)
        expected = (plan.vectors[self._asked], LEVELS, plan.shape.states + 1)
        pairs = (plan.shape.states, plan.shape.actions)
        if (what.targets.shape, what.weights.shape) != (expected, pairs) or what.step >= plan.shape.horizon:
            raise InvalidInput(
                f"question {self._asked + 1} must be about a step in 0..H-1, with targets of shape {expected} and "
                f"weights of shape {pairs}"
            )
        laws, part = plan.laws[self._asked], plan.parts[self._asked]
        self._asked += 1
        sums = tally(self._counts[part], plan.shape, plan.features, what, exact=laws is None)
        return self._release(sums, what.bound, laws)

    def _release(self, sums: tuple[Floats, Floats], bound: float, laws: tuple[Any, Any] | None) -> Release:
        matrix, vectors = sums
        spread = np.zeros(matrix.shape), np.zeros(vectors.shape)
        if laws is not None:
            on_matrix, on_vectors = laws
            matrix = (matrix + _draw(self._noise, on_matrix, ())) / _MATRIX_GRID**2
            vectors = (vectors + self._noise.draw(on_vectors, 1, vectors.size).reshape(vectors.shape)) / _VECTOR_GRID
            spread = (
                on_matrix.variance / _MATRIX_GRID**4,
                np.full(vectors.shape, on_vectors.variance / _VECTOR_GRID**2),
            )
        statistics = {
            "matrix": Estimate(matrix, spread[0]),
            "vectors": Estimate(bound * vectors, bound**2 * spread[1]),
        }
        return Release(statistics, self._users, self._guarantee, lambda _cells, _p: np.zeros(0))


def tally(joint: JointCounts, shape: Shape, features: Floats, what: Linear, *, exact: bool) -> tuple[Floats, Floats]:
    """The sums that a question asks for, in units of its bound: exact ones, or on the grid, as whole numbers."""
    S, A = shape.states, shape.actions
    # Everything public comes first, so that an error cannot depend on data. Clipped here, whatever the learner asks:
    # the sensitivity must not depend on its manners.
    weights = np.clip(check_array("weights", what.weights, (S, A)).reshape(S * A), 0.0, 1.0)
    tables = check_array("targets", what.targets, (*np.shape(what.targets)[:1], joint.levels, S + 1))
    with np.errstate(over="ignore"):  # far beyond a tiny bound is clipped to it
        targets = np.clip(tables / check_positive("bound", what.bound), -1.0, 1.0)
    phi = check_array("features", features).reshape(S * A, -1)
    rest, level = np.divmod(joint.keys, joint.levels)
    row, successor = np.divmod(rest, S + 1)
    step, pair = np.divmod(row, S * A)
    here = np.flatnonzero(step == (0 if shape.homogeneous else what.step))
    counts, level, successor, pair = joint.counts[here].astype(np.float64), level[here], successor[here], pair[here]
    visits = np.bincount(pair, weights=counts, minlength=S * A)
    x = targets[:, level, successor]  # (T, cells)
    if exact:
        matrix = (phi * (visits * weights)[:, None]).T @ phi
        vectors = np.stack(
            [phi.T @ np.bincount(pair, weights=counts * each, minlength=S * A) for each in x * weights[pair]]
        )
        return matrix, vectors
    psi = on_grid(np.sqrt(weights)[:, None] * phi, _MATRIX_GRID)
    matrix = np.asarray((psi * visits[:, None]).T @ psi, np.float64)
    weighted = weights[:, None] * phi
    contributions = [on_grid(each[:, None] * weighted[pair], _VECTOR_GRID) * counts[:, None] for each in x]
    return matrix, np.stack([each.sum(axis=0) for each in contributions])


def on_grid(rows: Floats, grid: int) -> Floats:
    """Rows of norm at most one as whole numbers of 1/grid, of norm at most ``grid`` exactly.

    Rounded to the nearest, and toward zero where that would make them too long. A row that is too long even so, or not
    finite, becomes zero: whatever comes in, nobody adds more than the noise is sized for.
    """
    rounded = np.rint(rows * grid)
    for shrunk in (np.trunc(rows * grid), np.trunc(rows * (grid - 1)), 0.0):
        with np.errstate(over="ignore"):
            fits = (rounded**2).sum(axis=1, keepdims=True) <= grid**2  # False for NaN
        rounded = np.where(fits, rounded, shrunk)
    return np.asarray(rounded)


def build_linear(
    privacy: Privacy, shape: Shape, features: ArrayLike, vectors: Sequence[int], *,
    parts: Sequence[int] | None = None, per_user: int = 1, as_printed: bool = False,
) -> LinearPrivatizer:  # fmt: skip
    """Calibrate all questions to a target: one share of the budget for every matrix and every vector.

    ``parts`` says which part of the users each question is about; a user is in one part, so each part has the whole
    budget (parallel composition).
    """
    phi = bounded_features(features, shape)
    about = tuple(parts) if parts is not None else (0,) * len(vectors)
    if isinstance(privacy, NoPrivacy):
        laws: tuple[tuple[Any, Any] | None, ...] = (None,) * len(vectors)
        return LinearPrivatizer("offline/none", shape, phi, tuple(vectors), about, laws, nothing())
    if privacy.model != "central":
        raise Unsupported(f"a data set is released by the one who holds it: the {privacy.model} model does not apply")
    if shape.homogeneous and shape.horizon > 1:
        raise Unsupported("linear statistics are released step by step: declare homogeneous=False")
    rho = concentrated_budget(privacy)
    shares = {part: rho / sum(1 + n for n, p in zip(vectors, about, strict=True) if p == part) for part in set(about)}
    chosen = [_laws(phi.shape[2], shares[part], per_user, as_printed) for part in about]
    guarantees = []
    for part in sorted(shares):
        asked = [(laws, n) for laws, n, p in zip(chosen, vectors, about, strict=True) if p == part]
        guarantees.append(_whole(asked[0][0], len(asked), sum(n for _, n in asked), per_user, privacy.delta))
    guarantee = max(guarantees, key=lambda each: float(each.rho or 0.0))
    if len(guarantees) > 1:
        why = f"each user is in one of {len(guarantees)} parts and moves the answers about it alone; the weakest counts"
        guarantee = parallel(guarantee, why)
    if as_printed:
        claim = Claim(ZeroConcentratedProfile(rho).epsilon(privacy.delta or 1e-5), privacy.delta or 1e-5, "DP-VAPVI")
        guarantee = claimed(guarantee, claim)
    unit = "one user = one whole trajectory" if per_user == 1 else f"one user = up to {per_user} whole trajectories"
    name = "offline/linear-as-printed" if as_printed else "offline/linear"
    return LinearPrivatizer(
        name, shape, phi, tuple(vectors), about, tuple(chosen), with_unit(guarantee, unit=unit), per_user
    )


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


def _laws(dimension: int, share: float, per_user: int, as_printed: bool) -> tuple[Any, Any]:
    m = per_user**2
    squared = 1 if as_printed else 2  # what the proof assumes a matrix can move, and what it can
    off_diagonal = squared * m * _MATRIX_GRID**4 / (4 * share)
    return (
        DiscreteSymmetricGaussianMatrix(dimension, off_diagonal),
        DiscreteGaussian(_VECTOR_GRID * math.sqrt(2 * m / share)),
    )


def matrix_sensitivity(dimension: int, per_user: int = 1) -> Sensitivity:
    """What replacing a user moves in a sum of phi phi^T on the grid: the Frobenius norm, and what follows from it."""
    norm = math.sqrt(2) * per_user * _MATRIX_GRID**2
    return Sensitivity(dimension * norm, norm, norm)


def vector_sensitivity(dimension: int, per_user: int = 1) -> Sensitivity:
    """The same for a sum of phi times a target."""
    norm = 2.0 * per_user * _VECTOR_GRID
    return Sensitivity(math.sqrt(dimension) * norm, norm, norm)


def _whole(laws: tuple[Any, Any], matrices: int, vectors: int, per_user: int, delta: float) -> Guarantee:
    """All questions about one part of the users: zero-concentrated parameters add up, adaptively.

    So n statistics of one law cost as much as one of sqrt(n) times the norm, and are written down as that.
    """
    parts = [
        from_mechanism(part.law, part.sensitivity, delta=delta, name=part.name)
        for part in _statistics(laws, matrices, vectors, per_user)
    ]
    return compose(parts, delta=delta, why="adaptive composition of zero-concentrated privacy")


class LinearStatistics(NamedTuple):
    """All statistics of one kind: what they are, what one user moves in them together, and the noise."""

    name: str
    cells: int
    sensitivity: Sensitivity
    law: Any


def _statistics(laws: tuple[Any, Any], matrices: int, vectors: int, per_user: int) -> tuple[LinearStatistics, ...]:
    on_matrix, on_vector = laws
    d = on_matrix.dimension
    entries, adaptive = SymmetricMatrixNoise(d, on_matrix.off_diagonal), "each asked after the answers before it"
    return (
        LinearStatistics(
            f"{matrices} sums of phi phi^T, {adaptive}",
            matrices * d * (d + 1) // 2,
            _together(matrix_sensitivity(d, per_user), matrices),
            entries,
        ),
        LinearStatistics(
            f"{vectors} sums of phi times a target, {adaptive}",
            vectors * d,
            _together(vector_sensitivity(d, per_user), vectors),
            on_vector,
        ),
    )


def _together(sensitivity: Sensitivity, times: int) -> Sensitivity:
    root = math.sqrt(times)
    return Sensitivity(sensitivity.l1 * times, sensitivity.l2 * root, sensitivity.linf)


@dataclass(frozen=True)
class SymmetricMatrixNoise:
    """Matrix noise as derivations describe it: by the variance off the diagonal."""

    dimension: int
    off_diagonal: float

    @property
    def variance(self) -> float:
        return self.off_diagonal

    def profile(self, sensitivity: Sensitivity) -> ZeroConcentratedProfile:
        return DiscreteSymmetricGaussianMatrix(self.dimension, self.off_diagonal).profile(sensitivity)


def _draw(noise: NoiseSource, law: DiscreteSymmetricGaussianMatrix, size: tuple[int, ...]) -> Floats:
    """Matrix noise from the same source as all other noise."""
    generator = getattr(noise, "generator", None)
    return np.asarray(law.secure(size) if generator is None else law.draw(generator, size), np.float64)
