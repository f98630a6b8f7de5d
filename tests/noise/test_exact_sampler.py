"""The compiled exact sampler: what its definition makes of every tape, and entropy that is never used twice."""

from __future__ import annotations

import itertools
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest

from discreet.base.errors import InvalidInput, Unsupported
from discreet.mechanisms.sums.accumulator import SecureNoise
from discreet.noise import DiscreteGaussian, DiscreteLaplace, GridGaussian, exact_sampler
from discreet.noise.distribution import WIDEST
from discreet.noise.exact_distribution import Tape, cumulative_bounds, draw, exact_gaussian, exact_laplace, exp_bounds
from discreet.noise.exact_sampler import (
    MANY_CELLS,
    OPENDP,
    OWN,
    check_sampler,
    draw_exactly,
    draw_from,
    prepare,
    upper_half,
    usual_sampler,
)

SCALES = [0.01, 0.3, 1.0, 6.0, 15.99, 16.0, 41.3, 1000.5, 1e6 / 3, 1e9, WIDEST]
LAWS = [kind(scale) for kind in (exact_laplace, exact_gaussian) for scale in SCALES]
RNG = np.random.default_rng(17)
FILLER = RNG.bytes(1 << 16)


def source(words):
    """Given words as a source of bytes; then fair ones from a seed."""
    data = np.asarray(words, "<u8").tobytes() + FILLER
    position = 0

    def read(n: int) -> bytes:
        nonlocal position
        position += n
        assert position <= len(data)
        return data[position - n : position]

    return read


