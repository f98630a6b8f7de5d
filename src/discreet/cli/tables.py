"""How a table of trajectories is declared on the command line: the options that ``train``, ``check`` and ``evaluate``
share, and the table that they describe."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from discreet.base.errors import InvalidInput

if TYPE_CHECKING:
    from discreet.tables.read.columns import Bins
    from discreet.tables.read.table import Table

_DATA = "Data"
_LONGEST_NUMBER = 18  # digits
_LARGEST_LABELS = 1 << 26  # bytes of a file of labels

Source: TypeAlias = Annotated[
    str,
    typer.Argument(metavar="DATA", help="A .parquet or .csv file, a folder of them, a .duckdb file, or an address."),
]
User: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--user",
        help="The column of users (or households, clinics, schools); --horizon 1 can do without: then every row counts "
        "as one user, which is event level.",
        rich_help_panel=_DATA,
    ),
]
Cap: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--cap", help="With --horizon 1: so many rows of one user count, drawn by lot.", rich_help_panel=_DATA
    ),
]
Step: TypeAlias = Annotated[
    str | None, typer.Option("--step", help="The column of steps; --horizon 1 needs none.", rich_help_panel=_DATA)
]
DeclarationFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--declaration", metavar="FILE", help="A file (table.toml) that declares the table.", rich_help_panel=_DATA
    ),
]
State: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--state", help="The column of states; several if it is repeated, with as many --states.", rich_help_panel=_DATA
    ),
]
Action: TypeAlias = Annotated[
    list[str] | None, typer.Option("--action", help="The column of actions, or several.", rich_help_panel=_DATA)
]
Reward: TypeAlias = Annotated[
    str | None, typer.Option("--reward", help="The column of rewards.", rich_help_panel=_DATA)
]
Episode: TypeAlias = Annotated[
    str | None, typer.Option("--episode", help="The column of episodes, if users have several.", rich_help_panel=_DATA)
]
NextState: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--next-state", help="The column of next states, if there is one.", rich_help_panel=_DATA),
]
States: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--states",
        metavar="N|LABELS|FILE|EDGES",
        help="How many (4 means 0 to 3), labels such as 1,2,3,4, a file of them, or edges of bins such as 0:60:100; "
        "one for each --state.",
        rich_help_panel=_DATA,
    ),
]
Actions: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--actions",
        metavar="N|LABELS|FILE|EDGES",
        help="The same for actions, one for each --action.",
        rich_help_panel=_DATA,
    ),
]
Horizon: TypeAlias = Annotated[
    int | None, typer.Option("--horizon", help="The largest number of steps.", rich_help_panel=_DATA)
]
Rewards: TypeAlias = Annotated[
    tuple[float, float],
    typer.Option(
        "--rewards",
        metavar="LOW HIGH",
        help="The range of rewards, in your units; steps after the end of an episode are worth 0.",
        rich_help_panel=_DATA,
    ),
]
MissingReward: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--missing-reward",
        help="What a missing reward counts as; 0 by default, or the end of the range next to it. With one step "
        "a user without it is not counted unless this is given.",
        rich_help_panel=_DATA,
    ),
]
Missing: TypeAlias = Annotated[
    str,
    typer.Option(
        "--missing",
        metavar="RULE",
        help="A record with a missing step: it ends before (end), it is dropped (drop), or what stands behind is kept "
        "and no policy is judged (row).",
        rich_help_panel=_DATA,
    ),
]
PerUser: TypeAlias = Annotated[
    int, typer.Option("--per-user", help="Trajectories that one user may contribute.", rich_help_panel=_DATA)
]
Homogeneous: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--homogeneous",
        help="Declare that what follows a state and an action does not depend on the step: counts of all steps are "
        "pooled, which takes far less noise.",
        rich_help_panel=_DATA,
    ),
]
EarlyEnd: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--early-end/--no-early-end",
        help="Whether episodes may end before the horizon (then a last row is an end), or all have every step.",
        rich_help_panel=_DATA,
    ),
]
FirstStep: TypeAlias = Annotated[
    int, typer.Option("--first-step", help="The number of the first step.", rich_help_panel=_DATA)
]
TableName: TypeAlias = Annotated[
    str | None, typer.Option("--table", help="The table of a database or warehouse.", rich_help_panel=_DATA)
]
CsvForm: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--csv",
        metavar="NAME=VALUE",
        help="The form of CSV files: delimiter, quote (none), escape, encoding, names (a,b), line_breaks (yes, no).",
        rich_help_panel=_DATA,
    ),
]
Days: TypeAlias = Annotated[
    int | None, typer.Option("--days", help="--step holds dates; a step has so many days.", rich_help_panel=_DATA)
]
Steps: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--steps",
        metavar="LABELS|FILE",
        help="--step holds labels: 8,16,24,32 or a file of them, in their order.",
        rich_help_panel=_DATA,
    ),
]
Every: TypeAlias = Annotated[
    float | None,
    typer.Option("--every", help="--step holds elapsed time; a step is so long.", rich_help_panel=_DATA),
]
MissingLevel: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--missing-level", help="A --state of which missing cells are a level; may be repeated.", rich_help_panel=_DATA
    ),
]
Origin: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--origin",
        metavar="DATE|NUMBER",
        help="The first day; each user's own without. With --every where the first step begins, 0 without.",
        rich_help_panel=_DATA,
    ),
]
Partition: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--partition", help="A column in names of folders such as site=3.", rich_help_panel=_DATA),
]


Declared: TypeAlias = dict[str, Any]  # what the options of a table say, by their names


def _options(
    *,
    user: User = None,
    state: State = None,
    action: Action = None,
    step: Step = None,
    reward: Reward = None,
    episode: Episode = None,
    next_state: NextState = None,
    states: States = None,
    actions: Actions = None,
    horizon: Horizon = None,
    rewards: Rewards = (0.0, 1.0),
    missing_reward: MissingReward = None,
    missing: Missing = "end",
    per_user: PerUser = 1,
    cap: Cap = None,
    homogeneous: Homogeneous = False,
    early_end: EarlyEnd = True,
    first_step: FirstStep = 0,
    table: TableName = None,
    csv: CsvForm = None,
    days: Days = None,
    origin: Origin = None,
    steps: Steps = None,
    every: Every = None,
    missing_level: MissingLevel = None,
    declaration: DeclarationFile = None,
    partition: Partition = None,
) -> None:
    """The options of a table: every command that declares one has them all, here and nowhere else."""


def with_table(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options of a table in place of ``declared``, but for those that it declares itself."""
    own = inspect.signature(command, eval_str=True).parameters
    shared = inspect.signature(_options, eval_str=True).parameters
    more = [option for name, option in shared.items() if name not in own]
    first, *rest = own.values()
    listed = [each for name in rest for each in (more if name.name == "declared" else [name])]

    @functools.wraps(command)
    def run(*arguments: Any, **given: Any) -> None:
        command(*arguments, declared={option.name: given.pop(option.name) for option in more}, **given)

    parameters = [first, *(option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in listed)]
    vars(run).update(__signature__=inspect.Signature(parameters))
    run.__annotations__ = {option.name: option.annotation for option in parameters}
    return run


