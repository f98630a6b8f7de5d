"""``discreet train``: a private policy and a receipt from a table of trajectories. ``discreet check``: the owner's loud
validator of such a table; what it prints is not private."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from discreet.cli import options
from discreet.cli.output import print_facts, print_table
from discreet.errors import InvalidInput

if TYPE_CHECKING:
    from discreet.data.table import Table

_DATA, _OUTPUT = "Data", "Output"

Source: TypeAlias = Annotated[
    str,
    typer.Argument(metavar="DATA", help="A .parquet or .csv file, a folder of them, a .duckdb file, or an address."),
]
User: TypeAlias = Annotated[str, typer.Option("--user", help="The column of users.", rich_help_panel=_DATA)]
Step: TypeAlias = Annotated[str, typer.Option("--step", help="The column of steps.", rich_help_panel=_DATA)]
State: TypeAlias = Annotated[str, typer.Option("--state", help="The column of states.", rich_help_panel=_DATA)]
Action: TypeAlias = Annotated[str, typer.Option("--action", help="The column of actions.", rich_help_panel=_DATA)]
Reward: TypeAlias = Annotated[
    str | None, typer.Option("--reward", help="The column of rewards.", rich_help_panel=_DATA)
]
Episode: TypeAlias = Annotated[
    str | None, typer.Option("--episode", help="The column of episodes, if users have several.", rich_help_panel=_DATA)
]
NextState: TypeAlias = Annotated[
    str | None, typer.Option("--next-state", help="The column of next states, if there is one.", rich_help_panel=_DATA)
]
States: TypeAlias = Annotated[
    str | None, typer.Option("--states", metavar="N|FILE", help="How many, or a file of labels.", rich_help_panel=_DATA)
]
Actions: TypeAlias = Annotated[
    str | None,
    typer.Option("--actions", metavar="N|FILE", help="How many, or a file of labels.", rich_help_panel=_DATA),
]
Horizon: TypeAlias = Annotated[
    int | None, typer.Option("--horizon", help="The largest number of steps.", rich_help_panel=_DATA)
]
Rewards: TypeAlias = Annotated[
    tuple[float, float], typer.Option("--rewards", help="The range of rewards.", rich_help_panel=_DATA)
]
PerUser: TypeAlias = Annotated[
    int, typer.Option("--per-user", help="Trajectories that one user may contribute.", rich_help_panel=_DATA)
]
Homogeneous: TypeAlias = Annotated[
    bool, typer.Option("--homogeneous", help="Declare that laws are the same at every step.", rich_help_panel=_DATA)
]
FirstStep: TypeAlias = Annotated[
    int, typer.Option("--first-step", help="The number of the first step.", rich_help_panel=_DATA)
]
TableName: TypeAlias = Annotated[
    str | None, typer.Option("--table", help="The table of a database or warehouse.", rich_help_panel=_DATA)
]


def train(
    data: Source,
    user: User,
    step: Step,
    state: State,
    action: Action,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The policy (.json, .npz).", rich_help_panel=_OUTPUT)],
    reward: Reward = None,
    episode: Episode = None,
    next_state: NextState = None,
    states: States = None,
    actions: Actions = None,
    horizon: Horizon = None,
    rewards: Rewards = (0.0, 1.0),
    per_user: PerUser = 1,
    homogeneous: Homogeneous = False,
    first_step: FirstStep = 0,
    table: TableName = None,
    learner: Annotated[str, typer.Option(help="apvi, vapvi or pevi.", rich_help_panel="Learning")] = "apvi",
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="An option of the learner.", rich_help_panel="Learning"),
    ] = None,
    features: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Features (S, A, d) of linear learners (.npy).", rich_help_panel="Learning"),
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="Privacy loss.", rich_help_panel="Privacy")] = None,
    delta: Annotated[float, typer.Option(help="Its failure probability.", rich_help_panel="Privacy")] = 0.0,
    rho: Annotated[float | None, typer.Option(help="Instead of epsilon.", rich_help_panel="Privacy")] = None,
    recipe: Annotated[str, typer.Option(help="auto takes the quietest.", rich_help_panel="Privacy")] = "auto",
    receipt: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The receipt (.json, .html).", rich_help_panel=_OUTPUT)
    ] = None,
) -> None:
    """Learn a policy from a table of trajectories under differential privacy; write it and its receipt."""
    check_names(out, receipt)
    from discreet.offline.training import train as run
    from discreet.privacy.words import rounded_up

    opened = open_table(
        data, user=user, step=step, state=state, action=action, reward=reward, episode=episode, next_state=next_state,
        states=states, actions=actions, horizon=horizon, rewards=rewards, per_user=per_user, homogeneous=homogeneous,
        first_step=first_step, table=table,
    )  # fmt: skip
    fit = run(
        opened, learner, epsilon=epsilon, delta=delta, rho=rho, recipe=recipe,
        features=_features(features), options=options.learner_options(learner, option), progress=True,
    )  # fmt: skip
    if receipt is not None:
        fit.receipt(receipt)
    fit.policy.save(out)
    facts = fit.facts
    print_facts(
        [
            ("policy", f"{out}, {fit.policy.horizon} steps, {fit.policy.states} states"),
            ("learner", learner),
            ("recipe", fit.recipe),
            *[("noise", f"{part['statistic']}: {_law(part['law'])}") for part in facts["mechanisms"]],
            *([] if receipt is None else [("receipt", str(receipt))]),
        ]
    )
    typer.echo(f"\n{fit.guarantee.statement()}" + ("" if rho is None else f", rho {rounded_up(fit.guarantee.rho)}"))


def check(
    data: Source,
    user: User,
    step: Step,
    state: State,
    action: Action,
    reward: Reward = None,
    episode: Episode = None,
    next_state: NextState = None,
    states: States = None,
    actions: Actions = None,
    horizon: Horizon = None,
    rewards: Rewards = (0.0, 1.0),
    per_user: PerUser = 1,
    homogeneous: Homogeneous = False,
    first_step: FirstStep = 0,
    table: TableName = None,
) -> None:
    """Count, for the owner of the data, every row that a release would repair silently. NOT private."""
    from discreet.data.table import NOT_PRIVATE
    from discreet.data.table import check as run

    opened = open_table(
        data, user=user, step=step, state=state, action=action, reward=reward, episode=episode, next_state=next_state,
        states=states, actions=actions, horizon=horizon, rewards=rewards, per_user=per_user, homogeneous=homogeneous,
        first_step=first_step, table=table,
    )  # fmt: skip
    report = run(opened)
    print_table(["count", "finding"], [[f"{count:,}", what] for what, count in report.findings])
    verdict = "nothing to repair" if report.clean else "a release repairs the rows above, silently"
    typer.echo(f"{report.rows:,} rows, {report.users:,} users; {verdict}.")
    typer.echo(NOT_PRIVATE)


def open_table(source: str, *, states: str | None, actions: str | None, **declared: Any) -> Table:
    """The table that the options describe."""
    from discreet.data.table import read

    return read(source, states=_domain("states", states), actions=_domain("actions", actions), **declared)


def check_names(out: Path, receipt: Path | None) -> None:
    """Refuse, before any work, names that could not be written after it."""
    from discreet.files import check_writable

    if check_writable(out).suffix not in (".json", ".npz"):
        raise InvalidInput(f"policy files end in .json or .npz, got {out.name!r}")
    if receipt is not None and check_writable(receipt).suffix not in (".json", ".html"):
        raise InvalidInput(f"receipts end in .json or .html, got {receipt.name!r}")


def _domain(name: str, text: str | None) -> int | list[str] | None:
    if text is None:
        return None
    if text.isdigit():
        return int(text)
    try:
        return [line for line in Path(text).read_text().splitlines() if line]
    except (OSError, UnicodeDecodeError):
        raise InvalidInput(f"--{name} takes a whole number or a file with one label per line, got {text!r}") from None


def _features(file: Path | None) -> Any:
    if file is None:
        return None
    import numpy as np

    try:
        return np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        raise InvalidInput(f"features file {str(file)!r} cannot be read: save an array with numpy.save") from None


def _law(law: dict[str, Any]) -> str:
    return f"{law['name']} " + ", ".join(f"{name} {value:.4g}" for name, value in law.items() if name != "name")
