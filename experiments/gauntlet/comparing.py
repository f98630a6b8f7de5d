"""Two cells compared run by run: is more trust ever worse, and what did a change of the code do?

The tests are those of :mod:`discreet.simulation.experiments`; p-values are corrected for the number of comparisons, so
that the chance of any false alarm in a report is at most 5%.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from discreet.simulation.experiments import holm, shuffled_labels, sign_flips, table

from .reading import Row, identity, name_of, percent

LEVEL = 0.05

# Each pair: whatever keeps the second promise keeps the first one too, so that the first need never be worse.
MORE_TRUST = (
    ("none", "central-10"),
    ("central-10", "central-1"),
    ("central-1", "central-pure-1"),
    ("central-1", "shuffle-1"),
    ("shuffle-1", "local-1"),
    ("central-pure-1", "local-1"),
    ("central-10", "local-4"),
    ("local-4", "local-1"),
)


class Comparison(NamedTuple):
    """Two rows, the ratio of their regrets (the first over the second), and a p-value, corrected later."""

    first: Row
    second: Row
    runs: int
    ratio: float
    p: float
    corrected: float = 1.0


def worse_with_more_trust(rows: Sequence[Row]) -> list[Comparison]:
    """All comparisons of a trust model with one that asks for less, one-sided: has more trust more regret?"""
    found = {identity(row): row for row in rows if "share" in row}
    pairs = []
    for (world, users, learner, trust), row in found.items():
        for more, less in MORE_TRUST:
            other = found.get((world, users, learner, less))
            if trust == more and other is not None:
                pairs.append(compare(row, other, two_sided=False))
    return corrected(pairs)


def between(before: Sequence[Row], after: Sequence[Row], *, same: Sequence[str]) -> list[Comparison]:
    """Cells that both have, the second over the first, two-sided; ``same`` names what a pair must share."""
    old = {tuple(row[name] for name in same): row for row in before if "share" in row}
    pairs = []
    for row in after:
        other = old.get(tuple(row[name] for name in same))
        if "share" in row and other is not None:
            pairs.append(compare(row, other, two_sided=True))
    return corrected(pairs)


def compare(first: Row, second: Row, *, two_sided: bool) -> Comparison:
    """Over the runs that both have; where seeds differ, runs are not paired and their labels are shuffled instead."""
    if first["seed"] == second["seed"]:
        runs = min(first["finished"], second["finished"])
        a, b = np.array(first["regret"][:runs]), np.array(second["regret"][:runs])
        p = sign_flips(a - b, two_sided=two_sided)
    else:
        a, b = np.array(first["regret"]), np.array(second["regret"])
        runs, p = min(a.size, b.size), shuffled_labels(a, b, two_sided=two_sided)
    ratio = float(a.mean() / b.mean()) if b.mean() > 0 else float("inf") if a.mean() > 0 else 1.0
    return Comparison(first, second, runs, ratio, p)


def corrected(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """All of them with p-values that are corrected for their number, the surest first."""
    ranked = sorted(comparisons, key=lambda item: item.p)
    return [item._replace(corrected=p) for item, p in zip(ranked, holm([item.p for item in ranked]), strict=True)]


def trust_report(comparisons: Sequence[Comparison]) -> str:
    """Where more trust is worse: for sure, and in the mean only."""
    sure = [item for item in comparisons if item.corrected < LEVEL]
    maybe = [item for item in comparisons if item.corrected >= LEVEL and item.ratio > 1.1]
    lines = [
        f"More trust compared with less, {len(comparisons)} times: {len(sure)} times worse (corrected p below "
        f"{LEVEL:g}), {len(maybe)} times worse by more than a tenth in the mean but perhaps by chance. Ratios and "
        "p-values are over the runs that both cells have.",
        "",
    ]
    if comparisons and min(item.runs for item in comparisons) < 8:
        lines += [
            "Some cells have fewer than 8 runs, too few to be sure of anything: their p is 1/16 at best for 4.",
            "",
        ]
    for title, items in (("Worse", sure), ("Perhaps worse", maybe)):
        if items:
            header = "world", "learner", "more trust", "less trust", "% of uniform", "ratio", "runs", "p", "corrected"
            ranked = sorted(items, key=lambda item: -item.ratio)
            lines += [f"## {title}", "", *table(header, [_trust_line(item) for item in ranked]), ""]
    return "\n".join(lines)


def _trust_line(item: Comparison) -> tuple[str, ...]:
    more, less = item.first, item.second
    return (
        name_of(more["world"], more["users"]), more["learner"], more["trust"], less["trust"],
        f"{percent(more['share'])} and {percent(less['share'])}", f"{item.ratio:.2f}", str(item.runs),
        f"{item.p:.2g}", f"{item.corrected:.2g}",
    )  # fmt: skip


def change_report(comparisons: Sequence[Comparison]) -> str:
    """What changed, cell by cell, the worst first, and the geometric mean per learner and trust model."""
    sums, cells = [], []
    groups: dict[tuple[str, str], list[Comparison]] = {}
    for item in comparisons:
        groups.setdefault((item.first["learner"], item.first["trust"]), []).append(item)
    for (learner, trust), items in groups.items():
        ratios = np.array([item.ratio for item in items])
        finite = ratios[np.isfinite(ratios) & (ratios > 0)]
        mean = f"{np.exp(np.log(finite).mean()):.3f}" if finite.size else "–"
        better = sum(item.corrected < LEVEL and item.ratio < 1 for item in items)
        worse = sum(item.corrected < LEVEL and item.ratio > 1 for item in items)
        stuck = [_stuck([getattr(item, side) for item in items]) for side in ("second", "first")]
        sums.append((learner, trust, str(len(items)), mean, str(better), str(worse), *stuck))
    for item in sorted(comparisons, key=lambda item: -item.ratio):
        new, old = item.first, item.second
        mark = "**" if item.corrected < LEVEL else ""
        name = name_of(new["world"], new["users"])
        shares = percent(old["share"]), percent(new["share"]), f"{mark}{item.ratio:.2f}{mark}"
        last = _stuck([old]), _stuck([new]), f"{item.corrected:.2g}"
        cells.append((name, new["learner"], new["trust"], *shares, *last))
    of = "stuck before", "after"
    lines = [
        f"{len(comparisons)} cells in both. Ratio: regret after over before. Marked: corrected p below {LEVEL:g}.",
        "",
        *table(("learner", "trust", "cells", "mean ratio (geometric)", "surely better", "surely worse", *of), sums),
        "",
        *table(("world", "learner", "trust", "% of uniform before", "after", "ratio", *of, "corrected p"), cells),
    ]
    return "\n".join(lines) + "\n"


def _stuck(rows: Sequence[Row]) -> str:
    return f"{sum(row['stuck'] for row in rows)} of {sum(row['finished'] for row in rows):,}"
