"""A figure of a paper as data: what is run, at which scale, how it is drawn, and what the paper says about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from discreet.reproduce.job import VERSIONS, Job, Task
from discreet.reproduce.measured import Measured, Verdict, View, decide

SCALES = ("quick", "paper")
DRAWINGS = ("regret", "per episode", "by epsilon", "by users", "by switches", "histogram")


@dataclass(frozen=True)
class Scale:
    """How long and how often."""

    episodes: int
    runs: int


@dataclass(frozen=True)
class Claim:
    """A statement of the paper that measurement can decide; ``why`` is the reason where it does not hold."""

    name: str
    says: str
    check: Callable[[View], Verdict] = field(repr=False)
    why: str = ""


@dataclass(frozen=True)
class Number:
    """A number that the paper prints, and how ours is read off the results."""

    what: str
    paper: str
    of: Callable[[View], float] = field(repr=False)


@dataclass(frozen=True)
class Figure:
    """One figure. ``drawings`` are its columns; its rows are the versions: as published, certified, ours."""

    name: str
    title: str
    paper: str
    jobs: tuple[Job, ...]
    scales: Mapping[str, Scale]
    claims: tuple[Claim, ...] = ()
    numbers: tuple[Number, ...] = ()
    drawings: tuple[str, ...] = ("regret",)
    differences: tuple[str, ...] = ()

    @property
    def slug(self) -> str:
        """The name of its folder."""
        return self.name.replace("/", "-")

    @property
    def versions(self) -> tuple[str, ...]:
        present = {job.version for job in self.jobs}
        return tuple(version for version in VERSIONS if version in present)

    def tasks(self, scale: str, seed: int) -> list[Task]:
        """All jobs at a scale."""
        size = self.scales[scale]
        return [Task(job, job.episodes or size.episodes, size.runs, seed) for job in self.jobs]

    def verdicts(self, results: Mapping[str, Measured]) -> dict[str, dict[str, Verdict]]:
        """For each claim, the verdict in each version."""
        return {
            claim.name: {version: decide(claim.check, View(results, version)) for version in self.versions}
            for claim in self.claims
        }
