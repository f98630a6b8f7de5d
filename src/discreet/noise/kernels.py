"""Adding noise in compiled loops: one dispatched kernel, implemented beside every law.

``add_noise(law, out, state)`` adds a fresh draw to every entry of ``out``. Word i of a fill is mix(state + i * golden
ratio), which does not depend on the words before it, so the loops vectorise; drawing one by one gives the same words.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.compiled import dispatch, kernel
from discreet.streams import Stream, mix

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dispatch
def add_noise(law: Any, out: NDArray[np.float64], state: Stream) -> None:
    """Add one independent draw of ``law`` to every entry of ``out``, in place."""


@kernel
def word_at(base: np.uint64, i: int) -> np.uint64:
    """Word i = 0, 1, ... of a fill that starts from the state ``base``."""
    return mix(base + np.uint64(i + 1) * GOLDEN)  # type: ignore[no-any-return]


@kernel
def advance(state: Stream, words: int) -> None:
    """Move a stream past ``words`` words."""
    state[0] += np.uint64(words) * GOLDEN
