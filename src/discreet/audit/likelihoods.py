"""Everything that a mechanism publishes about a few users, with one of them replaced: log-likelihood ratios to draw.

The replaced user comes first, which puts her into the most releases (a binary tree shows its first user at every
level). Later users are adaptive adversaries: each plays one or the other of the two records, as the last release
dictates. Given the releases so far they contribute the same on both sides, so the log-likelihood ratio of a whole
transcript is the sum, over the releases that the first user enters, of the ratios of the noise they would need.

Release t of a tree minus the release at t without its lowest binary digit is the one node that closed at t; with
running sums it is the difference to the release before. Only cells in which the two records differ carry any loss, and
noise is independent across cells, so only those are simulated.

The matrix mechanism publishes noisy mixtures, each with independent noise of its own
(:mod:`discreet.mechanisms.sums.matrix`). Given the transcript so far, all that differs between the two sides are the
mixtures themselves, so the ratio of a whole transcript is the sum, over all releases and cells, of the ratios of the
noise that each side would need. The mixtures are computed by the code that runs in earnest, floors included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np

from discreet.audit.binomial_audit import log_ratio
from discreet.audit.neighbours import shift_sensitivity
from discreet.base.compiled import dispatch, kernel
from discreet.base.errors import of_kind
from discreet.base.streams import USERS, Stream, next_word, stream
from discreet.base.types import Floats
from discreet.mechanisms.additive import Channel
from discreet.mechanisms.counts.encoder import encode
from discreet.mechanisms.sums.accumulator import TotalArrays, advance
from discreet.mechanisms.sums.matrix import Matrix, Mixing, Unmixing
from discreet.mechanisms.sums.tree import Tree, TreeArrays
from discreet.mechanisms.trajectories import Trajectories
from discreet.noise import DiscreteLaplace, GridGaussian, Laplace, RandomizedResponse, add_noise
from discreet.noise.shuffled_randomized_response import ShuffledResponse
from discreet.papers.published_mechanism import Part
from discreet.privacy.profiles import GaussianProfile
from discreet.privacy.sensitivity import Sensitivity
from discreet.problems.heavy_tails.published_tables import RawCountChannel

_AT_ONCE = 2_000_000  # numbers held at a time
_SIDE_BY_SIDE = 200_000  # cells of a matrix mechanism that run together: trials times cells that differ


class _Sampled(Protocol):
    def sample(self, side: int, trials: int, draws: Stream) -> Floats:
        """Log-likelihood ratios on one of the two sides."""


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


def _compiled(channel: Channel, size: int) -> Any:
    return channel.accumulator.arrays(size) if isinstance(channel.accumulator, Tree) else TotalArrays()


def _enters(channel: Channel, t: int) -> bool:
    """Whether the first user is in what is new at release t: nodes that start at her, or the first sum."""
    return t & (t - 1) == 0 if isinstance(channel.accumulator, Tree) else t == 1


@dispatch
def _restart(accumulator: Any) -> None:
    """Reset the state that is carried from release to release, before the next run."""


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
class Together:
    """Several independent parts that one user moves together: their log-likelihood ratios add up."""

    parts: tuple[_Sampled, ...]
    known: bool = True

    def sample(self, side: int, trials: int, draws: Stream) -> Floats:
        """Sums over the parts."""
        return np.asarray(sum(part.sample(side, trials, draws) for part in self.parts))


@dataclass(frozen=True)
class MatrixTranscript:
    """All releases of a matrix mechanism, restricted to the cells in which two records differ."""

    matrix: Matrix
    law: GridGaussian
    cells: tuple[Floats, Floats]  # the two encodings, where they differ
    known: bool = True

    @property
    def profile(self) -> GaussianProfile:
        """The privacy of this pair, but for what floors can do."""
        own = shift_sensitivity(self.cells[0] - self.cells[1])
        moved = own.l2 * self.matrix.column_norm
        return self.law.profile(Sensitivity(max(moved, own.l1 * self.matrix.releases), moved, own.linf))

    def sample(self, side: int, trials: int, draws: Stream) -> Floats:
        """Log-likelihood ratios of transcripts."""
        chunk = max(1, _SIDE_BY_SIDE // len(self.cells[0]))
        parts = [self._ratios(side, min(chunk, trials - start), draws) for start in range(0, trials, chunk)]
        return np.concatenate(parts)[:, None]

    def _ratios(self, side: int, trials: int, draws: Stream) -> Floats:
        """Trials run side by side: cell c of trial i is one cell of a long vector."""
        first, second = (np.tile(cells, trials) for cells in self.cells)
        size, width = len(first), len(self.cells[0])
        everywhere = np.arange(size)
        sides, unmixing = (Mixing(self.matrix, size), Mixing(self.matrix, size)), Unmixing(self.matrix, size)
        law, kernel = self.law, self.law.kernel()
        total, released = np.zeros(size), np.zeros(size)
        for t in range(self.matrix.releases):
            if t == 0:
                counted = first, second
            else:
                plays_first = np.repeat(released[::width] > 0.5, width)
                counted = (np.where(plays_first, first, second),) * 2
            mixed = [one.step(everywhere, counts) for one, counts in zip(sides, counted, strict=True)]
            published = mixed[side].copy()
            add_noise(kernel, published, draws)
            total += log_ratio(*(law.log_probability(published - one) for one in mixed))
            released += unmixing.step(everywhere, published)
        return np.asarray(total.reshape(trials, width).sum(axis=1))


@dataclass(frozen=True)
class MessageTranscript:
    """What users' messages become with one of them replaced, by a law that can say its own log-likelihood ratios."""

    ratios: Callable[[int, int, np.random.Generator], Floats]  # of a side and so many trials
    known: bool = True

    def sample(self, side: int, trials: int, draws: Stream) -> Floats:
        """Log-likelihood ratios of numbers of ones, or of whole histograms."""
        return self.ratios(side, trials, np.random.default_rng(int(next_word(draws))))[:, None]


