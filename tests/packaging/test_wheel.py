"""The source archive holds what the repository holds; the wheel that is made from it holds every file of the package
and nothing else, and what it installs runs without the source."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from setuptools.command.egg_info import FileList

import discreet

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "discreet"
_MADE = ("PKG-INFO", "setup.cfg")  # by the builder


def tracked() -> set[str]:
    """The files of the repository; where there is none, the test has nothing to compare with."""
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True)
    if listed.returncode or not (ROOT / ".git").exists():
        pytest.skip("this is not a repository")
    return {name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()}


def archived(folder: Path, manifest: str) -> set[str]:
    """What the lines of a manifest choose among the files of a folder."""
    found, here = FileList(), Path.cwd()
    os.chdir(folder)
    try:
        for line in manifest.splitlines():
            if line and not line.startswith("#"):
                found.process_template_line(line)
        found.remove_duplicates()
        return {name for name in found.files if Path(name).is_file()}
    finally:
        os.chdir(here)


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """A source archive, and a wheel that is made from it; built from a copy, so that the source stays as it is."""
    folder = tmp_path_factory.mktemp("build")
    for name in archived(ROOT, (ROOT / "MANIFEST.in").read_text()):
        if ".egg-info" not in name:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder / "dist"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return folder / "dist"


@pytest.fixture(scope="module")
def wheel(built) -> Path:
    (made,) = built.glob("*.whl")
    return made


def test_the_source_archive_holds_what_the_repository_holds():
    manifest = (ROOT / "MANIFEST.in").read_text()
    missing = tracked() - archived(ROOT, manifest)
    assert not missing, "put them into MANIFEST.in"


def test_the_reader_of_manifests_takes_what_is_named(tmp_path):
    for name in ("a.md", "docs/b.md", "docs/c.pyc", "docs/deep/d.js", "other/e.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = archived(tmp_path, "# a remark\ngraft docs\ninclude a.md\nglobal-exclude *.py[cod]\n")
    assert found == {"a.md", "docs/b.md", "docs/deep/d.js"}
    assert archived(tmp_path, "graft docs\nprune docs/deep\n") == {"docs/b.md", "docs/c.pyc"}


@pytest.mark.long
def test_the_source_archive_is_what_the_manifest_says(built):
    (made,) = built.glob("*.tar.gz")
    with tarfile.open(made) as archive:
        found = {name.partition("/")[2] for name in archive.getnames() if archive.getmember(name).isfile()}
    found = {name for name in found if ".egg-info/" not in name and name not in _MADE}
    expected = archived(ROOT, (ROOT / "MANIFEST.in").read_text())
    assert found == {name for name in expected if ".egg-info/" not in name}


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
    # Without -S Python would read the file by which the set-up of this repository leads to its experiments.
    alone = {**environment, "PYTHONPATH": os.pathsep.join([str(tmp_path / "there"), *_packages()])}
    command = [sys.executable, "-S", "-m", "discreet", "reproduce", "--list"]
    done = subprocess.run(command, env=alone, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stdout + done.stderr
    assert "run make setup in a clone" in done.stderr


def _packages() -> set[str]:
    return {sysconfig.get_path(kind) for kind in ("purelib", "platlib")}


def test_the_version_is_stated_once_and_the_same_everywhere():
    project = (ROOT / "pyproject.toml").read_text()
    citation = (ROOT / "CITATION.cff").read_text()
    assert f'version = "{discreet.__version__}"' in project
    assert f"version: {discreet.__version__}" in citation
    assert (ROOT / "CHANGELOG.md").read_text().split("\n## ")[1].startswith(discreet.__version__)


def floors() -> dict[str, tuple[int, ...]]:
    """The oldest version that the project, with what ``make test-oldest`` installs, allows of each package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (extras,) = re.findall(r"^EXTRAS := (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    lines = [
        *project["dependencies"],
        *(line for e in extras.split(",") for line in project["optional-dependencies"][e]),
    ]
    found: dict[str, tuple[int, ...]] = {}
    for name, floor in (re.fullmatch(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)(?:; .+)?", line).groups() for line in lines):
        found[name] = max(found.get(name, ()), tuple(map(int, floor.split("."))))
    return found


def test_the_oldest_versions_are_those_that_are_tested():
    pinned = dict(
        line.split("==") for line in (ROOT / "constraints-oldest.txt").read_text().splitlines() if line[:1] != "#"
    )
    assert len(floors()) > 20
    for name, floor in floors().items():
        assert tuple(map(int, pinned[name].split(".")[: len(floor)])) == floor, name
