"""A figure of a paper as data: what is run, for how long, what the paper says about it, and how that is decided.

A **job** is one line of a figure (or one point of it): a world, a learner and a privacy target, all by their public
names, so it can be saved, compared, and sent to another machine. ``version`` says which of the three drawings of a
figure it belongs to:

==============  ===================================================================================================
"reference"     no privacy; it stands in every drawing
"published"     the noise that the paper prints, with its true epsilon and not the claimed one
"certified"     the paper's mechanism with noise that keeps the paper's promise
"ours"          the recipe that ``auto`` takes at the same promise
==============  ===================================================================================================

A **claim** is decided by measurement, with its error, or not at all: for a figure of jobs once in each version, on a
:class:`View` of the results. Statements that need more than the regret of named learners are figures without jobs: they
run what they need themselves, at the figure's **scale**, and their verdicts come with numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from discreet.scientific import stats
from discreet.types import Floats

SCALES = ("quick", "paper")
VERSIONS = ("published", "certified", "ours")
REFERENCE = "reference"
MEASURED = "measured"  # the only version of a figure without jobs
DRAWINGS = ("regret", "per episode", "by epsilon", "by users", "by switches", "histogram")
CONFIDENCE = 0.975  # of each one-sided comparison, by Student's law over runs


@dataclass(frozen=True)
class Job:
    """What to run. ``line`` is its label in the legend; jobs of one line differ in what the horizontal axis shows.

    A published mechanism is a recipe of its own where there is one. Else ``printed`` names its entry among the
    published mechanisms: what its noise really gives at these sizes is computed, and a certified recipe is calibrated
    to *that*. Noise of one scale on all counts is then the printed noise itself; where a paper prints several scales it
    is the same privacy, spent evenly, and the figure says so.
    """

    version: str
    name: str
    line: str
    world: str
    learner: str
    model: str = "none"
    epsilon: float | None = None
    delta: float = 0.0
    rho: float | None = None
    recipe: str = "auto"
    printed: str | None = None
    world_options: Mapping[str, Any] = field(default_factory=dict)
    learner_options: Mapping[str, Any] = field(default_factory=dict)
    recipe_options: Mapping[str, Any] = field(default_factory=dict)
    per_step: bool = False
    users: int | None = None  # the size of the data set: an offline learner
    behaviour: str = "uniform"
    statistic: tuple[str, int, int] | None = None  # keep this count of (state, action) from the last release
    episodes: int | None = None  # where the figure fixes them, whatever the scale

    @property
    def key(self) -> str:
        """Its name among the results of a figure."""
        return f"{self.version}/{self.name}"


@dataclass(frozen=True)
class Task:
    """A job at a scale; equal tasks have equal results, so a finished one is never run twice."""

    job: Job
    episodes: int
    runs: int
    seed: int

    def as_dict(self) -> dict[str, Any]:
        """The task as plain data, which is saved beside its result."""
        return {**asdict(self), "job": {**asdict(self.job), "statistic": self.job.statistic and [*self.job.statistic]}}


@dataclass(frozen=True)
class Scale:
    """How long and how often; ``growing`` are the numbers of episodes where regret is measured as they grow."""

    episodes: int
    runs: int
    growing: tuple[int, ...] = ()
    seed: int = 0


class NotMeasured(Exception):
    """A claim is about something that was not run, or that refused to run."""


@dataclass(frozen=True)
class Measured:
    """The saved result of one job."""

    data: Mapping[str, Any]

    @property
    def refused(self) -> str | None:
        """Why the job did not run; None where it did."""
        reason: str | None = self.data.get("refused")
        return reason

    @property
    def episodes(self) -> Floats:
        """The numbers of episodes at which regret was noted."""
        return np.asarray(self.data["checkpoints"], np.float64)

    @property
    def regret(self) -> Floats:
        """Cumulative regret (runs, checkpoints)."""
        return np.asarray(self.data["curve"]["per_run"], np.float64)

    @property
    def offline(self) -> bool:
        """Whether nobody acted while learning, so that there is no regret."""
        return self.data["regret"] is None

    @property
    def total(self) -> Floats:
        """Regret of each run at the end; the gap of the learned policy where nobody acted while learning."""
        return self.gap if self.offline else self.regret[:, -1]

    @property
    def gap(self) -> Floats:
        """How far the last policy of each run is from the best one."""
        return np.asarray(self.data["final_gap"]["per_run"], np.float64)

    @property
    def switches(self) -> Floats:
        """How often each run changed its policy."""
        return np.asarray(self.data["switches"]["per_run"], np.float64)

    @property
    def samples(self) -> Floats:
        """The count that each run released at its end, where the job keeps one."""
        return np.asarray(self.data["samples"], np.float64)

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
        for key in (f"{self.version}/{name}", f"{REFERENCE}/{name}"):
            if key in self.results:
                found = self.results[key]
                if found.refused is not None:
                    raise NotMeasured(f"{name}: {found.refused}")
                return found
        raise NotMeasured(f"{name} has no such version")


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds, and the evidence: in words, or as numbers by name.

    ``holds`` is None where the runs do not decide, or where nothing was ``measured``. ``doubt`` is the probability of
    what was measured, or of more, if the opposite were true.
    """

    holds: bool | None
    evidence: str = ""
    measured: bool = True
    doubt: float = 0.0
    numbers: Mapping[str, Any] = field(default_factory=dict)

    @property
    def word(self) -> str:
        """The verdict in a word: holds, fails, undecided or not measured."""
        return {True: "holds", False: "fails", None: "undecided"}[self.holds] if self.measured else "not measured"


