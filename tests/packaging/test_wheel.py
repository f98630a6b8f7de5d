"""The wheel: it holds every file of the package and nothing else, and what it installs runs without the source."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import discreet

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "discreet"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built from a copy, so that the source stays as it is."""
    folder = tmp_path_factory.mktemp("build")
    skipped = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", folder / "src", ignore=skipped)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / name)
    command = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(folder / "dist"),
        str(folder),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    (made,) = (folder / "dist").glob("*.whl")
    return made


@pytest.mark.long
def test_every_file_of_the_package_is_in_the_wheel_and_no_other(wheel):
    expected = {
        f"discreet/{path.relative_to(PACKAGE)}"
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    found = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert found == expected
    assert f"discreet-{discreet.__version__}" in wheel.name


@pytest.mark.long
def test_what_the_wheel_installs_runs_in_an_empty_folder(wheel, tmp_path):
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--target",
            str(tmp_path / "there"),
            str(wheel),
        ],
        check=True,
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "there")}
    where = subprocess.run(
        [sys.executable, "-c", "import discreet; print(discreet.__file__)"], env=environment, cwd=tmp_path,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert where.stdout.startswith(str(tmp_path / "there"))
    smoke = Path(__file__).with_name("smoke.py")
    done = subprocess.run([sys.executable, str(smoke)], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_version_is_stated_once_and_the_same_everywhere():
    project = (ROOT / "pyproject.toml").read_text()
    citation = (ROOT / "CITATION.cff").read_text()
    assert f'version = "{discreet.__version__}"' in project
    assert f"version: {discreet.__version__}" in citation
    assert (ROOT / "CHANGELOG.md").read_text().split("\n## ")[1].startswith(discreet.__version__)
