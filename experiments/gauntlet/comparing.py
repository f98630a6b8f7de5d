"""Two cells compared run by run: is more trust ever worse, and what did a change of the code do?

Run i of both cells has the same seed, so that in random worlds it is the same world. If both cells had the same law,
the difference of a pair of runs would be as likely as its negative: the p-value is the share of random changes of sign
whose mean difference is at least the one that was seen (all of them where runs are few). P-values are corrected for
the number of comparisons by Holm's rule, so that the chance of any false alarm in a report is at most 5%.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from discreet.base.types import Floats

from .reading import Row, identity, name_of, percent

LEVEL = 0.05
_EXACT, _FIRST, _MORE = 12, 2_000, 100_000

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
    return holm(pairs)


def between(before: Sequence[Row], after: Sequence[Row], *, same: Sequence[str]) -> list[Comparison]:
    """Cells that both have, the second over the first, two-sided; ``same`` names what a pair must share."""
    old = {tuple(row[name] for name in same): row for row in before if "share" in row}
    pairs = []
    for row in after:
        other = old.get(tuple(row[name] for name in same))
        if "share" in row and other is not None:
            pairs.append(compare(row, other, two_sided=True))
    return holm(pairs)


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


def sign_flips(differences: Floats, *, two_sided: bool) -> float:
    """The p-value of paired differences by random signs: exact up to twelve runs, finer where it is small."""
    if not np.any(differences):
        return 1.0
    n = differences.size
    if n <= _EXACT:
        signs = np.array(list(product((1.0, -1.0), repeat=n)))
        return _tail(signs @ differences, float(differences.sum()), two_sided)
    rng = np.random.default_rng(0)
    p = 1.0
    for draws in (_FIRST, _MORE):
        sums = np.concatenate(
            [(2.0 * rng.integers(0, 2, size=(part, n)) - 1.0) @ differences for part in (draws // 10,) * 10]
        )
        p = _tail(np.append(sums, differences.sum()), float(differences.sum()), two_sided)
        if p > 0.02:
            break
    return p


def shuffled_labels(a: Floats, b: Floats, *, two_sided: bool) -> float:
    """The p-value of two samples that are not paired: how often random labels give as large a difference of means."""
    rng = np.random.default_rng(0)
    pool = np.concatenate([a, b])
    seen = float(a.mean() - b.mean())
    drawn = rng.permuted(np.tile(pool, (20_000, 1)), axis=1)
    return _tail(np.append(drawn[:, : a.size].mean(axis=1) - drawn[:, a.size :].mean(axis=1), seen), seen, two_sided)


def _tail(drawn: Floats, seen: float, two_sided: bool) -> float:
    slack = 1e-9 * (1 + abs(seen))  # sums of the same numbers in another order
    if two_sided:
        return float(np.mean(np.abs(drawn) >= abs(seen) - slack))
    return float(np.mean(drawn >= seen - slack))


def holm(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Corrected p-values: the smallest times their number, the next times one less, and never falling."""
    ranked = sorted(comparisons, key=lambda item: item.p)
    done, so_far = [], 0.0
    for position, item in enumerate(ranked):
        so_far = max(so_far, min(1.0, item.p * (len(ranked) - position)))
        done.append(item._replace(corrected=so_far))
    return done


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
            lines += [
                f"## {title}",
                "",
                "| world | learner | more trust | less trust | % of uniform | ratio | runs | p | corrected |",
            ]
            lines.append("|---" * 9 + "|")
            lines += [_trust_line(item) for item in sorted(items, key=lambda item: -item.ratio)]
            lines.append("")
    return "\n".join(lines)


def _trust_line(item: Comparison) -> str:
    more, less = item.first, item.second
    return (
        f"| {name_of(more['world'], more['users'])} | {more['learner']} | {more['trust']} | {less['trust']} "
        f"| {percent(more['share'])} and {percent(less['share'])} | {item.ratio:.2f} | {item.runs} | {item.p:.2g} "
        f"| {item.corrected:.2g} |"
    )


def change_report(comparisons: Sequence[Comparison]) -> str:
    """What changed, cell by cell, the worst first, and the geometric mean per learner and trust model."""
    lines = [
        f"{len(comparisons)} cells in both. Ratio: regret after over before. Marked: corrected p below {LEVEL:g}.",
        "",
        "| learner | trust | cells | mean ratio (geometric) | surely better | surely worse | stuck before | after |",
        "|---" * 8 + "|",
    ]
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
        lines.append(f"| {learner} | {trust} | {len(items)} | {mean} | {better} | {worse} | {stuck[0]} | {stuck[1]} |")
    lines += [
        "",
        "| world | learner | trust | % of uniform before | after | ratio | stuck before | after | corrected p |",
    ]
    lines.append("|---" * 9 + "|")
    for item in sorted(comparisons, key=lambda item: -item.ratio):
        new, old = item.first, item.second
        mark = "**" if item.corrected < LEVEL else ""
        lines.append(
            f"| {name_of(new['world'], new['users'])} | {new['learner']} | {new['trust']} | {percent(old['share'])} "
            f"| {percent(new['share'])} | {mark}{item.ratio:.2f}{mark} | {_stuck([old])} | {_stuck([new])} "
            f"| {item.corrected:.2g} |"
        )
    return "\n".join(lines) + "\n"


def _stuck(rows: Sequence[Row]) -> str:
    return f"{sum(row['stuck'] for row in rows)} of {sum(row['finished'] for row in rows):,}"
