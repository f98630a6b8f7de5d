"""Accumulators inside the compiled episode loop: what the noise does between one user's release and the next."""

from __future__ import annotations

from typing import Any, NamedTuple

from discreet.compiled import dispatch
from discreet.noise.law import add_noise
from discreet.streams import Stream
from discreet.types import Floats


@dispatch
def advance(accumulator: Any, t: int, law: Any, cells: Floats, stream: Stream) -> None:
    """Turn the noise in ``cells`` from that of release t - 1 into that of release t (t counts from one)."""


@dispatch
def draws_at(accumulator: Any, t: int) -> int:
    """How many independent draws of noise each cell of release t carries."""
    raise NotImplementedError


class TotalArrays(NamedTuple):
    """Every user adds a draw of noise of her own."""

    per_user: int = 1


@advance.implement(TotalArrays)
def _advance_total(accumulator: TotalArrays, t: int, law: Any, cells: Floats, stream: Stream) -> None:
    add_noise(law, cells, stream)


@draws_at.implement(TotalArrays)
def _draws_total(accumulator: TotalArrays, t: int) -> int:
    return t
