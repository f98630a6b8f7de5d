"""A privacy receipt: everything an outsider needs to check a release, and nothing that the release did not pay for.

It holds the guarantee with its derivation, a certificate from which others can compute it anew (``discreet verify``),
the sensitivity and the law of every noisy table, the contribution bounds and repair rules that were applied, versions,
and the hash of the policy. It holds no count of clipped or dropped rows:
that would be a release of its own.

==================  ========================================================================================
key                 what it holds
==================  ========================================================================================
``guarantee``       the promise, its derivation, the epsilon that goes with other deltas, and P(loss > epsilon)
``mechanisms``      of every noisy statistic: what one user moves in it, and the law that hides that
``budget``          zero-concentrated parameters, where there are some
``data``            name of the data set, hash of its declaration, the column that says who a user is
``declared``        the public inputs
``repairs``         what was done to every user's rows
``noise``           which sampler drew it, from which entropy
``ledger``          None, or what was spent before, by this release, and what is left (``Paid.facts``)
``adds_up``         None, or without a ledger: that this adds to other releases, and what the split knows of them
``evaluation``      None, or ``value``, ``behaviour`` and ``difference``, each with ``estimate``, ``low``, ``high``
                    and ``confidence`` in the owner's units, and the words ``unit`` and ``verdict``
``values``          what the policy is worth by the planner: ``estimate`` and ``bound``, apart, and what each means
``certificate``     what ``discreet verify`` computes the promise from, and compares the rest with
``signature``       in a file: the owner's key and her signature of all that (:mod:`discreet.ledger.keys`)
==================  ========================================================================================

Derivation and mechanisms are the certificate in words, written by :mod:`discreet.checker`, so that whoever checks a
receipt needs nothing else of this library. A new entry needs a place there, and a new version if its meaning changes.

:mod:`discreet.tables.receipt_page` makes a page of it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from discreet import checker
from discreet.base.errors import InvalidInput
from discreet.base.files import as_path, check_writable, shortened, write_atomically
from discreet.base.packages import installed
from discreet.base.policies import AnyPolicy, Mixture, Policy, StochasticPolicy
from discreet.base.shape import Shape
from discreet.base.types import Floats, Mask
from discreet.learners.apvi import APVI
from discreet.ledger.keys import signed, signing_key
from discreet.mechanisms.counts.joint_histogram import as_counted
from discreet.mechanisms.session import Privatizer
from discreet.mechanisms.sparse import SparseChannel
from discreet.noise.exact_sampler import OPENDP, OWN
from discreet.privacy.guarantee import Guarantee, finite_or_none
from discreet.privacy.odds import exceeded
from discreet.privacy.sensitivity import Sensitivity
from discreet.tables.evaluation.return_bounds import Limits
from discreet.tables.read.columns import MISSING, Declaration
from discreet.tables.read.table import Table
from discreet.tables.receipt_page import page

_DELTAS = (1e-3, 1e-5, 1e-7, 1e-9)
_SAMPLERS: dict[str, str] = {OWN: "discreet", OPENDP: "OpenDP"}
_PACKAGES = ("numpy", "scipy", "opendp", "duckdb", "ibis-framework", "pyspark")


def repairs(declaration: Declaration, *, levels: int | None = 2, first_visit: bool = False) -> tuple[str, ...]:
    """The rules that this release applied to every user's rows: those of :mod:`discreet.tables.read.query`, as
    declared.

    ``levels`` is how many values a reward is rounded to, None where rewards are not released.
    """
    columns, m = declaration.columns, declaration.per_user
    episodes, told = columns.episode is not None, columns.next_state is not None
    keys = [
        *(["user"] if columns.user is not None else []),
        *(["episode"] if episodes else []),
        *(["step"] if columns.step is not None else []),
    ]
    values = ["state", "action", *(["reward"] if columns.reward else []), *(["next state"] if told else [])]
    nobody = (
        f"rows without user{' or episode' if episodes else ''}, or with" if columns.user is not None else "rows with"
    )
    rules = [f"{nobody} step, state or action outside the declared domain, are dropped"]
    if told:
        rules.append("rows with a next state outside the declared domain are dropped")
    if episodes:
        kept = (
            "episode with the smallest identifier is" if m == 1 else f"{m} episodes with the smallest identifiers are"
        )
        rules.append(f"of a user's episodes the {kept} kept")
    if columns.user is None:
        rules.append("every row counts as one user")
    elif declaration.cap is not None:
        rules.append(f"every row is a trajectory, and at most {m} of a user's are kept, drawn by lot")
    elif declaration.missing == "row":
        rules.append(f"of several rows for one {_listed(keys)} the one with the smallest {_listed(values)} is kept")
    else:
        rules.append(
            f"several rows for one {_listed(keys)} with the same {_listed(values)} are one; none that differ is valid"
        )
    if columns.reward is not None and levels is not None:
        rules.append(
            f"rewards are clipped to the declared range, {declaration.without_reward()}, and rewards are "
            f"rounded at random, without bias, to {levels} levels"
        )
    rules.append(MISSING[declaration.missing])
    rules += _SUCCESSORS[told] if declaration.missing == "row" else _RECORDS[told]
    if declaration.counted_steps < declaration.shape.horizon:
        rules.append(
            "rows at the last step of the horizon are not counted: where steps are pooled nothing tells an end there "
            "from the horizon"
        )
    if first_visit:
        rules.append("of a user's rows with one state and action the first is counted")
    return tuple(rules)


_FOLLOWING = (
    "counts with the state of the next step; it is dropped if that is missing but a later one is there, and is an end "
    "if nothing follows"
)
_RECORDS = {
    False: ["a row counts with the state of the next step, and the last one of a record is an end"],
    True: [
        "a row counts with the next state that it gives, even if the next row says otherwise, and with the state of "
        "the next step if it gives none; the last one of a record is an end",
    ],
}
_SUCCESSORS = {
    False: [f"a row {_FOLLOWING}"],
    True: [
        "a row counts with the next state that it gives, even if the next row says otherwise",
        f"a row that gives no next state {_FOLLOWING}",
        "a row at the last step of the horizon is an end, whatever next state it gives",
    ],
}


def _listed(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if words[1:] else words)


_SUM = "the average sum of rewards that users who follow the policy collect"


class Worth(NamedTuple):
    """What is said of a policy without judges, in the owner's units: an estimate, and a lower bound if there is one."""

    values: Floats  # (H + 1, S): estimates, by step and state
    bound: Floats | None  # (H + 1, S)
    average: float | None  # of the values, over first states, where these are known
    certain: float | None  # a bound for the average over first states
    missing: str  # why there is no bound; empty if there is one
    estimate: str  # what kind of estimate the values are


