r"""One message of each user, through a shuffler: an item of one step that she alone draws, randomised on her device.

A user's device draws one of the H steps evenly, by coins of its own, and takes its item

    (state, action, successor or end, reward bit)                         with the step, where laws differ by step.

It sends the item by k-ary randomised response over the k items that the public policy leaves possible, and the shuffler
permutes the messages of a batch. All of a batch follow one policy, so k is public. What is left is a histogram over k
items to which a false item adds q and the true one p. With n messages,

    estimate of a count  =  H (reports - n q cells) / (p - q),

where ``cells`` are the items that feed the count. In contrast to bits that are answered for each counter
(:mod:`discreet.mechanisms.messages.answered_bits`) a device seals one message and not one for each counter; in contrast
to reports of the local model (:mod:`discreet.mechanisms.messages.sampled_item`) nobody else learns the step, so that
all users of a batch hide each other whichever steps they drew.

With P0 = q cells, the variance of a count to which a user brings v visits is, over lies and the drawn step,

    H^2 P0 (1 - P0) / (p - q)^2  +  v H (1 - 2 P0) / (p - q)  -  v^2                                     for every user.

A release states the first term, which is public; ``width`` and ``radius`` bound the second by the estimate itself.

**Formal guarantees.** Every user is in one batch, and (p, q) is the most truthful response for its size and its k that
keeps (epsilon, delta) for replacing one whole trajectory, whatever the others have
(:mod:`discreet.noise.shuffled_histogram`). ``absent`` is the share of a batch that may stay silent or side with the
analyser: their messages hide nobody, so n is what remains. k is a function of the policy, and each batch has the law of
its own k. Should the shuffler fail, the message alone is pure, with the loss that ``unshuffled`` says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from discreet.base.policies import AnyPolicy, Policy
from discreet.base.shape import Shape
from discreet.base.types import ArrayLike, Floats, Integers, Mask
from discreet.mechanisms.counts.encoder import Context
from discreet.mechanisms.counts.sampled_step import SampledStep
from discreet.mechanisms.mechanism import MessageTerms, RadiusOf, Tabular, WidthOf
from discreet.mechanisms.messages.sampled_item import action_weights, report_width
from discreet.mechanisms.messages.survey import STATISTICS, DecodedRun, draw_answers, even
from discreet.mechanisms.release import UNMIXED, Estimate, MixedBlocks
from discreet.mechanisms.sums.accumulator import NoiseSource, coins_of
from discreet.noise.randomized_response import KaryRandomizedResponse
from discreet.noise.shuffled_histogram import ShuffledItems, calibrate_items, foreseen_items
from discreet.privacy.guarantee import Guarantee, from_reports, locally
from discreet.privacy.messages import SampledItems, ShuffledItem
from discreet.privacy.profiles import PureProfile
from discreet.privacy.words import rounded_up

_PLAYED = 0.85  # of sqrt(A) actions: plans that differ from step to step play several in a state


class Items(NamedTuple):
    """What a user may send under one public policy: item i is the i-th of ``cells``; one past them is "ended"."""

    cells: Mask  # (groups, S, A, S + 1, 2): steps in one group where their laws are the same
    number: int  # of items, with the one for a record that had ended, where such records were declared


@dataclass(frozen=True)
class ItemChannel(Tabular):
    """One randomised item of each user, as truthful as the size of each batch and the policy's items allow.

    ``absent`` is the share of a batch whose messages do not count, ``block`` the size of a usual batch.
    """

    encoder: SampledStep
    epsilon: float
    delta: float
    block: int
    absent: float = 0.0

    @property
    def mixing(self) -> MixedBlocks | None:
        """Every batch has noise of its own."""
        return UNMIXED

    @property
    def law(self) -> ShuffledItems:
        """What a batch of the usual size does to an item, if the policy has one action in each state."""
        return self.counted(self.block, self.fewest)

    @property
    def fewest(self) -> int:
        """The items of a policy that has one action in each state, at all steps."""
        shape = self.encoder.shape
        return self.items(Policy(np.zeros((shape.horizon, shape.states), np.int64))).number

    @property
    def most(self) -> int:
        """The items of a policy that may play anything."""
        return self._items(self._anything()).number

    def items(self, policy: AnyPolicy, masked: bool = True) -> Items:
        """What users can send under a policy: where it may play, and only there if ``masked``."""
        weights = action_weights(self.encoder.shape, policy) if masked else self._anything()
        return self._items(weights)

    def present(self, users: int) -> int:
        """How many users of a batch of that size the promise counts on."""
        # The user who is to be protected is present, so there is at least one.
        return max(1, math.floor((1 - self.absent) * users))

    def counted(self, users: int, items: int) -> ShuffledItems:
        """The messages of a batch of that size that the promise counts on: those of users who are present."""
        return calibrate_items(self.present(users), items, self.epsilon, self.delta)

    def response(self, users: int, items: int) -> KaryRandomizedResponse:
        """How every user of a batch of that size randomises one of so many items."""
        return self.counted(users, items).response

    def certified(self, users: int, items: int) -> Guarantee:
        """The promise of one batch of that size and so many items, computed from the messages of those who count."""
        law = self.counted(users, items)
        return from_reports(
            law.profile(),
            delta=self.delta,
            name=f"one of {items} items in a batch of {users}",
            moves="the item that she sends, at a step that only her device knows",
            law=f"k-ary randomised response with a loss of {rounded_up(law.response.shipped_epsilon, 6)}, and the "
            f"messages of {law.users} users counted: the worst of all that the others may have",
            message=ShuffledItem(items, law.response.lie, law.users - 1),
        )

    def unshuffled(self, users: int, items: int) -> Guarantee:
        """What is left of the promise if the shuffler keeps who sent what: that of the device alone."""
        response = self.response(users, items)
        part = from_reports(
            PureProfile(response.shipped_epsilon),
            delta=0.0,
            name=f"one of {items} items",
            moves="the item that she sends",
            law=f"k-ary randomised response with a loss of {rounded_up(response.shipped_epsilon, 6)}",
            message=SampledItems(1, ((items, response.lie),)),
        )
        return locally(part)

    def form(self, masked: bool) -> dict[str, Any]:
        """How a device makes its message: an item of a step that it draws, numbered per step or for all steps."""
        return {"kind": "one-item", "groups": self.encoder.shape.groups, "masked": masked}

    def terms(self, context: Context, users: int, masked: bool) -> MessageTerms:
        """One message: the number of an item."""
        items = self.items(context.policy, masked).number
        return MessageTerms(1, items, ((items, self.response(users, items).threshold),))

    def start(self, shape: Shape, noise: NoiseSource, masked: bool) -> ItemRun:
        """Begin a run."""
        return ItemRun(self, shape, noise, masked)

    def cells_per_count(self) -> dict[str, int]:
        """How many items feed a count of each statistic, at most."""
        counts = _cells_of(self._items(self._anything()).cells)
        return {name: int(cells.max()) for name, cells in counts.items()}

    def noise_per_row(self) -> float:
        """In a batch of the usual size, for a policy that plays the row always and visits all states alike.

        It is for plans that compare many sizes, so the law of the batch is about the one that it will have.
        """
        shape, present = self.encoder.shape, self.present(self.block)
        played = max(1.0, min(shape.horizon, _PLAYED * math.sqrt(shape.actions)))
        law = foreseen_items(present, round(played * self.fewest), self.epsilon, self.delta).response
        own = self.items(Policy(np.zeros((shape.horizon, shape.states), np.int64)))
        visits = shape.horizon / shape.groups / shape.states
        row = own.cells[:, :, 0].mean(axis=(0, 1))  # items of a row, (S + 1, 2)
        lies = sum(
            copies * float(_lies(law, cells, shape.horizon))
            for cells, copies in ((row.sum(), 1), (row[:, 1].sum(), 1), (2.0, shape.states))
        )
        # Drawn steps thin all counts of a row alike, and learners go by their ratios: charged once, for visits.
        thinned = visits * (shape.horizon / (law.p - law.q) - 1)
        return self.block * (lies + thinned)

    def _anything(self) -> Floats:
        weights = np.ones(self.encoder.table[:3])
        shape = self.encoder.shape
        if shape.start is not None:
            weights[0, np.arange(shape.states) != shape.start] = 0.0
        return weights

    def _items(self, weights: Floats) -> Items:
        slots = self.encoder.slots()
        cells = (weights > 0)[:, :, :, None, None] & slots[:, None, None, :, None] & np.ones(2, np.bool_)
        if self.encoder.shape.groups == 1:
            cells = np.asarray(cells.any(axis=0, keepdims=True))
        return Items(cells, int(cells.sum()) + self.encoder.early_end)


class ItemRun(DecodedRun):
    """Decoded counts of items, added up over batches."""

    KEPT = ("values", "variance", "one_cell", "largest")
    _channel: ItemChannel

    def __init__(self, channel: ItemChannel, shape: Shape, noise: NoiseSource, masked: bool) -> None:
        self._channel, self._shape, self._noise, self._masked = channel, shape, noise, masked
        rows = shape.groups, shape.states, shape.actions
        self._values = np.zeros((*rows, shape.states + 1, 2))
        self._variance = {name: np.zeros(rows) for name in STATISTICS}
        self._one_cell = np.zeros((*rows, 2))  # sums over messages of P0 / (p - q)^2 and (P0 / (p - q))^2 of one cell
        self._largest = np.zeros(rows)  # the most that one message moves a count away from its mean
        self._last: tuple[AnyPolicy, Items] | None = None

    @property
    def channel(self) -> ItemChannel:
        """What its messages are made and read by."""
        return self._channel

    def items(self, policy: AnyPolicy) -> Items:
        """What users can send under a policy."""
        if self._last is None or self._last[0] != policy:
            self._last = policy, self._channel.items(policy, self._masked)
        return self._last[1]

    def add(self, tally: Floats, users: int, context: Context) -> None:
        """Take in a batch of users whose clear items are tallied: what they send is drawn exactly in law."""
        generator = coins_of(
            self._noise,
            "behind a shuffler no tally of clear items exists: let every device send randomize_item(...) and take the "
            "batch in with add_batch",
        )
        items = self.items(context.policy)
        clear = self._channel.encoder.split(tally)[0]
        clear = clear.sum(axis=0, keepdims=True) if self._shape.groups == 1 else clear
        law = self._channel.response(users, items.number)
        sent = draw_messages(law, items, clear, users, generator)
        self.add_batch(sent, users, context.policy, planned=users)

    def add_batch(self, sent: Floats, messages: int, policy: AnyPolicy, *, planned: int) -> None:
        """Take in how often each cell was sent, in so many messages.

        ``planned`` is the size of the batch that devices were told, by which they chose their law.
        """
        items = self.items(policy)
        law, horizon = self._channel.response(planned, items.number), self._shape.horizon
        weight = law.p - law.q
        self._values += np.where(items.cells, horizon * (sent - messages * law.q) / weight, 0.0)
        played = np.asarray(items.cells.any(axis=(3, 4)))
        for name, cells in _cells_of(items.cells).items():
            self._variance[name] += messages * _lies(law, cells, horizon)
        self._one_cell += messages * played[..., None] * np.array([law.q, law.q**2]) * (horizon / weight) ** 2
        self._largest = np.maximum(self._largest, played * horizon / weight)

    def add_messages(self, counts: Integers, users: int, context: Context) -> None:
        """Take in the messages of a batch of devices, by the item that they name; decoded from those that were read."""
        items = self.items(context.policy)
        sent = np.zeros(items.cells.shape)
        sent[items.cells] = counts[: int(items.cells.sum())]
        self.add_batch(sent, int(counts.sum()), context.policy, planned=users)

    def estimates(self) -> dict[str, Estimate]:
        """Decoded counts, with the part of their variance that is public."""
        values = {
            "visits": self._values.sum(axis=(3, 4)),
            "transitions": self._values[:, :, :, :-1].sum(axis=4),
            "rewards": self._values[..., 1].sum(axis=3),
        }
        return {name: Estimate(values[name], self._variance[name].copy()) for name in STATISTICS}

    def width_now(self) -> WidthOf:
        """Bernstein's bound on the error of a sum of cells of each row."""
        return self._bound(always=False)

    def radius_now(self) -> RadiusOf:
        """The same for all releases at once, however policies were chosen: Freedman's bound, peeled by variance."""
        bound, cells = self._bound(always=True), self._channel.cells_per_count()
        cells["followed"] = cells["transitions"] * self._shape.states
        return lambda statistic, failure_probability: bound(cells[statistic], failure_probability)

    def _bound(self, always: bool) -> WidthOf:
        return report_width(self._one_cell, self._values.sum(axis=(3, 4)), self._largest, always=always)


