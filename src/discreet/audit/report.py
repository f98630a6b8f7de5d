"""What an audit says: one verdict, the numbers of every stage, and what it would have seen."""

from __future__ import annotations

import io
import math
import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from discreet.audit.binomial_test import Finding, power, text_picture
from discreet.audit.stages import Stage
from discreet.audit.trials import Case
from discreet.errors import InvalidInput, MissingExtra
from discreet.files import check_writable, write_atomically
from discreet.papers import published
from discreet.papers.mechanism import Setting
from discreet.privacy.guarantee import finite_or_none
from discreet.privacy.words import rounded_up

_FORMATS = (".png", ".svg", ".pdf")


@dataclass(frozen=True)
class AuditReport:
    """The verdict on a claim, and the numbers behind it.

    ``claimed``, ``delta``, ``certified`` and ``lower_bound`` belong to the setting that was tried (``case.setting``);
    ``exact`` is the supremum of the privacy loss at the shape that was asked for (at its delta), where the law is
    known. ``stages`` are those that ran sessions and samplers. One verdict, ``holds``, covers all of it.
    """

    recipe: str
    asked: Setting
    exact: float | None
    case: Case
    finding: Finding
    stages: tuple[Stage, ...] = ()

    @property
    def claimed(self) -> float:
        """The epsilon that is on trial."""
        return self.finding.epsilon

    @property
    def delta(self) -> float:
        """The delta that it is claimed with."""
        return self.finding.delta

    @property
    def certified(self) -> float | None:
        """The epsilon of the guarantee at that delta, where there is one."""
        return self.case.certified if self.delta == self.case.delta else self.claimed

    @property
    def lower_bound(self) -> float:
        """The epsilon that the runs prove to be needed at least."""
        return self.finding.lower_bound

    @property
    def confidence(self) -> float:
        """How sure the lower bound is."""
        return self.finding.confidence

    @property
    def trials(self) -> int:
        """How many runs there were in all."""
        return self.finding.trials

    @property
    def holds(self) -> bool:
        """Whether the claim survived every stage."""
        return self.lower_bound <= self.claimed and all(stage.holds for stage in self.stages)

    @cached_property
    def power(self) -> str:
        """What each stage would have convicted, computed from what it ran."""
        seen = [stage.seen for stage in self.stages if stage.seen]
        least = power(self.finding)
        if least is not None:
            seen.append(
                f"a true epsilon of {least:.3g} x the claim in the event that was counted, with probability 95%"
            )
        return "would have convicted " + "; ".join(seen) if seen else "says nothing: the runs are too few"

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON; absent and infinite values are null."""
        finding = self.finding
        return {
            "recipe": self.recipe,
            "claimed": finite_or_none(self.claimed),
            "certified": finite_or_none(self.certified),
            "exact": finite_or_none(self.exact),
            "lower_bound": self.lower_bound,
            "delta": self.delta,
            "confidence": self.confidence,
            "trials": self.trials,
            "holds": self.holds,
            "stages": [stage.as_dict() for stage in self.stages],
            "power": self.power,
            "shape": self.asked.as_dict(),
            "compared": {
                "setting": self.case.setting.as_dict(),
                "records": self.case.compared,
                "exact": finite_or_none(self.case.exact),
                "known_law": finding.known,
                "event_seen": [finding.high, finding.low],
                "draws_counted": finding.counted,
            },
        }

    def explain(self) -> str:
        """The verdict in words."""
        verdict = "holds up" if self.holds else "CONVICTED"
        delta = f" with delta {self.delta:g}" if self.delta else ""
        score = "exact log-likelihood ratio" if self.finding.known else "score trained on separate draws"
        lines = [
            f"{self.recipe}: the claim {verdict}",
            *_stated(self.recipe),
            f"claimed      epsilon {self.claimed:.4g}{delta}",
            f"certified    {_epsilon_text(self.certified)}",
            f"lower bound  epsilon {self.lower_bound:.4g}, with confidence {self.confidence:g}",
            f"exact        {_epsilon_text(self.exact)} at the asked shape ({self.asked.describe()})",
            f"tried at     {self.case.setting.describe()}",
            f"compared     {self.case.compared}",
            f"test         {score}; the event came {self.finding.high:,} times on one side and {self.finding.low:,} "
            f"times on the other, in {self.finding.counted:,} draws each ({self.trials:,} runs in all)",
            *(f"{stage.name:<12} {'' if stage.holds else 'CONVICTED: '}{stage.sentence}" for stage in self.stages),
            f"power        {self.power}",
        ]
        if self.holds and self.certified is not None and self.certified > self.claimed * (1 + 1e-9):
            lines.append("The runs do not show it, but the computed epsilon is above the claim: the claim is NOT TRUE.")
        elif self.holds:
            lines.append("A lower bound below the claim is no proof of privacy: it found no violation.")
        return "\n".join(lines)

    def picture(self) -> str:
        """The two distributions of the score, for a terminal."""
        return text_picture(self.finding)

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw the two distributions of the score, and the event that was counted."""
        file = check_writable(path)
        if file.suffix not in _FORMATS:
            raise InvalidInput(f"cannot draw {file.name!r}: the name must end in {', '.join(_FORMATS)}")
        write_atomically(file, _draw(self, file.suffix[1:]))


def _epsilon_text(epsilon: float | None) -> str:
    if epsilon is None:
        return "not known"
    return "no finite epsilon" if math.isinf(epsilon) else f"epsilon {rounded_up(epsilon)}"


def _stated(recipe: str) -> tuple[str, ...]:
    """Where a paper states the claim, and under which condition; nothing for recipes of other kinds."""
    if not recipe.startswith("published/"):
        return ()
    entry = published(recipe)
    return f"stated in    {entry.paper}, {entry.statement.where}", f"condition    {entry.statement.condition}"


def _draw(report: AuditReport, kind: str) -> bytes:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("matplotlib", "plots") from None
    finding = report.finding
    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    axes = figure.add_subplot()
    for counts, label in ((finding.first, "first record"), (finding.second, "second record")):
        axes.stairs([n / finding.counted for n in counts], finding.edges, fill=True, alpha=0.45, label=label)
    if math.isfinite(finding.cut):
        ends = (finding.edges[0], finding.cut) if finding.below else (finding.cut, max(finding.edges[-1], finding.cut))
        axes.axvspan(*ends, alpha=0.12, color="black", label="event that was counted")
    axes.set_xlabel("log-likelihood ratio" if finding.known else "trained score")
    axes.set_ylabel("share of runs")
    verdict = "holds up" if report.holds else "convicted"
    axes.set_title(
        f"{report.recipe}: claim {report.claimed:.3g}, lower bound {report.lower_bound:.3g} ({verdict})", fontsize=10
    )
    axes.legend(fontsize=8, frameon=False)
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=150)
    return buffer.getvalue()