def standard_error(values: Floats) -> Floats:
    """The standard error of the mean over runs, which are the first axis; zero for a single run."""
    n = len(values)
    return np.asarray(values.std(axis=0, ddof=1) / np.sqrt(n)) if n > 1 else np.zeros(values.shape[1:])


def below(lower: Floats, upper: Floats, what: str = "") -> Verdict:
    """Whether the first is below the second on average, by the paired differences of the runs.

    Runs of one seed share their worlds, so differences are less noisy than the values. Student's one-sided test at
    97.5%; two means that the runs cannot tell apart are undecided.
    """
    n = min(len(lower), len(upper))
    difference = upper[:n] - lower[:n]
    mean = float(difference.mean())
    evidence = f"{what + ': ' if what else ''}{_number(lower.mean())} against {_number(upper.mean())}"
    if n < 2:
        return Verdict(None, f"{evidence} (one run)")
    error = float(standard_error(difference))
    if mean == 0:
        return Verdict(None, evidence)
    doubt = float(stats.t.sf(abs(mean) / error, n - 1)) if error > 0 else 0.0
    return Verdict(mean > 0, evidence, doubt=doubt) if doubt < 1 - CONFIDENCE else Verdict(None, evidence)


def within(value: float, target: float, tolerance: float, what: str = "") -> Verdict:
    """Whether a number is where it should be, up to a share of it."""
    evidence = f"{what + ': ' if what else ''}{_number(value)}, stated {_number(target)}"
    return Verdict(abs(value - target) <= tolerance * abs(target), evidence)


def all_of(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on several claims together: all hold, at least one fails, or the runs do not decide.

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


@dataclass(frozen=True)
class Claim:
    """A statement that measurement can decide; ``why`` is the reason where it does not hold.

    ``check`` takes a :class:`View` of the figure's jobs; of a figure without jobs, what the figure measured.
    """

    name: str
    says: str
    check: Callable[[Any], Verdict] = field(repr=False)
    why: str = ""

    def decide(self, view: Any) -> Verdict:
        """The verdict; not measured, with the reason, where something that the check needs was not run."""
        try:
            return self.check(view)
        except NotMeasured as missing:
            return Verdict(None, str(missing), measured=False)


@dataclass(frozen=True)
class Number:
    """A number that the paper prints, and how ours is read off the results."""

    what: str
    paper: str
    of: Callable[[View], float] = field(repr=False)


@dataclass(frozen=True)
class Figure:
    """One figure. ``drawings`` are its columns; its rows are the versions: as published, certified, ours.

    A figure without jobs is a list of statements. ``measure`` returns what its claims are checked on, which is the
    scale itself where they run all they need; ``draw`` makes its picture, where there is one.
    """

    name: str
    title: str
    paper: str
    jobs: tuple[Job, ...]
    scales: Mapping[str, Scale]
    claims: tuple[Claim, ...] = ()
    numbers: tuple[Number, ...] = ()
    drawings: tuple[str, ...] = ("regret",)
    differences: tuple[str, ...] = ()
    measure: Callable[[Scale], Any] = field(default=lambda scale: scale, repr=False)
    draw: Callable[[Any], bytes] | None = field(default=None, repr=False)

    @property
    def slug(self) -> str:
        """The name of its folder."""
        return self.name.replace("/", "-")

    @property
    def versions(self) -> tuple[str, ...]:
        """The versions that its jobs belong to, in the order of the drawings."""
        present = {job.version for job in self.jobs}
        return tuple(version for version in VERSIONS if version in present) if self.jobs else (MEASURED,)

    def tasks(self, scale: Scale) -> list[Task]:
        """All jobs at a scale."""
        return [Task(job, job.episodes or scale.episodes, scale.runs, scale.seed) for job in self.jobs]

    def verdicts(self, found: Any) -> dict[str, dict[str, Verdict]]:
        """For each claim, the verdict in each version; ``found`` are results by job, or what was measured."""
        views = {version: View(found, version) if self.jobs else found for version in self.versions}
        return {claim.name: {version: claim.decide(view) for version, view in views.items()} for claim in self.claims}


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
