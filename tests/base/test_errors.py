"""Errors say what to do next, and are what Python's own would be."""

from __future__ import annotations

import pytest

from discreet.base.errors import DiscreetError, InvalidInput, MissingExtra, Unsupported, unknown_name


@pytest.mark.parametrize(
    ("error", "kind"),
    [(InvalidInput("x"), ValueError), (MissingExtra("polars", "data"), ImportError), (Unsupported("x"), Exception)],
)
def test_each_can_be_caught_as_ours_and_as_pythons(error, kind):
    assert isinstance(error, DiscreetError)
    assert isinstance(error, kind)


def test_a_missing_package_is_named_with_its_extra():
    assert str(MissingExtra("polars", "data")).endswith("pip install '.[data]'  in your clone of discreet")


def test_a_misspelt_name_gets_the_nearest_and_a_strange_one_gets_all():
    known = ["ucbvi", "psrl", "obi"]
    assert str(unknown_name("learner", "ucbv", known)) == "unknown learner 'ucbv': did you mean ucbvi?"
    assert str(unknown_name("learner", "zzz", known)) == "unknown learner 'zzz': choose one of obi, psrl, ucbvi"
