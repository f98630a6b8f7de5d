"""Pages of Markdown: of a figure (its picture, what the paper says and whether it holds, what was run), and of all."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from discreet.privacy.words import rounded_up
from discreet.reproduce.drawing import TITLES, promise
from discreet.reproduce.figure import (
    MEASURED,
    VERSIONS,
    Figure,
    Job,
    Measured,
    NotMeasured,
    Verdict,
    View,
)
from discreet.simulation.result import with_error

Verdicts = Mapping[str, Mapping[str, Verdict]]  # by claim and version
SIGNS = {"holds": "✓ holds", "fails": "✗ fails", "undecided": "· undecided", "not measured": "—"}


def write_page(figure: Figure, results: Mapping[str, Measured], verdicts: Verdicts, scale: str, seed: int) -> str:
    """The page of a figure that was run; the picture is ``figure.png`` beside it."""
    size = figure.scales[scale]
    length = f": {size.episodes:,} episodes, {size.runs} runs" if figure.jobs else ""
    drawn = figure.jobs or figure.draw is not None
    return "\n".join(
        [
            f"# {figure.title}",
            "",
            f"*{figure.paper}* · scale **{scale}**{length}, seed {seed}",
            "",
            f"```console\ndiscreet reproduce {figure.name} --scale {scale} --seed {seed}\n```",
            "",
            *([f"![{figure.title}](figure.png)", ""] if drawn else []),
            *(_of_jobs(figure, results, verdicts) if figure.jobs else _of_statements(figure, verdicts)),
            "",
        ]
    )


def plain_verdicts(figure: Figure, verdicts: Verdicts) -> dict[str, Any]:
    """Verdicts as plain data: for each claim the word and the evidence by version; of a statement, its numbers."""
    plain: dict[str, Any] = {}
    for claim in figure.claims:
        found = verdicts[claim.name]
        if figure.jobs:
            plain[claim.name] = {
                version: {"verdict": verdict.word, "evidence": verdict.evidence} for version, verdict in found.items()
            }
        else:
            holds, numbers = bool(found[MEASURED].holds), found[MEASURED].numbers
            plain[claim.name] = {"statement": claim.says, "holds": holds, "numbers": numbers}
    return plain


def write_overview(figures: Iterable[Figure], out: Path, scale: str) -> str:
    """The front page, with a line for every claim of every figure that was run at this scale, as it lies in ``out``."""
    saved = [(figure, f"{figure.slug}/{scale}/page.md", _saved(out / figure.slug / scale)) for figure in figures]
    ran = [(figure, page, data) for figure, page, data in saved if data is not None]
    return "\n".join(
        [
            "# The papers' figures, again",
            "",
            "Every experiment of five papers through the public names only, drawn three times over: with the noise "
            "that the paper prints and the epsilon that it really has, with noise that keeps the paper's promise, and "
            "with the recipe that `auto` takes at the same promise. Statements are decided by measurement, by paired "
            "differences over runs, at 97.5%, or not at all. A statement that makes several comparisons holds if every "
            "one does at that level, and fails if one does at a level corrected for their number: so each statement, "
            "right or wrong, is misjudged in at most 2.5% of repetitions. The statements of this page are not "
            "corrected for each other.",
            "",
            "```console",
            "discreet reproduce --list",
            f"discreet reproduce all --scale {scale}",
            "```",
            "",
            _line(("figure", "statement", *(TITLES[version] for version in VERSIONS))),
            "|---" * (2 + len(VERSIONS)) + "|",
            *(line for figure, page, data in ran if figure.jobs for line in _verdicts(figure, page, data)),
            "",
            "A dash: that drawing has no such line, or it was refused; the page says why.",
            "",
            *(line for figure, page, data in ran if not figure.jobs for line in _section(figure, page, data)),
        ]
    )


def _of_jobs(figure: Figure, results: Mapping[str, Measured], verdicts: Verdicts) -> Iterator[str]:
    titles = [TITLES[version] for version in figure.versions]
    if figure.claims:
        yield from ("## What the paper says, and what was measured", "")
        signs = {name: [SIGNS[verdict.word] for verdict in found.values()] for name, found in verdicts.items()}
        rows = [(claim.name, claim.says, *signs[claim.name]) for claim in figure.claims]
        yield from (*_table(("", "statement", *titles), rows), "", *_evidence(figure, verdicts), "")
    if figure.numbers:
        yield from ("## Ours and the paper's", "")
        views = [View(results, version) for version in figure.versions]
        values = [(each.what, each.paper, *(_value(each.of, view) for view in views)) for each in figure.numbers]
        yield from (*_table(("", "paper", *titles), values), "")
    yield from ("## What was run", "")
    header = ("drawing", "line", "recipe", "claimed", "kept", "result")
    yield from _table(header, [_row(job, results[job.key]) for job in figure.jobs])
    yield ""
    yield (
        "Results are means over runs ± one standard error: cumulative regret (per episode in brackets), the gap of the "
        "learned policy for offline learners, or the spread of a released count."
    )
    if figure.differences:
        yield from ("", "## What differs from the paper", "", *(f"- {each}" for each in figure.differences))


def _of_statements(figure: Figure, verdicts: Verdicts) -> Iterator[str]:
    yield from ("| | statement | measured | numbers |", "|---|---|---|---|")
    for claim in figure.claims:
        found = verdicts[claim.name][MEASURED]
        yield _line((claim.name, claim.says, SIGNS[found.word], _numbers(found.numbers)))


def _evidence(figure: Figure, verdicts: Verdicts) -> Iterator[str]:
    for claim in figure.claims:
        found = verdicts[claim.name]
        for version, verdict in found.items():
            evidence = verdict.evidence if verdict.measured else f"not measured, {verdict.evidence}"
            yield f"- **{claim.name}**, {TITLES[version]}: {evidence}"
        if claim.why and any(verdict.measured and not verdict.holds for verdict in found.values()):
            yield f"    - Why it need not hold: {claim.why}"


def _row(job: Job, measured: Measured) -> Sequence[str]:
    claimed = ", ".join(
        f"{sign}={value:g}" for sign, value in (("ε", job.epsilon), ("ρ", job.rho), ("δ", job.delta)) if value
    )
    line = job.line if job.users is None else f"{job.line}, {job.users:,} users"
    drawing = TITLES.get(job.version, "reference")
    if measured.refused is not None:
        return drawing, line, job.recipe, claimed, "—", f"not run: {measured.refused}"
    kept = promise(measured) or "no privacy"
    if measured.data.get("true_delta") is not None:
        kept += f" (δ={rounded_up(measured.data['true_delta'], 2)} at the claimed ε)"
    recipe = measured.data.get("mechanism") or measured.data["recipe"]
    return drawing, line, recipe, claimed, kept, _result(measured)


def _result(measured: Measured) -> str:
    if "samples" in measured.data:
        return f"sd {measured.samples.std():.4g}"
    total = measured.total
    if measured.offline:
        return with_error(total, ".3g", ".2g")
    return f"{with_error(total, ',.0f')} ({total.mean() / measured.episodes[-1]:.3g})"


def _value(of: Callable[[View], float], view: View) -> str:
    try:
        return f"{of(view):.4g}"
    except NotMeasured:
        return "—"


def _numbers(numbers: Mapping[str, Any]) -> str:
    """Numbers by name; where a number has parts, those in brackets."""
    return ", ".join(
        f"{name}: ({_numbers(value)})" if isinstance(value, Mapping) else f"{name}: {_plain(value)}"
        for name, value in numbers.items()
    )


def _plain(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, int | float | np.number) else str(value)


def _verdicts(figure: Figure, page: str, data: Mapping[str, Any]) -> Iterator[str]:
    link = f"[{figure.name}]({page})"
    for claim in figure.claims:
        words = [data.get(claim.name, {}).get(version, {}).get("verdict", "not measured") for version in VERSIONS]
        yield _line((link, claim.says, *(SIGNS[word] for word in words)))
        link = ""


def _section(figure: Figure, page: str, data: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"## [{figure.title}]({page})", "", "| statement | measured |", "|---|---|")
    for each in data.values():
        yield _line((each["statement"], SIGNS["holds" if each["holds"] else "fails"]))
    yield ""


def _saved(folder: Path) -> dict[str, Any] | None:
    try:
        data: dict[str, Any] = json.loads((folder / "verdicts.json").read_text())
    except (OSError, ValueError):
        return None
    return data


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [_line(cells) for cells in (header, ["---"] * len(header), *rows)]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
