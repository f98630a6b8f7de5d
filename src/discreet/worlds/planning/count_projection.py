"""From noisy counts to counts that could be: the min-max linear program of three papers, in closed form.

A row of noisy counts c_1..c_S and a separately noised total C contradict each other. Private algorithms repair this by

    minimise  max_i |n_i - c_i|    subject to    n >= 0,   |sum n - C| <= slack.

Among its optima one is canonical: the Euclidean projection of c on the same set. With s = sum max(c, 0) it is

    n = max(c, 0)            if s is within the slack of C,
    n = max(c - theta, 0)    otherwise, theta such that n sums to the nearer of C - slack, C + slack (at least 0).

Why it is optimal: its largest deviation is max(|theta|, max_i (-c_i)^+). No feasible n deviates by less than the
second; a theta > 0 is needed because sum max(c - t, 0) <= C + slack fails for every t < theta, a theta < 0 because
sum (c + t) >= C - slack fails for every t < -theta. Nothing is feasible exactly when C + slack < 0.

How the three uses differ
    adversarial losses and policy elimination (joint, local, shuffle): counts and total keep their sign, the slack is a
        quarter of the error bound E, and a row with C < -slack, which happens only outside the event that the error
        bounds describe, becomes empty (all zero). Afterwards ``lift_counts`` adds E/2 to each total.
    offline (zCDP and pure): counts and total are cut at zero first (``truncate=True``), so that every row is feasible
        and the optimum is unique; the slack is E/2 and nothing is added.

Formal guarantees
    Post-processing of released counts: free of privacy cost. If every noisy number is within E/4 of the truth and the
    slack is E/4, the projected counts and their sum are within E/2 of it, and the lifted total lies in [N, N + E].
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from discreet.base.compiled import kernel
from discreet.base.errors import InvalidInput, check_name
from discreet.base.types import ArrayLike, Floats, Integers
from discreet.base.validation import check_array, check_not_negative


def project_counts(
    cells: ArrayLike,
    totals: ArrayLike,
    slack: float,
    *,
    truncate: bool = False,
    infeasible: Literal["empty", "refuse"] = "empty",
) -> Floats:
    """Project every row of noisy counts (last axis) so that it agrees with its noisy total up to the slack.

    ``cells`` has shape (..., S), ``totals`` (...). ``truncate`` cuts both at zero first. ``infeasible`` says what
    becomes of a row whose total is below minus the slack: ``"empty"`` returns zeros, ``"refuse"`` raises.

    >>> project_counts([4.0, 1.0, -2.0], 3.0, slack=1.0)
    array([3.5, 0.5, 0. ])
    """
    noisy = check_array("cells", cells)
    if noisy.ndim == 0 or noisy.shape[-1] == 0:
        raise InvalidInput(f"cells must have at least one count per row, got shape {noisy.shape}")
    sums = check_array("totals", totals, noisy.shape[:-1])
    width = check_not_negative("slack", slack)
    check_name("way to treat infeasible rows", infeasible, ("empty", "refuse"))
    if truncate:
        noisy, sums = np.maximum(noisy, 0.0), np.maximum(sums, 0.0)
    if infeasible == "refuse" and (sums < -width).any():
        raise InvalidInput(
            f"{int((sums < -width).sum())} of {sums.size} rows have a noisy total below minus the slack of {width:g} "
            "and admit no counts; pass infeasible='empty' to make them zero or truncate=True to cut totals at zero"
        )
    offsets = np.arange(sums.size + 1) * noisy.shape[-1]
    counts = np.empty(noisy.size)
    project_rows(np.ascontiguousarray(noisy).reshape(-1), sums.reshape(-1), width, offsets, counts)
    return counts.reshape(noisy.shape)


def lift_counts(counts: ArrayLike, error: float) -> tuple[Floats, Floats]:
    """Projected counts (..., S) lifted to (n + E / (2 S), sum n + E / 2), so that no total is below the truth."""
    n = check_array("counts", counts)
    bound = check_not_negative("error", error)
    return n + bound / (2 * n.shape[-1]), n.sum(axis=-1) + bound / 2


@kernel
def project_rows(cells: Floats, totals: Floats, slack: float, offsets: Integers, counts: Floats) -> None:
    """Project every row r, cells[offsets[r] : offsets[r + 1]]; rows may differ in length, as in a layered table."""
    for row in range(totals.shape[0]):
        project_row(cells, offsets[row], offsets[row + 1], totals[row], slack, counts)


@kernel
def project_row(cells: Floats, begin: int, end: int, total: float, slack: float, counts: Floats) -> None:
    """Project cells[begin:end] into counts[begin:end]."""
    present = 0.0
    for i in range(begin, end):
        counts[i] = max(cells[i], 0.0)
        present += counts[i]
    if total - slack <= present <= total + slack:
        return
    target = max(0.0, total - slack if present < total - slack else total + slack)
    theta = _threshold(cells, begin, end, target)
    for i in range(begin, end):
        counts[i] = max(cells[i] - theta, 0.0) if target > 0.0 else 0.0


@kernel
def _threshold(cells: Floats, begin: int, end: int, target: float) -> float:
    """theta with sum max(c - theta, 0) = target > 0.

    Averaging over all cells, then over those above the last threshold, gives thresholds that only rise and never pass
    the true one; it stops after at most one pass per cell, mostly after two or three, and needs no sorting. Rounding
    can lower a threshold by its last digit, so that a cell comes back: it stops there, too.
    """
    theta = -np.inf
    kept = 0
    while True:
        total, count = -target, 0
        for i in range(begin, end):
            if cells[i] > theta:
                total += cells[i]
                count += 1
        if count == 0 or (kept > 0 and count >= kept):
            return theta
        theta, kept = total / count, count
