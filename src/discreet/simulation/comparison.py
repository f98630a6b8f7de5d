"""Several results side by side: a table with paired differences, one picture, one frame.

Results that played the same runs (a world of one name and size, one seed, as many runs and episodes) had the same
worlds, users and public coins in run i. So they are compared run by run: with d_i = (regret of this result) - (regret
of the first one that played these runs), the interval of the mean difference is

    mean(d) ± t sd(d) / sqrt(n),     t the quantile of Student's law with n - 1 degrees of freedom,

taken at 1 - (1 - confidence) / m for m differences, so that *all* intervals of a table hold together with the stated
confidence (Bonferroni), where d is about normal. Results that did not play the same runs, and single runs, have no
difference.

``compare``: results side by side, or a sweep over worlds, learners and trust models that plays them first.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.notebook import counted, one_line, table_html
from discreet.base.scientific import special
from discreet.base.types import Floats
from discreet.base.validation import check_open_unit, shown
from discreet.learners.base import Learner
from discreet.mechanisms.session import Privatizer
from discreet.recipes.registry import Target
from discreet.recipes.targets import NoPrivacy, Privacy
from discreet.simulation.progress import progress_bar
from discreet.simulation.rehearsal import knobs_of
from discreet.simulation.result import OfflineResult, SimulationResult, standard_error, with_error
from discreet.simulation.result_frames import columns_of, make_frame, offline_columns_of, together
from discreet.simulation.simulate import AnyWorld, Behaviour, as_learner, as_world, simulate
from discreet.worlds.family import World, WorldFamily

AnyResult: TypeAlias = SimulationResult | OfflineResult
RESULTS = "results"


@dataclass(frozen=True)
class Difference:
    """A mean paired difference, and the interval that holds the true one with this confidence, all rows together."""

    mean: float
    low: float
    high: float

    @property
    def beyond_noise(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low > 0 or self.high < 0

    def words(self) -> str:
        """The difference and its interval, as a person reads them."""
        return f"{self.mean:+.4g} [{self.low:+.4g}, {self.high:+.4g}]"


@dataclass(frozen=True)
class Compared:
    """One row: a result, what was measured in each run, and its difference from the first that played the same runs."""

    label: str
    result: AnyResult
    values: Floats
    against: str = ""  # the label of the result that it is compared with
    difference: Difference | None = None

    @property
    def mean(self) -> float:
        """The mean over runs."""
        return float(self.values.mean())


@dataclass(frozen=True)
class Comparison:
    """Results with a label each, in the order in which they were given; ``refused`` could not be run, and why.

    Args:
        results: What is compared; the first is what the others are compared with.
        labels: A name for each.
        confidence: With this probability all intervals of one table hold together.
        refused: Combinations of a sweep that nobody can serve, and why.

    Examples:
        >>> import discreet
        >>> world = discreet.worlds.river_swim(states=3, horizon=3)
        >>> first = discreet.simulate(world, "ucbvi", episodes=50, runs=2)
        >>> second = discreet.simulate(world, "psrl", episodes=50, runs=2)
        >>> both = discreet.compare({"optimism": first, "posterior": second})
        >>> both.labels, both.rows[1].against
        (('optimism', 'posterior'), 'optimism')
    """

    results: tuple[AnyResult, ...]
    labels: tuple[str, ...]
    confidence: float = 0.95
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def measure(self) -> str:
        """What is compared: the regret, or the gap of policies that were learned from data sets."""
        return "regret" if isinstance(self.results[0], SimulationResult) else "final gap"

    @cached_property
    def rows(self) -> tuple[Compared, ...]:
        """One row per result, with its paired difference."""
        firsts: dict[tuple[Any, ...], int] = {}
        against = [firsts.setdefault(_runs_of(result), index) for index, result in enumerate(self.results)]
        values = [_measured(result) for result in self.results]
        paired = [index != first and len(values[index]) > 1 for index, first in enumerate(against)]
        rows = []
        for index, first in enumerate(against):
            row = Compared(self.labels[index], self.results[index], values[index])
            if paired[index]:
                found = paired_difference(values[index], values[first], self.confidence, sum(paired))
                row = Compared(row.label, row.result, row.values, self.labels[first], found)
            rows.append(row)
        return tuple(rows)

    def __getitem__(self, label: str) -> AnyResult:
        """The result of that label."""
        if label not in self.labels:
            raise InvalidInput(f"no result is labelled {shown(label)}; the labels are {'; '.join(self.labels)}")
        return self.results[self.labels.index(label)]

    def __iter__(self) -> Iterator[AnyResult]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def table(self) -> tuple[list[str], list[list[str]]]:
        """The names of the columns, and the rows as text; columns that say nothing are left out."""
        regret = self.measure == "regret"
        columns = [
            ("result", list(self.labels)),
            (self.measure, [with_error(row.values, *((",.1f",) if regret else (".4g", ".2g"))) for row in self.rows]),
            ("final gap", [f"{row.result.final_gap.mean():.4g}" if regret else "" for row in self.rows]),
            ("difference", ["" if row.difference is None else row.difference.words() for row in self.rows]),
            ("from", [row.against for row in self.rows] if len(self._firsts()) > 1 else []),
        ]
        telling = [(name, cells) for name, cells in columns if any(cells)]
        return [name for name, _ in telling], [list(row) for row in zip(*(cells for _, cells in telling))]

    def _firsts(self) -> set[str]:
        return {row.against for row in self.rows if row.against}

    def note(self) -> str:
        """How to read the table."""
        runs = sorted({result.runs for result in self.results})
        words = f"Over {' or '.join(map(str, runs))} run{'' if runs == [1] else 's'}"
        words += "" if runs == [1] else ", ± one standard error"
        firsts = self._firsts()
        if firsts:
            first = f" from {next(iter(firsts))!r}" if len(firsts) == 1 else ""
            words += (
                f"; differences{first} are paired run by run, all intervals hold with confidence {self.confidence:g}"
            )
        return words + "".join(f"; not run: {name}: {why}" for name, why in self.refused.items()) + "."

    def summary(self) -> str:
        """The table and how to read it, as text."""
        columns, rows = self.table()
        widths = [max(len(row[i]) for row in [columns, *rows]) for i in range(len(columns))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in [columns, *rows]]
        return "\n".join([*lines, self.note()])

    def __repr__(self) -> str:
        best = min(self.rows, key=lambda row: row.mean)
        return one_line("Comparison", counted(len(self), "result"), f"least {self.measure}: {best.label}")

    def _repr_html_(self) -> str:
        columns, rows = self.table()
        worlds = dict.fromkeys(result.world for result in self.results)
        return table_html(f"{self.measure.capitalize()} in {', '.join(worlds)}", columns, rows, self.note())

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON: the table, and every result."""
        return {
            "measure": self.measure,
            "confidence": self.confidence,
            "rows": [_plain(row) for row in self.rows],
            "refused": dict(self.refused),
            "results": {label: result.as_dict() for label, result in zip(self.labels, self.results, strict=True)},
        }

    def to_frame(self, library: str | None = None, *, rows: str = RESULTS) -> Any:
        """A frame of pandas or polars: one row per result, per run ("runs"), or per run and checkpoint ("checkpoints").

        In a table of results the columns ``low`` and ``high`` are the ends of the interval of ``difference``.
        """
        if rows == RESULTS:
            return make_frame(together([self._columns(row) for row in self.rows]), library)
        tables = []
        for label, result in zip(self.labels, self.results, strict=True):
            read: Any = columns_of if isinstance(result, SimulationResult) else offline_columns_of
            columns = read(result, rows)
            tables.append({"label": [label] * len(columns["run"]), **columns})
        return make_frame(together(tables), library)

    def _columns(self, row: Compared) -> dict[str, list[Any]]:
        result, gap = row.result, row.difference
        epsilon, delta = result.promised
        facts = {
            "label": row.label, "world": result.world, "learner": result.learner, "privacy": result.privacy,
            "recipe": result.recipe, "epsilon": np.inf if epsilon is None else epsilon, "delta": delta,
            "runs": result.runs, self.measure.replace(" ", "_"): row.mean,
            "error": standard_error(row.values) if result.runs > 1 else np.nan,
            "difference": np.nan if gap is None else gap.mean, "low": np.nan if gap is None else gap.low,
            "high": np.nan if gap is None else gap.high, "against": row.against,
        }  # fmt: skip
        return {name: [value] for name, value in facts.items()}

    def plot(self, path: str | os.PathLike[str] | None = None, *, ax: Any = None, theme: str | None = None) -> Any:
        """Draw all results into one picture and return its axes; a path (.png, .svg, .pdf) writes it to a file.

        ``theme`` is "light" or "dark"; axes of yours (``ax``) keep their own paper.
        """
        from discreet.simulation.plots import plot_results, plot_values

        online = [result for result in self.results if isinstance(result, SimulationResult)]
        if online:
            return plot_results(online, path, ax=ax, labels=self.labels, theme=theme)
        learned = [result for result in self.results if isinstance(result, OfflineResult)]
        return plot_values(learned, path, ax=ax, labels=self.labels, theme=theme)


