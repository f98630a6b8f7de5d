"""``discreet study``: declare a study, check it, invite participants, go on after a backup came back, end it, and take
the policy that was learned.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from discreet.base.errors import InvalidInput, MissingExtra
from discreet.cli.output import plain_errors, print_facts, print_table

if TYPE_CHECKING:
    from discreet.study.service.coordinator import Coordinator
    from discreet.study.service.declaration import Study
    from discreet.study.service.study_check import Lateness
    from discreet.study.service.study_database import Database
    from discreet.study.service.study_files import Places
    from discreet.study.service.study_mechanism import Mechanism

StudyFile: TypeAlias = Annotated[Path, typer.Argument(metavar="STUDY.toml", help="The declaration of the study.")]
Db: TypeAlias = Annotated[
    str | None,
    typer.Option("--db", metavar="FILE|URL", help="The database; by default STUDY.db beside the declaration."),
]
_MOST_ROWS = 30  # of a policy on the screen
_PACKAGES = ("msgspec", "cryptography", "starlette", "uvicorn", "prometheus_client")


def new(
    study: StudyFile,
    model: Annotated[
        str, typer.Option(help="Whom participants trust: local, shuffle or central.", metavar="MODEL")
    ] = "local",
) -> None:
    """Write a commented study file, a signing key and an operator's token beside it; for two parties keys of both."""
    from discreet.study.service.study_files import new_study, shuffler_folder

    places, apart = new_study(study, model), shuffler_folder(study)
    facts = [("study", str(study)), ("signing key", str(places.signing)), ("operator", str(places.operator))]
    if model == "shuffle":
        facts += [
            ("sealing key", f"{places.sealing}: opens messages, only the coordinator may have it"),
            ("shuffler", f"{apart}: signs batches, only the shuffler may have it"),
        ]
    print_facts(facts)
    typer.echo(f"say its title, about and epsilon in {study}, then:  discreet study check {study}")
    if model == "shuffle":
        typer.echo(
            f"two parties: when {study.name} is final, copy it into {apart} and hand that folder to whoever runs the "
            "shuffler, who must be somebody else than the coordinator; keep no copy of it, and give none of yours away"
        )


def check(
    study: StudyFile,
    runs: Annotated[int, typer.Option(help="Runs of the rehearsal in each world; 0 leaves it out.", min=0)] = 2,
    arrivals: Annotated[
        float | None,
        typer.Option(help="People an hour who take part: says how many of their reports come too late.", min=1e-6),
    ] = None,
) -> None:
    """Check a declaration; print its guarantee, its noise, what to expect of it and what a device pays."""
    found = read_declared(study)
    from discreet.study.service.study_check import device_cost, instead_of, lateness, noise_of, rehearsed
    from discreet.study.service.study_mechanism import completed, prepare

    declared = completed(found)
    mechanism = prepare(declared)
    cost = device_cost(mechanism)
    cost.check()
    calibration, users = noise_of(mechanism), declared.declaration["users"]
    typer.echo(declared.hash)
    if declared.unsaid:
        typer.echo(declared.rehearsal_words())
    print_facts(
        [
            *_promised(mechanism),
            ("recipe", mechanism.privatizer.recipe),
            ("participants", f"{users['number']:,}, at most {_few(declared.most_reports, 'report')} of each"),
            ("releases", f"{calibration.releases:,}"),
            ("a device pays", f"{cost.requests} requests, "
                + (f"{_few(cost.messages, 'sealed message')}, " if declared.shuffled else "")
                + f"{cost.received:,} bytes received, {cost.sent:,} sent, {cost.milliseconds:.2g} ms of work"),
        ]
    )  # fmt: skip
    if arrivals is not None:
        typer.echo(_late(lateness(mechanism, arrivals), declared, arrivals))
    if declared is not found:
        typer.echo(
            "say epsilon first: the least local_epsilon of [shuffle] follows from it, and this command names it then"
            if "epsilon" in found.unsaid
            else f"write  local_epsilon = {mechanism.alone:g}  in [shuffle] of {study}, as is taken here: without it "
            "serve and shuffler do not start"
        )
    if (usual := instead_of(mechanism)) is not None:
        typer.echo(f"auto took a recipe that can be served; for such rounds it would take {usual[0]!r}, but {usual[1]}")
    rows = [[e.statistic, f"{e.sd_release:.3g}", f"{e.sd_end:.3g}"] for e in calibration.errors]
    print_table(["count", "noise of a release (sd)", "noise at the end (sd)"], rows, right=["count"])
    if runs:
        share, worlds = rehearsed(mechanism, runs)
        typer.echo(
            f"rehearsed in {', '.join(worlds)}: with {declared.total:,} reports expect {share:.0%} of the regret of "
            "playing at random (0% is perfect, 100% has learned nothing)"
        )


