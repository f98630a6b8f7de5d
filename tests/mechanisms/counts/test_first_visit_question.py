"""Questions about first visits: what is counted, who is asked, and what one user can move, given the coins.

Chi-square tests have fixed seeds and a false-alarm rate of 1e-6; each rejects another law of the coins, too.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.shape import Shape
from discreet.base.streams import COINS, stream
from discreet.mechanisms.counts.encoder import encode
from discreet.mechanisms.counts.first_visit_question import BIT, SUCCESSOR, AskedFirstVisit
from discreet.mechanisms.trajectories import Trajectories

SHAPE = Shape(3, 2, 4, homogeneous=True)
ALARM = 1e-6


def repeated(record, n):
    parts = (record.states, record.actions, record.rewards, record.lengths)
    return Trajectories(*(np.repeat(part, n, axis=0) for part in parts))


def some_records(shape, n, seed):
    """Random ones of all lengths from 0 on; what stands after an end must not be looked at."""
    rng, table = np.random.default_rng(seed), (n, shape.horizon)
    low, high = shape.rewards
    rewards = rng.choice([low, high], table)
    lengths = rng.integers(0, shape.horizon + 1, n)
    return Trajectories(rng.integers(0, shape.states, table), rng.integers(0, shape.actions, table), rewards, lengths)


def slowly(shape, record, row, about):
    """The cells of an answer by reading the record step by step; none where there is no answer."""
    s, a = divmod(row, shape.actions)
    length = int(record.lengths[0])
    steps = list(zip(record.states[0, :length].tolist(), record.actions[0, :length].tolist(), strict=True))
    if (s, a) not in steps:
        return []
    h, rows = steps.index((s, a)), shape.states * shape.actions
    if about == BIT:
        return [shape.states * rows + 2 * row + int(record.rewards[0, h] == shape.rewards[1])]
    return [steps[h + 1][0] * rows + row] if h + 1 < length else []


def questions(encoder, cells):
    """The question of each user, read off what is public."""
    asked = cells[:, encoder.layout.size :]
    assert (asked.sum(axis=1) == 1).all()
    assert asked.max() == 1
    return np.argmax(asked, axis=1)


@pytest.mark.parametrize(
    "shape",
    [
        SHAPE,
        Shape(2, 2, 2, homogeneous=True),
        Shape(1, 1, 3, homogeneous=True),
        Shape(4, 3, 6, homogeneous=True, rewards=(-2.0, 5.0), start=1),
    ],
    ids=str,
)
def test_the_kernel_counts_what_a_slow_reading_of_the_record_says(shape):
    encoder, records = AskedFirstVisit(shape), some_records(shape, 3000, 1)
    cells = encode(encoder, records, stream(3, 0, COINS))
    answered = 0
    for i, question in enumerate(questions(encoder, cells)):
        expected = slowly(shape, records.only(i), *divmod(int(question), 2))
        assert np.flatnonzero(cells[i, : encoder.layout.size]).tolist() == expected
        assert cells[i].sum() == 1 + len(expected)
        answered += len(expected)
    assert answered > 100
    empty = records.lengths == 0
    assert empty.any()
    assert not cells[empty, : encoder.layout.size].any()


def test_a_row_that_is_visited_at_the_last_step_only_has_a_bit_and_no_successor():
    record = Trajectories(np.array([[0, 1, 2, 2]]), np.array([[0, 0, 0, 1]]), np.ones((1, 4)), np.array([4]))
    encoder = AskedFirstVisit(SHAPE, (0, 0, 0, 0, 0, 1))
    cells = encode(encoder, repeated(record, 200), stream(0, 0, COINS))
    asked = questions(encoder, cells) % 2
    assert set(asked) == {SUCCESSOR, BIT}
    assert not cells[asked == SUCCESSOR, : encoder.layout.size].any()
    assert (encoder.bits(cells[asked == BIT].sum(axis=0))[:, 5] == [0, (asked == BIT).sum()]).all()
    ended = replace(record, states=record.states[:, ::-1].copy(), lengths=np.array([1]))  # there first, and no more
    ended = replace(ended, actions=record.actions[:, ::-1].copy())
    cells = encode(encoder, repeated(ended, 200), stream(0, 0, COINS))
    assert not encoder.successors(cells.sum(axis=0)).any()
    assert encoder.bits(cells.sum(axis=0))[1, 5] > 50


def test_first_visits_answer_and_later_ones_do_not():
    record = Trajectories(
        np.array([[0, 1, 0, 2]]), np.zeros((1, 4), np.int64), np.array([[1.0, 0, 0, 0]]), np.array([4])
    )
    encoder = AskedFirstVisit(SHAPE, (1, 0, 0, 0, 0, 0))
    truths, asked = encoder.split(encode(encoder, repeated(record, 400), stream(0, 0, COINS)).sum(axis=0))
    assert encoder.successors(truths)[:, 0].tolist() == [0, asked[0, SUCCESSOR], 0]
    assert encoder.bits(truths)[:, 0].tolist() == [0, asked[0, BIT]]
    found = encoder.marginals(np.concatenate([truths, asked.ravel()]))
    assert found["visits"].values[0, 0].tolist() == [asked[0, BIT], 0]
    assert found["rewards"].values.sum() == asked[0, BIT]
    assert found["transitions"].values[0, 0, 0].tolist() == [0, asked[0, SUCCESSOR], 0]


def test_who_is_asked_what_does_not_depend_on_the_record():
    """The same coins ask the same question, whoever is asked: rewards here need no coins of their own."""
    encoder, records = AskedFirstVisit(SHAPE, (5, 1, 0, 3, 2, 9)), some_records(SHAPE, 300, 2)
    for seed in range(5):
        cells = [encode(encoder, records.only(i), stream(seed, 0, COINS)) for i in range(300)]
        assert len(set(questions(encoder, np.concatenate(cells)).tolist())) == 1
    assert len(set(questions(encoder, encode(encoder, records, stream(0, 0, COINS))).tolist())) == 10


@pytest.mark.parametrize("weights", [None, (1, 0, 3, 0, 2, 2), (0, 0, 0, 7, 0, 0), (10**6, 1, 1, 1, 1, 10**6)], ids=str)
def test_questions_follow_the_weights(weights):
    encoder, n = AskedFirstVisit(SHAPE, weights), 40_000
    cells = encode(encoder, some_records(SHAPE, n, 3), stream(4, 0, COINS))
    asked = encoder.split(cells.sum(axis=0))[1]
    shares = np.ones(6) if weights is None else np.array(weights, np.float64)
    assert (asked[shares == 0] == 0).all()  # never, not just seldom

    def accepted(shares):
        expected = n * np.repeat(shares / shares.sum() / 2, 2)
        often = expected > 5
        counts, expected = (np.append(part[often], part[~often].sum()) for part in (asked.ravel(), expected))
        possible = expected > 0
        return stats.chisquare(counts[possible], expected[possible]).pvalue > ALARM

    assert accepted(shares)
    if weights is None or min(weights) > 0 or len(set(weights)) > 2:
        assert not accepted(shares + np.arange(6) * shares.sum() / 40)
    halves = asked.sum(axis=0)
    assert stats.binomtest(int(halves[BIT]), n, 0.5).pvalue > ALARM
    assert stats.binomtest(int(halves[BIT]), n, 0.53).pvalue < ALARM


def test_rewards_inside_the_range_become_bits_of_that_mean():
    """10,000 bits of mean 0.3: within 5.5 deviations (false alarm 4e-8), and 0.33 is not."""
    steps = np.zeros((1, 4), np.int64)
    encoder = AskedFirstVisit(SHAPE, (1, 0, 0, 0, 0, 0))
    record = Trajectories(steps, steps, np.full((1, 4), 0.3), np.array([4]))
    truths, asked = encoder.split(encode(encoder, repeated(record, 20_000), stream(5, 0, COINS)).sum(axis=0))
    ones, n = encoder.bits(truths)[1, 0], asked[0, BIT]
    deviation = np.sqrt(n * 0.3 * 0.7)
    assert abs(ones - 0.3 * n) < 5.5 * deviation < abs(ones - 0.33 * n)


@pytest.mark.parametrize("sizes", [(2, 2, 2), (2, 1, 3), (1, 2, 3), (2, 2, 3)], ids=str)
@pytest.mark.parametrize("shortest", [None, 0], ids=["full-length", "any-length"])
def test_given_the_question_a_record_moves_one_cell_down_and_one_up_at_most(all_records, sizes, shortest):
    shape = Shape(*sizes, homogeneous=True)
    records, rows = all_records(shape, shortest), sizes[0] * sizes[1]
    stated = AskedFirstVisit(shape).sensitivity()
    assert stated.shifts == ((1, 1, 1),)
    assert stated.unit
    attained = set()
    for row in range(rows):
        encoder = AskedFirstVisit(shape, tuple(int(r == row) for r in range(rows)))
        for about in (SUCCESSOR, BIT):
            seed = next(s for s in range(100) if questions(encoder, _one(encoder, records, s))[0] % 2 == about)
            # The same coins for everybody: the question is the same, and what is left is what a record moves.
            cells = np.unique(
                np.concatenate([_one(encoder, records.only(i), seed) for i in range(len(records))]), axis=0
            )
            shifts = cells[:, None] - cells[None]
            assert not shifts[:, :, encoder.layout.size :].any()
            up, down = (shifts > 0).sum(axis=2), (shifts < 0).sum(axis=2)
            assert np.abs(shifts).max() <= 1
            assert up.max() <= 1
            assert down.max() <= 1
            attained.add((about, int((up + down).max())))
    assert (BIT, 2) in attained
    if sizes[0] > 1:
        assert (SUCCESSOR, 2) in attained


def _one(encoder, records, seed):
    return encode(encoder, records.only(0) if len(records) > 1 else records, stream(seed, 1, COINS))


def test_cells_of_a_row_are_those_of_its_answers_and_of_who_was_asked_about_it():
    encoder = AskedFirstVisit(SHAPE)
    assert encoder.possible().all()
    for row in range(encoder.rows):
        own = np.zeros((1, 3, 2), bool)
        own.reshape(-1)[row] = True
        truths, asked = encoder.split(encoder.rows_to_cells(own))
        assert (asked.sum(), asked[row].all()) == (2, True)
        assert (encoder.successors(truths).sum(), encoder.successors(truths)[:, row].all()) == (3, True)
        assert (encoder.bits(truths).sum(), encoder.bits(truths)[:, row].all()) == (2, True)


def test_views_of_the_answers_are_views():
    encoder, cells = AskedFirstVisit(SHAPE), np.zeros(AskedFirstVisit(SHAPE).size)
    truths, asked = encoder.split(cells)
    encoder.successors(truths)[2, 1], encoder.bits(truths)[1, 4], asked[3, BIT] = 1, 2, 3
    found = encoder.marginals(cells)
    assert found["transitions"].values[0, 0, 1].tolist() == [0, 0, 1]
    assert found["rewards"].values[0, 2].tolist() == [2, 0]
    assert found["visits"].values[0, 2].tolist() == [2, 0]
    assert cells[-encoder.rows * 2 :].tolist() == [0] * 7 + [3] + [0] * 4


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: AskedFirstVisit(Shape(3, 2, 4)), Unsupported, "time-homogeneous"),
        (lambda: AskedFirstVisit(Shape(3, 2, 1, homogeneous=True)), Unsupported, "no successors to ask about"),
        (lambda: AskedFirstVisit(SHAPE, (1, 1, 1)), InvalidInput, "6 numbers"),
        (lambda: AskedFirstVisit(SHAPE, ()), InvalidInput, "6 numbers"),
        (lambda: AskedFirstVisit(SHAPE, (0,) * 6), InvalidInput, "nor all zero"),
        (lambda: AskedFirstVisit(SHAPE, (1, 1, 1, 1, 1, -1)), InvalidInput, "not negative"),
        (lambda: AskedFirstVisit(SHAPE).layer_sensitivity(0), Unsupported, "no sensitivity by step|pooled over steps"),
    ],
)
def test_refusals(make, error, match):
    with pytest.raises(error, match=match):
        make()
