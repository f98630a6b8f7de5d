"""Adversarial losses, as printed: trees or reports of visits and transitions, loss tables or losses along the path."""

from __future__ import annotations

import math

from discreet.audit.cases import Setting
from discreet.noise import Laplace
from discreet.papers.mechanism import FACTOR_TWO, Part, Published, levels_of, needs_epsilon, steps_of
from discreet.privacy.sensitivity import Sensitivity
from discreet.shape import LayeredShape

_PAPER = "Bai, Zeng, Zhao, Duan, Talebi, Cheng, Chen, adversarial losses"


def _adversarial(setting: Setting, *, tree: bool, full: bool) -> tuple[Part, ...]:
    H, epsilon = setting.shape.horizon, needs_epsilon(setting)
    log, levels = (math.log2(setting.episodes), levels_of(setting)) if tree else (1.0, 1)
    counts = Laplace(3 * H * log / epsilon)
    shape = setting.shape
    pairs = shape.pairs if isinstance(shape, LayeredShape) else shape.states * shape.actions
    table = Part("loss tables", counts, Sensitivity.unit_shifts(pairs * levels, 0))
    seen = Part("losses along the path", Laplace(3 * H / epsilon), steps_of(setting))
    return (
        Part("visits", counts, steps_of(setting, levels)),
        Part("transitions", counts, steps_of(setting, levels)),
        table if full else seen,
    )


ENTRIES = (
    Published(
        "published/adversarial-full-information",
        _PAPER,
        "central",
        "epsilon",
        "Lap(3 H log2(K)/eps) per tree node on visits, transitions and loss tables",
        f"{FACTOR_TWO}; a user's loss table moves all d = S A entries: (4/3 + d/(3H)) eps L / log2(K)",
        "Lap(2 H L/e) on counts and Lap(d L/e) (or K-norm noise) on losses, with e the stream's share of eps",
        lambda s: _adversarial(s, tree=True, full=True),
    ),
    Published(
        "published/adversarial-bandit",
        _PAPER,
        "central",
        "epsilon",
        "Lap(3 H log2(K)/eps) per tree node on visits and transitions, Lap(3 H/eps) on observed losses",
        f"{FACTOR_TWO}, in each of three streams: (4/3 L / log2(K) + 2/3) eps",
        "Lap(2 H L/e) on counts, Lap(2 H/e) on losses",
        lambda s: _adversarial(s, tree=True, full=False),
    ),
    Published(
        "published/adversarial-full-information-local",
        _PAPER,
        "local",
        "epsilon",
        "Lap(3 H/eps) on visits, transitions and the loss table, every user",
        f"{FACTOR_TWO}; the loss table moves all d = S A entries: (4/3 + d/(3H)) eps",
        "Lap(2 H/e) on counts, Lap(d/e) or one sampled coordinate on losses",
        lambda s: _adversarial(s, tree=False, full=True),
    ),
    Published(
        "published/adversarial-bandit-local",
        _PAPER,
        "local",
        "epsilon",
        "Lap(3 H/eps) on visits, transitions and observed losses, every user",
        f"{FACTOR_TWO}, in each of three streams: 2 eps",
        "Lap(2 H/e) on each stream with e its share of eps",
        lambda s: _adversarial(s, tree=False, full=False),
    ),
)
