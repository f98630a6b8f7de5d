"""The reference: every public name describes its arguments, shows an example that runs, and stands on a page."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest

PAGES = Path(__file__).parents[2] / "docs"
PACKAGES = (
    "discreet",
    "discreet.worlds",
    "discreet.learners",
    "discreet.recipes",
    "discreet.offline",
    "discreet.data",
    "discreet.ledger",
    "discreet.noise",
    "discreet.privacy",
)
COMPILED = {"add_noise", "add_report"}  # a docstring is part of the key under which machine code is kept
PROTOCOLS = {"World", "Law", "AnytimeLaw", "Profile", "WORLDS"}  # nothing to be called


def public() -> list[tuple[str, str]]:
    """Every public name that is no module, with its package."""
    found = []
    for package in PACKAGES:
        module = importlib.import_module(package)
        found += [(package, name) for name in module.__all__ if not isinstance(getattr(module, name), ModuleType)]
    return found


NAMES = public()
ROUND_UP = [("discreet.audit.audit", "audit"), ("discreet.recipes.registry", "recipes")]  # modules that are verbs


def described(text: str) -> set[str]:
    """The arguments that a docstring describes."""
    _, _, rest = text.partition("\nArgs:\n")
    return set(re.findall(r"^    (\w+): \S", rest.split("\n\n")[0], flags=re.MULTILINE))


def the(package: str, name: str) -> object:
    return getattr(importlib.import_module(package), name)


@pytest.mark.parametrize(("package", "name"), [*NAMES, *ROUND_UP])
def test_arguments_are_described_and_an_example_runs(package, name):
    thing = the(package, name)
    text = inspect.getdoc(type(thing) if name == "WORLDS" else thing) or ""
    if name in COMPILED:
        assert text
        return
    assert ">>> " in text, f"{package}.{name} shows no example"
    if name in PROTOCOLS or (isinstance(thing, type) and issubclass(thing, Exception) and not described(text)):
        return
    arguments = set(inspect.signature(thing).parameters) - {"self"}
    assert described(text) == arguments


def test_what_is_not_described_is_found():
    assert described("A thing.\n\nArgs:\n    one: What it is.\n        And more.\n    two: Another.\n\n>>> 1\n1") == {
        "one",
        "two",
    }
    assert described("A thing.") == set()


def test_every_public_name_stands_on_a_page():
    pages = "\n".join(page.read_text() for folder in ("api", "algorithms") for page in (PAGES / folder).glob("*.md"))
    shown = set(re.findall(r"^::: ([\w.]+)", pages, flags=re.MULTILINE))
    missing = []
    for package, name in NAMES:
        thing = the(package, name)
        if name in ("WORLDS", "register"):
            thing = type(thing) if name == "WORLDS" else importlib.import_module("discreet.base.registry").Registry
        home, kind = thing.__module__, getattr(thing, "__name__", name)
        if not {home, f"{home}.{kind}", f"{package}.{name}"} & shown:
            missing.append(f"{package}.{name} of {home}")
    assert missing == []
