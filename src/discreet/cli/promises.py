"""``discreet calibrate``: what a privacy target will cost, before anything runs. ``discreet audit``: whether a
mechanism keeps its promise. ``discreet verify``: the promise of a receipt, computed anew from its certificate alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.base.errors import InvalidInput
from discreet.cli import options as o
from discreet.cli.output import check_outputs, print_facts, print_table, write_json

if TYPE_CHECKING:
    from discreet.recipes.targets import Privacy


_SHAPE, _TEST = "Shape", "Test"


def audit(
    privacy: Annotated[
        str | None,
        typer.Option("--privacy", help="Whom users trust: central, local or shuffle.", rich_help_panel="Privacy"),
    ] = None,
    epsilon: o.Epsilon = None,
    delta: o.Delta = None,
    rho: o.Rho = None,
    recipe: Annotated[
        str,
        typer.Option(
            "--recipe", help="A name from discreet recipes, published/... or broken/...", rich_help_panel="Privacy"
        ),
    ] = "auto",
    states: Annotated[int, typer.Option(help="How many states.", rich_help_panel=_SHAPE)] = 6,
    actions: Annotated[int, typer.Option(help="How many actions.", rich_help_panel=_SHAPE)] = 2,
    horizon: Annotated[int, typer.Option(help="Steps of an episode.", rich_help_panel=_SHAPE)] = 20,
    homogeneous: Annotated[
        bool,
        typer.Option(
            "--homogeneous/--per-step", help="Whether the laws are the same at every step.", rich_help_panel=_SHAPE
        ),
    ] = False,
    episodes: o.Episodes = 20_000,
    trials: Annotated[int, typer.Option(help="Transcripts drawn, in all.", rich_help_panel=_TEST)] = 100_000,
    seed: Annotated[int, typer.Option(help="Of the runs.", rich_help_panel=_TEST)] = 0,
    confidence: Annotated[float, typer.Option(help="Of the lower bound.", rich_help_panel=_TEST)] = 0.99,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the two distributions (png, svg, pdf).", rich_help_panel="Output"),
    ] = None,
    json: o.JsonFile = None,
) -> None:
    """Put a privacy claim on trial: couple sessions, test samplers, and bound epsilon from below.

    Exit code 0: the claim holds up. Exit code 1: it is false, by a stage or by computation. Exit code 2: bad input.
    """
    check_outputs(json_file=json, plot=plot)
    target = _target(privacy, recipe, epsilon, delta, rho)
    from discreet.audit.audit import audit as try_claim
    from discreet.base.shape import Shape

    shape = Shape(states, actions, horizon, homogeneous=homogeneous)
    report = try_claim(target, shape, episodes=episodes, trials=trials, seed=seed, confidence=confidence)
    write_json(json, report.as_dict())
    if plot is not None:
        report.plot(plot)
    typer.echo(report.explain())
    typer.echo()
    typer.echo(report.picture())
    if report.untrue or not report.holds:
        raise typer.Exit(1)


def _target(model: str | None, recipe: str, epsilon: float | None, delta: float | None, rho: float | None) -> Privacy:
    from discreet.audit.broken_mechanisms import broken
    from discreet.papers import published
    from discreet.recipes.targets import Central, Local, Shuffle

    trust = {kind.model: kind for kind in (Central, Local, Shuffle)}
    if model == "none":
        raise InvalidInput(
            "--privacy none claims nothing, so there is nothing to audit; choose central, local or shuffle"
        )
    if model is not None and model not in trust:
        raise o.unknown_model(model, trust)
    if recipe.startswith("broken/"):
        return Central(epsilon, delta or 0.0, rho, broken(recipe).name)
    if recipe.startswith("published/"):
        entry = published(recipe)
        if model not in (None, entry.model):
            raise InvalidInput(f"{recipe!r} is for the {entry.model} model, not for {model}: leave --privacy out")
        return Central(epsilon, delta or 0.0, rho, entry.name)
    return trust[model or "central"](epsilon, delta or 0.0, rho, recipe)


_COLUMNS = ("cells", "sd per release", "sd at the end", "width at the end")


def calibrate(
    world: o.WorldName = "river-swim",
    states: o.States = None,
    actions: o.Actions = None,
    horizon: o.Horizon = None,
    world_option: o.WorldOptions = None,
    homogeneous: o.Homogeneous = None,
    learner: o.LearnerName = "ucbvi",
    option: o.Options = None,
    episodes: o.Episodes = 20_000,
    privacy: o.PrivacyModel = "central",
    epsilon: o.Epsilon = None,
    delta: o.Delta = None,
    rho: o.Rho = None,
    recipe: o.RecipeName = "auto",
    failure_probability: Annotated[
        float, typer.Option(help="How often the error may exceed its width.", rich_help_panel="Output")
    ] = 0.1,
    json: o.JsonFile = None,
) -> None:
    """Show the noise, its error widths and the guarantee of a target; nothing is run."""
    check_outputs(json_file=json)
    shorthands = {"states": states, "actions": actions, "horizon": horizon}
    chosen_world = o.choose_world(world, shorthands, world_option, homogeneous)
    chosen_learner, target = o.choose_learner(learner, privacy, recipe, option, epsilon=epsilon, delta=delta, rho=rho)
    from discreet.learners.registry import LEARNERS
    from discreet.recipes.calibrate import calibrate as compute

    result = compute(
        target, chosen_world.shape, learner=chosen_learner, episodes=episodes,
        failure_probability=failure_probability, data_set=LEARNERS[learner].kind == "offline",
    )  # fmt: skip
    write_json(json, result.as_dict())
    print_facts(
        [
            ("recipe", result.recipe),
            ("sensitivity", result.sensitivity),
            ("law", result.law),
            ("releases", f"{result.releases:,} for {episodes:,} episodes"),
        ]
    )
    print_table(
        ["noise in one count", *_COLUMNS],
        [
            [
                error.statistic,
                str(error.cells),
                f"{error.sd_release:.4g}",
                f"{error.sd_end:.4g}",
                f"{error.width_end:.4g}",
            ]
            for error in result.errors
        ],
        right=_COLUMNS,
    )
    typer.echo(f"The width is exceeded with probability {failure_probability:g} at most.\n")
    typer.echo(result.guarantee.explain())


def verify(
    receipt: Annotated[Path, typer.Argument(metavar="RECEIPT", help="A receipt or a certificate (.json).")],
    policy: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The policy that the receipt should belong to (.json, .npz).")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="The fingerprint of the key that must have signed the receipt, or its file."),
    ] = None,
    json: o.JsonFile = None,
) -> None:
    """Check a privacy receipt: recompute epsilon from its noise and sensitivities, with exact arithmetic.

    Exit code 0: the promise holds. 1: it does not, nobody can tell, or --key did not sign it. 2: unreadable. 3: it is
    that of a simulation, which protects nobody.
    """
    check_outputs(json_file=json, inputs=[("RECEIPT", receipt)])
    from discreet.tables.verify import verify as check

    verdict = check(receipt, policy=policy, key=key)
    write_json(json, verdict.as_dict())
    typer.echo(verdict.explain())
    if verdict.code:
        raise typer.Exit(verdict.code)
