"""What a prompt and a notebook show of results, guarantees, recipes, worlds, releases and policies."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

import discreet
from discreet.base.policies import uniform_policy
from discreet.recipes.registry import build
from discreet.simulation.result import with_error

WORLD = discreet.worlds.river_swim(states=3, horizon=3)
PRIVACY = discreet.Central(1.0, 1e-6, options={"blocks": 4})
ACTIONS = np.array([[0, 1, 1], [1, 1, 0], [0, 0, 0]])


@pytest.fixture(scope="module")
def things(tmp_path_factory):
    """One of everything that people look at."""
    folder = tmp_path_factory.mktemp("runs")
    result = discreet.simulate(WORLD, "ucbvi", PRIVACY, episodes=40, runs=2, keep_release=True)
    result.save(folder)
    offline = discreet.simulate(WORLD, "apvi", discreet.Central(1.0), episodes=50, runs=2, behaviour="uniform")
    labelled = discreet.Policy(ACTIONS, ["a & b", "<c>", "d"], ["wait", "go"])
    return {
        "result": result,
        "saved result": discreet.load_result(folder),
        "single run": discreet.simulate(WORLD, "ucbvi", episodes=5),
        "offline result": offline,
        "comparison": discreet.compare([result, discreet.simulate(WORLD, "ucbvi", episodes=40, runs=2)]),
        "offline comparison": discreet.compare([offline]),
        "guarantee": result.guarantee,
        "no guarantee": build(discreet.NoPrivacy(), WORLD.shape, 10).guarantee,
        "rho": build(discreet.Central(rho=0.5), WORLD.shape, 10).guarantee,
        "release": result.releases[0],
        "recipe": discreet.recipes("central")[0],
        "calibration": discreet.calibrate(PRIVACY, WORLD.shape, episodes=40),
        "world": WORLD,
        "family": discreet.worlds.random_mdp(),
        "layered world": discreet.worlds.make_world("layered", instance=1),
        "heavy tails": discreet.worlds.river_swim(states=3, horizon=3, rewards="pareto"),
        "policy": discreet.Policy(ACTIONS),
        "labelled policy": labelled,
        "long policy": discreet.Policy(np.zeros((40, 50), int)),
        "stochastic policy": uniform_policy(WORLD.shape),
        "mixture": discreet.Mixture((labelled, labelled), [0.25, 0.75]),
        "audit": discreet.audit("broken/noise-halved", discreet.Shape(2, 2, 2), trials=2_000),
        "rehearsal": discreet.rehearse(
            WORLD, PRIVACY, episodes=20, recipes=["central/joint-histogram-gaussian"], runs=2
        ),
    }


NAMES = (
    "result", "saved result", "single run", "offline result", "comparison", "offline comparison", "guarantee",
    "no guarantee", "rho", "release", "recipe", "calibration", "world", "family", "layered world", "heavy tails",
    "policy", "labelled policy", "long policy", "stochastic policy", "mixture", "audit", "rehearsal",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_repr_is_one_short_line_and_html_one_small_table(things, name):
    thing = things[name]
    text = repr(thing)
    assert "\n" not in text
    assert 10 < len(text) < 120
    assert text.startswith("<")
    assert text.endswith(">")
    html = thing._repr_html_()
    assert len(html) < 40_000
    tree = ElementTree.fromstring(html)
    assert len(list(tree.iter("tr"))) >= 1


def test_everything_that_is_shown_is_tried(things):
    assert tuple(things) == NAMES


def test_reprs_say_what_matters(things):
    assert "ucbvi in river-swim-3, 40 episodes, 2 runs, regret" in repr(things["result"])
    assert "joint, epsilon 1, delta 1e-06" in repr(things["result"])
    assert repr(things["saved result"]) == repr(things["result"])
    assert repr(things["no guarantee"]) == "<Guarantee: no privacy>"
    assert "rho 0.5" in repr(things["rho"])
    assert repr(things["policy"]) == "<Policy: 3 steps, 3 states>"
    assert "labelled" in repr(things["labelled policy"])
    assert "FALSE" in repr(things["audit"])
    assert "drawn anew" in repr(things["family"])


def test_epsilons_in_reprs_are_rounded_up(things):
    guarantee = build(discreet.Central(1.00049, recipe="central/joint-histogram-laplace"), WORLD.shape, 10).guarantee
    assert guarantee.epsilon < 1.001
    assert "epsilon 1.001" in repr(guarantee)


def test_a_policy_shows_labels_and_a_long_one_its_beginning(things):
    html = things["labelled policy"]._repr_html_()
    words = [cell.text for cell in ElementTree.fromstring(html).iter("td")]
    assert words[:4] == ["a & b", "wait", "go", "wait"]
    assert "the first of 40 steps, 50 states" in things["long policy"]._repr_html_()
    assert "the first of" not in things["policy"]._repr_html_()
    wide = discreet.Policy(np.zeros((3, 50), int))
    assert "the first of" in wide._repr_html_()


def test_recipes_are_a_tuple_that_shows_itself():
    found = discreet.recipes("local")
    assert isinstance(found, tuple)
    assert repr(found).count("\n") == len(found)
    rows = list(ElementTree.fromstring(found._repr_html_()).iter("tr"))
    assert len(rows) == len(found) + 1
    assert all(len(repr(recipe)) < 120 for recipe in discreet.recipes())


def test_a_single_run_has_no_error_bar(things):
    single = things["single run"]
    assert "±" not in single.summary()
    assert "(1 run)" in single.summary()
    assert single.as_dict()["regret"]["std"] is None
    assert not [value for _, value in single.facts() if "±" in value]
    assert "±" in things["result"].summary()
    assert "(2 runs)" in things["result"].summary()


def test_a_mean_with_its_error():
    values = np.array([1.0, 2.0, 6.0])
    assert with_error(values, ".3f") == "3.000 ± 1.528"  # the deviation is sqrt(7), of three runs
    assert with_error(values[:1], ".3f") == "1.000"
