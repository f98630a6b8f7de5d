"""``make`` sets up an environment that works, whatever was there: half made, moved, interrupted, or by another hand."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# A Python whose environments hold one program that writes down what it is asked, and dies if it is told to.
FAKE = """#!/bin/sh
here=$(cd "$(dirname "$0")" && pwd -P)
case "$*" in
  *sys.version_info*) exit 0;;
  *"-m venv"*)
    echo "$*" >> venvs
    for last; do :; done
    case "$*" in *--clear*) rm -rf "$last";; esac
    mkdir -p "$last/bin" && cp "$0" "$last/bin/python"
    test -z "$WITHOUT_PIP" || exit 1
    printf '#!/bin/sh\\ntest "%s" = "$(pwd -P)"\\n' "$(pwd -P)" > "$last/bin/pip" && chmod +x "$last/bin/pip";;
  *"-m pip install"*) test -z "$DIES" || kill -9 $PPID; echo "$*" >> installed; exit ${REFUSED:-0};;
  *"import pip"*) test -e "$here/pip";;
esac
"""


@pytest.fixture(params=["discreet", "my projekt"])
def clone(request, tmp_path) -> Path:
    folder = tmp_path / request.param
    for name in (".ci", "experiments"):
        (folder / name).mkdir(parents=True)
    for name in ("Makefile", "pyproject.toml", "experiments/pyproject.toml", "constraints.txt", ".ci/check-python"):
        shutil.copy(ROOT / name, folder / name)
    (folder / "fake").write_text(FAKE)
    (folder / "fake").chmod(0o755)
    return folder


def make(folder: Path, *goals: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "PYTHON=./fake", "ALIVE=", *(goals or ("setup",))]
    variables = {"PATH": "/usr/bin:/bin", **environment}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=variables)


def times(folder: Path, what: str) -> int:
    file = folder / what
    return len(file.read_text().splitlines()) if file.exists() else 0


def test_an_environment_is_made_once(clone):
    assert make(clone).returncode == 0
    assert make(clone).returncode == 0
    assert (times(clone, "venvs"), times(clone, "installed")) == (1, 1)
    assert "--editable ./experiments" in (clone / "installed").read_text()


def test_what_venv_left_behind_without_pip_is_made_anew(clone):
    assert make(clone, WITHOUT_PIP="1").returncode != 0
    assert (clone / ".venv" / "bin" / "python").exists()
    assert make(clone).returncode == 0
    assert times(clone, "installed") == 1


def test_a_clone_that_moved_sets_up_again(clone):
    make(clone)
    there = clone.rename(clone.parent / "renamed")
    assert make(there).returncode == 0
    assert (times(there, "venvs"), times(there, "installed")) == (2, 2)


def test_an_interrupted_installation_is_made_anew_and_a_refused_one_goes_on(clone):
    assert make(clone, DIES="1").returncode != 0
    assert make(clone).returncode == 0
    assert times(clone, "venvs") == 2
    os.utime(clone / ".venv" / ".installed", (1, 1))  # older than pyproject.toml: something else is needed now
    assert make(clone, REFUSED="1").returncode != 0
    assert make(clone).returncode == 0
    assert times(clone, "venvs") == 2


def test_an_environment_of_ones_own_is_kept(clone):
    subprocess.run(["./fake", "-m", "venv", ".venv"], cwd=clone, check=True)
    (clone / ".venv" / "mine").touch()
    assert make(clone).returncode == 0
    assert (clone / ".venv" / "mine").exists()


def python(folder: Path, name: str, minor: int) -> None:
    """A program that answers as a Python of that version would."""
    old = 'test "${2#*exit}" = "$2" || exit 1' if minor < 11 else ":"
    (folder / name).write_text(f"#!/bin/sh\n{old}\necho this is 3.{minor}\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize("others", [(), ("python3.13",)])
def test_a_python_that_is_too_old_is_refused_with_one_that_is_there(tmp_path, others):
    python(tmp_path, "python3", 9)
    python(tmp_path, "python3.12", 10)  # a name alone says nothing
    for name in others:
        python(tmp_path, name, 13)
    command = ["/bin/sh", str(ROOT / ".ci" / "check-python"), "python3", "demo"]
    done = subprocess.run(command, capture_output=True, text=True, env={"PATH": str(tmp_path)})
    (line,) = done.stderr.splitlines()
    assert done.returncode == 1
    assert line.startswith("discreet needs Python 3.11 or later, and this is 3.9")
    assert ("make PYTHON=python3.13 demo" if others else "https://www.python.org/downloads") in line
