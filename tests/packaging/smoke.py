"""What an installed package must be able to do: ``python smoke.py`` in an environment that has discreet and no source.

Each step is one command or call that a new user would try. Without extras what needs one says so in one line; with them
it works. The exit code is the number of steps that failed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

PYTHON = """
import discreet
world = discreet.worlds.river_swim(states=3, horizon=3)
result = discreet.simulate(world, "ucbvi", discreet.Central(1.0, 1e-5), episodes=60, runs=2)
assert result.guarantee.epsilon <= 1.0
assert discreet.verify(result.guarantee).answer == "protects nobody"  # its noise came from a seed
planned = discreet.calibrate(discreet.Central(1.0, 1e-5), world.shape, episodes=60).guarantee
assert discreet.verify(planned).answer == "holds"
every_user = discreet.simulate(world, "ucbvi", episodes=1_200)  # long enough for the compiled loop
assert every_user.regret.shape[0] == 1
"""
ROWS = "who,day,state,drug,outcome\n" + "".join(
    f"{user},{day},{(user + day) % 2},{user % 2},{float(user % 2)}\n" for user in range(60) for day in range(2)
)
COLUMNS = {"user": "who", "step": "day", "state": "state", "action": "drug", "reward": "outcome"}
SIZES = {"states": "2", "actions": "2", "horizon": "2"}
TABLE = [word for name, value in (COLUMNS | SIZES).items() for word in (f"--{name}", value)]

# (what, words of a command, the package without which it must say what to install)
STEPS: tuple[tuple[str, list[str], str], ...] = (
    ("version", ["discreet", "--version"], ""),
    ("lists", ["discreet", "recipes", "--model", "local"], ""),
    ("python", ["python", "-c", PYTHON], ""),
    ("simulate", ["discreet", "simulate", "--world", "chain", "--episodes", "50", "--json", "-"], ""),
    ("calibrate", ["discreet", "calibrate", "--privacy", "shuffle", "--epsilon", "1", "--delta", "1e-5"], ""),
    ("ledger", ["discreet", "ledger", "open", "budget.db", "--dataset", "a", "--epsilon", "1"], ""),
    ("demo", ["discreet", "demo", "--episodes", "40", "--runs", "1"], "matplotlib"),
    (
        "gymnasium",
        ["discreet", "simulate", "--world", "frozen-lake", "--horizon", "5", "--episodes", "20"],
        "gymnasium",
    ),
    ("train", ["discreet", "train", "rows.csv", *TABLE, "--epsilon", "5", "--out", "policy.json"], "duckdb"),
    ("study", ["discreet", "study", "new", "study.toml"], ""),
    ("reproduce", ["discreet", "reproduce", "--list"], "discreet_experiments"),
)


def run(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """A command of this environment, as its users start it."""
    if words[0] == "discreet":
        command = [sys.executable, "-c", "from discreet.cli import main; main()", *words[1:]]
    else:
        command = [sys.executable, *words[1:]]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def failed(what: str, words: list[str], needs: str, folder: Path) -> str:
    """Why a step is not as it should be, or nothing."""
    done = run(words, folder)
    if not needs or find_spec(needs) is not None:
        return "" if done.returncode == 0 else f"{what}: exit code {done.returncode}: {done.stderr[-500:]}"
    says = "pip install" in done.stderr or "make setup" in done.stderr
    if done.returncode == 2 and says and len(done.stderr.strip().splitlines()) == 1:
        return ""
    return f"{what}: without {needs} expected one line that says what to install, got {done.stderr[-500:]}"


def main() -> int:
    """Try everything in an empty folder, and say how it went."""
    problems = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "rows.csv").write_text(ROWS)
        for what, words, needs in STEPS:
            problem = failed(what, words, needs, folder)
            print(f"{what}: {'FAILED' if problem else 'ok'}", flush=True)
            problems += [problem] if problem else []
    for problem in problems:
        print(problem, file=sys.stderr)
    return len(problems)


if __name__ == "__main__":
    sys.exit(main())
