"""The page of a figure, in Markdown: its pictures, what the paper says and whether it holds, what was run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from discreet.privacy.words import rounded_up
from discreet.simulation.experiments import line_of, table
from discreet.simulation.result import with_error
from experiments.papers.drawing import TITLES, picture_name, promise
from experiments.papers.figure import (
    MEASURED,
    NO_PAPER,
    Figure,
    Job,
    Measured,
    NotMeasured,
    Verdict,
    View,
)

Verdicts = Mapping[str, Mapping[str, Verdict]]  # by claim and version
_HOW = (
    "Each comparison: the means of both sides, how many runs agree (run i of one line with run i of the other), the "
    "median ratio over runs (or difference) and a 95% interval for it. A comparison is decided by a sign test at 97.5%."
)
SIGNS = {"holds": "✓", "fails": "✗", "undecided": "·", "better": "↓", "not measured": "—"}
IDLE = "uniform play passes too"
KEPT = "Runs that are kept are not drawn again: a learner that has changed since may give other numbers today."


def write_page(figure: Figure, results: Mapping[str, Measured], verdicts: Verdicts, scale: str, seed: int) -> str:
    """The page of a figure that was run; its pictures are ``figure.png`` and so on, beside it."""
    size = figure.scales[scale]
    episodes = f"{size.episodes:,} episodes, " if size.episodes > 1 else ""  # one: the number is on an axis
    length = f": {episodes}{size.runs} runs" if figure.jobs else ""
    return "\n".join(
        [
            f"# {figure.title}",
            "",
            f"*{figure.paper}* · scale **{scale}**{length}, seed {seed}",
            "",
            f"```console\ndiscreet reproduce {figure.name} --scale {scale} --seed {seed}\n```",
            "",
            *((KEPT, "") if figure.jobs else ()),
            *_pictures(figure),
            *(_of_jobs(figure, results, verdicts) if figure.jobs else _of_statements(figure, verdicts)),
            "",
        ]
    )


def _pictures(figure: Figure) -> Iterator[str]:
    """The pictures, those of jobs for light and for dark pages: a page shows the one that suits it."""
    if not figure.jobs:
        yield from () if figure.draw is None else (f"![{figure.title}]({picture_name(0)})", "")
        return
    for i in range(len(figure.drawings)):
        yield f"![{figure.title}]({picture_name(i)}#only-light)"
        yield from (f"![{figure.title}]({picture_name(i, dark=True)}#only-dark)", "")


def plain_verdicts(figure: Figure, verdicts: Verdicts) -> dict[str, Any]:
    """Verdicts as plain data: for each claim word, effect and evidence by version; of a statement, its numbers."""
    plain: dict[str, Any] = {}
    for claim in figure.claims:
        found = verdicts[claim.name]
        if figure.jobs:
            plain[claim.name] = {version: verdict.as_dict() for version, verdict in found.items()}
        else:
            verdict = found[MEASURED]
            plain[claim.name] = {
                "statement": claim.says, "holds": verdict.holds, "verdict": verdict.word, "numbers": verdict.numbers,
            }  # fmt: skip
    return plain


def _of_jobs(figure: Figure, results: Mapping[str, Measured], verdicts: Verdicts) -> Iterator[str]:
    titles = [TITLES[version] for version in figure.versions]
    if figure.claims:
        says = "is expected" if figure.paper == NO_PAPER else "the paper says"
        yield from (f"## What {says}, and what was measured", "")
        signs = {name: [_sign(verdict) for verdict in found.values()] for name, found in verdicts.items()}
        rows = [(claim.name, claim.says, *signs[claim.name]) for claim in figure.claims]
        yield from (*table(("", "statement", *titles), rows), "", _HOW, "", *_evidence(figure, verdicts), "")
    if figure.numbers:
        yield from ("## Ours and the paper's", "")
        views = [View(results, version) for version in figure.versions]
        values = [(each.what, each.paper, *(_value(each.of, view) for view in views)) for each in figure.numbers]
        yield from (*table(("", "paper", *titles), values), "")
    yield from ("## What was run", "")
    header = ("drawing", "line", "recipe", "claimed", "kept", "result")
    yield from table(header, [_row(job, results[job.key]) for job in figure.jobs])
    yield ""
    yield (
        "Results are means over runs ± one standard error: cumulative regret (per episode in brackets), the gap of the "
        "learned policy for offline learners, or the spread of a released count."
    )
    if figure.differences:
        title = "How it was measured" if figure.paper == NO_PAPER else "What differs from the paper"
        yield from ("", f"## {title}", "", *(f"- {each}" for each in figure.differences))


def _of_statements(figure: Figure, verdicts: Verdicts) -> Iterator[str]:
    yield from ("| | statement | measured | numbers |", "|---|---|---|---|")
    for claim in figure.claims:
        found = verdicts[claim.name][MEASURED]
        yield line_of((claim.name, claim.says, f"{SIGNS[found.word]} {found.word}", _numbers(found.numbers)))


def _sign(verdict: Verdict) -> str:
    """A verdict in a cell: its sign, its words, and whether it says anything about learning."""
    if not verdict.measured:
        return SIGNS["not measured"]
    words = {"better": "less than stated"}.get(verdict.word, verdict.sentence())
    return f"{SIGNS[verdict.word]} {words}" + (f" ({IDLE})" if verdict.idle else "")


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
