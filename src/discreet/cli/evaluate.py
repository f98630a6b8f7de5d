"""``discreet evaluate``: what a policy is worth, in a known world exactly, or judged by the users of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from discreet.base.errors import InvalidInput
from discreet.cli import holdout_options, tables
from discreet.cli import options as o
from discreet.cli.output import check_outputs, print_facts, print_promise, write_json

_DATA, _WORLD = "Data", "World"


@tables.with_table
def evaluate(
    policy: Annotated[Path, typer.Argument(metavar="POLICY", help="A policy that discreet saved (.json, .npz).")],
    *,
    data: Annotated[
        str | None,
        typer.Option(
            "--data", help="The table whose users judge the policy; declared as for train.", rich_help_panel=_DATA
        ),
    ] = None,
    world: Annotated[
        str | None,
        typer.Option("--world", help="A name from discreet worlds, instead of data.", rich_help_panel=_WORLD),
    ] = None,
    declared: tables.Declared,
    homogeneous: o.Homogeneous = None,
    epsilon: o.Epsilon = None,
    delta: o.Delta = None,
    rho: o.Rho = None,
    ledger: Annotated[
        str | None, typer.Option(metavar="FILE|URL", help="Charge this ledger.", rich_help_panel="Privacy")
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(help="The data set of the ledger whose budget pays.", rich_help_panel="Privacy")
    ] = None,
    holdout: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="The share of users who judge (.35); the others fill a table, if one is small enough.",
        ),
    ] = None,
    behaviour: holdout_options.Behaviour = None,
    returns: holdout_options.Returns = None,
    split: holdout_options.SplitFile = None,
    key: holdout_options.Key = None,
    world_option: o.WorldOptions = None,
    instance: o.Instance = None,
    plot: holdout_options.Plot = None,
    json: Annotated[
        Path | None,
        typer.Option(
            "--json",
            "--out",
            metavar="FILE",
            help="Write everything as JSON (- for stdout).",
            rich_help_panel="Output",
        ),
    ] = None,
) -> None:
    """Say what a policy is worth: judged by users of a table, privately (--data), or exactly in a world (--world)."""
    check_outputs(json_file=json, plot=plot, inputs=[("POLICY", policy), *([] if key is None else [("--key", key)])])
    if (data is None) == (world is None):
        raise InvalidInput("give --data, a table whose users judge the policy, or --world, a world that is known")
    if world is not None:
        user = declared["user"]
        asked = {"--user": user, "--epsilon": epsilon, "--rho": rho, "--behaviour": behaviour, "--split": split}
        for name, value in {**asked, "--plot": plot, "--ledger": ledger, "--key": key}.items():
            if value is not None:
                raise InvalidInput(f"{name} is for tables, and a world is known exactly: leave it out, or give --data")
        shorthands = {
            **{name: _number(name, declared[name]) for name in ("states", "actions")},
            "horizon": declared["horizon"],
            "instance": instance,
        }
        _in_world(policy, world, shorthands, world_option, homogeneous, json)
        return
    assert data is not None
    opened = tables.open_table(data, homogeneous=bool(homogeneous), **declared)
    from discreet.tables.evaluate import HOLDOUT
    from discreet.tables.evaluate import evaluate as run
    from discreet.tables.receipt import signed_facts
    from discreet.tables.receipt_words import EVENT_LEVEL

    signing = holdout_options.signing_key(key, json)
    beside = holdout_options.recorded_beside(policy)
    used = split if split is not None else beside if beside.exists() else None
    found = run(
        opened, policy, epsilon=epsilon, delta=delta or 0.0, rho=rho, behaviour=behaviour, returns=returns,
        split=used, holdout=HOLDOUT if holdout is None else holdout, ledger=ledger, dataset=dataset,
    )  # fmt: skip
    write_json(json, signed_facts(found.facts, signing))
    if plot is not None:
        found.plot(plot)
    holdout_options.print_judgement(found.facts["evaluation"])
    if used is None:
        typer.echo(
            "All users were asked, which is right for a policy that was learned from none of them; that is not checked."
        )
    else:
        typer.echo(f"Only users who were held out by {used} were asked.")
    if json is not None:
        typer.echo(f"{json}: {holdout_options.signed_by(signing)}")
    typer.echo(f"\n{found.guarantee.statement()}")
    if opened.declaration.columns.user is None:
        typer.echo(f"EVENT LEVEL: every row counts as one user. {EVENT_LEVEL}")
    print_promise(found.facts)
    if found.facts["ledger"] is not None:
        from discreet.cli.train import charged

        typer.echo(f"ledger: {charged(found.facts['ledger'])}")


def _number(name: str, texts: list[str] | None) -> int | None:
    """Of a world states and actions are numbers."""
    if texts is None:
        return None
    if len(texts) != 1 or not (texts[0].isascii() and texts[0].isdigit() and len(texts[0]) < 19):
        raise InvalidInput(f"--{name} of a world is a whole number, got {' '.join(texts)[:40]!r}")
    return int(texts[0])


def _in_world(
    policy: Path, world: str, shorthands: dict[str, int | None], world_option: list[str] | None,
    homogeneous: bool | None, json: Path | None,
) -> None:  # fmt: skip
    """What a policy is worth in a known world, next to the best policy and to uniform play; print its table."""
    chosen = o.choose_world(world, shorthands, world_option, homogeneous)
    from discreet.base.policies import load_policy, uniform_policy
    from discreet.cli.show import print_policy
    from discreet.worlds.tabular import TabularWorld

    if not isinstance(chosen, TabularWorld):
        raise InvalidInput(f"world {world} is drawn at random: fix one with --instance SEED")
    loaded = load_policy(policy)
    value = chosen.value(loaded)
    facts: dict[str, Any] = {
        "world": chosen.name,
        "value": value,
        "optimal_value": chosen.optimal_value,
        "gap": max(0.0, chosen.optimal_value - value),
        "uniform_value": chosen.value(uniform_policy(chosen.shape)),
    }
    write_json(json, facts)
    words = {"optimal_value": "best policy", "uniform_value": "uniform play"}
    print_facts(
        (words.get(name, name), f"{fact:.6g}" if isinstance(fact, float) else str(fact)) for name, fact in facts.items()
    )
    print_policy(loaded, most=40, file=policy)
