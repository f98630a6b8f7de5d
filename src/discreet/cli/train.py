"""``discreet train``: a private policy and a receipt from a table of trajectories. ``discreet check``: the owner's loud
validator of such a table; what it prints is not private."""

from __future__ import annotations

import inspect
import json
import os
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.base.errors import InvalidInput
from discreet.cli import holdout_options, options, tables
from discreet.cli.output import print_facts, print_promise, print_table

if TYPE_CHECKING:
    from discreet.tables.read.table import Table

_OUTPUT = "Output"
_MOST_ROWS = 40  # of a policy, as train prints it; show prints all
_SPARE = 1 << 16  # bytes: headers, and what a receipt says whatever the sizes


@tables.with_table
def train(
    data: tables.Source,
    *,
    declared: tables.Declared,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The policy (.json, .npz).", rich_help_panel=_OUTPUT)],
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
    delta: Annotated[float, typer.Option(help="The delta beside epsilon.", rich_help_panel="Privacy")] = 0.0,
    rho: Annotated[float | None, typer.Option(help="Instead of epsilon.", rich_help_panel="Privacy")] = None,
    recipe: Annotated[
        str, typer.Option(help="A name from discreet recipes; auto takes the least noise.", rich_help_panel="Privacy")
    ] = "auto",
    ledger: Annotated[
        str | None,
        typer.Option(metavar="FILE|URL", help="Charge this ledger (discreet ledger open).", rich_help_panel="Privacy"),
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(help="The data set of the ledger whose budget pays.", rich_help_panel="Privacy")
    ] = None,
    holdout: holdout_options.Holdout = None,
    judge: holdout_options.Judge = None,
    clip: holdout_options.Clip = None,
    behaviour: holdout_options.Behaviour = None,
    returns: holdout_options.Returns = None,
    safe: holdout_options.Safe = False,
    split: holdout_options.SplitFile = None,
    plot: holdout_options.Plot = None,
    sampler: Annotated[
        str | None,
        typer.Option(
            help="Who draws the noise: opendp, or discreet itself, which is the default above 100,000 cells.",
            rich_help_panel="Privacy",
        ),
    ] = None,
    receipt: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The receipt (.json, .html).", rich_help_panel=_OUTPUT)
    ] = None,
    key: holdout_options.Key = None,
) -> None:
    """Learn a policy from a table of trajectories under differential privacy; write it and its receipt."""
    check_names(
        out,
        receipt,
        [
            ("DATA", data),
            *_given("--states", declared["states"]),
            *_given("--actions", declared["actions"]),
            ("--features", features),
            ("--ledger", ledger),
            ("--behaviour", behaviour),
            ("--declaration", declared["declaration"]),
            ("--key", key),
        ],
    )
    split_file = holdout_options.split_beside(out, split, holdout)
    holdout_options.check_plot(plot, holdout, judge)
    from discreet.base.files import reserve
    from discreet.base.policies import policy_content
    from discreet.cli.show import print_policy
    from discreet.privacy.words import rounded_up
    from discreet.tables.receipt import receipt_text, signed_facts
    from discreet.tables.receipt_words import EVENT_LEVEL, assumed_words, kept_words, present_words, worth_words
    from discreet.tables.train import train as run

    opened = tables.open_table(data, **declared)
    signing = holdout_options.signing_key(key, receipt)  # before noise is drawn
    knobs, table_of_features = options.learner_options(learner, option), _features(features)
    with reserve(_sizes(opened, out, receipt, safe or learner == "apvi")) as (room, *more):
        fit = run(
            opened, learner, epsilon=epsilon, delta=delta, rho=rho, recipe=recipe, features=table_of_features,
            options=knobs, ledger=ledger, dataset=dataset, sampler=sampler, holdout=holdout, judge=judge, clip=clip,
            behaviour=behaviour, returns=returns, safe=safe, split=split_file, progress=True,
        )  # fmt: skip
        for other in more:
            other.write(receipt_text(signed_facts(fit.facts, signing), other.file.suffix))
        room.write(policy_content(fit.policy, out.suffix))
    facts = fit.facts
    print_facts(
        [
            ("policy", f"{out}, {fit.policy.horizon} steps, {fit.policy.states} states"),
            ("learner", learner),
            ("recipe", fit.recipe),
            *[("noise", text) for text in _noise(facts)],
            *([] if receipt is None else [("receipt", f"{receipt}, {holdout_options.signed_by(signing)}")]),
            *([] if facts["ledger"] is None else [("ledger", charged(facts["ledger"]))]),
            # Held-out users judge better than an estimate from what was learned from.
            *([] if facts["evaluation"] is not None else worth_words(facts["values"])),
            *kept_words(facts["values"]),
            *present_words(facts["values"]),
            *([("clip", facts["declared"]["clip"])] if "clip" in facts["declared"] else []),
            ("assumed", assumed_words(facts["declared"])),
            *([("EVENT LEVEL", EVENT_LEVEL)] if facts["declared"]["event_level"] else []),
        ]
    )
    typer.echo(f"What this drops, for the owner alone: {check_line(data, declared)}")
    print_policy(fit.policy, most=_MOST_ROWS, file=out)
    if facts["evaluation"] is not None:
        holdout_options.print_judgement(facts["evaluation"])
        if split_file is not None:
            typer.echo(f"Who was held out is recorded in {split_file}: keep it with the data, and do not publish it.")
        if plot is not None:
            fit.plot(plot)
    typer.echo(f"\n{fit.guarantee.statement()}" + ("" if rho is None else f", rho {rounded_up(fit.guarantee.rho)}"))
    print_promise(facts)


