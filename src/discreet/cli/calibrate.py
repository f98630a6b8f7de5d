"""``discreet calibrate``: what a privacy target will cost, before anything runs."""

from __future__ import annotations

from typing import Annotated

import typer

from discreet.cli import options as o
from discreet.cli.output import check_outputs, print_facts, print_table, write_json

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
    from discreet.recipes.calibrate import calibrate as compute

    result = compute(
        target, chosen_world.shape, learner=chosen_learner, episodes=episodes, failure_probability=failure_probability
    )
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
