"""What an audit says: one verdict, the numbers of every stage, and what it would have seen."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from discreet.audit.binomial_audit import Finding, power, text_picture
from discreet.audit.stages import Stage
from discreet.audit.trials import Case
from discreet.base.notebook import facts_html, one_line
from discreet.base.pictures import canvas
from discreet.papers import published
from discreet.papers.published_mechanism import Setting
from discreet.privacy.guarantee import finite_or_none
from discreet.privacy.words import rounded_up


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

    def __repr__(self) -> str:
        numbers = f"claimed epsilon {self.claimed:.4g}", f"at least {self.lower_bound:.4g}"
        return one_line("AuditReport", self.recipe, "holds up" if self.holds else "FALSE", *numbers)

    def _repr_html_(self) -> str:
        return facts_html(self.verdict(), self.rows())

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

    @property
    def untrue(self) -> bool:
        """Whether what is computed from the noise is above the claim, where it was tried or at the asked shape."""
        pairs = (self.certified, self.claimed), (self.exact, self.asked.epsilon)
        return any(
            computed is not None and claim is not None and computed > claim * (1 + 1e-9) for computed, claim in pairs
        )

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
            "verdict": self.verdict(),
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

    def verdict(self) -> str:
        """One sentence in plain words: what was claimed, and whether it holds."""
        claim = f"{self.recipe}: the claim of epsilon {self.claimed:.4g}" + (
            f" with delta {self.delta:g}" if self.delta else ""
        )
        truth = self._truth()
        against = [stage.name for stage in self.stages if not stage.holds]
        if self.lower_bound > self.claimed:
            sure = f"with confidence {self.confidence:g}"
            return f"{claim} is FALSE: the runs prove epsilon to be at least {self.lower_bound:.4g}, {sure}{truth}"
        if against:
            return f"{claim} is FALSE: {' and '.join(against)} found a violation{truth}"
        if self.untrue:
            computed = max(epsilon for epsilon in (self.certified, self.exact) if epsilon is not None)
            shown = f"computed from its noise it is {_epsilon_text(computed)}"
            return f"{claim} is NOT TRUE: {shown}, though the runs do not show it"
        return f"{claim} holds up: no run and no test speaks against it, which is no proof of privacy"

    def _truth(self) -> str:
        """What is true, each number with its size: a conviction at one size says nothing about the truth at another."""
        asked, tried = self.asked.describe(), self.case.setting.describe()
        if asked == tried:
            return "" if self.exact is None else f"; in truth it is {_epsilon_text(self.exact)}"
        there = "" if self.case.exact is None else f", where in truth it is {_epsilon_text(self.case.exact)}"
        here = (
            "" if self.exact in (None, self.case.exact) else f"; at the asked {asked} it is {_epsilon_text(self.exact)}"
        )
        return f", at {tried}{there}{here}"

    def rows(self) -> list[tuple[str, str]]:
        """The numbers behind the verdict, as a person reads them."""
        finding, delta = self.finding, f" with delta {self.delta:g}" if self.delta else ""
        score = "exact log-likelihood ratio" if finding.known else "score trained on separate draws"
        return [
            *_stated(self.recipe),
            ("claimed", f"epsilon {self.claimed:.4g}{delta}"),
            ("guarantee", f"{_epsilon_text(self.certified)}, as the mechanism computes it"),
            ("runs prove", f"epsilon at least {self.lower_bound:.4g}, with confidence {self.confidence:g}"),
            ("in truth", f"{_epsilon_text(self.exact)} at the asked shape ({self.asked.describe()})"),
            ("tried at", self.case.setting.describe()),
            ("compared", self.case.compared),
            (
                "test",
                f"{score}; the event came {finding.high:,} times on one side and {finding.low:,} times on the other, "
                f"in {finding.counted:,} draws each ({self.trials:,} runs in all)",
            ),
            *((stage.name, ("" if stage.holds else "VIOLATED: ") + stage.sentence) for stage in self.stages),
            ("power", self.power),
        ]

    def explain(self) -> str:
        """The verdict in one sentence, and the numbers behind it."""
        return "\n".join([self.verdict(), *(f"{name:<12} {value}" for name, value in self.rows())])

    def picture(self) -> str:
        """The two distributions of the score, for a terminal."""
        return text_picture(self.finding)

    def plot(self, path: str | os.PathLike[str] | None = None, *, ax: Any = None, theme: str | None = None) -> Any:
        """Draw the two distributions of the score and the event that was counted, and return the axes.

        With a path (.png, .svg, .pdf) the picture is written there; ``ax`` are axes of yours to draw into.
        """
        place = canvas(path, ax, theme)
        (axes,), finding = place.panels, self.finding
        sides = ((finding.first, "first record", "//"), (finding.second, "second record", "\\\\"))
        for (counts, label, hatch), colour in zip(sides, place.theme.colours, strict=False):
            shares = [n / finding.counted for n in counts]
            axes.stairs(shares, finding.edges, fill=True, alpha=0.45, color=colour, hatch=hatch, label=label)
        if math.isfinite(finding.cut):
            last = max(finding.edges[-1], finding.cut)
            ends = (finding.edges[0], finding.cut) if finding.below else (finding.cut, last)
            axes.axvspan(*ends, alpha=0.15, color=place.theme.soft, label="event that was counted")
        axes.set_xlabel("log-likelihood ratio" if finding.known else "trained score")
        axes.set_ylabel("share of runs")
        verdict = "holds up" if self.holds else "convicted"
        place.title(f"{self.recipe}: claim {self.claimed:.3g}, lower bound {self.lower_bound:.3g} ({verdict})")
        axes.legend(fontsize=8, frameon=False)
        return place.finished()


def _epsilon_text(epsilon: float | None) -> str:
    if epsilon is None:
        return "not known"
    return "no finite epsilon" if math.isinf(epsilon) else f"epsilon {rounded_up(epsilon)}"


def _stated(recipe: str) -> tuple[tuple[str, str], ...]:
    """Where a paper states the claim, and under which condition; nothing for recipes of other kinds."""
    if not recipe.startswith("published/"):
        return ()
    entry = published(recipe)
    return ("stated in", f"{entry.paper}, {entry.statement.where}"), ("condition", entry.statement.condition)
