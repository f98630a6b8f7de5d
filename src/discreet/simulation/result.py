"""What ``simulate`` returns, with the guarantee beside it: exact regret of every run, or what a data set taught."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from discreet.base.errors import InvalidInput
from discreet.base.files import folder_for, write_atomically
from discreet.base.notebook import counted, facts_html, one_line
from discreet.base.policies import AnyPolicy
from discreet.base.types import Floats, Integers
from discreet.learners.registry import with_standing
from discreet.mechanisms.release import Release
from discreet.privacy.guarantee import Guarantee, finite_or_none
from discreet.privacy.words import brief_promise

_WORDS = ("world", "learner", "privacy", "recipe", "seed", "seconds")
_VERSION = 1  # of result.json; those of 0.2 say none


@dataclass(frozen=True)
class SimulationResult:
    """Regret curves and the guarantee under which they were obtained.

    ``regret[i, j]`` is the cumulative exact regret of run i after ``episodes[j]`` episodes. ``final_gap`` is the regret
    per episode of the policy that the learner recommends in the end, ``deployed_gap`` that of the policy that it would
    deploy next, which may explore. ``switches`` counts changes of the deployed policy,
    ``deterministic_switches`` those of the deterministic policies that users really follow.

    Args:
        world: Its name.
        learner: Its name.
        privacy: The trust model by name.
        recipe: The mechanism that was used.
        seed: Of all randomness.
        episodes: The checkpoints, shape (points,).
        regret: Cumulative exact regret, shape (runs, points).
        final_gap: Shape (runs,).
        deployed_gap: Shape (runs,).
        switches: Shape (runs,).
        deterministic_switches: Shape (runs,).
        guarantee: What was promised and why; plain data in a result that was loaded.
        seconds: How long it took.
        releases: The last release of each run, if they were kept.
        remarks: What a reader should know about the run.
        sizes: The shape in words.

    Examples:
        >>> import discreet
        >>> world = discreet.worlds.river_swim(states=3, horizon=3)
        >>> result = discreet.simulate(world, "ucbvi", discreet.Local(2.0), episodes=100, runs=2)
        >>> result.regret.shape == (2, len(result.episodes)), int(result.episodes[-1])
        (True, 100)
    """

    world: str
    learner: str
    privacy: str
    recipe: str
    seed: int
    episodes: Integers
    regret: Floats
    final_gap: Floats
    deployed_gap: Floats
    switches: Integers
    deterministic_switches: Integers
    guarantee: Guarantee | dict[str, Any]
    seconds: float
    releases: tuple[Release, ...] = field(default=(), repr=False)
    remarks: tuple[str, ...] = ()  # what the learner says about each run; empty where all was as expected
    sizes: str = ""  # of the world, in words; empty in results that were saved without

    @property
    def runs(self) -> int:
        """How many independent runs there were."""
        return int(self.regret.shape[0])

    @property
    def total_regret(self) -> Floats:
        """The regret of each run at the last episode."""
        return self.regret[:, -1]

    def summary(self) -> str:
        """One line: what was run, what it cost, what it promises."""
        return (
            f"{self.learner} on {self.world}, {self.recipe}: regret {with_error(self.total_regret, ',.0f')} after "
            f"{self._length()} ({counted(self.runs, 'run')}); {self.statement}"
        ) + "".join(f"; {note}" for note in self.notes)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the learner remarks about its runs, each sentence once."""
        said = Counter(remark for remark in self.remarks if remark)
        return tuple(
            remark if times == self.runs else f"in {times} of {self.runs} runs {remark}"
            for remark, times in said.items()
        )

    def __repr__(self) -> str:
        regret = f"regret {with_error(self.total_regret, ',.0f')}"
        what = f"{self.learner} in {self.world}", self._length(), counted(self.runs, "run"), regret
        return one_line("SimulationResult", *what, self.brief())

    def _repr_html_(self) -> str:
        return facts_html("Simulation", [*self.facts(), ("promise", self.statement)])

    def _length(self) -> str:
        return counted(int(self.episodes[-1]), "episode")

    def brief(self) -> str:
        """The promise in a few words."""
        return _brief(self.guarantee)

    @property
    def promised(self) -> tuple[float | None, float | None]:
        """The epsilon of the guarantee (None: none is finite) and its delta."""
        return _promised(self.guarantee)

    @property
    def statement(self) -> str:
        """The guarantee in one line."""
        return self.guarantee["statement"] if isinstance(self.guarantee, dict) else self.guarantee.statement()

    def facts(self) -> list[tuple[str, str]]:
        """What was run and what came out, as a person reads it."""
        total = self.total_regret
        return [
            ("world", self.world),
            ("learner", with_standing(self.learner)),
            ("recipe", self.recipe),
            ("episodes", f"{int(self.episodes[-1]):,}, {counted(self.runs, 'run')}, seed {self.seed}"),
            ("regret", with_error(total, ",.1f")),
            ("final gap", _gap(self.final_gap) + " (of the policy it recommends)"),
            ("deployed gap", _gap(self.deployed_gap) + " (of the policy it would deploy next)"),
            ("switches", f"{self.switches.mean():,.1f}"),
            ("seconds", f"{self.seconds:.2f}"),
            *(("note", note) for note in self.notes),
        ]

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON. Absent and infinite values are null."""
        total = self.total_regret
        return {
            "world": self.world,
            "sizes": self.sizes,
            "learner": self.learner,
            "privacy": self.privacy,
            "recipe": self.recipe,
            "episodes": int(self.episodes[-1]),
            "runs": self.runs,
            "seed": self.seed,
            "regret": {
                "mean": float(total.mean()),
                "std": _std(total) if self.runs > 1 else None,
                "per_run": total.tolist(),
            },
            "checkpoints": self.episodes.tolist(),
            "curve": {"mean": self.regret.mean(axis=0).tolist(), "per_run": self.regret.tolist()},
            "final_gap": _gap_dict(self.final_gap),
            "deployed_gap": _gap_dict(self.deployed_gap),
            "switches": {
                "mean": float(self.switches.mean()),
                "per_run": self.switches.tolist(),
                "deterministic": self.deterministic_switches.tolist(),
            },
            "remarks": list(self.remarks),
            "guarantee": self._guarantee_dict(),
            "simulated": True,
            "seconds": finite_or_none(self.seconds),
        }

    def _guarantee_dict(self) -> dict[str, Any]:
        if isinstance(self.guarantee, dict):
            return self.guarantee
        return {**self.guarantee.as_dict(), "statement": self.guarantee.statement()}

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write ``result.json`` into a folder (made if need be); :func:`load_result` reads it back."""
        _save(self.as_dict(), folder)

    def to_frame(self, library: str | None = None, *, rows: str = "runs") -> Any:
        """A frame of pandas or polars with one row per run, or with ``rows="checkpoints"`` per run and checkpoint."""
        from discreet.simulation.result_frames import columns_of, make_frame

        return make_frame(columns_of(self, rows), library)

    def plot(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        ax: Any = None,
        label: str | None = None,
        theme: str | None = None,
    ) -> Any:
        """Draw the regret curve with its spread over runs, and return the axes.

        With a path (.png, .svg, .pdf) the picture is written there, on "light" or "dark" paper (``theme``); ``ax`` are
        axes of yours to draw into.
        """
        from discreet.simulation.plots import plot_results

        return plot_results([self], path, ax=ax, labels=None if label is None else [label], theme=theme)


