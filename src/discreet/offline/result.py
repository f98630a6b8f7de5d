"""What offline simulation returns: the gap of the learned policy in every run, with the guarantee beside it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from discreet.errors import InvalidInput, MissingExtra
from discreet.files import check_writable, write_atomically
from discreet.policies import AnyPolicy
from discreet.privacy.guarantee import Guarantee, finite_or_none
from discreet.simulation.result import standard_error
from discreet.types import Floats

_FORMATS = (".png", ".svg", ".pdf")


@dataclass(frozen=True)
class OfflineResult:
    """Exact values of policies learned from simulated data sets. There is no regret: nobody acted while learning."""

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
        return len(self.value)

    @property
    def final_gap(self) -> Floats:
        """How much less than the best the learned policies earn per episode."""
        return np.maximum(self.optimal_value - self.value, 0.0)

    def summary(self) -> str:
        """One line: what was learned, what it is worth, what it promises."""
        return (
            f"{self.learner} on {self.world}, {self.recipe}: gap {self.final_gap.mean():.4g} ± "
            f"{standard_error(self.final_gap):.2g} from {self.users:,} users ({self.runs} runs), value "
            f"{self.value.mean():.4g} of {self.optimal_value.mean():.4g}; {self.guarantee.statement()}"
        )

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
        path = Path(folder)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInput(f"cannot write results to {str(path)!r}: {error.strerror}") from None
        write_atomically(path / "result.json", json.dumps(self.as_dict(), indent=1))

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw the values of the runs between those of the behaviour policy and of the best one."""
        plot_values([self], path)


def plot_values(results: Sequence[OfflineResult], path: str | os.PathLike[str], *, title: str = "") -> None:
    """Draw the learned value against the number of users, one line per guarantee; bars are standard errors."""
    file = check_writable(path)
    if file.suffix not in _FORMATS:
        raise InvalidInput(f"cannot draw {file.name!r}: the name must end in {', '.join(_FORMATS)}")
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("matplotlib", "plots") from None
    import io

    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    axes = figure.add_subplot()
    lines: dict[str, list[OfflineResult]] = {}
    for result in results:
        lines.setdefault(_label(result), []).append(result)
    for label, line in lines.items():
        line = sorted(line, key=lambda result: result.users)
        axes.errorbar(
            [result.users for result in line], [result.value.mean() for result in line],
            yerr=[standard_error(result.value) for result in line], label=label, marker="o", capsize=3,
        )  # fmt: skip
    references = (("best policy", "optimal_value", "--"), ("behaviour policy", "behaviour_value", ":"))
    for label, name, style in references:
        mean = np.mean([getattr(result, name).mean() for result in results])
        axes.axhline(float(mean), linestyle=style, color="0.4", label=label)
    axes.set_xscale("log")
    axes.set_xlabel("users")
    axes.set_ylabel("value of the learned policy (exact)")
    axes.set_title(title or results[0].world)
    axes.grid(visible=True, alpha=0.3)
    figure.legend(fontsize=8, frameon=False, loc="outside lower center", ncols=3)
    buffer = io.BytesIO()
    figure.savefig(buffer, format=file.suffix[1:], dpi=150)
    write_atomically(file, buffer.getvalue())


def _label(result: OfflineResult) -> str:
    """A line's name: the learner and what it promises, briefly."""
    guarantee = result.guarantee
    if guarantee.model == "none":
        return f"{result.learner}, no privacy"
    if not np.isfinite(guarantee.epsilon):
        return f"{result.learner}, rho {guarantee.rho:.3g}"
    delta = f", delta {guarantee.delta:.2g}" if guarantee.delta else ""
    return f"{result.learner}, epsilon {guarantee.epsilon:.3g}{delta}"
