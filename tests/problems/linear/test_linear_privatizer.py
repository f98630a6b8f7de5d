"""Linear questions: exact sensitivities on the grid, budgets that add up, and answers only to what was budgeted."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest

import discreet
from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.policies import uniform_policy
from discreet.base.shape import Shape
from discreet.mechanisms.counts.joint_histogram import JointCounts
from discreet.mechanisms.moments.linear_statistics import LEVELS, matrix_sensitivity, on_grid, vector_sensitivity
from discreet.mechanisms.moments.linear_statistics import sums as tally
from discreet.mechanisms.release import Linear, Request
from discreet.mechanisms.sums.accumulator import SimulatedNoise
from discreet.privacy.profiles import ZeroConcentratedProfile
from discreet.problems.linear.recipes import bounded_features, concentrated_budget
from discreet.recipes.registry import build

SHAPE = Shape(2, 3, 2)
RNG = np.random.default_rng(0)
FEATURES = bounded_features(RNG.normal(size=(2, 3, 4)), SHAPE)
TARGETS = RNG.uniform(-1, 1, (1, LEVELS, 3))
TARGETS[0, [0, -1]] = [[1, -1, 1], [-1, 1, -1]]


def build_linear(privacy, shape, features, vectors, *, parts=None, per_user=1, as_printed=False):
    """The privatizer of these questions, by the one registry."""
    options = {"features": features, "vectors": vectors, "parts": parts, "per_user": per_user}
    recipe = "offline/linear-as-printed" if as_printed else "auto"
    target = replace(privacy, recipe=recipe, options=options)
    return build(target, shape, 1_000, frozenset({"matrix", "vectors"}), data_set=True)


def one_user(s, a, successor, level):
    return JointCounts(np.array([((s * 3 + a) * 3 + successor) * LEVELS + level]), np.array([1]), LEVELS)


def question(targets=TARGETS, weights=None, step=0):
    return Linear(step, targets, np.ones((2, 3)) if weights is None else weights, 1.0)


@pytest.mark.parametrize("weights", [np.ones((2, 3)), RNG.random((2, 3))], ids=["equal", "weighted"])
def test_no_pair_of_users_moves_more_than_stated(weights):
    """All pairs of one-step records; orthogonal features attain the bound of the matrix up to the grid."""
    axes = (range(2), range(3), range(3), (0, 8, LEVELS - 1))
    records = [one_user(s, a, t, level) for s in axes[0] for a in axes[1] for t in axes[2] for level in axes[3]]
    for features in (FEATURES, bounded_features(np.eye(6).reshape(2, 3, 6), SHAPE)):
        sums = [tally(record, SHAPE, features, question(weights=weights), exact=False) for record in records]
        matrix = max(np.linalg.norm(a[0] - b[0]) for a, b in combinations(sums, 2))
        vector = max(np.linalg.norm(a[1] - b[1]) for a, b in combinations(sums, 2))
        assert matrix <= matrix_sensitivity(4).l2
        assert vector <= vector_sensitivity(4).l2
        assert all((each[0] == np.round(each[0])).all() and (each[1] == np.round(each[1])).all() for each in sums)
    if (weights == 1).all():
        assert matrix == matrix_sensitivity(4).l2  # the one-hot features
        # Opposite targets double a vector, as far as rounding toward zero lets them.
        same = [
            tally(one_user(0, 0, 0, level), SHAPE, FEATURES, question(), exact=False)[1] for level in (0, LEVELS - 1)
        ]
        assert np.linalg.norm(same[0] - same[1]) > 0.99 * 2 * 2048 * np.linalg.norm(FEATURES[0, 0])


def test_manners_of_the_learner_do_not_matter():
    """Weights and targets outside their ranges are clipped where the data are."""
    rude = Linear(0, 100 * TARGETS, np.full((2, 3), 50.0), 1.0)
    matrix, vectors = tally(one_user(1, 2, 0, 0), SHAPE, FEATURES, rude, exact=False)
    assert np.linalg.norm(matrix) <= 64**2
    assert np.linalg.norm(vectors) <= 2048


class One:
    """A table with one user."""

    def __init__(self, record):
        self._record = record

    def tally(self, encoders, context, users):
        return [encoder.from_joint(self._record) for encoder in encoders]


def unchecked(what, **changes):
    """A question that got past its own checks."""
    for name, value in changes.items():
        object.__setattr__(what, name, value)
    return what


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("where", ["weights", "targets", "bound"])
def test_no_question_can_smuggle_in_what_is_not_a_number(where, bad):
    """One NaN in the row of state 0, or in the column of a reward level, would show exactly who is there.

    The error is the same whoever the user is, and the question is not charged.
    """
    small = Shape(2, 1, 1)
    weights, targets = np.array([[bad if where == "weights" else 1.0], [1.0]]), np.ones((1, LEVELS, 3))
    if where == "targets":
        targets[:, 16] = bad
    bound = bad if where == "bound" else 1.0
    with pytest.raises(InvalidInput, match=where):
        Linear(0, targets, weights, bound)
    said = set()
    for state in (0, 1):
        for level in (0, 16):
            user = JointCounts(np.array([(state * 3 + 2) * LEVELS + level]), np.array([1]), LEVELS)
            rude = unchecked(
                Linear(0, np.ones((1, LEVELS, 3)), np.ones((2, 1))), targets=targets, weights=weights, bound=bound
            )
            privatizer = build_linear(discreet.Central(rho=0.01), small, np.ones((2, 1, 1)), (1,))
            session = privatizer.open(One(user), SimulatedNoise(np.random.default_rng(0)), 1)
            with pytest.raises(InvalidInput, match=where) as by_session:
                session.answer(Request(uniform_policy(small), what=rude))
            with pytest.raises(InvalidInput, match=where) as by_tally:
                tally(user, small, np.ones((2, 1, 1)), rude, exact=False)
            said |= {str(by_session.value), str(by_tally.value)}
            polite = Linear(0, np.ones((1, LEVELS, 3)), np.ones((2, 1)))
            answer = session.answer(Request(uniform_policy(small), what=polite))
            assert np.isfinite(answer["vectors"].values).all()
    assert len(said) == 1


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e200])
def test_what_is_no_short_vector_does_not_get_past_the_grid(bad):
    """Features are checked where a privatizer is built; one that is put together by hand adds nothing either."""
    rows = np.array([[bad, 0.0], [0.6, 0.8], [3.0, 0.0]])
    np.testing.assert_array_equal(on_grid(rows, 10), [[0, 0], [6, 8], [0, 0]])
    features = FEATURES.copy()
    features[0, 0, 0] = bad
    if not math.isfinite(bad):
        with pytest.raises(InvalidInput, match="features"):
            build_linear(discreet.Central(rho=1.0), SHAPE, features, (1,))
        with pytest.raises(InvalidInput, match="features"):
            tally(one_user(1, 1, 0, 4), SHAPE, features, question(), exact=False)


def test_the_stated_bound_is_the_clip_and_scales_the_noise():
    """Targets of any size: what is beyond the bound is cut there, and sums and noise are proportional to it."""
    targets = np.linspace(-8.0, 8.0, LEVELS)[None, :, None] * np.ones((1, LEVELS, 3))
    privatizer = build_linear(discreet.Central(rho=1e9), SHAPE, FEATURES, (1, 1, 1))
    for level in (0, 9, 16):
        session = privatizer.open(One(one_user(1, 2, 0, level)), SimulatedNoise(np.random.default_rng(0)), 1)
        for bound in (0.5, 5.0, 40.0):
            wanted = Linear(0, targets, np.ones((2, 3)), bound)
            answer = session.answer(Request(uniform_policy(SHAPE), what=wanted))["vectors"]
            clipped = np.clip(level - 8.0, -bound, bound)
            np.testing.assert_allclose(answer.values[0], clipped * FEATURES[1, 2], atol=2e-3 * bound)
            assert answer.variance[0, 0] == pytest.approx(
                bound**2 * privatizer.channels[0].laws[0][1].variance / 2048**2
            )
            grid = tally(one_user(1, 2, 0, level), SHAPE, FEATURES, wanted, exact=False)[1]
            assert np.linalg.norm(grid) <= 2048
    plain = build_linear(discreet.NoPrivacy(), SHAPE, FEATURES, (1,))
    session = plain.open(One(one_user(1, 2, 0, 16)), SimulatedNoise(np.random.default_rng(0)), 1)
    exact = session.answer(Request(uniform_policy(SHAPE), what=Linear(0, targets, np.ones((2, 3)), 5.0)))
    np.testing.assert_allclose(exact["vectors"].values[0], 5.0 * FEATURES[1, 2])


def test_long_features_are_shortened():
    phi = bounded_features(np.full((2, 3, 4), 10.0), SHAPE)
    np.testing.assert_allclose(np.linalg.norm(phi, axis=2), 1.0)
    assert (on_grid(phi.reshape(6, 4), 64) ** 2).sum(axis=1).max() <= 64**2
    with pytest.raises(InvalidInput, match="must have shape"):
        bounded_features(np.ones((2, 4, 3)), SHAPE)


def test_rows_on_the_grid_are_never_longer_than_they_may_be():
    rows = np.random.default_rng(8).normal(size=(5000, 7))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    for grid in (3, 64, 2048):
        whole = on_grid(rows, grid)
        assert ((whole**2).sum(axis=1) <= grid**2).all()
        assert np.abs(whole / grid - rows).max() <= 2 / grid
    np.testing.assert_array_equal(on_grid(np.eye(3), 64), 64 * np.eye(3))


def test_the_grid_changes_sums_by_less_than_its_step():
    records = one_user(1, 1, 0, 4)
    exact = tally(records, SHAPE, FEATURES, question(), exact=True)
    grid = tally(records, SHAPE, FEATURES, question(), exact=False)
    assert np.abs(exact[0] - grid[0] / 64**2).max() < 2 / 64
    assert np.abs(exact[1] - grid[1] / 2048).max() < 1 / 2048


@pytest.mark.parametrize("vectors", [(1, 1), (1, 2, 1)])
def test_the_budget_adds_up(vectors):
    privatizer = build_linear(discreet.Central(rho=0.8), SHAPE, FEATURES, vectors)
    matrix, vector = privatizer.channels[0].laws[0]
    share = 0.8 / (len(vectors) + sum(vectors))
    assert matrix.off_diagonal == pytest.approx(64**4 / (2 * share))
    assert vector.sigma**2 == pytest.approx(2 * 2048**2 / share)
    parts = [part.law.profile(part.sensitivity).rho for part in privatizer.channels[0].mechanisms()]
    assert sum(parts) == pytest.approx(privatizer.guarantee.rho) == pytest.approx(0.8)


def test_dp_vapvi_as_printed_keeps_its_promise():
    """Two halves: in one a vector at rho_0 and a matrix at 2 rho_0 a step, in the other two vectors and a matrix."""
    H = 5
    for vectors, parts, multiple in (
        ((2, 1) * H, None, 0.8),
        ((2, 1) * H, (1, 0) * H, 0.8),
        ((1, *(2, 1) * (H - 1)), (0,) * (2 * H - 1), 0.8 * (H - 1) / H),  # what VAPVI asks: no variance at the end
    ):
        shape = Shape(2, 3, H)
        printed = build_linear(discreet.Central(rho=0.3), shape, FEATURES, vectors, parts=parts, as_printed=True)
        assert printed.guarantee.rho == pytest.approx(multiple * 0.3)
        assert "(true)" in printed.guarantee.explain()
        assert "each user is in one of 2 parts" in printed.guarantee.explain()
        (channel,) = printed.channels
        assert channel.encoder.parts == 2
        assert channel.about == tuple(int(n == 2) for n in vectors)
        costs = [part.law.profile(part.sensitivity).rho for part in channel.mechanisms()]
        first, second = costs[0] + costs[1], costs[2] + costs[3]
        assert first == pytest.approx(0.6 * 0.3)
        assert second == pytest.approx(multiple * 0.3)
    # By hand, in both halves: variance 1 / (4 rho_0) off the diagonal, 2 / rho_0 in vectors, rho_0 = rho / (5 H).
    share = 0.3 / (5 * H)
    for matrix, vector in channel.laws:
        assert matrix.off_diagonal == pytest.approx(64**4 / (4 * share))
        assert vector.sigma**2 == pytest.approx(2 * 2048**2 / share)


@pytest.mark.parametrize(
    ("vectors", "parts", "says"),
    [
        ((1,) * 5, None, "variance=True"),  # no questions about variances
        ((2, 1) * 6, None, "once per step"),
        ((3, 1) * 5, None, "are not that"),
        ((2, 1) * 5, (0, 1) * 5, "leave the option parts out"),
    ],
)
def test_what_is_not_dp_vapvi_does_not_run_as_printed(vectors, parts, says):
    with pytest.raises(InvalidInput, match=says):
        build_linear(discreet.Central(rho=1.0), Shape(2, 3, 5), FEATURES, vectors, parts=parts, as_printed=True)


class TwoHalves:
    """A small data set: trajectories of (state, action, successor or end, reward level) per step, in two halves."""

    def __init__(self, halves, shape):
        self._halves, self._shape = halves, shape

    def tally(self, encoders, context, users):
        S, A = self._shape.states, self._shape.actions
        parts = []
        for part, records in enumerate(self._halves):
            keys = [
                (((h * S + s) * A + a) * (S + 1) + after) * LEVELS + level
                for record in records
                for h, (s, a, after, level) in enumerate(record)
            ]
            counted = np.unique(keys, return_counts=True)
            parts.append(encoders[0].from_joint(JointCounts(*counted, LEVELS), part))
        return [np.concatenate(parts)] * len(encoders)


def test_replacing_one_trajectory_of_a_small_data_set_changes_only_her_half_and_no_more_than_stated():
    """Every trajectory of two steps in place of one, in each half; the same noise is drawn for both data sets.

    So answers differ by what the sums differ by. Their cost is compared with what the recipe states for each half, and
    in both halves something comes near what unit vectors can do to a matrix.
    """
    shape, rho = Shape(2, 2, 2), 1.0
    features = np.eye(2)[[[0, 1], [1, 0]]]  # orthogonal where the action differs
    features[1] *= -1.0  # and opposite where state and action do
    vectors = (1, 2, 1, 2)
    steps = list(product(range(2), range(2), range(3), (0, LEVELS - 1)))
    records = list(product(steps, steps))[::3]
    others = [records[5], records[77]], [records[40], records[101]]
    privatizer = build_linear(discreet.Central(rho=rho), shape, features, vectors, as_printed=True)
    wanted = []
    for n, step in zip(vectors, (1, 1, 0, 0), strict=True):
        signs = np.where(np.arange(LEVELS)[:, None] < 8, 1.0, -1.0) * np.ones((n, LEVELS, 3))
        wanted.append(Linear(step, signs, np.ones((2, 2)), 1.0))

    def answers(halves):
        session = privatizer.open(TwoHalves(halves, shape), SimulatedNoise(np.random.default_rng(1)), 4)
        return [session.answer(Request(uniform_policy(shape), what=what)) for what in wanted]

    for half, limit, most in ((0, 0.6, 0.5), (1, 0.8, 0.6)):
        before, found = answers(others), []
        for record in records:
            changed = [list(each) for each in others]
            changed[half][0] = record
            cost = 0.0
            for n, old, new in zip(vectors, before, answers(changed), strict=True):
                moved = [new[name].values - old[name].values for name in ("matrix", "vectors")]
                if (n == 2) != (half == 1):
                    assert not np.abs(np.concatenate([each.ravel() for each in moved])).max() > 1e-9
                cost += (moved[0] ** 2).sum() / (4 * new["matrix"].variance[0, 1])
                cost += ((moved[1] ** 2) / (2 * new["vectors"].variance)).sum()
            found.append(cost)
        assert max(found) <= limit * rho * (1 + 1e-9)
        assert max(found) > 0.99 * most * rho  # orthogonal pairs: a matrix moves by sqrt(2), a vector too
    assert privatizer.guarantee.rho == pytest.approx(0.8 * rho)


def test_halves_of_the_users_have_the_whole_budget_each():
    """rho / 3H for the variance questions, rho / 2H for the others."""
    H = 4
    vectors, parts = (2, 1) * H, (1, 0) * H
    split = build_linear(discreet.Central(rho=0.5), Shape(2, 3, H), FEATURES, vectors, parts=parts)
    assert split.guarantee.rho == pytest.approx(0.5)
    assert "parallel composition: each user is in one of 2 parts" in split.guarantee.explain()
    whole = build_linear(discreet.Central(rho=0.5), Shape(2, 3, H), FEATURES, vectors)
    assert "parallel" not in whole.guarantee.explain()
    (_, first), (_, second) = split.channels[0].laws[:2]
    assert first.sigma**2 == pytest.approx(2 * 2048**2 / (0.5 / (3 * H)))
    assert second.sigma**2 == pytest.approx(2 * 2048**2 / (0.5 / (2 * H)))


def test_users_with_several_trajectories():
    once, thrice = (build_linear(discreet.Central(rho=0.5), SHAPE, FEATURES, (1, 1), per_user=m) for m in (1, 3))
    assert thrice.channels[0].laws[0][1].sigma == pytest.approx(3 * once.channels[0].laws[0][1].sigma)
    assert thrice.guarantee.rho == pytest.approx(0.5)


def test_an_epsilon_target_is_converted():
    privacy = discreet.Central(1.0, 1e-6)
    rho = concentrated_budget(privacy)
    assert ZeroConcentratedProfile(rho).delta(1.0) <= 1e-6 < ZeroConcentratedProfile(1.001 * rho).delta(1.0)
    guarantee = build_linear(privacy, SHAPE, FEATURES, (1, 1)).guarantee
    assert 0.99 < guarantee.epsilon <= 1.0
    with pytest.raises(Unsupported, match="delta above 0"):
        build_linear(discreet.Central(1.0), SHAPE, FEATURES, (1, 1))


@pytest.mark.slow
def test_answers_are_sums_with_noise_of_the_stated_law():
    """Standardised noise of 600 matrices and vectors: six deviations either side; 2/3 and 3/2 are rejected."""
    privatizer = build_linear(discreet.Central(rho=50.0), SHAPE, FEATURES, (1,) * 600)
    session = privatizer.open(One(one_user(0, 1, 1, 3)), SimulatedNoise(np.random.default_rng(3)), 1)
    exact = tally(one_user(0, 1, 1, 3), SHAPE, FEATURES, question(), exact=False)
    off, vectors = [], []
    for _ in range(600):
        release = session.answer(Request(uniform_policy(SHAPE), what=question()))
        noise = release["matrix"].values - exact[0] / 64**2
        np.testing.assert_array_equal(noise, noise.T)
        off.append(noise[np.triu_indices(4, 1)] / np.sqrt(release["matrix"].variance[0, 1]))
        vectors.append((release["vectors"].values - exact[1] / 2048) / np.sqrt(release["vectors"].variance))
    for drawn in (np.concatenate(off), np.concatenate(vectors).ravel()):
        bound = 6 * math.sqrt(2 * drawn.size)
        for scale, fits in ((1.0, True), (2 / 3, False), (1.5, False)):
            assert (abs((drawn**2).sum() / scale**2 - drawn.size) < bound) == fits


def test_only_budgeted_questions_are_answered():
    privatizer = build_linear(discreet.Central(rho=1.0), SHAPE, FEATURES, (1,))
    session = privatizer.open(One(one_user(0, 1, 1, 3)), SimulatedNoise(np.random.default_rng(0)), 1)
    policy = uniform_policy(SHAPE)
    with pytest.raises(Unsupported, match="linear questions only"):
        session.answer(Request(policy))
    with pytest.raises(InvalidInput, match="targets of shape"):
        session.answer(Request(policy, what=question(np.repeat(TARGETS, 2, axis=0))))
    with pytest.raises(InvalidInput, match="about a step"):
        session.answer(Request(policy, what=question(step=2)))
    with pytest.raises(InvalidInput, match="weights of shape"):
        session.answer(Request(policy, what=question(weights=np.ones(6))))
    session.answer(Request(policy, what=question()))
    with pytest.raises(Unsupported, match="have been asked"):
        session.answer(Request(policy, what=question()))


@pytest.mark.parametrize(
    ("privacy", "shape", "message"),
    [
        (discreet.Local(1.0), SHAPE, "does not apply"),
        (discreet.Central(rho=1.0), Shape(2, 3, 2, homogeneous=True), "step by step"),
    ],
)
def test_what_cannot_be_is_refused(privacy, shape, message):
    with pytest.raises(Unsupported, match=message):
        build_linear(privacy, shape, FEATURES, (1, 1))