@dataclass(frozen=True)
class OfflineResult:
    """Exact values of policies learned from simulated data sets. There is no regret: nobody acted while learning.

    Args:
        world: Its name.
        learner: Its name.
        privacy: The trust model by name.
        recipe: The mechanism that was used.
        users: How many acted.
        behaviour: The policy that they acted under, by name.
        seed: Of all randomness.
        value: Exact value of the learned policy, shape (runs,).
        optimal_value: Of the best policy, shape (runs,).
        behaviour_value: Of the behaviour, shape (runs,).
        policies: What was learned in each run.
        guarantee: What was promised and why.
        seconds: How long it took.

    Examples:
        >>> import discreet.offline
        >>> world = discreet.worlds.river_swim(states=3, horizon=3)
        >>> result = discreet.offline.simulate(world, users=100, runs=2)
        >>> result.value.shape, result.users
        ((2,), 100)
    """

    world: str
    learner: str
    privacy: str
    recipe: str
    users: int
    behaviour: str
    seed: int
    value: Floats  # (runs,) of the learned policies
    optimal_value: Floats  # (runs,)
    behaviour_value: Floats  # (runs,)
    policies: tuple[AnyPolicy, ...]
    guarantee: Guarantee
    seconds: float

    @property
    def runs(self) -> int:
        """How many data sets were drawn."""
        return len(self.value)

    @property
    def statement(self) -> str:
        """The promise in one line."""
        return self.guarantee.statement()

    @property
    def final_gap(self) -> Floats:
        """How much less than the best the learned policies earn per episode."""
        return np.maximum(self.optimal_value - self.value, 0.0)

    def summary(self) -> str:
        """One line: what was learned, what it is worth, what it promises."""
        return (
            f"{self.learner} on {self.world}, {self.recipe}: gap {_gap(self.final_gap)} from {self.users:,} users "
            f"({counted(self.runs, 'run')}), value {self.value.mean():.4g} of {self.optimal_value.mean():.4g}; "
            f"{self.guarantee.statement()}"
        )

    def __repr__(self) -> str:
        what = f"{self.learner} in {self.world}", counted(self.users, "user"), counted(self.runs, "run")
        return one_line("OfflineResult", *what, f"gap {_gap(self.final_gap)}", self.brief())

    def _repr_html_(self) -> str:
        return facts_html("Learned from simulated data sets", [*self.facts(), ("promise", self.statement)])

    def brief(self) -> str:
        """The promise in a few words."""
        return self.guarantee.brief()

    @property
    def promised(self) -> tuple[float | None, float | None]:
        """The epsilon of the guarantee (None: none is finite) and its delta."""
        return _promised(self.guarantee)

    def facts(self) -> list[tuple[str, str]]:
        """What was learned and what it is worth, as a person reads it."""
        return [
            ("world", self.world),
            ("learner", with_standing(self.learner)),
            ("recipe", self.recipe),
            (
                "users",
                f"{self.users:,} under the {self.behaviour} policy, {counted(self.runs, 'run')}, seed {self.seed}",
            ),
            ("final gap", _gap(self.final_gap)),
            ("value", f"{self.value.mean():.4g}"),
            ("best policy", f"{self.optimal_value.mean():.4g}"),
            ("behaviour", f"{self.behaviour_value.mean():.4g}"),
            ("seconds", f"{self.seconds:.2f}"),
        ]

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON. Absent and infinite values are null."""
        return {
            "world": self.world,
            "learner": self.learner,
            "privacy": self.privacy,
            "recipe": self.recipe,
            "users": self.users,
            "episodes": self.users,
            "behaviour": self.behaviour,
            "runs": self.runs,
            "seed": self.seed,
            "regret": None,
            "final_gap": {"mean": float(self.final_gap.mean()), "per_run": self.final_gap.tolist()},
            "value": {"mean": float(self.value.mean()), "per_run": self.value.tolist()},
            "optimal_value": self.optimal_value.tolist(),
            "behaviour_value": self.behaviour_value.tolist(),
            "switches": None,
            "guarantee": {**self.guarantee.as_dict(), "statement": self.guarantee.statement()},
            "simulated": True,
            "seconds": finite_or_none(self.seconds),
        }

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write ``result.json`` into a folder, which is made if need be."""
        _save(self.as_dict(), folder)

    def to_frame(self, library: str | None = None, *, rows: str = "runs") -> Any:
        """A frame of pandas or polars with one row per data set."""
        from discreet.simulation.result_frames import make_frame, offline_columns_of

        return make_frame(offline_columns_of(self, rows), library)

    def plot(self, path: str | os.PathLike[str] | None = None, *, ax: Any = None, theme: str | None = None) -> Any:
        """Draw the values of the runs between those of the behaviour policy and of the best one; return the axes.

        With a path (.png, .svg, .pdf) the picture is written there, on "light" or "dark" paper (``theme``); ``ax`` are
        axes of yours to draw into.
        """
        from discreet.simulation.plots import plot_values

        return plot_values([self], path, ax=ax, theme=theme)


