"""Pages about all figures: the front page, and one table of everything that the papers say, with sizes and intervals.

Both are made from the ``verdicts.json`` of the figures that lie in a folder, at the paper's own scale where that was
run, else at the quick one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from discreet.simulation.experiments import holm, line_of
from experiments.papers.drawing import TITLES
from experiments.papers.figure import SCALES, VERSIONS, Figure
from experiments.papers.page import IDLE, KEPT, SIGNS
from experiments.papers.verdicts import CONFIDENCE, Effect

_WORDS = {"better": "less than stated"}
_METHOD = (
    "Run i of one line is compared with run i of another, by a sign test: a comparison is decided if fewer than 2.5% "
    "of coin tosses would agree as much, which takes six runs that all agree, and if the means are on the same side. A "
    "statement that makes several comparisons holds if every one does at that level, and fails if one does at a level "
    "corrected for their number: so each statement, right or wrong, is misjudged in at most 2.5% of repetitions."
)


class Saved(NamedTuple):
    """What lies in a folder of a figure: at which scale it was run, its page, and its verdicts as plain data."""

    figure: Figure
    scale: str
    page: str
    verdicts: Mapping[str, Any]

    @property
    def size(self) -> str:
        """The scale in words, with its numbers where they are known; earlier drawings may have had others."""
        scale = self.figure.scales[self.scale]
        claims = self.verdicts.values() if self.figure.jobs else ()
        known = any("runs" in verdict for claim in claims for verdict in claim.values())
        return f"{self.scale}: {scale.episodes:,} × {scale.runs}" if known else f"{self.scale}, drawn earlier"


def saved_figures(figures: Iterable[Figure], out: Path) -> list[Saved]:
    """All figures of which verdicts are there, each at the paper's scale if it was run at that."""
    found = []
    for figure in figures:
        for scale in reversed(SCALES):
            verdicts = _load(out / figure.slug / scale)
            if verdicts is not None and all(_fits(figure, claim) for claim in verdicts.values()):
                found.append(Saved(figure, scale, f"{figure.slug}/{scale}/page.md", verdicts))
                break
    return found


def _fits(figure: Figure, claim: Mapping[str, Any]) -> bool:
    """Whether saved verdicts are of a figure's kind: one that has jobs may have been a list of statements once."""
    by_version = all(isinstance(verdict, Mapping) for verdict in claim.values())
    return by_version if figure.jobs else "holds" in claim


def count_verdicts(saved: Saved) -> str:
    """How many statements hold, fail and are undecided, over all versions: "5 hold, 1 fails"."""
    return _in_words([word for claim in saved.verdicts.values() for word in _words_of(claim)])


def _in_words(words: Sequence[str]) -> str:
    verbs = {"holds": "hold", "fails": "fail", "undecided": "undecided", "better": "less than stated"}
    counts = [(words.count(word), verb) for word, verb in verbs.items()]
    return ", ".join(f"{n} {verb}" for n, verb in counts if n)


def write_overview(figures: Iterable[Figure], out: Path) -> str:
    """The front page, with a line for every claim of every figure that was run."""
    ran = saved_figures(figures, out)
    return "\n".join(
        [
            "# The papers' figures, again",
            "",
            "Every experiment of five papers through the public names only, drawn three times over: with the learner "
            "and the noise that the paper prints and the epsilon that it really has, with noise that keeps the paper's "
            "promise, and with the recipe that `auto` takes at the same promise. Statements are decided by "
            "measurement, or not at all; [all of them with their sizes and intervals](claims.md) are one table.",
            "",
            _METHOD,
            "",
            "```console",
            "discreet reproduce --list",
            "discreet reproduce local/figure-7 --scale paper",
            "```",
            "",
            "Every run is kept in `runs`, in a small file for every line, with its seed: the same command redraws a "
            f"figure from them, and adds the runs that are missing. {KEPT}",
            "",
            line_of(("figure", "episodes × runs", "statement", *(TITLES[version] for version in VERSIONS))),
            "|---" * (3 + len(VERSIONS)) + "|",
            *(line for each in ran if each.figure.jobs for line in _lines(each)),
            "",
            f'A dash: that drawing has no such line, or it was refused; the page says why. "{IDLE}": the statement is '
            "also true of a learner that learns nothing.",
            "",
            *(line for each in ran if not each.figure.jobs for line in _section(each)),
        ]
    )


def write_claims(figures: Iterable[Figure], out: Path) -> str:
    """One table of all claims of all figures that were run, with effect size, interval, doubt and runs."""
    ran = saved_figures(figures, out)
    tested = [verdict for each in ran for _, _, verdict in _tested(each)]
    doubts = holm([float(verdict["doubt"]) for verdict in tested])
    sure = {id(verdict): doubt < 1 - CONFIDENCE for verdict, doubt in zip(tested, doubts)}
    jobs = [each for each in ran if each.figure.jobs]
    return "\n".join(
        [
            "# Everything that the papers say about their figures",
            "",
            _METHOD,
            "",
            "*Effect*: in the comparison that decides (the weakest one of those that hold, the surest of those that "
            "fail), the median over runs of the ratio of what is said to be larger to what is said to be smaller, or "
            "of their difference where a side is not positive, with the 95% interval between two order statistics; for "
            "a number, the number and a resampled interval. *Doubt*: the probability of what was measured, or of more, "
            "if the opposite were true. A dagger: decided by itself, and no longer if all "
            f"{len(tested)} tests of this page are corrected for each other (Holm). "
            "Pages without these columns were drawn before there were such intervals, by Student's test.",
            "",
            *_summary(jobs),
            "",
            line_of(("figure", "statement", "drawing", "verdict", "effect", "interval", "doubt", "runs")),
            "|---" * 8 + "|",
            *(line for each in jobs for line in _detailed(each, sure)),
            "",
            "## Statements that are checked one by one",
            "",
            line_of(("figure", "statement", "verdict", "numbers")),
            "|---" * 4 + "|",
            *(line for each in ran if not each.figure.jobs for line in _checked(each)),
            "",
        ]
    )