def paired_difference(values: Floats, first: Floats, confidence: float, together: int = 1) -> Difference:
    """The mean of the differences run by run, with its interval as one of several that hold together."""
    gaps = values - first
    alpha = (1 - check_open_unit("confidence", confidence)) / max(together, 1)
    half = float(special.stdtrit(len(gaps) - 1, 1 - alpha / 2)) * standard_error(gaps)
    mean = float(gaps.mean())
    return Difference(mean, mean - half, mean + half)


def comparison_of(
    results: Mapping[str, AnyResult] | Iterable[AnyResult],
    labels: Sequence[str] | None = None,
    confidence: float = 0.95,
    refused: Mapping[str, str] | None = None,
) -> Comparison:
    """Results as a comparison; labels are the keys of a mapping, those that are given, or learner and promise."""
    check_open_unit("confidence", confidence)
    if isinstance(results, Mapping):
        labels, results = [str(name) for name in results], list(results.values())
    given = tuple(results)
    for result in given:
        if not isinstance(result, SimulationResult | OfflineResult):
            raise InvalidInput(f"compare takes results of discreet.simulate, got {shown(result)}")
    if not given:
        raise InvalidInput("there is nothing to compare: give results of discreet.simulate, or a world")
    if len({type(result) for result in given}) > 1:
        raise InvalidInput("regret and what was learned from data sets are different things: compare them apart")
    names = _labels(given) if labels is None else tuple(labels)
    if len(names) != len(given) or len(set(names)) != len(names):
        raise InvalidInput(f"labels must be {len(given)} different words, one per result, got {shown(names)}")
    return Comparison(given, names, confidence, refused or {})


