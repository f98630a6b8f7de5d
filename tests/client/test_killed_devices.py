"""Devices that are killed at any moment: never more reports than the cap, never two texts under one id."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
import toy_study as toy

CAP = 20
STEPS = range(14)  # a report takes twelve: each moment of it, from the first change on, is one at which a device dies
PROGRAM = Path(__file__).with_name("device_process.py")


def run(folder: Path, *steps: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(PROGRAM), str(folder), *steps], stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_a_device_that_is_killed_sends_each_report_once_and_as_it_was(tmp_path):
    study = toy.study_answer(toy.declaration(3, 2, 4, epsilon=80.0, cap=CAP))
    policy = {"kind": "deterministic", "actions": [[0, 1, 0]] * 4}
    answers = {"/v1/study": study, "/v1/policy": toy.policy_answer(toy.read(study), policy)}
    (tmp_path / "answers.json").write_text(json.dumps(answers))
    for steps in STEPS:
        assert run(tmp_path, str(steps)).returncode == -signal.SIGKILL
    assert run(tmp_path).stdout == "over\n"
    lines = (tmp_path / "sent").read_bytes().splitlines()
    texts: dict[str, set[bytes]] = {}
    for line in lines:
        texts.setdefault(json.loads(line)["id"], set()).add(line)
    assert len(lines) > CAP  # some were sent twice, because the answer to the first was lost with the device
    assert len(texts) == CAP  # all of them, those of killed episodes as the empty record, and no more
    assert all(len(same) == 1 for same in texts.values())
    (counts,) = sqlite3.connect(tmp_path / "device.db").execute("SELECT COUNT(*), COUNT(body) FROM reports")
    assert counts == (CAP, 0)