def _late(found: Lateness | None, study: Study, arrivals: float) -> str:
    """How many reports are refused because their round has closed, in words."""
    if found is None:
        return "no report is refused because its round has closed: late ones count under the policy that they name"
    window = study.declaration["reporting"]["window"]
    return (
        f"with {arrivals:g} people an hour, evenly, and reports spread over {window} as devices do, about "
        f"{found.share:.0%} of reports would come after their round has closed and be refused: "
        f"{found.people:,.0f} people would have to take part, in {found.hours:,.1f} hours; a shorter window or fewer "
        "rounds lower this"
    )


def _few(number: int, thing: str) -> str:
    return f"one {thing}" if number == 1 else f"{number:,} {thing}s"


def _promised(mechanism: Mechanism) -> list[tuple[str, str]]:
    """What is promised and, behind a shuffler, whom it rests on."""
    promise = [("promise", mechanism.statement)]
    if mechanism.study.shuffled:
        promise += [
            ("it rests on", f"the other people of a batch: {mechanism.crowd()}"),
            ("if both collude", _alone(mechanism)),
        ]
    return promise


def _alone(mechanism: Mechanism) -> str:
    """What is left to a participant if shuffler and coordinator act together."""
    left = mechanism.alone
    if left is None:
        return 'nothing is left: local_epsilon is "none", and devices take any law'
    from discreet.privacy.words import rounded_up

    return f"local epsilon {rounded_up(left)} is left for all she sends: her device refuses every law that says more"


def tokens(
    study: StudyFile,
    number: Annotated[int, typer.Option(help="How many participants to invite.", min=1)],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The tokens, one a line; only you may read it.")],
    db: Db = None,
) -> None:
    """Make invitation tokens. The database keeps their digests only, so this file is the one place where they are.

    Those of a shuffled study are made by whoever runs the shuffler, beside the shuffler's copy of the declaration: a
    coordinator who invites could invite himself often enough to be alone with one participant.
    """
    declared, database, _places = _opened(study, db)
    if declared.shuffled:
        database = _shuffler_database(study, db)
    from discreet.base.files import there_already
    from discreet.study.service import rounds
    from discreet.study.service.reports import token_digest
    from discreet.study.service.sealing import write_secret
    from discreet.study.service.study_files import new_tokens

    if not declared.invited:
        raise InvalidInput("this study is open to everybody: set tokens = true in [users] to invite participants")
    if out.exists():
        raise there_already(out)
    made = new_tokens(number)
    database.prepare()
    write_secret(out, "".join(f"{token}\n" for token in made).encode())
    link = database.connect()
    try:
        with database.plainly(), link.writing():
            rounds.add_tokens(link, [token_digest(token) for token in made])
    except BaseException:
        out.unlink(missing_ok=True)  # nobody is invited by tokens that the database does not know
        raise
    finally:
        link.close()
    typer.echo(f"{number:,} tokens in {out}: give each participant one, and keep no list of who has which")


def restored(study: StudyFile, db: Db = None) -> None:
    """After a backup came back: charge and abandon what it has lost, so that serve can go on."""
    declared, database, places = _opened(study, db)
    from discreet.study.service.restoring import restore

    done = restore(declared, database, places)
    lost = f"{done.first_lost}" if done.first_lost == done.last_lost else f"{done.first_lost} to {done.last_lost}"
    facts = [
        ("lost or abandoned", f"round {lost}"),
        ("reports given up", f"{done.reports:,} that waited in the backup"),
    ]
    if done.tokens:
        facts.append(("tokens", f"{done.last_lost - done.first_lost + 1} uses were counted against every one"))
    print_facts([*facts, ("open now", f"round {done.open_round}")])


def policy(
    study: StudyFile,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The policy (.json, .npz), for discreet show and Python.")],
    db: Db = None,
) -> None:
    """Write the last policy of a study to a file: after its end the one that the learner recommends. Costs nothing."""
    from discreet.base.files import check_writable, write_atomically
    from discreet.base.policy_files import checked_name

    checked_name(check_writable(out))
    declared, database, _places = _opened(study, db)
    from discreet.base.policies import policy_content
    from discreet.cli.show import print_policy
    from discreet.study.service import rounds
    from discreet.study.service.study_mechanism import labelled_policy, prepare

    database.check_exists()
    link = database.connect()
    try:
        opened, row = rounds.study_row(link), rounds.last_round(link)
    finally:
        link.close()
    if opened is None or row is None:
        raise InvalidInput("this study has not been opened: there is no policy yet")
    if opened.hash != declared.hash:
        raise InvalidInput(f"{study.name} is not the study that this database belongs to: bring that declaration back")
    found = labelled_policy(declared, row.policy)
    write_atomically(out, policy_content(found, out.suffix))
    standing = "deployed in the open round, and may still explore" if row.how != "final" else "recommended at the end"
    print_facts(
        [
            ("policy", f"{out}, {standing}"),
            ("reports counted", f"{row.served:,}"),
            *_promised(prepare(declared, opened.recipe)),
        ]
    )
    print_policy(found, most=_MOST_ROWS, file=out)


