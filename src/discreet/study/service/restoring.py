"""Going on after a backup came back.

A restored database is older than what participants have seen: rounds have closed since, their releases are known
outside, and reports were accepted that it does not hold. None of that can be undone, so all of it is treated as having
happened:

* every round through the external head, and the one that is open in the backup, is entered in the ledger as lost or
  abandoned. This costs nothing more: a participant is in at most r rounds, lost ones included, and for r rounds the
  study was charged when it opened;
* that she is in no more than r of them is kept by her device, which counts for itself, and where tokens are used by
  counting every lost round against every token, because nobody knows any more who was in them;
* reports that wait in the backup are abandoned: they may have been counted by a closing that is lost;
* no number of a round is used again, and the chain of heads goes on from the external head; heads of lost rounds are
  taken from the external file, so that devices can follow the chain;
* where the state that the next release is made from was secret (matrices, trees) and rounds were lost, nothing can go
  on: noise would be drawn a second time for what was released already. That is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from discreet.base.errors import InvalidInput, Unsupported
from discreet.ledger.chain import canonical, digest
from discreet.ledger.spending import Charge, now, spend_all
from discreet.mechanisms.sums.accumulator import NoiseSource, SecureNoise
from discreet.study.service import closing, rounds
from discreet.study.service.chain_heads import ExternalHead, Head, Signer, check_head, hashed
from discreet.study.service.closing import PLAN, WHO, Desk
from discreet.study.service.declaration import Study
from discreet.study.service.reports import ReportFormat
from discreet.study.service.rounds import RoundRow
from discreet.study.service.sealing import KeyFolder
from discreet.study.service.study_database import Database, Link, Point, no_fault
from discreet.study.service.study_files import Places
from discreet.study.service.study_mechanism import prepare


@dataclass(frozen=True)
class Restored:
    """What was done: which rounds are lost or abandoned, how many reports wait no more, which round is open now."""

    first_lost: int
    last_lost: int
    reports: int
    tokens: bool
    open_round: int


def restore(
    study: Study, database: Database, places: Places, *, noise: NoiseSource | None = None,
    clock: Callable[[], str] = now, point: Point = no_fault,
) -> Restored:  # fmt: skip
    """Charge and abandon what a restored database has lost, and open the next round; then ``serve`` goes on."""
    external = ExternalHead(places.head)
    held = external.read()
    if held is None:
        raise InvalidInput(
            f"{places.head} is missing: put the latest signed head there, as the study's public page showed it or any "
            "device that took part has it"
        )
    if held["study"] != study.hash:
        raise InvalidInput(f"{places.head} belongs to another study: bring back the one of this study")
    if held["round"] > 0:
        check_head(held, study.signing_key)
    database.check_exists()
    database.prepare()
    link = database.connect()
    try:
        with database.plainly(), link.writing():
            return _restore(link, study, external.all(), places, noise or SecureNoise(), clock, point)
    finally:
        link.close()


def _restore(
    link: Link,
    study: Study,
    seen: list[Head],
    places: Places,
    noise: NoiseSource,
    clock: Callable[[], str],
    point: Point,
) -> Restored:
    found, row = rounds.study_row(link), rounds.last_round(link)
    held: Head = seen[-1] if seen else {"round": 0}
    if found is None or row is None or found.hash != study.hash:
        raise InvalidInput("this database does not hold the study: bring a backup of it back first")
    behind = held["round"] > row.number
    if found.ended is not None and not behind:
        raise InvalidInput("the study has ended, and the database knows: there is nothing to go on with")
    if not behind and held["round"] > 0:
        known = rounds.round_at(link, held["round"])
        if known is None or known.head != canonical(held):
            raise InvalidInput(
                f"round {held['round']} of the database is not the one that participants have seen: this is a backup "
                "of another run of the study, and nothing can be made good with it"
            )
    state = rounds.state_row(link, row.number)
    if behind and state is not None and state.sealed is not None:
        raise Unsupported(
            f"the secret state of recipe {found.recipe!r} after round {held['round']} is lost with the database, and "
            "releases cannot go on without it: end the study here"
        )
    mechanism = prepare(study, found.recipe)
    keys = KeyFolder(places.keys)
    desk = Desk(
        mechanism, ReportFormat(mechanism), Signer(places.signing, study.signing_key), keys, noise, clock, point
    )
    live = closing.load(link, desk, row)
    last = max(held["round"], row.number)
    lost = [head for head in seen if head["round"] > row.number]
    waiting = rounds.waiting(link)
    rounds.abandon(link, row.number, last + 1)
    rounds.close_round(link, row.number, clock(), "abandoned")
    time = clock()
    for head in lost:
        rounds.add_round(link, RoundRow(head["round"], "{}", canonical(head), None, 0, row.served, time, time, "lost"))
    rounds.use_all_tokens(link, last - row.number + 1)
    point("restore: abandoned")
    spend_all(link.raw, study.name, [_lost(desk, number, row.number) for number in range(row.number, last + 1)])
    point("restore: charged")
    previous = hashed(held) if behind else hashed(row.signed)
    closing.enter_next(link, desk, closing.next_round(desk, live, last + 1, previous, "", None))
    point("restore: written")
    return Restored(row.number, last, waiting, study.invited, last + 1)


def _lost(desk: Desk, number: int, abandoned: int) -> Charge:
    study = desk.mechanism.study
    what = "abandoned" if number == abandoned else "lost with the database"
    request = digest({"study": study.hash, "round": number, "lost": True})
    return Charge(desk.mechanism.part, f"round {number}, {what}", request, declaration=study.hash, who=WHO, plan=PLAN)
