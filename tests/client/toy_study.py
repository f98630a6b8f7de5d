"""A small study as a service would serve it: declarations, policies, laws and signed heads made by hand for tests."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

from discreet.client.exact import WHOLE, Tape
from discreet.client.laws import Law, keeps
from discreet.client.policy import reaches, read_policy
from discreet.client.questions import questions_of
from discreet.client.study import Study, read_study
from discreet.client.words import canonical, digest
from discreet.noise import KaryRandomizedResponse, UnaryEncoding

LAWS = {"kary": KaryRandomizedResponse, "unary": UnaryEncoding}
NO_KEY = 64 * "0"


def declaration(
    states: Any = 3,
    actions: Any = 2,
    horizon: int = 4,
    *,
    start: int | str | None = 0,
    rewards: tuple[float, float] = (0.0, 1.0),
    early_end: bool = False,
    model: str = "local",
    epsilon: float = 2.0,
    cap: int = 1,
    window: str = "1h",
    key: str = NO_KEY,
) -> dict[str, Any]:
    """A declaration with the fields that a device reads, and some that it does not."""
    problem = {"states": states, "actions": actions, "horizon": horizon, "homogeneous": True, "early_end": early_end}
    return {
        "format": 1,
        "name": "toy",
        "title": "A toy",
        "about": "",
        "problem": problem | {"rewards": list(rewards)} | ({} if start is None else {"start": start}),
        "privacy": {"model": model, "epsilon": epsilon, "delta": 0.0, "recipe": "auto", "options": {}},
        "users": {"number": 100, "reports_per_user": cap, "tokens": False},
        "learner": {"name": "ucbvi", "options": {}, "seed": 1},
        "reporting": {"window": window},
        "keys": {"signing": key},
    }


def study_answer(
    declared: dict[str, Any], response: str = "kary", steps: int = 1, masked: bool = True, asked: bool = False
) -> Any:
    """What ``GET /v1/study`` answers; ``asked``: about first visits, and not about steps."""
    report: dict[str, Any] = {"kind": "record"}
    if declared["privacy"]["model"] == "local":
        epsilon = declared["privacy"]["epsilon"] / declared["users"]["reports_per_user"]
        early = declared["problem"]["early_end"]
        report = {"kind": "sampled-items", "steps": steps, "response": response, "masked": masked, "early_end": early}
        if asked:
            report = {"kind": "asked-first-visit", "response": response, "masked": masked}
        report["epsilon"] = epsilon
    return {"study": declared, "hash": digest(declared), "promise": {}, "report": report}


def read(answer: Any) -> Study:
    """The study of an answer, agreed to."""
    return read_study(answer, digest(answer["study"]))


def random_policy(study: Study, source: random.Random, stochastic: bool = False) -> dict[str, Any]:
    """A policy as the service states it."""
    H, S, A = range(study.horizon), range(study.states), range(study.actions)
    if not stochastic:
        return {"kind": "deterministic", "actions": [[source.randrange(study.actions) for _ in S] for _ in H]}
    rows = [[[source.choice((0, 1, 2)) for _ in A] for _ in S] for _ in H]
    table = [
        [[p / sum(row) if sum(row) else float(a == 0) for a, p in enumerate(row)] for row in step] for step in rows
    ]
    return {"kind": "stochastic", "probabilities": table}


def policy_answer(study: Study, policy: dict[str, Any], number: int = 0) -> Any:
    """What ``GET /v1/policy`` answers, with a head that nobody has signed."""
    answer = {"study": study.hash, "round": number, "policy": policy, "head": head(study, policy, number)}
    if study.kind.name == "sampled-items":
        known = read_policy(policy, study)
        part, law = study.epsilon / study.cap / study.kind.steps, LAWS[study.kind.response]
        sizes = [question.size for question in questions_of(study, known)]
        answer["laws"] = [{"items": size, "lie": str(law(part, size).threshold)} for size in sizes]
    if study.kind.name == "asked-first-visit":
        known, part = read_policy(policy, study), study.epsilon / study.cap
        laws = (LAWS[study.kind.response](part, study.states + 1), LAWS["kary"](part, 3))
        answer["laws"] = [{"items": law.items, "lie": str(law.threshold)} for law in laws]
        rows = [divmod(row, study.actions) for row in range(study.states * study.actions)]
        asked = [not study.kind.masked or reaches(study, known, *row) for row in rows]
        answer["questions"] = [(1 + 7 * row % 5) * may for row, may in enumerate(asked)]
    return answer


def least_threshold(items: int, response: str, most: Fraction) -> int:
    """The smallest threshold that keeps this part of epsilon."""
    refused, kept = 0, WHOLE // (items if response == "kary" else 2)
    while kept - refused > 1:
        middle = (kept + refused) // 2
        if keeps(Law(items, middle), response, most):
            kept = middle
        else:
            refused = middle
    return kept


def head(study: Study, policy: Any, number: int, previous: str = "", key: Any = None) -> dict[str, Any]:
    """A head, signed if there is a private key."""
    body = {"study": study.hash, "round": number, "policy": digest(policy), "previous": previous, "released": ""}
    body["key"] = study.key
    return body | {"signature": "" if key is None else key.sign(canonical(body)).hex()}


def random_record(study: Study, policy: dict[str, Any], source: random.Random, length: int) -> list[Any]:
    """A record under the policy."""
    known, tape = read_policy(policy, study), Tape(source.randbytes)
    low, high = study.rewards
    record, state = [], study.start if study.start is not None else source.randrange(study.states)
    for h in range(length):
        reward = source.choice((low, high, low + (high - low) * source.random()))
        record.append((state, known.draw(h, state, tape), min(reward, high)))
        state = source.randrange(study.states)
    return record
