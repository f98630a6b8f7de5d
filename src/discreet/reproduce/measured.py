"""Results as claims see them, and the tests that decide a claim: by measurement, with its error, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.types import Floats

CONFIDENCE = 0.975  # of each one-sided comparison, by Student's law over runs


class NotMeasured(Exception):
    """A claim is about something that was not run, or that refused to run."""


@dataclass(frozen=True)
class Measured:
    """The saved result of one job."""

    data: Mapping[str, Any]

    @property
    def refused(self) -> str | None:
        reason: str | None = self.data.get("refused")
        return reason

    @property
    def episodes(self) -> Floats:
        return np.asarray(self.data["checkpoints"], np.float64)

    @property
    def regret(self) -> Floats:
        """Cumulative regret (runs, checkpoints)."""
        return np.asarray(self.data["curve"]["per_run"], np.float64)

    @property
    def total(self) -> Floats:
        """Regret of each run at the end; the gap of the learned policy where nobody acted while learning."""
        return self.gap if self.data["regret"] is None else self.regret[:, -1]

    @property
    def gap(self) -> Floats:
        return np.asarray(self.data["final_gap"]["per_run"], np.float64)

    @property
    def switches(self) -> Floats:
        return np.asarray(self.data["switches"]["per_run"], np.float64)

    @property
    def samples(self) -> Floats:
        return np.asarray(self.data["samples"], np.float64)

    @property
    def runs(self) -> int:
        return int(self.data["runs"])

    def rate(self, episode: float) -> Floats:
        """Regret per episode of each run, over the episodes up to one."""
        index = int(np.searchsorted(self.episodes, episode, side="right")) - 1
        return np.asarray(self.regret[:, max(index, 0)] / self.episodes[max(index, 0)])

    def slope(self, share: float = 0.2) -> Floats:
        """Regret per episode of each run, over the last share of the episodes."""
        last = len(self.episodes) - 1
        first = int(np.searchsorted(self.episodes, (1 - share) * self.episodes[-1]))
        first = min(first, last - 1) if last else 0
        span = max(self.episodes[last] - self.episodes[first], 1.0)
        return np.asarray((self.regret[:, last] - self.regret[:, first]) / span)


@dataclass(frozen=True)
class View:
    """The results that one drawing of a figure shows: those of its version, and the references."""

    results: Mapping[str, Measured]
    version: str

    def __getitem__(self, name: str) -> Measured:
        for key in (f"{self.version}/{name}", f"reference/{name}"):
            if key in self.results:
                found = self.results[key]
                if found.refused is not None:
                    raise NotMeasured(f"{name}: {found.refused}")
                return found
        raise NotMeasured(f"{name} has no such version")


@dataclass(frozen=True)
class Verdict:
    """``holds`` is None where the runs do not decide, or where nothing was ``measured``.

    ``doubt`` is the probability of what was measured, or of more, if the opposite were true.
    """

    holds: bool | None
    evidence: str
    measured: bool = True
    doubt: float = 0.0

    @property
    def word(self) -> str:
        return {True: "holds", False: "fails", None: "undecided"}[self.holds] if self.measured else "not measured"


def below(lower: Floats, upper: Floats, what: str = "") -> Verdict:
    """Whether the first is below the second on average, by the paired differences of the runs.

    Runs of one seed share their worlds, so differences are less noisy than the values. Student's one-sided test at
    97.5%; two means that the runs cannot tell apart are undecided.
    """
    from scipy.stats import t

    n = min(len(lower), len(upper))
    difference = upper[:n] - lower[:n]
    mean = float(difference.mean())
    evidence = f"{what + ': ' if what else ''}{_number(lower.mean())} against {_number(upper.mean())}"
    if n < 2:
        return Verdict(None, f"{evidence} (one run)")
    error = float(difference.std(ddof=1) / np.sqrt(n))
    if mean == 0:
        return Verdict(None, evidence)
    doubt = float(t.sf(abs(mean) / error, n - 1)) if error > 0 else 0.0
    return Verdict(mean > 0, evidence, doubt=doubt) if doubt < 1 - CONFIDENCE else Verdict(None, evidence)


def within(value: float, target: float, tolerance: float, what: str = "") -> Verdict:
    """Whether a number is where it should be, up to a share of it."""
    evidence = f"{what + ': ' if what else ''}{_number(value)}, stated {_number(target)}"
    return Verdict(abs(value - target) <= tolerance * abs(target), evidence)


def all_of(verdicts: Iterable[Verdict]) -> Verdict:
    """All of them hold, at least one fails, or the runs do not say.

    That all hold needs no correction, for each was tested. That one of many fails does: among m true comparisons one
    looks false by chance m times as often, so the surest failure counts with m times its doubt (Bonferroni).
    """
    found = list(verdicts)
    failures = [verdict.doubt for verdict in found if verdict.holds is False]
    doubt = min(failures) * len(found) if failures else max((verdict.doubt for verdict in found), default=0.0)
    if failures:
        holds = False if doubt < 1 - CONFIDENCE else None
    else:
        holds = True if all(verdict.holds for verdict in found) else None
    return Verdict(holds, "; ".join(verdict.evidence for verdict in found), doubt=doubt)


def decide(check: Callable[[View], Verdict], view: View) -> Verdict:
    """The verdict of a check; not measured, with the reason, where something it needs was not run."""
    try:
        return check(view)
    except NotMeasured as missing:
        return Verdict(None, str(missing), measured=False)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
