"""Devices that are killed at any moment: never more reports than the cap, never two texts under one id."""

from __future__ import annotations

import json
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
import toy_study as toy

CAP = 80
PROGRAM = Path(__file__).with_name("device_process.py")


def start(folder: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, str(PROGRAM), str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.slow
def test_a_device_that_is_killed_sends_each_report_once_and_as_it_was(tmp_path):
    study = toy.study_answer(toy.declaration(3, 2, 4, epsilon=80.0, cap=CAP))
    policy = {"kind": "deterministic", "actions": [[0, 1, 0]] * 4}
    answers = {"/v1/study": study, "/v1/policy": toy.policy_answer(toy.read(study), policy)}
    (tmp_path / "answers.json").write_text(json.dumps(answers))
    source = random.Random(7)
    for _ in range(12):
        process = start(tmp_path)
        time.sleep(source.uniform(0.0, 0.05))
        process.send_signal(signal.SIGKILL)
        process.wait()
    process = start(tmp_path)
    assert process.communicate(timeout=120)[0] == "over\n"
    lines = (tmp_path / "sent").read_bytes().splitlines()
    texts: dict[str, set[bytes]] = {}
    for line in lines:
        texts.setdefault(json.loads(line)["id"], set()).add(line)
    assert len(texts) == CAP  # all of them, those of killed episodes as the empty record, and no more
    assert all(len(same) == 1 for same in texts.values())
    (counts,) = sqlite3.connect(tmp_path / "device.db").execute("SELECT COUNT(*), COUNT(body) FROM reports")
    assert counts == (CAP, 0)
