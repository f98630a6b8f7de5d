"""The page of errata, made from the entries: at which sizes each statement is quoted, and what is found there.

``ROWS`` are the sizes; everything else comes from the entries and their statements. The part of ``docs/errata.md``
between its two marks is what ``python -m discreet.papers.errata`` prints, and a test compares the two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from discreet.base.shape import Shape
from discreet.papers import entries
from discreet.papers.published_mechanism import Published, Setting
from discreet.papers.statements import BEYOND, FAILS, HOLDS

_TABULAR = Shape(6, 2, 20)
_LAYERED, _MANY_LAYERED = Shape(16, 3, 4), Shape(91, 5, 10)
_TWO = Shape(2, 2, 2, homogeneous=True)
_RIVER, _BANDIT = Shape(4, 2, 6), Shape(1, 20, 1)
_RANDOM, _LINEAR = Shape(5, 3, 5), Shape(2, 100, 20)

_TITLES = {
    FAILS: "Statements that do not hold as they stand",
    BEYOND: "Beyond what is proved",
    HOLDS: "Statements that hold",
}


class Row(NamedTuple):
    """A statement at some sizes, in the unit in which it is compared: epsilon, delta or rho."""

    name: str
    setting: Setting
    unit: str = "epsilon"

    @property
    def entry(self) -> Published:
        """The mechanism."""
        return entries()[self.name]


class Outcome(NamedTuple):
    """What is said and what is found, in words, and whether the statement holds there."""

    said: str
    found: str
    holds: bool


def _rows(names: str, *settings: Setting, unit: str = "epsilon") -> tuple[Row, ...]:
    return tuple(Row(f"published/{name}", setting, unit) for name in names.split() for setting in settings)


ROWS: tuple[Row, ...] = (
    *_rows(
        "heavy-tailed-central heavy-tailed-central-raw-counts heavy-tailed-local",
        Setting(_TABULAR, 20_000, 1.0),
    ),
    *_rows("adversarial-full-information", Setting(_LAYERED, 4_095, 1.0), Setting(_MANY_LAYERED, 4_095, 1.0)),
    *_rows(
        "adversarial-full-information-local adversarial-bandit adversarial-bandit-local",
        Setting(_LAYERED, 4_095, 1.0),
    ),
    *_rows("sdp-pe-split", Setting(_RIVER, 20_000, 0.9)),
    *_rows(
        "sdp-pe-integer-messages",
        Setting(_BANDIT, 20_000, 0.9, 1e-5),
        Setting(_BANDIT, 20_000, 1.0, 1e-5),
        Setting(_RIVER, 20_000, 0.9, 1e-5),
        Setting(_RIVER, 20_000, 1.0, 1e-5),
        unit="delta",
    ),
    *_rows(
        "ldp-obi-gaussian",
        Setting(_TWO, 20_000, 2.0, 0.1),
        Setting(_TWO, 20_000, 20.0, 0.1),
        Setting(_TWO, 20_000, 1.0, 1e-5),
        unit="delta",
    ),
    *_rows("ldp-obi-bounded", Setting(_TWO, 20_000, 2.0, 0.1), Setting(_TWO, 20_000, 20.0, 0.1), unit="delta"),
    *_rows("offline-vapvi-experiment", Setting(_LINEAR, 1_000, None, 1e-5, 1.0), unit="rho"),
    *_rows("ldp-obi-laplace ldp-obi-randomised-response ldp-psrl", Setting(_TWO, 20_000, 1.0)),
    *_rows("ldp-obi-gaussian-large", Setting(_TWO, 20_000, 1.0, 1e-5), Setting(_TWO, 20_000, 20.0, 0.1)),
    *_rows("ldp-shuffle-appendix", Setting(_TWO, 20_000, 1.0)),
    *_rows("ldp-shuffle-appendix-batch", Setting(_RIVER, 20_000, 1.0, 1e-5)),
    *_rows("offline-apvi", Setting(_RANDOM, 1_000, None, 1e-5, 1.0), unit="rho"),
    *_rows("offline-apvi-laplace", Setting(_RANDOM, 1_000, 1.0)),
    *_rows("offline-vapvi", Setting(_LINEAR, 1_000, None, 1e-5, 1.0), unit="rho"),
    *_rows("sdp-pe", Setting(_RIVER, 20_000, 0.9, 1e-5), Setting(_RIVER, 20_000, 1.0, 1e-5)),
)


def outcome(entry: Published, at: Setting, unit: str) -> Outcome:
    """What the paper says at these sizes, and what is found there.

    A loss that is reached is rounded down, a bound up, and what is exact to the nearest.
    """
    said = {"epsilon": at.epsilon, "delta": at.delta, "rho": at.rho}[unit]
    assert said is not None
    words = f"{'roughly ' if entry.roughly else ''}{unit} {said:g}"
    least = None if entry.reached is None else entry.reached(at)
    if entry.no_bound(at):
        assert least is not None
        return Outcome(words, f"{least.unit} at least {rounded(least.value, math.floor)}", least.value <= said)
    truth = entry.truth(at.shape, epsilon=at.epsilon, delta=at.delta, rho=at.rho, episodes=at.episodes)
    value = {"epsilon": truth.epsilon, "delta": truth.delta_at(at.epsilon or 0.0), "rho": truth.rho or math.inf}[unit]
    holds = value <= said * (1 + 1e-9)
    found = f"at most {rounded(value, math.ceil)}" if entry.bound else f"{value:.4g}"
    if least is not None and not holds:
        found = f"at least {rounded(least.value, math.floor)}, {found}"
    return Outcome(words, f"{unit} {found}", holds)


def rounded(value: float, toward: Callable[[float], int]) -> str:
    """Four digits, rounded up or down; what is a whole number of them but for rounding stays that."""
    if value == 0:
        return "0"
    digit = 10.0 ** (math.floor(math.log10(value)) - 3)
    nearest = round(value / digit)
    whole = nearest if abs(value / digit - nearest) < 1e-6 else toward(value / digit)
    return f"{whole * digit:.4g}"


def sizes(at: Setting) -> str:
    """The sizes and the target of a row, in the letters of the page."""
    shape, target = at.shape, f"rho={at.rho:g}" if at.rho is not None else f"eps={at.epsilon:g}"
    pooled = " pooled" if shape.homogeneous and shape.horizon > 1 else ""
    delta = f" delta={at.delta:g}" if at.delta and at.rho is None else ""
    return f"S={shape.states} A={shape.actions} H={shape.horizon}{pooled} K={at.episodes} {target}{delta}"


def page() -> str:
    """The part of the page that is made: a list of everything, then statement by statement."""
    return "\n".join((*_overview(), *_sections())) + "\n"


def _overview() -> Iterator[str]:
    yield "| mechanism | at | the paper says | we find | |"
    yield "|---|---|---|---|---|"
    for row in ROWS:
        said, found, holds = outcome(row.entry, row.setting, row.unit)
        anchor = row.name.replace("/", "")
        yield f"| [`{row.name}`](#{anchor}) | {sizes(row.setting)} | {said} | {found} | {_verdict(row, holds)} |"


def _verdict(row: Row, holds: bool) -> str:
    if row.entry.roughly and not holds:
        return "holds up to a constant"
    verdict, statement = "holds" if holds else "does not hold", row.entry.statement
    if statement.standing != BEYOND and not (row.setting.epsilon or 0.0) >= statement.below:
        return verdict
    return f"outside of what is proved; {verdict} there" + (", by our reading" if statement.reading else "")


def _sections() -> Iterator[str]:
    names = list(dict.fromkeys(row.name for row in ROWS))
    for standing, title in _TITLES.items():
        yield f"\n## {title}"
        for name in names:
            entry = entries()[name]
            if entry.statement.standing == standing:
                yield from _section(entry)


def _section(entry: Published) -> Iterator[str]:
    where, says, condition, computed, *_ = entry.statement
    yield f"\n### `{entry.name}`\n"
    yield f"- **Paper:** {entry.paper}; {where}."
    yield f"- **It says:** {says}."
    yield f"- **Condition:** {condition}."
    yield f"- **We find:** {entry.finding}."
    yield f"- **Computed:** {computed}."
    yield f"- **Enough would be:** {entry.corrected}."


if __name__ == "__main__":
    print(page(), end="")
