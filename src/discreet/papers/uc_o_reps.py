"""Adversarial losses, as printed: trees or reports of visits and transitions, loss tables or losses along the path.

The four ``-published`` recipes run these entries with the papers' continuous noise (simulation only). They serve
layered shapes, where the encoders say what a user moves; any other shape stands for S states in all layers together,
with d = S A pairs. Transitions into the only last state are certain: they are printed, and not sent by the recipes.

Counters are Algorithm 4's: every release is filled up with fresh draws, so that all have one law. Read with its nodes
numbered from one (as printed, user k is put into leaf k and leaf 0 stays empty, so that nodes at the left edge never
close). The draws that fill it up are no secret, so it costs what a plain tree does.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

from discreet.base.shape import LayeredShape, Shape
from discreet.mechanisms.counts.encoder import Encoder
from discreet.mechanisms.schedule import EveryEpisode
from discreet.mechanisms.session import Privatizer
from discreet.mechanisms.sums.accumulator import Accumulator
from discreet.mechanisms.sums.blocks import EachAlone, Total
from discreet.mechanisms.sums.tree import EvenTree
from discreet.noise import Laplace
from discreet.papers.published_mechanism import FACTOR_TWO, Part, Published, Setting, channels_of, needs_epsilon
from discreet.privacy.sensitivity import Sensitivity
from discreet.problems.adversarial.encoders import LayeredTransitions, LayeredVisits, LossTable, ObservedLosses
from discreet.problems.adversarial.layered_budget import epsilon_of, layered
from discreet.recipes.recipe import Options, Recipe
from discreet.recipes.targets import Privacy

_PAPER = "Bai, Zeng, Zhao, Duan, Talebi, Cheng, Chen, adversarial losses"
_CERTAIN = "they lead to the only last state and are certain, so they are not released"
_NOTHING = "with one step there are no unknown transitions, so nothing is counted"


def _adversarial(setting: Setting, *, tree: bool, full: bool) -> tuple[Part, ...]:
    """Scales 3 H log2(K) / epsilon per tree node, 3 H / epsilon for what is released once."""
    H, epsilon = setting.shape.horizon, needs_epsilon(setting)
    once = Laplace(3 * H / epsilon)
    counting = Laplace(3 * H * math.log2(max(setting.episodes, 2)) / epsilon) if tree else once
    sums: Accumulator = EvenTree(users=setting.episodes) if tree else Total()
    law, way = (counting, sums) if full else (once, EachAlone())
    visits, transitions, last, losses = _moves(setting.shape, full)
    counted = "" if H > 1 else _NOTHING
    return (
        Part("visits", counting, visits.own, sums, visits.encoders, left_out=counted, norms_only=True),
        Part("transitions", counting, transitions.own, sums, transitions.encoders, left_out=counted, norms_only=True),
        Part("transitions of the last step", counting, last.own, sums, left_out=_CERTAIN, norms_only=True),
        Part(
            "loss tables" if full else "losses along the path", law, losses.own, way, losses.encoders, norms_only=True
        ),
    )


class _Table(NamedTuple):
    own: Sensitivity
    encoders: tuple[Encoder, ...] = ()


def _moves(shape: Shape, full: bool) -> tuple[_Table, _Table, _Table, _Table]:
    """What one user moves in visits, in transitions of all steps but the last, in those of the last, and in losses."""
    if not isinstance(shape, LayeredShape):
        H, one = shape.horizon, Sensitivity.unit_shifts(1, 1)
        path, inner = Sensitivity.unit_shifts(H, H), Sensitivity.unit_shifts(H - 1, H - 1)
        table = Sensitivity.unit_shifts(shape.states * shape.actions, 0)
        return _Table(path), _Table(inner), _Table(one), _Table(table if full else path)
    losses: Encoder = LossTable(shape, rounded=False) if full else ObservedLosses(shape, rounded=False)
    encoders: tuple[Encoder, ...] = (LayeredVisits(shape), LayeredTransitions(shape), losses)
    visits, transitions, lost = (_Table(encoder.sensitivity(), (encoder,)) for encoder in encoders)
    # A layer with a single pair has no other cell to move to.
    last = Sensitivity.unit_shifts(1, int(shape.sizes[-2] * shape.actions > 1))
    return visits, transitions, _Table(last), lost


_FULL = Published(
    "published/adversarial-full-information",
    _PAPER,
    "central",
    "epsilon",
    "Lap(3 H log2(K)/eps) per tree node on visits, transitions and loss tables",
    f"{FACTOR_TWO}; a user's loss table moves all d = S A entries, and its noise is for H: (4/3 + d/(3H)) eps L / "
    "log2(K)",
    "Lap(2 H L/e) on counts and Lap(d L/e) (or K-norm noise) on losses, with e the stream's share of eps",
    partial(_adversarial, tree=True, full=True),
    recipe="central/loss-tables-published",
)
_BANDIT = Published(
    "published/adversarial-bandit",
    _PAPER,
    "central",
    "epsilon",
    "Lap(3 H log2(K)/eps) per tree node on visits and transitions, Lap(3 H/eps) on observed losses",
    f"{FACTOR_TWO}, in each of three streams: (4/3 L / log2(K) + 2/3) eps",
    "Lap(2 H L/e) on counts, Lap(2 H/e) on losses, with e the stream's share of eps",
    partial(_adversarial, tree=True, full=False),
    recipe="central/observed-losses-published",
)
_FULL_LOCAL = Published(
    "published/adversarial-full-information-local",
    _PAPER,
    "local",
    "epsilon",
    "Lap(3 H/eps) on visits, transitions and the loss table, every user",
    f"{FACTOR_TWO}; the loss table moves all d = S A entries: (4/3 + d/(3H)) eps",
    "Lap(2 H/e) on counts, Lap(d/e) or one sampled coordinate on losses, with e the stream's share of eps",
    partial(_adversarial, tree=False, full=True),
    recipe="local/loss-tables-published",
)
_BANDIT_LOCAL = Published(
    "published/adversarial-bandit-local",
    _PAPER,
    "local",
    "epsilon",
    "Lap(3 H/eps) on visits, transitions and observed losses, every user",
    f"{FACTOR_TWO}, in each of three streams: 2 eps",
    "Lap(2 H/e) on each stream, with e its share of eps",
    partial(_adversarial, tree=False, full=False),
    recipe="local/observed-losses-published",
)
ENTRIES = (_FULL, _BANDIT, _FULL_LOCAL, _BANDIT_LOCAL)


def _run(entry: Published, privacy: Privacy, shape: Shape, episodes: int, options: Options) -> Privatizer:
    setting = Setting(layered(shape), episodes, epsilon_of(privacy), privacy.delta)
    channels = channels_of(entry.parts(setting))
    name = str(entry.recipe)
    return Privatizer(name, shape, channels, EveryEpisode(), entry.as_run(setting), masked=False, options=options)


def _recipe(entry: Published) -> Recipe:
    name, tables = str(entry.recipe), "layered-tables" if "loss-tables" in str(entry.recipe) else "layered-observed"
    return Recipe(
        name, entry.model, "the paper's noise for layered worlds, with what it really promises (continuous: simulation "
        "only)", partial(_run, entry), automatic=False, encoder=tables, law="continuous laplace",
        accumulator="even-tree" if entry.model == "central" else "total", source=entry.paper,
    )  # fmt: skip


RECIPES = tuple(_recipe(entry) for entry in ENTRIES)
