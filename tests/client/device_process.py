"""A device in a process of its own, which takes part, and notes every attempt to send in a file first.

python device_process.py FOLDER [STEPS]

After so many steps it kills itself. A step is what lies between two changes of what outlasts it: before a change of its
store or an attempt to send, and after it. So a test chooses the moment, and no clock does.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from discreet.client import Device
from discreet.client.errors import Refused
from discreet.client.store import SQLiteStore
from discreet.client.transport import Answer, Service


class Steps:
    """Steps until the process kills itself; without a number it lives on."""

    def __init__(self, number: int | None) -> None:
        self._left = number

    def take(self) -> None:
        """One step."""
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                os.kill(os.getpid(), signal.SIGKILL)


class Stepping(SQLiteStore):
    """A store with a step before and after each change that belongs to a report."""

    def __init__(self, path: str, steps: Steps) -> None:
        super().__init__(path)
        self._steps = steps

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in ("begin", "settle", "fix", "close", "keep_head"):
            return found

        def stepping(*arguments: Any) -> Any:
            self._steps.take()
            result = found(*arguments)
            self._steps.take()
            return result

        return stepping


class Noted:
    """A service made of files: answers lie in a folder, and what is sent is appended to a file, synced."""

    private = True

    def __init__(self, folder: Path, steps: Steps) -> None:
        self._folder, self._steps = folder, steps
        self._answers: dict[str, Any] = json.loads((folder / "answers.json").read_text())

    def ask(self, method: str, path: str, body: bytes | None = None, token: str | None = None) -> Answer:
        """One request."""
        if method == "POST" and body is not None:
            self._steps.take()
            with (self._folder / "sent").open("ab") as file:
                file.write(body + b"\n")
                file.flush()
                os.fsync(file.fileno())
            self._steps.take()
            return Answer(200, b'{"status": "accepted"}')
        return Answer(200, json.dumps(self._answers[path]).encode())


def main(folder: Path, number: int | None) -> None:
    """Episode after episode until the cap is reached; at every start what is due is sent first."""
    steps = Steps(number)
    connection = Noted(folder, steps)
    agreed = connection._answers["/v1/study"]["hash"]
    store = Stepping(str(folder / "device.db"), steps)
    device = Device(Service(connection, agreed, signatures=False), store, study_hash=agreed, at_once=True)
    device.send()
    try:
        while True:
            device.begin()
            for step in range(device.horizon):
                device.record(step, 0, device.act(step, 0), 1.0)
            device.finish()
            device.send()
    except Refused:
        print("over", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else None)
