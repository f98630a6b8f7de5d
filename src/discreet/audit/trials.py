"""How a privatizer is put on trial: what is known about each of its channels, and its real session where nothing is.

``likelihood_of`` gives the log-likelihood ratios of everything that a channel publishes about the two records that it
tells apart best, and ``profile_of`` the exact privacy of that pair; both need a law with known probabilities and an
accumulator that is known here. ``WholeSession`` needs neither: it opens the real session again and again and hands over
what it releases. A channel with no share of the budget publishes what was declared public, which neighbours have in
common.

A channel knows nothing of this. One of a new kind is registered here, or tried by its session.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import singledispatch

import numpy as np

from discreet.audit.binomial_audit import Charge, Pair
from discreet.audit.likelihoods import (
    AdditiveTranscript,
    LayerTranscript,
    MatrixTranscript,
    MessageTranscript,
    RewardNodes,
    Together,
    bit_transcript,
    response_transcript,
)
from discreet.audit.neighbours import shift_sensitivity, worst_pair
from discreet.base.policies import Policy
from discreet.base.streams import COINS, Stream, next_word, stream
from discreet.base.types import Floats
from discreet.mechanisms.additive import Channel
from discreet.mechanisms.bandit import ArmRewardsChannel
from discreet.mechanisms.continual import ContinualChannel
from discreet.mechanisms.counts.encoder import Context, Encoder, encode
from discreet.mechanisms.focused import FocusedChannel
from discreet.mechanisms.mechanism import AnyChannel
from discreet.mechanisms.messages.answered_bits import ResponseChannel
from discreet.mechanisms.messages.shuffled_item import ItemChannel
from discreet.mechanisms.messages.survey import Survey
from discreet.mechanisms.release import Request
from discreet.mechanisms.session import Privatizer
from discreet.mechanisms.shuffled import ShuffledChannel
from discreet.mechanisms.sums.accumulator import SimulatedNoise
from discreet.mechanisms.sums.blocks import Blocks, EachAlone, Once, Total
from discreet.mechanisms.sums.tree import EvenTree, Tree
from discreet.mechanisms.trajectories import Trajectories
from discreet.noise.distribution import Law
from discreet.papers.published_mechanism import Setting
from discreet.privacy.profiles import NearGaussianProfile, Profile, PureProfile, ZeroConcentratedProfile, compose
from discreet.problems.adversarial.mechanisms import OneBitChannel, SampledLayerChannel
from discreet.problems.heavy_tails.published_tables import RawCountChannel

_MOST_FEATURES = 24
_LOOKED_AT = 100  # sessions a side that choose the features


@dataclass(frozen=True)
class Case:
    """A mechanism in a setting: two samplers, what was promised, and what is known about the truth.

    ``certified`` is the epsilon of the guarantee that the mechanism carries, ``exact`` the one computed here from its
    laws and from the worst pair that was found; either is None where nothing is known.
    """

    setting: Setting
    pair: Pair
    claimed: float
    delta: float
    certified: float | None
    exact: float | None
    compared: str
    points: tuple[tuple[float, float], ...] = ()  # further (epsilon, delta) of the stated profile

    def charge(self) -> Charge:
        """What the test is told: the two samplers and the promise."""
        return Charge(self.pair, self.claimed, self.delta, self.points)


@singledispatch
def likelihood_of(channel: AnyChannel) -> Pair | None:
    """The transcript of a channel about its worst pair of records, as log-likelihood ratios; None if not known."""
    return None


@singledispatch
def profile_of(channel: AnyChannel) -> Profile | None:
    """The exact privacy of the worst pair of records, from the law alone; None where only a bound is known."""
    return None


@singledispatch
def compared(channel: AnyChannel, actions: int | None) -> str:
    """The two records in words; ``actions`` is how many actions they may play."""
    return worst_pair(channel.encoder, actions).describe()


@likelihood_of.register
def _(channel: Channel) -> Pair | None:
    known = _as_known(channel)
    return None if known is None else _additive(known, _releases(known))


@profile_of.register
def _(channel: Channel) -> Profile | None:
    known = _as_known(channel)
    if known is None:
        return None
    times = known.accumulator.levels if isinstance(known.accumulator, Tree) else 1
    return known.law.profile(shift_sensitivity(np.tile(worst_pair(known.encoder).shift, times)))


@likelihood_of.register
def _(channel: ShuffledChannel) -> Pair:
    return _additive(_counted_ones(channel), 2)


@profile_of.register
def _(channel: ShuffledChannel) -> Profile:
    return channel.law.profile(worst_pair(channel.encoder).sensitivity)


@likelihood_of.register
def _(channel: ContinualChannel) -> Pair:
    return _mixtures(channel)


@profile_of.register
def _(channel: ContinualChannel) -> Profile:
    return _mixtures(channel).profile


@likelihood_of.register
def _(channel: FocusedChannel) -> Pair:
    law, cells = _tightest(channel)
    return AdditiveTranscript(Channel(channel.encoder, law, Blocks()), cells, releases=2)


@profile_of.register
def _(channel: FocusedChannel) -> Profile:
    law, (first, second) = _tightest(channel)
    return law.profile(shift_sensitivity(first - second))


@likelihood_of.register
def _(channel: ResponseChannel) -> Pair:
    return response_transcript(channel.counted(channel.block), channel.sensitivity().cells)


@profile_of.register
def _(channel: ResponseChannel) -> Profile:
    return channel.counted(channel.block).profile(channel.sensitivity())


@likelihood_of.register
def _(channel: ItemChannel) -> Pair:
    return MessageTranscript(channel.law.log_ratios)


@profile_of.register
def _(channel: ItemChannel) -> Profile:
    return channel.law.profile()


@likelihood_of.register
def _(channel: ArmRewardsChannel) -> Pair | None:
    return likelihood_of(channel.rewards)  # visits are the same for both records: they are public


@profile_of.register
def _(channel: ArmRewardsChannel) -> Profile | None:
    return profile_of(channel.rewards)


@profile_of.register
def _(channel: Survey) -> Profile:
    return PureProfile(channel.shipped_epsilon)


@likelihood_of.register
def _(channel: OneBitChannel) -> Pair:
    return bit_transcript(channel.law.shipped_epsilon)  # the tables of the two users differ in every entry


@profile_of.register
def _(channel: OneBitChannel) -> Profile:
    return channel.profile


@likelihood_of.register
def _(channel: SampledLayerChannel) -> Pair:
    return LayerTranscript(channel.law)


@profile_of.register
def _(channel: SampledLayerChannel) -> Profile:
    return channel.law.profile(channel.moves)


@likelihood_of.register
def _(channel: RawCountChannel) -> Pair:
    return RewardNodes(channel)


@profile_of.register
def _(channel: RawCountChannel) -> Profile:
    return PureProfile(float(RewardNodes(channel).losses.sum()))  # of that pair alone; no profile covers all pairs


@compared.register
def _(channel: RawCountChannel, actions: int | None) -> str:
    return (
        f"the first of {channel.episodes} users visits a cell, or does not; the others bring rewards at its threshold"
    )


def known_transcript(privatizer: Privatizer) -> Together | None:
    """The transcript of a privatizer whose laws and accumulators are known; None if one of them is not."""
    parts = []
    for channel in _private(privatizer):
        part = likelihood_of(channel)
        if part is None:
            return None
        parts.append(part)
    return Together(tuple(parts))


def exact_profile(privatizer: Privatizer) -> Profile | None:
    """The profile of the worst pair that was found, from the laws alone; None where only a bound is known."""
    profiles = []
    for channel in _private(privatizer):
        profile = profile_of(channel)
        if profile is None:
            return None
        profiles.append(profile)
    if any(isinstance(profile, ZeroConcentratedProfile | NearGaussianProfile) for profile in profiles):
        return None
    return compose(profiles, as_given=True)  # one pair of records


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
        """What sessions release, as features."""
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
        """Sums of the encodings of the next records."""
        return [rows.sum(axis=0) for rows in self._take(encoders, users)]

    def messages(self, encoder: Encoder, context: Context, users: int) -> Floats:
        """The encodings of the next records, one row each."""
        return self._take([encoder], users)[0]

    def _take(self, encoders: Sequence[Encoder], users: int) -> list[Floats]:
        taken = self._records[self._next : self._next + users]
        self._next += users
        return [np.concatenate([encode(encoder, record, self._draws) for record in taken]) for encoder in encoders]


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


def _private(privatizer: Privatizer) -> list[AnyChannel]:
    return [channel for channel in privatizer.channels if channel.share > 0]


def _as_known(channel: Channel) -> Channel | None:
    """A channel with additive noise in a form that :class:`AdditiveTranscript` knows; None if there is none."""
    if isinstance(channel.accumulator, EachAlone):
        return replace(channel, accumulator=Blocks())  # every user is a block of her own
    if isinstance(channel.accumulator, EvenTree):
        return replace(channel, accumulator=Tree(channel.accumulator.users))  # what it adds to a tree is no secret
    return channel if isinstance(channel.accumulator, Blocks | Once | Total | Tree) else None


def _counted_ones(channel: ShuffledChannel) -> Channel:
    """A shuffled bag of bits is its number of ones: binomial noise, once per batch."""
    return Channel(channel.encoder, channel.law, Blocks())


def _releases(channel: Channel) -> int:
    return channel.accumulator.users if isinstance(channel.accumulator, Tree) else 2


def _additive(channel: Channel, releases: int) -> AdditiveTranscript:
    return AdditiveTranscript(channel, _differing_cells(channel.encoder), releases)


def _mixtures(channel: ContinualChannel) -> MatrixTranscript:
    return MatrixTranscript(channel.accumulator, channel.law, _differing_cells(channel.encoder))


def _differing_cells(encoder: Encoder) -> tuple[Floats, Floats]:
    """The two encodings of the worst pair, where they differ."""
    pair = worst_pair(encoder)
    differs = pair.shift != 0
    return pair.cells[0][differs], pair.cells[1][differs]


def _tightest(channel: FocusedChannel) -> tuple[Law, tuple[Floats, Floats]]:
    """A law, and two encodings in the rows that it is for; among equals the fewest rows, whose worst is likeliest.

    The policy of a block decides which rows are asked about, so an adversary may choose them.
    """
    encoder, pair = channel.encoder, worst_pair(channel.encoder)
    number = encoder.rows_to_cells(np.arange(encoder.rows))
    moved = np.bincount(number, np.abs(pair.shift), minlength=encoder.rows)
    largest = np.argsort(-moved, kind="stable")
    reached = [moved[largest[:rows]].sum() / encoder.sensitivity(rows).l1 for rows in channel.rows]
    best = next(i for i, share in enumerate(reached) if share >= max(reached) * (1 - 1e-9))
    differs = np.isin(number, largest[: channel.rows[best]]) & (pair.shift != 0)
    return channel.laws[best], (pair.cells[0][differs], pair.cells[1][differs])