def load_result(folder: str | os.PathLike[str]) -> SimulationResult:
    """Read a result that was saved. Its guarantee comes back as plain data: it can be read, not composed further.

    Args:
        folder: Where ``result.save(folder)`` or ``discreet simulate --save`` put it.

    Examples:
        >>> import discreet, pathlib, tempfile
        >>> world = discreet.worlds.river_swim(states=3, horizon=3)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     discreet.simulate(world, "ucbvi", episodes=50, runs=2).save(pathlib.Path(folder) / "run")
        ...     discreet.load_result(pathlib.Path(folder) / "run").runs
        2
    """
    path = Path(folder)
    path = path / "result.json" if path.is_dir() else path
    try:
        data = json.loads(path.read_text())
        if isinstance(data, dict) and "regret" in data and data.get("version") != _VERSION:
            raise InvalidInput(
                f"{str(path)!r} was saved by another release, such as 0.2, and this one reads version {_VERSION} of "
                "results: simulate again with --save"
            )
        return SimulationResult(
            **{name: data[name] for name in _WORDS},
            episodes=np.asarray(data["checkpoints"], np.int64),
            regret=np.asarray(data["curve"]["per_run"], np.float64),
            final_gap=_or_nan(data["final_gap"]["per_run"], data["runs"]),
            deployed_gap=_or_nan(data["deployed_gap"]["per_run"], data["runs"]),
            switches=np.asarray(data["switches"]["per_run"], np.int64),
            deterministic_switches=np.asarray(data["switches"]["deterministic"], np.int64),
            guarantee=data["guarantee"],
            remarks=tuple(data.get("remarks", ())),
            sizes=data.get("sizes", ""),
        )
    except InvalidInput:
        raise
    except OSError as error:
        raise InvalidInput(
            f"cannot read results from {str(path)!r}: {error.strerror}; give a folder that save() wrote"
        ) from None
    except (ValueError, KeyError, TypeError):
        raise InvalidInput(f"{str(path)!r} does not hold a result saved by discreet") from None


