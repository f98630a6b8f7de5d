"""Mechanisms broken on purpose, to show that the audit convicts. They can be audited and nothing else.

Some of them are mistakes that any implementation can make; the others were found in papers. Each carries the promise
of the honest mechanism that it imitates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from discreet.audit.likelihoods import AdditiveTranscript, MatrixTranscript, Together
from discreet.audit.neighbours import worst_pair
from discreet.audit.trials import Case
from discreet.base.compiled import kernel
from discreet.base.errors import InvalidInput, Unsupported, check_name
from discreet.base.streams import Stream, uniform
from discreet.base.types import Floats, Mask
from discreet.mechanisms.additive import Channel
from discreet.mechanisms.counts.joint_histogram import JointHistogram
from discreet.mechanisms.counts.three_tables import ThreeTables
from discreet.mechanisms.sums.blocks import Blocks
from discreet.mechanisms.sums.matrix import Matrix
from discreet.noise import BinomialNoise, DiscreteGaussian, DiscreteLaplace, Gaussian, GridGaussian, add_noise
from discreet.noise.calibration import calibrate_noise
from discreet.papers import raw_count_loss
from discreet.papers.published_mechanism import Setting
from discreet.papers.sdp_pe import batch_sizes, noise_bits_of
from discreet.privacy.sensitivity import Sensitivity


@dataclass(frozen=True)
class Broken:
    """A wrong mechanism: what is wrong with it, and how it is put on trial."""

    name: str
    summary: str
    case: Callable[[Setting], Case]


def broken(name: str) -> Broken:
    """The entry of that name."""
    check_name("broken mechanism", name, BROKEN)
    return BROKEN[name]


def _halved(setting: Setting) -> Case:
    encoder: Any = JointHistogram(setting.shape)
    honest = calibrate_noise(DiscreteLaplace, encoder.sensitivity(), epsilon=_epsilon(setting))
    return _additive(setting, encoder, DiscreteLaplace(honest.scale / 2), delta=0.0)


def _factor_two_forgotten(setting: Setting) -> Case:
    encoder: Any = JointHistogram(setting.shape)
    own = encoder.sensitivity()
    only_added = Sensitivity.worst_shift(*((m, up, 0) for m, up, _ in own.shifts or ()))
    law = DiscreteGaussian if setting.delta else DiscreteLaplace
    wrong = calibrate_noise(law, only_added, epsilon=_epsilon(setting), delta=setting.delta)
    return _additive(setting, encoder, wrong, delta=setting.delta)


def _additive(setting: Setting, encoder: Any, law: DiscreteLaplace | DiscreteGaussian, delta: float) -> Case:
    pair = worst_pair(encoder)
    differs = pair.shift != 0
    cells = pair.cells[0][differs], pair.cells[1][differs]
    transcript = AdditiveTranscript(Channel(encoder, law, Blocks()), cells, 2)
    exact = law.profile(pair.sensitivity).epsilon(delta)
    claimed = _epsilon(setting)
    return Case(setting, Together((transcript,)), claimed, delta, claimed, exact, pair.describe())


_MANY_RELEASES = 64
_EASY_DELTA = 0.05  # for noise that has no pure promise, where a delta was not asked for


def _column_norm_forgotten(setting: Setting) -> Case:
    encoder: Any = JointHistogram(replace(setting.shape, horizon=1))
    delta, claimed = setting.delta or _EASY_DELTA, _epsilon(setting)
    matrix, pair = Matrix(_MANY_RELEASES), worst_pair(encoder)
    once = calibrate_noise(Gaussian, encoder.sensitivity(), epsilon=claimed, delta=delta)
    differs = pair.shift != 0
    cells = pair.cells[0][differs], pair.cells[1][differs]
    transcript = MatrixTranscript(matrix, GridGaussian.as_private_as(once, matrix.bits), cells)
    exact = transcript.profile.epsilon(delta)
    tried = replace(setting, shape=encoder.shape, episodes=matrix.releases, delta=delta)
    return Case(tried, Together((transcript,)), claimed, delta, claimed, exact, pair.describe())


@dataclass(frozen=True)
class _NoisyTables:
    """Two releases of the cells in which the neighbours differ. ``quiet`` cells get no noise.

    With ``reused`` the second release, about other users, carries the same draw as the first.
    """

    law: DiscreteLaplace
    cells: tuple[Floats, Floats]
    quiet: Mask
    reused: bool
    known: bool = False

    def sample(self, side: int, trials: int, draws: Stream) -> Floats:
        width = len(self.quiet)
        noise = np.zeros(2 * trials * width)
        add_noise(self.law.kernel(), noise, draws)
        first, second = noise.reshape(2, trials, width) * ~self.quiet
        return np.hstack([self.cells[side] + first, self.cells[1] + (first if self.reused else second)])


def _without_noise(setting: Setting) -> Case:
    rewards_from = ThreeTables(setting.shape).rows * (setting.shape.states + 1)
    return _tables(setting, quiet_from=rewards_from, reused=False)


def _reused(setting: Setting) -> Case:
    return _tables(setting, quiet_from=None, reused=True)


def _tables(setting: Setting, *, quiet_from: int | None, reused: bool) -> Case:
    encoder: Any = ThreeTables(setting.shape)
    law = calibrate_noise(DiscreteLaplace, encoder.sensitivity(), epsilon=_epsilon(setting))
    pair = worst_pair(encoder)
    where = np.flatnonzero(pair.shift)
    quiet = where >= quiet_from if quiet_from is not None else np.zeros(len(where), np.bool_)
    cells = pair.cells[0][where], pair.cells[1][where]
    claimed = _epsilon(setting)
    samplers = _NoisyTables(law, cells, quiet, reused)
    return Case(setting, samplers, claimed, 0.0, claimed, math.inf, pair.describe())


@dataclass(frozen=True)
class _ShuffledMessages:
    """What a shuffler hands on about one counter that nobody but the first user may have set.

    Features: how many messages exceed what noise alone can reach, and the sum of all. With ``separate`` bits only
    the sum of the bits is left, since a shuffled bag of bits is its number of ones.
    """

    noise_bits: int
    users: int
    separate: bool
    known: bool = False

    def sample(self, side: int, trials: int, draws: Stream) -> Floats:
        m = max(1, math.ceil(self.noise_bits / self.users))
        p = 0.5 if self.users <= self.noise_bits else self.noise_bits / (2 * self.users)
        out = np.zeros((trials, 2))
        _send(1 - side, m, p, self.users, draws, out)
        return out[:, 1:] if self.separate else out


@kernel
def _send(bit: int, m: int, p: float, users: int, draws: Stream, out: Floats) -> None:
    for i in range(out.shape[0]):
        for user in range(users):
            value = bit if user == 0 else 0
            for _ in range(m):
                if uniform(draws) < p:
                    value += 1
            out[i, 0] += value > m
            out[i, 1] += value


def shuffled_bits(setting: Setting, *, separate: bool) -> Case:
    """One counter of a batch: bits sent one by one, as they should be, or each user's bits added up first."""
    delta = setting.delta or 1e-5
    bits = _fair_bits(_epsilon(setting), delta)
    users = 2 * bits
    sampler = _ShuffledMessages(bits, users, separate)
    exact = None if separate else math.inf
    claimed = _epsilon(setting)
    compared = f"one user of {users} has the bit, or nobody has"
    return Case(replace(setting, delta=delta, episodes=users), sampler, claimed, delta, claimed, exact, compared)


