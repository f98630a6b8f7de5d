"""What stands beside the numbers of a guarantee: the lines that it was derived by, and what a paper says.

Both are plain data, and neither promises anything: only the rules of :mod:`discreet.privacy.guarantee` turn lines into
a guarantee.
"""

from __future__ import annotations

from dataclasses import dataclass

from discreet.errors import InvalidInput
from discreet.validation import check_number


@dataclass(frozen=True)
class Claim:
    """What a paper says about a mechanism, where, and under which condition; kept beside what is true.

    ``roughly``: the paper says it up to a constant factor.
    """

    epsilon: float
    delta: float = 0.0
    source: str = ""
    condition: str = ""
    roughly: bool = False

    def __post_init__(self) -> None:
        if not (check_number("a claimed epsilon", self.epsilon) >= 0):
            raise InvalidInput(f"a claimed epsilon must be at least 0, got {self.epsilon!r}")
        if not 0 <= check_number("a claimed delta", self.delta) <= 1:
            raise InvalidInput(f"a claimed delta must lie in [0, 1], got {self.delta!r}")


@dataclass(frozen=True)
class Reason:
    """One line of a derivation and the lines that it rests on."""

    rule: str
    statement: str
    premises: tuple[Reason, ...] = ()

    def lines(self, depth: int = 0) -> list[str]:
        """This line and those below it, indented by depth."""
        own = f"{'   ' * depth}{'└─ ' if depth else ''}{self.rule}: {self.statement}"
        return [own] + [line for premise in self.premises for line in premise.lines(depth + 1)]
