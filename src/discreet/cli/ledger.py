"""``discreet ledger``: open a budget, see what was spent of it, check it, sign its head."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from discreet.base.errors import InvalidInput
from discreet.cli.output import plain_errors, print_facts, print_table

if TYPE_CHECKING:
    from discreet.ledger.database import Connection
    from discreet.ledger.verifying import Report

_LATEST = 20  # entries that show prints without --all

Where: TypeAlias = Annotated[
    str, typer.Argument(metavar="FILE|URL", help="The ledger: a file, or postgresql://user@host/database.")
]
Json: TypeAlias = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write the same as JSON (- for stdout).")
]


def open_budget(
    ledger: Where,
    dataset: Annotated[str, typer.Option(help="The name of the data set, such as icu-2026.")],
    epsilon: Annotated[float | None, typer.Option(help="The budget; epsilons of releases add up.")] = None,
    delta: Annotated[float, typer.Option(help="The budget of deltas, which add up as well.")] = 0.0,
    rho: Annotated[float | None, typer.Option(help="Instead of epsilon: rhos of releases add up.")] = None,
    mode: Annotated[
        str | None,
        typer.Option(help="sum (default with epsilon) or zcdp, which turns epsilon and delta into a budget of rho."),
    ] = None,
    declaration: Annotated[
        str | None, typer.Option(metavar="SHA256", help="Only data with this hash of their declaration are charged.")
    ] = None,
    json_file: Json = None,
) -> None:
    """Declare a data set and its budget, once; makes the ledger where there is none."""
    from discreet.cli.output import check_outputs, write_json
    from discreet.ledger.budget import make_budget
    from discreet.ledger.database import founded, transaction
    from discreet.ledger.spending import check_data_set, open_data_set

    budget, name = make_budget(epsilon=epsilon, delta=delta, rho=rho, mode=mode), check_data_set(dataset)
    if declaration is not None and not _is_hash(declaration):
        raise InvalidInput("--declaration takes the 64 hexadecimal digits that a receipt shows as its declaration")
    check_outputs(json_file=json_file)
    with founded(ledger) as connection:
        with transaction(connection):
            open_data_set(connection, name, budget, declaration=declaration)
        found = _account(connection, name)
    write_json(json_file, found)
    print_facts([("data set", name), ("budget", budget.words(budget.limit)), ("head", found["head"]["hash"])])


def show(
    ledger: Where,
    dataset: Annotated[str | None, typer.Option(help="Only this data set, with its entries.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All entries, not only the last ones.")] = False,
    json_file: Json = None,
) -> None:
    """What was spent of every budget, on what, and what is left."""
    from discreet.cli.output import check_outputs, write_json
    from discreet.ledger.database import data_sets, opened

    check_outputs(json_file=json_file)
    with opened(ledger) as connection:
        names = data_sets(connection) if dataset is None else [dataset]
        if not names:
            raise InvalidInput("this ledger has no data set yet: declare one with  discreet ledger open")
        accounts = [_account(connection, name) for name in names]
        if json_file is not None:
            write_json(json_file, [{**each, "entries": _entries(connection, each["dataset"])} for each in accounts])
        for account in accounts:
            _print_account(connection, account, None if every else _LATEST)


def verify(
    ledger: Where,
    head: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A signed head that was kept elsewhere: shows what was cut off.")
    ] = None,
    public_key: Annotated[
        str | None, typer.Option(metavar="HEX", help="The public key that must have signed the head.")
    ] = None,
    json_file: Json = None,
) -> None:
    """Check chains, totals, budgets and stored releases; exit code 1 if anything is wrong."""
    from discreet.cli.output import check_outputs, write_json
    from discreet.ledger.database import opened
    from discreet.ledger.heads import check_head, read_head
    from discreet.ledger.verifying import verify as run

    check_outputs(json_file=json_file, inputs=[] if head is None else [("--head", head)])
    if head is None and public_key is not None:
        raise InvalidInput("--public-key says who must have signed the head: give --head, too")
    signed = None if head is None else read_head(head)
    if signed is not None:
        check_head(signed, public_key)
    with opened(ledger) as connection:
        report = run(connection, signed)
    write_json(json_file, _report_facts(report, signed))
    for problem in report.problems:
        typer.echo(problem)
    typer.echo(f"{report.entries:,} entries of {len(report.heads):,} data sets: {_verdict(report, signed)}")
    if not report.sound:
        raise typer.Exit(1)


def key(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="A new key, which only you may read; without it your own key is meant."),
    ] = None,
    json_file: Json = None,
) -> None:
    """Print the fingerprint of your own key, which signs receipts and is made if it is not there; or make another."""
    from discreet.cli.output import check_outputs, write_json
    from discreet.ledger.keys import make_key, own_key_file, public_digits, signing_key

    check_outputs(json_file=json_file, inputs=[] if file is None else [("FILE", file)])
    if file is None:
        own = signing_key()
        if own is None:
            raise InvalidInput("your configuration folder takes no key: make one with  discreet ledger key FILE")
        file, public = own_key_file(), public_digits(own.public_key())
    else:
        public = make_key(file)
    write_json(json_file, {"file": str(file), "public_key": public})
    typer.echo(public)


def sign(
    ledger: Where,
    key_file: Annotated[Path, typer.Option("--key", metavar="FILE", help="A key of  discreet ledger key.")],
    out: Annotated[
        Path, typer.Option("--out", "--json", metavar="FILE", help="The signed head; keep it away from the ledger.")
    ],
) -> None:
    """Write the signed head of a ledger: number and hash of the last entry of every data set."""
    from discreet.cli.output import check_outputs, write_json
    from discreet.ledger.database import opened
    from discreet.ledger.heads import sign_head

    check_outputs(json_file=out, inputs=[("--key", key_file)])
    with opened(ledger) as connection:
        head = sign_head(connection, key_file)
    write_json(out, head)
    print_facts([(name, f"entry {end['number']}, {end['hash']}") for name, end in head["heads"].items()])
    print_facts([("signed by", head["key"]), ("head", str(out))])


def upgrade(ledger: Where, json_file: Json = None) -> None:
    """Carry over what a ledger of discreet 0.2 says was spent; releases that it stores are closed."""
    from discreet.cli.output import check_outputs, write_json
    from discreet.ledger.database import opened, transaction
    from discreet.ledger.upgrading import upgrade as run

    check_outputs(json_file=json_file)
    with opened(ledger) as connection, transaction(connection):
        done = run(connection)
    write_json(json_file, [each._asdict() for each in done])
    for name, spent, closed in done:
        typer.echo(f"{name}: spent {spent}, as before; stored releases that were closed: {closed:,}")
    if not done:
        typer.echo("nothing to carry over: every data set of this ledger is of this version")


def make_app() -> typer.Typer:
    """The group of commands."""
    app = typer.Typer(
        no_args_is_help=True, help="Keep the budget of a data set: open, show, verify, head, key, upgrade."
    )
    commands: dict[str, Any] = {
        "open": open_budget,
        "show": show,
        "verify": verify,
        "head": sign,
        "key": key,
        "upgrade": upgrade,
    }
    for name, command in commands.items():
        app.command(name)(plain_errors(command))
    return app


def _account(connection: Connection, name: str) -> dict[str, Any]:
    from discreet.ledger.spending import balance

    held = balance(connection, name)
    budget = held.budget
    return {
        "dataset": name,
        "mode": budget.mode,
        "stated_epsilon": budget.epsilon,
        "budget": budget.numbers(budget.limit),
        "spent": budget.numbers(held.spent),
        "left": budget.numbers(held.left),
        "declaration": held.declaration,
        "head": {"number": held.head.number, "hash": held.head.hash},
        "words": {
            "budget": budget.words(budget.limit),
            "spent": budget.words(held.spent),
            "left": budget.words(held.left, left=True),
        },
    }


def _entries(connection: Connection, name: str, latest: int | None = None) -> list[dict[str, Any]]:
    """The charges of a data set as plain data, all or the last ones."""
    from discreet.ledger.chain import cost_in
    from discreet.ledger.database import entries_of, last_entry
    from discreet.ledger.spending import balance

    budget = balance(connection, name).budget
    first = 1 if latest is None else max(1, last_entry(connection, name).number - latest + 1)
    found = []
    for entry in entries_of(connection, name, first):
        content = entry.content
        cost = cost_in(content, "cost")
        found.append(
            {
                "number": entry.number,
                "time": content["time"],
                "what": content["what"],
                "kind": content["kind"],
                "cost": budget.numbers(cost),
                "words": budget.words(cost),
                "guarantee": content["guarantee"],
                "declaration": content["declaration"],
                "request": content["request"],
                "part": content["part"],
                "release": content["release"],
                "hash": entry.hash,
            }
        )
    return found


def _print_account(connection: Connection, account: dict[str, Any], latest: int | None) -> None:
    words = account["words"]
    typer.echo(f"\n{account['dataset']}")
    stated = account["stated_epsilon"]
    kept = "" if stated is None else f", which keeps epsilon {stated:g} at delta {2 * account['budget']['delta']:.4g}"
    print_facts([("  budget", words["budget"] + kept), ("  spent", words["spent"]), ("  left", words["left"])])
    entries = _entries(connection, account["dataset"], latest)
    if entries:
        rows = [[str(each["number"]), each["time"][:16], each["words"], each["what"]] for each in entries]
        print_table(["entry", "time (UTC)", "cost", "what"], rows, right=["entry"])
    if len(entries) < account["head"]["number"]:
        typer.echo(f"  {account['head']['number']:,} entries in all: --all prints them")


def _verdict(report: Report, signed: dict[str, Any] | None) -> str:
    if not report.sound:
        return "NOT SOUND"
    if signed is None:
        return (
            "chains, totals and releases are sound. Whether the last entries were cut off, or all were written anew, "
            "only a signed head that was kept elsewhere can tell (--head)"
        )
    return f"sound, and nothing is missing since the head of {signed['time']}, signed by {signed['key']}"


def _report_facts(report: Report, signed: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "sound": report.sound,
        "entries": report.entries,
        "problems": list(report.problems),
        "heads": {name: {"number": number, "hash": digest} for name, (number, digest) in report.heads.items()},
        "against_head": None if signed is None else {"time": signed["time"], "key": signed["key"]},
    }


def _is_hash(text: str) -> bool:
    return len(text) == 64 and set(text) <= set("0123456789abcdef")