def printed_messages(setting: Setting) -> Case:
    """One counter of the shuffle paper's largest batch, with the noise bits of its proof added to the true bit."""
    bits, users = math.ceil(noise_bits_of(setting)), max(batch_sizes(setting.episodes))
    compared = f"one user of {users} has the bit, or nobody has; {bits} noise bits"
    sampler = _ShuffledMessages(bits, users, separate=False)
    return Case(setting, sampler, _epsilon(setting), setting.delta, None, math.inf, compared)


@lru_cache(maxsize=64)
def _fair_bits(epsilon: float, delta: float) -> int:
    """The fewest fair noise bits that hide one bit: more of them are a function of fewer and of fresh coins."""

    def enough(bits: int) -> bool:
        profile = BinomialNoise(bits, 0.5).profile(Sensitivity.unit_shifts(1, 0))
        return bool(profile.delta(epsilon) <= delta)

    low, high = 0, 1
    while not enough(high):
        low, high = high, 2 * high
        if high > 1 << 24:
            raise Unsupported(f"epsilon={epsilon:g}, delta={delta:g} needs more than sixteen million noise bits")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


_STREAM_USERS = 255


@dataclass(frozen=True)
class _RawCountTree:
    """The reward tree of one cell when raw visit counts choose the thresholds; see :func:`raw_count_loss`."""

    users: int
    epsilon: float
    exponent: float = 0.5
    known: bool = True

    def sample(self, side: int, trials: int, draws: Stream) -> Floats:
        thresholds = np.arange(self.users + 1, dtype=np.float64) ** self.exponent
        t = np.arange(1, self.users + 1)
        sums = np.concatenate([[0.0], np.cumsum(thresholds)])
        shifts = sums[t] - sums[t - (t & -t)]
        losses = shifts * self.epsilon / (6 * thresholds[1:] * self.users.bit_length())
        out = np.zeros((trials, 1))
        _sum_laplace_ratios(losses, 1.0 if side == 0 else 0.0, draws, out[:, 0])
        return out


