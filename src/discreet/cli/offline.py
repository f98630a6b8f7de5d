"""Offline learners in ``discreet simulate``: data sets drawn from a known world, one release each, the exact gap."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from discreet.cli.output import print_facts, write_json
from discreet.errors import InvalidInput, Unsupported

if TYPE_CHECKING:
    from discreet.recipes.trust import Privacy
    from discreet.simulation.run import AnyWorld

_NAMES = ("apvi", "vapvi", "pevi")


def is_offline(learner: str) -> bool:
    """Whether a learner learns from a data set; known without importing it."""
    return learner in _NAMES


def offline_target(
    model: str, *, epsilon: float | None, delta: float | None, rho: float | None, recipe: str
) -> Privacy:
    """The privacy target of one release of a data set."""
    from discreet.recipes.trust import Central, NoPrivacy

    if model == "none":
        if not (epsilon is None and delta is None and rho is None):
            raise InvalidInput("--privacy none promises nothing, so it takes no epsilon, delta or rho; choose central")
        return NoPrivacy(recipe=recipe)
    if model != "central":
        raise Unsupported(f"offline learners know --privacy none and central, not {model}")
    return Central(epsilon, delta or 0.0, rho, recipe)


def simulate_offline(
    world: AnyWorld,
    learner: str,
    target: Privacy,
    option: list[str] | None,
    *,
    users: int,
    behaviour: str,
    runs: int,
    seed: int,
    json: Path | None,
    plot: Path | None,
    save: Path | None,
) -> None:
    """Run, write what was asked for, and print a summary."""
    from discreet.cli.train import learner_options
    from discreet.offline.simulate import simulate
    from discreet.simulation.result import standard_error

    result = simulate(
        world, learner, target, users=users, behaviour=behaviour, runs=runs, seed=seed,
        options=learner_options(learner, option), progress=True,
    )  # fmt: skip
    if plot is not None:
        result.plot(plot)
    if save is not None:
        result.save(save)
    write_json(json, result.as_dict())
    print_facts(
        [
            ("world", result.world),
            ("learner", result.learner),
            ("recipe", result.recipe),
            ("users", f"{users:,} under the {behaviour} policy, {runs} runs, seed {seed}"),
            ("final gap", f"{result.final_gap.mean():.4g} ± {standard_error(result.final_gap):.2g}"),
            ("value", f"{result.value.mean():.4g}"),
            ("best policy", f"{result.optimal_value.mean():.4g}"),
            ("behaviour", f"{result.behaviour_value.mean():.4g}"),
            ("seconds", f"{result.seconds:.2f}"),
        ]
    )
    typer.echo(f"\n{result.guarantee.statement()}")
