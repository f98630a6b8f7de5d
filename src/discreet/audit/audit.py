"""``audit``: does a mechanism keep its promise? A verdict from runs of the mechanism, not from its proof.

At the sizes of a real problem the output that tells most about a user is too rare to be seen, so the audit looks where
it is frequent: a mechanism that takes any shape, number of episodes, epsilon and delta makes its promise for all of
them, and is put on trial in a few settings with the fewest coordinates first. Two neighbours are found there by
searching over records, both are run many times, and one exact test gives a lower bound on epsilon (see
:mod:`discreet.audit.binomial_test`). A lower bound above the claim proves the claim wrong. One below it proves
nothing: no violation was found.
"""

from __future__ import annotations

import io
import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

from discreet.audit.binomial_test import Finding, audit_pairs, text_picture
from discreet.audit.broken import broken, printed_messages, raw_counts
from discreet.audit.likelihoods import PrintedPart, Together
from discreet.audit.trials import Case, exact_profile, known_transcript, session_transcript
from discreet.audit.trials import compared as compared_in
from discreet.channels.session import Privatizer
from discreet.errors import DiscreetError, InvalidInput, MissingExtra, Unsupported
from discreet.files import check_writable, write_atomically
from discreet.papers import published
from discreet.papers.mechanism import Published, Setting
from discreet.privacy.guarantee import finite_or_none
from discreet.privacy.profiles import ZeroConcentratedProfile
from discreet.privacy.words import rounded_up
from discreet.recipes.registry import Target, build
from discreet.recipes.trust import Privacy
from discreet.shape import Shape
from discreet.validation import check_count

_EASY_DELTA = 0.05  # a delta whose worst event is frequent enough to be counted
_EASY_EPSILON = 1.0
_LARGE_EPSILON = 6.0
_FEW_USERS = (2, 4)
_BATCH = 512  # users of a trial that needs many of them
_FORMATS = (".png", ".svg", ".pdf")


class _Learner(Protocol):
    needs: frozenset[str]


