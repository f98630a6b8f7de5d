r"""The shuffle appendix of the local paper as printed: a prefix of messages, shuffled anew before every episode.

Garcelon, Perchet, Pike-Burke, Pirotta, "Local differential privacy for regret minimization in reinforcement learning"
(2021), appendix I. Before episode k the shuffler hands on the messages of users 1, ..., k - 1 in random order
(algorithm 8). The bag of episode k + 1 less that of episode k *is* the message of user k (:func:`newcomer`): who sent
what is known to everybody who counts, and nothing is amplified. What hides a user is her own answering of bits, eps/H
each, of which 6 H - 2 flip when her trajectory is replaced,

    epsilon = (6 - 2 / H) eps,   pure and local, where "about H" times the epsilon of a bit, eps, is claimed.

Formula (113) claims more for the shuffled counters: an epsilon that falls with the number (k - 1) H of bits. It counts
the bits of a counter as if each belonged to somebody else, one counter at a time, and it lost a square root in print
(:func:`printed_epsilon`). The lost root makes it safe at short horizons if each user is shuffled once; with the root it
is not. Batches that keep their promise: :mod:`discreet.channels.answered_bits`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from discreet.accumulators.schedule import EveryEpisode, Growing
from discreet.channels.answered_bits import AnsweredBitsChannel
from discreet.errors import InvalidInput, Unsupported
from discreet.noise import RandomizedResponse
from discreet.privacy.guarantee import Claim, Reason, from_reports, locally
from discreet.recipes.recipe import Options, Recipe
from discreet.recipes.session import Privatizer
from discreet.recipes.trust import Privacy
from discreet.shape import Shape
from discreet.types import Integers

_SOURCE = "Garcelon, Perchet, Pike-Burke, Pirotta (2021)"


def prefix_views(messages: Sequence[Integers], coins: np.random.Generator) -> Iterator[list[Integers]]:
    """What the analyser of algorithm 8 gets before each episode: the messages of everybody so far, permuted anew."""
    for users in range(len(messages) + 1):
        yield [messages[i] for i in coins.permutation(users)]


def newcomer(before: Sequence[Integers], after: Sequence[Integers]) -> Integers:
    """The message of the one user by whom two bags differ, however both were permuted."""
    left = Counter(message.tobytes() for message in after)
    left.subtract(message.tobytes() for message in before)
    found = [message for message, times in left.items() if times]
    if len(after) != len(before) + 1 or len(found) != 1 or left[found[0]] != 1:
        raise InvalidInput(f"these are not two views in a row: they hold {len(before)} and {len(after)} messages")
    return np.frombuffer(found[0], np.int64)


def printed_epsilon(p: float, bits: int, delta: float, *, root: bool = False) -> float:
    """Formula (113): the epsilon that is claimed for a counter of ``bits`` answered bits.

    ``root`` puts back the square root that the bound has at its source (Cheu, Smith, Ullman, Zeber, Zhilyaev 2019).
    """
    log = math.log(4 / delta)
    if not 14 * log / bits <= p <= 1:
        raise InvalidInput(f"formula (113) needs p from {14 * log / bits:.4g} to 1 with {bits} bits, got {p:.4g}")
    surely = p - math.sqrt(2 * p * math.log(2 / delta) / bits)
    return (math.sqrt(32 * log) if root else 32 * log) / math.sqrt(bits * surely) * (1 - surely)


def printed_p(bits: int, epsilon: float, delta: float, *, root: bool = False) -> float:
    """The smallest p for which :func:`printed_epsilon` is at most ``epsilon``; it falls with p."""
    low, high = 14 * math.log(4 / delta) / bits, 1.0
    if low > 1 or printed_epsilon(1.0, bits, delta, root=root) > epsilon:
        raise InvalidInput(
            f"formula (113) reaches epsilon {epsilon:g} for no p with {bits} bits: more users are needed"
        )
    if printed_epsilon(low, bits, delta, root=root) <= epsilon:
        return low
    while high - low > 1e-12:
        middle = (low + high) / 2
        low, high = (low, middle) if printed_epsilon(middle, bits, delta, root=root) <= epsilon else (middle, high)
    return high


def _published(privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    """Algorithm 8 as printed: eps/H a bit, the prefix shuffled anew before every episode, nothing masked."""
    if privacy.epsilon is None:
        raise Unsupported("the appendix answers bits with epsilon / H: give epsilon instead of rho")
    law = RandomizedResponse(privacy.epsilon / shape.horizon)
    channel = AnsweredBitsChannel(shape, law)
    moves = channel.encoder.sensitivity().cells
    part = from_reports(
        law.profile(moves), delta=0.0, name="a bit per step and cell", moves=f"{moves} bits",
        law=f"randomised response with a loss of {law.shipped_epsilon:.6g} a bit (p = {2 * law.q:.6g})",
    )  # fmt: skip
    why = (
        "before every episode the messages of all users so far are permuted anew; two such bags in a row differ by the "
        "message of one user, who is known, so nothing is amplified and her own answers are all that hides her"
    )
    local = locally(part)
    claim = Claim(privacy.epsilon, 0.0, source=f"{_SOURCE}, appendix I")
    guarantee = replace(local, model="shuffle", derivation=Reason("shuffler", why, (local.derivation,)), claimed=claim)
    schedule = EveryEpisode() if options["growth"] is None else Growing(first=1, growth=options["growth"])
    return Privatizer("shuffle/published-prefix", shape, (channel,), schedule, guarantee, False, options)


RECIPES = (
    Recipe(
        "shuffle/published-prefix", "shuffle",
        "the shuffle appendix of LDP-OBI as printed; reshuffling a prefix hides nobody, see the guarantee",
        _published, automatic=False, encoder="three-tables", law="randomised-response", accumulator="total",
        source=_SOURCE, options={"growth": None},
    ),
)  # fmt: skip
