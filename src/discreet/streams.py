"""Random streams for simulation: seeded, cheap, and the same whatever the number of threads.

A stream is one 64-bit word in an array, advanced by the golden ratio and scrambled (SplitMix64). Drawing n numbers in
a loop or one at a time gives the same sequence. Streams are for simulation only: a real release takes its noise from
the operating system and refuses a seed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from discreet.compiled import inlined

Stream = NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_UNIT = 2.0**-52

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


@inlined
def to_unit(word: np.uint64) -> float:
    """A word as a float strictly inside (0, 1), from its upper 52 bits: the middle of one of 2**52 equal intervals."""
    return (np.float64(word >> np.uint64(12)) + 0.5) * _UNIT


@inlined
def uniform(state: Stream) -> float:
    """The next uniform number in (0, 1)."""
    return to_unit(next_word(state))  # type: ignore[no-any-return]


@inlined
def below(state: Stream, n: int) -> int:
    """The next uniform whole number in 0..n-1 (bias below n * 2**-52)."""
    return np.int64(uniform(state) * n)  # type: ignore[return-value]


@inlined
def categorical(cumulative: NDArray[np.float64], state: Stream) -> int:
    """Draw an index from a cumulative distribution by a forward scan (short rows, no allocation)."""
    u = uniform(state)
    last = cumulative.shape[0] - 1
    i = 0
    while i < last and u >= cumulative[i]:
        i += 1
    return i


_intrinsic: Any = intrinsic


@_intrinsic
def _bits_of(_context: Any, _x: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), generate


@_intrinsic
def _float_of(_context: Any, _x: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), generate


@inlined
def fast_log(x: float) -> float:
    """Natural logarithm of a positive normal number, within 1 ulp or so, in a form that vectorises.

    x = m * 2**k with m in [sqrt(1/2), sqrt(2)); then ln m = 2 artanh(s) with s = (m-1)/(m+1), by its series in s**2
    with the usual minimax coefficients.
    """
    bits = _bits_of(x)
    shifted = bits - 0x3FE6A09E667F3BCD  # the bits of sqrt(1/2)
    k = shifted >> 52
    m = _float_of(bits - (k << 52))
    f = m - 1.0
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    even = w * (0.3999999999940941908 + w * (0.2222219843214978396 + w * 0.1531383769920937332))
    odd = z * (
        0.6666666666666735130 + w * (0.2857142874366239149 + w * (0.1818357216161805012 + w * 0.14798198605116586))
    )
    half = 0.5 * f * f
    return k * 0.6931471805599453 - ((half - s * (half + (even + odd))) - f)  # type: ignore[no-any-return]