@tables.with_table
def check(
    data: tables.Source,
    *,
    declared: tables.Declared,
) -> None:
    """Count, for the owner of the data, every row that a release would repair silently. NOT private.

    Exit code 0: at most a tenth of the rows, and of the users, is dropped. 1: more than that. 2: it cannot be read.
    """
    from discreet.base.notebook import counted
    from discreet.tables.read.table_check import NOT_PRIVATE
    from discreet.tables.read.table_check import check as run
    from discreet.tables.receipt_words import EVENT_LEVEL

    opened = tables.open_table(data, **declared)
    report = run(opened)
    print_table(["count", "finding"], [[f"{count:,}", what] for what, count in report.findings])
    for remedy in report.remedies:
        typer.echo(remedy)
    verdict = "nothing to repair" if report.clean else "a release repairs the rows above, silently"
    typer.echo(f"{report.rows:,} rows, {report.users:,} users; {verdict}.")
    if report.dropped or report.unseen:
        typer.echo(f"Dropped: {counted(report.dropped, 'row')}, and all rows of {counted(report.unseen, 'user')}.")
    if opened.declaration.columns.user is None:
        typer.echo(f"EVENT LEVEL: every row counts as one user. {EVENT_LEVEL}")
    typer.echo(NOT_PRIVATE)
    if report.too_many:
        raise typer.Exit(1)


def check_line(data: str, declared: Mapping[str, Any]) -> str:
    """The command that shows the owner what these declarations drop; an address may hold a password and is left out."""
    words = ["discreet", "check", "ADDRESS" if "://" in data else data]
    for name, parameter in inspect.signature(check).parameters.items():
        value, option = declared.get(name), f"--{name.replace('_', '-')}"
        if value is None or value == [] or value == parameter.default:
            continue
        if isinstance(value, bool):
            words.append(option if value else option.replace("--", "--no-"))
        elif isinstance(value, tuple):
            words += [option, *map(repr, value)]
        else:
            for each in value if isinstance(value, list) else [value]:
                words += [option, str(each)]
    return shlex.join(words)


def _given(option: str, texts: list[str] | None) -> list[tuple[str, str]]:
    return [(option, text) for text in texts or ()]


