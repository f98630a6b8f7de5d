"""Statements that need more than regret curves: a page of verdicts from a function that returns them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from discreet.files import write_atomically


@dataclass(frozen=True)
class Statements:
    """A named list of checks; ``check(scale, seed)`` returns objects with name, statement, holds and numbers.

    ``draw`` makes a picture of them, where there is one.
    """

    name: str
    title: str
    paper: str
    check: Callable[[str, int], Sequence[Any]]
    draw: Callable[[Sequence[Any]], bytes] | None = None

    @property
    def slug(self) -> str:
        return self.name.replace("/", "-")


def check_statements(
    statements: Statements, *, scale: str = "quick", out: str | os.PathLike[str] = "reproduction", seed: int = 0
) -> tuple[Sequence[Any], Path]:
    """Decide all statements and write ``page.md`` and ``verdicts.json``; returns the verdicts and the page."""
    folder = Path(out) / statements.slug / scale
    folder.mkdir(parents=True, exist_ok=True)
    verdicts = statements.check(scale, seed)
    plain = {v.name: {"statement": v.statement, "holds": bool(v.holds), "numbers": v.numbers} for v in verdicts}
    write_atomically(folder / "verdicts.json", json.dumps(plain, indent=1, default=float))
    words = {True: "✓ holds", False: "✗ fails"}
    rows = [f"| {v.name} | {v.statement} | {words[bool(v.holds)]} | {_numbers(v.numbers)} |" for v in verdicts]
    picture = []
    if statements.draw is not None:
        write_atomically(folder / "figure.png", statements.draw(verdicts))
        picture = [f"![{statements.title}](figure.png)", ""]
    page = [
        f"# {statements.title}",
        "",
        f"*{statements.paper}* · scale **{scale}**, seed {seed}",
        "",
        f"```console\ndiscreet reproduce {statements.name} --scale {scale} --seed {seed}\n```",
        "",
        *picture,
        "| | statement | measured | numbers |",
        "|---|---|---|---|",
        *rows,
        "",
    ]
    write_atomically(folder / "page.md", "\n".join(page))
    return verdicts, folder / "page.md"


def adversarial(scale: str, seed: int) -> Sequence[Any]:
    """The statements about adversarial losses."""
    from discreet.reproduce.adversarial import check_statements as check

    return check(scale, seed=seed)


def lower_bounds(scale: str, seed: int) -> Sequence[Any]:
    """The statements about the worlds of the lower bounds."""
    from discreet.reproduce.lower_bounds import check

    return check(scale, seed)


def draw_lower_bounds(verdicts: Sequence[Any]) -> bytes:
    """Their four panels."""
    from discreet.reproduce.lower_bounds import draw

    return draw(verdicts)


STATEMENTS = {
    "heavy-tailed/lower-bounds": Statements(
        "heavy-tailed/lower-bounds",
        "Regret in the worlds of the lower bounds for heavy-tailed rewards",
        "Differentially private episodic reinforcement learning with heavy-tailed rewards",
        lower_bounds,
        draw_lower_bounds,
    ),
    "adversarial/statements": Statements(
        "adversarial/statements",
        "What is said about private learning against adversaries, one statement at a time",
        "Differentially private no-regret exploration in adversarial Markov decision processes",
        adversarial,
    ),
}


def _numbers(numbers: Mapping[str, Any]) -> str:
    """Numbers by name; where a number has parts, those in brackets."""
    return ", ".join(
        f"{name}: ({_numbers(value)})" if isinstance(value, Mapping) else f"{name}: {_plain(value)}"
        for name, value in numbers.items()
    )


def _plain(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, int | float | np.number) else str(value)
