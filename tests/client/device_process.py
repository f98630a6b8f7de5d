"""A device in a process of its own, for tests that kill it: takes part, noting every attempt to send in a file first.

python device_process.py FOLDER
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from discreet.client import Device
from discreet.client.errors import Refused
from discreet.client.transport import Answer, Service


class Noted:
    """A service made of files: answers lie in a folder, and what is sent is appended to a file, synced."""

    private = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._answers: dict[str, Any] = json.loads((folder / "answers.json").read_text())

    def ask(self, method: str, path: str, body: bytes | None = None, token: str | None = None) -> Answer:
        """One request."""
        if method == "POST" and body is not None:
            with (self._folder / "sent").open("ab") as file:
                file.write(body + b"\n")
                file.flush()
                os.fsync(file.fileno())
            return Answer(200, b'{"status": "accepted"}')
        return Answer(200, json.dumps(self._answers[path]).encode())


def main(folder: Path) -> None:
    """Episode after episode until the cap is reached; at every start what is due is sent first."""
    connection = Noted(folder)
    agreed = connection._answers["/v1/study"]["hash"]
    device = Device(
        Service(connection, agreed, signatures=False), folder / "device.db", study_hash=agreed, at_once=True
    )
    print("ready", flush=True)
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
    main(Path(sys.argv[1]))
