"""A policy judged where the behaviour is not declared: a table of held-out users, and their mean return.

The budget of the held-out users is divided between a table (four fifths of epsilon), from which the policy's value is
computed (:mod:`discreet.tables.evaluation.plug_in`), and the behaviour's value, a private mean of returns. The
difference is that of the two intervals' middles; its half-widths are the sums of theirs, which holds however the two
are correlated.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from discreet.base.errors import Unsupported
from discreet.base.policies import uniform_policy
from discreet.base.shape import Shape
from discreet.base.types import Floats
from discreet.mechanisms.release import Release, Request
from discreet.mechanisms.session import Privatizer
from discreet.mechanisms.sums.accumulator import NoiseSource
from discreet.tables.evaluation.clipping import choose_clip
from discreet.tables.evaluation.doubly_robust import returns_of
from discreet.tables.evaluation.interval import Interval, half_width
from discreet.tables.evaluation.model_users import imagined_users
from discreet.tables.evaluation.plug_in import plug_in
from discreet.tables.evaluation.policy_value import Judged
from discreet.tables.evaluation.private_mean import PrivateMean
from discreet.tables.evaluation.released_model import Model, has_table, model_of, repaired
from discreet.tables.evaluation.return_bounds import Limits
from discreet.tables.evaluation.verdict import Causes
from discreet.tables.read.user_subsets import Paths

_IMAGINED, _SEED = 8000, 0


def judge_unknown(
    users: Any, paths: Paths, shape: Shape, limits: Limits, policy: Floats, privatizer: Privatizer, epsilon: float,
    noise: NoiseSource, *, start: Floats | None = None, start_variance: float | None = None, confidence: float = 0.95,
    known_rewards: Floats | None = None,
) -> Judged:  # fmt: skip
    """Judge a policy (H, S, A) by users of an unknown behaviour: ``users`` and ``paths`` are the same people.

    ``privatizer`` is that of their table, ``epsilon`` what the behaviour's value may cost beside it. Pooled tables need
    the shares ``start`` of first states, whose counts carry noise of ``start_variance``.
    """
    session = privatizer.open(users, noise, paths.users)
    release = session.answer(Request(uniform_policy(shape)))
    if known_rewards is not None:
        release = with_rewards(release, known_rewards)
    if not has_table(release):
        raise Unsupported(
            "a policy is judged without a declared behaviour by a table of all successors, which is too large here: "
            "declare behaviour=, merge states, or declare homogeneous=True"
        )
    model = model_of(shape, release, limits.ends, paths.users, start)
    if start_variance is None:
        start_variance = float(model.visit_variance[0].max()) * shape.actions
    found = plug_in(model, shape, limits, policy, start_variance, confidence)
    span = float(limits.worst[0]), float(limits.best[0])
    imagined = imagined_users(model, seen_behaviour(model, shape), shape, _IMAGINED, _SEED)
    chosen = choose_clip(returns_of(imagined, shape, limits), limits.span, paths.users, epsilon, span)
    mechanism = PrivateMean("value of the behaviour", chosen.clip, epsilon)
    moments = mechanism.release(returns_of(paths, shape, limits), noise, chosen.deviation)
    half = chosen.excess + half_width(moments.deviation / math.sqrt(moments.users), moments.noise, confidence)
    own = Interval(moments.mean, moments.mean - half, moments.mean + half, confidence)
    value = found.value
    difference = Interval(value.estimate - own.estimate, value.low - own.high, value.high - own.low, confidence)
    return Judged(
        value,
        own.within(*span),
        difference.within(-limits.span, limits.span),
        Causes(found.bracket, found.noise, found.sampling, limits.span, found.shown),
        tuple(mechanism.parts()),
        release,
        tuple(part for channel in privatizer.channels for part in channel.mechanisms()),
    )


def with_rewards(release: Release, known: Floats) -> Release:
    """A release with declared mean rewards beside it."""
    return replace(release, public={**release.public, "rewards": known})


def seen_behaviour(model: Model, shape: Shape) -> Floats:
    """The behaviour that a table shows (H, S, A): shares of actions, for imagined users only."""
    shares = repaired(model.visits)
    return np.broadcast_to(shares, (shape.horizon, shape.states, shape.actions))
