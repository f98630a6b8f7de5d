"""Command lines with odd options: a right command, some words of which are replaced, left out or repeated."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from discreet.cli import main

from .calls import POLICY
from .odd_values import odd_text

TABLE = (
    "--user u --step t --state s --action a --reward r --states 2 --actions 2 --horizon 2 --rewards 0 1 --per-user 1 "
    "--first-step 0 --missing-reward 0"
)
COMMANDS = (
    f"train {{csv}} {TABLE} --epsilon 1 --delta 1e-5 --out {{folder}}/p.json --receipt {{folder}}/r.json",
    f"check {{csv}} {TABLE}",
    "show {policy} --state low",
    "evaluate {policy} --world random-mdp --states 2 --actions 2 --horizon 2 --instance 1 --json {folder}/e.json",
    "simulate --world river-swim --states 3 --horizon 2 --learner ucbvi --option bonus_scale=0.1 --episodes 5 --runs 1 "
    "--seed 0 --threads 1 --privacy none --json {folder}/s.json",
    "simulate --world river-swim --states 3 --horizon 2 --learner apvi --users 5 --runs 1 --privacy central "
    "--epsilon 1",
    "calibrate --world river-swim --states 3 --horizon 2 --epsilon 1 --delta 1e-5 --episodes 50 --json {folder}/c.json "
    "--failure-probability 0.1 --privacy central --recipe auto",
    "audit --states 2 --actions 2 --horizon 2 --epsilon 1 --episodes 10 --trials 200 --seed 0 --confidence 0.9 "
    "--recipe auto",
    "reproduce nothing --scale quick --out {folder}/reproduction --executor threads --seed 0",
    "recipes --model locale --json {folder}/l.json",
    "worlds --json {folder}/no/w.json",
    "learners --json {folder}/no/l.json",
)  # fmt: skip
_COUNTS = ("--episodes", "--users", "--runs", "--trials", "--threads")  # more of them is no mistake, only slow


def spoiled(rng: np.random.Generator, words: list[str]) -> list[str]:
    """One to three words replaced, dropped, doubled or added; numbers of runs stay small."""
    out = list(words)
    for _ in range(int(rng.integers(1, 4))):
        where, which = int(rng.integers(min(1, len(out) - 1), len(out))), rng.random()
        if which < 0.75:
            text = odd_text(rng)
            small = out[where - 1] in _COUNTS and text.isascii() and text.isdigit()
            out[where] = "2" if small else text
        elif which < 0.85 and len(out) > 1:
            del out[where]
        elif which < 0.95:
            out.insert(where, odd_text(rng))
        else:
            out.insert(where, out[where])
    return out


def is_quick(words: list[str]) -> bool:
    """Whether a command is over at once if all its words are right: sizes that were left out have large defaults."""
    slow = {"simulate": ("--episodes", "--runs", "--users"), "audit": ("--trials", "--episodes")}
    wanted = slow.get(words[0], ())
    given = [name for name in wanted if any(word == name or word.startswith(name + "=") for word in words)]
    enough = {"simulate": 2, "audit": 2}.get(words[0], 0)
    return len(given) >= enough and not (words[0] == "demo" or (words[0] == "reproduce" and "all" in words))


def command_lines(folder: Path) -> Callable[[np.random.Generator], Any]:
    """Run a spoiled command line in this process; its output is thrown away."""
    csv, policy = folder / "cli.csv", folder / "cli.json"
    csv.write_text("u,t,s,a,r\n" + "".join(f"{u},{t},{u % 2},{t % 2},1\n" for u in range(20) for t in range(2)))
    POLICY.save(policy)

    def run(rng: np.random.Generator) -> Any:
        template = COMMANDS[int(rng.integers(len(COMMANDS)))]
        words = spoiled(rng, template.format(csv=csv, policy=policy, folder=folder).split())
        words = [word for word in words if "\0" not in word] if rng.random() < 0.5 else words
        if not is_quick(words):
            return None
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
            try:
                main(words)
            except SystemExit as stop:
                if stop.code not in (0, 1, 2, None):
                    raise AssertionError(f"exit code {stop.code}") from None
                if "Traceback" in said.getvalue():
                    raise AssertionError("a traceback was printed") from None
        return None

    return run
