"""The shuffle model, as printed: noise bits of SDP-PE, its split of the budget, and bits added before sending.

A counter is a sum of one bit per user. The paper gives each counter eps' = eps / (3 H) and beta' = delta / (H S A), and
asks for tau fair noise bits in it from all users together: m bits from each of n users, each a one with probability p,
which is 1/2 unless there are more users than bits.
"""

from __future__ import annotations

import math

from discreet.noise import BinomialNoise, RandomizedResponse
from discreet.papers.mechanism import Part, Published, Setting, needs_delta, needs_epsilon, steps_of

_PAPER = "Bai, Talebi, Zhao, Cheng, Chen, shuffle privacy"


def _sdp(setting: Setting) -> tuple[Part, ...]:
    shape = setting.shape
    bits = shuffle_noise_bits(shape.horizon, shape.states, shape.actions, needs_epsilon(setting), needs_delta(setting))
    return (Part("three bits per step", BinomialNoise(math.ceil(bits), 0.5), steps_of(setting, 3)),)


def _sdp_split(setting: Setting) -> tuple[Part, ...]:
    promised = RandomizedResponse(needs_epsilon(setting) / (3 * setting.shape.horizon))
    return (Part("six counters per step, each exactly as private as the split says", promised, steps_of(setting, 3)),)


def integer_message_delta(noise_bits: float, users: int, counters: int = 1) -> float:
    """The probability that sums of a true bit and noise bits give a user away for certain, in any of her counters.

    Each user sends bit + Bin(m, p). If nobody else has the bit, the value m + 1 proves hers: probability p^m.
    """
    m = max(1, math.ceil(noise_bits / users))
    p = 0.5 if users <= noise_bits else noise_bits / (2 * users)
    return 1 - (1 - p**m) ** counters


def shuffle_noise_bits(horizon: int, states: int, actions: int, epsilon: float, delta: float) -> float:
    """The number of noise bits per counter in the shuffle paper: 96 ln(2/beta') / eps'^2 with its split."""
    return 96 * math.log(2 * horizon * states * actions / delta) / (epsilon / (3 * horizon)) ** 2


ENTRIES = (
    Published(
        "published/sdp-pe",
        _PAPER,
        "shuffle",
        "(epsilon, delta)",
        "tau = 96 ln(2 H S A/delta) / (eps/(3 H))^2 fair noise bits per counter, sent as separate messages",
        "true with this constant, but twenty times too noisy at epsilon 1",
        "the smallest number of noise bits whose exact profile keeps the promise (2,008 instead of 500,068)",
        _sdp,
    ),
    Published(
        "published/sdp-pe-split",
        _PAPER,
        "shuffle",
        "(epsilon, delta)",
        "any counters that are each private with eps/(3 H) and delta/(H S A)",
        "a replaced user moves six counters per step, not three: 2 eps",
        "eps/(6 H) and delta/(6 H) per counter, or exact accounting of all of them together",
        _sdp_split,
    ),
    Published(
        "published/sdp-pe-integer-messages",
        _PAPER,
        "shuffle",
        "(epsilon, delta)",
        "the same noise bits, but added to the true bit before sending",
        "a message of m + 1 proves the bit: with n > tau users that has probability tau/(2 n) per counter",
        "send every bit as a message of its own",
        _sdp,
        unbounded="each user sends her bit plus her own noise as one number, and the largest number proves the bit: "
        "no epsilon holds with a small delta",
    ),
)
