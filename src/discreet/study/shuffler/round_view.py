"""Which round is open, and what its devices must send: by the coordinator's signed head, and by own computation.

The shuffler asks the coordinator for the policy of the open round, as a device does, and checks it as a device does:
study hash, signature, and that the chain of heads leads on from the last one that it saw. Two heads of one round are
kept as evidence. What each device of the batch sends (how many messages, about what, randomised by which laws) the
shuffler then computes itself from the declaration, the policy and the size of the batch. The *terms* are the hash of
these laws, that size and the kind of report: how many bits of a record can change with it depends on which bits are
asked for, and so does the noise that they need. A device says by which terms it has randomised, and only reports with
the terms that were computed here are taken. So whatever the coordinator tells devices, a batch that leaves the shuffler
has the noise that was promised.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from discreet.base.errors import InvalidInput
from discreet.client.errors import ClientError, Rejected
from discreet.client.heads import Head, SplitView, check_chain
from discreet.client.reports import Round
from discreet.client.transport import Asks, Service
from discreet.ledger.chain import canonical
from discreet.study.service.chain_heads import hashed
from discreet.study.service.study_mechanism import Mechanism, policy_from
from discreet.study.service.wire_messages import Refused
from discreet.study.shuffler.shuffler_database import RoundView


class Ended(NamedTuple):
    """The coordinator says that the study has ended."""

    why: str


class Coordinator(Service):
    """The coordinator as the shuffler knows it: a service whose answer about a policy is kept as it came."""

    def __init__(self, connection: Asks, agreed: str) -> None:
        super().__init__(connection, agreed)
        self.answer: dict[str, Any] = {}

    def understand(self, answer: dict[str, Any]) -> tuple[Round, Head]:
        """The round and its head, checked as a device checks them."""
        understood = super().understand(answer)
        self.answer = answer
        return understood


def look(coordinator: Coordinator, mechanism: Mechanism, last: RoundView | None) -> RoundView | Ended:
    """The open round, with the terms that its devices must have; :class:`SplitView` is for the caller to keep."""
    try:
        _round, head = coordinator.round()
        if last is not None:
            check_chain(json.loads(last.signed), head, coordinator.heads, coordinator.check_head)
    except Rejected as refused:
        if refused.code == "ended":
            return Ended(refused.reason)
        raise Refused("busy", "the coordinator does not say which round is open: send the same again later") from None
    except SplitView:
        raise
    except ClientError as problem:
        raise Refused("busy", f"the coordinator cannot be followed ({_brief(problem)}): send the same later") from None
    return view_of(coordinator.answer, head, mechanism)


def view_of(answer: dict[str, Any], head: Head, mechanism: Mechanism) -> RoundView:
    """What the devices of a round must send; refused if the coordinator asks for anything else."""
    users = answer.get("wanted")
    if type(users) is not int or not 1 <= users <= mechanism.largest_batch:
        raise InvalidInput(
            f"the coordinator wants a batch of no users, or of more than {mechanism.largest_batch:,}, which is the "
            "largest that the schedule of this study has: nothing is taken"
        )
    policy = policy_from(answer["policy"])
    laws = mechanism.laws(policy, users)
    if answer.get("laws") != laws:
        raise InvalidInput(
            f"the coordinator tells devices of round {head['round']} to randomise by other laws than those that are "
            "certified for this batch: no report of it is taken; run the same version of discreet on both sides"
        )
    messages = mechanism.terms(policy, users).messages
    terms = terms_of(mechanism, laws, users)
    return RoundView(head["round"], head["policy"], hashed(head), terms, users, messages, canonical(head))


def terms_of(mechanism: Mechanism, laws: list[dict[str, Any]], users: int) -> str:
    """The hash of everything that the privacy of a batch rests on, and that devices are told by the coordinator."""
    return hashed({"laws": laws, "users": users, "report": hashed(mechanism.report_kind())})


def _brief(problem: ClientError) -> str:
    return type(problem).__name__.lower()