def defined(law, words, n: int) -> list[int]:
    """What the definition makes of the same bytes."""
    read = source(words)
    tape = Tape(lambda: int.from_bytes(read(8), "little"))
    return [draw(law, tape) for _ in range(n)]


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_the_compiled_steps_are_the_defined_ones_on_random_tapes(law):
    words = RNG.integers(0, 2**64, 500, dtype=np.uint64)
    assert draw_from(law, 200, source(words)).tolist() == defined(law, words, 200)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_the_compiled_steps_are_the_defined_ones_where_words_hardly_decide(law, monkeypatch):
    """First words next to bounds of the table, and words of all ones."""
    careful = []
    monkeypatch.setattr(exact_sampler, "draw", lambda *a: careful.append(1) or draw(*a))
    low, high = cumulative_bounds(law, 63)
    bounds = sorted({*low, *high})[:: max(1, len(low) // 20)]
    words = []
    for bound in bounds:
        for u in (bound - 2, bound - 1, bound, bound + 1):
            words.append((2 * u + int(RNG.integers(2))) % 2**64)
    words += [2**64 - 1] * 3
    n = len(words) // 2
    assert draw_from(law, n, source(words)).tolist() == defined(law, words, n)
    assert careful  # the slow path was tried


@pytest.mark.parametrize("law", [law for law in LAWS if law.bits], ids=str)
def test_step_2_is_the_defined_one_next_to_its_bound(law):
    """For random h and l, numbers v that differ from exp(-g) by a few units of the last place that the kernel has."""
    low, _ = cumulative_bounds(law, 63)
    m, rest = law.bits, 64 - law.bits
    for _ in range(150):
        first, uniform = int(RNG.integers(2**64, dtype=np.uint64)), int(RNG.integers(2**m))
        h = next(h for h, below in enumerate(low) if first >> 1 < below)
        nearest, _ = exp_bounds(law.energy((h << m) + uniform) - law.energy(h << m), rest)
        v = min(max(nearest + int(RNG.integers(-60, 61)) // 4 ** int(RNG.integers(4)), 0), 2**rest - 1)
        words = [first, (uniform << rest) | v]
        assert draw_from(law, 1, source(words)).tolist() == defined(law, words, 1)


def test_a_careless_fast_path_is_seen(monkeypatch):
    """A twin that decides by the lower bound alone differs on a word that equals it."""
    law = exact_laplace(3.0)
    fast = prepare(law)
    low, _ = cumulative_bounds(law, 63)
    words = [2 * low[0], 1, 0, 0]  # equal to the bound: the next word decides, and says "below"
    honest = draw_from(law, 1, source(words)).tolist()
    assert honest == defined(law, words, 1) == [0]
    monkeypatch.setattr(exact_sampler, "prepare", lambda law: fast._replace(above=fast.below))
    assert draw_from(law, 1, source(words)).tolist() != honest


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_tables_are_the_certified_bounds(law):
    fast, (low, high) = prepare(law), cumulative_bounds(law, 63)
    assert fast.below.tolist() == list(low[: len(fast.below)])
    assert fast.above.tolist() == list(high[: len(fast.above)])
    assert len(fast.below) == len(low)
    if law.bits:
        slopes = law.linear * 2**law.bits * 2**62, law.quadratic * 4**law.bits * 2**62
        for slope, fixed in zip(slopes, (fast.linear, fast.quadratic), strict=True):
            assert 0 <= slope - int(fixed) < 1
    for bucket in range(0, 2048, 97):  # no search starts behind its answer
        first_u = bucket << 52
        assert all(below <= first_u for below in low[: fast.guide[bucket]])


def test_the_upper_half_of_a_product():
    words = [0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 1, *RNG.integers(0, 2**64, 50, dtype=np.uint64).tolist()]
    for a, b in itertools.product(words, words):
        assert int(upper_half(np.uint64(a), np.uint64(b))) == a * b >> 64


def test_shapes_and_no_draws():
    assert draw_exactly(exact_laplace(3.0), (2, 3, 4)).shape == (2, 3, 4)
    assert draw_exactly(exact_laplace(3.0), 0).shape == (0,)
    assert draw_exactly(exact_gaussian(1e-90), 1000).tolist() == [0] * 1000


def test_entropy_is_read_in_pieces():
    sizes = []

    def read(n: int) -> bytes:
        sizes.append(n)
        return os.urandom(n)

    draw_from(exact_gaussian(100.0), 300_000, read)
    assert max(sizes) <= 1 << 20
    assert 300_000 * 16 < sum(sizes) < 300_000 * 20


# Two equal numbers among a thousand fair draws of this scale have probability below 1e-9.
WIDE = DiscreteLaplace(2.0**46)


def own_draws() -> list[int]:
    return WIDE.secure_by(OWN, 100).tolist()


def in_children(draw_some, children: int = 4) -> list[int]:
    """Draws of forked processes, each of which is killed as soon as it has told them."""
    told = []
    for _ in range(children):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writer, np.array(draw_some(), np.int64).tobytes())
            os.kill(os.getpid(), signal.SIGKILL)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            told += np.frombuffer(pipe.read(), np.int64).tolist()
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    return told


def everywhere(draw_some) -> list[int]:
    """Draws before, in and after forked and killed processes, and in threads."""
    drawn = draw_some() + in_children(draw_some) + draw_some()
    with ThreadPoolExecutor(4) as pool:
        for some in pool.map(lambda _: draw_some(), range(8)):
            drawn += some
    return drawn


def test_forked_and_killed_processes_and_threads_never_use_entropy_twice():
    drawn = everywhere(own_draws)
    assert len(drawn) == len(set(drawn)) == 1400


def test_a_sampler_that_keeps_entropy_for_later_is_seen(monkeypatch):
    """The twin: bytes that are read ahead and handed out after a fork as well."""
    ahead = bytearray()

    def hoarded(n: int) -> bytes:
        if len(ahead) < n:
            ahead.extend(os.getrandom(1 << 20))
        served = bytes(ahead[:n])
        del ahead[:n]
        return served

    monkeypatch.setattr("discreet.noise.exact_sampler.os.urandom", hoarded)
    own_draws()
    drawn = in_children(own_draws)
    assert len(set(drawn)) < len(drawn)


def test_many_cells_are_drawn_by_our_own_sampler(monkeypatch):
    assert usual_sampler(MANY_CELLS) == OPENDP
    assert usual_sampler(MANY_CELLS + 1) == usual_sampler((MANY_CELLS, 2)) == OWN
    asked = []
    honest = DiscreteGaussian.secure_by

    def spy(self, sampler, size):
        asked.append(sampler)
        return honest(self, sampler, size)

    monkeypatch.setattr(DiscreteGaussian, "secure_by", spy)
    for law in (DiscreteGaussian(4.0), GridGaussian(4.0, 30)):
        for sampler, cells, expected in ((None, 50, OPENDP), (OWN, 50, OWN), (None, MANY_CELLS + 1, OWN)):
            asked.clear()
            noise = SecureNoise(sampler=sampler)
            drawn = noise.draw(law, 2, cells)
            assert drawn.shape == (cells,)
            assert drawn.std() > 0
            assert set(asked) == noise.used == {expected}
    DiscreteGaussian(4.0).secure((400, 300))
    assert asked[-1] == OWN


def test_opendp_can_be_chosen_for_many_cells(monkeypatch):
    monkeypatch.setattr("discreet.noise.exact_sampler.MANY_CELLS", 10)
    noise = SecureNoise(sampler=OPENDP)
    noise.draw(DiscreteLaplace(4.0), 1, 50)
    assert noise.used == {OPENDP}


@pytest.mark.parametrize("name", ["numpy", "", 3, "OpenDP", np.array(["opendp", "discreet"]), "x" * 1000 + "\n"])
def test_unknown_samplers_are_refused(name):
    for refuse in (
        lambda: check_sampler(name),
        lambda: SecureNoise(sampler=name),
        lambda: DiscreteLaplace(1.0).secure_by(name, 3),
    ):
        with pytest.raises(InvalidInput, match="sampler must be 'discreet' or 'opendp'"):
            refuse()


def test_every_scale_of_a_law_can_be_drawn_and_none_overflows():
    for scale in (1e-100, WIDEST):
        for law in (DiscreteLaplace(scale), DiscreteGaussian(scale)):
            assert np.abs(law.secure_by(OWN, 1000)).max() < 64 * max(scale, 0.01)
    with pytest.raises(Unsupported, match="64 bits"):
        draw_exactly(exact_laplace(Fraction(2**60)), 1)
