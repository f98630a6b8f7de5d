"""What commands print and write, and that they say what the library says."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from discreet import Central, calibrate, load_result, simulate
from discreet.learners.registry import LEARNERS
from discreet.learners.ucbvi import UCBVI
from discreet.papers import PUBLISHED
from discreet.recipes.registry import recipes
from discreet.worlds import WORLDS, random_mdp, river_swim

SMALL = ("--states", "3", "--horizon", "4", "--episodes", "40", "--runs", "2", "--seed", "3")
CENTRAL = ("--privacy", "central", "--epsilon", "1", "--delta", "1e-5")


def without_time(data):
    return {name: value for name, value in data.items() if name != "seconds"}


def test_simulate_writes_what_the_library_computes(discreet, tmp_path):
    file = tmp_path / "result.json"
    outcome = discreet(
        "simulate", *SMALL, *CENTRAL, "--option", "threshold=0.5", "--option", "blocks=4", "--json", str(file)
    )
    target = Central(1.0, 1e-5, options={"blocks": 4})
    expected = simulate(river_swim(3, 4), UCBVI(threshold=0.5), target, episodes=40, runs=2, seed=3)
    assert outcome.code == 0, outcome.err
    assert without_time(json.loads(file.read_text())) == without_time(expected.as_dict())
    assert outcome.out.rstrip().endswith(expected.statement)
    assert expected.recipe in outcome.out
    assert "river-swim-3" in outcome.out


def test_simulate_json_has_the_keys_that_are_promised(discreet, tmp_path):
    file = tmp_path / "result.json"
    assert discreet("simulate", *SMALL, *CENTRAL, "--json", str(file)).code == 0
    data = json.loads(file.read_text())
    promised = (
        "world learner privacy recipe episodes runs seed regret checkpoints curve final_gap switches guarantee seconds"
    )
    assert set(promised.split()) <= data.keys()
    assert {"mean", "std", "per_run"} <= data["regret"].keys()
    assert {"mean", "per_run"} <= data["final_gap"].keys()
    assert {"mean", "per_run", "deterministic"} <= data["switches"].keys()
    assert {"model", "epsilon", "delta", "rho", "neighbours", "unit", "claimed"} <= data["guarantee"].keys()


def test_simulate_saves_and_draws(discreet, tmp_path):
    outcome = discreet(
        "simulate", *SMALL, *CENTRAL, "--save", str(tmp_path / "run"), "--plot", str(tmp_path / "regret.svg")
    )
    assert outcome.code == 0, outcome.err
    assert load_result(tmp_path / "run").runs == 2
    assert "<svg" in (tmp_path / "regret.svg").read_text()


def test_world_options_reach_the_world(discreet, tmp_path):
    file = tmp_path / "result.json"
    world = ("--world", "random-mdp", "--instance", "5", "--actions", "3", "--world-option", "alpha=0.7", "--per-step")
    assert discreet("simulate", *world, *CENTRAL, "--episodes", "30", "--runs", "1", "--json", str(file)).code == 0
    same = random_mdp(actions=3, alpha=0.7, instance=5).with_time(False)
    expected = simulate(same, UCBVI(), Central(1.0, 1e-5), episodes=30)
    assert json.loads(file.read_text())["regret"] == expected.as_dict()["regret"]


def test_calibrate_says_what_the_library_says(discreet, tmp_path):
    file = tmp_path / "calibration.json"
    outcome = discreet("calibrate", "--states", "4", "--horizon", "6", "--epsilon", "1", "--json", str(file))
    expected = calibrate(Central(1.0), river_swim(4, 6).shape, learner=UCBVI(), episodes=20_000)
    assert outcome.code == 0, outcome.err
    assert json.loads(file.read_text()) == expected.as_dict()
    assert outcome.out.rstrip().endswith(expected.guarantee.explain())
    said = " ".join(outcome.out.split())  # long lines are wrapped
    for part in (expected.recipe, expected.law, f"{expected.errors[0].width_end:.4g}"):
        assert part in said


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("recipes", [*(r.name for r in recipes()), *PUBLISHED]),
        ("worlds", list(WORLDS)),
        ("learners", [*LEARNERS]),
    ],
)
def test_catalogues_list_everything_with_options(discreet, tmp_path, command, names):
    file = tmp_path / "list.json"
    outcome = discreet(command, "--json", str(file))
    entries = json.loads(file.read_text())
    assert [entry["name"] for entry in entries] == names
    shown = outcome.out + (discreet("recipes", "--papers").out if command == "recipes" else "")
    assert all(name in shown.split() for name in names)
    for entry in entries:
        assert entry["summary"]
        if command != "recipes":  # a recipe's options have a table of their own
            assert all(f"{option}=" in outcome.out for option in entry["options"])


def test_what_papers_really_promise_is_computed_when_it_is_asked_for(discreet):
    plain, told = (" ".join(discreet("recipes", "--model", "local", *more).out.split()) for more in ((), ("--papers",)))
    assert "claimed:" not in plain
    assert "local/published-psrl" in plain.partition("As papers print them")[2]
    assert (
        "claimed: epsilon 1; true: epsilon 0.875; runs as: local/published-psrl, which sends less: epsilon 0.625"
        in told
    )
    assert "true: epsilon 0.8334; runs as: local/published-laplace" in told


def test_recipes_of_one_model(discreet):
    outcome = discreet("recipes", "--model", "local")
    assert "local/joint-histogram-laplace" in outcome.out
    assert "central/" not in outcome.out


def test_version(discreet):
    outcome = discreet("--version")
    assert outcome.code == 0
    assert outcome.out.startswith("discreet ")


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom discreet.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as stop:\n    assert not stop.code\n"
        "heavy = {'numpy', 'numba', 'scipy', 'matplotlib', 'dp_accounting', 'opendp'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "simulate" in done.stdout
