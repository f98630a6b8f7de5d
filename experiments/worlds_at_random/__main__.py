"""Two learners, or two versions of the code, in the same random worlds with the same seeds.

    python -m experiments.worlds_at_random run ucbvi --worlds 60 [--trust pure-1 ...] [--reported] [--tag new]
    python -m experiments.worlds_at_random compare ucbvi belief-ucbvi,chance=.5 [--tags old new]

``run`` stores a line for each run that is over and goes on where it stopped; ``compare`` plays nothing. Shares are
regret over that of uniform play, in each world the mean of its runs. Printed are the geometric mean over worlds of the
ratio of shares (plus one in two thousand, so that a run without any regret has a ratio), an interval of two standard
errors, and *stuck* runs: the policy that is recommended has more than half of uniform play's gap. The interval of their
difference is paired by run and clustered by world, with one more discordant pair than there were.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from discreet.base.errors import DiscreetError, Unsupported
from discreet.base.policies import uniform_policy
from discreet.learners.registry import make_learner
from discreet.recipes.targets import Central, Local, NoPrivacy, Privacy, Shuffle
from discreet.simulation.simulate import simulate

from .drawing import REPORTED, TUNING, world_of

TRUST: dict[str, Privacy] = {
    "central-1": Central(1.0, 1e-5),
    "pure-1": Central(1.0),
    "shuffle-1": Shuffle(1.0, 1e-5),
    "local-4": Local(4.0),
    "none": NoPrivacy(),
}
USERS, FLOOR, STUCK = 20_000, 5e-4, 0.5


def main(words: list[str]) -> int:
    """Parse, do, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m experiments.worlds_at_random")
    parser.add_argument("--out", type=Path, default=Path("build/worlds_at_random"))
    kinds = parser.add_subparsers(dest="command", required=True)
    run, compare = kinds.add_parser("run"), kinds.add_parser("compare")
    run.add_argument("learner", help="such as ucbvi or ucbvi,reward_scale=.1")
    run.add_argument("--worlds", type=int, default=60, help="how many of the seeds")
    run.add_argument("--runs", type=int, default=1, help="of each world")
    run.add_argument("--tag", default="", help="what to call this version of the code, such as no-undecided")
    compare.add_argument("learners", nargs=2)
    compare.add_argument("--tags", nargs=2, default=("", ""))
    for each in (run, compare):
        each.add_argument("--trust", nargs="+", choices=TRUST, default=list(TRUST))
        each.add_argument("--reported", action="store_true", help="the seeds that are reported, not those for tuning")
    given = parser.parse_args(words)
    try:
        return (_run if given.command == "run" else _compare)(given)
    except DiscreetError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _run(given: argparse.Namespace) -> int:
    seeds = (REPORTED if given.reported else TUNING)[: given.worlds]
    name, *options = given.learner.split(",")
    learner = make_learner(name, **dict(option.split("=") for option in options))
    given.out.mkdir(parents=True, exist_ok=True)
    for trust in given.trust:
        path = _file(given.out, given.learner, given.tag, trust, given.reported)
        done = {(row["world"], row["run"]) for row in _rows(path)}
        with path.open("a") as file:
            for seed in seeds:
                missing = [run for run in range(given.runs) if (seed, run) not in done]
                for row in _played(seed, learner, trust, missing):
                    print(json.dumps(row), file=file, flush=True)
        print(f"{path}: {len(_rows(path))} runs", flush=True)
    return 0


def _played(seed: int, learner: Any, trust: str, runs: list[int]) -> Iterable[dict[str, Any]]:
    if not runs:
        return
    world = world_of(seed)
    uniform = world.gap(uniform_policy(world.shape))
    for run in runs:
        row: dict[str, Any] = {"world": seed, "run": run, "name": world.name, "bandit": world.horizon == 1}
        try:
            found = simulate(world, learner, TRUST[trust], episodes=USERS, seed=seed, first_run=run, threads=1)
        except Unsupported as refusal:
            yield row | {"refused": str(refusal)}
            continue
        share = float(found.regret[0, -1]) / (USERS * uniform)
        gap = float(found.final_gap[0]) / uniform
        yield row | {"share": share, "gap": gap, "recipe": found.recipe, "seconds": round(found.seconds, 3)}


def _compare(given: argparse.Namespace) -> int:
    for trust in given.trust:
        paths = [
            _file(given.out, learner, tag, trust, given.reported)
            for learner, tag in zip(given.learners, given.tags, strict=True)
        ]
        before, after = ({(row["world"], row["run"]): row for row in _rows(path)} for path in paths)
        pairs = [(before[key], after[key]) for key in sorted(before.keys() & after.keys())]
        pairs = [pair for pair in pairs if all("share" in row for row in pair)]
        for kind, bandit in (("worlds", False), ("bandits", True)):
            chosen = [pair for pair in pairs if pair[0]["bandit"] == bandit]
            if chosen:
                print(f"{trust:10} {kind:8} {summary(chosen)}")
    return 0


def summary(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> str:
    """One line about pairs of rows of the same world and run."""
    worlds: dict[int, list[tuple[dict[str, Any], dict[str, Any]]]] = {}
    for pair in pairs:
        worlds.setdefault(pair[0]["world"], []).append(pair)
    means = np.array([[np.mean([p[i]["share"] for p in group]) for i in (0, 1)] for group in worlds.values()])
    logs = np.diff(np.log(means + FLOOR), axis=1)[:, 0]
    centre, error = float(logs.mean()), float(logs.std(ddof=1)) / math.sqrt(len(logs)) if len(logs) > 1 else math.inf
    stuck = [[sum(p[i]["gap"] > STUCK for p in group) for i in (0, 1)] for group in worlds.values()]
    more = np.array([new - old for old, new in stuck])
    many = len(pairs)
    difference, wide = more.sum() / many, 1.96 * math.sqrt(float((more**2).sum()) + 1) / many
    old, new = (sum(each[i] for each in stuck) for i in (0, 1))
    shares = np.exp(np.log(means + FLOOR).mean(axis=0)) - FLOOR
    seconds = [sum(pair[i]["seconds"] for pair in pairs) for i in (0, 1)]
    return (
        f"share {100 * shares[0]:5.1f}% -> {100 * shares[1]:5.1f}%, ratio {math.exp(centre):.3f} "
        f"({math.exp(centre - 2 * error):.2f}-{math.exp(centre + 2 * error):.2f}), better {int((logs < -0.05).sum())} "
        f"worse {int((logs > 0.05).sum())} of {len(worlds)}; stuck {old} -> {new} of {many} "
        f"({100 * (difference - wide):+.1f} to {100 * (difference + wide):+.1f} in 100); {seconds[0]:.0f} -> "
        f"{seconds[1]:.0f} s"
    )


def _file(out: Path, learner: str, tag: str, trust: str, reported: bool) -> Path:
    words = [learner, *([tag] if tag else []), trust, *(["reported"] if reported else [])]
    return out / ("_".join(words) + ".jsonl")


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
