"""What a rehearsal found: candidates by mean regret, which is best, whether that is beyond noise, and how to use it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from discreet.base.notebook import counted, one_line, table_html
from discreet.base.scientific import special
from discreet.base.types import Floats
from discreet.learners.base import Learner
from discreet.recipes.targets import Privacy
from discreet.simulation.result_frames import make_frame

FREE = "this sees no data and costs no privacy"
_FALSE_ALARMS = 0.05


def knobs_of(learner: Any) -> dict[str, Any]:
    """The options of a learner that differ from their defaults; none are known of one that is no dataclass."""
    if not dataclasses.is_dataclass(learner):
        return {}
    values = {f.name: (getattr(learner, f.name), f.default) for f in dataclasses.fields(learner)}
    return {name: value for name, (value, default) in values.items() if value != default}


@dataclass(frozen=True)
class Candidate:
    """A learner with a privacy target that names its recipe and its options; ``auto`` if "auto" would take it."""

    learner: Learner
    privacy: Privacy
    auto: bool = False

    @property
    def knobs(self) -> dict[str, Any]:
        """The options of the learner that differ from their defaults."""
        return knobs_of(self.learner)

    @property
    def options(self) -> str:
        """All that differs from defaults, in words; empty where nothing does."""
        return ", ".join(f"{name}={value}" for name, value in {**self.knobs, **self.privacy.options}.items())

    @property
    def label(self) -> str:
        """The name of the recipe, marked where "auto" would take it."""
        return self.privacy.recipe + (" (auto)" if self.auto else "")

    def call(self, episodes: int) -> str:
        """The Python call that uses it."""
        knobs = ", ".join(f"{name}={value!r}" for name, value in self.knobs.items())
        learner = f"discreet.learners.{type(self.learner).__name__}({knobs})"
        return f"discreet.simulate(world, {learner}, {self._target()}, episodes={episodes})"

    def command(self, episodes: int, world: str = "") -> str:
        """The command line that uses it; ``world`` are the options that say where."""
        privacy = self.privacy
        words = ["discreet simulate", world, f"--learner {self.learner.name}", f"--privacy {privacy.model}"]
        if privacy.model != "none":
            numbers = {"epsilon": privacy.epsilon, "delta": privacy.delta or None, "rho": privacy.rho}
            words += [f"--{name} {value:g}" for name, value in numbers.items() if value is not None]
            words.append(f"--recipe {privacy.recipe}")
        words += [f"--option {name}={value}" for name, value in {**self.knobs, **privacy.options}.items()]
        return " ".join(filter(None, [*words, f"--episodes {episodes}"]))

    def _target(self) -> str:
        privacy = self.privacy
        given = {"epsilon": privacy.epsilon, "delta": privacy.delta or None, "rho": privacy.rho}
        words = [f"{name}={value!r}" for name, value in given.items() if value is not None]
        if privacy.model != "none":
            words.append(f"recipe={privacy.recipe!r}")
        words += [f"options={dict(privacy.options)!r}"] if privacy.options else []
        return f"discreet.{type(privacy).__name__}({', '.join(words)})"


@dataclass(frozen=True)
class Rehearsed:
    """One candidate and its regret as shares of uniform play's: ``shares[w, i]`` in world w and run i."""

    candidate: Candidate
    shares: Floats
    releases: int
    statement: str

    @property
    def mean(self) -> float:
        """The mean over all runs, every world counted alike."""
        return float(self.shares.mean())

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        return spread(self.shares)

    @property
    def worst(self) -> float:
        """The largest share of any run."""
        return float(self.shares.max())


