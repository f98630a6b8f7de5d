"""What a user's device runs in the local model: her record in, randomised reports out. It knows nothing else.

The public context is the policy, the channel and the steps that public coins picked for her. ``randomize_record`` draws
from the operating system's entropy; with a generator it is a simulation. ``count_reports`` is the server's side: it
turns reports into the counts that :meth:`~discreet.channels.sampled_item.ReportRun.add_reports` decodes.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from discreet.channels.sampled_item import Domain, ReportChannel
from discreet.encoders.base import reward_bit
from discreet.errors import InvalidInput, Unsupported
from discreet.policies import Policy
from discreet.streams import Stream
from discreet.trajectories import Trajectories
from discreet.types import Floats, Integers
from discreet.validation import check_count


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
    policy: Policy,
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
    if not isinstance(policy, Policy):
        raise Unsupported("draw the actions of a stochastic policy or mixture with public coins before the user acts")
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
    channel: ReportChannel, policy: Policy, reports: Iterable[Report], *, masked: bool = True
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


def _positions(domain: Domain) -> list[Integers]:
    """For each step the cells that items stand for, in the order of the items."""
    return [np.flatnonzero(cells) for cells in domain.cells]


def _item(channel: ReportChannel, record: Trajectories, cells: Integers, h: int, coins: Stream) -> int | None:
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
