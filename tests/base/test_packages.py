"""Names that are loaded at their first use: found where they are said to be, and nowhere else."""

from __future__ import annotations

import fractions
import sys
from types import ModuleType

import pytest

from discreet.base.packages import lazily, load, make_callable


@pytest.fixture
def package(monkeypatch):
    """A package of our own that is gone after the test."""
    module = ModuleType("lent")
    monkeypatch.setitem(sys.modules, "lent", module)
    return module


def test_a_name_comes_from_its_home_and_is_listed():
    find, names = lazily("xml", {"Fraction": "fractions", "dom": "xml.dom"})
    assert find("Fraction") is fractions.Fraction
    assert find("dom") is sys.modules["xml.dom"]  # a module of the package itself
    assert names() == ["Fraction", "dom"]


def test_other_names_do_not_exist():
    find, _ = lazily("xml", {"Fraction": "fractions"})
    with pytest.raises(AttributeError, match="module 'xml' has no attribute 'gcd'"):
        find("gcd")


def test_load_reads_module_and_name():
    assert load("fractions:Fraction") is fractions.Fraction
    with pytest.raises(AttributeError):
        load("fractions:Nonsense")


def test_a_package_that_is_a_verb_passes_its_arguments_on(package):
    make_callable("lent", "builtins:sorted")
    assert package([2, 3, 1], reverse=True) == [3, 2, 1]
    assert isinstance(package, ModuleType)
