"""``discreet rehearse``: which recipe, learner and knobs to use, found out on public worlds."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.base.errors import InvalidInput
from discreet.base.notebook import counted
from discreet.cli import options as o
from discreet.cli.output import check_outputs, print_table, write_json

if TYPE_CHECKING:
    from discreet.base.shape import Shape
    from discreet.learners.base import Learner
    from discreet.simulation.rehearsal import Rehearsal


def rehearse(
    world: Annotated[
        list[str] | None,
        typer.Option(
            "--world",
            help="A world that you believe in, by name; may be repeated. Without one: random worlds of the shape given "
            "by --states, --actions and --horizon.",
            rich_help_panel="World",
        ),
    ] = None,
    states: o.States = None,
    actions: o.Actions = None,
    horizon: o.Horizon = None,
    world_option: o.WorldOptions = None,
    instance: o.Instance = None,
    homogeneous: o.Homogeneous = None,
    learner: Annotated[
        list[str] | None,
        typer.Option(
            "--learner",
            metavar="NAME[,KNOB=VALUE...]",
            help="A learner to try, with knobs if you like; may be repeated. Default ucbvi.",
            rich_help_panel="Candidates",
        ),
    ] = None,
    recipe: Annotated[
        list[str] | None,
        typer.Option(
            "--recipe", help="A recipe to try; may be repeated. Default: all that auto considers.",
            rich_help_panel="Candidates",
        ),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option", metavar="NAME=VALUE[,VALUE...]", rich_help_panel="Candidates",
            help="Values of a recipe's option to try, such as blocks=30,100.",
        ),
    ] = None,
    episodes: o.Episodes = 20_000,
    runs: Annotated[int, typer.Option(help="How many runs in each world.", rich_help_panel="Learning")] = 8,
    seed: Annotated[int, typer.Option(help="The seed of all randomness.", rich_help_panel="Learning")] = 0,
    threads: Annotated[
        int | None, typer.Option(help="Runs side by side; one per core by default.", rich_help_panel="Learning")
    ] = None,
    privacy: o.PrivacyModel = "central",
    epsilon: o.Epsilon = None,
    delta: o.Delta = None,
    rho: o.Rho = None,
    json: o.JsonFile = None,
) -> None:  # fmt: skip
    """Compare recipes, learners and knobs on public worlds at your target. Sees no data and costs no privacy."""
    check_outputs(json_file=json)
    shorthands = {"states": states, "actions": actions, "horizon": horizon, "instance": instance}
    about: Any
    if world:
        about = [o.choose_world(name, shorthands, world_option, homogeneous) for name in world]
    else:
        about = _declared(shorthands, world_option, homogeneous)
    learners = [_learner(text) for text in learner or ["ucbvi"]]
    _first, target = o.choose_learner("ucbvi", privacy, "auto", None, epsilon=epsilon, delta=delta, rho=rho)
    from discreet.simulation.rehearsal import rehearse as run

    result = run(
        about, target, episodes=episodes, learners=learners, recipes=recipe, options=o.several_values(option),
        runs=runs, seed=seed, threads=threads, progress=True,
    )  # fmt: skip
    where = _where(world, shorthands, world_option, homogeneous)
    write_json(json, {**result.as_dict(), "command": result.command(where)})
    _print(result, where)


def _where(
    worlds: list[str] | None, sizes: dict[str, int | None], world_options: list[str] | None, homogeneous: bool | None
) -> str:
    """The options that say where the first of the worlds is, for a command that can be copied."""
    if not worlds:
        return "--world YOURS"
    words = [f"--world {shlex.quote(worlds[0])}"]
    words += [f"--{name} {value}" for name, value in sizes.items() if value is not None]
    words += [f"--world-option {shlex.quote(text)}" for text in world_options or ()]
    if homogeneous is not None:
        words.append("--homogeneous" if homogeneous else "--per-step")
    return " ".join(words)


def _declared(sizes: dict[str, int | None], world_options: list[str] | None, homogeneous: bool | None) -> Shape:
    from discreet.base.shape import Shape

    if sizes["states"] is None or sizes["actions"] is None or sizes["horizon"] is None:
        raise InvalidInput("say where to rehearse: --world NAME, or a shape by --states, --actions and --horizon")
    if world_options or sizes["instance"] is not None:
        raise InvalidInput("--world-option and --instance are about a world: give its name with --world")
    return Shape(sizes["states"], sizes["actions"], sizes["horizon"], homogeneous=homogeneous is not False)


def _learner(text: str) -> Learner:
    from discreet.learners.registry import make_learner

    name, *knobs = text.split(",")
    made: Learner = make_learner(name.strip(), **o.pairs("--learner", knobs))
    return made


def _print(result: Rehearsal, world: str) -> None:
    several = len({row.candidate.learner.name for row in result.rows}) > 1
    varied = any(row.candidate.options for row in result.rows)
    columns = [
        "recipe",
        *(["learner"] if several else []),
        *(["options"] if varied else []),
        "regret",
        "±",
        "worst run",
    ]
    rows = [
        [
            row.candidate.label,
            *([row.candidate.learner.name] if several else []),
            *([row.candidate.options] if varied else []),
            f"{row.mean:.1%}",
            "" if result.runs == 1 else f"{row.error:.1%}",
            f"{row.worst:.1%}",
        ]
        for row in result.rows
    ]
    print_table(columns, rows, right=("regret", "±", "worst run"))
    for name, why in result.refused.items():
        typer.echo(f"not tried: {name}: {why}")
    where = ", ".join(result.worlds)
    typer.echo(f"Regret is a share of uniform play's, over {counted(result.runs, 'run')} in {where}.")
    typer.echo(f"{result.verdict()}. Rehearsing sees no data and costs no privacy.\n")
    typer.echo(result.command(world))
    typer.echo(result.call())