def end(study: StudyFile, db: Db = None) -> None:
    """End a study early: count what has arrived, release once more, close. What was charged stays charged."""
    declared, database, places = _opened(study, db)
    from discreet.study.service import rounds
    from discreet.study.service.coordinator import Coordinator

    database.check_exists()
    database.prepare()
    link = database.connect()
    try:
        if rounds.study_row(link) is None:
            raise InvalidInput("this study has not been opened: there is nothing to end")
    finally:
        link.close()
    coordinator = Coordinator(declared, database, places)
    try:
        coordinator.end()
        row = coordinator.published.row
        print_facts([("ended", str(coordinator.published.ended)), ("reports counted", f"{row.served:,}")])
        typer.echo(f"what was learned:  discreet study policy {study} --out policy.json")
    finally:
        coordinator.stop()


def purge(study: StudyFile, db: Db = None) -> None:
    """Erase from the database's files what is no longer needed; serve waits meanwhile. Costs nothing."""
    declared, database, _places = _opened(study, db)
    from discreet.study.service.purging import purge as purged

    done = purged(declared, database)
    facts = [
        ("erased", f"what {done.erased:,} counted reports had said" if done.erased else "nothing: it had gone already"),
        ("tokens", f"forgotten for {done.unlinked:,} reports" if done.unlinked else "as before"),
        ("waiting", f"{done.waiting:,} reports, which stay until they are counted"),
        ("not reached", "backups, standbys, snapshots" + (", PostgreSQL's log of writes" if database.postgres else "")),
    ]
    print_facts(facts)


def make_app() -> typer.Typer:
    """The group of commands."""
    app = typer.Typer(
        no_args_is_help=True, help="Run a study with real users: new, check, tokens, policy, restored, end, purge."
    )
    for command in (new, check, tokens, policy, restored, end, purge):
        app.command(command.__name__)(plain_errors(command))
    return app


def check_address(db: str | None) -> str | None:
    """The address of a database; one with a password is refused, for the list of processes shows it to everybody."""
    from urllib.parse import parse_qs, urlsplit

    try:
        parts = urlsplit(db or "")
        secret = parts.password or "password" in parse_qs(parts.query)
    except ValueError:
        secret = None
    if db is not None and "://" in db and secret:
        raise InvalidInput(
            "--db holds a password, which everybody on this machine sees in the list of processes: leave it out, and "
            "put it into ~/.pgpass, or the file that PGPASSFILE (or ?passfile= in the address) names, or PGPASSWORD"
        )
    return db


def open_coordinator(study_file: Path, db: str | None) -> Coordinator:
    """The coordinator of a study on its database; opens the study where it has not been opened."""
    declared, database, places = _opened(study_file, db)
    from discreet.study.service.coordinator import Coordinator

    return Coordinator(declared, database, places)


def read_declared(study_file: Path) -> Study:
    """The study of a file, where everything that serving needs is installed."""
    from discreet.study.service.declaration import file_name, read_study

    for package in _PACKAGES:
        if find_spec(package) is None:
            raise MissingExtra(package, "serve")
    return read_study(file_name(study_file))


def _shuffler_database(study_file: Path, db: str | None) -> Database:
    from discreet.study.service.study_database import Database
    from discreet.study.service.study_files import shuffler_places_of
    from discreet.study.shuffler.shuffler_database import MIGRATIONS

    places = shuffler_places_of(study_file)
    if not places.signing.exists():
        raise InvalidInput(
            f"{places.signing.name} is not beside the study: tokens of a shuffled study are made by its shuffler, in "
            "the folder that belongs to it"
        )
    return Database(check_address(db) or places.database, MIGRATIONS, "shuffler")


def _opened(study_file: Path, db: str | None) -> tuple[Study, Database, Places]:
    declared = read_declared(study_file)
    from discreet.study.service.study_database import Database
    from discreet.study.service.study_files import places_of

    places = places_of(study_file)
    return declared, Database(check_address(db) or places.database), places
