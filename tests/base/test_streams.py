"""Random streams against SplitMix64 in plain Python, and the arithmetic that rides on them."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from discreet.base.streams import (
    COINS,
    NOISE,
    USERS,
    WORLD,
    below,
    categorical,
    fast_log,
    generator,
    mix,
    next_word,
    stream,
    to_unit,
    uniform,
)

MASK = 2**64 - 1


def splitmix64(state: int, count: int) -> list[int]:
    """The generator of Steele, Lea and Flood (2014) with whole numbers."""
    words = []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        words.append(z ^ (z >> 31))
    return words


@pytest.mark.parametrize("seed", [0, 1, 1234567, MASK, 0x9E3779B97F4A7C15])
def test_words_are_those_of_splitmix64(seed):
    state = np.array([seed], np.uint64)
    assert [int(next_word(state)) for _ in range(20)] == splitmix64(seed, 20)


def test_published_first_words_of_seed_zero():
    state = np.zeros(1, np.uint64)
    assert int(next_word(state)) == 0xE220A8397B1DCDAF
    assert int(next_word(state)) == 0x6E789E6AA1B965F4


def test_mixing_is_one_to_one():
    words = np.arange(5000, dtype=np.uint64)
    assert len({int(mix(word)) for word in words}) == len(words)


def test_a_uniform_number_is_made_of_the_upper_bits():
    words = [0, 1 << 63, 3 << 62, 0x123456789ABCDEF0]
    for word in words:
        assert to_unit(np.uint64(word)) == pytest.approx(word / 2**64, abs=2**-52)
    assert to_unit(np.uint64(0)) > 0.0
    assert to_unit(np.uint64(MASK)) < 1.0  # a number that rounds to one would index past the end of a table


def test_draws_in_a_loop_and_one_at_a_time_are_the_same():
    first, second = stream(3, 0, USERS), stream(3, 0, USERS)
    words = splitmix64(int(first[0]), 10)
    assert [uniform(first) for _ in range(10)] == [to_unit(np.uint64(word)) for word in words]
    assert [below(second, 1000) for _ in range(10)] == [int(to_unit(np.uint64(word)) * 1000) for word in words]


def test_streams_of_different_seeds_runs_and_purposes_differ():
    keys = list(product((0, 1, 2), (0, 1, 2), (USERS, NOISE, COINS, WORLD)))
    assert len({int(stream(*key)[0]) for key in keys}) == len(keys)
    assert len({float(generator(*key).random()) for key in keys}) == len(keys)
    assert stream(5, 6, NOISE) == stream(5, 6, NOISE)


def test_categorical_follows_the_cumulative_table():
    """The same word decides: the index is the number of cumulative sums at or below it."""
    cumulative = np.array([0.1, 0.1, 0.6, 1.0])
    state, copy = stream(7, 0, COINS), stream(7, 0, COINS)
    for _ in range(500):
        u = uniform(copy)
        assert categorical(cumulative, state) == int((cumulative <= u).sum())
    assert categorical(np.array([0.3]), state) == 0


def test_fast_log_is_accurate_to_a_few_units_in_the_last_place():
    rng = np.random.default_rng(0)
    points = np.concatenate(
        [
            np.exp(rng.uniform(-700, 700, 4000)),
            1 + rng.uniform(-0.5, 0.5, 4000),
            1 + np.ldexp(rng.uniform(-1, 1, 2000), rng.integers(-50, 0, 2000)),
            np.ldexp(1.0, np.arange(-1000, 1000, 37)),
            [math.sqrt(0.5), math.sqrt(2.0), np.nextafter(1.0, 0.0), np.nextafter(1.0, 2.0), 2.0**-54],
        ]
    )
    for x in points:
        assert abs(fast_log(x) - math.log(x)) <= 4 * math.ulp(math.log(x)) + 5e-324
    assert fast_log(1.0) == 0.0
