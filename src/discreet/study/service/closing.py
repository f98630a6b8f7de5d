"""Closing a round: one transaction that counts, charges, releases, plans, and opens the next round.

In this order: lock; count what has arrived; release, with noise from the operating system; let the learner plan; make
the key of the next round and seal secret state to it; enter the release in the ledger; COMMIT. Nothing that was drawn
leaves before that. After it, also when a restart has to do it: the external head is written and synced, the policy is
published, the keys of closed rounds are destroyed (:meth:`discreet.study.service.coordinator.Coordinator.finish`).

**Formal guarantees.** *Exactly once.* A report is counted by the closing whose transaction marks it, and marking and
releasing stand or fall together. *Spend before release.* The whole study is charged when it opens, as rounds of which a
participant is in at most r (:func:`discreet.ledger.spending.declare_rounds`); each release is an entry of that plan, in
the transaction that makes it. *Crash anywhere.* Before COMMIT the database is as it was, and noise that was drawn is
forgotten unseen; after it everything that is left to do is a function of the database.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from discreet.base.errors import InvalidInput
from discreet.base.policies import AnyPolicy
from discreet.learners.saved_learners import load_state, save_state
from discreet.ledger.chain import canonical, digest
from discreet.ledger.spending import spend
from discreet.mechanisms.counts.encoder import Context
from discreet.mechanisms.messages.device_reports import tally_records
from discreet.mechanisms.release import Release
from discreet.mechanisms.saved_intakes import SavedIntake, from_bytes, to_bytes
from discreet.mechanisms.session import Intake
from discreet.mechanisms.sums.accumulator import NoiseSource
from discreet.study.service import batches, rounds
from discreet.study.service.chain_heads import Head, Signer, hashed
from discreet.study.service.reports import ReportFormat
from discreet.study.service.rounds import RoundRow, StateRow
from discreet.study.service.sealing import KeyFolder, RoundKey, bound_to, seal
from discreet.study.service.study_database import Link, Point
from discreet.study.service.study_mechanism import Mechanism, policy_from, policy_message

PLAN = "rounds"  # the plan of the ledger that releases are entered in
WHO = "participant"


@dataclass(frozen=True)
class Desk:
    """What closing needs besides the database: all of it is handed in, so that tests can replace any of it."""

    mechanism: Mechanism
    format: ReportFormat
    signer: Signer
    keys: KeyFolder
    noise: NoiseSource
    clock: Callable[[], str]
    point: Point
    check: Callable[[Link], None] = lambda _link: None  # whether the database holds what was acknowledged
    opener: RoundKey | None = None  # shuffled studies: what opens messages


class Live(NamedTuple):
    """Intake and learner as they stand when a round opens."""

    number: int
    intake: Intake
    state: Any


class Closed(NamedTuple):
    """A round that has closed: its number, how many reports it counted, and what stands now."""

    number: int
    reports: int
    live: Live | None  # None: the study has ended


def close(link: Link, desk: Desk, live: Live | None, *, ending: str | None = None) -> Closed | None:
    """Close the open round if it is full; with ``ending`` close it as it is, and the study. None: nothing was done."""
    with link.writing():
        desk.point("close: locked")
        desk.check(link)
        study, row = rounds.study_row(link), rounds.last_round(link)
        if study is None or row is None or study.ended is not None:
            return None
        waiting = rounds.waiting(link)
        if ending is None and waiting < row.wanted:
            return None
        live = live if live is not None and live.number == row.number else load(link, desk, row)
        desk.point("close: read")
        released = ""
        if waiting:
            release = _count(link, desk, live.intake, row)
            desk.point("close: released")
            live = live._replace(state=desk.mechanism.learner.update(live.state, release))
            released = _enter(link, desk, live.intake.save(), row.number, waiting)
            desk.point("close: charged")
        rounds.mark_counted(link, row.number)
        rounds.close_round(link, row.number, desk.clock(), "counted")
        desk.point("close: counted")
        ends = ending or ("all reports were counted" if live.intake.left == 0 else None)
        following = open_next(link, desk, live, row.number + 1, hashed(row.signed), released, ends)
        desk.point("close: written")
    desk.point("close: committed")
    return Closed(row.number, waiting, None if ends else following)


def open_next(link: Link, desk: Desk, live: Live, number: int, previous: str, released: str, ends: str | None) -> Live:
    """Enter the next round: its policy and head, its key, and the state that it starts from."""
    mechanism = desk.mechanism
    learner, intake, state = mechanism.learner, live.intake, live.state
    if ends is None:
        request = learner.ask(state)
        policy, wanted = request.policy, intake.users_for(request)
    else:
        policy, wanted = learner.recommend(state), 0
        rounds.end_study(link, ends)
    message = policy_message(policy)
    head: Head = desk.signer.sign(mechanism.study.hash, number, message, previous, released)
    key = desk.keys.new(number) if mechanism.study.sealed and ends is None else None
    desk.point("open: keyed")
    time = desk.clock()
    row = RoundRow(
        number, canonical(message), canonical(head), None if key is None else key.public, wanted, intake.served, time,
        *((time, "final") if ends else (None, None)),
    )  # fmt: skip
    rounds.add_round(link, row)
    saved, secret = intake.save(), None
    if saved.secret and key is not None:
        info = bound_to(mechanism.study.hash, number, "state")
        secret = seal(to_bytes(saved.secret), key.public, info)
    rounds.put_state(link, StateRow(number, to_bytes(saved.public), secret, save_state(learner, state)))
    desk.point("open: written")
    return Live(number, intake, state)


def load(link: Link, desk: Desk, row: RoundRow) -> Live:
    """Intake and learner as they were saved when this round opened."""
    mechanism, kept = desk.mechanism, rounds.state_row(link, row.number)
    if kept is None:
        raise InvalidInput(f"the state of round {row.number} is missing from the database: restore a whole copy of it")
    secret: dict[str, Any] = {}
    if kept.sealed is not None:
        key = desk.keys.get(row.number)
        secret = dict(from_bytes(key.open(kept.sealed, bound_to(mechanism.study.hash, row.number, "state"))))
    saved = SavedIntake(dict(from_bytes(kept.public)), secret)
    noise = desk.noise if mechanism.study.sealed else None
    intake = mechanism.privatizer.resume(saved, mechanism.study.total, noise)
    release = intake.release_now() if intake.served else None
    return Live(row.number, intake, load_state(mechanism.learner, mechanism.problem, release, kept.learner))


def _count(link: Link, desk: Desk, intake: Intake, row: RoundRow) -> Release:
    """Hand what has arrived to the intake, which adds noise where that is its part, and releases."""
    study, form = desk.mechanism.study, desk.format
    if study.shuffled:
        return _count_batch(link, desk, intake, row)
    waiting = rounds.waiting_reports(link)
    if not study.sealed:
        groups = groupby(waiting, key=lambda report: report[0])
        return intake.receive(
            [(_policy(link, number), form.messages([content for _, content in group])) for number, group in groups]
        )
    key, info = desk.keys.get(row.number), bound_to(study.hash, row.number, "record")
    records = form.records([key.open(content, info) for _number, content in waiting])
    context = Context(policy_from(json.loads(row.policy)))
    return intake.take(tally_records(intake.encoders(context), context, records), len(waiting), context)


def _count_batch(link: Link, desk: Desk, intake: Intake, row: RoundRow) -> Release:
    """Open the shuffled batch of the round and hand over what its messages say."""
    study, batch = desk.mechanism.study, rounds.waiting_batch(link)
    assert batch is not None
    assert desk.opener is not None
    (users, content), policy = batch, policy_from(json.loads(row.policy))
    said = batches.counted(content, desk.opener, study.hash, row.number, desk.mechanism.terms(policy, users))
    return intake.receive_messages(said, users, policy)


def _policy(link: Link, number: int) -> AnyPolicy:
    row = rounds.round_at(link, number)
    assert row is not None
    return policy_from(json.loads(row.policy))


def _enter(link: Link, desk: Desk, saved: SavedIntake, number: int, reports: int) -> str:
    """The entry of a release in the ledger, at no further cost; gives the hash of what was released."""
    study, content = desk.mechanism.study, to_bytes(saved.public)
    spend(
        link.raw, study.name, desk.mechanism.part, what=f"round {number}, {reports} reports",
        request=digest({"study": study.hash, "round": number}), release=content, declaration=study.hash, who=WHO,
        plan=PLAN,
    )  # fmt: skip
    return hashed(content)
