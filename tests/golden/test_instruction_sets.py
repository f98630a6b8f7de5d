"""Fixed simulations have the same numbers where code is compiled for the oldest processor of the kind at hand."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from fixed_simulations import FILE

CASES = (
    "none ucbvi", "none uob-lbps", "central auto", "central auto layered bandit", "central auto heavy", "local auto",
    "shuffle elimination", "offline auto", "offline vapvi",
)  # fmt: skip
CODE = f"import json, sys\nfrom fixed_simulations import run_case\nprint(json.dumps([run_case(n) for n in {CASES!r}]))"


@pytest.mark.long
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the instruction sets that are named are those of x86-64")
def test_other_instruction_sets_give_the_same_numbers(tmp_path):
    """Numba compiles for a generic processor, and linear algebra takes its path for processors of 2008."""
    older = {"NUMBA_CPU_NAME": "generic", "OPENBLAS_CORETYPE": "Nehalem", "NUMBA_CACHE_DIR": str(tmp_path)}
    where = {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-c", CODE], env={**os.environ, **older, **where}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    kept = json.loads(FILE.read_text())
    for name, found in zip(CASES, json.loads(done.stdout.splitlines()[-1]), strict=True):
        assert found["recipe"] == kept[name]["recipe"]
        for key in ("regret", "final_gap", "value"):
            if key in kept[name]:
                numbers = [float(text) for text in kept[name][key]]
                assert [float(text) for text in found[key]] == pytest.approx(numbers, rel=1e-9, nan_ok=True), name
