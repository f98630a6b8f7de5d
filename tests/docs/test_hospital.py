"""The hospital example, smaller: the commands of the page, from a file to a policy that can be read and is good."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from discreet.base.policies import load_policy

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guides" / "hospital.md").read_text()


def commands() -> list[list[str]]:
    """Every command of the page, in order, lines that are continued put together."""
    blocks = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return [shlex.split(line, comments=True) for line in lines if line.startswith(("discreet ", "python "))]


def run(words: list[str], folder: Path) -> str:
    if words[0] == "discreet":
        words = [sys.executable, "-c", "from discreet.cli import main; main()", *words[1:]]
    else:
        words = [sys.executable, str(ROOT / words[1]), *words[2:]]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    assert done.returncode == int("check" in words), done.stderr  # more than a tenth of these lines is dropped
    return done.stdout


@pytest.mark.slow
def test_the_page_runs_and_leads_to_a_good_policy(tmp_path):
    found = commands()
    assert [words[1] for words in found if words[0] == "discreet"] == ["check", "train", "show", "evaluate"]
    outputs = {}
    for words in found:
        small = ["--patients", "6000"] if "make" in words else []
        if "--epsilon" in words:  # fewer patients than on the page
            words[words.index("--epsilon") + 1] = "10"
        outputs[" ".join(words[:3])] = run([*words, *small], tmp_path)
    policy = load_policy(tmp_path / "policy.json")
    assert (policy.horizon, policy.states) == (14, 12)
    assert policy.act(0, "critical, high", np.random.default_rng(0)) in ("wait", "fluids", "vasopressor", "both")
    shown = next(text for name, text in outputs.items() if name.startswith("discreet show"))
    assert all(state in shown for state in policy.state_labels)
    worth = next(text for name, text in outputs.items() if "value" in name)
    values = dict(re.findall(r"^(\w[\w ]*\w) +([+-]\d\.\d+)$", worth, re.MULTILINE))
    # The best is 0.916 and clinicians reach 0.232: halfway is far beyond what noise of this size leaves to chance.
    assert float(values["learned"]) > 0.57
    assert float(values["clinicians"]) == pytest.approx(0.232, abs=1e-3)
    trained = next(text for name, text in outputs.items() if name.startswith("discreet train"))
    low, high = map(float, re.findall(r"the policy +-?\d\S* +(\S+) +(\S+)", trained)[0])
    assert low - 0.2 < float(values["learned"]) < high + 0.2
    assert (tmp_path / "judged.png").stat().st_size > 1000
    receipt = (tmp_path / "receipt.html").read_text()
    assert "p000000" not in receipt + shown