def _save(facts: dict[str, Any], folder: str | os.PathLike[str]) -> None:
    with folder_for(folder) as path:
        said = {"format": "discreet-result", "version": _VERSION, **facts}
        write_atomically(path / "result.json", json.dumps(said, indent=1))


def standard_error(values: Floats) -> float:
    """The standard error of a mean over runs; 0 for a single run."""
    return _std(values) / float(np.sqrt(len(values)))


def with_error(values: Floats, form: str, error_form: str | None = None) -> str:
    """The mean over runs and its standard error; of a single run the value alone, because nothing is known about it.

    >>> with_error(np.array([1.0, 3.0]), ".1f"), with_error(np.array([2.0]), ".1f")
    ('2.0 ± 1.0', '2.0')
    """
    mean = format(values.mean(), form)
    return mean if len(values) < 2 else f"{mean} ± {format(standard_error(values), error_form or form)}"


def _brief(guarantee: Guarantee | dict[str, Any]) -> str:
    if not isinstance(guarantee, dict):
        return guarantee.brief()
    return brief_promise(guarantee["model"], guarantee["epsilon"], guarantee["delta"], guarantee["rho"])


def _promised(guarantee: Guarantee | dict[str, Any]) -> tuple[float | None, float | None]:
    facts = guarantee if isinstance(guarantee, dict) else guarantee.as_dict()
    return facts["epsilon"], facts["delta"]


def _std(values: Floats) -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else 0.0


def _gap(gaps: Floats) -> str:
    return "none" if np.isnan(gaps).all() else with_error(gaps, ".4g", ".2g")


def _gap_dict(gaps: Floats) -> dict[str, Any]:
    per_run = None if np.isnan(gaps).all() else gaps.tolist()
    return {"mean": None if per_run is None else float(np.mean(per_run)), "per_run": per_run}


def _or_nan(values: list[float] | None, runs: int) -> Floats:
    return np.full(runs, np.nan) if values is None else np.asarray(values, np.float64)
