"""What an audit puts on trial: a mechanism in one setting, with the promise it makes there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from discreet.audit.binomial_test import Charge, Pair
from discreet.shape import Shape


@dataclass(frozen=True)
class Setting:
    """Public inputs of a mechanism: everything that an audit may choose."""

    shape: Shape
    episodes: int
    epsilon: float | None = None
    delta: float = 0.0
    rho: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "states": self.shape.states,
            "actions": self.shape.actions,
            "horizon": self.shape.horizon,
            "homogeneous": self.shape.homogeneous,
            "episodes": self.episodes,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "rho": self.rho,
        }

    def describe(self) -> str:
        """In a few words."""
        time = "homogeneous" if self.shape.homogeneous else "per step"
        users = f"{self.episodes:,} episodes"
        return (
            f"{self.shape.states} states, {self.shape.actions} actions, horizon {self.shape.horizon} ({time}), {users}"
        )


@dataclass(frozen=True)
class Case:
    """A mechanism in a setting: two samplers, what was promised, and what is known about the truth.

    ``certified`` is the epsilon of the guarantee that the mechanism carries, ``exact`` the one computed here from its
    laws and from the worst pair that was found; either is None where nothing is known.
    """

    setting: Setting
    pair: Pair
    claimed: float
    delta: float
    certified: float | None
    exact: float | None
    compared: str

    def charge(self) -> Charge:
        return Charge(self.pair, self.claimed, self.delta)
