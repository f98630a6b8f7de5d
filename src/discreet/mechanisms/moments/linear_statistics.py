r"""Linear statistics by request: sums of phi phi^T and of phi times a target, released on a grid with discrete noise.

A learner asks one :class:`~discreet.mechanisms.release.Linear` question after another; what it asks may depend on the
answers so far, and it never sees data. A question about step h, with weights w(s, a) in [0, 1] and T tables of targets
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
and gives 2 rho_0 for replacing one. Its theorem holds all the same, because it divides the users into two halves, of
which each is asked for fewer statistics than the budget is divided by: ``offline/linear-as-printed`` does that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.shape import Shape
from discreet.base.types import Floats, Mask, NDArray
from discreet.base.validation import check_array, check_positive
from discreet.mechanisms.counts.encoder import Context, Statistic
from discreet.mechanisms.counts.joint_histogram import JointCounts
from discreet.mechanisms.mechanism import Mechanism, RadiusOf, WidthOf
from discreet.mechanisms.release import Estimate, Linear
from discreet.mechanisms.sums.accumulator import NoiseSource, SecureNoise, SimulatedNoise, check_hidden, noisy
from discreet.noise import DiscreteGaussian
from discreet.noise.distribution import IN_EVERY_CELL
from discreet.noise.symmetric_gaussian import DiscreteSymmetricGaussianMatrix
from discreet.privacy.profiles import ZeroConcentratedProfile
from discreet.privacy.sensitivity import Sensitivity

LEVELS = 17  # rewards are rounded, without bias, to sixteenths of their range
MATRIX_GRID, VECTOR_GRID = 64, 2048

Laws = tuple[DiscreteSymmetricGaussianMatrix, DiscreteGaussian]


@dataclass(frozen=True)
class FineCounts:
    """What linear questions are computed from: the joint histogram with rewards in fine levels, part by part.

    Its tally has a row (part, key, count) for each cell that occurs. It is raw: only answers with noise leave.
    """

    shape: Shape
    parts: int = 1
    per_user: int = 1
    name: ClassVar[str] = "fine joint counts"
    statistics: ClassVar[frozenset[str]] = frozenset({"matrix", "vectors"})
    first_visit: ClassVar[bool] = False
    reward_levels: ClassVar[int] = LEVELS
    size: ClassVar[int] = 0
    rounded: ClassVar[bool] = True
    levels: ClassVar[int] = 1
    public: ClassVar[Mapping[str, Floats]] = {}

    def sensitivity(self) -> Sensitivity:
        """Refused: the counts never leave, and what one user moves in an answer is that of the answer."""
        raise Unsupported("fine counts are not released: ask linear questions about them")

    def layer_sensitivity(self, step: int) -> Sensitivity:
        """Refused, as for all steps together."""
        return self.sensitivity()

    def rows_to_cells(self, rows: NDArray[Any]) -> NDArray[Any]:
        """There are no cells that leave."""
        return np.zeros(0, rows.dtype)

    def possible(self) -> Mask:
        """There are no cells that leave."""
        return np.zeros(0, np.bool_)

    def marginals(self, cells: Floats) -> dict[str, Statistic]:
        """None: answers are statistics of their own."""
        return {}

    def arrays(self) -> Any:
        """Refused: linear questions are about data that are there already."""
        raise Unsupported("linear questions are about one data set: nobody acts while they are answered")

    def from_joint(self, joint: JointCounts, part: int = 0) -> Floats:
        """The rows of one part of the users."""
        return np.stack([np.full(len(joint.keys), part), joint.keys, joint.counts], axis=1).astype(np.float64)

    def part(self, tally: Floats, part: int) -> JointCounts:
        """The joint histogram of one part, from the rows of all."""
        rows = tally[tally[:, 0] == part]
        return JointCounts(rows[:, 1].astype(np.int64), rows[:, 2].astype(np.int64), LEVELS)


@dataclass(frozen=True, eq=False)
class LinearChannel:
    """The budget of all questions: how many vectors each asks for, and the laws that hide them."""

    encoder: FineCounts
    features: Floats  # (S, A, d), norms at most one
    vectors: tuple[int, ...]  # of each question
    about: tuple[int, ...]  # which part of the users each question is about
    laws: tuple[Laws | None, ...]  # matrix and vector noise of each question; None without privacy
    per_user: int = 1

    @property
    def answers(self) -> frozenset[type]:
        """Linear questions, and nothing else."""
        return frozenset({Linear})

    @property
    def share(self) -> float:
        """The whole budget."""
        return 1.0

    @property
    def mixes(self) -> bool:
        """The data are there already, whatever policy collected them."""
        return True

    @property
    def mixing(self) -> None:
        """Every question has an answer of its own; nothing adds up."""
        return None

    def cells_per_count(self) -> dict[str, int]:
        """An entry of an answer carries noise of its own."""
        return {"matrix": 1, "vectors": 1}

    def shortcut(self, blocks: list[int]) -> list[int]:
        """All blocks: every question is answered, so none may be left out."""
        return blocks

    def start(self, shape: Shape, noise: NoiseSource, masked: bool) -> LinearRun:
        """Begin to answer questions."""
        return LinearRun(self, noise)

    def noise_per_row(self) -> float:
        """The noise of one answer; there is nothing to choose between."""
        return 0.0 if self.laws[0] is None else float(self.laws[0][1].variance)

    def mechanisms(self) -> tuple[Mechanism, ...]:
        """Everything that leaves, by kind; for receipts."""
        found: list[Mechanism] = []
        for part in sorted(set(self.about)):
            asked = [(laws, n) for laws, n, p in zip(self.laws, self.vectors, self.about, strict=True) if p == part]
            if asked[0][0] is not None:
                found += statistics_of(asked[0][0], len(asked), sum(n for _, n in asked), self.per_user)
        return tuple(found)


class LinearRun:
    """Answers the questions of one learner, in order, until the budget is spent."""

    def __init__(self, channel: LinearChannel, noise: NoiseSource) -> None:
        self._channel, self._noise, self._asked = channel, noise, 0
        self._answer: dict[str, Estimate] = {}

    def add(self, tally: Floats, users: int, context: Context) -> None:
        """Answer one question about the users in the tally; refused if it is not the question that was budgeted."""
        what, channel = context.what, self._channel
        shape = channel.encoder.shape
        if not isinstance(what, Linear):
            raise Unsupported("this recipe answers linear questions only: the learner must ask one")
        if self._asked == len(channel.vectors):
            raise Unsupported(f"all {self._asked} questions of the budget have been asked")
        # Looked at once more, and from here on a copy: an answer must not depend on when an array was changed.
        what = replace(what)
        expected = (channel.vectors[self._asked], LEVELS, shape.states + 1)
        pairs = (shape.states, shape.actions)
        if (what.targets.shape, what.weights.shape) != (expected, pairs) or what.step >= shape.horizon:
            raise InvalidInput(
                f"question {self._asked + 1} must be about a step in 0..H-1, with targets of shape {expected} and "
                f"weights of shape {pairs}"
            )
        laws, part = channel.laws[self._asked], channel.about[self._asked]
        self._asked += 1
        exact = sums(channel.encoder.part(tally, part), shape, channel.features, what, exact=laws is None)
        self._answer = self._noisy(exact, what.bound, laws)

    def _noisy(self, exact: tuple[Floats, Floats], bound: float, laws: Laws | None) -> dict[str, Estimate]:
        matrix, vectors = exact
        spread = np.zeros(matrix.shape), np.zeros(vectors.shape)
        if laws is not None:
            on_matrix, on_vectors = laws
            if not self._noise.simulated:
                check_hidden(matrix.ravel(), on_vectors)  # both laws are of whole numbers
            matrix = (matrix + _draw(self._noise, on_matrix, ())) / MATRIX_GRID**2
            vectors = noisy(vectors.ravel(), on_vectors, 1, self._noise).reshape(vectors.shape) / VECTOR_GRID
            spread = (
                on_matrix.variance / MATRIX_GRID**4,
                np.full(vectors.shape, on_vectors.variance / VECTOR_GRID**2),
            )
        return {
            "matrix": Estimate(matrix, spread[0]),
            "vectors": Estimate(bound * vectors, bound**2 * spread[1]),
        }

    @property
    def public(self) -> Mapping[str, Floats]:
        """Nothing beside the answers."""
        return {}

    def encoder_now(self, context: Context) -> FineCounts:
        """The same counts for every question."""
        return self._channel.encoder

    def radius_now(self) -> RadiusOf | None:
        """None: no bound holds for all answers at once."""
        return None

    def estimates(self) -> dict[str, Estimate]:
        """The answer to the last question."""
        return self._answer

    def width_now(self) -> WidthOf:
        """No bound is stated: learners bound the noise of a regression by its variance."""
        return lambda _cells, _failure: np.zeros(0)


def sums(joint: JointCounts, shape: Shape, features: Floats, what: Linear, *, exact: bool) -> tuple[Floats, Floats]:
    """The sums that a question asks for, in units of its bound: exact ones, or on the grid, as whole numbers."""
    S, A = shape.states, shape.actions
    # Everything public comes first, so that an error cannot depend on data. Clipped here, whatever the learner asks:
    # the sensitivity must not depend on the question.
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
    psi = on_grid(np.sqrt(weights)[:, None] * phi, MATRIX_GRID)
    matrix = np.asarray((psi * visits[:, None]).T @ psi, np.float64)
    weighted = weights[:, None] * phi
    contributions = [on_grid(each[:, None] * weighted[pair], VECTOR_GRID) * counts[:, None] for each in x]
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


def matrix_sensitivity(dimension: int, per_user: int = 1) -> Sensitivity:
    """What replacing a user moves in a sum of phi phi^T on the grid: the Frobenius norm, and what follows from it."""
    norm = math.sqrt(2) * per_user * MATRIX_GRID**2
    return Sensitivity(dimension * norm, norm, norm)


def vector_sensitivity(dimension: int, per_user: int = 1) -> Sensitivity:
    """What replacing a user moves in a sum of phi times a target on the grid."""
    norm = 2.0 * per_user * VECTOR_GRID
    return Sensitivity(math.sqrt(dimension) * norm, norm, norm)


def statistics_of(laws: tuple[Any, Any], matrices: int, vectors: int, per_user: int) -> tuple[Mechanism, ...]:
    """The two noisy statistics of one part of the users, matrices and vectors, as a receipt lists them."""
    on_matrix, on_vector = laws
    d = on_matrix.dimension
    entries, adaptive = SymmetricMatrixNoise(d, on_matrix.off_diagonal), "each asked after the answers before it"
    return (
        Mechanism(
            f"{matrices} sums of phi phi^T, {adaptive}",
            matrices * d * (d + 1) // 2,
            _together(matrix_sensitivity(d, per_user), matrices),
            entries,
        ),
        Mechanism(
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
    discrete: ClassVar[bool] = True
    drawn: ClassVar[str] = IN_EVERY_CELL

    @property
    def variance(self) -> float:
        """The variance off the diagonal; on the diagonal it is twice as large."""
        return self.off_diagonal

    def profile(self, sensitivity: Sensitivity) -> ZeroConcentratedProfile:
        """The profile of the discrete matrix law; ``sensitivity.l2`` is a Frobenius norm."""
        return DiscreteSymmetricGaussianMatrix(self.dimension, self.off_diagonal).profile(sensitivity)


def _draw(noise: NoiseSource, law: DiscreteSymmetricGaussianMatrix, size: tuple[int, ...]) -> Floats:
    """Matrix noise from the same source as all other noise."""
    if isinstance(noise, SecureNoise):
        return noise.exact(law, size, math.prod(size) * law.dimension**2)
    return np.asarray(law.draw(noise.generator, size) if isinstance(noise, SimulatedNoise) else law.secure(size))