@kernel
def _sum_laplace_ratios(losses: Floats, moved: float, draws: Stream, out: Floats) -> None:
    for i in range(out.shape[0]):
        for d in losses:
            u = uniform(draws) - 0.5
            noise = -np.sign(u) * math.log(1.0 - 2.0 * abs(u))
            x = noise + moved * d
            out[i] += abs(x) - abs(x - d)


def raw_counts(setting: Setting) -> Case:
    """The heavy-tailed paper's reward stream, one cell and one step, with an adversarial sequence of later users."""
    claimed = _epsilon(setting)
    tree = _RawCountTree(_STREAM_USERS, claimed)
    exact = claimed * raw_count_loss(_STREAM_USERS)
    alone = replace(setting, shape=replace(setting.shape, horizon=1), episodes=_STREAM_USERS)
    compared = (
        f"the first of {_STREAM_USERS} users visits the cell, or does not; the others bring rewards at the threshold"
    )
    return Case(alone, tree, claimed, 0.0, None, exact, compared)


def _epsilon(setting: Setting) -> float:
    if setting.epsilon is None:
        raise InvalidInput("a broken mechanism is audited at an epsilon: give epsilon, not rho")
    return setting.epsilon


_ENTRIES = (
    Broken("broken/noise-halved", "discrete Laplace noise of half the scale that the promise needs", _halved),
    Broken("broken/factor-two-forgotten", "noise for adding a user where one is replaced", _factor_two_forgotten),
    Broken(
        "broken/column-norm-forgotten",
        "the matrix mechanism with the noise of one release, where a user shows in all later ones",
        _column_norm_forgotten,
    ),
    Broken("broken/statistic-without-noise", "noise on visits and transitions, none on rewards", _without_noise),
    Broken("broken/noise-reused", "two blocks of users released with one draw of noise", _reused),
    Broken(
        "broken/integer-messages",
        "shuffled messages that add a user's noise bits to her true bit",
        lambda setting: shuffled_bits(setting, separate=False),
    ),
    Broken("broken/raw-count-thresholds", "rewards truncated at thresholds that follow raw counts", raw_counts),
)

BROKEN: Mapping[str, Broken] = {entry.name: entry for entry in _ENTRIES}
