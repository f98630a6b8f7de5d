"""Noise for real releases, drawn by all cores, because exact draws from the operating system take their time."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from discreet.errors import InvalidInput
from discreet.types import Floats

_AT_ONCE = 4096  # cells per piece of work: enough to keep a core busy, few enough to show progress


class ThreadedSecureNoise:
    """Noise from the operating system's entropy. There is no seed to give; sampling holds no lock."""

    simulated = False

    def __init__(self, seed: object = None, tick: Callable[[int], None] = lambda _cells: None) -> None:
        if seed is not None:
            raise InvalidInput("a real release takes no seed: noise that can be replayed can be subtracted")
        self._tick = tick

    def draw(self, law: Any, copies: int, size: int) -> Floats:
        pieces = [min(_AT_ONCE, size - first) for first in range(0, size, _AT_ONCE)]

        def one(cells: int) -> Floats:
            drawn = sum(np.asarray(law.secure(cells), np.float64) for _ in range(copies))
            self._tick(cells)
            return np.asarray(drawn, np.float64)

        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            return np.concatenate([np.zeros(0), *pool.map(one, pieces)])