def response_transcript(law: ShuffledResponse, moves: int) -> MessageTranscript:
    """The bits of one batch, of which so many may flip."""
    return MessageTranscript(partial(law.log_ratios, moves))


def bit_transcript(epsilon: float) -> MessageTranscript:
    """The answer to a bit that the two users have differently: its log-likelihood ratio is + or - epsilon."""
    law = RandomizedResponse(epsilon)
    return MessageTranscript(
        lambda side, trials, rng: np.asarray(epsilon * (2.0 * law.randomize(np.full(trials, 1.0 - side), rng) - 1.0))
    )


@dataclass(frozen=True)
class LayerTranscript:
    """A layer in which one unit moves from a cell to another."""

    law: DiscreteLaplace
    known: bool = True

    def sample(self, side: int, trials: int, draws: Stream) -> Floats:
        """Log-likelihood ratios of the two noisy cells."""
        rng = np.random.default_rng(int(next_word(draws)))
        shift = np.array([1.0, -1.0])
        x = self.law.draw(rng, (trials, 2)) + (shift if side == 0 else 0.0)
        ratios = log_ratio(self.law.log_probability(x - shift), self.law.log_probability(x))
        return np.asarray(ratios.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class RewardNodes:
    """The reward nodes of one cell, with and without a visit of the first user."""

    channel: RawCountChannel
    known: bool = True

    @cached_property
    def losses(self) -> Floats:
        """How far every node moves, in units of its noise."""
        encoder, users, law = self.channel.encoder, self.channel.episodes, of_kind(Laplace, self.channel.reward_law)
        cell = encoder.counts + (encoder.shape.start or 0) * encoder.shape.actions
        leaves = [encode(encoder, _people(self.channel, visits), stream(0, 0, USERS)) for visits in (True, False)]
        moved = np.concatenate([[0.0], np.cumsum((leaves[0] - leaves[1])[:, cell])])
        t = np.arange(1, users + 1)
        scales = np.array([encoder.threshold(int(k)) for k in t]) * law.scale
        return np.asarray(np.abs(moved[t] - moved[t - (t & -t)]) / scales)

    def sample(self, side: int, trials: int, draws: Stream) -> Floats:
        """Log-likelihood ratios of the two data sets."""
        rng, losses = np.random.default_rng(int(next_word(draws))), self.losses[self.losses > 0]
        out = np.zeros((trials, 1))
        chunk = max(1, _AT_ONCE // max(1, len(losses)))
        for start in range(0, trials, chunk):
            x = rng.laplace(size=(min(chunk, trials - start), len(losses))) + (losses if side == 0 else 0.0)
            out[start : start + chunk, 0] = (np.abs(x) - np.abs(x - losses)).sum(axis=1)
        return out


def _people(channel: RawCountChannel, visits: bool) -> Trajectories:
    """Everybody visits one cell at the first step, except perhaps the first user, and is elsewhere afterwards."""
    shape, users = channel.encoder.shape, channel.episodes
    here = shape.start or 0
    states = np.full((users, shape.horizon), (here + 1) % shape.states)
    actions = np.full_like(states, shape.actions - 1)
    rewards = np.zeros(states.shape)
    states[:, 0], actions[:, 0] = here, 0
    if not visits:
        states[0, 0], actions[0, 0] = here if shape.actions > 1 else (here + 1) % shape.states, shape.actions - 1
    # Just below the threshold that the user meets if the first one was there.
    rewards[1:, 0] = [channel.encoder.threshold(j) * (1 - 1e-12) for j in range(1, users)]
    return Trajectories(states, actions, rewards, np.full(users, shape.horizon))


@dataclass(frozen=True)
class PrintedPart:
    """A stream as a paper prints it, on either side of the worst shift."""

    part: Part
    known: bool = True

    def sample(self, side: int, trials: int, draws: Stream) -> Floats:
        """Log-likelihood ratios of runs on one side."""
        law, moves = self.part.law, self.part.moves
        if isinstance(law, RandomizedResponse):
            rng = np.random.default_rng(int(next_word(draws)))
            answers = law.randomize(np.full((trials, moves.cells), 1 - side), rng)
            return np.asarray((law.epsilon * (2 * answers - 1)).sum(axis=1, keepdims=True))
        if isinstance(law, ShuffledResponse):
            rng = np.random.default_rng(int(next_word(draws)))
            return law.log_ratios(moves.cells, side, trials, rng)[:, None]
        shift = np.concatenate([np.repeat([m, -m], [up, down]) for m, up, down in moves.shifts or ()])
        noise = np.zeros(trials * len(shift))
        add_noise(law.kernel(), noise, draws)
        x = noise.reshape(trials, len(shift)) + (shift if side == 0 else 0.0)
        ratios = log_ratio(law.log_probability(x - shift), law.log_probability(x))
        return np.asarray(ratios.sum(axis=1, keepdims=True))
