"""Better, worse, about the same, or: cannot be told. Decided from released intervals alone.

* *better* (*worse*): the interval of the difference to the behaviour lies above (below) 0;
* *cannot be told*: it contains 0 and is wider than a quarter of the range that values can have. The reason is the
  largest of three released parts of its width: rows that are not shown (the bracket), noise, or sampling;
* *about the same*: it contains 0 and is no wider than that;
* *not judged*: the declared rule for missing rows does not compare the same records, or nobody may be there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from discreet.tables.evaluation.interval import Interval

_WIDE, _FEW = 0.25, 0.005
ESTIMAND = "the return of people like these until their record ends, under this policy and under what was done"
ASSUMES = "rows are missing for reasons that have nothing to do with what would have followed"
READ_OFF = f"{ASSUMES}, and the rows that are counted show what users did"  # where a behaviour is not declared


class Causes(NamedTuple):
    """What the interval of the difference is wide for, in the owner's units."""

    bracket: float
    noise: float
    sampling: float
    span: float
    shown: float  # the share of the policy's way that leads through rows that are shown


@dataclass(frozen=True)
class Verdict:
    """What may be said about a policy and the behaviour, and why no more can be."""

    word: str
    reason: str

    def sentence(self) -> str:
        """The verdict as people read it."""
        return f"{self.word}: {self.reason}"


def verdict_from(word: str, sentence: str) -> Verdict:
    """A verdict that was written down."""
    return Verdict(word, sentence.removeprefix(f"{word}: "))


def not_judged(reason: str) -> Verdict:
    """No verdict, and why."""
    return Verdict("not judged", reason)


def verdict_of(difference: Interval, causes: Causes, without_record: float = 0.0, assumes: str = ASSUMES) -> Verdict:
    """The verdict that the interval of the difference allows; ``without_record`` is a released share of users."""
    within = (
        f"the difference to the behaviour lies between {difference.low:.4g} and {difference.high:.4g}, if {assumes}"
    )
    if without_record >= _FEW:
        within += f" (about {without_record:.0%} of the users are not judged)"
    if difference.low > 0 or difference.high < 0:
        return Verdict("better" if difference.low > 0 else "worse", within)
    if difference.width <= _WIDE * causes.span:
        return Verdict("about the same", within)
    parts = {
        "rows not shown": causes.bracket,
        "noise": causes.noise,
        "sampling": causes.sampling,
    }
    remedies = {
        "rows not shown": f"{1 - causes.shown:.0%} of what the policy does leads through situations that too few users "
        "show; take a safe policy (safe=True), merge states, or more users",
        "noise": "the noise is too large for so few users; take a larger epsilon or more users",
        "sampling": "the outcomes of so few held-out users vary too much; take more users, or a policy nearer to the "
        "behaviour",
    }
    largest = max(parts, key=lambda name: parts[name])
    return Verdict("cannot be told", f"{within}; {remedies[largest]}")
