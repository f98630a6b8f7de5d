"""Run the gauntlet, or read what it stored.

    python -m experiments.gauntlet [--half tuning|validation] [--quick] [--learner L ...] [--trust T ...] [--out FOLDER]
    python -m experiments.gauntlet table OUT          a Markdown table and a picture
    python -m experiments.gauntlet compare OUT        is more trust ever worse?
    python -m experiments.gauntlet diff OUT1 OUT2     two versions, cell by cell

Every finished cell is stored, and a second call goes on where the first one stopped. The seeds of reported tables
should be ones on which nothing was decided: give --seed.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from discreet.base.errors import DiscreetError
from discreet.base.files import write_atomically

from . import cells, comparing, reading, running


def main(words: list[str]) -> int:
    """Parse, do, and return the exit code."""
    commands = {"table": _table, "compare": _compare, "diff": _diff}
    try:
        return commands[words[0]](words[1:]) if words and words[0] in commands else _run(words)
    except DiscreetError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _run(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments.gauntlet", description="Run cells and store them.")
    parser.add_argument("--half", choices=(cells.TUNING, cells.VALIDATION), help="only these worlds; else both halves")
    parser.add_argument("--world", nargs="+", default=[], help="only these worlds")
    parser.add_argument(
        "--learner",
        nargs="+",
        default=[],
        help="such as ucbvi or ucbvi,reward_scale=0.1; random-play and guided-play only explore",
    )
    parser.add_argument("--trust", nargs="+", default=[], help=f"of {', '.join(cells.TRUST)}; options as for learners")
    parser.add_argument("--quick", action="store_true", help="8 and 4 runs instead of 100 and 20")
    parser.add_argument("--runs", type=int, help="so many runs in every cell")
    parser.add_argument("--users", type=int, help=f"so many users in every cell instead of {cells.USERS:,}")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, help="seconds of processor time per cell, 10 by default and 3 if quick")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes side by side")
    parser.add_argument("--tag", help="what to call this version of the code; the commit by default")
    parser.add_argument("--out", type=Path, default=Path("build/gauntlet"))
    parser.add_argument("--list", action="store_true", help="only say which cells there are")
    given = parser.parse_args(words)
    cells.check_names(given.learner, given.trust)
    chosen = cells.make_cells(
        cells.worlds_of(given.half, given.world), given.learner, given.trust,
        quick=given.quick, runs=given.runs, users=given.users, seed=given.seed,
    )  # fmt: skip
    if given.list:
        for cell in chosen:
            print(f"{cell.entry.half}: {cell.label}, {cell.runs} runs")
        return 0
    limit = given.limit or (3.0 if given.quick else 10.0)
    running.run_all(
        chosen, running.version(given.tag), given.out, jobs=given.jobs, limit=limit,
        tell=lambda line: print(line, flush=True),
    )  # fmt: skip
    return 0


def _table(words: list[str]) -> int:
    parser = _reader("table", "Write table.md and table.png into the folder.")
    parser.add_argument("--half", choices=(cells.TUNING, cells.VALIDATION))
    given = parser.parse_args(words)
    rows = [row for row in reading.load(given.out, given.tag, given.seed) if given.half in (None, row["half"])]
    text, picture = given.out / "table.md", given.out / "table.png"
    write_atomically(text, reading.markdown(rows))
    from .picture import draw

    draw(rows, picture)
    print(f"{len(rows)} cells in {text} and {picture}")
    return 0


def _compare(words: list[str]) -> int:
    given = _reader("compare", "Is a trust model ever worse than one that asks for less trust?").parse_args(words)
    rows = reading.load(given.out, given.tag, given.seed)
    print(comparing.trust_report(comparing.worse_with_more_trust(rows)))
    return 0


def _diff(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments.gauntlet diff", description="Two versions compared.")
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--tags", nargs=2, default=(None, None), metavar=("BEFORE", "AFTER"))
    parser.add_argument("--seeds", nargs=2, type=int, default=(None, None), metavar=("BEFORE", "AFTER"))
    parser.add_argument("--learners", nargs=2, metavar=("BEFORE", "AFTER"), help="compare two learners")
    parser.add_argument("--trusts", nargs=2, metavar=("BEFORE", "AFTER"), help="compare two trust models")
    given = parser.parse_args(words)
    sides = [reading.load(given.before, given.tags[0], given.seeds[0])]
    sides.append(reading.load(given.after, given.tags[1], given.seeds[1]))
    same = ["world", "users"]
    for name, chosen in (("learner", given.learners), ("trust", given.trusts)):
        if chosen is None:
            same.append(name)
        else:
            sides = [[row for row in side if row[name] == one] for side, one in zip(sides, chosen, strict=True)]
    print(comparing.change_report(comparing.between(*sides, same=same)))
    return 0


def _reader(name: str, about: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m experiments.gauntlet {name}", description=about)
    parser.add_argument("out", type=Path)
    parser.add_argument("--tag", help="the version to read, if there are several")
    parser.add_argument("--seed", type=int, help="the seed to read, if there are several")
    return parser


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
