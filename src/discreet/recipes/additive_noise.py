"""Recipes with additive noise: counts of an encoder, a discrete law, and blocks, a tree or a sum over users."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from discreet.base.shape import Shape
from discreet.mechanisms.additive import Channel
from discreet.mechanisms.counts.encoder import Encoder
from discreet.mechanisms.counts.first_visit import FirstVisit
from discreet.mechanisms.counts.joint_histogram import JointHistogram
from discreet.mechanisms.counts.three_tables import ThreeTables
from discreet.mechanisms.counts.two_tables import TwoTables
from discreet.mechanisms.release import OPENING
from discreet.mechanisms.schedule import EveryEpisode, Schedule
from discreet.mechanisms.session import Privatizer, unnamed
from discreet.mechanisms.sums.accumulator import Accumulator
from discreet.mechanisms.sums.blocks import Blocks, Total
from discreet.mechanisms.sums.tree import Tree
from discreet.noise import DiscreteGaussian, DiscreteLaplace, NoNoise
from discreet.noise.calibration import calibrate_noise
from discreet.privacy.guarantee import Guarantee, billboard, from_mechanism, locally, nothing, parallel
from discreet.recipes.predicted_regret import blocks_of, growing, noise_after
from discreet.recipes.recipe import Options, Recipe
from discreet.recipes.targets import Privacy

# "auto" prefers the first of equally quiet ones: counts of every visit hold more data than first visits.
ENCODERS: Mapping[str, Callable[[Shape], Encoder]] = {
    "joint-histogram": JointHistogram,
    "first-visit": FirstVisit,
    "three-tables": ThreeTables,
    "two-tables": TwoTables,
    "first-visit-two-tables": partial(TwoTables, first_visit=True),
}
_LOCAL = ("joint-histogram", "first-visit", "three-tables")  # what users add noise to themselves
# Prefix sums of the same counts had .5 to .8 of its regret with ucbvi and psrl (200,000 users), as much with ucbpo.
_BY_NAME = (("first-visit-two-tables", "gaussian"),)
LAWS: Mapping[str, type[Any]] = {"laplace": DiscreteLaplace, "gaussian": DiscreteGaussian}


class Parts(NamedTuple):
    """The names of a combination."""

    model: str
    encoder: str
    law: str
    accumulator: str


def _build(parts: Parts, privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    accumulator = _accumulator(parts, episodes)
    encoder = ENCODERS[parts.encoder](shape)
    sensitivity = accumulator.sensitivity(encoder.sensitivity())
    law = calibrate_noise(LAWS[parts.law], sensitivity, epsilon=privacy.epsilon, delta=privacy.delta, rho=privacy.rho)
    channel = Channel(encoder, law, accumulator)
    schedule = _schedule(parts, options, channel, shape, episodes)
    guarantee = _guarantee(parts, from_mechanism(law, sensitivity, delta=privacy.delta, name=encoder.name), schedule)
    return unnamed(shape, (channel,), schedule, guarantee, bool(options.get("masked", False)), options)


def _no_privacy(privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    channel = Channel(ThreeTables(shape, rounded=False), NoNoise(), Total())
    return unnamed(shape, (channel,), EveryEpisode(), nothing(), False, {})


def _accumulator(parts: Parts, episodes: int) -> Accumulator:
    if parts.accumulator == "tree":
        return Tree(users=episodes)  # the policy that would be deployed next is planned from the last user's release
    return Total() if parts.accumulator == "total" else Blocks()


def _schedule(parts: Parts, options: Options, channel: Channel, shape: Shape, episodes: int) -> Schedule:
    if parts.accumulator == "tree":
        return EveryEpisode()
    if parts.accumulator == "total":
        return growing(options, shape)
    return blocks_of(options, shape, channel.encoder, episodes, lambda _blocks: noise_after(channel))


def _guarantee(parts: Parts, one_release: Guarantee, schedule: Schedule) -> Guarantee:
    if parts.model == "local":
        return locally(one_release)
    if parts.accumulator == "tree":
        return billboard(one_release)
    return billboard(parallel(one_release, f"every user is in exactly one block ({schedule.describe()})"))


def _central(encoder: str, law: str) -> Recipe:
    parts = Parts("central", encoder, law, "blocks")
    summary = f"{encoder} counts, discrete {law.capitalize()} noise, one release per block of users"
    options = {"blocks": None, "first": None, "opening": 0.0, "masked": True}
    return _recipe(
        f"central/{encoder}-{law}",
        parts,
        summary,
        options,
        (encoder, law) not in _BY_NAME,
        {OPENING: {"opening": None}},
    )


def _tree(law: str) -> Recipe:
    parts = Parts("central", "three-tables", law, "tree")
    summary = f"three-tables counts, discrete {law.capitalize()} noise, binary tree, a release after every user"
    return _recipe(f"central/three-tables-{law}-tree", parts, summary, {}, automatic=False)


def _local(encoder: str, law: str) -> Recipe:
    parts = Parts("local", encoder, law, "total")
    summary = f"every user adds discrete {law.capitalize()} noise to her own {encoder} counts"
    return _recipe(f"local/{encoder}-{law}", parts, summary, {"growth": None, "masked": True})


def _recipe(
    name: str,
    parts: Parts,
    summary: str,
    options: Options,
    automatic: bool = True,
    options_for: Mapping[str, Options] | None = None,
) -> Recipe:
    return Recipe(
        name, parts.model, summary, partial(_build, parts), automatic=automatic,
        encoder=parts.encoder, law=parts.law, accumulator=parts.accumulator, options=options,
        options_for=options_for or {},
    )  # fmt: skip


RECIPES = (
    Recipe("none", "none", "the counts as they are; no promise", _no_privacy, encoder="three-tables"),
    *(_central(encoder, law) for encoder in ENCODERS for law in LAWS),
    *(_tree(law) for law in LAWS),
    *(_local(encoder, law) for encoder in _LOCAL for law in LAWS),
)
