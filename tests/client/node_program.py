"""Node for tests of the JavaScript client: the program, its own test runner, and packages from npm where needed."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "clients" / "javascript"
INSTALL = "needs Node 20 or later with npm: apt-get install -y nodejs npm (.ci/ensure-node), or https://nodejs.org"
_SECONDS = 300.0


def node() -> str:
    """The program, where it is there and new enough."""
    found = shutil.which("node")
    if found is None:
        pytest.skip(INSTALL)
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.removeprefix("v").split(".")[0]) < 20:
        pytest.skip(INSTALL)
    return found


def run_tests(pattern: str) -> None:
    """Node's own runner on some files, as ``npm test`` does it."""
    files = sorted(str(file.relative_to(PACKAGE)) for file in PACKAGE.glob(pattern))
    assert files
    command = [node(), "--test", "--test-reporter=spec", *files]
    done = subprocess.run(command, cwd=PACKAGE, capture_output=True, text=True, timeout=_SECONDS)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def run_program(name: str, *arguments: str, text: str | None = None) -> str:
    """What a program of the package's test helpers prints."""
    command = [node(), str(PACKAGE / "test" / "helpers" / name), *arguments]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=_SECONDS)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def install() -> None:
    """The development packages of the client, unless they are there in the stated versions; no lock file is written.

    Test processes come here side by side, and npm moves packages about while it installs: they take turns.
    """
    node()
    folder = PACKAGE / "node_modules"
    folder.mkdir(exist_ok=True)
    with open(folder / ".turn", "w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if not _installed():
            _npm_install()


def _installed() -> bool:
    """Whether an install ended, and what it installed is what the package states."""
    wanted = json.loads((PACKAGE / "package.json").read_text())["devDependencies"]
    ended = (PACKAGE / "node_modules" / ".package-lock.json").exists()  # npm writes it last
    return ended and all(_version(name) == version for name, version in wanted.items())


def _npm_install() -> None:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip(INSTALL)
    command = [npm, "install", "--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund"]
    for _ in range(3):
        done = subprocess.run(command, cwd=PACKAGE, capture_output=True, text=True, timeout=_SECONDS)
        if done.returncode == 0:
            return
    pytest.fail(f"npm could not install what sealing needs (three attempts): {done.stderr[-1000:]}")


def _version(name: str) -> str | None:
    try:
        found = json.loads((PACKAGE / "node_modules" / name / "package.json").read_text())
    except (OSError, ValueError):
        return None
    return str(found["version"])
