"""What a user's device runs in the local model: her record in, randomised reports out. It knows nothing else.

The public context is the policy, the channel and the steps that public coins picked for her. ``randomize_record`` draws
from the operating system's entropy; with a generator it is a simulation. ``count_reports`` is the server's side: it
turns reports into the counts that :meth:`~discreet.mechanisms.messages.sampled_item.ReportRun.add_reports` decodes.
``count_messages`` does the same for whole messages, one of each user, and first refuses any that no device sends.

Behind a shuffler a device sends one item: ``randomize_item`` makes it, and ``count_items`` counts those of a batch for
:meth:`~discreet.mechanisms.messages.shuffled_item.ItemRun.add_batch`.

In the central model nothing is randomised on a device: ``tally_records`` adds up the encodings of the records that a
trusted curator holds, once she has checked that they lie in the declared domain.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import numpy as np

from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.policies import AnyPolicy, Policy, StochasticPolicy
from discreet.base.shape import Shape
from discreet.base.streams import Stream
from discreet.base.types import Floats, Integers
from discreet.base.validation import check_count
from discreet.mechanisms.counts.encoder import Context, Encoder, encode_all, reward_bit
from discreet.mechanisms.messages.sampled_item import Domain, ReportChannel
from discreet.mechanisms.messages.shuffled_item import ItemChannel
from discreet.mechanisms.trajectories import Trajectories


class Report(NamedTuple):
    """What leaves the device for one picked step: an item (k-ary) or one bit per item (unary)."""

    step: int
    message: Integers


def pick_steps(channel: ReportChannel, coins: np.random.Generator) -> list[int]:
    """The steps that a user is asked about: public, and drawn before she acts."""
    horizon, steps = channel.encoder.shape.horizon, channel.encoder.steps
    return sorted(int(h) for h in coins.choice(horizon, steps, replace=False))


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
    if len(record) != 1:
        raise InvalidInput(f"a device holds one user's record, got {len(record)}")
    check_records(channel.encoder.shape, record)
    _check_followed(channel, policy)
    if len(set(steps)) != len(steps) or len(steps) != channel.encoder.steps:
        raise InvalidInput(f"this channel asks about {channel.encoder.steps} different steps, got {list(steps)}")
    domain = channel.domain(policy, masked=masked)
    positions = _positions(domain)
    seed = generator.integers(2**64, dtype=np.uint64) if generator is not None else secrets.randbits(64)
    coins: Stream = np.array([seed], np.uint64)  # for rounding rewards only, which is not what privacy rests on
    reports = []
    for h in steps:
        check_count("step", h, at_least=0)
        law = channel.law_at(domain, h)
        item = _item(channel, record, positions[h], h, coins)
        if item is None:  # ended, and nobody declared that records may end: an even lie hides it
            item = secrets.randbelow(law.items) if generator is None else int(generator.integers(law.items))
        sent = law.randomize_securely(item) if generator is None else law.randomize(item, generator)
        reports.append(Report(h, np.atleast_1d(sent)))
    return reports


def count_reports(
    channel: ReportChannel, policy: AnyPolicy, reports: Iterable[Report], *, masked: bool = True
) -> tuple[Floats, Floats]:
    """How often each cell was reported by users under one policy, and how many were asked at each step."""
    table = channel.encoder.table
    counts, asked = np.zeros((table[0], int(np.prod(table[1:])))), np.zeros(table[0])
    positions = _positions(channel.domain(policy, masked=masked))
    for h, message in reports:
        asked[h] += 1
        items = np.flatnonzero(message) if channel.response == "unary" else message
        cells = positions[h]
        counts[h, cells[items[items < len(cells)]]] += 1  # an item past the cells says that the record had ended
    return counts.reshape(table), asked


def check_message(channel: ReportChannel, policy: AnyPolicy, message: Sequence[Report], *, masked: bool = True) -> None:
    """Refuse a message that no device makes under this policy: other steps, other items, other numbers of bits."""
    items, asked = items_of(channel, policy, masked), [report.step for report in message]
    if len(asked) != channel.encoder.steps or not all(type(h) is int and 0 <= h < len(items) for h in asked):
        raise InvalidInput(f"a message is about {channel.encoder.steps} of the steps 0..{len(items) - 1}")
    if asked != sorted(set(asked)):
        raise InvalidInput("a message names each of its steps once, in order")
    unary = channel.response == "unary"
    for h, sent in message:
        least, most, size = (0, 1, items[h]) if unary else (0, items[h] - 1, 1)
        if sent.shape != (size,) or sent.dtype.kind not in "iu" or int(sent.min()) < least or int(sent.max()) > most:
            what = f"{items[h]} bits" if unary else f"one item in 0..{items[h] - 1}"
            raise InvalidInput(f"a message has {what} at step {h} under this policy")


@lru_cache(maxsize=64)
def items_of(channel: ReportChannel, policy: AnyPolicy, masked: bool = True) -> tuple[int, ...]:
    """How many items a user can report at each step under a policy."""
    _check_followed(channel, policy)
    shape = channel.encoder.shape
    table = (shape.horizon, shape.states)
    if isinstance(policy, StochasticPolicy):
        fits = policy.probabilities.shape == (*table, shape.actions)
    else:
        fits = isinstance(policy, Policy) and policy.actions.shape == table and policy.actions.max() < shape.actions
    if not fits:
        raise InvalidInput(
            f"a policy must have an action below {shape.actions} for {shape.horizon} steps and {shape.states} states"
        )
    return tuple(step.items for step in channel.domain(policy, masked=masked).steps)


def count_messages(
    channel: ReportChannel, policy: AnyPolicy, messages: Sequence[Sequence[Report]], *, masked: bool = True
) -> tuple[Floats, Floats]:
    """The counts of whole messages, one of each user; all of them are checked before any is counted."""
    items_of(channel, policy, masked)
    for message in messages:
        check_message(channel, policy, message, masked=masked)
    return count_reports(channel, policy, chain.from_iterable(messages), masked=masked)


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
    if len(record) != 1:
        raise InvalidInput(f"a device holds one user's record, got {len(record)}")
    check_records(channel.encoder.shape, record)
    if not isinstance(policy, Policy):
        raise Unsupported("draw the actions of a stochastic policy or mixture with public coins before the user acts")
    items = channel.items(policy, masked)
    law = channel.response(users, items.number)

    def below(number: int) -> int:
        return secrets.randbelow(number) if generator is None else int(generator.integers(number))

    shape = channel.encoder.shape
    h = below(shape.horizon)
    seed = generator.integers(2**64, dtype=np.uint64) if generator is not None else secrets.randbits(64)
    coins: Stream = np.array([seed], np.uint64)  # for rounding rewards only, which is not what privacy rests on
    cells = np.flatnonzero(items.cells[0 if shape.groups == 1 else h])
    item = _item(channel, record, cells, h, coins)
    if item == len(cells):
        item = items.number - 1  # the record had ended
    elif item is None:  # no item of the policy's: an even one hides that
        item = below(items.number)
    elif shape.groups > 1:
        item += int(items.cells[:h].sum())
    sent = law.randomize_securely(item) if generator is None else law.randomize(item, generator)
    return int(sent)


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


def _check_followed(channel: ReportChannel, policy: AnyPolicy) -> None:
    """Refuse policies whose actions a device would draw by itself where the server does not expect that."""
    if isinstance(policy, Policy) or (channel.own_actions and isinstance(policy, StochasticPolicy)):
        return
    raise Unsupported(
        "devices report under policies that say one action, and with own_actions=True under stochastic ones: take "
        "those, or draw the actions with public coins before the user acts"
    )


def _positions(domain: Domain) -> list[Integers]:
    """For each step the cells that items stand for, in the order of the items."""
    return [np.flatnonzero(cells) for cells in domain.cells]


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
