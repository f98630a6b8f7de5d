"""What stands beside the numbers of a guarantee: the lines that it was derived by, and what a paper says.

A line is for people, its *facts* are the same for programs: laws, scales and shifts as exact numbers, from which a
certificate is made (:mod:`discreet.privacy.certificate`). All of it is plain data, and nothing here promises anything:
only the rules of :mod:`discreet.privacy.guarantee` turn lines into a guarantee.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from discreet.base.errors import InvalidInput
from discreet.base.validation import check_number


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


Fact: TypeAlias = "str | int | bool | tuple[Fact, ...] | Facts | None"


@dataclass(frozen=True)
class Facts:
    """What a line says, for programs: a kind and named entries, numbers exact (whole, or as text)."""

    kind: str
    entries: tuple[tuple[str, Fact], ...] = ()


@dataclass(frozen=True)
class Reason:
    """One line of a derivation, the lines that it rests on, and its facts; a line that only comments has none."""

    rule: str
    statement: str
    premises: tuple[Reason, ...] = ()
    facts: Facts | None = None

    def lines(self, depth: int = 0) -> list[str]:
        """This line and those below it, indented by depth."""
        own = f"{'   ' * depth}{'└─ ' if depth else ''}{self.rule}: {self.statement}"
        return [own] + [line for premise in self.premises for line in premise.lines(depth + 1)]