def check_names(out: Path, receipt: Path | None, inputs: Iterable[tuple[str, str | Path | None]]) -> None:
    """Refuse, before any work, names that could not be written after it, or that would overwrite something."""
    from discreet.base.files import check_distinct, check_writable, shortened

    if check_writable(out).suffix not in (".json", ".npz"):
        raise InvalidInput(f"policy files end in .json or .npz, got {shortened(out.name)}")
    if receipt is not None and check_writable(receipt).suffix not in (".json", ".html"):
        raise InvalidInput(f"receipts end in .json or .html, got {shortened(receipt.name)}")
    files = [(option, name) for option, name in inputs if name is not None and _exists(name)]
    check_distinct({"--out": out, "--receipt": receipt}, files)


def _exists(name: str | Path) -> bool:
    try:
        return Path(name).exists()
    except (OSError, ValueError):
        return False


def _sizes(table: Table, out: Path, receipt: Path | None, drawn: bool = False) -> dict[str | os.PathLike[str], int]:
    """How much room the outputs can take at most, ``drawn`` if actions may be: reserved before noise is drawn."""
    from discreet.base.shape import check_size
    from discreet.recipes.data_set import TOO_LARGE
    from discreet.tables.apply import written

    shape, declaration = table.shape, table.declaration
    check_size(shape)
    # A label is written as at most six bytes for each of its characters; actions as a number and a separator.
    words = sum(8 + 6 * len(label) for label in (*(declaration.state_labels or ()), *(declaration.action_labels or ())))
    words += 2 * len(json.dumps(written(declaration)))
    entries = shape.horizon * shape.states * (12 if out.suffix == ".json" else 10)
    dense = shape.groups * shape.states**2 * shape.actions <= TOO_LARGE  # beyond, policies take one action each
    if drawn and dense:  # a probability for every action, of up to 25 characters
        entries *= 3 * shape.actions
    sizes: dict[str | os.PathLike[str], int] = {out: _SPARE + words + entries}
    return sizes if receipt is None else {**sizes, receipt: 4 * _SPARE + 2 * words}


def _noise(facts: Mapping[str, Any]) -> list[str]:
    """The noise of every table, and how many sums held-out users were asked for; the receipt lists them all."""
    judged = 0 if facts["evaluation"] is None else len(facts["evaluation"]["mechanisms"])
    tables = facts["mechanisms"][: len(facts["mechanisms"]) - judged]
    more = [f"{judged} noisy releases of the judgement, listed in the receipt"] if judged else []
    return [*(f"{part['statistic']}: {_law(part['law'])}" for part in tables), *more]


def _features(file: Path | None) -> Any:
    if file is None:
        return None
    import numpy as np

    from discreet.base.files import as_path, shortened

    try:
        # Mapped, so that a header which claims more than there is does not take memory.
        found = np.load(as_path(file), mmap_mode="r", allow_pickle=False)
        if isinstance(found, np.ndarray) and found.dtype.kind in "iuf":
            return found
    except InvalidInput:
        raise
    except Exception:  # whatever is wrong with the file, the remedy is the same
        pass
    raise InvalidInput(f"features file {shortened(file)} cannot be read: save an array of numbers with numpy.save")


def charged(ledger: dict[str, Any]) -> str:
    """What a release cost, or that it was paid for before, and what is left."""
    from discreet.ledger.paying import REUSED

    first = f"entry {ledger['entry']} of {ledger['dataset']}"
    words = ledger["words"]
    spent = REUSED if ledger["reused"] else f"charged {words['cost']}"
    if ledger["closed"] and not ledger["reused"]:
        stored, are = ("release", "is") if ledger["closed"] == 1 else ("releases", "are")
        spent += f", anew: {ledger['closed']:,} stored {stored} from before the upgrade {are} closed"
    return f"{first}: {spent}; {words['left_now']} left of {words['budget']}"


def _law(law: dict[str, Any]) -> str:
    return f"{law['name']} " + ", ".join(f"{name} {value:.4g}" for name, value in law.items() if name != "name")
