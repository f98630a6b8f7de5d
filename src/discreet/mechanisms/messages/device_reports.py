"""What a user's device runs: her record in, one randomised answer out. It knows nothing else.

The public context is the policy, the mechanism, and what public coins picked for her: some steps
(``randomize_record``), or one question (``randomize_answer``), a number: 2 r + 0 asks where her first visit of row
r = state * actions + action led, 2 r + 1 which reward bit it brought. Behind a shuffler a device sends one item
(``randomize_item``). All of them draw from the operating system's entropy; with a generator it is a simulation. What
arrives is refused or counted by :class:`~discreet.mechanisms.messages.survey.Survey`, items of a batch by
``count_items``.

In the central model nothing is randomised on a device: ``tally_records`` adds up the encodings of the records that a
trusted curator holds, once she has checked that they lie in the declared domain.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence

import numpy as np

from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.policies import AnyPolicy, Policy
from discreet.base.shape import Shape
from discreet.base.streams import Stream
from discreet.base.types import Floats, Integers
from discreet.base.validation import check_count
from discreet.mechanisms.counts.encoder import Context, Encoder, encode_all, reward_bit
from discreet.mechanisms.counts.first_visit_question import SUCCESSOR
from discreet.mechanisms.messages.asked_first_visit import AskedChannel
from discreet.mechanisms.messages.sampled_item import ReportChannel
from discreet.mechanisms.messages.shuffled_item import ItemChannel
from discreet.mechanisms.messages.survey import ItemLaw
from discreet.mechanisms.messages.survey import Report as Report
from discreet.mechanisms.trajectories import Trajectories


def pick_steps(channel: ReportChannel, coins: np.random.Generator) -> list[int]:
    """The steps that a user is asked about: public, and drawn before she acts."""
    horizon, steps = channel.encoder.shape.horizon, channel.encoder.steps
    return sorted(int(h) for h in coins.choice(horizon, steps, replace=False))


def draw_question(weights: Sequence[int], coins: np.random.Generator) -> int:
    """The question that a user is asked: public, and drawn before she acts."""
    shares = np.array(weights, np.float64)
    if not (np.isfinite(shares).all() and (shares >= 0).all() and shares.any()):
        raise InvalidInput("weights of questions are numbers that are not negative, nor all zero")
    row = int(coins.choice(len(shares), p=shares / shares.sum()))
    return 2 * row + int(coins.integers(2))


def randomize_record(
    channel: ReportChannel,
    record: Trajectories,
    policy: AnyPolicy,
    steps: Sequence[int],
    generator: np.random.Generator | None = None,
    *,
    masked: bool = True,
) -> list[Report]:
    """The reports of one user about the picked steps; without a generator, from the operating system's entropy.

    ``masked`` is the privatizer's: whether items are only what the policy can play. The server must say the same.
    """
    _check_one(channel.encoder.shape, record)
    asks = channel.asks(policy, masked)
    if len(set(steps)) != len(steps) or len(steps) != channel.encoder.steps:
        raise InvalidInput(f"this channel asks about {channel.encoder.steps} different steps, got {list(steps)}")
    coins, cells = _coins(generator), math.prod(channel.encoder.table[1:])
    reports = []
    for h in steps:
        check_count("step", h, at_least=0)
        law, item = asks.laws[h], _item(channel, record, asks.places[h] - h * cells, h, coins)
        if item is None:  # ended, and nobody declared that records may end: an even lie hides it
            item = _below(law.items, generator)
        reports.append(Report(h, _sent(law, item, generator)))
    return reports


def randomize_answer(
    channel: AskedChannel, record: Trajectories, question: int, generator: np.random.Generator | None = None
) -> Report:
    """The answer of one user to a question; without a generator, from the operating system's entropy."""
    _check_one(channel.encoder.shape, record)
    if type(question) is not int or not 0 <= question < 2 * channel.encoder.rows:
        raise InvalidInput(f"a question is a number in 0..{2 * channel.encoder.rows - 1}, got {question!r}")
    answer = true_answer(channel, record, question, _coins(generator))
    return Report(question, _sent(channel.law_of(question % 2), answer, generator))


def true_answer(channel: AskedChannel, record: Trajectories, question: int, coins: Stream) -> int:
    """What a record answers to a question, before it is randomised; the last answer is "none"."""
    shape, length = channel.encoder.shape, int(record.lengths[0])
    (row, about), none = divmod(question, 2), channel.law_of(question % 2).items - 1
    visited = np.flatnonzero(record.states[0, :length] * shape.actions + record.actions[0, :length] == row)
    if not len(visited):
        return none
    h = int(visited[0])
    if about == SUCCESSOR:
        return int(record.states[0, h + 1]) if h + 1 < length else none
    return int(reward_bit(float(record.rewards[0, h]), shape.rewards[0], shape.reward_span, coins))