@dataclass(frozen=True)
class Rehearsal:
    """All candidates, the best first. ``refused`` are those that do not serve the learner or the world, and why."""

    worlds: tuple[str, ...]
    episodes: int
    runs: int
    seed: int
    rows: tuple[Rehearsed, ...]
    refused: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return one_line("Rehearsal", counted(len(self.rows), "candidate"), f"best: {self.best.candidate.label}")

    def _repr_html_(self) -> str:
        rows = [
            [row.candidate.label, row.candidate.learner.name, row.candidate.options, *_shares(row)] for row in self.rows
        ]
        columns = ["recipe", "learner", "options", "regret", "worst run"]
        return table_html(f"Rehearsed in {', '.join(self.worlds)}", columns, rows, f"{self.verdict()}; {FREE}")

    def to_frame(self, library: str | None = None) -> Any:
        """A frame of pandas or polars with one row per candidate, the best first."""
        rows = [self._row(row) for row in self.rows]
        names = ("learner", "recipe", "auto", "releases", "beyond_noise")
        table: dict[str, list[Any]] = {name: [row[name] for row in rows] for name in names}
        table["options"] = [row.candidate.options for row in self.rows]
        table |= {f"share_{name}": [row["share"][name] for row in rows] for name in ("mean", "error", "worst")}
        return make_frame(table, library)

    @property
    def best(self) -> Rehearsed:
        """The candidate with the least mean regret."""
        return self.rows[0]

    @property
    def ties(self) -> tuple[Rehearsed, ...]:
        """The rivals of the best candidate whose difference from it is within noise."""
        return tuple(row for row in self.rows[1:] if not self.beyond_noise(row))

    def beyond_noise(self, rival: Rehearsed) -> bool:
        """Whether a rival is worse than the best by more than chance gives, in paired runs, for all rivals together."""
        differences = rival.shares - self.best.shares
        degrees = differences.size - differences.shape[0]
        if degrees < 1:
            return False
        limit = float(special.stdtrit(degrees, 1 - _FALSE_ALARMS / 2 / max(1, len(self.rows) - 1)))
        return float(differences.mean()) > limit * spread(differences)

    def verdict(self) -> str:
        """One sentence: which candidate is best, and whether that can be told from noise."""
        best = self.best.candidate
        name = f"{best.learner.name} with {best.privacy.recipe}" + (f" ({best.options})" if best.options else "")
        if len(self.rows) == 1:
            return f"{name} is the only candidate that serves"
        if not self.ties:
            return f"{name} is best, beyond noise"
        next_one = self.ties[0].candidate
        others = f" and {len(self.ties) - 1} more" if len(self.ties) > 1 else ""
        label = f"{next_one.learner.name} with {next_one.privacy.recipe}"
        options = f" ({next_one.options})" if next_one.options else ""
        runs = counted(self.runs, "run")
        return f"{name} has the least regret; {label}{options}{others} cannot be told from it in {runs}"

    def call(self) -> str:
        """The Python call that uses the best candidate."""
        return self.best.candidate.call(self.episodes)

    def command(self, world: str = "") -> str:
        """The command line that uses the best candidate."""
        return self.best.candidate.command(self.episodes, world)

    def summary(self) -> str:
        """The table, the verdict and the call as text."""
        lines = [
            f"{_shares(row)[0]:>7}  worst {row.worst:.1%}  {row.candidate.learner.name}  "
            f"{row.candidate.label}  {row.candidate.options}".rstrip()
            for row in self.rows
        ]
        return "\n".join([*lines, self.verdict(), FREE, self.call()])

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "worlds": list(self.worlds),
            "episodes": self.episodes,
            "runs": self.runs,
            "seed": self.seed,
            "rows": [self._row(row) for row in self.rows],
            "refused": dict(self.refused),
            "verdict": self.verdict(),
            "call": self.call(),
            "command": self.command(),
            "privacy_cost": FREE,
        }

    def _row(self, row: Rehearsed) -> dict[str, Any]:
        candidate = row.candidate
        return {
            "learner": candidate.learner.name,
            "knobs": candidate.knobs,
            "recipe": candidate.privacy.recipe,
            "options": dict(candidate.privacy.options),
            "auto": candidate.auto,
            "releases": row.releases,
            "share": {
                "mean": row.mean, "error": row.error, "worst": row.worst,
                "per_run": dict(zip(self.worlds, row.shares.tolist(), strict=True)),
            },
            "beyond_noise": row is not self.best and self.beyond_noise(row),
            "guarantee": row.statement,
        }  # fmt: skip


def _shares(row: Rehearsed) -> tuple[str, str]:
    error = "" if math.isnan(row.error) else f" ± {row.error:.1%}"
    return f"{row.mean:.1%}{error}", f"{row.worst:.1%}"


def spread(shares: Floats) -> float:
    """The standard error of the mean over worlds and runs, worlds taken as given."""
    worlds, runs = shares.shape
    if runs < 2:
        return math.nan
    return float(np.sqrt(shares.var(axis=1, ddof=1).sum() / runs) / worlds)
