"""``discreet crowd``: simulated people as real HTTP clients, to rehearse a study or to load a service.

In the end it says whether the crowd shows learning: regret stage by stage, as a share of what playing at random would
have cost.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from discreet.base.errors import InvalidInput, Unsupported
from discreet.cli import options as o
from discreet.cli.output import check_outputs, print_facts, print_table, write_json
from discreet.cli.study import StudyFile

if TYPE_CHECKING:
    from discreet.base.types import Floats, Integers
    from discreet.study.crowd.people import CrowdResult
    from discreet.study.service.study_mechanism import Mechanism
    from discreet.worlds.tabular import TabularWorld


_CROWD = "Crowd"


def crowd(
    study: StudyFile,
    world: o.WorldName = "river-swim",
    states: o.States = None,
    actions: o.Actions = None,
    horizon: o.Horizon = None,
    world_option: o.WorldOptions = None,
    instance: o.Instance = None,
    homogeneous: o.Homogeneous = None,
    users: Annotated[
        int | None,
        typer.Option(help="How many people take part; by default all of them.", min=1, rich_help_panel=_CROWD),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            help="The address of a service that is running; without one a service of its own is started in a temporary "
            "folder, and removed afterwards.",
            rich_help_panel=_CROWD,
        ),
    ] = None,
    shuffler: Annotated[
        str | None,
        typer.Option(help="The address of the shuffler of a shuffled study that is running.", rich_help_panel=_CROWD),
    ] = None,
    connections: Annotated[
        int, typer.Option(help="How many people are connected at a time.", min=1, max=256, rich_help_panel=_CROWD)
    ] = 16,
    tokens: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Invitations, one a line, where the study has them.", rich_help_panel=_CROWD),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Of what people do; noise is real and has no seed.", rich_help_panel=_CROWD)
    ] = 0,
    runs: Annotated[
        int,
        typer.Option(
            help="Compare with this many runs of simulate, with the same mechanism.", min=0, rich_help_panel=_CROWD
        ),
    ] = 0,
    json: o.JsonFile = None,
) -> None:
    """Let simulated people take part in a study over HTTP, and measure the exact regret of what they met."""
    check_outputs(json_file=json)
    shorthands = {"states": states, "actions": actions, "horizon": horizon, "instance": instance}
    chosen = _tabular(o.choose_world(world, shorthands, world_option, homogeneous))
    from discreet.client.errors import ClientError
    from discreet.study.crowd.people import check_world
    from discreet.study.service.declaration import file_name, read_study
    from discreet.study.service.study_mechanism import completed, prepare

    declared = read_study(file_name(study))
    mechanism = prepare(declared if url is not None else completed(declared))
    people = declared.total if users is None else users
    invited = (
        []
        if tokens is None
        else [line.strip() for line in tokens.read_text(errors="replace").splitlines() if line.strip()]
    )
    if declared.invited and url is not None and not invited:
        raise InvalidInput("this study takes invited people only: give their tokens by --tokens FILE")
    if declared.shuffled and url is not None and shuffler is None and not declared.declaration["shuffle"]["address"]:
        raise InvalidInput("this study has a shuffler: give its address by --shuffler, beside --url")
    if runs and people < declared.total:
        raise InvalidInput(f"--runs compares whole studies: leave --users out, or give all {declared.total:,}")
    shape = declared.shape
    check_world((shape.states, shape.actions, shape.horizon, tuple(map(float, shape.rewards))), shape.start, chosen)
    if url is None:
        if declared.unsaid:
            typer.echo(declared.rehearsal_words(), err=True)
        typer.echo(f"{declared.name}: starting a service of its own, then {people:,} people come over HTTP", err=True)
    try:
        result = _run(study, url, shuffler, chosen, people, seed, connections, invited)
    except ClientError as refused:
        raise Unsupported(str(refused)) from None
    facts, compared = _facts(mechanism, chosen, result), {}
    if runs:
        compared = _compared(mechanism, chosen, result, runs, seed)
        facts.append(("simulate", compared["words"]))
    write_json(json, _as_dict(mechanism, chosen, result, compared))
    print_facts(facts)
    _print_stages(result, chosen)
    typer.echo(f"{mechanism.whole.statement()}")
    typer.echo(declared.hash)
    if url is None:
        typer.echo(f"\n{next_steps(str(study))}")


def _print_stages(result: CrowdResult, world: TabularWorld) -> None:
    """How the crowd learned: nothing is printed for a world in which there is nothing to learn."""
    rows = [stage.row() for stage in stages(result.people, result.regret, world)]
    if rows:
        print_table(["people", "regret, of playing at random", "(0% is perfect)"], rows)


def _tabular(world: Any) -> TabularWorld:
    from discreet.worlds.tabular import TabularWorld

    if not isinstance(world, TabularWorld):
        raise Unsupported("people of a crowd live in one tabular world: choose an --instance of a random one")
    return world


def _run(
    file: Path, url: str | None, shuffler: str | None, world: TabularWorld, people: int, seed: int, connections: int,
    tokens: list[str],
) -> CrowdResult:  # fmt: skip
    from contextlib import nullcontext

    from discreet.cli.crowd_service import Served, served
    from discreet.client.transport import Connection
    from discreet.simulation.progress import progress_bar
    from discreet.study.crowd.people import crowd as run
    from discreet.study.service.declaration import read_study

    if url is not None:
        Connection(url)  # refused before anything is started
    study = read_study(file)
    second = shuffler or (study.declaration["shuffle"]["address"] if study.shuffled else None)
    place = served(file, people) if url is None else nullcontext(Served(url, study.hash, shuffler=second))
    with place as there, progress_bar("crowd", people, True) as tick:
        to_shuffler = there.shuffler
        return run(
            lambda: Connection(there.url), there.study_hash, world, people,
            seed=seed, connections=connections, tokens=there.tokens or tokens, tick=tick,
            shuffler=None if to_shuffler is None else lambda: Connection(to_shuffler),
        )  # fmt: skip


def _facts(mechanism: Mechanism, world: TabularWorld, result: CrowdResult) -> list[tuple[str, str]]:
    from discreet.learners.registry import with_standing

    study = mechanism.study
    return [
        ("study", study.name),
        ("world", world.name),
        ("learner", with_standing(mechanism.learner.name)),
        ("recipe", mechanism.privatizer.recipe),
        *result.facts(),
    ]


def _compared(mechanism: Mechanism, world: TabularWorld, result: CrowdResult, runs: int, seed: int) -> dict[str, Any]:
    """The same learner under the same mechanism, simulated."""
    from discreet.simulation.result import standard_error
    from discreet.simulation.simulate import simulate

    total = mechanism.study.total
    simulated = simulate(
        world, mechanism.learner, mechanism.privatizer, episodes=total, runs=runs, seed=seed + 1, progress=True
    ).total_regret
    mean, error = float(simulated.mean()), standard_error(simulated)
    spread = float(simulated.std(ddof=1)) * (1 + 1 / runs) ** 0.5 if runs > 1 else 0.0
    words = f"regret {mean:,.1f} ± {error:,.1f} in {runs} runs"
    if spread > 0:
        words += f"; this crowd is {(result.total_regret - mean) / spread:+.1f} standard deviations of one run from it"
    return {"words": words, "per_run": simulated.tolist()}


def _as_dict(
    mechanism: Mechanism, world: TabularWorld, result: CrowdResult, compared: dict[str, Any]
) -> dict[str, Any]:
    return {
        "study": mechanism.study.hash,
        "world": world.name,
        "recipe": mechanism.privatizer.recipe,
        "people": result.people.tolist(),
        "regret": result.regret.tolist(),
        "rounds": result.rounds,
        "accepted": result.accepted,
        "refused": result.refused,
        "seconds": result.seconds,
        "simulate": compared or None,
        "statement": mechanism.whole.statement(),
    }


_HALVINGS = 4
_WIDTH = 20


class Stage(NamedTuple):
    """Some people who came one after the other, and their regret as a share of that of playing at random."""

    first: int
    last: int
    share: float

    def row(self) -> list[str]:
        """As a line of a table, with a bar."""
        bar = "#" * round(_WIDTH * min(self.share, 1.0))
        return [f"{self.first:,} to {self.last:,}", f"{self.share:.0%}", bar]


def stages(people: Integers, regret: Floats, world: TabularWorld) -> list[Stage]:
    """The last half of the people, the quarter before it, and so on; ``regret[i]`` is that of the first ``people[i]``.

    Each begins where a number of people is known whose regret is; so the parts are halves to within some percent.
    """
    import numpy as np

    from discreet.base.policies import uniform_policy

    uniform = world.gap(uniform_policy(world.shape))
    if not len(people) or uniform <= 0:
        return []
    wanted = people[-1] / 2.0 ** np.arange(_HALVINGS, -1, -1)
    ends = np.unique([int(np.abs(people - place).argmin()) for place in wanted])
    found, done, cost = [], 0, 0.0
    for end in ends:
        last, total = int(people[end]), float(regret[end])
        found.append(Stage(done + 1, last, (total - cost) / ((last - done) * uniform)))
        done, cost = last, total
    return found


def next_steps(study: str) -> str:
    """What somebody may do who has seen a crowd."""
    here = sys.argv[0] if Path(sys.argv[0]).name == "discreet" and shutil.which("discreet") is None else "discreet"
    commands = {
        f"{here} study check {study}": "what it promises, what a device pays, what to expect",
        f"{here} study new mine.toml": "a study of your own: change it, check it, send a crowd",
        f"{here} serve mine.toml": "the same for real devices; docs/guides/real-users.md goes all the way",
    }
    width = max(map(len, commands))
    lines = [f"  {command:{width}}  {words}" for command, words in commands.items()]
    return "\n".join(["The service of this rehearsal is gone again. Next:", *lines])
