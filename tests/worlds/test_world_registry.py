"""Worlds by name, with options as a command line gives them."""

from __future__ import annotations

import pytest

from discreet import worlds
from discreet.base.errors import InvalidInput
from discreet.worlds import WORLDS, TabularWorld, World, WorldFamily, make_world


@pytest.mark.parametrize("name", WORLDS)
def test_every_named_world_has_a_default_for_every_option(name):
    world = make_world(name)
    assert isinstance(world, World | WorldFamily)
    assert WORLDS[name].summary
    explicit = make_world(name, **WORLDS[name].options)
    assert explicit.shape == world.shape


def test_every_named_world_is_a_function_of_the_package():
    """Also once its module is loaded: a module of the same name would take its place."""
    for entry in WORLDS.values():
        function = entry.make
        assert getattr(worlds, function.__name__) is function
        assert function.__name__ in dir(worlds)
    assert set(worlds.__all__) == set(dir(worlds))
    assert all(getattr(worlds, name) is not None for name in worlds.__all__)


def test_options_may_be_text():
    assert make_world("river-swim", states="4", horizon=6).shape.states == 4
    assert isinstance(make_world("random-mdp", alpha="0.5", instance="3"), TabularWorld)
    assert isinstance(make_world("random-mdp", instance="none"), WorldFamily)
    assert make_world("bandit", arms="3", instance="0").means.shape == (1, 1, 3)
    still = make_world("frozen-lake", size="4x4", slippery="No", horizon="6")
    assert still.optimal_value == 1.0
    assert make_world("frozen-lake", slippery="true", horizon=6).optimal_value < 0.1


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("riverswim", {}, "unknown world 'riverswim': did you mean river-swim"),
        ("zzz", {}, "choose one of admission"),
        ("river-swim", {"state": 3}, "unknown option of world river-swim: 'state': did you mean states"),
        ("bandit", {"horizon": 3}, "unknown option of world bandit"),
        ("river-swim", {"states": "six"}, "option states must be a whole number, got 'six'"),
        ("river-swim", {"states": "6.5"}, "option states must be a whole number"),
        ("random-mdp", {"alpha": "much"}, "option alpha must be a number, got 'much'"),
        ("frozen-lake", {"slippery": "maybe"}, "option slippery must be true or false, got 'maybe'"),
        ("river-swim", {"states": "1"}, "at least 2, got 1"),
        ("river-swim", {"horizon": 2.5}, "horizon must be a whole number"),
    ],
)
def test_bad_names_and_options_are_refused(name, options, message):
    with pytest.raises(InvalidInput, match=message):
        make_world(name, **options)
