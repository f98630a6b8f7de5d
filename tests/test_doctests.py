"""The examples in docstrings are true."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import discreet

MODULES = ["discreet", *(module.name for module in pkgutil.walk_packages(discreet.__path__, "discreet."))]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name):
    outcome = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert outcome.failed == 0


def test_some_examples_exist():
    assert doctest.testmod(discreet).attempted >= 4
