"""Verdicts: whether what a paper says is so, how sure that is, how large the difference is, and how many runs it takes.

**Paired sign tests.** Runs of one seed share their worlds, so run i of one line is compared with run i of another. With
w of n runs on one side (runs that are exactly equal do not count), the *doubt* is the probability of w or more heads
among n fair coins: the probability of what was measured, or of more, if both sides were equally likely. That is exact
whatever the law of regret is; a few runs that never learn and cost a hundred times the others do not upset it, as they
do a test on means. A comparison is decided if its doubt is below 2.5%, which takes six runs that agree, *and* the means
are on the same side: the theorems are about means, so if most runs say one thing and the mean another it is undecided.

**Many comparisons.** A statement that makes several holds if each one does, which needs no correction, and fails if one
does at 2.5% divided by their number (Bonferroni).

**Effect sizes.** The median over runs of the ratio of both sides (of their difference, where a side is not positive),
with the interval between two order statistics that holds the true median in at least 95% of repetitions. Where no
two runs are equal it excludes 1 if, and only if, the doubt is below 2.5%. Below six runs there is no such interval.

**Numbers** are compared with what is printed by an interval that resamples the runs (bootstrap): inside the tolerance
the statement holds, outside it fails, across its edge it is undecided. Noise that is smaller than printed, in a
mechanism that was built to have less, is no failure: that verdict is "better".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from discreet.base.types import Floats

CONFIDENCE = 0.975  # of each one-sided comparison
WORDS = ("holds", "fails", "undecided", "better", "not measured")
_MOST_RUNS = 2_000  # more are not asked for
_RESAMPLES = 2_000


@dataclass(frozen=True)
class Effect:
    """The size of a difference in a typical run, and an interval for it; ``kind`` is ratio, difference or value."""

    kind: str
    value: float
    low: float
    high: float

    def words(self) -> str:
        """The effect in a few characters."""
        times = "×" if self.kind == "ratio" else ""
        sign = "+" if self.kind == "difference" and self.value > 0 else ""
        return f"{times}{sign}{number(self.value)}"

    def interval(self) -> str:
        """The interval in a few characters; a dash where there is none."""
        if not (math.isfinite(self.low) and math.isfinite(self.high)):
            return "—"
        return f"{number(self.low)} to {number(self.high)}"


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds, and the evidence: in words, or as numbers by name.

    ``holds`` is None where the runs do not decide, or where nothing was ``measured``. ``doubt`` is the probability of
    what was measured, or of more, if the opposite were true. ``better``: what is measured is not what is stated but
    more favourable, by design. ``needed`` is the number of runs that would decide if they go on as they did; None where
    none would. ``idle``: a learner that plays uniformly and learns nothing passes the same check.
    """

    holds: bool | None
    evidence: str = ""
    measured: bool = True
    doubt: float = 0.0
    numbers: Mapping[str, Any] = field(default_factory=dict)
    better: bool = False
    effect: Effect | None = None
    runs: int = 0
    share: float = 0.0  # of the runs that say so, of those that say anything
    needed: int | None = None
    idle: bool = False

    @property
    def word(self) -> str:
        """The verdict in a word: holds, fails, undecided, better or not measured."""
        if not self.measured:
            return "not measured"
        return "better" if self.better else {True: "holds", False: "fails", None: "undecided"}[self.holds]

    def sentence(self) -> str:
        """The verdict with its number of runs: "undecided at 6 runs; about 15 would decide"."""
        if self.word != "undecided" or not self.runs:
            return self.word
        if self.effect is not None and self.effect.kind == "value":  # an interval across the edge of a tolerance
            return f"undecided at {self.runs} runs"
        more = f"about {self.needed} would decide" if self.needed else "more of the same would not decide"
        return f"undecided at {self.runs} runs; {more}"

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON; an interval that does not exist is null."""
        effect = None
        if self.effect is not None:
            bounds = [bound if math.isfinite(bound) else None for bound in (self.effect.low, self.effect.high)]
            effect = {"kind": self.effect.kind, "value": self.effect.value, "interval": bounds}
        return {
            "verdict": self.word,
            "evidence": self.evidence,
            "doubt": self.doubt,
            "runs": self.runs,
            "needed": self.needed,
            "effect": effect,
            "uniform play passes": self.idle,
        }


def standard_error(values: Floats) -> Floats:
    """The standard error of the mean over runs, which are the first axis; zero for a single run."""
    n = len(values)
    return np.asarray(values.std(axis=0, ddof=1) / np.sqrt(n)) if n > 1 else np.zeros(values.shape[1:])


def below(lower: Floats, upper: Floats, what: str = "") -> Verdict:
    """Whether the first is below the second, by a sign test on the runs as pairs; see the module."""
    n = min(len(lower), len(upper))
    difference = upper[:n] - lower[:n]
    more, less = int((difference > 0).sum()), int((difference < 0).sum())
    effect = _effect(lower[:n], upper[:n])
    said = f"{more} of {n} runs" if more >= less else f"the opposite in {less} of {n} runs"
    told = f"{_of(what)}{number(lower.mean())} against {number(upper.mean())} ({said}"
    told += f", {effect.words()}, {effect.interval()})" if math.isfinite(effect.low) else f", {effect.words()})"
    if more == less:
        return Verdict(None, told, doubt=1.0, effect=effect, runs=n, share=0.5)
    share, doubt = max(more, less) / (more + less), tail(more + less, max(more, less))
    agreed = (float(difference.mean()) > 0) == (more > less)
    if doubt < 1 - CONFIDENCE and agreed:
        return Verdict(more > less, told, doubt=doubt, effect=effect, runs=n, share=share)
    if not agreed:
        told += ": the mean is on the other side"
    needed = runs_to_decide(share) if agreed else None
    return Verdict(None, told, doubt=doubt, effect=effect, runs=n, share=share, needed=needed)


def within(
    value: float, target: float, tolerance: float, what: str = "",
    interval: tuple[float, float] | None = None, *, runs: int = 0, less_is_better: bool = False,
) -> Verdict:  # fmt: skip
    """Whether a number is where it should be, up to a share of it; ``interval`` is where the true number lies."""
    low, high = (value, value) if interval is None else interval
    least, most = target - tolerance * abs(target), target + tolerance * abs(target)
    effect = Effect("value", value, low, high)
    told = f"{_of(what)}{number(value)}" + (f" ({effect.interval()})" if interval else "")
    told += f", stated {number(target)}"
    if least <= low and high <= most:
        return Verdict(True, told, effect=effect, runs=runs)
    if high < least and less_is_better:
        return Verdict(None, f"{told}: less than stated, by design", better=True, effect=effect, runs=runs)
    outside = high < least or low > most
    return Verdict(False if outside else None, told, effect=effect, runs=runs)


def at_most(value: float, limit: float, what: str, interval: tuple[float, float], *, runs: int = 0) -> Verdict:
    """Whether a number is at most a limit, by the interval in which the true number lies."""
    low, high = interval
    effect = Effect("value", value, low, high)
    told = f"{_of(what)}{number(value)} ({effect.interval()}), at most {number(limit)} stated"
    holds = True if high <= limit else False if low > limit else None
    return Verdict(holds, told, effect=effect, runs=runs)


def bootstrap(of: Callable[..., float], *samples: Floats) -> tuple[float, float]:
    """The interval that holds the true number in about 95% of repetitions: quantiles over resampled runs.

    The resamples are drawn with a fixed seed, so that equal runs give equal verdicts.
    """
    rng = np.random.default_rng(0)
    found = [
        of(*(sample[rng.integers(len(sample), size=len(sample))] for sample in samples)) for _ in range(_RESAMPLES)
    ]
    low, high = np.quantile(found, (1 - CONFIDENCE, CONFIDENCE))
    return float(low), float(high)


def all_of(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on several claims together: all hold, at least one fails, or the runs do not decide.

    That all hold needs no correction, for each was tested. That one of many fails does: among m true comparisons one
    looks false by chance m times as often, so the surest failure counts with m times its doubt (Bonferroni). Effect and
    doubt are those of the comparison that decides: the weakest one, or the surest failure.
    """
    found = list(verdicts)
    told = "; ".join(verdict.evidence for verdict in found)
    runs = min((verdict.runs for verdict in found), default=0)
    failures = [verdict for verdict in found if verdict.holds is False]
    if failures:
        surest = min(failures, key=lambda verdict: verdict.doubt)
        doubt = min(1.0, surest.doubt * len(found))
        if doubt < 1 - CONFIDENCE:
            return Verdict(False, told, doubt=doubt, effect=surest.effect, runs=runs, share=surest.share)
        needed = runs_to_decide(surest.share, (1 - CONFIDENCE) / len(found))
        return Verdict(None, told, doubt=doubt, effect=surest.effect, runs=runs, needed=needed)
    open_ = [verdict for verdict in found if verdict.holds is None and not verdict.better]
    weakest = max(open_ or found, key=lambda verdict: verdict.doubt, default=Verdict(True))
    if open_:
        asked = [verdict.needed for verdict in open_]
        needed = None if None in asked else max(each for each in asked if each is not None)
        return Verdict(None, told, doubt=weakest.doubt, effect=weakest.effect, runs=runs, needed=needed)
    better = any(verdict.better for verdict in found)
    holds = None if better else True
    return Verdict(holds, told, doubt=weakest.doubt, better=better, effect=weakest.effect, runs=runs)


