"""Closing a round, while reports keep coming: freeze, count, publish, erase.

*Freeze* is a short transaction: from then on reports go into the next lot, and those of this one no longer change.
*Count* is outside of any transaction: read them, release, with noise from the operating system, let the learner plan,
make the key of the next round and seal secret state to it. *Publish* is a short transaction: if the round is still the
open one, enter release, round and state in the ledger and the tables; COMMIT. Nothing that was drawn leaves
before that. *Erase* removes, piece by piece, what the counted reports said. After COMMIT, also when a restart has to do
it: the external head is written and synced, the policy is published, the keys of closed rounds are destroyed
(:meth:`discreet.study.service.coordinator.Coordinator.finish`).

**Formal guarantees.** *Exactly once.* A report belongs to one lot from its own transaction on, a lot is frozen once,
and one closing publishes it: that a lot was counted and its release stand or fall together. *Spend before release.* The
whole study is charged when it opens, as rounds of which a participant is in at most r
(:func:`discreet.ledger.spending.declare_rounds`); each release is an entry of that plan, in the transaction that makes
it. *Crash anywhere.* Before the second COMMIT nothing was released, and noise that was drawn is forgotten unseen,
whether its process has died or another one was faster; after it everything that is left to do is a function of the
database.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from discreet.base.errors import InvalidInput
from discreet.base.policies import AnyPolicy
from discreet.learners.saved_learners import load_state, save_state
from discreet.ledger.chain import canonical, digest
from discreet.ledger.spending import spend
from discreet.mechanisms.counts.encoder import Context
from discreet.mechanisms.messages.device_reports import Report, tally_records
from discreet.mechanisms.release import Release
from discreet.mechanisms.saved_intakes import SavedIntake, from_bytes, to_bytes
from discreet.mechanisms.session import Intake
from discreet.mechanisms.sums.accumulator import NoiseSource
from discreet.study.service import batches, rounds
from discreet.study.service.chain_heads import Head, Signer, hashed
from discreet.study.service.reports import ReportFormat
from discreet.study.service.rounds import RoundRow, Standing, StateRow
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
    """Close the open round if it is full; with ``ending`` close it as it is, and the study. None: nothing was done.

    A closing that was frozen and not published, by whoever has died meanwhile, is counted anew; ``ending`` then takes
    effect with the next one.
    """
    at = _freeze(link, desk, ending)
    if at is None:
        return None
    desk.point("close: frozen")
    found = _read(link, desk, at)
    if found is None:
        return None
    desk.point("close: read")
    try:
        draft = _draft(desk, found, live)
    except InvalidInput:  # a key is gone, which whoever was faster has destroyed
        if not _is_overtaken(link, at):
            raise
        return None
    return _publish(link, desk, at, draft)


class Found(NamedTuple):
    """Everything that a closing reads."""

    at: Standing
    row: RoundRow
    state: StateRow | None
    groups: dict[int, list[tuple[bytes, int]]]  # by round: contents, and how many reports have the same
    policies: dict[int, AnyPolicy]
    batch: bytes


class Draft(NamedTuple):
    """What a closing enters: until it is committed nobody sees any of it, and it may be forgotten."""

    reports: int
    content: bytes | None  # of the release; None: there is none
    following: Next


def _freeze(link: Link, desk: Desk, ending: str | None) -> Standing | None:
    """Say which reports the open round counts, if it is time: one row changes, however many there are."""
    with link.writing():
        desk.point("close: locked")
        desk.check(link)
        at = rounds.standing(link)
        if at is None or at.how is not None:
            return None
        if at.closing:
            return at
        if (ending is None and not at.full) or rounds.left_to_erase(link):
            return None
        rounds.freeze(link)
        if ending is not None:
            rounds.end_study(link, ending)
        return rounds.standing(link)


def _read(link: Link, desk: Desk, at: Standing) -> Found | None:
    """What is frozen, as nobody changes it any more; None if somebody has published meanwhile."""
    with link.reading():
        row, state = rounds.round_at(link, at.number), rounds.state_row(link, at.number)
        if row is None or _is_overtaken(link, at):
            return None
        groups: dict[int, list[tuple[bytes, int]]] = {}
        batch = rounds.waiting_batch(link) if desk.mechanism.study.shuffled else None
        for number, content, times in rounds.frozen_reports(link, at.number):
            groups.setdefault(number, []).append((content, times))
        others = {number: rounds.round_at(link, number) for number in groups}
    said = batch[0] if batch else sum(times for group in groups.values() for _, times in group)
    if said != at.frozen:
        raise InvalidInput(
            f"{said} reports of round {at.number} are in the database, where {at.frozen} were taken: restore a whole "
            "copy of it"
        )
    policies = {number: policy_from(json.loads(one.policy)) for number, one in others.items() if one is not None}
    return Found(at, row, state, groups, policies, batch[1] if batch else b"")


def _is_overtaken(link: Link, at: Standing) -> bool:
    """Whether somebody else has published, or abandoned, what was frozen."""
    now = rounds.standing(link)
    return now is None or (now.number, now.lot, now.frozen) != (at.number, at.lot, at.frozen)


def _draft(desk: Desk, found: Found, live: Live | None) -> Draft:
    """Count, release, plan: nobody waits for it."""
    at, row = found.at, found.row
    live = live if live is not None and live.number == row.number else live_at(desk, row.number, found.state)
    content, released = None, ""
    if at.frozen:
        release = _count(desk, live.intake, found)
        desk.point("close: released")
        live = live._replace(state=desk.mechanism.learner.update(live.state, release))
        content = to_bytes(live.intake.save().public)
        released = hashed(content)
    ends = at.ended or ("all reports were counted" if live.intake.left == 0 else None)
    return Draft(at.frozen, content, next_round(desk, live, row.number + 1, hashed(row.signed), released, ends))


def _publish(link: Link, desk: Desk, at: Standing, draft: Draft) -> Closed | None:
    """Enter it all, in one transaction, unless somebody else was faster: then nobody ever sees the draft."""
    number = at.number
    with link.writing():
        desk.point("close: publishing")
        desk.check(link)
        if _is_overtaken(link, at):
            return None
        if draft.content is not None:
            _enter(link, desk, draft.content, number, draft.reports)
            desk.point("close: charged")
        rounds.mark_counted(link, number)
        rounds.close_round(link, number, desk.clock(), "counted")
        desk.point("close: counted")
        enter_next(link, desk, draft.following)
        desk.point("close: written")
    desk.point("close: committed")
    return Closed(number, draft.reports, None if draft.following.ends else draft.following.live)


class Next(NamedTuple):
    """A round that is about to open: its row, what is remembered with it, and how the study ends if it is the last."""

    row: RoundRow
    state: StateRow
    live: Live
    ends: str | None


def next_round(desk: Desk, live: Live, number: int, previous: str, released: str, ends: str | None) -> Next:
    """Plan the next round: its policy and head, its key, and the state that it starts from."""
    mechanism = desk.mechanism
    learner, intake, state = mechanism.learner, live.intake, live.state
    if ends is None:
        request = learner.ask(state)
        policy, wanted = request.policy, intake.users_for(request)
    else:
        policy, wanted = learner.recommend(state), 0
    message = policy_message(policy)
    head: Head = desk.signer.sign(mechanism.study.hash, number, message, previous, released)
    key = desk.keys.new(number) if mechanism.study.sealed and ends is None else None
    desk.point("open: keyed")
    time = desk.clock()
    row = RoundRow(
        number, canonical(message), canonical(head), None if key is None else key.public, wanted, intake.served, time,
        *((time, "final") if ends else (None, None)),
    )  # fmt: skip
    saved, secret = intake.save(), None
    if saved.secret and key is not None:
        info = bound_to(mechanism.study.hash, number, "state")
        secret = seal(to_bytes(saved.secret), key.public, info)
    kept = StateRow(number, to_bytes(saved.public), secret, save_state(learner, state))
    return Next(row, kept, Live(number, intake, state), ends)


def enter_next(link: Link, desk: Desk, following: Next) -> None:
    """Enter the next round."""
    if following.ends is not None:
        rounds.end_study(link, following.ends)
    rounds.add_round(link, following.row)
    rounds.put_state(link, following.state)
    desk.point("open: written")


def erase(link: Link, desk: Desk) -> bool:
    """Erase some of what was counted; whether there was any. Intake waits for one such piece at most."""
    if not rounds.left_to_erase(link):
        return False
    with link.writing():
        desk.point("erase: locked")
        rounds.erase(link)
    desk.point("erase: committed")
    return True


def load(link: Link, desk: Desk, row: RoundRow) -> Live:
    """Intake and learner as they were saved when this round opened."""
    return live_at(desk, row.number, rounds.state_row(link, row.number))


def live_at(desk: Desk, number: int, kept: StateRow | None) -> Live:
    """The same from what was saved."""
    mechanism = desk.mechanism
    if kept is None:
        raise InvalidInput(f"the state of round {number} is missing from the database: restore a whole copy of it")
    secret: dict[str, Any] = {}
    if kept.sealed is not None:
        key = desk.keys.get(number)
        secret = dict(from_bytes(key.open(kept.sealed, bound_to(mechanism.study.hash, number, "state"))))
    saved = SavedIntake(dict(from_bytes(kept.public)), secret)
    noise = desk.noise if mechanism.study.sealed else None
    intake = mechanism.privatizer.resume(saved, mechanism.study.total, noise)
    release = intake.release_now() if intake.served else None
    return Live(number, intake, load_state(mechanism.learner, mechanism.problem, release, kept.learner))


def _count(desk: Desk, intake: Intake, found: Found) -> Release:
    """Hand what has arrived to the intake, which adds noise where that is its part, and releases."""
    study, form, number = desk.mechanism.study, desk.format, found.at.number
    if study.shuffled:
        assert desk.opener is not None
        policy = policy_from(json.loads(found.row.policy))
        terms = desk.mechanism.terms(policy, found.at.frozen)
        return intake.receive_messages(
            batches.counted(found.batch, desk.opener, study.hash, number, terms), found.at.frozen, policy
        )
    if not study.sealed:
        return intake.receive([(found.policies[each], _messages(form, group)) for each, group in found.groups.items()])
    key, info = desk.keys.get(number), bound_to(study.hash, number, "record")
    sealed = [content for content, times in found.groups[number] for _ in range(times)]
    records = form.records([key.open(content, info) for content in sealed])
    context = Context(policy_from(json.loads(found.row.policy)))
    return intake.take(tally_records(intake.encoders(context), context, records), len(sealed), context)


def _messages(form: ReportFormat, group: list[tuple[bytes, int]]) -> list[list[Report]]:
    said = form.messages([content for content, _ in group])
    return [message for message, (_, times) in zip(said, group, strict=True) for _ in range(times)]


def _enter(link: Link, desk: Desk, content: bytes, number: int, reports: int) -> None:
    """The entry of a release in the ledger, at no further cost."""
    study = desk.mechanism.study
    spend(
        link.raw, study.name, desk.mechanism.part, what=f"round {number}, {reports} reports",
        request=digest({"study": study.hash, "round": number}), release=content, declaration=study.hash, who=WHO,
        plan=PLAN,
    )  # fmt: skip