def open_table(
    source: str,
    *,
    state: list[str] | None,
    action: list[str] | None,
    next_state: list[str] | None,
    states: list[str] | None,
    actions: list[str] | None,
    csv: list[str] | None,
    days: int | None,
    origin: str | None,
    steps: str | None,
    every: float | None,
    missing_level: list[str] | None,
    partition: list[str] | None,
    declaration: Path | None = None,
    **declared: Any,
) -> Table:
    """The table that the options describe."""
    from discreet.tables.read.columns import Dates, Elapsed
    from discreet.tables.read.csv_dialect import csv_form
    from discreet.tables.read.table import read

    if origin is not None and days is None and every is None:
        raise InvalidInput("--origin is for steps that are dates, or elapse: give --days or --every, too")
    if sum(given is not None for given in (days, every, steps)) > 1:
        raise InvalidInput("--days, --every and --steps say in several ways what steps are: give one of them")
    declared["dates"] = None if days is None else Dates(days, origin)
    declared["steps"] = None if steps is None else _domain("steps", steps)
    if every is not None:
        declared["steps"] = Elapsed(every, _number("--origin", origin or "0"))
    declared["missing_level"] = missing_level or []
    declared |= {"csv": csv_form(csv or []), "partitions": partition or []}

    if declaration is not None:
        from discreet.tables.read.declaration_file import keywords

        said = said_by(declaration)
        if "state" not in said or "action" not in said:
            check_columns(state if "state" not in said else [""], action if "action" not in said else [""])
        declared |= {"state": _one_or_all(state or None), "states": _domains("states", states, state or [])}
        declared |= {"action": _one_or_all(action or None), "actions": _domains("actions", actions, action or [])}
        declared["next_state"] = _one_or_all(next_state or None)
        return read(source, **{**declared, **keywords(said)})
    state, action = check_columns(state, action)
    return read(
        source, state=_one_or_all(state), action=_one_or_all(action), next_state=_one_or_all(next_state or None),
        states=_domains("states", states, state), actions=_domains("actions", actions, action), **declared,
    )  # fmt: skip


