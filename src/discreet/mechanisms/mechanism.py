"""What a channel is: one statistic's way out, from tallies of users to estimates with noise of a known law.

A channel is frozen data: what is tallied (an encoder), with which noise, and how tallies become releases. ``start``
begins a run, which takes in one tally after another and says what has been released so far. A channel run never asks
for data: it is handed sums of encodings, by a session that asked users for them or by a service that received them.

``Tabular`` and ``PlainRun`` are what most channels and runs have in common; a new channel on top of them is ``start``,
``add``, ``estimates`` and ``width_now``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from discreet.base.shape import Shape
from discreet.base.types import Floats, Integers, Mask
from discreet.mechanisms.counts.encoder import Context, Encoder, Statistic, playable_rows
from discreet.mechanisms.release import Estimate, MixedBlocks
from discreet.mechanisms.sums.accumulator import NoiseSource
from discreet.noise.distribution import Law
from discreet.privacy.sensitivity import Sensitivity
from discreet.privacy.words import StatedLaw

WidthOf = Callable[[int, float], Floats]


RadiusOf = Callable[[str, float], Floats]


class ChannelRun(Protocol):
    """A channel at work: takes in tallies, gives out estimates."""

    @property
    def public(self) -> Mapping[str, Floats]:
        """Tables that a release states beside its statistics, which need no noise: functions of what is public."""

    def encoder_now(self, context: Context) -> Encoder:
        """What the next users are encoded with: a function of the question and of what has been released."""

    def add(self, tally: Floats, users: int, context: Context) -> None:
        """Take in the sum of the encodings of some users who acted under the context's policy."""

    def estimates(self) -> dict[str, Estimate]:
        """The statistics released so far, with the variance of their noise."""

    def width_now(self) -> WidthOf:
        """The bound on the noise in a sum of cells of each row, as it is now: it must not hold on to the run."""

    def radius_now(self) -> RadiusOf | None:
        """The bound on the noise in one count that holds for all releases at once; None where none is stated."""


class Mechanism(NamedTuple):
    """One noisy statistic: how many cells it has, what one user moves in it, and the noise."""

    name: str
    cells: int
    sensitivity: Sensitivity
    law: StatedLaw


class AnyChannel(Protocol):
    """One statistic's way out. ``answers`` are the kinds of narrow requests (Layer, Linear) that it can serve."""

    @property
    def answers(self) -> frozenset[type]:
        """The kinds of narrow requests that it can serve: Layer, Linear, or none."""

    @property
    def encoder(self) -> Encoder:
        """What is tallied."""

    @property
    def share(self) -> float:
        """Its part of the budget; zero for what was declared public and leaves as it is."""

    @property
    def mixes(self) -> bool:
        """Whether it serves policies that draw actions or components, or only those that say one action."""

    @property
    def mixing(self) -> MixedBlocks | None:
        """How blocks are mixed before they get noise of their own; None where releases do not tell what each told."""

    def start(self, shape: Shape, noise: NoiseSource, masked: bool) -> ChannelRun:
        """Begin a run. ``masked``: counts that the public policy makes known zeros carry no noise."""

    def noise_per_row(self) -> float:
        """The noise variance in all counts of one (state, action) of one release; "auto" weighs it."""

    def cells_per_count(self) -> dict[str, int]:
        """How many noisy cells a count of each statistic sums, at most."""

    def shortcut(self, blocks: list[int]) -> list[int]:
        """Fewer blocks, the first one kept, that leave as much noise in the last release as these do."""

    def mechanisms(self) -> tuple[Mechanism, ...]:
        """Everything that leaves, with what one user moves in it and the noise that hides that; for receipts."""


class MessageTerms(NamedTuple):
    """What every device of one batch does: it sends ``messages`` messages, each a whole number below ``values``.

    ``laws`` are the laws of its randomiser: a number of items, and the threshold of a wrong one in units of 2^-62.
    """

    messages: int
    values: int
    laws: tuple[tuple[int, int], ...]


@runtime_checkable
class MessageChannel(Protocol):
    """A channel whose users randomise small whole numbers on their devices and send them through a shuffler."""

    def form(self, masked: bool) -> dict[str, Any]:
        """How a device makes its messages from a record; refused where devices cannot yet."""

    def terms(self, context: Context, users: int, masked: bool) -> MessageTerms:
        """What each of ``users`` users of a batch sends under the context's policy."""


