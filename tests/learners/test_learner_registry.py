from __future__ import annotations

import pytest

from discreet import learners
from discreet.base.errors import InvalidInput
from discreet.base.registry import parse_value
from discreet.learners.base import CompiledLearner
from discreet.learners.registry import LEARNERS, make_learner, with_standing
from discreet.learners.ucbvi import UCBVI


@pytest.mark.parametrize("name", LEARNERS)
def test_every_entry_makes_the_learner_of_its_name(name):
    learner = make_learner(name)
    assert learner.name == name
    assert learner.needs
    assert LEARNERS[name].summary
    assert LEARNERS[name].source


def test_every_entry_is_a_name_of_the_package():
    for entry in LEARNERS.values():
        assert getattr(learners, entry.make.__name__) is entry.make
        assert entry.make.__name__ in dir(learners)
    assert set(learners.__all__) == set(dir(learners))
    assert {"OREPS", "register"} <= set(learners.__all__)
    with pytest.raises(AttributeError, match="nonsense"):
        learners.nonsense  # noqa: B018


def test_what_somebody_registers_is_no_name_of_the_package():
    learners.register("own", UCBVI)
    try:
        assert "own" in LEARNERS
        assert LEARNERS.homes()["UCBVI"] == "discreet.learners.ucbvi"
        assert "own" not in dir(learners)
    finally:
        LEARNERS.forget("own")


def test_learners_that_compile_say_so_by_their_type():
    """The loops ask for these types; a stochastic policy does not enter the compiled one."""
    compiled = {name for name in LEARNERS if isinstance(make_learner(name), CompiledLearner)}
    assert compiled == {"ucbvi", "belief-ucbvi", "dp-ucbvi", "obi", "psrl"}
    assert not isinstance(object(), CompiledLearner)


def test_options_are_the_knobs_with_their_defaults():
    options = LEARNERS["ucbvi"].options
    assert "name" not in options
    assert "needs" not in options
    assert UCBVI(**options) == UCBVI()


def test_text_becomes_the_type_of_the_field():
    assert make_learner("ucbvi", **{"reward-scale": "0.25", "threshold": "2"}) == UCBVI(
        reward_scale=0.25, threshold=2.0
    )


@pytest.mark.parametrize(
    ("text", "annotation", "value"),
    [
        ("yes", bool, True),
        ("false", bool, False),
        ("7", int, 7),
        ("7", float, 7.0),
        ("none", int | None, None),
        ("7", int | None, 7),
        ("word", str, "word"),
    ],
)
def test_parse_value(text, annotation, value):
    parsed = parse_value("knob", text, annotation)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(("text", "annotation"), [("maybe", bool), ("7.5", int), ("none", int), ("x", float | None)])
def test_parse_value_refuses(text, annotation):
    with pytest.raises(InvalidInput, match="option knob must be"):
        parse_value("knob", text, annotation)


def test_unknown_names_have_their_nearest():
    with pytest.raises(InvalidInput, match="did you mean ucbvi"):
        make_learner("ucbv")
    with pytest.raises(InvalidInput, match="did you mean threshold"):
        make_learner("ucbvi", treshold=1.0)
    with pytest.raises(InvalidInput, match="unknown option of learner ucbvi: 'name'"):
        make_learner("ucbvi", name="other")


def test_every_learner_says_how_far_it_is_proved():
    assert all(entry.standing for entry in LEARNERS.values())
    assert with_standing("obi") == f"obi ({LEARNERS['obi'].standing})"
    learners.register("own", UCBVI)
    try:
        assert with_standing("own") == "own"  # nobody knows
    finally:
        LEARNERS.forget("own")
    assert with_standing("somebody-elses") == "somebody-elses"