def tail(coins: int, heads: int) -> float:
    """The probability of so many heads or more among fair coins.

    >>> tail(6, 6), tail(4, 4)
    (0.015625, 0.0625)
    """
    return float(sum(math.comb(coins, k) for k in range(heads, coins + 1)) / 2**coins)


def runs_to_decide(share: float, level: float = 1 - CONFIDENCE) -> int | None:
    """The fewest runs whose sign test is decided if this share of them agrees; None where thousands would not be.

    >>> runs_to_decide(1.0), runs_to_decide(0.75), runs_to_decide(0.5)
    (6, 20, None)
    """
    if share <= 0.5:
        return None
    for runs in range(1, _MOST_RUNS + 1):
        agreeing = math.floor(share * runs + 1e-9)
        if 2 * agreeing > runs and _quick_tail(runs, agreeing) < level:
            return runs
    return None


def _quick_tail(coins: int, heads: int) -> float:
    """The tail, exactly for few coins and by the normal law with half a coin's correction for many."""
    if coins <= 200:
        return tail(coins, heads)
    return 0.5 * math.erfc((heads - 0.5 - coins / 2) / math.sqrt(coins / 2))


def _effect(lower: Floats, upper: Floats) -> Effect:
    """The median ratio of the second to the first, or the median difference, with its interval by order statistics."""
    positive = bool((lower > 0).all() and (upper > 0).all())
    sizes = np.sort(upper / lower if positive else upper - lower)
    n, rank = len(sizes), 0
    while tail(n, n - rank) < 1 - CONFIDENCE and 2 * (rank + 1) <= n:
        rank += 1
    low, high = (float(sizes[rank - 1]), float(sizes[n - rank])) if rank else (-math.inf, math.inf)
    return Effect("ratio" if positive else "difference", float(np.median(sizes)), low, high)


def number(value: float) -> str:
    """A number as a person reads it.

    >>> number(123456.7), number(0.012345)
    ('123,457', '0.0123')
    """
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _of(what: str) -> str:
    return f"{what}: " if what else ""
