"""Adding noise in compiled loops: one dispatched kernel, implemented beside every law.

``add_noise(law, out, state)`` adds a fresh draw to every entry of ``out``. Word i of a fill is mix(state + i * golden
ratio), which does not depend on the words before it, so the loops vectorise; drawing one by one gives the same words.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from discreet.compiled import dispatch, inlined
from discreet.streams import Stream, mix, to_unit
from discreet.types import Floats, Integers

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dispatch
def add_noise(law: Any, out: Floats, state: Stream) -> None:
    """Add one independent draw of ``law`` to every entry of ``out``, in place."""


@dispatch
def exchange_noise(
    law: Any, base: Floats, old: Floats, new: Floats,
    cells: Floats, state: Stream,
) -> None:  # fmt: skip
    """Let ``new`` be ``base`` plus one draw per entry, and carry ``new`` in ``cells`` instead of ``old``."""


@exchange_noise.implement(object)
def _exchange_in_three_passes(
    law: Any, base: Floats, old: Floats, new: Floats,
    cells: Floats, state: Stream,
) -> None:  # fmt: skip
    for i in range(cells.shape[0]):
        new[i] = base[i]
    add_noise(law, new, state)
    for i in range(cells.shape[0]):
        cells[i] += new[i] - old[i]


@inlined
def word_at(base: np.uint64, i: int) -> np.uint64:
    """Word i = 0, 1, ... of a fill that starts from the state ``base``."""
    return mix(base + np.uint64(i + 1) * GOLDEN)  # type: ignore[no-any-return]


@inlined
def advance(state: Stream, words: int) -> None:
    """Move a stream past ``words`` words."""
    state[0] += np.uint64(words) * GOLDEN


class TableKernel(NamedTuple):
    """A law on lowest, lowest + 1, ...: its distribution function, and where to start looking in it."""

    cumulative: Floats
    guide: Integers
    lowest: float


def table_kernel(pmf: Floats, lowest: float) -> TableKernel:
    """The kernel of a law given by its probabilities."""
    cumulative = np.cumsum(pmf)
    cumulative[-1] = 1.0
    guide = np.searchsorted(cumulative, np.arange(len(pmf)) / len(pmf), side="right")
    return TableKernel(cumulative, guide.astype(np.int64), float(lowest))


@add_noise.implement(TableKernel)
def _add_from_table(law: TableKernel, out: Floats, state: Stream) -> None:
    """Inverse distribution function by table; the guide says where to start the scan, so it takes about one step."""
    base = state[0]
    entries = law.guide.shape[0]
    for i in range(out.shape[0]):
        u = to_unit(word_at(base, i))
        k = law.guide[np.int64(u * entries)]
        while u >= law.cumulative[k]:
            k += 1
        out[i] += law.lowest + k
    advance(state, out.shape[0])
