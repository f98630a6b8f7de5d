"""A figure of a paper as data: what is run, for how long, what the paper says about it, and how that is decided.

A **job** is one line of a figure (or one point of it): a world, a learner and a privacy target, all by their public
names, so it can be saved, compared, and sent to another machine. ``version`` says which of the three drawings of a
figure it belongs to:

==============  ===================================================================================================
"reference"     no privacy, or uniform play (``UNIFORM``), which learns nothing; it stands in every drawing
"published"     the learner and the noise that the paper prints, with its true epsilon and not the claimed one
"certified"     the paper's mechanism with noise that keeps the paper's promise
"ours"          the recipe that ``auto`` takes at the same promise
==============  ===================================================================================================

A **claim** is decided by measurement, with its error, or not at all (:mod:`experiments.papers.verdicts`): for a figure
of jobs once in each version, on a :class:`View` of the results. Where a figure has the line of uniform play, every
claim is checked a second time with that in place of every private learner: what it passes then says nothing about
learning, and the page says so. Statements that need more than the regret of named learners are figures without jobs:
they run what they need themselves, at the figure's **scale**, and their verdicts come with numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from discreet.base.types import Floats
from discreet.simulation.experiments import resolved
from experiments.papers.verdicts import Verdict as Verdict
from experiments.papers.verdicts import all_of as all_of
from experiments.papers.verdicts import at_most as at_most
from experiments.papers.verdicts import below as below
from experiments.papers.verdicts import bootstrap as bootstrap
from experiments.papers.verdicts import standard_error as standard_error
from experiments.papers.verdicts import within as within

SCALES = ("quick", "paper")
VERSIONS = ("published", "certified", "ours")
REFERENCE = "reference"
_LABELS = (
    "version",
    "name",
    "line",
    "row",
    "most_runs",
)  # what a figure says about a job, and its runs do not depend on
MEASURED = "measured"  # the only version of a figure without jobs
NO_PAPER = "no paper: private results of this library"  # what a figure of ours has in place of a paper
UNIFORM = "uniform play"  # the learner of a line that is computed, not simulated: all actions alike, for ever
BEHAVIOUR = "behaviour policy"  # another one: what the people in a data set were made to do
AT = " @ "  # in the name of a job, before the place: worlds of a figure with several
DRAWINGS = (
    "regret", "regret, log", "per episode", "by epsilon", "by users", "by episodes", "by switches", "histogram",
)  # fmt: skip


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
    known_rewards: bool = False  # of a data set: rewards are a public function of states and actions
    statistic: tuple[str, int, int] | None = None  # keep this count of (state, action) from the last release
    episodes: int | None = None  # where the figure fixes them, whatever the scale
    row: str = ""  # the row of panels that it stands in, where a figure has several worlds; empty: in all
    most_runs: int | None = (
        None  # of a reference that is slow and hardly varies; comparisons take the runs that both have
    )

    @property
    def key(self) -> str:
        """Its name among the results of a figure."""
        return f"{self.version}/{self.name}"

    @property
    def resolved(self) -> str:
        """Its learner with all knobs, and its recipe with all options, in words."""
        return resolved(self.learner, self.learner_options, self.recipe, self.recipe_options)


@dataclass(frozen=True)
class Task:
    """A job at a scale. Run i of equal jobs, episodes and seeds is the same, so a finished one is never run twice."""

    job: Job
    episodes: int
    runs: int
    seed: int

    def as_dict(self) -> dict[str, Any]:
        """What its runs depend on, as plain data, which is saved beside them: not their number, and no labels."""
        job = {**asdict(self.job), "statistic": self.job.statistic and [*self.job.statistic]}
        left_out = (*_LABELS, *(() if self.job.known_rewards else ("known_rewards",)))
        simulated = {name: value for name, value in job.items() if name not in left_out}
        return {"job": simulated, "episodes": self.episodes, "seed": self.seed}


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
class Idle(View):
    """The same view if everybody who is private played uniformly and learned nothing; it notes who was replaced."""

    replaced: list[str] = field(default_factory=list)

    def __getitem__(self, name: str) -> Measured:
        found = View.__getitem__(self, name)
        clear = found.data["guarantee"]["model"] == "none"
        if clear:
            return found
        self.replaced.append(name)
        _, at, place = name.partition(AT)
        return View.__getitem__(self, f"{UNIFORM}{at}{place}")


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
    """One figure. ``drawings`` are its pictures, the paper's own axes first; each has a column for every version: as
    published, certified, ours. ``by_epsilon`` gives every epsilon a row of its own, where there would be too many lines
    in a panel; jobs may name rows themselves. ``hidden`` are lines that a version does not draw (they are in its
    table), and ``curves`` are formulas to draw beside measured lines: by label, regret as a function of the row (its
    epsilon or its name) and the numbers of episodes.

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
    by_epsilon: bool = False
    hidden: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    curves: Mapping[str, Callable[[Any, Floats], Floats]] = field(default_factory=dict, repr=False)
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
        return [
            Task(job, job.episodes or scale.episodes, min(scale.runs, job.most_runs or scale.runs), scale.seed)
            for job in self.jobs
        ]

    def verdicts(self, found: Any) -> dict[str, dict[str, Verdict]]:
        """For each claim, the verdict in each version; ``found`` are results by job, or what was measured."""
        if not self.jobs:
            return {claim.name: {MEASURED: claim.decide(found)} for claim in self.claims}
        return {
            claim.name: {version: self._verdict(claim, found, version) for version in self.versions}
            for claim in self.claims
        }

    def _verdict(self, claim: Claim, results: Mapping[str, Measured], version: str) -> Verdict:
        """The verdict on a claim in one version, and whether uniform play passes the same check."""
        verdict = claim.decide(View(results, version))
        drawn = any(key.startswith(f"{REFERENCE}/{UNIFORM}") for key in results)
        instead = Idle(results, version)
        idle = drawn and claim.decide(instead).holds is True and bool(instead.replaced)
        return replace(verdict, idle=idle and verdict.measured)
