"""Random streams for simulation: seeded, cheap, and the same whatever the number of threads.

A stream is one 64-bit word in an array, advanced by the golden ratio and scrambled (SplitMix64). Drawing n numbers in
a loop or one at a time gives the same sequence. Streams are for simulation only: a real release takes its noise from
the operating system and refuses a seed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from discreet.base.compiled import before_compiling, fused, inlined
from discreet.base.types import Floats, NDArray

Stream = NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_ONE = np.uint64(0x3FF0000000000000)  # the bits of 1.0
_BELOW_ONE = 1.0 - 2.0**-53

# Purposes keep the streams of one run apart.
USERS, NOISE, COINS, WORLD = 0, 1, 2, 3


def seed_sequence(seed: int, run: int, purpose: int) -> np.random.SeedSequence:
    """The seed of one purpose of one run; every (seed, run, purpose) gives an independent one."""
    return np.random.SeedSequence(entropy=seed, spawn_key=(run, purpose))


def stream(seed: int, run: int, purpose: int) -> Stream:
    """A stream for compiled code."""
    return np.asarray(seed_sequence(seed, run, purpose).generate_state(1, np.uint64), np.uint64)


def generator(seed: int, run: int, purpose: int) -> np.random.Generator:
    """A NumPy generator for code that draws rarely."""
    return np.random.default_rng(seed_sequence(seed, run, purpose))


@inlined
def mix(word: np.uint64) -> np.uint64:
    """SplitMix64's output function: a bijection of 64-bit words that looks random."""
    word = (word ^ (word >> np.uint64(30))) * _MIX1
    word = (word ^ (word >> np.uint64(27))) * _MIX2
    return word ^ (word >> np.uint64(31))


@inlined
def next_word(state: Stream) -> np.uint64:
    """The next 64 random bits."""
    state[0] += _GOLDEN
    return mix(state[0])  # type: ignore[no-any-return]


_bits_of: Any = None  # the bits of a float as a whole number, in compiled code
_float_of: Any = None  # and back


@before_compiling
def _define_bitcasts() -> None:
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    def bitcast(target: Any, signature: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return builder.bitcast(arguments[0], target)

        define: Any = intrinsic
        return define(lambda _context, _x: (signature, generate))

    global _bits_of, _float_of
    _bits_of = bitcast(ir.IntType(64), types.int64(types.float64))
    _float_of = bitcast(ir.DoubleType(), types.float64(types.int64))


@inlined
def to_unit(word: np.uint64) -> float:
    """A word as a float strictly inside (0, 1), from its upper 52 bits: the middle of one of 2**52 equal intervals."""
    mantissa = _float_of(np.int64((word >> np.uint64(12)) | _ONE))  # in [1, 2); cheaper than a conversion
    return mantissa - _BELOW_ONE  # type: ignore[no-any-return]


@inlined
def with_random_sign(x: float, word: np.uint64) -> float:
    """x or -x, by the lowest bit of a word, which ``to_unit`` does not use."""
    return _float_of(_bits_of(x) ^ np.int64(word << np.uint64(63)))  # type: ignore[no-any-return]


@inlined
def uniform(state: Stream) -> float:
    """The next uniform number in (0, 1)."""
    return to_unit(next_word(state))  # type: ignore[no-any-return]


@inlined
def below(state: Stream, n: int) -> int:
    """The next uniform whole number in 0..n-1 (bias below n * 2**-52)."""
    return np.int64(uniform(state) * n)  # type: ignore[return-value]


@inlined
def categorical(cumulative: Floats, state: Stream) -> int:
    """Draw an index from a cumulative distribution by a forward scan (short rows, no allocation)."""
    u = uniform(state)
    last = cumulative.shape[0] - 1
    i = 0
    while i < last and u >= cumulative[i]:
        i += 1
    return i


@fused
def fast_log(x: float) -> float:
    """Natural logarithm of a positive normal number, within two units of the last place, in a form that vectorises.

    x = m * 2**k with m in [sqrt(1/2), sqrt(2)); then ln m = 2 artanh(s) with s = (m-1)/(m+1), by its series in s**2
    with the usual minimax coefficients.
    """
    bits = _bits_of(x)
    k = (bits - 0x3FE6A09E667F3BCD) >> 52  # counted from the bits of sqrt(1/2)
    f = _float_of(bits - (k << 52)) - 1.0
    s = f / (2.0 + f)
    z = s * s
    tail = 0.1818357216161805012 + z * (0.1531383769920937332 + z * 0.14798198605116586)
    series = 0.6666666666666735130 + z * (
        0.3999999999940941908 + z * (0.2857142874366239149 + z * (0.2222219843214978396 + z * tail))
    )
    # k as a float: added to the bits of 1.5 * 2**52, whose last place is one.
    exponent = _float_of(k + 0x4338000000000000) - 6755399441055744.0
    return exponent * 0.6931471805599453 + (2.0 * s + s * z * series)  # type: ignore[no-any-return]
