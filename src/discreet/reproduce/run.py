"""``reproduce``: run a figure's jobs, decide its claims, draw it and write its page."""

from __future__ import annotations

import json
import os
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from discreet.errors import InvalidInput
from discreet.files import write_atomically
from discreet.reproduce.drawing import draw
from discreet.reproduce.figure import SCALES, Figure
from discreet.reproduce.measured import Measured, Verdict
from discreet.reproduce.page import write_page
from discreet.reproduce.sweep import open_executor, run_tasks
from discreet.simulation.progress import progress_bar


@dataclass(frozen=True)
class Reproduction:
    """A figure that was run: its results by job, its verdicts by claim and version, and where its page lies."""

    figure: Figure
    results: dict[str, Measured]
    verdicts: dict[str, dict[str, Verdict]]
    page: Path


def reproduce(
    figure: Figure,
    *,
    scale: str = "quick",
    out: str | os.PathLike[str] = "reproduction",
    seed: int = 0,
    executor: str | Executor = "threads",
    progress: bool = False,
) -> Reproduction:
    """Run a figure and write ``page.md``, ``figure.png`` and ``verdicts.json`` into ``out/<figure>/<scale>``.

    Results are kept in ``out/runs``: what an earlier call finished, for any figure, is not run again.
    """
    if scale not in SCALES:
        raise InvalidInput(f"scale must be one of {', '.join(SCALES)}, got {scale!r}")
    if isinstance(executor, str):
        with open_executor(executor) as pool:
            return reproduce(figure, scale=scale, out=out, seed=seed, executor=pool, progress=progress)
    folder = Path(out) / figure.slug / scale
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"cannot write to {str(folder)!r}: {error.strerror}") from None
    tasks = figure.tasks(scale, seed)
    with progress_bar(figure.name, len(tasks), progress) as tick:
        results = run_tasks(tasks, Path(out) / "runs", executor, tick)
    verdicts = figure.verdicts(results)
    page = folder / "page.md"
    write_atomically(folder / "figure.png", draw(figure, results))
    write_atomically(folder / "verdicts.json", json.dumps(_plain(verdicts), indent=1))
    write_atomically(page, write_page(figure, results, verdicts, scale, seed))
    return Reproduction(figure, results, verdicts, page)


def _plain(verdicts: dict[str, dict[str, Verdict]]) -> dict[str, dict[str, dict[str, str]]]:
    return {
        claim: {
            version: {"verdict": verdict.word, "evidence": verdict.evidence} for version, verdict in by_version.items()
        }
        for claim, by_version in verdicts.items()
    }
