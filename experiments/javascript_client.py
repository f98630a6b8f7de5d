"""How large and how fast the JavaScript client is: ``python -m experiments.javascript_client``.

**Size**: bytes after gzip -9, without HPKE: the bundle that esbuild makes (a browser in a local or central study; with
the part that shuffled studies load; with the store of Node), and the sources as they stand, without comments and
indentation. **Speed**: milliseconds from a record to the text of its report at 2,880 items (a k-ary answer; a bit for
each item), and of a whole episode with a store in memory, medians; the Python client makes the same reports in the same
run. Needs Node and npm.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

TESTS = Path(__file__).parents[1] / "tests" / "client"
PACKAGE = Path(__file__).parents[1] / "clients" / "javascript"
ITEMS, REPEATS = 2880, 400


def script(name: str) -> dict[str, float]:
    """What a script of the package prints."""
    done = subprocess.run(["node", f"scripts/{name}"], cwd=PACKAGE, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def python_milliseconds(response: str) -> float:
    """The Python client, from the same record to the text of its report."""
    sys.path.insert(0, str(TESTS))
    import toy_study as toy

    from discreet.client.exact import Tape
    from discreet.client.reports import read_round, report_of
    from discreet.client.words import canonical

    declared = toy.declaration(12, 10, 3, start=None, epsilon=4.0)
    study = toy.read(toy.study_answer(declared, response, 1, masked=False))
    policy = {"kind": "deterministic", "actions": [[0] * 12] * 3}
    round_, tape = read_round(toy.policy_answer(study, policy), study), Tape()
    assert round_.questions[0].size == ITEMS
    record, taken = [(0, 0, 0.3), (3, 0, 0.1), (5, 0, 1.0)], []
    for _ in range(REPEATS):
        begun = time.perf_counter()
        canonical({"report": report_of(study, round_, [0], record, tape)})
        taken.append(1000 * (time.perf_counter() - begun))
    return median(taken)


def main() -> None:
    """Print both."""
    sys.path.insert(0, str(TESTS))
    from node_program import install

    install()
    print("bytes after gzip -9, without HPKE")
    for name, size in script("size.mjs").items():
        print(f"  {name:20} {size:7,.0f}")
    print(f"milliseconds a report at {ITEMS:,} items, median")
    speeds = script("speed.mjs")
    for response in ("kary", "unary"):
        own, python = speeds[response], python_milliseconds(response)
        print(f"  {response:20} {own:7.3f}  Python {python:.3f}, ratio {own / python:.2f}")
        print(f"  {response + ' episode':20} {speeds[f'{response} episode']:7.3f}")


if __name__ == "__main__":
    main()