def check_columns(state: list[str] | None, action: list[str] | None) -> tuple[list[str], list[str]]:
    """The columns of states and actions, which have to be named."""
    for option, given in (("--state", state), ("--action", action)):
        if not given:
            raise InvalidInput(f"{option} is missing: declare the columns of the table, or give --declaration")
    return state or [], action or []


def said_by(declaration: Path) -> dict[str, Any]:
    """The fields of a declaration's file, none of which may be typed, too."""
    from discreet.tables.read.declaration_file import load_declaration

    found = load_declaration(declaration)
    parser = typer.Context.__mro__[1].__module__.rpartition(".")[0]  # click, or the copy of it that typer brings
    context = importlib.import_module(f"{parser}.globals").get_current_context(silent=True)
    about = {"states": "state", "actions": "action", "missing_level": "state"}
    for name in context.params if context is not None else ():
        source = context and context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE" and about.get(name, name) in found:
            option = f"--{name.replace('_', '-')}"
            raise InvalidInput(f"{option} was given, and {declaration.name} declares it: leave one out")
    return found


def _one_or_all(given: Any) -> Any:
    """An option that was given once is that; if it was repeated, all of them."""
    return given[0] if given is not None and len(given) == 1 else given


def _domains(name: str, texts: list[str] | None, columns: list[str]) -> Any:
    if texts is not None and len(texts) != len(columns):
        raise InvalidInput(f"--{name} was given {len(texts)} times for {len(columns)} columns: give one for each")
    return _one_or_all(None if texts is None else [_domain(name, text) for text in texts])


def _domain(name: str, text: str) -> int | list[str] | Bins:
    """A whole number, labels with commas between them or of a file, or bins by their edges."""
    edges = _edges(text)
    if edges is not None:
        from discreet.tables.read.columns import Bins

        return Bins(edges)
    if text.isascii() and text.isdigit():
        if len(text) > _LONGEST_NUMBER:
            raise InvalidInput(f"--{name} is a number of {len(text)} digits: nobody has so many; merge some")
        return int(text)
    try:
        with open(text, "rb") as file:
            lines = file.read(_LARGEST_LABELS + 1)
        if len(lines) > _LARGEST_LABELS:
            raise InvalidInput(f"--{name} names a file of more than {_LARGEST_LABELS >> 20} MiB: give one of labels")
        return [line for line in lines.decode("utf-8-sig").splitlines() if line]
    except (OSError, UnicodeError):
        pass
    except ValueError as error:  # of the name: no file can have it
        if isinstance(error, InvalidInput):
            raise
    from discreet.base.files import shortened

    if "," in text:
        labels = [label.strip() for label in text.split(",")]
        if "" in labels:
            raise InvalidInput(f"--{name} has an empty label between its commas: write them as 1,2,3, or in a file")
        return labels
    if "." in text:
        raise InvalidInput(f"--{name}: there is no file of labels {shortened(text)}: write one label per line")
    raise InvalidInput(
        f"--{name} takes a whole number, labels such as 1,2,3, or a file with one label per line, got {shortened(text)}"
    )


def _number(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"{option} must be a number where steps elapse (--every), got {text[:40]!r}") from None


def _edges(text: str) -> list[float] | None:
    """The numbers of low:...:high, or None where the text is something else."""
    try:
        return [float(edge) for edge in text.split(":")] if ":" in text else None
    except ValueError:
        return None
