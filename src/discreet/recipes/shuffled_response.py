"""To be described."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from discreet.accumulators.schedule import Schedule, sizes
from discreet.channels.shuffled_bits import FEWEST_BLOCKS
from discreet.channels.shuffled_response import ResponseChannel
from discreet.encoders.base import Encoder
from discreet.encoders.first_visit import FirstVisit, FirstVisitTables
from discreet.encoders.joint import JointHistogram
from discreet.encoders.tables import RewardLevels, ThreeTables
from discreet.errors import Unsupported
from discreet.privacy.guarantee import Guarantee, billboard, parallel, shuffled
from discreet.recipes.recipe import Options, Recipe
from discreet.recipes.session import Privatizer
from discreet.recipes.shuffle import absent_share, schedule_for
from discreet.recipes.trust import Privacy
from discreet.shape import Shape
from discreet.validation import check_count

_ENCODERS: Mapping[str, Callable[[Shape], Encoder]] = {
    "joint-histogram": JointHistogram,
    "first-visit": FirstVisit,
    "first-visit-tables": FirstVisitTables,
}


def _encoder(name: str, shape: Shape, options: Options) -> Encoder:
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


def _build(encoder_name: str, privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    if privacy.epsilon is None:
        raise Unsupported("answers to bits are calibrated to epsilon and delta: give those instead of rho")
    encoder = _encoder(encoder_name, shape, options)
    channel = ResponseChannel(
        shape, encoder, privacy.epsilon, privacy.delta, max(1, episodes // FEWEST_BLOCKS), absent_share(options),
        bool(options["bit_level"]),
    )  # fmt: skip
    schedule = schedule_for(options, channel, episodes)
    blocks = sizes(schedule, episodes)
    channel = replace(channel, block=max(blocks))
    guarantee = _guarantee(channel, sorted({min(blocks), max(blocks)}), schedule)
    recipe = f"shuffle/{encoder_name}-randomised-response"
    return Privatizer(recipe, shape, (channel,), schedule, guarantee, bool(options["masked"]), options)


def _guarantee(channel: ResponseChannel, blocks: list[int], schedule: Schedule) -> Guarantee:
    counted = "everybody's answers counted" if not channel.absent else f"{1 - channel.absent:.4g} of them counted"
    alone = channel.unshuffled(channel.block).epsilon
    whole = shuffled(
        [channel.certified(users) for users in blocks],
        epsilon=channel.epsilon,
        delta=channel.delta,
        why=f"each user answers every bit by randomised response, one bit a message, permuted per counter and batch; "
        f"answers suit the size of each batch, {counted}; should the shuffler fail in a batch of {channel.block}, her "
        f"message alone is pure local, epsilon {alone:.4g}",
    )
    batches = f"{schedule.describe()}, or sizes that the learner asks for"
    return billboard(parallel(whole, f"every user is in exactly one batch ({batches})"))


_OPTIONS = {
    "blocks": None,
    "first": None,
    "masked": True,
    "dropouts": 0.0,
    "colluding": 0.0,
    "bit_level": False,
}


def _recipe(encoder: str) -> Recipe:
    options = {**_OPTIONS, "levels": 1} if encoder == "three-tables" else _OPTIONS
    return Recipe(
        f"shuffle/{encoder}-randomised-response", "shuffle",
        f"{encoder} bits, each answered on the device, through a shuffler once per batch",
        partial(_build, encoder), pure=False, automatic=encoder != "three-tables",
        encoder=encoder, law="randomised-response", accumulator="shuffled-blocks", options=options,
    )  # fmt: skip


# As in the recipes with noise bits, three tables are what the paper releases, and joint cells flip fewer bits.
RECIPES = tuple(_recipe(encoder) for encoder in (*_ENCODERS, "three-tables"))