def why_no_bound(learner: Any, shape: Shape, privatizer: Privatizer, per_user: int) -> str:
    """Why no lower bound is proved for what this learner makes of such a release; empty where one is."""
    if not isinstance(learner, APVI):
        return f"none is proved for learner {learner.name}"
    if any(isinstance(channel, SparseChannel) for channel in privatizer.channels):
        return "none is proved for a sparse release, which hides what is rare"
    first = all(as_counted(channel.encoder).first_visit for channel in privatizer.channels)
    if not first and ((shape.homogeneous and shape.horizon > 1) or per_user > 1):
        return "none is proved where one user is counted several times for one state and action"
    return ""


def value_facts(worth: Worth, limits: Limits, failure_probability: float, kept: Mask | None) -> dict[str, Any]:
    """What the stated values are: unit, estimate and lower bound, each by itself and in words."""
    first = worth.values[0]
    facts: dict[str, Any] = {
        "unit": "the declared rewards; steps after the end of an episode are worth 0",
        "meaning": f"{worth.estimate} of {_SUM}, from a state at a step to the end; it may be too high or too low",
        "estimate": worth.average,
        "estimate_by_first_state": [float(first.min()), float(first.max())],
        "bound": worth.certain,
        "bound_by_first_state": None,
        "bound_meaning": f"no lower bound: {worth.missing}",
        "possible": [float(limits.worst[0]), float(limits.best[0])],
        "as_users_did": None if kept is None else {"situations": int(kept.sum()), "of": int(kept.size)},
    }
    if worth.bound is not None:
        at_least = worth.bound[0]
        facts["bound_by_first_state"] = [float(at_least.min()), float(at_least.max())]
        facts["bound_meaning"] = (
            f"a lower bound on {_SUM}; the bounds of all states and steps hold at once with probability "
            f"{1 - failure_probability:g} over users and noise, if users are independent and what happens next depends "
            "on state and action (and the step, where steps are counted apart) alone"
        )
    return facts


