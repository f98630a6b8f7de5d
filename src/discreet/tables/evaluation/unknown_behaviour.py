"""A policy judged where the behaviour is not declared: a table of held-out users, and their mean return.

The budget of the held-out users is divided between a table (four fifths of epsilon), from which the policy's value is
computed (:mod:`discreet.tables.evaluation.plug_in`), and the behaviour's value, a private mean of returns. Both are
about users whose record begins, until it ends. The difference is that of the two intervals' middles; its half-widths
are the sums of theirs, which holds however the two are correlated. It is not 0 by itself where policy and behaviour are
the same, but no part of its error is left out: that of the behaviour is in the value's interval.
"""

from __future__ import annotations

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
from discreet.tables.evaluation.doubly_robust import judged_users, returns_of
from discreet.tables.evaluation.interval import Interval
from discreet.tables.evaluation.model_users import imagined_users
from discreet.tables.evaluation.plug_in import plug_in
from discreet.tables.evaluation.policy_value import Judged, ask, interval_of
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
    worst, best = float(limits.worst[0]), float(limits.best[0])
    imagined = imagined_users(model, seen_behaviour(model, shape), shape, _IMAGINED, _SEED)
    chosen = choose_clip(returns_of(imagined, shape, limits), limits.span, paths.users, epsilon, (worst, best))
    chosen = chosen._replace(expected=None)
    own = ask("value of the behaviour", returns_of(paths, shape, limits), judged_users(paths), chosen, epsilon, noise)
    count = own.sums.present
    behaviour = interval_of([own.end(count, confidence)], confidence, worst, best)
    value = found.value
    difference = Interval(
        value.estimate - behaviour.estimate, value.low - behaviour.high, value.high - behaviour.low, confidence
    )
    return Judged(
        value,
        behaviour,
        difference.within(-limits.span, limits.span),
        Causes(found.bracket, found.noise, found.sampling, limits.span, found.shown),
        tuple(own.mechanism.parts()),
        count,
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
