"""Blocks are weighed by what they tell: weights, sums and noise are those of the formulas, and regret falls by it.

Counts are made by hand, or by worlds whose expected visits are known exactly. Blocks that a matrix mechanism mixed are
compared with dense matrices.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import discreet
from discreet.base.policies import Mixture, Policy, StochasticPolicy, uniform_policy
from discreet.base.shape import Shape
from discreet.base.streams import COINS, stream
from discreet.learners import PSRL, UCBVI, block_history
from discreet.learners import base as learner_base
from discreet.learners.base import Problem
from discreet.learners.block_history import expected_visits, weigh
from discreet.learners.saved_learners import load_state, save_state
from discreet.mechanisms.counts.encoder import Context
from discreet.mechanisms.release import UNMIXED, Estimate, MixedBlocks, Release
from discreet.mechanisms.session import Privatizer
from discreet.mechanisms.sums.accumulator import SimulatedNoise
from discreet.mechanisms.sums.matrix import Matrix, coefficients, exponential_sum
from discreet.privacy.guarantee import nothing
from discreet.recipes.registry import build
from discreet.worlds.registry import make_world

H, S, A = 4, 3, 2
PURE = discreet.Central(1.0, recipe="central/joint-histogram-laplace")


def shape_of(groups: int = 1) -> Shape:
    return Shape(states=S, actions=A, horizon=H, homogeneous=groups == 1)


def release_of(visits, transitions, rewards, variance, users, adds=True) -> Release:
    """Counts with the same variance of noise in everything."""
    noise = np.broadcast_to(np.asarray(variance, float), visits.shape)
    statistics = {
        "visits": Estimate(visits, noise),
        "transitions": Estimate(transitions, noise),
        "rewards": Estimate(rewards, noise),
    }
    return Release(statistics, users, nothing(), lambda cells, tail: noise, mixing=UNMIXED if adds else None)


def world_of(groups: int, seed: int = 0):
    """A start, and successors (groups, S, A, S)."""
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(S)), rng.dirichlet(np.ones(S), (groups, S, A))


def exact_visits(start, successors, plays) -> np.ndarray:
    """Expected visits of one user, by a plain loop over paths of one step."""
    groups, visits, here = successors.shape[0], np.zeros(successors.shape[:3]), start.copy()
    for h in range(H):
        g, there = (h if groups > 1 else 0), np.zeros(S)
        for s in range(S):
            for a in range(A):
                visits[g, s, a] += here[s] * plays[h, s, a]
                there += here[s] * plays[h, s, a] * successors[g, s, a]
        here = there
    return visits


def exact_counts(start, successors, plays, users) -> tuple[np.ndarray, np.ndarray]:
    """Visits and transitions of so many users without chance; the last step leads nowhere."""
    groups, here = successors.shape[0], start.copy()
    visits, moves = np.zeros((groups, S, A)), np.zeros((groups, S, A, S))
    for h in range(H):
        g = h if groups > 1 else 0
        there = here[:, None] * plays[h]
        visits[g] += users * there
        if h < H - 1:
            moves[g] += users * there[..., None] * successors[g]
        here = np.einsum("sa,sat->t", there, successors[g])
    return visits, moves


@pytest.mark.parametrize("groups", [1, H])
def test_expected_visits_are_those_of_the_policy_where_everything_is_known(groups):
    start, successors = world_of(groups)
    even = uniform_policy(shape_of(groups))
    visits, moves = exact_counts(start, successors, even.probabilities, 1e9)
    known = release_of(visits, moves, visits, 0.0, 10**9)
    for seed in range(5):
        plays = np.random.default_rng(seed).dirichlet(np.ones(A), (H, S))
        found = expected_visits(known, known, StochasticPolicy(plays), shape_of(groups))
        # a tenth of the users may have started anywhere
        wanted = exact_visits(0.9 * start + 0.1 / S, successors, plays)
        if groups > 1:
            wanted[-1], found[-1] = 0.0, 0.0  # nobody has left the last step
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-9)


def test_expected_visits_of_a_mixture_are_the_mean_of_its_parts():
    start, successors = world_of(1)
    visits, moves = exact_counts(start, successors, uniform_policy(shape_of()).probabilities, 1e4)
    known = release_of(visits, moves, visits, 4.0, 10**4)
    parts = [Policy(np.random.default_rng(seed).integers(0, A, (H, S))) for seed in range(3)]
    chances = np.array([0.5, 0.3, 0.2])
    mixed = expected_visits(known, known, Mixture(tuple(parts), chances), shape_of())
    alone = [expected_visits(known, known, part, shape_of()) for part in parts]
    np.testing.assert_allclose(mixed, np.tensordot(chances, alone, 1), rtol=1e-12)
    assert mixed.sum() == pytest.approx(H)


def test_without_noise_sums_stay_as_they_are():
    start, successors = world_of(1)
    books, visits, moves = None, 0.0, 0.0
    for number in range(1, 4):
        policy = Policy(np.random.default_rng(number).integers(0, A, (H, S)))
        fresh = exact_counts(start, successors, np.eye(A)[policy.actions], 100)
        visits, moves = visits + fresh[0], moves + fresh[1]
        release = release_of(visits, moves, visits / 3, 0.0, 100 * number)
        known, books = weigh(books, release, policy, shape_of())
    visited = visits > 0
    for name, plain in (("visits", visits), ("transitions", moves), ("rewards", visits / 3)):
        np.testing.assert_allclose(known[name].values[visited], plain[visited], rtol=1e-9)


def test_a_row_that_one_block_visits_has_the_noise_of_about_one():
    """Ten blocks, of which one plays action 1 in state 0: its noise is far below the sum of all."""
    shape, variance, users, rng = shape_of(), 400.0, 1000, np.random.default_rng(1)
    start, successors = np.array([1.0, 0.0, 0.0]), np.zeros((1, S, A, S))
    successors[0, :, 0] = [1.0, 0.0, 0.0]  # action 0 leads home, 1 to state 1
    successors[0, :, 1] = [0.0, 1.0, 0.0]
    visits, moves, books, blocks = np.zeros((1, S, A)), np.zeros((1, S, A, S)), None, 10
    for number in range(1, blocks + 1):
        policy = Policy(np.full((H, S), int(number == 5), np.int64))
        fresh = exact_counts(start, successors, np.eye(A)[policy.actions], users)
        visits = visits + fresh[0] + rng.normal(0, variance**0.5, visits.shape)
        moves = moves + fresh[1] + rng.normal(0, variance**0.5, moves.shape)
        release = release_of(visits, moves, visits / 2, variance * number, users * number)
        known, books = weigh(books, release, policy, shape)
    row = (0, 1, 1)  # state 1, action 1: only the fifth block comes there
    # Two blocks' worth at most, of ten; the row that all others play keeps what they tell.
    assert known["visits"].variance[row] < 2 * variance
    assert known["visits"].values[row] == pytest.approx(3 * users, rel=0.1)
    home = known["visits"]
    assert home.variance[0, 0, 0] > 5 * variance
    assert home.values[0, 0, 0] == pytest.approx(9 * H * users, rel=0.1)


def test_the_stated_noise_of_a_mean_reward_is_that_of_many_draws():
    """Two blocks, the second of half as many users; 4,000 draws. False alarms below 1e-5: five deviations of six cells.

    The twin claims the variance of plain sums, and is found out.
    """
    shape, variance, draws, mean = shape_of(), 900.0, 4000, 0.5
    start, successors = world_of(1, seed=3)
    policies = [uniform_policy(shape), Policy(np.zeros((H, S), np.int64))]
    tables, sizes = [policies[0].probabilities, np.eye(A)[policies[1].actions]], (4000, 2000)
    fresh = [exact_counts(start, successors, plays, users) for plays, users in zip(tables, sizes)]
    rng, found, stated, plain = np.random.default_rng(7), [], [], []
    for _ in range(draws):
        visits, moves, rewards, books, users = np.zeros((1, S, A)), np.zeros((1, S, A, S)), 0.0, None, 0
        for number, policy in enumerate(policies):
            visits = visits + fresh[number][0] + rng.normal(0, variance**0.5, visits.shape)
            moves = moves + fresh[number][1] + rng.normal(0, variance**0.5, moves.shape)
            rewards = rewards + mean * fresh[number][0] + rng.normal(0, variance**0.5, visits.shape)
            users += sizes[number]
            release = release_of(visits, moves, rewards, variance * (number + 1), users)
            known, books = weigh(books, release, policy, shape)
        count, noise = known["visits"].values[0], known["visits"].variance[0]
        found.append(known["rewards"].values[0] / count)
        stated.append((1 + mean**2) * noise / count**2)
        plain.append((1 + mean**2) * 2 * variance / (fresh[0][0] + fresh[1][0])[0] ** 2)
    within = 5.0 * np.sqrt(2 / draws)
    ratio = np.var(found, axis=0) / np.mean(stated, axis=0)
    assert np.all(np.abs(ratio - 1) < within), ratio
    assert np.any(np.abs(np.var(found, axis=0) / np.mean(plain, axis=0) - 1) > within)


def test_weights_hardly_depend_on_the_noise_of_the_row_itself():
    """The mean of weighed counts over their units is that of the true ones: no bias beyond five standard errors."""
    shape, variance, draws, users = shape_of(), 2500.0, 3000, 1500
    start, successors = world_of(1, seed=5)
    even, rng, ratios = uniform_policy(shape), np.random.default_rng(11), []
    visits, moves = exact_counts(start, successors, even.probabilities, users)
    for _ in range(draws):
        noisy = release_of(
            visits + rng.normal(0, 50, visits.shape), moves + rng.normal(0, 50, moves.shape), visits, variance, users
        )
        known, _books = weigh(None, noisy, even, shape)
        ratios.append(known["visits"].values[0])
    error = np.std(ratios, axis=0) / np.sqrt(draws)
    np.testing.assert_array_less(np.abs(np.mean(ratios, axis=0) - visits[0]), 5 * error)


def columns_of(matrix: Matrix, releases: int) -> np.ndarray:
    """C of the matrix mechanism, dense."""
    c = coefficients(exponential_sum(matrix.releases), matrix.releases)
    return np.array([[c[i - j] if i >= j else 0.0 for j in range(releases)] for i in range(releases)])


class Mixed:
    """Releases of prefix sums by dense matrices, row by row; ``asked`` (T, 1, S, A) says which rows move on when."""

    def __init__(self, blocks: dict[str, np.ndarray], asked: np.ndarray, variance: float, seed: int) -> None:
        rng, self.asked, self.variance = np.random.default_rng(seed), asked, variance
        self.matrix = Matrix(len(asked))
        sums = exponential_sum(self.matrix.releases)
        draw = {name: np.full(asked.shape[1:], variance) for name in blocks}
        self.mixing, errors = MixedBlocks(sums.decays, sums.weights, draw), self.matrix.errors()
        self.published = {name: np.zeros_like(x) for name, x in blocks.items()}
        values = {name: np.zeros_like(x) for name, x in blocks.items()}
        for row in np.ndindex(asked.shape[1:]):
            when = np.flatnonzero(asked[(slice(None), *row)])
            columns = columns_of(self.matrix, len(when))
            for name, x in blocks.items():
                counted = x[(when, *row)]
                y = columns @ counted + rng.normal(0, variance**0.5, counted.shape)
                self.published[name][(when, *row)] = y
                values[name][(when, *row)] = np.linalg.solve(columns, y)
        noise = variance * errors[np.cumsum(asked, axis=0)]
        self.releases = [
            Release(
                {name: Estimate(values[name][: t + 1].sum(0), noise[t]) for name in blocks},
                100 * (t + 1), nothing(), lambda cells, tail: np.zeros(asked.shape[1:]), mixing=self.mixing,
            )
            for t in range(len(asked))
        ]  # fmt: skip


def mixed_blocks(seed: int, variance: float, blocks: int = 12) -> tuple[Mixed, np.ndarray]:
    """Counts of blocks, each of 100 users, that ask about two rows of three; and how many visits are expected."""
    rng = np.random.default_rng(seed)
    asked = rng.random((blocks, 1, S, A)) < 2 / 3
    asked[0] = True
    visits = np.where(asked, rng.integers(0, 60, asked.shape), 0).astype(float)
    moves = visits[..., None] * rng.dirichlet(np.ones(S), (1, S, A))
    counts = {"visits": visits, "transitions": moves, "rewards": 0.4 * visits}
    return Mixed(counts, asked, variance, seed), visits / 100


def weighed_by(monkeypatch, releases: list[Release], visits: np.ndarray) -> Release:
    """The last of these releases, weighed, if a user of block t is expected to visit rows ``visits[t]`` times."""
    books = None
    for t, release in enumerate(releases):
        monkeypatch.setattr(block_history, "expected_visits", lambda *_, t=t: visits[t])
        known, books = weigh(books, release, uniform_policy(shape_of()), shape_of())
    return known


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_blocks_that_were_mixed_are_weighed_as_by_dense_matrices(monkeypatch, seed):
    """Rows have clocks of their own; sums and noise of each are those of the formulas, from what was published.

    Visits that are expected in rows which the policy does not play, if any, do not count.
    """
    variance = 200.0
    mixed, visits = mixed_blocks(seed, variance)
    known = weighed_by(monkeypatch, mixed.releases, np.where(mixed.asked, visits, 0.3))
    for row in np.ndindex(1, S, A):
        when = np.flatnonzero(mixed.asked[(slice(None), *row)])
        n = 100 * visits[(when, *row)]
        m = columns_of(mixed.matrix, len(when)) @ n
        w = m / (m / 2 + variance)
        unit = n.sum() / (w @ m)
        for name in ("visits", "transitions", "rewards"):
            wanted = unit * np.tensordot(w, mixed.published[name][(when, *row)], 1)
            np.testing.assert_allclose(known[name].values[row], wanted, rtol=1e-7, atol=1e-7)
            np.testing.assert_allclose(known[name].variance[row], unit**2 * (w @ w) * variance, rtol=1e-9)


def test_no_linear_estimate_from_mixed_blocks_has_less_noise(monkeypatch):
    """Without chance, weights are those of generalised least squares: v / |C n|^2, below the noise of prefix sums."""
    monkeypatch.setattr(block_history, "_CHANCE", 0.0)
    variance, blocks = 300.0, 20
    rng, matrix = np.random.default_rng(4), Matrix(blocks)
    columns, prefix = columns_of(matrix, blocks), matrix.errors()[blocks]
    for pattern in (np.ones(blocks), np.eye(blocks)[3], np.eye(blocks)[0] + 0.01, rng.random(blocks) ** 4):
        asked = np.ones((blocks, 1, S, A), bool)
        visits = 50 * np.broadcast_to(pattern[:, None, None, None], asked.shape)
        counts = {"visits": visits, "transitions": np.repeat(visits[..., None] / S, S, -1), "rewards": visits / 2}
        known = weighed_by(monkeypatch, Mixed(counts, asked, variance, 5).releases, visits / 100)
        total, best = 50 * pattern.sum(), variance / np.sum((columns @ (50 * pattern)) ** 2)
        np.testing.assert_allclose(known["rewards"].variance / total**2, best, rtol=1e-9)
        assert best < variance * prefix / total**2
        for _ in range(200):  # other unbiased estimates: any weights with <weights, C n> = 1
            weights = rng.normal(size=blocks)
            assert variance * np.sum(weights**2) / np.dot(weights, columns @ (50 * pattern)) ** 2 >= best * (1 - 1e-9)


def test_the_stated_noise_of_mixed_blocks_is_that_of_a_channel(monkeypatch):
    """3,000 runs of a real channel over eight releases, nobody in them: the variance of six cells.

    False alarms below 1e-5 (five deviations of each). The twin takes the variance of the prefix sums, and is found out.
    """
    draws, blocks = 3000, 8
    privacy = discreet.Central(1.0, 1e-5, recipe="central/first-visit-matrix", options={"blocks": blocks})
    shape = shape_of()
    privatizer = build(privacy, shape, 800)
    (channel,) = privatizer.channels
    even, visits = uniform_policy(shape), np.random.default_rng(1).random((blocks, 1, S, A)) + 0.05
    found = []
    for seed in range(draws):
        run = channel.start(shape, SimulatedNoise(np.random.default_rng(seed)), True)
        releases = []
        for t in range(blocks):
            run.add(np.zeros(channel.encoder.size), 100, Context(even))
            statistics = run.estimates()
            noise = statistics["visits"].variance
            releases.append(
                Release(statistics, 100 * (t + 1), nothing(), lambda c, q, v=noise: v, mixing=channel.mixing)
            )
        known = weighed_by(monkeypatch, releases, visits)
        found.append(known["visits"].values[0])
    within = 5.0 * np.sqrt(2 / draws)
    ratio = np.var(found, axis=0) / known["visits"].variance[0]
    assert np.all(np.abs(ratio - 1) < within), ratio
    assert np.any(np.abs(np.var(found, axis=0) / releases[-1]["visits"].variance[0] - 1) > within)


@pytest.mark.parametrize(
    ("privacy", "mixed"),
    [
        (PURE, False),
        (discreet.Central(1.0, 1e-5, recipe="central/first-visit-gaussian"), False),
        (discreet.Shuffle(1.0, 1e-5, recipe="shuffle/first-visit-binomial"), False),
        (discreet.Shuffle(1.0, 1e-5, recipe="shuffle/first-visit-tables-randomised-response"), False),
        (discreet.Shuffle(4.0, 1e-5, recipe="shuffle/sampled-item"), False),
        (discreet.Central(1.0, 1e-5, recipe="central/first-visit-matrix"), True),
        (discreet.Central(1.0, 1e-5, recipe="central/joint-histogram-matrix"), True),
        (discreet.Central(1.0, recipe="central/focused-first-visit-laplace"), None),
        (discreet.Local(4.0), None),
        (discreet.NoPrivacy(), None),
    ],
)
def test_blocks_are_weighed_where_each_has_noise_of_its_own(privacy, mixed):
    """Plain sums mix nothing; the matrix mechanism says how it mixes; others do not say what single blocks told."""
    world = make_world("river-swim", states=3, horizon=4)
    result = discreet.simulate(world, "ucbvi", privacy, episodes=600, seed=1, keep_release=True)
    privatizer = build(privacy, world.shape, 600, UCBVI.needs)
    ways = [privatizer.mixing] + [release.mixing for release in result.releases or []]  # none after every user
    for mixing in ways:
        assert (mixing is UNMIXED) is (mixed is False)
        assert (mixing is not None and len(mixing.decays) > 0) is (mixed is True)


def test_channels_that_mix_differently_are_not_weighed():
    one, other = (
        build(discreet.Central(1.0, 1e-5, recipe="central/first-visit-matrix"), shape_of(), k).channels[0]
        for k in (600, 5000)
    )
    ways = {(one, one): one.mixing, (one, other): None, (other, one): None}
    for channels, mixing in ways.items():
        assert Privatizer.mixing.fget(SimpleNamespace(channels=channels)) is mixing


@pytest.mark.parametrize("learner", [UCBVI(), PSRL()])
def test_a_long_first_block_acts_at_random(learner):
    world = make_world("river-swim", states=4, horizon=6)
    privatizer = build(PURE, world.shape, 20_000, learner.needs)
    assert privatizer.opening > 0
    shape = world.shape
    opened = learner.init(Problem(shape, 20_000, privatizer.opening), stream(1, 0, COINS))
    assert opened.policy == uniform_policy(shape)
    assert isinstance(learner.init(Problem(shape, 20_000), stream(1, 0, COINS)).policy, Policy)


@pytest.mark.parametrize("learner", [UCBVI(), PSRL()])
def test_a_saved_learner_goes_on_bit_for_bit(learner):
    """Saved and loaded after every block, or never: the same policies, recommendations and sums."""
    shape, rng = shape_of(), np.random.default_rng(2)
    start, successors = world_of(1)
    problem = Problem(shape, 5000, 800)
    straight = broken = learner.init(problem, stream(3, 0, COINS))
    visits, moves = np.zeros((1, S, A)), np.zeros((1, S, A, S))
    for number in range(1, 5):
        plays = rng.dirichlet(np.ones(A), (H, S))
        fresh = exact_counts(start, successors, plays, 800)
        visits = visits + fresh[0] + rng.normal(0, 20, visits.shape)
        moves = moves + fresh[1] + rng.normal(0, 20, moves.shape)
        release = release_of(visits, moves, visits / 3, 400.0 * number, 800 * number)
        straight, broken = learner.update(straight, release), learner.update(broken, release)
        broken = load_state(learner, problem, release, save_state(learner, broken))
        assert learner.policy(broken) == learner.policy(straight)
        assert learner.recommend(broken) == learner.recommend(straight)
        for name, sums in straight.books.sums.items():
            np.testing.assert_array_equal(broken.books.sums[name].values, sums.values)
            np.testing.assert_array_equal(broken.books.sums[name].variance, sums.variance)


@pytest.mark.parametrize("learner", [UCBVI(), PSRL()])
def test_a_state_without_books_of_its_first_blocks_is_not_weighed(learner):
    """As if it had been saved by a version that kept none: what is released is taken as it comes, noise included."""
    mixed, _ = mixed_blocks(0, 200.0)
    state = learner.init(Problem(shape_of(), 1200), stream(3, 0, COINS))
    state = learner.update(state, mixed.releases[0])
    assert state.books is not None
    later = learner.update(state._replace(books=None), mixed.releases[1])
    assert later.books is None
    assert later.release is mixed.releases[1]


def test_deep_sea_is_learned_at_pure_epsilon_one(monkeypatch):
    """Five rows, 20,000 users, 6 runs: a mean of .28 of uniform play's regret, sd of a run .05; plain sums have .55.

    The line at .42 is six standard errors above; the twin, which does not weigh, must be beyond it.
    """
    world = make_world("deep-sea", size=5)
    uniform = 20_000 * world.gap(uniform_policy(world.shape))

    def share() -> float:
        return float(np.mean(discreet.simulate(world, "ucbvi", PURE, episodes=20_000, runs=6, seed=5).total_regret))

    assert share() / uniform < 0.42
    monkeypatch.setattr(learner_base, "weigh", lambda books, release, policy, shape: (release, None))
    assert share() / uniform > 0.42


def test_prefix_sums_that_are_weighed_leave_half_of_the_regret_in_deep_sea(monkeypatch):
    """Five rows, 20,000 users, (1, 1e-5), 6 runs: .11 of uniform play's regret, sd of a run .01; as they come .22.

    The line at .16 is ten standard errors above; the twin, which does not weigh, must be beyond it.
    """
    world = make_world("deep-sea", size=5)
    uniform = 20_000 * world.gap(uniform_policy(world.shape))
    target = discreet.Central(1.0, 1e-5, recipe="central/first-visit-matrix")

    def share() -> float:
        return float(np.mean(discreet.simulate(world, "ucbvi", target, episodes=20_000, runs=6, seed=5).total_regret))

    assert share() / uniform < 0.16
    monkeypatch.setattr(learner_base, "weigh", lambda books, release, policy, shape: (release, None))
    assert share() / uniform > 0.16