def draw_messages(
    law: KaryRandomizedResponse, items: Items, clear: Floats, users: int, generator: np.random.Generator
) -> Floats:
    """How often each cell is sent, drawn exactly in law from the tally of clear items; cost independent of users.

    A coin shows the truth with probability p - q; all other messages are drawn evenly. Users whose record had ended say
    so where that is an item; those without an item send an even one.
    """
    cells = items.cells
    truths = clear[cells].astype(np.int64)
    ended = items.number - len(truths)
    if ended:
        truths = np.append(truths, users - int(clear.sum()))
    said = draw_answers(truths, users, law.p, law.q, even(items.number), generator)
    sent = np.zeros(cells.shape)
    sent[cells] = said[: len(truths) - ended]
    return sent


def _cells_of(cells: Mask) -> dict[str, Floats]:
    """How many items feed a count of each statistic, in every row; a transition has as many as its row's likeliest."""
    followed = cells[:, :, :, :-1].sum(axis=4).max(axis=3)
    counts = {"visits": cells.sum(axis=(3, 4)), "transitions": followed, "rewards": cells[..., 1].sum(axis=3)}
    return {name: np.asarray(number, np.float64) for name, number in counts.items()}


def _lies(law: KaryRandomizedResponse, cells: ArrayLike, horizon: int) -> Floats:
    """The variance of a decoded count of so many cells for one message of another item."""
    false = np.asarray(cells) * law.q
    return np.asarray(false * (1 - false) * (horizon / (law.p - law.q)) ** 2)
