"""Writes the files of a release that later releases are tried with: by the commands that its users have.

    python tests/released/make.py tests/released/0.2.0        # with that release installed

``test_released_files.py`` says what becomes of each of them today.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import numpy as np

from discreet import Mixture, Policy, StochasticPolicy

COLUMNS = {"user": "user", "step": "step", "state": "state", "action": "action", "reward": "reward"}
TABLE = [f"--{name}={value}" for name, value in {**COLUMNS, "states": 2, "actions": 2, "horizon": 2}.items()]
SMALL = {"states = 4": "states = 2", "horizon = 6": "horizon = 2", "number = 20000": "number = 12"}
CENTRAL = {"epsilon = 4.0": "epsilon = 1.0", "delta = 0.0": "delta = 1e-5"}
SAID = {
    'title = ""': 'title = "Small"',
    'about = ""': 'about = "Small"',
    '\nepsilon = ""': "\nepsilon = 4.0",
}  # since 0.3.0
RECIPES = {
    "local": "local/sampled-step",
    "central": "central/first-visit-matrix",
    "shuffle": "shuffle/first-visit-tables-randomised-response",
}
HALF = "6"  # of twelve people have taken part


def discreet(*arguments: str) -> None:
    """One command."""
    subprocess.run([sys.executable, "-m", "discreet", *arguments], check=True)


def write_table(file: Path, users: int = 400) -> None:
    """People of two states and two actions, of two steps each; the second action of the second state pays."""
    chance, rows = random.Random(1), ["user,step,state,action,reward"]
    for user in range(users):
        state = 0
        for step in range(2):
            action = chance.randrange(2)
            rows.append(f"{user},{step},{state},{action},{int(state == action == 1)}")
            state = int(chance.random() < (0.2, 0.8)[action])
    file.write_text("\n".join(rows) + "\n")


def start(port: int, *arguments: str) -> subprocess.Popen[bytes]:
    """A party of a study, which answers."""
    party = subprocess.Popen([sys.executable, "-m", "discreet", *arguments, "--port", str(port), "--quiet"])
    for _ in range(600):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz").close()
            return party
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"{arguments} does not answer")


def make_study(folder: Path, model: str, port: int) -> None:
    """A study in which half of the people have taken part, as its folder is after a graceful stop, in one archive."""
    folder.mkdir()
    file = folder / "small.toml"
    discreet("study", "new", str(file), "--model", model, "--quiet")
    text = file.read_text()
    for old, new in {
        **SAID,
        **SMALL,
        **(CENTRAL if model == "central" else {}),
        '"auto"': f'"{RECIPES[model]}"',
    }.items():
        text = text.replace(old, new)
    if model != "local":
        text = text.replace("options = {}\n\n[", "options = { blocks = 3 }\n\n[", 1)
    file.write_text(text)
    parties, more = [start(port, "serve", str(file))], []
    if model == "shuffle":
        other = next(folder.glob("*/")) / "small.toml"
        other.write_text(text)
        at = f"http://127.0.0.1:{port}"
        parties.append(start(port + 1, "shuffler", str(other), "--coordinator", at))
        more = ["--shuffler", f"http://127.0.0.1:{port + 1}"]
    url = f"http://127.0.0.1:{port}"
    discreet("crowd", str(file), "--world", "river-swim", "--states", "2", "--horizon", "2", "--users", HALF,
             "--connections", "1", "--url", url, "--quiet", *more)  # fmt: skip
    for party in reversed(parties):
        party.send_signal(signal.SIGTERM)
        party.wait()
    shutil.make_archive(str(folder), "zip", folder)
    shutil.rmtree(folder)


def main(folder: Path) -> None:
    """All files, into a new folder."""
    folder.mkdir(parents=True)
    os.chdir(folder)  # a request names its table as the command does
    table = "table.csv"
    write_table(Path(table))
    spend = ["--epsilon", "1", "--quiet"]
    ledger = ["--ledger", "ledger.db", "--dataset", "people"]
    discreet("ledger", "open", "ledger.db", "--dataset", "people", "--epsilon", "4")
    discreet("train", table, *TABLE, *spend, *ledger, "--out", "policy.json",
             "--receipt", "receipt.json")  # fmt: skip
    discreet("train", table, *TABLE, *spend, "--out", "policy.npz",
             "--receipt", "receipt.html")  # fmt: skip
    discreet("train", table, *TABLE, *spend, "--holdout", "0.35", "--out", "judged.json",
             "--receipt", "judged-receipt.json", "--split", "split.json")  # fmt: skip
    discreet("evaluate", "judged.json", "--data", table, *TABLE, *spend, "--split",
             "split.json", "--json", "evaluation.json")  # fmt: skip
    Path("certificate.json").write_text(json.dumps(json.loads(Path("receipt.json").read_text())["certificate"]))
    discreet("simulate", "--world", "river-swim", "--states", "3", "--horizon", "3", "--privacy", "central",
             *spend, "--episodes", "300", "--runs", "2", "--save", "result")  # fmt: skip
    for number, model in enumerate(RECIPES):
        make_study(folder / f"{model}-study", model, 18400 + 2 * number)

    first, second = Policy(np.array([[0, 1], [1, 0]])), Policy(np.array([[1, 1], [0, 0]]))
    StochasticPolicy(np.array([[[0.5, 0.5], [0.25, 0.75]], [[1.0, 0.0], [0.0, 1.0]]])).save("stochastic.json")
    Mixture((first, second), np.array([0.25, 0.75])).save("mixture.json")


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
