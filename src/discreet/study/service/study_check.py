"""What a study will cost and bring, before anybody takes part: for its operator and for whoever has to approve it.

Nothing here sees data: the guarantee and the noise are computed, the rehearsal plays worlds of the same shape, and what
a device pays is measured with the device's own code on messages as the coordinator would send them.
"""

from __future__ import annotations

import json
import math
import secrets
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

from discreet.base.errors import Unsupported
from discreet.client.exact import Tape
from discreet.client.reports import pick, read_round, report_of, shuffled_messages
from discreet.client.sealing import sealed
from discreet.client.study import read_study as read_for_device
from discreet.mechanisms.deployable import check_shippable
from discreet.mechanisms.schedule import sizes
from discreet.mechanisms.sums.accumulator import SecureNoise
from discreet.recipes.calibrate import Calibration, calibrate
from discreet.recipes.registry import build
from discreet.simulation.rehearsal import rehearse
from discreet.study.service.study_mechanism import BY_DEVICES, Mechanism, needs_in_study, policy_message
from discreet.worlds.random_worlds import worlds_of_shape

_TRIES = 21
MOST_BYTES = 1 << 20  # that one report may cost a device, both ways
MOST_MILLISECONDS = 1000.0


@dataclass(frozen=True)
class DeviceCost:
    """What one report costs a device: requests, messages, bytes received and sent, milliseconds of work."""

    requests: int
    received: int
    sent: int
    milliseconds: float
    messages: int = 1  # of a shuffled study, each sealed by itself

    def check(self) -> None:
        """Refuse what is too much for a telephone."""
        if self.received + self.sent > MOST_BYTES:
            raise Unsupported(
                f"a report would cost a device {self.received + self.sent:,} bytes, and {MOST_BYTES:,} are possible: "
                "declare fewer states, actions or steps"
            )
        if self.milliseconds > MOST_MILLISECONDS:
            raise Unsupported(
                f"a report would cost a device {self.milliseconds:,.0f} milliseconds of work, and "
                f"{MOST_MILLISECONDS:,.0f} are possible: declare fewer states, actions or steps"
            )


def device_cost(mechanism: Mechanism) -> DeviceCost:
    """Measured with the device's own code, on the first policy of the study."""
    study = mechanism.study
    intake, state = mechanism.first(SecureNoise())
    request = mechanism.learner.ask(state)
    policy, users = request.policy, intake.users_for(request)
    described = {
        "study": dict(study.declaration),
        "hash": study.hash,
        "promise": mechanism.promise(),
        "report": mechanism.report_kind(),
    }
    answer: dict[str, Any] = {"study": study.hash, "round": 1, "policy": policy_message(policy), "head": _HEAD}
    if not study.sealed:
        answer |= {"laws": mechanism.laws(policy, users), "wanted": users}
    if mechanism.asks:
        answer["questions"] = mechanism.questions(intake.save().public, policy)
    device, times, report = read_for_device(described, study.hash), list[float](), dict[str, Any]()
    for _ in range(_TRIES):
        begun, tape = perf_counter(), Tape()
        round_ = read_round(answer, device)
        if study.shuffled:
            messages = shuffled_messages(device, round_, [], tape)
            report = {"messages": sealed(messages, device.sealing, study.hash, 1)}
        else:
            report = {"report": report_of(device, round_, pick(device, round_, tape), [], tape)}
        times.append(perf_counter() - begun)
    body = {"study": study.hash, "round": 1, "id": secrets.token_hex(16)} | report
    if study.shuffled:
        body |= dict.fromkeys(("policy", "head", "terms"), study.hash)
    received, number = len(json.dumps(described)) + len(json.dumps(answer)), len(report.get("messages", [None]))
    return DeviceCost(3, received, len(json.dumps(body)), 1000 * median(times), number)


def instead_of(mechanism: Mechanism) -> tuple[str, str] | None:
    """The recipe that "auto" would take for such rounds, and why it cannot be served, if it is not the one that is."""
    study, needs = mechanism.study, needs_in_study(mechanism.learner)
    if study.declaration["privacy"]["recipe"] != "auto":
        return None
    usual = build(study.target(), study.shape, study.total, needs)
    both = {usual.recipe, mechanism.privatizer.recipe}
    if len(both) == 1 or both <= BY_DEVICES:  # a study may score otherwise, because its records end early
        return None
    try:
        check_shippable(usual, study.most_reports, needs)
    except Unsupported as refusal:
        return usual.recipe, str(refusal)
    return usual.recipe, "it cannot be composed over the reports of one participant"


class Lateness(NamedTuple):
    """How many people have to take a policy, how many hours that takes, and which share of them reports too late."""

    people: float
    hours: float
    share: float


def lateness(mechanism: Mechanism, per_hour: float) -> Lateness | None:
    """What to expect where rounds take no late reports, if so many people an hour take a policy; None: they do.

    A device reports at a moment drawn from the window W. Of people who come at a rate r, r t^2 / (2 W) have reported t
    after their round has opened, as long as t < W, and r (t - W / 2) after it: the round closes when that is its size.
    Who has taken its policy by then and not reported is late. If people come as a Poisson process, the mean time until
    the n-th report of a round that is over within W is sqrt(2 W / r) Gamma(n + 1/2) / Gamma(n), and of a much longer
    one n / r + W / 2. Closings take no time.
    """
    study = mechanism.study
    if study.model == "local":
        return None
    window, rate = float(study.window), per_hour / 3600
    wanted = sizes(mechanism.privatizer.schedule, study.total)
    seconds = sum(
        math.sqrt(2 * window / rate) * math.exp(math.lgamma(n + 0.5) - math.lgamma(n))
        if 2 * n <= rate * window
        else n / rate + window / 2
        for n in wanted
    )
    return Lateness(rate * seconds, seconds / 3600, max(0.0, 1 - sum(wanted) / (rate * seconds)))


def noise_of(mechanism: Mechanism) -> Calibration:
    """The noise in what is released, as ``calibrate`` states it."""
    study = mechanism.study
    return calibrate(mechanism.privatizer, study.shape, learner=mechanism.learner, episodes=study.total)


def rehearsed(mechanism: Mechanism, runs: int, seed: int = 0) -> tuple[float, list[str]]:
    """Regret as a share of what uniform play would cost, in worlds of the study's shape; and their names."""
    study = mechanism.study
    privatizer = mechanism.privatizer
    target = study.target(privatizer.recipe)
    found = rehearse(
        study.shape, target, episodes=study.total, learners=[mechanism.learner], recipes=[privatizer.recipe],
        options={name: [value] for name, value in target.options.items()}, runs=runs, seed=seed,
    )  # fmt: skip
    return float(found.rows[0].mean), [world.name for world in worlds_of_shape(study.shape)]


_HEAD = {
    "study": "sha256:" + 64 * "0",
    "round": 1,
    "policy": "sha256:" + 64 * "0",
    "previous": "",
    "released": "",
    "key": 64 * "0",
    "signature": 128 * "0",
}