def _rules(data: Table, privatizer: Privatizer, rewards: bool) -> tuple[str, ...]:
    """What was done to every user's rows before they were counted."""
    encoders = [as_counted(channel.encoder) for channel in privatizer.channels]
    levels = max(encoder.reward_levels for encoder in encoders) if rewards else None
    return repairs(data.declaration, levels=levels, first_visit=any(encoder.first_visit for encoder in encoders))


def training_facts(
    data: Table, learner: Any, privatizer: Privatizer, guarantee: Guarantee, policy: AnyPolicy, users: int,
    rewards: bool,
) -> dict[str, Any]:  # fmt: skip
    """What a receipt says of a release and of the policy that was learned from it."""
    shape, declaration = data.shape, data.declaration
    knobs = {knob.name: getattr(learner, knob.name) for knob in fields(learner)}
    promise = guarantee_facts(guarantee)
    certificate = guarantee.certificate()
    mechanisms = checker.mechanisms(certificate)
    return {
        "format": checker.RECEIPTS[0],
        "version": checker.RECEIPT_VERSION,
        "guarantee": promise,
        "certificate": certificate,
        "recipe": privatizer.recipe,
        "mechanisms": mechanisms,
        "budget": {"rho": promise["rho"], "parts": [part["rho"] for part in mechanisms]},
        "declared": {
            "users": users,
            "states": shape.states,
            "actions": shape.actions,
            "horizon": shape.horizon,
            "rewards": list(shape.rewards),
            "trajectories_per_user": declaration.per_user,
            "homogeneous": shape.homogeneous,
            "cap": declaration.cap,
            "event_level": declaration.columns.user is None,
            "first_step": None if declaration.dates or declaration.steps else declaration.first_step,
            "steps": declaration.step_words(),
            "early_end": declaration.early_end,
            "missing_reward": declaration.missing_reward,
            "missing": declaration.missing,
            "state_labels": _labels(declaration.state_labels),
            "action_labels": _labels(declaration.action_labels),
            "public": list(guarantee.public),
        },
        "repairs": list(_rules(data, privatizer, rewards)),
        "learner": {"name": learner.name, **{name: _plain(value) for name, value in knobs.items()}},
        "policy": {"sha256": policy_hash(policy), "horizon": policy.horizon, "states": policy.states},
    }


def _labels(labels: tuple[str, ...] | None) -> list[str] | None:
    return None if labels is None else list(labels)


def _plain(value: Any) -> Any:
    """A knob as plain data: tables by their shape."""
    return value if isinstance(value, bool | int | float | str | None) else f"table of shape {np.shape(value)}"


def law_facts(law: Any) -> dict[str, Any]:
    """A law by name and parameters: enough to compute its privacy loss anew."""
    return {"name": type(law).__name__, **{field.name: getattr(law, field.name) for field in fields(law)}}


def mechanism_facts(name: str, cells: int, sensitivity: Sensitivity, law: Any) -> dict[str, Any]:
    """One noisy statistic: what one user moves in it, and the noise that hides that."""
    rho = getattr(law.profile(sensitivity), "rho", None)
    return {
        "statistic": name,
        "cells": cells,
        "sensitivity": {
            "l1": sensitivity.l1,
            "l2": sensitivity.l2,
            "linf": sensitivity.linf,
            "worst_shift": None
            if sensitivity.shifts is None
            else [{"by": by, "cells_up": up, "cells_down": down} for by, up, down in sensitivity.shifts],
        },
        "law": law_facts(law),
        "rho": finite_or_none(rho),
    }


