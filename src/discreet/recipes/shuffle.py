"""Recipes of the shuffle model: counts of an encoder through a shuffler, batch by batch.

* ``...-binomial``: true bits and noise bits, all separate (:mod:`discreet.mechanisms.shuffled`).
* ``...-randomised-response``: every bit answered on the device (:mod:`discreet.mechanisms.messages.answered_bits`), so
  that a pure local promise is left if the shuffler fails.

* ``sampled-item``: one message of each user, an item of a step that her device draws, randomised there
  (:mod:`discreet.mechanisms.messages.shuffled_item`); a pure local promise is left here, too.

The noise of a batch depends on its size, so it is calibrated when the batch is asked for; sizes that are foreseen are
certified here. ``dropouts`` and ``colluding`` are the shares of a batch whose noise does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.shape import Shape
from discreet.base.validation import check_count, check_not_negative
from discreet.mechanisms.bandit import ArmRewardsChannel
from discreet.mechanisms.counts.encoder import Encoder
from discreet.mechanisms.counts.first_visit import FirstVisit, FirstVisitTables
from discreet.mechanisms.counts.joint_histogram import JointHistogram
from discreet.mechanisms.counts.sampled_step import SampledStep
from discreet.mechanisms.counts.three_tables import RewardLevels, ThreeTables
from discreet.mechanisms.counts.two_tables import TwoTables
from discreet.mechanisms.mechanism import AnyChannel
from discreet.mechanisms.messages.answered_bits import ResponseChannel
from discreet.mechanisms.messages.shuffled_item import ItemChannel
from discreet.mechanisms.release import OPENING
from discreet.mechanisms.schedule import OpeningThenGrowing, PerPolicy, Schedule, sizes
from discreet.mechanisms.session import Privatizer, unnamed
from discreet.mechanisms.shuffled import FittedBits, ShuffledChannel
from discreet.privacy.guarantee import Guarantee, billboard, parallel, shuffled
from discreet.privacy.words import rounded_up
from discreet.recipes.predicted_regret import blocks_of, noise_after
from discreet.recipes.recipe import Options, Recipe
from discreet.recipes.targets import Privacy

_ENCODERS: Mapping[str, Callable[[Shape], Encoder]] = {
    "joint-histogram": JointHistogram,
    "first-visit": FirstVisit,
    "three-tables": ThreeTables,
    "first-visit-tables": FirstVisitTables,
    "two-tables": TwoTables,
    "first-visit-two-tables": partial(TwoTables, first_visit=True),
}
_BATCHES: dict[str, Any] = {
    "blocks": None,
    "first": None,
    "opening": 0.0,
    "masked": True,
    "dropouts": 0.0,
    "colluding": 0.0,
}
_AT_RANDOM: Mapping[str, Options] = {OPENING: {"opening": None}}
_BINOMIAL: Options = {**_BATCHES, "messages": "bits", "bit_level": False}
_RESPONSE: Options = {**_BATCHES, "bit_level": False}
_USUAL_BLOCKS = 60  # of a batch of this many the noise is looked at; it depends little on the size of a batch


def absent_share(options: Options) -> float:
    """The share of a batch whose noise must not be counted."""
    shares = [check_not_negative(name, options[name]) for name in ("dropouts", "colluding")]
    if sum(shares) >= 1:
        raise InvalidInput(f"dropouts and colluding are {sum(shares):g} together, which leaves nobody: stay below 1")
    return sum(shares)


def _usual_block(episodes: int) -> int:
    """The size of a batch by which the number of batches is chosen."""
    return max(2, episodes // _USUAL_BLOCKS)  # nobody hides a user who is alone


def _schedule(options: Options, channel: AnyChannel, shape: Shape, episodes: int) -> Schedule:
    """The batches that options ask for, or as many as are expected to cost the least."""
    return blocks_of(options, shape, channel.encoder, episodes, lambda _blocks: noise_after(channel))


def _whole(batches: Sequence[Guarantee], epsilon: float, delta: float, schedule: Schedule, why: str) -> Guarantee:
    """The guarantee of all batches together: each user is in one of them."""
    whole = shuffled(batches, epsilon=epsilon, delta=delta, why=why)
    asked = f"{schedule.describe()}, or sizes that the learner asks for"
    return billboard(parallel(whole, f"every user is in exactly one batch ({asked})"))


def _binomial(encoder_name: str, privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
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
    noise = FittedBits(encoder, privacy.epsilon, privacy.delta, absent_share(options))
    channel = ShuffledChannel(encoder, noise, _usual_block(episodes), bit_level=bool(options["bit_level"]))
    schedule = _schedule(options, channel, shape, episodes)
    blocks = sizes(schedule, episodes)
    channel = replace(channel, block=max(blocks))
    bits = channel.bits(channel.block).bits
    counted = "everybody's noise counted" if not noise.absent else f"{1 - noise.absent:.4g} of the noise counted"
    guarantee = _whole(
        [noise.certified(users) for users in sorted({min(blocks), max(blocks)})],
        noise.epsilon,
        noise.delta,
        schedule,
        f"each user sends her bit and noise bits for every counter ({bits} in a batch of {channel.block}), permuted "
        f"per counter and batch; noise bits are chosen for the size of each batch, {counted}",
    )
    return unnamed(shape, (channel,), schedule, guarantee, bool(options["masked"]), options)


def _response(encoder_name: str, privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    if privacy.epsilon is None:
        raise Unsupported("answers to bits are calibrated to epsilon and delta: give those instead of rho")
    channel = ResponseChannel(
        shape, _answered(encoder_name, shape, options), privacy.epsilon, privacy.delta, _usual_block(episodes),
        absent_share(options), bool(options["bit_level"]),
    )  # fmt: skip
    schedule = _schedule(options, channel, shape, episodes)
    blocks = sizes(schedule, episodes)
    channel = replace(channel, block=max(blocks))
    counted = "everybody's answers counted" if not channel.absent else f"{1 - channel.absent:.4g} of them counted"
    alone = channel.unshuffled(channel.block).epsilon
    guarantee = _whole(
        [channel.certified(users) for users in sorted({min(blocks), max(blocks)})],
        channel.epsilon,
        channel.delta,
        schedule,
        f"each user answers every bit by randomised response, one bit a message, permuted per counter and batch; "
        f"answers suit the size of each batch, {counted}; should the shuffler fail in a batch of {channel.block}, her "
        f"message alone is pure local, epsilon {rounded_up(alone)}",
    )
    return unnamed(shape, (channel,), schedule, guarantee, bool(options["masked"]), options)


def _item(privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    if privacy.epsilon is None:
        raise Unsupported("randomised items are calibrated to epsilon and delta: give those instead of rho")
    encoder = SampledStep(shape, 1, bool(options["early_end"]))
    channel = ItemChannel(encoder, privacy.epsilon, privacy.delta, episodes, absent_share(options))
    # A batch of many users is far more truthful than many batches of few, so each number of them has its own noise.
    schedule = blocks_of(
        options, shape, encoder, episodes, lambda blocks: noise_after(replace(channel, block=-(-episodes // blocks))),
        grow=False,
    )  # fmt: skip
    blocks = sizes(schedule, episodes)
    channel = replace(channel, block=max(blocks))
    numbers = sorted({channel.fewest, channel.most} if options["masked"] else {channel.most})
    counted = "everybody's messages counted" if not channel.absent else f"{1 - channel.absent:.4g} of them counted"
    alone = max(channel.unshuffled(channel.block, items).epsilon for items in numbers)
    guarantee = _whole(
        [channel.certified(users, items) for users in sorted({min(blocks), max(blocks)}) for items in numbers],
        channel.epsilon,
        channel.delta,
        schedule,
        f"each user sends one item of {' to '.join(map(str, numbers))}, as her policy has it, by randomised response; "
        f"messages suit the size of each batch and its number of items, {counted}; should the shuffler fail in a batch "
        f"of {channel.block}, her message alone is pure local, epsilon {rounded_up(alone)}",
    )
    return unnamed(shape, (channel,), schedule, guarantee, bool(options["masked"]), options)


def without_shuffler(privatizer: Privatizer) -> Guarantee:
    """What is left of a promise if the shuffler sides with the analyser: that of all messages of one user, local.

    In the largest of the foreseen batches, where devices answer most truthfully, and for items the largest number of
    them. Refused where true bits leave a device in clear, because nothing is left there.
    """
    (outer,) = privatizer.channels
    channel = outer.rewards if isinstance(outer, ArmRewardsChannel) else outer
    largest = largest_batch(privatizer)
    if isinstance(channel, ResponseChannel):
        return channel.unshuffled(largest)
    if isinstance(channel, ItemChannel):
        return channel.unshuffled(largest, channel.most)
    raise Unsupported(
        f"recipe {privatizer.recipe!r} sends true bits in clear: nothing is promised without the shuffler; take a "
        "recipe whose devices randomise, such as 'shuffle/sampled-item'"
    )


def largest_batch(privatizer: Privatizer) -> int:
    """The largest batch that the schedule may have, also where batches begin elsewhere because users were missing."""
    schedule, users = privatizer.schedule, privatizer.users or 1
    if isinstance(schedule, OpeningThenGrowing):
        return schedule.largest(users)
    return max(sizes(_in_turn(schedule), users))


def _in_turn(schedule: Schedule) -> Schedule:
    """The same schedule if everybody follows one policy, which makes its largest block."""
    return replace(schedule, policies=1) if isinstance(schedule, PerPolicy) else schedule


def _answered(name: str, shape: Shape, options: Options) -> Encoder:
    """The bits that are answered; those of three tables are pooled after the shuffler, not before."""
    if name == "three-tables":
        steps = replace(shape, homogeneous=False)
        levels = check_count("levels", options["levels"])
        return ThreeTables(steps) if levels == 1 else RewardLevels(steps, levels)
    encoder: Encoder = _ENCODERS[name](shape)
    if not encoder.sensitivity().unit:
        raise Unsupported(
            f"{name} counts pooled over {shape.horizon} steps move by more than one, and a bit does not: use "
            "first-visit counts, or the bits of three-tables, which are pooled after the shuffler"
        )
    return encoder


def _binomial_recipe(encoder: str) -> Recipe:
    return Recipe(
        f"shuffle/{encoder}-binomial", "shuffle",
        f"{encoder} counts as separate bits through a shuffler, binomial noise for the size of each batch",
        partial(_binomial, encoder), automatic=encoder != "three-tables",
        encoder=encoder, law="binomial", accumulator="shuffled-blocks", options=_BINOMIAL,
        options_for=_AT_RANDOM,
    )  # fmt: skip


def _response_recipe(encoder: str) -> Recipe:
    options = {**_RESPONSE, "levels": 1} if encoder == "three-tables" else _RESPONSE
    return Recipe(
        f"shuffle/{encoder}-randomised-response", "shuffle",
        f"{encoder} bits, each answered on the device, through a shuffler once per batch",
        partial(_response, encoder), automatic=encoder != "three-tables",
        encoder=encoder, law="randomised-response", accumulator="shuffled-blocks", options=options,
        options_for=_AT_RANDOM,
    )  # fmt: skip


# Three tables are what the papers release. By the sum of all variances they can be quieter than joint cells, but that
# counts visits, which learners rather take as sums of transitions; measured regret is lower with joint cells, which
# flip fewer bits too. Two tables cost less than both (docs/decisions/0010-two-tables.md).
RECIPES = (
    *(
        _binomial_recipe(encoder)
        for encoder in ("joint-histogram", "first-visit", "three-tables", "two-tables", "first-visit-two-tables")
    ),
    *(_response_recipe(encoder) for encoder in _ENCODERS),
    Recipe(
        "shuffle/sampled-item",
        "shuffle",
        "one message of each user: an item of a step that she draws, randomised on the device, through a shuffler",
        _item,
        encoder="sampled-item",
        law="randomised response",
        accumulator="shuffled-blocks",
        options={**_BATCHES, "early_end": False},
        options_for=_AT_RANDOM,
        automatic=False,  # where its score was best, two tables of first visits had .6 to .9 of its regret
    ),
)
