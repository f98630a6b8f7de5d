"""Which visits of a user are her first: the bookkeeping of encoders that count no others.

One entry per (state, action) holds the number of the last user who was there, and one more entry the number of the user
who is being encoded. Nothing has to be cleared between users.
"""

from __future__ import annotations

import numpy as np

from discreet.compiled import inlined
from discreet.errors import Unsupported
from discreet.shape import Shape
from discreet.types import Integers

Seen = Integers


def nobody_seen(pairs: int) -> Seen:
    """Before the first user."""
    return np.zeros(pairs + 1, np.int64)


@inlined
def next_user(seen: Seen) -> int:
    """Begin with another user; her number."""
    seen[-1] += 1
    return seen[-1]  # type: ignore[no-any-return]


@inlined
def is_first_visit(seen: Seen, pair: int, user: int) -> bool:
    """Whether this user has not been here before; from now on she has."""
    first: bool = seen[pair] != user
    seen[pair] = user
    return first


def check_homogeneous(shape: Shape) -> None:
    """First visits over all steps say something about a world that is the same at every step."""
    if not shape.homogeneous:
        raise Unsupported(
            "first-visit counts need a world that is declared time-homogeneous: "
            "declare it, or use the joint-histogram encoder"
        )
