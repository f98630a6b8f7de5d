"""Accumulators: exact sums, as much noise as stated, known zeros without noise, the tree against a naive one."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.streams import NOISE, stream
from discreet.mechanisms.sums.accumulator import SecureNoise, SimulatedNoise, TotalArrays, advance, draws_at
from discreet.mechanisms.sums.blocks import Blocks, EachAlone, Once, Total
from discreet.mechanisms.sums.tree import EqualLawTree, EvenTree, Tree, lowest_digit, next_digit
from discreet.noise import DiscreteGaussian, DiscreteLaplace, NoNoise, add_noise
from discreet.noise.knorm import TableNoise
from discreet.privacy.sensitivity import Sensitivity

ROWS = (1, 3, 2)
SIZE = 12  # two cells to each row
EVERYTHING = np.ones(ROWS, bool), np.ones(SIZE, bool)


class Recorded:
    """Noise that is known to the test: every draw is kept."""

    simulated = True

    def __init__(self):
        self.rng, self.drawn, self.calls = np.random.default_rng(8), [], []

    def draw(self, law, copies, size):
        self.calls.append((copies, size))
        self.drawn.append(self.rng.integers(-1000, 1000, size=size).astype(float))
        return self.drawn[-1]


def tallies(count, seed=4):
    return np.random.default_rng(seed).integers(0, 50, size=(count, SIZE)).astype(float)


def some_rows(rows):
    return np.asarray(rows).reshape(ROWS), np.repeat(np.asarray(rows).reshape(-1), 2)


@pytest.mark.parametrize("accumulator", [Blocks(), Total(), Tree(40)], ids=lambda a: a.name)
def test_without_noise_every_release_is_the_exact_prefix_sum(accumulator):
    run = accumulator.start(SIZE, ROWS, NoNoise(), SimulatedNoise(np.random.default_rng(0)))
    clear = np.zeros(SIZE)
    for tally in tallies(40):
        run.add(tally, 3, *EVERYTHING)
        clear += tally
        np.testing.assert_array_equal(run.values, clear)


@pytest.mark.parametrize(("accumulator", "draws"), [(Blocks(), 1), (Total(), 5)], ids=["blocks", "total"])
def test_noise_per_batch_is_one_draw_or_one_per_user(accumulator, draws):
    noise = Recorded()
    run = accumulator.start(SIZE, ROWS, DiscreteLaplace(2.0), noise)
    for tally in tallies(3):
        run.add(tally, 5, *EVERYTHING)
    assert noise.calls == [(draws, SIZE)] * 3
    np.testing.assert_array_equal(run.copies, np.full(ROWS, 3 * draws))
    np.testing.assert_array_equal(run.values, tallies(3).sum(axis=0) + sum(noise.drawn))


@pytest.mark.parametrize("accumulator", [Blocks(), Total()], ids=["blocks", "total"])
def test_known_zeros_get_no_noise_and_keep_what_earlier_blocks_released(accumulator):
    noise = Recorded()
    run = accumulator.start(SIZE, ROWS, DiscreteLaplace(2.0), noise)
    run.add(tallies(1)[0], 1, *EVERYTHING)
    before, copies = run.values.copy(), run.copies.copy()
    rows, cells = some_rows([1, 0, 0, 1, 1, 0])
    run.add(np.full(SIZE, 7.0), 1, rows.astype(bool), cells.astype(bool))
    np.testing.assert_array_equal(run.values[cells == 0], before[cells == 0])
    np.testing.assert_array_equal(run.values[cells == 1], before[cells == 1] + 7.0 + noise.drawn[1])
    np.testing.assert_array_equal(run.copies, copies + rows)
    assert noise.calls[1] == (1, 6)


def test_once_releases_once():
    run = Once().start(SIZE, ROWS, DiscreteLaplace(2.0), Recorded())
    run.add(tallies(1)[0], 9, *EVERYTHING)
    np.testing.assert_array_equal(run.copies, np.ones(ROWS))
    released = run.values.copy()
    with pytest.raises(Unsupported, match="once"):
        run.add(tallies(1)[0], 9, *EVERYTHING)
    np.testing.assert_array_equal(run.values, released)


def nodes(users):
    """The tree's nodes that open up to a time: node t covers (t - 2^i, t] with i the lowest set digit of t."""
    return [(t - (t & -t), t) for t in range(1, users + 1)]


@pytest.mark.parametrize("users", [1, 2, 3, 7, 8, 9, 31, 32, 33, 64])
def test_levels_are_the_most_nodes_that_any_user_is_in(users):
    covered = [sum(low < user <= high for low, high in nodes(users)) for user in range(1, users + 1)]
    assert max(covered) == Tree(users).levels


def naive_noise(drawn, t):
    """The noise of release t from one draw per node: the nodes of the binary digits of t."""
    total = 0.0
    while t:
        total = total + drawn[t - 1]
        t -= t & -t
    return total


def test_the_tree_equals_one_that_keeps_every_node():
    noise = Recorded()
    run = Tree(64).start(SIZE, ROWS, DiscreteLaplace(2.0), noise)
    data = tallies(64)
    for t in range(1, 65):
        run.add(data[t - 1], 1, *EVERYTHING)
        np.testing.assert_array_equal(run.values, data[:t].sum(axis=0) + naive_noise(noise.drawn, t))
        np.testing.assert_array_equal(run.copies, np.full(ROWS, bin(t).count("1")))
    assert noise.calls == [(1, SIZE)] * 64


