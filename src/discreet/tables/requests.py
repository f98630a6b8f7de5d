"""What was asked for, as plain data with a hash: the same command has the same hash, and is paid for once.

``declaration_hash`` is about the data: which column is what, every domain, how much a user may contribute; neither the
place of the table nor anything in it. ``train_request`` is about everything that a release and what is learned from it
depend on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from typing import Any

import numpy as np

from discreet.base.types import Floats
from discreet.ledger.chain import digest
from discreet.ledger.spending import fingerprint
from discreet.mechanisms.session import Privatizer
from discreet.recipes.targets import Central
from discreet.tables.read.columns import Declaration
from discreet.tables.read.table import Table

_LATER = ("cap", "steps")  # declarations of 0.2.0 had none, and keep their hash


def declaration_hash(declaration: Declaration) -> str:
    """The SHA-256 of all that was declared about a table."""
    told = asdict(declaration) | ({} if declaration.missing == "row" else {"rows_that_differ": "missing"})
    return digest(as_plain({name: value for name, value in told.items() if name not in _LATER or value is not None}))


def train_request(
    data: Table, learner: Any, target: Central, privatizer: Privatizer, users: int, known: Floats | None
) -> dict[str, Any]:
    """Everything that a training run asks for: data, target, recipe with its noise, learner with its options."""
    return {
        "command": "train",
        "declaration": declaration_hash(data.declaration),
        "source": data.source.name,
        "users": users,
        "target": {"epsilon": target.epsilon, "delta": target.delta, "rho": target.rho},
        "recipe": privatizer.recipe,
        "recipe_options": as_plain(dict(target.options)),
        "mechanism": fingerprint(privatizer.guarantee),
        "learner": {"name": learner.name, **{f.name: as_plain(getattr(learner, f.name)) for f in fields(learner)}},
        "known_rewards": as_plain(known),
    }


def as_plain(value: Any) -> Any:
    """A value as plain data that JSON can write: arrays by their hash, anything unknown by its text."""
    if isinstance(value, np.ndarray):
        return {"shape": list(value.shape), "sha256": digest(np.ascontiguousarray(value, "<f8").tobytes())}
    if isinstance(value, Mapping):
        return {str(name): as_plain(each) for name, each in value.items()}
    if isinstance(value, str | bool | int | None):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {"kind": type(value).__name__, **as_plain(asdict(value))}
    if isinstance(value, Sequence):
        return [as_plain(each) for each in value]
    return str(value)
