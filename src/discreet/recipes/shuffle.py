"""To be described."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from discreet.accumulators.schedule import Equal, GrowThenEqual, Schedule, sizes
from discreet.channels.shuffled_bits import _MOST_BLOCKS, FEWEST_BLOCKS, ShuffledChannel
from discreet.encoders.base import Encoder
from discreet.encoders.first_visit import FirstVisit
from discreet.encoders.joint import JointHistogram
from discreet.encoders.tables import ThreeTables
from discreet.errors import InvalidInput, Unsupported
from discreet.privacy.guarantee import Guarantee, billboard, parallel, shuffled
from discreet.recipes.recipe import Options, Recipe
from discreet.recipes.session import Privatizer
from discreet.recipes.trust import Privacy
from discreet.shape import Shape
from discreet.validation import check_count, check_not_negative

_ENCODERS: Mapping[str, Callable[[Shape], Encoder]] = {
    "first-visit": FirstVisit,
    "joint-histogram": JointHistogram,
    "three-tables": ThreeTables,
}


_OPTIONS = {
    "blocks": None,
    "first": None,
    "masked": True,
    "dropouts": 0.0,
    "colluding": 0.0,
    "messages": "bits",
    "bit_level": False,
}


class _Batched(Protocol):
    @property
    def law(self) -> Any:
        """The noise in one counter of a batch of the usual size."""


def _build(encoder_name: str, privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    name = f"shuffle/{encoder_name}-binomial"
    if privacy.epsilon is None:
        raise Unsupported("binomial noise has no zero-concentrated parameter: give epsilon and delta, not rho")
    if options["messages"] != "bits":
        raise Unsupported(
            f"messages={options['messages']!r} is refused: a user who adds her noise bits to her true bit before "
            "sending is given away by the largest sum, whatever epsilon is; send separate bits (messages='bits')"
        )
    encoder = _ENCODERS[encoder_name](shape)
    if not encoder.sensitivity().unit:
        raise Unsupported(
            f"{encoder_name} counts pooled over {shape.horizon} steps move by more than one, which binomial noise does "
            "not hide: use first-visit counts, or declare the world per step"
        )
    channel = ShuffledChannel(
        encoder,
        privacy.epsilon,
        privacy.delta,
        max(1, episodes // FEWEST_BLOCKS),
        absent_share(options),
        bool(options["bit_level"]),
    )
    schedule = schedule_for(options, channel, episodes)
    blocks = sizes(schedule, episodes)
    channel = replace(channel, block=max(blocks))
    guarantee = _guarantee(channel, sorted({min(blocks), max(blocks)}), schedule)
    return Privatizer(name, shape, (channel,), schedule, guarantee, bool(options["masked"]), options)


def absent_share(options: Options) -> float:
    """The share of a batch whose noise must not be counted."""
    shares = [check_not_negative(name, options[name]) for name in ("dropouts", "colluding")]
    if sum(shares) >= 1:
        raise InvalidInput(f"dropouts and colluding are {sum(shares):g} together, which leaves nobody: stay below 1")
    return sum(shares)


def schedule_for(options: Options, channel: _Batched, episodes: int) -> Schedule:
    """The batches that options ask for, or as many as the noise of a usual one allows."""
    blocks = check_count("blocks", _blocks(channel, episodes) if options["blocks"] is None else options["blocks"])
    if options["first"] is not None:
        return GrowThenEqual(blocks, options["first"])
    return Equal(min(blocks, episodes))


def _blocks(channel: _Batched, episodes: int) -> int:
    """As many blocks as leave each of them some visits above the noise: 12 users per standard deviation."""
    largest = episodes / (12.0 * math.sqrt(channel.law.variance))
    return min(episodes, max(FEWEST_BLOCKS, min(_MOST_BLOCKS, int(largest))))


def _guarantee(channel: ShuffledChannel, blocks: list[int], schedule: Schedule) -> Guarantee:
    usual = channel.bits(channel.block)
    sent = f"each user sends her bit and noise bits for every counter ({usual.bits} in a batch of {channel.block})"
    counted = "everybody's noise counted" if not channel.absent else f"{1 - channel.absent:.4g} of the noise counted"
    whole = shuffled(
        [channel.certified(users) for users in blocks],
        epsilon=channel.epsilon,
        delta=channel.delta,
        why=f"{sent}, permuted per counter and batch; noise bits are chosen for the size of each batch, {counted}",
    )
    batches = f"{schedule.describe()}, or sizes that the learner asks for"
    return billboard(parallel(whole, f"every user is in exactly one batch ({batches})"))


def _recipe(encoder: str) -> Recipe:
    return Recipe(
        f"shuffle/{encoder}-binomial", "shuffle",
        f"{encoder} counts as separate bits through a shuffler, binomial noise for the size of each batch",
        partial(_build, encoder), pure=False, automatic=encoder != "three-tables",
        encoder=encoder, law="binomial", accumulator="shuffled-blocks", options=_OPTIONS,
    )  # fmt: skip


# Three tables are what the paper releases. By the sum of all variances they can be quieter than joint cells, but that
# counts visits, which learners rather take as sums of transitions; measured regret is lower with joint cells.
RECIPES = tuple(_recipe(encoder) for encoder in ("joint-histogram", "first-visit", "three-tables"))