def policy_hash(policy: AnyPolicy) -> str:
    """The SHA-256 of the policy: kind, shapes and little-endian bytes of its tables; labels and columns if it has any.

    Args:
        policy: Any policy.

    Examples:
        >>> import discreet
        >>> discreet.offline.policy_hash(discreet.Policy([[1, 0]]))[:12]
        '10bdf8783bc1'
    """
    match policy:
        case Policy(actions):
            kind, arrays = "deterministic", [actions.astype("<i8")]
        case StochasticPolicy(probabilities):
            kind, arrays = "stochastic", [probabilities.astype("<f8")]
        case Mixture(components, weights):
            kind, arrays = "mixture", [component.actions.astype("<i8") for component in components]
            arrays.append(weights.astype("<f8"))
    digest = hashlib.sha256(kind.encode())
    for array in arrays:
        digest.update(str(array.shape).encode() + array.tobytes())
    if policy.state_labels is not None or policy.action_labels is not None:
        digest.update(json.dumps([policy.state_labels, policy.action_labels]).encode())
    if policy.columns is not None:
        digest.update(json.dumps(policy.columns, sort_keys=True).encode())
    return digest.hexdigest()


def guarantee_facts(guarantee: Guarantee) -> dict[str, Any]:
    """The guarantee, the epsilon that goes with other deltas, and P(loss > epsilon) at most beside each."""
    pairs = [(delta, finite_or_none(guarantee.epsilon_at(delta))) for delta in _DELTAS]
    curve = [{"delta": delta, "epsilon": e, "exceeded": _exceeded(guarantee, e, delta)} for delta, e in pairs]
    stated = _exceeded(guarantee, finite_or_none(guarantee.epsilon), guarantee.delta)
    facts = {name: value for name, value in guarantee.as_dict().items() if name != "claimed"}  # papers say that
    certificate = guarantee.certificate()
    facts |= {"derivation": checker.derivation(certificate), "statement": guarantee.statement(), "exceeded": stated}
    return checker.confirmed(certificate, {**facts, "epsilon_at": curve})


def _exceeded(guarantee: Guarantee, epsilon: float | None, delta: float) -> float | None:
    if epsilon is None:
        return None
    return exceeded(guarantee.profile, epsilon) if delta else 0.0


def judgement_facts(judged: Mapping[str, Any], mechanisms: Sequence[Any]) -> dict[str, Any]:
    """A judgement as a receipt tells it: its noise as the receipt lists it, and no promise of its own."""
    own = list(mechanisms[len(mechanisms) - len(judged["mechanisms"]) :])
    return {name: value for name, value in judged.items() if name != "statement"} | {"mechanisms": own}


def noise_facts(used: Collection[str]) -> str:
    """Where the noise came from, and whose samplers drew it."""
    names = " and ".join(_SAMPLERS[name] for name in sorted(used)) or "nobody"
    return f"operating system entropy, exact samplers of {names}"


def versions() -> dict[str, str]:
    """What the release was made with."""
    return installed(_PACKAGES)


def write_receipt(
    path: str | os.PathLike[str], facts: Mapping[str, Any], key: str | os.PathLike[str] | None = None
) -> None:
    """Write a receipt as JSON, or as a page to read (.html), signed by a key or by the owner's own."""
    file = check_writable(checked_name(path))
    write_atomically(file, receipt_text(signed_facts(facts, signing_key(key)), file.suffix))


def signed_facts(facts: Mapping[str, Any], key: Any) -> Mapping[str, Any]:
    """A receipt with the signature of all of it; as it is where there is no key."""
    return facts if key is None else signed(facts, key)


def checked_name(path: str | os.PathLike[str]) -> Path:
    """The path of a receipt, whose name says its form."""
    file = as_path(path)
    if file.suffix not in (".json", ".html"):
        raise InvalidInput(f"receipts end in .json or .html, got {shortened(file.name)}")
    return file


def receipt_text(facts: Mapping[str, Any], suffix: str) -> str:
    """A receipt as JSON, or as a page to read."""
    return page(facts) if suffix == ".html" else json.dumps(facts, indent=1, allow_nan=False) + "\n"