def _lines(saved: Saved) -> Iterator[str]:
    link, size = f"[{saved.figure.name}]({saved.page})", saved.size
    for claim in saved.figure.claims:
        found = saved.verdicts.get(claim.name, {})
        yield line_of((link, size, claim.says, *(_cell(found.get(version, {})) for version in VERSIONS)))
        link = size = ""


def _cell(verdict: Mapping[str, Any]) -> str:
    word = verdict.get("verdict", "not measured")
    if word == "not measured":
        return SIGNS[word]
    said = f"{SIGNS[word]} {_WORDS.get(word, word)}"
    if word == "undecided" and verdict.get("runs"):
        said += f" at {verdict['runs']} runs"
        said += f", about {verdict['needed']} would decide" if verdict.get("needed") else ""
    return said + (f" ({IDLE})" if verdict.get("uniform play passes") else "")


def _summary(ran: Sequence[Saved]) -> Iterator[str]:
    """A line for every paper: how many of its statements hold, fail and are undecided, in each drawing."""
    yield from (line_of(("paper", "figures", *(TITLES[version] for version in VERSIONS))), "|---" * 5 + "|")
    papers = dict.fromkeys(each.figure.paper for each in ran)
    for paper in papers:
        own = [each for each in ran if each.figure.paper == paper]
        cells = [_counted(own, version) for version in VERSIONS]
        yield line_of((paper, ", ".join(each.figure.name for each in own), *cells))


def _counted(ran: Sequence[Saved], version: str) -> str:
    """The numbers of verdicts of one drawing: "5 hold, 1 fails"."""
    claims = [claim for each in ran for claim in each.verdicts.values()]
    words = [claim[version]["verdict"] for claim in claims if version in claim]
    return _in_words(words) or "—"


def _detailed(saved: Saved, sure: Mapping[int, bool]) -> Iterator[str]:
    link = f"[{saved.figure.name}]({saved.page}), {saved.size}"
    for claim in saved.figure.claims:
        says = claim.says
        for version in VERSIONS:
            verdict = saved.verdicts.get(claim.name, {}).get(version)
            if verdict is None or verdict["verdict"] == "not measured":
                continue
            decided = verdict["verdict"] in ("holds", "fails")
            dagger = " †" if decided and not sure.get(id(verdict), True) else ""
            cells = (link, says, TITLES[version], _cell(verdict) + dagger, *_sizes(verdict))
            yield line_of(cells)
            link = says = ""


def _sizes(verdict: Mapping[str, Any]) -> Sequence[str]:
    """Effect, interval, doubt and runs; dashes where a page was drawn before there were such numbers."""
    effect = verdict.get("effect")
    runs = str(verdict.get("runs", "—"))
    if effect is None:
        return "—", "—", "—", runs
    low, high = (float("nan") if bound is None else float(bound) for bound in effect["interval"])
    size = Effect(effect["kind"], float(effect["value"]), low, high)
    doubt = "—" if effect["kind"] == "value" else f"{verdict['doubt']:.2g}"
    return size.words(), size.interval(), doubt, runs


def _tested(saved: Saved) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """The verdicts that rest on a sign test."""
    for claim in saved.figure.claims if saved.figure.jobs else ():
        for version, verdict in saved.verdicts.get(claim.name, {}).items():
            effect = verdict.get("effect")
            if effect is not None and effect["kind"] != "value":
                yield claim.name, version, verdict


def _section(saved: Saved) -> Iterator[str]:
    yield from (f"## [{saved.figure.title}]({saved.page})", "", "| statement | measured |", "|---|---|")
    for each in saved.verdicts.values():
        word = _word_of(each)
        yield line_of((each["statement"], f"{SIGNS[word]} {word}"))
    yield ""


def _checked(saved: Saved) -> Iterator[str]:
    link = f"[{saved.figure.name}]({saved.page})"
    for each in saved.verdicts.values():
        word = _word_of(each)
        yield line_of((link, each["statement"], f"{SIGNS[word]} {word}", _shown(each["numbers"])))
        link = ""


def _shown(numbers: Mapping[str, Any]) -> str:
    plain = {name: value for name, value in numbers.items() if isinstance(value, int | float)}
    return ", ".join(f"{name}: {value:.4g}" for name, value in plain.items()) or "see the page"


def _word_of(statement: Mapping[str, Any]) -> str:
    """The verdict on a statement that is checked by itself; earlier files say only whether it holds."""
    return str(statement.get("verdict") or ("holds" if statement["holds"] else "fails"))


def _words_of(claim: Mapping[str, Any]) -> list[str]:
    if "holds" in claim:
        return [_word_of(claim)]
    return [verdict["verdict"] for verdict in claim.values()]


def _load(folder: Path) -> dict[str, Any] | None:
    try:
        data: dict[str, Any] = json.loads((folder / "verdicts.json").read_text())
    except (OSError, ValueError):
        return None
    return data