@runtime_checkable
class MessageRun(Protocol):
    """The run of a :class:`MessageChannel` where real devices send the messages."""

    def add_messages(self, counts: Integers, users: int, context: Context) -> None:
        """Take in a batch: ``counts[v]`` of its readable messages said v."""


class _Encoded(Protocol):
    @property
    def encoder(self) -> Encoder:
        """What is tallied."""


class _Noisy(_Encoded, Protocol):
    @property
    def law(self) -> Law:
        """The noise in every cell."""


class Tabular:
    """The answers that most channels give: noise of one ``law`` in all cells of an ``encoder``."""

    @property
    def answers(self) -> frozenset[type]:
        """No narrow requests: whole tables only."""
        return frozenset()

    @property
    def share(self) -> float:
        """One, unless a channel says otherwise; zero would mean that what leaves was declared public."""
        return 1.0

    @property
    def mixes(self) -> bool:
        """Any policy is served, unless a channel says otherwise."""
        return True

    @property
    def mixing(self) -> MixedBlocks | None:
        """Not said, unless a channel says it: noise may be counted by users, or by nodes of a tree."""
        return None

    def noise_per_row(self: _Noisy) -> float:
        """The noise variance in all counts of one (state, action) of one release."""
        return float(self.law.variance * counts_per_row(self.encoder))

    def cells_per_count(self: _Encoded) -> dict[str, int]:
        """How many noisy cells a count of each statistic sums, at most."""
        return {name: int(statistic.cells.max()) for name, statistic in _empty(self.encoder).items()}

    def shortcut(self, blocks: list[int]) -> list[int]:
        """All blocks: noise is drawn per release, so none may be left out."""
        return blocks

    def mechanisms(self: _Noisy) -> tuple[Mechanism, ...]:
        """One entry: all cells of the encoder, with their noise."""
        encoder = self.encoder
        return (Mechanism(encoder.name, encoder.size, encoder.sensitivity(), self.law),)


class PlainRun:
    """The answers that most runs give: everybody is encoded alike, and no bound holds for all releases."""

    _channel: AnyChannel

    @property
    def public(self) -> Mapping[str, Floats]:
        """The tables that the encoder declares public."""
        return self._channel.encoder.public

    def encoder_now(self, context: Context) -> Encoder:
        """The channel's encoder, whatever is asked."""
        return self._channel.encoder

    def radius_now(self) -> RadiusOf | None:
        """None: no bound that holds for all releases is stated."""
        return None


def counts_per_row(encoder: Encoder) -> float:
    """How many noisy cells all counts of one (state, action) sum."""
    return float(sum(float(s.cells.mean()) * s.values[0, 0, 0].size for s in _empty(encoder).values()))


def row_shape(shape: Shape) -> tuple[int, int, int]:
    """The rows of a table: (groups, states, actions)."""
    return shape.groups, shape.states, shape.actions


def asked_rows(shape: Shape, context: Context, masked: bool) -> Mask:
    """The rows that are released: those that the public policy can play, or all of them."""
    return playable_rows(shape, context.policy) if masked else np.ones(row_shape(shape), np.bool_)


def estimated(encoder: Encoder, values: Floats, unit: Floats) -> dict[str, Estimate]:
    """All statistics of released cells; ``unit`` is the variance of the noise in one cell of each row."""
    return {
        name: Estimate(statistic.values.copy(), unit * statistic.cells)
        for name, statistic in encoder.marginals(values).items()
    }


def widths(law: Law, copies: Integers, failure_probability: float) -> Floats:
    """The exact quantile of the noise in each entry, computed once per distinct number of draws."""
    distinct, where = np.unique(copies, return_inverse=True)
    quantiles = [0.0 if n == 0 else float(law.sum_quantile(int(n), failure_probability)) for n in distinct]
    return np.asarray(quantiles)[where].reshape(copies.shape)


def _empty(encoder: Encoder) -> dict[str, Statistic]:
    return encoder.marginals(np.zeros(encoder.size))
