"""``discreet simulate``: many runs of one learner in one world under one privacy target.

``discreet compare``: results that were kept with ``simulate --save``, side by side.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.base.errors import InvalidInput
from discreet.cli import options as o
from discreet.cli.output import check_outputs, print_facts, print_table, write_json

if TYPE_CHECKING:
    from discreet.simulation.result import OfflineResult, SimulationResult


def simulate(
    world: o.WorldName = "river-swim",
    states: o.States = None,
    actions: o.Actions = None,
    horizon: o.Horizon = None,
    world_option: o.WorldOptions = None,
    instance: o.Instance = None,
    homogeneous: o.Homogeneous = None,
    learner: o.LearnerName = "ucbvi",
    option: o.Options = None,
    episodes: Annotated[
        int | None,
        typer.Option(help="How many users act, one episode each; by default 20,000.", rich_help_panel="Learning"),
    ] = None,
    users: Annotated[
        int | None,
        typer.Option(
            help="How many users a data set has (offline learners); by default 10,000.",
            min=1,
            rich_help_panel="Learning",
        ),
    ] = None,
    behaviour: Annotated[
        str | None,
        typer.Option(
            help="The policy that collected it: uniform (default), mostly-first, clinicians.",
            rich_help_panel="Learning",
        ),
    ] = None,
    runs: Annotated[int, typer.Option(help="How many independent runs.", rich_help_panel="Learning")] = 10,
    seed: Annotated[int, typer.Option(help="The seed of all randomness.", rich_help_panel="Learning")] = 0,
    threads: Annotated[
        int | None, typer.Option(help="Runs side by side; one per core by default.", rich_help_panel="Learning")
    ] = None,
    privacy: o.PrivacyModel = "none",
    epsilon: o.Epsilon = None,
    delta: o.Delta = None,
    rho: o.Rho = None,
    recipe: o.RecipeName = "auto",
    json: o.JsonFile = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the regret (.png, .svg, .pdf).", rich_help_panel="Output"),
    ] = None,
    save: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the result in a folder.", rich_help_panel="Output")
    ] = None,
) -> None:
    """Run a learner in a world under a privacy target, and measure its exact regret."""
    check_outputs(json_file=json, plot=plot, folder=save)
    shorthands = {"states": states, "actions": actions, "horizon": horizon, "instance": instance}
    chosen_world = o.choose_world(world, shorthands, world_option, homogeneous)
    chosen_learner, target = o.choose_learner(learner, privacy, recipe, option, epsilon=epsilon, delta=delta, rho=rho)
    from discreet.learners.registry import LEARNERS
    from discreet.simulation.simulate import simulate as run

    sizes: dict[str, Any] = {"runs": runs, "seed": seed, "progress": True}
    result: SimulationResult | OfflineResult
    if LEARNERS[learner].kind == "offline":
        _refuse(f"learner {learner} is given a data set of --users", {"--episodes": episodes, "--threads": threads})
        result = run(
            chosen_world, chosen_learner, target, episodes=users or 10_000, behaviour=behaviour or "uniform", **sizes
        )
    else:
        _refuse(f"learner {learner} acts for --episodes", {"--users": users, "--behaviour": behaviour})
        wanted = 20_000 if episodes is None else episodes
        result = run(chosen_world, chosen_learner, target, episodes=wanted, threads=threads, **sizes)
    if plot is not None:
        result.plot(plot)
    if save is not None:
        result.save(save)
    facts = result.facts()
    write_json(json, result.as_dict())
    print_facts(facts)
    typer.echo(f"\n{result.statement}")


def _refuse(why: str, options: dict[str, Any]) -> None:
    """Options of the other kind of learner, which would do nothing."""
    for name, given in options.items():
        if given is not None:
            raise InvalidInput(f"{name} does nothing here, because {why}: leave it out")


def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Folders that simulate --save wrote.")],
    label: Annotated[
        list[str] | None, typer.Option(help="A name for each of them, in the same order; may be repeated.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Of all intervals of differences together.")] = 0.95,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw them in one picture (.png, .svg, .pdf).", rich_help_panel="Output"),
    ] = None,
    json: o.JsonFile = None,
) -> None:
    """Compare saved results: regrets, and differences from the first that are paired run by run."""
    check_outputs(json_file=json, plot=plot, inputs=[("DIR", path) for path in runs])
    from discreet.simulation.comparison import comparison_of
    from discreet.simulation.result import load_result

    found = comparison_of([load_result(folder) for folder in runs], label, confidence)
    write_json(json, found.as_dict())
    if plot is not None:
        found.plot(plot)
    columns, rows = found.table()
    print_table(columns, rows, right=columns[1:4])
    typer.echo(found.note())
