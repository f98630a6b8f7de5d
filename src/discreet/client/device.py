"""A person's device in a study: begin an episode, act, record what happened, finish, send.

    device = Device("https://study.example.org", store="device.db", study_hash="sha256:...")
    device.begin()                                   # study and policy, checked
    for step in range(device.horizon):
        action = device.act(step, state)             # labels where the study has labels
        ...                                          # the app does it, and sees a reward and the next state
        device.record(step, state, action, reward)
    device.finish()                                  # the report, durable
    device.send()                                    # at the time that was drawn; again after a failure

Each study allows a number of reports, and the device keeps count of them itself. What is sent, and its id, is in the
store before the first attempt; a repeated attempt sends the same bytes. The time of sending is drawn when the episode
begins, and the report leaves at that time whether the episode was finished or not (then as the empty record), so that
time says nothing about it.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from operator import index
from typing import overload

from discreet.client.errors import Refused, Rejected
from discreet.client.exact import Entropy, Tape
from discreet.client.heads import Head, SplitView, check_chain
from discreet.client.reports import Round, pick, report_of, shuffled_messages
from discreet.client.sealing import sealed
from discreet.client.store import DONE, OPEN, REJECTED, SQLiteStore, Store, Waiting
from discreet.client.study import Study, seconds
from discreet.client.transport import Connection, Service, check_token
from discreet.client.words import canonical, digest


class _Episode:
    """An episode that has begun: its round, what the report is about, and what happened so far."""

    def __init__(self, id: str, round_: Round, head: Head, steps: list[int], due: int) -> None:
        self.id, self.round, self.head, self.steps, self.due = id, round_, head, steps, due
        self.record: list[tuple[int, int, float]] = []


class Device:
    """One person's device in one study. ``study_hash`` is what the person agreed to.

    ``store`` is a file, kept as long as the study runs, or a store. ``token`` is an invitation where the study has
    them. ``signatures=False`` trusts the connection where the package ``cryptography`` is missing. ``at_once=True``
    sends when the episode is finished, for rehearsals: the time then tells how long it took. ``clock`` and ``entropy``
    are for tests. ``shuffler`` is the address of the second party of a shuffled study, where the declaration does not
    name it or another one is to be taken.
    """

    def __init__(
        self,
        url: str | Service,
        store: str | os.PathLike[str] | Store = "device.db",
        *,
        study_hash: str,
        token: str | None = None,
        signatures: bool = True,
        at_once: bool = False,
        shuffler: str | None = None,
        clock: Callable[[], float] = time.time,
        entropy: Entropy = os.urandom,
    ) -> None:
        self._service = _service(url, study_hash, signatures, shuffler)
        self._store: Store = SQLiteStore(os.fspath(store)) if isinstance(store, str | os.PathLike) else store
        self._hash, self._at_once, self._clock, self._entropy = study_hash, at_once, clock, entropy
        check_token(token)
        self._token, self._tape = token, Tape(entropy)
        self._episode: _Episode | None = None

    @property
    def study(self) -> Study:
        """The study, fetched and checked at the first use."""
        return self._service.study()

    @property
    def horizon(self) -> int:
        """How many steps an episode has."""
        return self.study.horizon

    @property
    def reports(self) -> int:
        """How many reports this device has begun; the study says how many there may be (``study.cap``)."""
        return self._store.count(self._hash)

    @property
    def evidence(self) -> list[tuple[Head, Head]]:
        """Pairs of signed heads for one round that this device has seen: proof of different views."""
        return self._store.evidence(self._hash)

    def plan(self, within: str) -> float:
        """Draw the time of the next visit, at most "2h", "1d", ... from now; :meth:`begin` refuses to be earlier."""
        planned = self._store.visit(self._hash)
        if planned is None:
            planned = int(self._clock()) + self._tape.below(seconds(within) + 1)
            self._store.plan_visit(self._hash, planned)
        return planned

    def begin(self) -> float:
        """Take the policy of this round, and draw what the report is about and when it leaves; returns that time."""
        if self._episode is not None:
            raise Refused("an episode has begun already: finish it, or abandon it")
        planned = self._store.visit(self._hash)
        if planned is not None and self._clock() < planned:
            raise Refused("the time that was drawn for this visit has not come yet: call begin() then")
        study = self.study
        self._service.check_way(self._token)
        if self.reports >= study.cap:
            raise _used_up(study)
        round_, head = self._agreed_round()
        steps = pick(study, round_, self._tape)
        wait = 0 if self._at_once else self._tape.below(study.window)
        episode = _Episode(self._entropy(16).hex(), round_, head, steps, int(self._clock()) + wait)
        empty = Waiting(episode.id, episode.due, self._body(episode), OPEN)
        if not self._store.begin(self._hash, study.cap, empty):
            raise _used_up(study)
        if planned is not None:
            self._store.plan_visit(self._hash, None)
        self._episode = episode
        return episode.due

    @overload
    def act(self, step: int, state: int) -> int: ...

    @overload
    def act(self, step: int, state: str) -> int | str: ...

    def act(self, step: int, state: int | str) -> int | str:
        """The action of the policy at this step and state; the label of a state gives the label of an action."""
        study, episode = self.study, self._running()
        where = _place("state", state, study.states, study.state_labels)
        _place("step", step, study.horizon, None)
        action = episode.round.policy.draw(step, where, self._tape)
        return study.action_labels[action] if isinstance(state, str) and study.action_labels else action

    def record(self, step: int, state: int | str, action: int | str, reward: float) -> None:
        """Note what happened at a step: where, what was done, and what it earned. It stays in memory."""
        study, episode = self.study, self._running()
        if step != len(episode.record) or step >= study.horizon:
            raise Refused(f"steps are recorded in order from 0 to {study.horizon - 1}: next is {len(episode.record)}")
        here = _place("state", state, study.states, study.state_labels)
        done = _place("action", action, study.actions, study.action_labels)
        if step == 0 and study.start is not None and here != study.start:
            raise Refused("episodes of this study begin in its declared start state: record where it began")
        if not episode.round.policy.plays(step, here, done):
            raise Refused(
                "the policy of this round does not take this action here, so a report of it cannot be counted: act as "
                "act(step, state) says, or abandon() the episode"
            )
        episode.record.append((here, done, _reward(reward, study.rewards)))

    def finish(self) -> float:
        """Make the report of the episode, durable before it is sent; returns the time when it leaves."""
        study, episode = self.study, self._running()
        if len(episode.record) < study.horizon and not study.early_end:
            raise Refused(
                f"the record has {len(episode.record)} of {study.horizon} steps, and this study has no early ends: "
                "record the rest, or abandon() the episode, which sends the empty record"
            )
        settled = self._store.settle(episode.id, self._body(episode))
        self._episode = None
        if not settled:
            raise Refused("the report of this episode has left already, as the empty record: its time had come")
        return episode.due

    def abandon(self) -> float:
        """Give the episode up: the empty record leaves at the time that was drawn, which is returned."""
        episode = self._running()
        self._episode = None
        return episode.due

    def send(self) -> int:
        """Send what is due, and return how many reports still wait for their time.

        After ``Unreachable`` call it again: the same bytes are sent, under the same id, and counted once.
        """
        left = 0
        for report in self._store.waiting(self._hash):
            if self._clock() < report.due or (self._at_once and self._is_running(report.id)):
                left += 1
                continue
            body = self._store.fix(report.id)
            if body is None:
                continue
            try:
                self._service.send(body, self._token)
            except Rejected:
                self._store.close(report.id, REJECTED)
                raise
            self._store.close(report.id, DONE)
        return left

    retry = send

    def _agreed_round(self) -> tuple[Round, Head]:
        """The round of the service with its head, chained to the last one that this device saw."""
        round_, head = self._service.round()
        last = self._store.head(self._hash)
        try:
            if last is not None:
                check_chain(last, head, self._service.heads, self._service.check_head)
        except SplitView as found:
            self._store.keep_evidence(self._hash, *found.evidence)
            raise
        self._store.keep_head(self._hash, head)
        return round_, head

    def _body(self, episode: _Episode) -> bytes:
        if self.study.model == "shuffle":
            return self._sealed_body(episode)
        report = report_of(self.study, episode.round, episode.steps, episode.record, self._tape)
        return canonical({"study": self._hash, "round": episode.round.number, "id": episode.id, "report": report})

    def _sealed_body(self, episode: _Episode) -> bytes:
        """For the shuffler: what was agreed to, and messages that only the coordinator can read."""
        study, round_ = self.study, episode.round
        messages = shuffled_messages(study, round_, episode.record, self._tape)
        return canonical(
            {
                "study": self._hash,
                "round": round_.number,
                "policy": episode.head["policy"],
                "head": digest(episode.head),
                "terms": round_.terms,
                "id": episode.id,
                "messages": sealed(messages, study.sealing, self._hash, round_.number),
            }
        )

    def _running(self) -> _Episode:
        if self._episode is None:
            raise Refused("no episode has begun: call begin() first")
        return self._episode

    def _is_running(self, id: str) -> bool:
        return self._episode is not None and self._episode.id == id


def _service(url: str | Service, agreed: str, signatures: bool, shuffler: str | None) -> Service:
    if isinstance(url, Service):
        return url
    digits = agreed.removeprefix("sha256:")
    if len(agreed) != 71 or len(digits) != 64 or set(digits) - set("0123456789abcdef"):
        raise Refused('study_hash must be "sha256:" and 64 hexadecimal digits: it stands on the invitation')
    second = None if shuffler is None else Connection(shuffler)
    return Service(Connection(url), agreed, signatures=signatures, shuffler=second)


def _used_up(study: Study) -> Refused:
    made = "the one report" if study.cap == 1 else f"the {study.cap} reports"
    return Refused(f"this device has made {made} that the study allows: it takes no further part")


def _place(what: str, value: int | str, count: int, labels: tuple[str, ...] | None) -> int:
    if isinstance(value, str):
        if labels is not None and value in labels:
            return labels.index(value)
    elif not isinstance(value, bool):
        try:
            place = index(value)
        except TypeError:
            place = -1
        if 0 <= place < count:
            return place
    known = f"a number in 0..{count - 1}" + (" or a label of the study" if labels else "")
    raise Refused(f"{what} must be {known}")


def _reward(reward: float, bounds: tuple[float, float]) -> float:
    low, high = bounds
    try:
        value = math.nan if isinstance(reward, bool | str) else float(reward)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not low <= value <= high:
        raise Refused(f"a reward must be a number from {low:g} to {high:g}, the range that the study declares")
    return value
