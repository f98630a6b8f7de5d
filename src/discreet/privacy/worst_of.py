"""The profile of a public choice between mechanisms: at every epsilon the largest delta of any of them.

If which mechanism runs is known to everybody and does not depend on the data, an adversary faces one of them, so the
pointwise maximum of their privacy profiles bounds what can be learned. It is attained where one of them is always the
worst. It cannot be composed further in general, because the worst choice may differ from release to release.
"""

from __future__ import annotations

from dataclasses import dataclass

from discreet.privacy.profiles import Profile


@dataclass(frozen=True)
class WorstOf:
    """The pointwise maximum of several profiles."""

    parts: tuple[Profile, ...]

    def delta(self, epsilon: float) -> float:
        return max(part.delta(epsilon) for part in self.parts)

    def epsilon(self, delta: float) -> float:
        return max(part.epsilon(delta) for part in self.parts)

    @property
    def rho(self) -> float:
        return max(part.rho for part in self.parts)
