"""Every published algorithm with its constant as printed and as tuned, and what it promises.

A tuned constant is one number for all bandits and epsilons: the one with the least geometric mean of regret over the
tuning bandits (``python -m experiments.bandits --tune`` prints all of them). Which constant it is, the kernel says.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from discreet.base.types import Floats, Integers
from discreet.noise.calibration import calibrate_binomial
from experiments.bandits import central, distributed
from experiments.bandits.settings import DELTA, RUNS, USERS

Play = Callable[[Floats, float, float, int, Integers], None]


@dataclass(frozen=True)
class Comparator:
    """A published algorithm. ``play`` writes the arm of every user; ``printed`` and ``tuned`` are its constants."""

    name: str
    trust: str
    promise: str
    play: Play
    printed: float
    tuned: float
    grid: tuple[float, ...]
    play_tuned: Play | None = None  # where tuning changes more than the constant
    runs: int = RUNS
    constant: str = "factor of its logarithms"

    def played(self, version: str, means: Floats, epsilon: float, seed: int, arms: Integers) -> None:
        """One run of a version, "printed" or "tuned"."""
        if version == "printed":
            self.play(means, epsilon, self.printed, seed, arms)
        else:
            (self.play_tuned or self.play)(means, epsilon, self.tuned, seed, arms)

    def with_constant(self, c: float) -> Comparator:
        """The same with another tuned constant."""
        return Comparator(**{**self.__dict__, "tuned": c})


@lru_cache
def printed_deviations(epsilon: float) -> Floats:
    """The noise of Balcer and Cheu's binary sum, the same for every size of a batch."""
    return np.full(16, math.sqrt(50 * math.log(2 / DELTA)) / epsilon)


@lru_cache
def least_deviations(epsilon: float) -> Floats:
    """The least binomial noise that hides one bit in a batch of 2^b users, as the library certifies it."""
    bits = [calibrate_binomial(2**b, 1, 0, epsilon, DELTA) for b in range(int(math.log2(USERS)) + 2)]
    return np.array([math.sqrt(2**b * n.bits * n.probability * (1 - n.probability)) for b, n in enumerate(bits)])


def _sdp_ae(noise: Callable[[float], Floats]) -> Play:
    def play(means: Floats, epsilon: float, c: float, seed: int, arms: Integers) -> None:
        distributed.sdp_ae(means, noise(epsilon), c, seed, arms)

    return play


PURE, ONE_BIT = "pure ε", "(ε, 1e-5)"
_LOGS = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5)
_INDEX = (0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 1.5, 2.0)

_LN_T = "factor of ln t in its widths"
ALL: tuple[Comparator, ...] = (
    Comparator(
        "DP-UCB 2015", "central", PURE, central.dp_ucb, 1.0, 0.1, (0.001, 0.003, 0.01, 0.03, 0.1, 0.3),
        constant="factor of the width of its noise",
    ),
    Comparator("DP-SE 2019", "central", PURE, central.dp_se, 1.0, 0.03, _LOGS),
    Comparator("AdaP-UCB 2022", "central", PURE, central.adap_ucb, 3.1, 0.3, _INDEX, constant="α"),
    Comparator("AdaP-KLUCB 2022", "central", PURE, central.adap_klucb, 3.1, 0.3, _INDEX, constant="α"),
    Comparator(
        "Lazy-DP-TS 2022", "central", PURE, central.lazy_dp_ts, 3.0, 0.2, _INDEX, runs=25,
        constant="factor of ln t / (ε n) in its shift",
    ),
    Comparator(
        "DP-KLUCB 2025", "central", PURE, central.dp_klucb, 1.0, 0.5, _INDEX, constant="factor of ln t in its index"
    ),
    Comparator(
        "DP-IMED 2025", "central", PURE, central.dp_imed, 1.0, 0.7, _INDEX, constant="factor of ln n in its index"
    ),
    Comparator(
        "SDP-AE 2021", "shuffle", ONE_BIT, _sdp_ae(printed_deviations), 1.0, 0.05, _LOGS, _sdp_ae(least_deviations),
        constant="factor of its logarithms; the least noise when tuned",
    ),
    Comparator("Dist-DP-SE 2023", "shuffle", f"{PURE}, secure sum", distributed.dist_dp_se, 1.0, 0.1, _LOGS),
    Comparator("LDP-UCB-L 2020", "local", PURE, distributed.ldp_ucb_l, 2.0, 0.07, _INDEX, constant=_LN_T),
    Comparator("LDP-UCB-B 2020", "local", PURE, distributed.ldp_ucb_b, 2.0, 0.2, _INDEX, constant=_LN_T),
)  # fmt: skip


def of(trust: str) -> tuple[Comparator, ...]:
    """The algorithms of one trust model."""
    return tuple(one for one in ALL if one.trust == trust)


def described() -> dict[str, Any]:
    """The constants, for tables."""
    return {one.name: (one.printed, one.tuned, one.promise) for one in ALL}
