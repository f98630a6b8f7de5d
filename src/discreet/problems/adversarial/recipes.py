"""Recipes for layered problems with adversarial losses: full information (``loss-tables``) and bandit feedback.

Two channels share the budget (option ``split``: the part for counts, "auto" for learners with confidence bounds or
"estimates" for those without, which is the default for a learner that says so in its needs). Counts of transitions
determine visits, and the last step is certain, so one table over (x, a, x') of the layers before it is all that is
counted: replacing a user moves 2 (H - 1) cells. Of the losses she moves every entry of her table (full information) or
two cells per step of her path (bandit). Where they go:

* central: blocks of users, trees, or every user by herself (:mod:`discreet.problems.adversarial.central_recipes`);
* shuffle: the same blocks as bits through a shuffler (:mod:`discreet.problems.adversarial.shuffle_recipes`);
* local, here: the transition of one layer, picked by public coins; one answered bit of her table, or where she was in
  one layer and the bit of her loss there, with discrete Laplace noise.

``losses_private=False`` declares that the loss tables are not the users' own: they are then published whole, un-noised,
and the guarantee says so. Bandit losses cannot be declared public: where a loss was observed shows where she went.

The papers' own noise runs by the names that end in ``-published`` (:mod:`discreet.papers.uc_o_reps`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from discreet.base.errors import Unsupported
from discreet.base.shape import Shape
from discreet.mechanisms.additive import Channel
from discreet.mechanisms.counts.encoder import Encoder
from discreet.mechanisms.release import ESTIMATES
from discreet.mechanisms.schedule import EveryEpisode
from discreet.mechanisms.session import Privatizer
from discreet.mechanisms.sums.blocks import EachAlone, Total
from discreet.noise import DiscreteLaplace, NoNoise
from discreet.privacy.guarantee import compose, from_mechanism, locally, nothing
from discreet.problems.adversarial.central_recipes import central_tables, gaussian_tables, observed, observed_blocks
from discreet.problems.adversarial.encoders import LayeredTransitions, LossBits, LossTable, ObservedLosses, SignedLosses
from discreet.problems.adversarial.layered_budget import (
    FOR_ESTIMATES,
    HALF,
    WHY,
    Part,
    channels,
    divisible,
    layered,
    one_bit_guarantee,
    promises,
    share_of_counts,
)
from discreet.problems.adversarial.mechanisms import OneBitChannel, SampledLayerChannel, unrounded
from discreet.problems.adversarial.shuffle_recipes import shuffled_losses
from discreet.recipes.recipe import Options, Recipe
from discreet.recipes.targets import Privacy


def silenced(privatizer: Privatizer) -> Privatizer:
    """The same channels with their noise off and their losses not rounded: it promises nothing, and is for tests."""
    quiet = []
    for channel in privatizer.channels:
        if not isinstance(channel, Channel):
            raise Unsupported("only additive noise can be switched off; a randomised report has none to leave out")
        rounds = isinstance(channel.encoder, LossTable | ObservedLosses | LossBits | SignedLosses)
        encoder = replace(channel.encoder, rounded=False) if rounds else channel.encoder  # type: ignore[type-var]
        quiet.append(replace(channel, encoder=encoder, law=NoNoise()))
    return replace(privatizer, channels=tuple(quiet), guarantee=nothing())


def _none(full: bool, privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    shape = layered(shape)
    losses: Encoder = LossTable(shape, rounded=False) if full else ObservedLosses(shape, rounded=False)
    exact = [Channel(losses, NoNoise(), Total() if full else EachAlone())]
    if shape.horizon > 1:
        exact.insert(0, Channel(LayeredTransitions(shape), NoNoise(), Total()))
    name = "none/loss-tables" if full else "none/observed-losses"
    return Privatizer(name, shape, tuple(exact), EveryEpisode(), nothing(), masked=False)


def _local(full: bool, privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    shape = layered(shape)
    epsilon, H = divisible(privacy), shape.horizon

    def at_half() -> float:
        return DiscreteLaplace(2 / (HALF * epsilon)).variance * episodes / max(H - 1, 1)

    for_counts = epsilon * share_of_counts(options["split"], shape, episodes, at_half)
    for_losses = epsilon - for_counts
    parts: list[Part] = []
    if for_counts > 0:
        parts.append(_one_layer("the transition", SampledLayerChannel(LayeredTransitions(shape), for_counts), privacy))
    if full:
        one_bit = OneBitChannel(unrounded(LossTable(shape)), for_losses)
        parts.append((one_bit, one_bit_guarantee(one_bit, privacy.delta)))
    else:
        parts.append(_one_layer("the bit", SampledLayerChannel(LossBits(shape), for_losses, alone=True), privacy))
    whole = locally(compose(promises(parts), delta=privacy.delta, why=WHY))
    name = "local/loss-tables" if full else "local/observed-losses"
    return Privatizer(name, shape, channels(parts), EveryEpisode(), whole, False, options)


def _one_layer(what: str, channel: SampledLayerChannel, privacy: Privacy) -> Part:
    name = f"{what} of one layer, picked by public coins"
    return channel, from_mechanism(channel.law, channel.moves, delta=privacy.delta, name=name)


Build = Callable[[Privacy, Shape, int, Options], Privatizer]
_HALVES: dict[str, Any] = {"split": HALF}
_SPLIT: dict[str, Any] = {"split": "auto"}
_TREES: dict[str, Any] = {**_SPLIT, "accumulator": "auto", "blocks": None}
_TABLES: dict[str, Any] = {**_TREES, "losses": "auto", "losses_private": True}
_BLOCKS: dict[str, Any] = {**_SPLIT, "blocks": None, "noise": "auto", "cells": "bits"}
_SHUFFLED: dict[str, Any] = {**_SPLIT, "blocks": None, "dropouts": 0.0, "colluding": 0.0, "bit_level": False}


def _recipe(
    name: str,
    summary: str,
    build: Build,
    law: str,
    accumulator: str,
    options: Options,
    *,
    automatic: bool = True,
) -> Recipe:
    model, kind = name.split("/")
    encoder = "layered-tables" if kind.startswith("loss-tables") else "layered-observed"
    for_estimates = {"split": FOR_ESTIMATES, "blocks": FOR_ESTIMATES, "cells": "signed"}
    suited = {name: value for name, value in for_estimates.items() if automatic and name in options}
    return Recipe(
        name, model, summary, build, pure="gaussian" not in kind and model != "shuffle", automatic=automatic,
        encoder=encoder, law=law, accumulator=accumulator, options=options,
        options_for={ESTIMATES: suited} if suited else {},
    )  # fmt: skip


RECIPES = (
    _recipe("none/loss-tables", "layered worlds, full information as it is", partial(_none, True), "", "total", {}),
    _recipe("none/observed-losses", "layered worlds, bandit losses as seen", partial(_none, False), "", "total", {}),
    _recipe(
        "central/loss-tables",
        "layered worlds: counts and loss tables (K-norm noise) of blocks of users, or by tree after every user",
        central_tables, "laplace, k-norm", "blocks", _TABLES,
    ),
    _recipe(
        "central/loss-tables-gaussian",
        "layered worlds: counts and loss tables with discrete Gaussian noise, of blocks of users or by tree",
        gaussian_tables, "gaussian", "blocks", _TREES,
    ),
    _recipe(
        "central/observed-losses",
        "layered worlds: counts by tree, observed losses user by user with discrete Laplace noise",
        partial(observed, "laplace"), "laplace", "tree, stream", _HALVES, automatic=False,
    ),
    _recipe(
        "central/observed-losses-gaussian",
        "layered worlds: counts by tree, observed losses user by user, discrete Gaussian noise",
        partial(observed, "gaussian"), "gaussian", "tree, stream", _HALVES, automatic=False,
    ),
    _recipe(
        "central/observed-losses-blocks",
        "layered worlds: counts and bits of observed losses, of blocks of users, Laplace or Gaussian noise",
        observed_blocks, "laplace, gaussian", "blocks", _BLOCKS,
    ),
    _recipe(
        "shuffle/loss-tables-binomial",
        "layered worlds: counts and loss tables as separate bits through a shuffler, by blocks of users",
        partial(shuffled_losses, True), "binomial", "shuffled-blocks", _SHUFFLED,
    ),
    _recipe(
        "shuffle/observed-losses-binomial",
        "layered worlds: counts and bits of observed losses through a shuffler, by blocks of users",
        partial(shuffled_losses, False), "binomial", "shuffled-blocks", _SHUFFLED,
    ),
    _recipe(
        "local/loss-tables",
        "layered worlds: the transition of one sampled layer, and one bit of the loss table",
        partial(_local, True), "laplace, randomised response", "total", _SPLIT,
    ),
    _recipe(
        "local/observed-losses",
        "layered worlds: the transition of one sampled layer and the observed loss of one, with discrete Laplace noise",
        partial(_local, False), "laplace", "total", _SPLIT,
    ),
)  # fmt: skip