def test_the_tree_has_no_noise_where_nothing_can_be_and_refuses_a_mask():
    run = Tree(8).start(SIZE, ROWS, DiscreteLaplace(2.0), Recorded())
    possible = np.ones(SIZE, bool)
    possible[-3:] = False
    for _ in range(8):
        run.add(np.zeros(SIZE), 1, EVERYTHING[0], possible)
        assert not run.values[-3:].any()
        assert run.values[:-3].all()
    rows, cells = some_rows([1, 1, 1, 1, 1, 0])
    with pytest.raises(Unsupported, match="mask"):
        run.add(np.zeros(SIZE), 1, rows.astype(bool), cells.astype(bool))


@pytest.mark.parametrize("law", [DiscreteLaplace(3.0), DiscreteGaussian(3.0)], ids=["laplace", "gaussian"])
@pytest.mark.parametrize(("users", "size"), [(1, 12), (13, 12), (16, 12), (9, 1100)])
def test_the_compiled_tree_equals_one_that_keeps_every_node(users, size, law):
    arrays, kernel = Tree(users).arrays(size), law.kernel()
    state, copy = stream(5, 0, NOISE), stream(5, 0, NOISE)
    cells, drawn = np.zeros(size), []
    for t in range(1, users + 1):
        advance(arrays, t, kernel, cells, state)
        drawn.append(np.zeros(size))
        add_noise(kernel, drawn[-1], copy)
        np.testing.assert_allclose(cells, naive_noise(drawn, t), atol=1e-9)
        assert draws_at(arrays, t) == bin(t).count("1")
    assert not arrays.prefix[-1].any()


def test_the_compiled_tree_keeps_the_counts_that_are_added_in_between():
    arrays, state, cells = Tree(16).arrays(SIZE), stream(5, 0, NOISE), np.zeros(SIZE)
    for t in range(1, 17):
        cells += t
        advance(arrays, t, NoNoise().kernel(), cells, state)
        np.testing.assert_array_equal(cells, np.full(SIZE, t * (t + 1) / 2))


def test_the_compiled_total_adds_one_draw_per_user():
    kernel, state, copy = DiscreteLaplace(3.0).kernel(), stream(5, 0, NOISE), stream(5, 0, NOISE)
    cells, expected = np.zeros(SIZE), np.zeros(SIZE)
    for t in range(1, 10):
        advance(TotalArrays(), t, kernel, cells, state)
        add_noise(kernel, expected, copy)
        np.testing.assert_array_equal(cells, expected)
        assert draws_at(TotalArrays(), t) == t


def test_digits():
    assert [lowest_digit(t) for t in (1, 2, 3, 4, 12)] == [0, 1, 0, 2, 2]
    assert [next_digit(t, lowest_digit(t), 9) for t in (1, 3, 5, 12, 8)] == [9, 1, 2, 3, 9]


def test_secure_noise_takes_no_seed_and_never_repeats():
    for seed in (0, 1, "entropy"):
        with pytest.raises(InvalidInput, match="no seed"):
            SecureNoise(seed)
    law = DiscreteLaplace(1000.0)
    first, second = (SecureNoise().draw(law, 1, 20) for _ in range(2))
    assert (first != second).any()  # equal with probability below 2000^-20
    assert (first == np.round(first)).all()
    assert not SecureNoise().simulated
    assert SimulatedNoise(np.random.default_rng(0)).simulated


def test_all_cores_draw_secure_noise_but_one_table_is_one_draw(monkeypatch):
    assert SecureNoise().draw(NoNoise(), 1, 0).shape == (0,)
    ticks = []
    assert SecureNoise(tick=ticks.append).draw(DiscreteLaplace(5.0), 1, 10_000).shape == (10_000,)
    assert sorted(ticks) == [10_000 - 2 * 4096, 4096, 4096]
    monkeypatch.setattr("discreet.mechanisms.sums.accumulator._AT_ONCE", 20)
    table = TableNoise(50, 1.0)  # refuses to draw a part of itself
    assert SecureNoise(tick=ticks.append).draw(table, 1, 50).shape == (50,)
    assert ticks[-1] == 50


def test_secure_noise_sums_the_draws_it_is_asked_for():
    class Counting:
        def __init__(self):
            self.calls = 0

        def secure(self, size):
            self.calls += 1
            return np.full(size, 3)

    law = Counting()
    np.testing.assert_array_equal(SecureNoise().draw(law, 4, 2), [12.0, 12.0])
    assert law.calls == 4


def test_simulated_noise_is_a_function_of_its_seed():
    law = DiscreteLaplace(100.0)
    draws = [
        SimulatedNoise(np.random.default_rng(seed)).draw(law, copies, 50) for seed in (1, 1, 2) for copies in (1, 3)
    ]
    np.testing.assert_array_equal(draws[0], draws[2])
    np.testing.assert_array_equal(draws[1], draws[3])
    assert (draws[0] != draws[4]).any()


@pytest.mark.parametrize("users", [1, 2, 3, 4, 1000, 1024])
def test_accumulators_say_in_how_many_noisy_sums_a_user_is(users):
    """Sums of blocks hold her once, a tree in one node of every level: counted by brute force."""
    own = Sensitivity.unit_shifts(2, 1)
    for once in (Blocks(), Total(), Once(), EachAlone()):
        assert once.sensitivity(own) == own
    most = max(sum(t - (t & -t) < j <= t for t in range(1, users + 1)) for j in range(1, users + 1))
    for tree in (Tree(users), EvenTree(users), EqualLawTree(users)):
        assert tree.sensitivity(own).shifts == ((1, 2 * most, most),)