def _labels(results: Sequence[AnyResult]) -> tuple[str, ...]:
    """Learner and promise, the world where there are several, and what else it takes to tell them apart."""
    several = len({result.world for result in results}) > 1
    labels = [f"{r.learner}, {r.brief()}" + (f" in {r.world}" if several else "") for r in results]
    labels = told_apart(labels, [result.recipe for result in results])
    return numbered(told_apart(labels, [f"seed {result.seed}" for result in results]))


def told_apart(labels: Sequence[str], words: Sequence[str]) -> list[str]:
    """Labels with words beside those that are alike, where that helps."""
    longer = [f"{label}, {word}" if labels.count(label) > 1 else label for label, word in zip(labels, words)]
    if len(set(longer)) <= len(set(labels)):
        longer = list(labels)
    return longer


def numbered(labels: Sequence[str]) -> tuple[str, ...]:
    """Labels that are still alike, with their position."""
    return tuple(f"{label} ({i + 1})" if labels.count(label) > 1 else label for i, label in enumerate(labels))


def _runs_of(result: AnyResult) -> tuple[Any, ...]:
    """What results share that played the same runs."""
    if isinstance(result, SimulationResult):
        return result.world, result.sizes, result.seed, result.runs, int(result.episodes[-1])
    return result.world, result.seed, result.runs, result.users, result.behaviour


def _measured(result: AnyResult) -> Floats:
    return result.total_regret if isinstance(result, SimulationResult) else result.final_gap


def _plain(row: Compared) -> dict[str, Any]:
    gap = row.difference
    return {
        "label": row.label,
        "mean": row.mean,
        "error": standard_error(row.values) if len(row.values) > 1 else None,
        "per_run": row.values.tolist(),
        "against": row.against or None,
        "difference": None if gap is None else {"mean": gap.mean, "low": gap.low, "high": gap.high},
    }


Comparable: TypeAlias = AnyWorld | str | Sequence[AnyWorld | str] | Iterable[AnyResult] | Mapping[str, AnyResult]


