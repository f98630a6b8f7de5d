"""The files that pages are made of: shipped, nothing from elsewhere, no scripts or styles inside pages."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

import discreet.study.dashboard
from discreet.study.dashboard.serving import HEADERS, operator_page, static_files

ROOT = Path(__file__).parents[3]
STATIC = Path(discreet.study.dashboard.__file__).parent / "static"
SCRIPTS = sorted(STATIC.glob("*.js"))


def policy() -> dict[str, str]:
    """The content-security-policy by its parts."""
    parts = HEADERS["content-security-policy"].split("; ")
    return {name: value for name, _, value in (part.partition(" ") for part in parts)}


def test_every_file_is_shipped_and_served():
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    shipped = {path.name for pattern in patterns["discreet.study.dashboard"] for path in STATIC.parent.glob(pattern)}
    there = {path.name for path in STATIC.iterdir()}
    assert there == shipped == set(static_files())
    assert all(file.content == (STATIC / name).read_bytes() for name, file in static_files().items())


def test_the_policy_of_pages_lets_nothing_in():
    found = policy()
    assert found["default-src"] == found["base-uri"] == found["form-action"] == found["frame-ancestors"] == "'none'"
    for kind in ("script-src", "style-src", "img-src", "connect-src"):
        assert found[kind] == "'self'"
    assert "unsafe" not in HEADERS["content-security-policy"]


def foreign(text: str) -> list[str]:
    """What a file fetches from another host: addresses with a scheme or a host, which no page of ours needs."""
    return [
        found for found in re.findall(r"(?:https?:)?//[\w.-]+\.[a-z]+[^\s\"'`]*", text) if "www.w3.org" not in found
    ]


@pytest.mark.parametrize("name", sorted(path.name for path in STATIC.iterdir()))
def test_no_file_names_another_host(name):
    text = (STATIC / name).read_text()
    assert foreign(text) == []
    assert "@import" not in text
    assert not re.search(r"url\(", text)


def test_the_reader_of_addresses_finds_them():
    assert foreign('<script src="//cdn.example.org/x.js">') == ["//cdn.example.org/x.js"]
    assert foreign("fetch('https://example.org/a')") == ["https://example.org/a"]
    assert foreign('"http://www.w3.org/2000/svg" // a comment.') == []


def test_the_operators_page_holds_no_script_no_style_and_no_study():
    page = operator_page().decode()
    assert re.findall(r"<script[^>]*>(.*?)</script>", page, re.DOTALL) == [""]
    assert "<style" not in page
    assert not re.search(r"\s(style|on\w+)=", page)
    assert 'action="' not in page


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_scripts_write_no_markup(script):
    text = script.read_text()
    for dangerous in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "localStorage",
    ):
        assert dangerous not in text


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed: on Debian  apt-get install -y nodejs")
def test_scripts_are_scripts(tmp_path):
    """Node reads all of them as modules, and finds a script that is none."""
    for script in SCRIPTS:
        shutil.copyfile(script, tmp_path / f"{script.stem}.mjs")
    found = [
        subprocess.run(["node", "--check", str(each)], capture_output=True).returncode for each in tmp_path.iterdir()
    ]
    assert found == [0] * len(SCRIPTS)
    (tmp_path / "broken.mjs").write_text("import x from ;")
    assert subprocess.run(["node", "--check", str(tmp_path / "broken.mjs")], capture_output=True).returncode != 0