def randomize_item(
    channel: ItemChannel,
    record: Trajectories,
    policy: Policy,
    users: int,
    generator: np.random.Generator | None = None,
    *,
    masked: bool = True,
) -> int:
    """The one message of a user in a batch of ``users``, as planned; without a generator, from the system's entropy.

    The step is drawn here and told to nobody: that all steps are equally likely is part of the promise.
    """
    _check_one(channel.encoder.shape, record)
    if not isinstance(policy, Policy):
        raise Unsupported("draw the actions of a stochastic policy or mixture with public coins before the user acts")
    items = channel.items(policy, masked)
    law = channel.response(users, items.number)
    shape = channel.encoder.shape
    h, coins = _below(shape.horizon, generator), _coins(generator)
    cells = np.flatnonzero(items.cells[0 if shape.groups == 1 else h])
    item = _item(channel, record, cells, h, coins)
    if item == len(cells):
        item = items.number - 1  # the record had ended
    elif item is None:  # no item of the policy's: an even one hides that
        item = _below(items.number, generator)
    elif shape.groups > 1:
        item += int(items.cells[:h].sum())
    return int(_sent(law, item, generator)[0])


def count_items(channel: ItemChannel, policy: AnyPolicy, messages: Sequence[int], *, masked: bool = True) -> Floats:
    """How often each cell was sent by users under one policy; all messages are checked before any is counted."""
    items = channel.items(policy, masked)
    for message in messages:
        if type(message) is not int or not 0 <= message < items.number:
            raise InvalidInput(f"a message is one item in 0..{items.number - 1} under this policy")
    counts = np.bincount(np.asarray(messages, np.int64), minlength=items.number)
    sent = np.zeros(items.cells.shape)
    sent[items.cells] = counts[: int(items.cells.sum())]
    return sent


def tally_records(encoders: Sequence[Encoder], context: Context, records: Trajectories) -> list[Floats]:
    """For each encoder the sum of the encodings of these records: what ``Users.tally`` does for users who act."""
    if context.what is not None:
        raise Unsupported("records are tallied for whole tables, not for one layer or a linear question")
    coins: Stream = np.array([secrets.randbits(64)], np.uint64)  # for rounding rewards, which hides nothing
    tallies = []
    for encoder in encoders:
        check_records(encoder.shape, records)
        total = np.zeros((1, encoder.size))
        t = records
        encode_all(encoder.arrays(), t.states, t.actions, t.rewards, t.lengths, coins, total)
        tallies.append(total[0])
    return tallies


def check_records(shape: Shape, records: Trajectories) -> None:
    """Refuse records outside the declared domain: compiled encoders trust what they are given."""
    table, t = (len(records), shape.horizon), records
    if not t.states.shape == t.actions.shape == t.rewards.shape == table or t.lengths.shape != table[:1]:
        raise InvalidInput(f"records need states, actions and rewards at {shape.horizon} steps")
    if any(numbers.dtype.kind not in "iu" for numbers in (t.states, t.actions, t.lengths)):
        raise InvalidInput("a record has states, actions or a length that are no whole numbers")
    if not ((t.lengths >= 0) & (t.lengths <= shape.horizon)).all():
        raise InvalidInput(f"a record has more than {shape.horizon} steps")
    taken = np.arange(shape.horizon) < t.lengths[:, None]
    for name, numbers, end in (("a state", t.states, shape.states), ("an action", t.actions, shape.actions)):
        if not (((numbers >= 0) & (numbers < end)) | ~taken).all():
            raise InvalidInput(f"a record has {name} outside the declared domain 0..{end - 1}")
    if not (np.isfinite(t.rewards) | ~taken).all():
        raise InvalidInput("a record has a reward that is no finite number")


def _check_one(shape: Shape, record: Trajectories) -> None:
    if len(record) != 1:
        raise InvalidInput(f"a device holds one user's record, got {len(record)}")
    check_records(shape, record)


def _coins(generator: np.random.Generator | None) -> Stream:
    """For rounding rewards only, which is not what privacy rests on."""
    seed = generator.integers(2**64, dtype=np.uint64) if generator is not None else secrets.randbits(64)
    return np.array([seed], np.uint64)


def _below(number: int, generator: np.random.Generator | None) -> int:
    return secrets.randbelow(number) if generator is None else int(generator.integers(number))


def _sent(law: ItemLaw, item: int, generator: np.random.Generator | None) -> Integers:
    """What leaves the device."""
    return np.atleast_1d(law.randomize_securely(item) if generator is None else law.randomize(item, generator))


def _item(
    channel: ReportChannel | ItemChannel, record: Trajectories, cells: Integers, h: int, coins: Stream
) -> int | None:
    encoder, length = channel.encoder, int(record.lengths[0])
    over = len(cells) if encoder.early_end else None
    if h >= length:
        return over
    shape = encoder.shape
    successor = int(record.states[0, h + 1]) if h + 1 < length else shape.states
    low, high = encoder.reward_range
    bit = int(reward_bit(float(record.rewards[0, h]), low, high - low, coins))
    place = (int(record.states[0, h]), int(record.actions[0, h]), successor, bit)
    cell = int(np.ravel_multi_index(place, encoder.table[1:]))
    where = int(np.searchsorted(cells, cell))
    return where if where < len(cells) and cells[where] == cell else None