def compare(
    what: Comparable,
    *,
    learners: Learner | str | Iterable[Learner | str] | None = None,
    privacy: Target | Iterable[Target] | Mapping[str, Target] | None = None,
    episodes: int | None = None,
    runs: int = 5,
    seed: int = 0,
    threads: int | None = None,
    progress: bool = False,
    behaviour: Behaviour | None = None,
    labels: Sequence[str] | None = None,
    confidence: float = 0.95,
) -> Comparison:
    """Compare results that you have, or play every learner under every trust model in a world and compare those.

    All combinations of a sweep play the same runs, so each is compared with the first, run by run. A combination that
    cannot be served is listed as refused.

    Args:
        what: Results of :func:`discreet.simulate` (a list, or a mapping from labels), or a world, its name, or several
            worlds: a sweep.
        learners: Of a sweep: learners or names, "ucbvi" unless told.
        privacy: Of a sweep: trust models, privatizers of your own or functions that make one; a mapping gives them
            labels. No privacy unless told.
        episodes: Users of each run of a sweep.
        runs: Runs of each combination.
        seed: The seed of all randomness.
        threads: Runs side by side; one per core by default.
        progress: Show how far it is.
        behaviour: For learning offline, as in ``simulate``.
        labels: Names of the results.
        confidence: With which all intervals of the table hold together.

    Examples:
        >>> import discreet
        >>> world = discreet.worlds.river_swim(states=3, horizon=3)
        >>> found = discreet.compare(world, privacy=[discreet.NoPrivacy(), discreet.Central(1.0)], episodes=50, runs=2)
        >>> found.labels
        ('ucbvi, no privacy', 'ucbvi, joint, epsilon 1')
    """
    given = tuple(what.values() if isinstance(what, Mapping) else _several(what))
    if not given or any(isinstance(each, AnyResult) for each in given):
        if episodes is not None or learners is not None or privacy is not None:
            raise InvalidInput(
                "results are there already: learners, privacy and episodes are for worlds; leave them out"
            )
        found: Any = what if isinstance(what, Mapping) else given
        return comparison_of(found, labels, confidence)
    if episodes is None:
        raise InvalidInput("episodes must be given: how many users act in every run")
    check_open_unit("confidence", confidence)
    worlds = [as_world(world) for world in given]
    chosen = [as_learner(each) for each in _several("ucbvi" if learners is None else learners)]
    targets = list(_named_targets(privacy))
    options: dict[str, Any] = {"runs": runs, "seed": seed}
    options |= {"threads": threads} if behaviour is None else {"behaviour": behaviour}
    jobs = [(world, learner, target) for world in worlds for learner in chosen for target in targets]
    results: list[AnyResult] = []
    names: list[str] = []
    refused: dict[str, str] = {}
    with progress_bar("comparing", len(jobs), progress) as tick:
        for world, learner, (name, target) in jobs:
            knobs = "".join(f", {knob}={value}" for knob, value in knobs_of(learner).items())
            where = f" in {world.name}" if len(worlds) > 1 else ""
            try:
                result: AnyResult = simulate(world, learner, target, episodes=episodes, **options)
            except Unsupported as refusal:
                refused[f"{learner.name}{knobs}, {name or _target_words(target)}{where}"] = str(refusal)
            else:
                results.append(result)
                names.append(f"{learner.name}{knobs}, {name or result.brief()}{where}")
            tick(1)
    if not results:
        raise Unsupported("nothing could be played: " + "; ".join(f"{name}: {why}" for name, why in refused.items()))
    made = numbered(told_apart(names, [result.recipe for result in results]))
    return comparison_of(results, labels or made, confidence, refused)


def _several(given: Any) -> tuple[Any, ...]:
    """One thing or several, as several."""
    single = isinstance(given, str | World | WorldFamily | Privacy | Privatizer | AnyResult)
    if single or callable(given) or not isinstance(given, Iterable):
        return (given,)
    return tuple(given)


def _named_targets(privacy: Any) -> Iterable[tuple[str, Any]]:
    if privacy is None:
        return [("", NoPrivacy())]
    if isinstance(privacy, Mapping):
        return [(str(name), target) for name, target in privacy.items()]
    return [("", NoPrivacy() if target is None else target) for target in _several(privacy)]


def _target_words(target: Any) -> str:
    if isinstance(target, Privacy):
        numbers = {"epsilon": target.epsilon, "delta": target.delta or None, "rho": target.rho}
        words = [target.model, *(f"{name} {value:g}" for name, value in numbers.items() if value is not None)]
        return ", ".join([*words, *([] if target.recipe == "auto" else [target.recipe])])
    return repr(target)
