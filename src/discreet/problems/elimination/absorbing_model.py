"""From released counts to a model that errs on the side of losing: what is not known for sure leads to a sink.

A transition (h, x, a, x') whose noisy count does not stand out of the noise is *absorbed*: its mass goes to a sink that
earns nothing (the set W of policy elimination; Qiao, Yin, Min and Wang, 2022). With N the counts of one batch,

    P_h(x' | x, a) = N_h(x, a, x') / N_h(x, a)  outside W,  0 inside,     r_h(x, a) = R_h(x, a) / N_h(x, a)  in [0, 1],

so that the model undervalues a policy by at most the mass that it loses. The noise in a count is summed up by its width
q, the normal quantile of its standard deviation; for shuffled bits that is the exact quantile within a few per cent.

Before that the counts are made possible: ``clip`` cuts them at zero; ``program`` solves the linear program of the
private algorithms with the error bound E = 4 q and adds E / (2 X) to every count, as the papers do. That keeps all
totals above the truth and pulls rows with little data towards the uniform law.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from discreet.base.types import Floats, Mask
from discreet.mechanisms.release import Release
from discreet.worlds.planning.count_projection import lift_counts, project_counts

REPAIRS = ("clip", "program")
# Widths below the estimate at which visits count as certain; a whole one learns half as fast and loses nobody more.
_CERTAIN = 0.5


class Counts(NamedTuple):
    """Counts of every step, with the variance of the noise in each: transitions (H, X, A, X), all others (H, X, A)."""

    visits: Floats
    transitions: Floats
    rewards: Floats
    visit_variance: Floats
    transition_variance: Floats  # of the count of one successor
    reward_variance: Floats


class Model(NamedTuple):
    """An estimated world with a sink: rows of P (H, X, A, X) may lack mass; start (X,), all others (H, X, A).

    ``visits`` are fairly certain, half the width of the noise below the estimate and at least one: radii that divide
    by them stay wide as long as counts drown in noise.
    """

    transitions: Floats
    rewards: Floats
    visits: Floats
    widths: Floats
    start: Floats


def no_counts(horizon: int, states: int, actions: int) -> Counts:
    """What is known before the first release: nothing."""
    rows = (horizon, states, actions)
    return Counts(np.zeros(rows), np.zeros((*rows, states)), *(np.zeros(rows) for _ in range(4)))


def counts_of(release: Release) -> Counts:
    """Everything released so far."""
    visits, transitions, rewards = (release[name] for name in ("visits", "transitions", "rewards"))
    return Counts(
        visits.values, transitions.values, rewards.values, visits.variance, transitions.variance, rewards.variance
    )


def last_batch(now: Counts, before: Counts) -> Counts:
    """What the last release added, with the variance of the noise in it.

    Where every batch has noise of its own, as in blocks and through a shuffler, variances add up and their difference
    is exact. The releases of a tree share noise: a variance that did not grow although the count changed belongs to
    one, and the sum of both variances is then a bound. Other correlated noise is underestimated.
    """
    counts = [after - earlier for after, earlier in zip(now[:3], before[:3], strict=True)]
    changed = [count.any(axis=-1) if count.ndim == 4 else count != 0 for count in counts]
    variances = (
        np.where((after > earlier) | ~moved, after - earlier, after + earlier)
        for after, earlier, moved in zip(now[3:], before[3:], changed, strict=True)
    )
    return Counts(*counts, *variances)


def pool(total: Counts, batch: Counts) -> Counts:
    """Old and new batches together, each row by what it is worth.

    With n visits and noise of variance v in a count, an estimated probability p has variance (p (1-p) n + v) / n^2;
    at p (1-p) = 1/4 the best weight of the batch's counts is n / (n + 4 v). Without noise all batches simply add up.
    """
    n = np.maximum(batch.visits, 0.0)
    weight = n / np.maximum(n + 4.0 * batch.transition_variance, 1e-300)
    counts = (
        old + (weight[..., None] if new.ndim == 4 else weight) * new
        for old, new in zip(total[:3], batch[:3], strict=True)
    )
    variances = (old + weight**2 * new for old, new in zip(total[3:], batch[3:], strict=True))
    return Counts(*counts, *variances)


def absorbed(counts: Counts, quantile: float, threshold: float, repair: str) -> Mask:
    """W: the transitions (H, X, A, X) whose counts are at most ``threshold`` widths of noise."""
    transitions, _ = _repaired(counts, quantile, repair)
    width = quantile * np.sqrt(counts.transition_variance)
    offset = 2.0 * _largest(width) / counts.visits.shape[1] if repair == "program" else 0.0
    return np.asarray(transitions <= (threshold * width + offset)[..., None])


def estimate(counts: Counts, lost: Mask, start: Floats, support: Mask, quantile: float, repair: str) -> Model:
    """The model with the transitions in ``lost`` absorbed, and those that leave the public support (H, X)."""
    transitions, totals = _repaired(counts, quantile, repair)
    kept = np.where(lost, 0.0, transitions)
    kept[:-1] *= support[1:, None, None, :]
    totals = np.maximum(totals, kept.sum(axis=-1))
    P = np.divide(kept, totals[..., None], out=np.zeros_like(kept), where=totals[..., None] > 0)
    noise = np.minimum(counts.visit_variance, _sum_variance(counts))
    noise[-1] = counts.visit_variance[-1]
    totals[-1] = np.maximum(counts.visits[-1], 0.0)
    rewards = np.clip(counts.rewards / np.maximum(totals, 1.0), 0.0, 1.0)
    visits = np.maximum(totals - _CERTAIN * quantile * np.sqrt(noise), 1.0)
    widths = quantile * np.sqrt(np.maximum(counts.transition_variance, counts.reward_variance))
    return Model(P, rewards, visits, widths, start)


def start_law(counts: Counts) -> Floats:
    """The estimated law of the first state."""
    first = np.maximum(counts.visits[0].sum(axis=-1), 0.0)
    total = first.sum()
    return np.full(len(first), 1.0 / len(first)) if total <= 0 else first / total


def _repaired(counts: Counts, quantile: float, repair: str) -> tuple[Floats, Floats]:
    """Possible transition counts (H, X, A, X) and their totals (H, X, A); the last step has none of the former."""
    totals = _totals(counts)
    if repair == "clip":
        return np.maximum(counts.transitions, 0.0), np.maximum(totals, 0.0)
    transitions, lifted = np.zeros_like(counts.transitions), np.maximum(totals, 0.0)
    widths = _largest(quantile * np.sqrt(counts.transition_variance))[:, 0, 0]
    for h in range(len(totals) - 1):
        counted_rows = (counts.transition_variance[h] > 0) | (
            counts.visits[h] != 0
        )  # rows that nobody could play stay zero
        if counted_rows.any():
            projected = project_counts(counts.transitions[h][counted_rows], totals[h][counted_rows], widths[h])
            transitions[h][counted_rows], lifted[h][counted_rows] = lift_counts(projected, 4.0 * widths[h])
    return transitions, lifted


def _totals(counts: Counts) -> Floats:
    """Visits, or the sum of the transitions where that has less noise; the last step has visits only."""
    totals = counts.visits.copy()
    quieter = _sum_variance(counts) < counts.visit_variance
    quieter[-1] = False
    totals[quieter] = counts.transitions.sum(axis=-1)[quieter]
    return totals


def _sum_variance(counts: Counts) -> Floats:
    """The variance of the noise in the sum of a row's transitions."""
    return np.asarray(counts.transition_variance * counts.visits.shape[1])


def _largest(width: Floats) -> Floats:
    """The widest noise of each step: the error bound of the program holds for all rows."""
    return np.asarray(width.max(axis=(1, 2), keepdims=True))
