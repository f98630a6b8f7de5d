"""The front page of a reproduction: every figure with its verdicts, read from what lies in the folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from discreet.reproduce.drawing import TITLES
from discreet.reproduce.job import VERSIONS
from discreet.reproduce.page import SIGNS
from discreet.reproduce.registry import FIGURES
from discreet.reproduce.statements import STATEMENTS


def write_overview(out: Path, scale: str) -> str:
    """The page as Markdown, with a line for every claim of every figure that was run at this scale."""
    lines = [
        "# The papers' figures, again",
        "",
        "Every experiment of five papers through the public names only, drawn three times over: with the noise that "
        "the paper prints and the epsilon that it really has, with noise that keeps the paper's promise, and with the "
        "recipe that `auto` takes at the same promise. Statements are decided by measurement, by paired differences "
        "over runs, at 97.5%, or not at all. A statement that makes several comparisons holds if every one does at "
        "that level, and fails if one does at a level corrected for their number: so each statement, right or wrong, "
        "is misjudged in at most 2.5% of repetitions. The statements of this page are not corrected for each other.",
        "",
        "```console",
        "discreet reproduce --list",
        f"discreet reproduce all --scale {scale}",
        "```",
        "",
        "| figure | statement | " + " | ".join(TITLES[version] for version in VERSIONS) + " |",
        "|---" * (2 + len(VERSIONS)) + "|",
        *_figures(out, scale),
        "",
        "A dash: that drawing has no such line, or it was refused; the page says why.",
        "",
        *_statements(out, scale),
    ]
    return "\n".join(lines)


def _figures(out: Path, scale: str) -> Iterator[str]:
    for figure in FIGURES.values():
        found = _verdicts(out / figure.slug / scale)
        if found is None:
            continue
        link = f"[{figure.name}]({figure.slug}/{scale}/page.md)"
        for claim in figure.claims:
            words = [found.get(claim.name, {}).get(version, {}).get("verdict", "not measured") for version in VERSIONS]
            yield f"| {link} | {claim.says} | " + " | ".join(SIGNS[word] for word in words) + " |"
            link = ""


def _statements(out: Path, scale: str) -> Iterator[str]:
    for each in STATEMENTS.values():
        found = _verdicts(out / each.slug / scale)
        if found is not None:
            yield from (f"## [{each.title}]({each.slug}/{scale}/page.md)", "", "| statement | measured |", "|---|---|")
            for verdict in found.values():
                yield f"| {verdict['statement']} | {SIGNS['holds' if verdict['holds'] else 'fails']} |"
            yield ""


def _verdicts(folder: Path) -> dict[str, Any] | None:
    try:
        data: dict[str, Any] = json.loads((folder / "verdicts.json").read_text())
    except (OSError, ValueError):
        return None
    return data
