"""Everything that a privatizer publishes about a few users, with one of them replaced: the samplers of an audit.

The replaced user comes first, which puts her into the most releases (a binary tree shows its first user at every
level). Later users are adaptive adversaries: each plays one or the other of the two records, as the last release
dictates. Given the releases so far they contribute the same on both sides, so the log-likelihood ratio of a whole
transcript is the sum, over the releases that the first user enters, of the ratios of the noise they would need.

Release t of a tree minus the release at t without its lowest binary digit is the one node that closed at t; with
running sums it is the difference to the release before. Only cells in which the two records differ carry any loss, and
noise is independent across cells, so only those are simulated.

``AdditiveTranscript`` needs a law with known probabilities and an accumulator that it knows. ``WholeSession`` needs
neither: it opens the real session again and again and hands over what it releases. A channel that is not additive may
bring a ``transcript()`` of its own, with the ``profile`` that goes with it. A channel with no share of the budget
publishes what was declared public, which neighbours have in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from discreet.accumulators.base import SimulatedNoise
from discreet.accumulators.compiled import TotalArrays, advance
from discreet.accumulators.sums import Blocks, Once, Total
from discreet.accumulators.sums import Stream as EachUser
from discreet.accumulators.tree import EvenTree, Tree, TreeArrays
from discreet.audit.binomial_test import log_ratio
from discreet.audit.neighbours import WorstPair, shift_sensitivity, worst_pair
from discreet.channels.additive import Channel
from discreet.channels.sampled_item import ReportChannel
from discreet.channels.shuffled_bits import ShuffledChannel
from discreet.compiled import dispatch, kernel
from discreet.encoders.base import Context, Encoder, encode
from discreet.noise import DiscreteLaplace, RandomizedResponse
from discreet.noise.shuffled_response import ShuffledResponse
from discreet.policies import Policy
from discreet.privacy.profiles import (
    Profile,
    PureProfile,
    ZeroConcentratedProfile,
    compose,
)
from discreet.privacy.sensitivity import Sensitivity
from discreet.recipes.session import Privatizer
from discreet.release import Request
from discreet.streams import COINS, Stream, next_word, stream
from discreet.trajectories import Trajectories
from discreet.types import Floats

_AT_ONCE = 2_000_000  # numbers held at a time
_MOST_FEATURES = 24
_LOOKED_AT = 100  # sessions a side that choose the features


@dataclass(frozen=True)
class AdditiveTranscript:
    """The releases of one channel about ``releases`` users (or blocks of users), the first of them replaced."""

    channel: Channel
    cells: tuple[Floats, Floats]  # the two encodings, where they differ
    releases: int
    known: bool = True

    def sample(self, side: int, trials: int, draws: Stream) -> Floats:
        """Log-likelihood ratios of transcripts."""
        width = len(self.cells[0])
        out = np.empty((trials, 1))
        chunk = max(1, _AT_ONCE // (width * self.releases))
        law, arrays = self.channel.law.kernel(), _compiled(self.channel, width)
        for start in range(0, trials, chunk):
            rows = min(chunk, trials - start)
            released = np.empty((rows, self.releases, width))
            _play(arrays, law, self.cells[side], self.cells[0], self.cells[1], draws, released)
            out[start : start + rows, 0] = self._ratios(released)
        return out

    def _ratios(self, released: Floats) -> Floats:
        first, second = self.cells
        law = self.channel.law
        total = np.zeros(len(released))
        others = np.zeros((len(released), len(first)))
        for t in range(1, self.releases + 1):
            if t > 1:
                plays_first = released[:, t - 2, :1] > 0.5
                others += np.where(plays_first, first, second)
            if not _enters(self.channel, t):
                continue
            noise = released[:, t - 1] - others
            total += log_ratio(law.log_probability(noise - first), law.log_probability(noise - second)).sum(axis=1)
        return total


@dataclass(frozen=True)
class Together:
    """Several independent parts that one user moves together: their log-likelihood ratios add up."""

    parts: tuple[Any, ...]
    known: bool = True

    def sample(self, side: int, trials: int, draws: Stream) -> Floats:
        return np.asarray(sum(part.sample(side, trials, draws) for part in self.parts))


@dataclass(frozen=True)
class WholeSession:
    """The real session, run in full on each input; the features are the released counts that differ most.

    Users follow a public policy, as they would: what it makes known is no secret of theirs, and recipes use it.
    """

    privatizer: Privatizer
    records: tuple[Trajectories, Trajectories]
    users: int
    features: tuple[int, ...] | None  # of all released values, which; None = all
    known: bool = False

    def sample(self, side: int, trials: int, draws: Stream) -> Floats:
        shape = self.privatizer.shape
        rng = np.random.default_rng(int(next_word(draws)))
        policy = Policy(np.zeros((shape.horizon, shape.states), np.int64))
        out = []
        for _ in range(trials):
            users = FixedUsers([self.records[side]] + [self.records[1]] * (self.users - 1), draws)
            session = self.privatizer.open(users, SimulatedNoise(rng), self.users)
            release = session.answer(Request(policy, users=self.users))
            values = np.concatenate([release[name].values.ravel() for name in sorted(release.statistics)])
            out.append(values if self.features is None else values[list(self.features)])
        return np.array(out)


class FixedUsers:
    """Users whose records are given, in order: for audits and tests, never for people."""

    def __init__(self, records: Sequence[Trajectories], draws: Stream) -> None:
        self._records, self._draws, self._next = records, draws, 0

    def tally(self, encoders: Sequence[Encoder], context: Context, users: int) -> list[Floats]:
        return [rows.sum(axis=0) for rows in self._take(encoders, users)]

    def messages(self, encoder: Encoder, context: Context, users: int) -> Floats:
        return self._take([encoder], users)[0]

    def _take(self, encoders: Sequence[Encoder], users: int) -> list[Floats]:
        taken = self._records[self._next : self._next + users]
        self._next += users
        return [np.concatenate([encode(encoder, record, self._draws) for record in taken]) for encoder in encoders]


def known_transcript(privatizer: Privatizer) -> Together | None:
    """The transcript of a privatizer whose laws and accumulators are known; None if one of them is not."""
    parts: list[Any] = []
    for any_channel in _private(privatizer):
        channel = additive_form(any_channel)
        if channel is None and hasattr(any_channel, "transcript"):
            parts.append(any_channel.transcript())
            continue
        if channel is None:
            return None
        pair = worst_pair(channel.encoder)
        differs = pair.shift != 0
        cells = pair.cells[0][differs], pair.cells[1][differs]
        parts.append(AdditiveTranscript(channel, cells, _releases(channel)))
    return Together(tuple(parts))


def session_transcript(privatizer: Privatizer, users: int) -> WholeSession:
    """The session itself, for mechanisms whose law is not known in closed form.

    Which released counts to look at is decided by a few runs of their own: those that differ most, in deviations.
    """
    records = worst_pair(privatizer.channels[0].encoder, actions=1).records
    everything = WholeSession(privatizer, records, users, None)
    if everything.sample(0, 1, stream(0, 0, COINS)).shape[1] <= _MOST_FEATURES:
        return everything
    first, second = (everything.sample(side, _LOOKED_AT, stream(0, side, COINS)) for side in (0, 1))
    deviation = np.sqrt(first.var(axis=0) + second.var(axis=0)) + 1e-9
    distance = np.abs(first.mean(axis=0) - second.mean(axis=0)) / deviation
    return replace(everything, features=tuple(int(i) for i in np.argsort(-distance, kind="stable")[:_MOST_FEATURES]))


def exact_profile(privatizer: Privatizer) -> Profile | None:
    """The profile of the worst pair that was found, from the laws alone; None where only a bound is known."""
    profiles: list[Profile] = []
    for any_channel in _private(privatizer):
        channel = additive_form(any_channel)
        if channel is not None:
            profiles.append(channel.law.profile(_all_releases(channel, worst_pair(channel.encoder))))
        elif isinstance(any_channel, ReportChannel):
            profiles.append(PureProfile(any_channel.shipped_epsilon))
        elif hasattr(any_channel, "transcript"):
            profiles.append(any_channel.profile)
        else:
            return None
    if any(isinstance(profile, ZeroConcentratedProfile) for profile in profiles):
        return None
    return compose(profiles)


def additive_form(channel: Any) -> Channel | None:
    """A channel as additive noise that is released in a way known here; None if it is not."""
    if isinstance(channel, ShuffledChannel):
        # A shuffled bag of bits is its number of ones: binomial noise, once per batch.
        return Channel(channel.encoder, channel.law, Blocks())
    if isinstance(channel, Channel) and isinstance(channel.accumulator, EachUser):
        return replace(channel, accumulator=Blocks())  # every user is a block of her own
    if isinstance(channel, Channel) and isinstance(channel.accumulator, EvenTree):
        return replace(channel, accumulator=Tree(channel.accumulator.users))  # what it adds to a tree is no secret
    known = isinstance(channel, Channel) and isinstance(channel.accumulator, Blocks | Once | Total | Tree)
    return channel if known else None


def _private(privatizer: Privatizer) -> list[Any]:
    return [channel for channel in privatizer.channels if getattr(channel, "share", 1.0) > 0]


def _all_releases(channel: Channel, pair: WorstPair) -> Sensitivity:
    times = channel.accumulator.levels if isinstance(channel.accumulator, Tree) else 1
    return shift_sensitivity(np.tile(pair.shift, times))


def _releases(channel: Channel) -> int:
    return channel.accumulator.users if isinstance(channel.accumulator, Tree) else 2


def _compiled(channel: Channel, size: int) -> Any:
    return channel.accumulator.arrays(size) if isinstance(channel.accumulator, Tree) else TotalArrays()


def _enters(channel: Channel, t: int) -> bool:
    """Whether the first user is in what is new at release t: nodes that start at her, or the first sum."""
    return t & (t - 1) == 0 if isinstance(channel.accumulator, Tree) else t == 1


@dispatch
def _restart(accumulator: Any) -> None:
    """Forget the run before."""


@_restart.implement(TotalArrays)
def _restart_total(accumulator: TotalArrays) -> None:
    pass


@_restart.implement(TreeArrays)
def _restart_tree(accumulator: TreeArrays) -> None:
    accumulator.current[0] = accumulator.prefix.shape[0] - 1


@kernel
def _play(
    accumulator: Any,
    law: Any,
    own: Floats,
    first: Floats,
    second: Floats,
    draws: Stream,
    released: Floats,
) -> None:
    trials, releases, width = released.shape
    cells = np.empty(width)
    for i in range(trials):
        _restart(accumulator)
        cells[:] = 0.0
        for t in range(1, releases + 1):
            if t == 1:
                cells += own
            elif released[i, t - 2, 0] > 0.5:
                cells += first
            else:
                cells += second
            advance(accumulator, t, law, cells, draws)
            released[i, t - 1] = cells


@dataclass(frozen=True)
class ResponseTranscript:
    """The bits of one batch with one user replaced: what an audit compares."""

    law: ShuffledResponse
    moves: int
    known: bool = True

    def sample(self, side: int, trials: int, draws: Stream) -> Floats:
        rng = np.random.default_rng(int(next_word(draws)))
        return self.law.log_ratios(self.moves, side, trials, rng)[:, None]


@dataclass(frozen=True)
class BitTranscript:
    """The answer to a bit that the two users have differently: its log-likelihood ratio is + or - epsilon."""

    epsilon: float
    known: bool = True

    def sample(self, side: int, trials: int, draws: Stream) -> Floats:
        rng = np.random.default_rng(int(next_word(draws)))
        answers = RandomizedResponse(self.epsilon).randomize(np.full((trials, 1), 1.0 - side), rng)
        return np.asarray(self.epsilon * (2.0 * answers - 1.0))


@dataclass(frozen=True)
class LayerTranscript:
    """A layer in which one unit moves from a cell to another."""

    law: DiscreteLaplace
    known: bool = True

    def sample(self, side: int, trials: int, draws: Stream) -> Floats:
        rng = np.random.default_rng(int(next_word(draws)))
        shift = np.array([1.0, -1.0])
        x = self.law.draw(rng, (trials, 2)) + (shift if side == 0 else 0.0)
        ratios = log_ratio(self.law.log_probability(x - shift), self.law.log_probability(x))
        return np.asarray(ratios.sum(axis=1, keepdims=True))
