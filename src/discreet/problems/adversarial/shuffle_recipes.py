r"""The shuffle model in layered worlds: counts and losses of a block of users as separate bits through a shuffler.

What a block releases is a sum of bits, of transitions and of losses: every entry of her loss table with full
information, (x, a, bit) of the losses on her path with bandit feedback. For every counter a user sends her true bit and
noise bits, all separately (:mod:`discreet.mechanisms.shuffled`), so a counter carries centred binomial noise.

Replacing a user moves H - 1 transition counters up and as many down, and of the losses H up and H down (bandit) or all
d in any directions (full information). Counts and losses have noise of their own: a statistic that moves n_i counters
and has noise of variance v_i loses about n_i / v_i, so v_i = t n_i / share_i, and the smallest t is searched for which
the exact composed profile keeps (epsilon, delta). Binomial noise of p other than 1/2 is not symmetric, so all numbers
of table entries that rise while the others fall are checked.

The size of blocks follows the same law as central ones (:mod:`discreet.problems.adversarial.layered_budget`): the noise
of a block does not depend on how many users share it, as long as each adds at least a bit.

**Formal guarantees.** (epsilon, delta) differential privacy of all that leaves the shuffler, for replacing one user:
every user is in one block, and the composed noise of every size of block that occurs is certified; other sizes are
refused. Joint privacy follows by the billboard lemma. ``dropouts`` and ``colluding`` are the shares of a block whose
noise does not count. There is no local guarantee: true bits leave the device in clear.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.shape import Shape
from discreet.mechanisms.counts.encoder import Encoder
from discreet.mechanisms.schedule import Equal, sizes
from discreet.mechanisms.session import Privatizer, unnamed
from discreet.mechanisms.shuffled import CertifiedBits, ShuffledChannel
from discreet.noise import BinomialNoise
from discreet.noise.calibration import ShuffledBits
from discreet.privacy.guarantee import Guarantee, billboard, compose, from_mechanism, parallel, shuffled
from discreet.privacy.profiles import GaussianProfile
from discreet.privacy.profiles import compose as composed
from discreet.privacy.sensitivity import Sensitivity
from discreet.problems.adversarial.encoders import LayeredTransitions, LossBits, LossTable
from discreet.problems.adversarial.layered_budget import (
    HALF,
    WHY,
    bandit_blocks,
    epsilon_of,
    layered,
    share_of_counts,
    table_blocks,
)
from discreet.recipes.recipe import Options
from discreet.recipes.shuffle import absent_share
from discreet.recipes.targets import Privacy

_TOLERANCE = 1e-3  # of the variance of the noise


class Wanted(NamedTuple):
    """A statistic that is to leave as bits, its share of the budget, and whether each block is released by itself."""

    encoder: Encoder
    share: float
    latest: bool


def shuffled_losses(full: bool, privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    """Full information or bandit feedback through a shuffler."""
    shape = layered(shape)
    if privacy.rho is not None:
        raise Unsupported("binomial noise has no zero-concentrated parameter: give epsilon and delta, not rho")
    epsilon, delta, absent = epsilon_of(privacy), privacy.delta, absent_share(options)
    losses: Encoder = LossTable(shape) if full else LossBits(shape)
    counts = LayeredTransitions(shape)
    unit = _gaussian_unit(epsilon, delta)

    def blocks(variance: float) -> int:
        if full:
            return table_blocks(variance, episodes, options["blocks"])
        return bandit_blocks(variance / 2, shape, episodes, options["blocks"])

    def guess(share: float) -> int:
        return blocks(unit * losses.sensitivity().cells / (1 - share))

    def counted_at_half() -> float:
        return unit * counts.sensitivity().cells / HALF * guess(HALF)

    share = share_of_counts(options["split"], shape, episodes, counted_at_half)
    wanted = [Wanted(losses, 1 - share, latest=not full)]
    if share > 0:
        wanted.insert(0, Wanted(counts, share, latest=False))
    # Where epsilon is large a binomial needs more noise than a Gaussian: a counter that may be zero gives users away.
    counted = _counted(max(1, episodes // guess(share)), absent)
    scale = _least_scale(counted, tuple(wanted), epsilon, delta)
    schedule = Equal(blocks(scale * losses.sensitivity().cells / (1 - share)))
    batches = [_calibrated(users, tuple(wanted), absent, epsilon, delta) for users in _distinct(schedule, episodes)]
    channels = tuple(
        ShuffledChannel(
            one.encoder,
            CertifiedBits(tuple((batch.users, batch.bits[i]) for batch in batches)),
            batches[-1].users,
            one.latest,
            options["bit_level"],
        )
        for i, one in enumerate(wanted)
    )
    promised = _guarantee(batches, wanted, absent, schedule, epsilon, delta)
    return unnamed(shape, channels, schedule, promised, False, options)


class Batch(NamedTuple):
    """The noise bits of every statistic in blocks of one size, and the moves for which their promise is weakest."""

    users: int
    bits: tuple[ShuffledBits, ...]
    moves: tuple[Sensitivity, ...]


@lru_cache(maxsize=256)
def _calibrated(users: int, wanted: tuple[Wanted, ...], absent: float, epsilon: float, delta: float) -> Batch:
    """The least noise, in the ratio of the shares, that keeps the promise for the users whose noise counts."""
    counted = _counted(users, absent)
    scale = _least_scale(counted, wanted, epsilon, delta)
    mixes = [*product(*(_directions(one.encoder) for one in wanted))]
    mixes = mixes[: len(mixes) // 2 + 1]  # the rest are these with the two records exchanged
    while True:
        bits = _all_bits(counted, wanted, scale)
        worst = max(mixes, key=lambda moves: _lost(counted, bits, moves, epsilon))
        if _lost(counted, bits, worst, epsilon) <= delta:
            return Batch(users, bits, worst)
        scale *= 1 + _TOLERANCE


@lru_cache(maxsize=256)
def _least_scale(counted: int, wanted: tuple[Wanted, ...], epsilon: float, delta: float) -> float:
    """The variance per counter that moves, at a share of one, if counters move in the usual directions."""
    # A first guess; who calls tries all other directions.
    usual = tuple(replace(one.encoder.sensitivity(), any_way=False) for one in wanted)

    def keeps(scale: float) -> bool:
        return _lost(counted, _all_bits(counted, wanted, scale), usual, epsilon) <= delta

    high = _gaussian_unit(epsilon, delta)
    while not keeps(high):
        high *= 2
    low = high / 4
    while high - low > _TOLERANCE * high:
        middle = (low + high) / 2
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high


@lru_cache(maxsize=4096)
def _lost(counted: int, bits: tuple[ShuffledBits, ...], moves: tuple[Sensitivity, ...], epsilon: float) -> float:
    """The exact delta of all statistics together."""
    laws = (BinomialNoise(counted * one.bits, one.probability) for one in bits)
    profiles = [law.profile(move) for law, move in zip(laws, moves, strict=True)]
    return composed(profiles, as_given=True).delta(epsilon)  # who asks tries all directions herself


def _counted(users: int, absent: float) -> int:
    counted = math.floor((1 - absent) * users)
    if counted < 1:
        raise InvalidInput(f"nobody is left to add noise in a block of {users}: lower dropouts, colluding or blocks")
    return counted


def _all_bits(counted: int, wanted: tuple[Wanted, ...], scale: float) -> tuple[ShuffledBits, ...]:
    return tuple(_bits(counted, scale * one.encoder.sensitivity().cells / one.share) for one in wanted)


def _directions(encoder: Encoder) -> list[Sensitivity]:
    """All numbers of counters that may rise while the others fall.

    Counts of layers with a single cell move one way only, either way; entries of a loss table move any way.
    """
    usual = encoder.sensitivity()
    rising, falling = (sum(moves) for moves in zip(*((up, down) for _, up, down in usual.shifts or ()), strict=True))
    fewest, most = (0, usual.cells) if usual.any_way else (min(rising, falling), max(rising, falling))
    return [Sensitivity.unit_shifts(usual.cells - down, down) for down in range(fewest, most + 1)]


def _bits(users: int, variance: float) -> ShuffledBits:
    """The fewest noise bits per user, and then the rarest ones, that have this variance together."""
    number = max(1, math.ceil(4 * variance / users))
    share = 1 - 4 * variance / (users * number)
    probability = (1 - math.sqrt(max(share, 0.0))) / 2
    return ShuffledBits(number, min(1 << 31, math.ceil(probability * 2**32)) / 2**32)


def _gaussian_unit(epsilon: float, delta: float) -> float:
    """The variance of Gaussian noise that hides a unit of L2: what binomial noise needs, very nearly."""
    low, high = 0.0, 2 * (epsilon + 1.0)
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if GaussianProfile(middle).delta(epsilon) <= delta else (low, middle)
    return 1 / low**2


def _distinct(schedule: Equal, episodes: int) -> list[int]:
    return sorted(set(sizes(schedule, episodes)))


def _guarantee(
    batches: Sequence[Batch], wanted: Sequence[Wanted], absent: float, schedule: Equal, epsilon: float, delta: float
) -> Guarantee:
    promises = []
    for batch in batches:
        counted = _counted(batch.users, absent)
        parts = [
            from_mechanism(
                BinomialNoise(counted * bits.bits, bits.probability), moves, delta=delta,
                name=f"{one.encoder.name} in a block of {batch.users}",
            )
            for one, bits, moves in zip(wanted, batch.bits, batch.moves, strict=True)
        ]  # fmt: skip
        promises.append(compose(parts, delta=delta, why=WHY))
    noise = "everybody's noise counted" if not absent else f"{1 - absent:.4g} of the noise counted"
    why = f"each user sends her bits and noise bits separately, permuted per counter and block; {noise}"
    whole = shuffled(promises, epsilon=epsilon, delta=delta, why=why)
    return billboard(parallel(whole, f"every user is in exactly one block ({schedule.describe()})"))
