"""The page of a figure: the picture, what the paper says and whether it holds, what was run and what it promises."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from discreet.reproduce.drawing import TITLES, promise
from discreet.reproduce.figure import Figure
from discreet.reproduce.job import Job
from discreet.reproduce.measured import Measured, NotMeasured, Verdict, View

SIGNS = {"holds": "✓ holds", "fails": "✗ fails", "undecided": "· undecided", "not measured": "—"}


def write_page(
    figure: Figure,
    results: Mapping[str, Measured],
    verdicts: Mapping[str, Mapping[str, Verdict]],
    scale: str,
    seed: int,
) -> str:
    """The page as Markdown; the picture is ``figure.png`` beside it."""
    size = figure.scales[scale]
    return "\n".join(
        [
            f"# {figure.title}",
            "",
            f"*{figure.paper}* · scale **{scale}**: {size.episodes:,} episodes, {size.runs} runs, seed {seed}",
            "",
            f"```console\ndiscreet reproduce {figure.name} --scale {scale} --seed {seed}\n```",
            "",
            f"![{figure.title}](figure.png)",
            "",
            *_claims(figure, verdicts),
            *_numbers(figure, results),
            "## What was run",
            "",
            *_table(
                ("drawing", "line", "recipe", "claimed", "kept", "result"),
                [_row(job, results[job.key]) for job in figure.jobs],
            ),
            "",
            "Results are means over runs ± one standard error: cumulative regret (per episode in brackets), the gap of "
            "the learned policy for offline learners, or the spread of a released count.",
            "",
            *_list("## What differs from the paper", figure.differences),
        ]
    )


def _claims(figure: Figure, verdicts: Mapping[str, Mapping[str, Verdict]]) -> Iterator[str]:
    if not figure.claims:
        return
    versions = figure.versions
    yield from ("## What the paper says, and what was measured", "")
    rows = [
        [claim.name, claim.says, *(SIGNS[verdicts[claim.name][version].word] for version in versions)]
        for claim in figure.claims
    ]
    yield from _table(("", "statement", *(TITLES[version] for version in versions)), rows)
    yield ""
    for claim in figure.claims:
        found = verdicts[claim.name]
        for version in versions:
            evidence = (
                found[version].evidence if found[version].measured else f"not measured, {found[version].evidence}"
            )
            yield f"- **{claim.name}**, {TITLES[version]}: {evidence}"
        if claim.why and any(verdict.measured and not verdict.holds for verdict in found.values()):
            yield f"    - Why it need not hold: {claim.why}"
    yield ""


def _numbers(figure: Figure, results: Mapping[str, Measured]) -> Iterator[str]:
    if not figure.numbers:
        return
    yield from ("## Ours and the paper's", "")
    rows = [
        [number.what, number.paper, *(_value(number.of, View(results, version)) for version in figure.versions)]
        for number in figure.numbers
    ]
    yield from _table(("", "paper", *(TITLES[version] for version in figure.versions)), rows)
    yield ""


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
        kept += f" (δ={measured.data['true_delta']:.2g} at the claimed ε)"
    recipe = measured.data.get("mechanism") or measured.data["recipe"]
    return drawing, line, recipe, claimed, kept, _result(measured)


def _result(measured: Measured) -> str:
    if "samples" in measured.data:
        return f"sd {measured.samples.std():.4g}"
    total = measured.total
    error = float(total.std(ddof=1) / len(total) ** 0.5) if len(total) > 1 else 0.0
    if measured.data["regret"] is None:
        return f"{total.mean():.3g} ± {error:.2g}"
    return f"{total.mean():,.0f} ± {error:,.0f} ({total.mean() / measured.episodes[-1]:.3g})"


def _value(of: Callable[[View], float], view: View) -> str:
    try:
        return f"{of(view):.4g}"
    except NotMeasured:
        return "—"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in line) + " |" for line in lines]


def _list(title: str, items: Sequence[str]) -> list[str]:
    return [title, "", *(f"- {item}" for item in items), ""] if items else []