@dataclass(frozen=True)
class AuditReport:
    """The verdict on a claim, and the numbers behind it.

    ``claimed``, ``certified`` and ``lower_bound`` belong to the setting that was tried (``case.setting``); ``exact`` is
    the supremum of the privacy loss at the shape that was asked for (at its delta), where the law is known.
    """

    recipe: str
    asked: Setting
    exact: float | None
    case: Case
    finding: Finding

    @property
    def claimed(self) -> float:
        """The epsilon that is on trial."""
        return self.case.claimed

    @property
    def certified(self) -> float | None:
        """The epsilon of the guarantee, where there is one."""
        return self.case.certified

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
        """Whether the claim survived: nothing above it was found."""
        return self.lower_bound <= self.claimed

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON; absent and infinite values are null."""
        finding = self.finding
        return {
            "recipe": self.recipe,
            "claimed": finite_or_none(self.claimed),
            "certified": finite_or_none(self.certified),
            "exact": finite_or_none(self.exact),
            "lower_bound": self.lower_bound,
            "delta": self.case.delta,
            "confidence": self.confidence,
            "trials": self.trials,
            "holds": self.holds,
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
        delta = f" with delta {self.case.delta:g}" if self.case.delta else ""
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


def audit(
    privacy: Target | str,
    shape: Shape,
    *,
    learner: _Learner | None = None,
    episodes: int = 20_000,
    trials: int = 100_000,
    seed: int = 0,
    confidence: float = 0.99,
) -> AuditReport:
    """Put a privacy target, a published recipe or a mechanism broken on purpose on trial.

    ``privacy`` is a target such as ``Central(epsilon=1.0)``, whose recipe may also be a name that starts with
    ``published/`` or ``broken/``; such a name by itself means epsilon 1. A privatizer that somebody built, or a
    function of shape and episodes that makes one, is tried as it is, against the guarantee that it carries. ``trials``
    is the number of runs of the mechanism in all, both neighbours and every setting counted.

    >>> from discreet.audit.audit import audit
    >>> from discreet.recipes.trust import Central
    >>> report = audit(Central(epsilon=1.0), Shape(4, 2, 6), trials=4000)
    >>> report.holds, report.certified, report.lower_bound < report.claimed
    (True, 1.0, True)
    >>> audit("broken/noise-halved", Shape(4, 2, 6), trials=20_000).holds
    False
    """
    episodes = check_count("episodes", episodes)
    if isinstance(privacy, str):
        privacy = _named(privacy)
    if not isinstance(privacy, Privacy):
        if isinstance(privacy, Privatizer) and privacy.users is not None:
            episodes = min(episodes, privacy.users)  # it is tried as it was built
        privatizer = build(privacy, shape, episodes)
        return _audit_privatizer(privatizer, episodes, trials, seed, confidence)
    asked = Setting(shape, episodes, privacy.epsilon, privacy.delta, privacy.rho)
    if privacy.model == "none":
        raise InvalidInput("NoPrivacy claims nothing, so there is nothing to audit")
    if privacy.recipe.startswith("published/"):
        name, exact, cases = _published_cases(published(privacy.recipe), asked)
    elif privacy.recipe.startswith("broken/"):
        name, exact, cases = privacy.recipe, None, _collect(broken(privacy.recipe).case, _settings(asked))
        exact = cases[0].exact
    else:
        name, exact, cases = _recipe_cases(privacy, asked, () if learner is None else learner.needs)
    charges = [case.charge() for case in cases]
    finding = audit_pairs(charges, trials=trials, seed=seed, confidence=confidence)
    return AuditReport(name, asked, exact, cases[finding.charge], finding)


def _audit_privatizer(privatizer: Privatizer, episodes: int, trials: int, seed: int, confidence: float) -> AuditReport:
    shape = privatizer.shape
    guarantee = privatizer.guarantee
    asked = Setting(shape, episodes, guarantee.epsilon, guarantee.delta)
    case = _case_of(privatizer, asked, guarantee.epsilon, guarantee.delta)
    finding = audit_pairs([case.charge()], trials=trials, seed=seed, confidence=confidence)
    return AuditReport(privatizer.recipe, asked, case.exact, case, finding)


def _named(name: str) -> Privacy:
    if name.startswith("published/") and published(name).concentrated:
        return Privacy(rho=1.0, delta=_EASY_DELTA, recipe=name)
    return Privacy(epsilon=1.0, recipe=name)


def _recipe_cases(privacy: Privacy, asked: Setting, needs: Iterable[str]) -> tuple[str, float | None, list[Case]]:
    privatizer = build(privacy, asked.shape, asked.episodes, needs)
    fixed = replace(privacy, recipe=privatizer.recipe, options=_given(privacy))

    def case(setting: Setting) -> Case:
        target = replace(fixed, epsilon=setting.epsilon, delta=setting.delta, rho=setting.rho)
        return _recipe_case(target, setting)

    delta = _usable_delta(asked)
    profile = exact_profile(privatizer)
    exact = None if profile is None else profile.epsilon(delta)
    # Some mistakes show only among many users: those of messages, and those without any bound.
    many = privacy.model == "shuffle" or math.isinf(privatizer.guarantee.epsilon)
    return privatizer.recipe, exact, _collect(case, _settings(asked, batch=many))


def _given(privacy: Privacy) -> dict[str, Any]:
    # A number of blocks that suits the asked episodes may exceed those of a trial, where each user is in one block.
    return {name: value for name, value in privacy.options.items() if name not in ("blocks", "first")}


def _recipe_case(target: Privacy, setting: Setting) -> Case:
    privatizer = build(target, setting.shape, setting.episodes)
    delta = _usable_delta(setting)
    if setting.rho is not None:
        claimed = ZeroConcentratedProfile(setting.rho).epsilon(delta)
    else:
        assert setting.epsilon is not None
        claimed = setting.epsilon
    return _case_of(privatizer, setting, claimed, delta)


def _case_of(privatizer: Privatizer, setting: Setting, claimed: float, delta: float) -> Case:
    pair = known_transcript(privatizer) or session_transcript(privatizer, min(setting.episodes, 2))
    profile = exact_profile(privatizer)
    exact = None if profile is None else profile.epsilon(delta)
    actions = None if pair.known else 1
    compared = "; ".join(sorted({compared_in(channel, actions) for channel in privatizer.channels}))
    return Case(setting, pair, claimed, delta, privatizer.guarantee.epsilon_at(delta), exact, compared)


def _stated(recipe: str) -> tuple[str, ...]:
    """Where a paper states the claim, and under which condition; nothing for recipes of other kinds."""
    if not recipe.startswith("published/"):
        return ()
    entry = published(recipe)
    return f"stated in    {entry.paper}, {entry.statement.where}", f"condition    {entry.statement.condition}"


def _published_cases(entry: Published, asked: Setting) -> tuple[str, float | None, list[Case]]:
    if entry.concentrated and asked.delta == 0:
        asked = replace(asked, delta=_EASY_DELTA)
    truth = entry.truth(
        asked.shape, epsilon=asked.epsilon, delta=asked.delta, rho=asked.rho, episodes=max(2, asked.episodes)
    )
    if entry.no_bound(asked):
        case = raw_counts(asked) if entry.model == "central" else printed_messages(asked)
        return entry.name, math.inf, [replace(case, certified=None)]

    def one(setting: Setting) -> Case:
        guarantee = entry.truth(
            setting.shape, epsilon=setting.epsilon, delta=setting.delta, rho=setting.rho, episodes=setting.episodes
        )
        claim = entry.claimed(setting)
        parts = [part for part in entry.parts(setting) if part.moves.cells]
        if sum(part.moves.cells for part in parts) > 256:
            raise Unsupported("too many coordinates for a trial")
        compared = "; ".join(f"{part.name}: {part.moves.cells} cells moved" for part in parts)
        true = guarantee.epsilon
        return Case(setting, Together(tuple(map(PrintedPart, parts))), claim.epsilon, claim.delta, true, true, compared)

    return entry.name, truth.epsilon, _collect(one, _settings(asked))


def _settings(asked: Setting, *, batch: bool = False) -> Iterator[Setting]:
    """Where to look: the asked promise in small shapes, then the asked shape, then promises that are easier to test."""
    small, longer = (_small(asked.shape, horizon) for horizon in (1, 2))
    for shape, episodes in ((small, _FEW_USERS[0]), (small, _FEW_USERS[1]), (longer, _FEW_USERS[0])):
        yield replace(asked, shape=shape, episodes=episodes)
    yield replace(asked, episodes=max(2, min(asked.episodes, _FEW_USERS[1])))
    if batch:
        yield replace(asked, shape=small, episodes=_BATCH)
    if asked.epsilon is None:
        return
    easier = {_EASY_EPSILON} if not 0.5 <= asked.epsilon <= 3 else set()
    if asked.epsilon > _LARGE_EPSILON:  # beyond what so many runs can show
        easier |= {_LARGE_EPSILON}
    for epsilon in sorted(easier):
        yield replace(asked, shape=small, episodes=_FEW_USERS[0], epsilon=epsilon)
    if 0 < asked.delta < _EASY_DELTA:
        for epsilon in sorted(easier | {asked.epsilon}):
            yield replace(asked, shape=small, episodes=_FEW_USERS[0], epsilon=epsilon, delta=_EASY_DELTA)


def _small(shape: Shape, horizon: int) -> Shape:
    return replace(
        shape,
        states=min(shape.states, 2),
        actions=min(shape.actions, 2),
        horizon=min(shape.horizon, horizon),
        start=None if shape.start is None else 0,
    )


def _collect(case: Any, settings: Iterable[Setting]) -> list[Case]:
    """The settings in which the mechanism can be built at all; the same trial is not held twice."""
    cases: list[Case] = []
    refusals = []
    for setting in dict.fromkeys(settings):
        try:
            built = case(setting)
        except DiscreetError as refusal:
            refusals.append(str(refusal))
            continue
        if all(other.setting != built.setting for other in cases):
            cases.append(built)
    if not cases:
        raise Unsupported(f"the mechanism cannot be built in any setting of the audit: {refusals[0]}")
    return cases


def _usable_delta(setting: Setting) -> float:
    return _EASY_DELTA if setting.rho is not None and setting.delta == 0 else setting.delta


def _epsilon_text(epsilon: float | None) -> str:
    if epsilon is None:
        return "not known"
    return "no finite epsilon" if math.isinf(epsilon) else f"epsilon {rounded_up(epsilon)}"


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
