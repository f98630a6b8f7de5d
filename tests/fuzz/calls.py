"""Calls of the Python interface with wrong values and wrong types: a right call, one or two arguments of which are odd.

Every call is small, so that it is over at once where the odd value happens to be right.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import discreet
import discreet.data
import discreet.noise
import discreet.offline
from discreet.audit.audit import audit
from discreet.base.files import check_writable, write_atomically
from discreet.base.policies import labelled, uniform_policy
from discreet.base.shape import Moments, Shape, layered_shape
from discreet.learners.registry import LEARNERS, make_learner, offline_learner
from discreet.recipes.registry import find
from discreet.worlds.catalogue import from_arrays
from discreet.worlds.planning.reward_units import in_owner_units
from discreet.worlds.registry import WORLDS, make_world

from .odd_values import odd, odd_text

Call = Callable[[np.random.Generator], Any]
SHAPE = Shape(2, 2, 2)
POLICY = discreet.Policy([[0, 1], [1, 0]], ("low", "high"), ("rest", "walk"))
DRAWS = discreet.StochasticPolicy(np.full((2, 2, 2), 0.5))
MIXED = discreet.Mixture((POLICY, POLICY), [0.5, 0.5])
_COUNTS = (
    "episodes",
    "runs",
    "users",
    "trials",
    "blocks",
    "arms",
    "questions",
)  # more of them is no mistake, only slow
_MANY = 40


def spoiled(rng: np.random.Generator, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments with one or two of them replaced; never by so large a number that a right call would take long."""
    out = dict(arguments)
    for name in rng.permutation(list(arguments))[: 1 + int(rng.random() < 0.3)].tolist():
        value = odd(rng)
        if name in _COUNTS and isinstance(value, int | np.integer) and value > _MANY:
            value = 3
        out[name] = value
    return out


def call(function: Callable[..., Any], **arguments: Any) -> Call:
    """A call of a function with some arguments spoiled."""
    return lambda rng: function(**spoiled(rng, arguments))


def learner(rng: np.random.Generator) -> Any:
    """A learner with odd knobs, from Python or as text."""
    name = str(rng.choice(list(LEARNERS)))
    knobs = list(LEARNERS[name].options)
    chosen = rng.permutation(knobs)[: 1 + int(rng.random() < 0.3)].tolist() if knobs else []
    if rng.random() < 0.5:
        return make_learner(name, **{knob: odd_text(rng) for knob in chosen})
    return LEARNERS[name].make(**{knob: odd(rng) for knob in chosen})


_SIZES = {"states": 3, "actions": 2, "horizon": 3, "arms": 3, "layers": 3}
_QUICK = ["river-swim", "random-mdp", "bandit", "hard-local", "hard-central", "hard-tree", "layered", "frozen-lake"]


def world(rng: np.random.Generator) -> Any:
    """A world with odd options."""
    name = str(rng.choice(_QUICK))
    options = WORLDS[name].options
    small = {option: _SIZES[option] for option in options if option in _SIZES}
    chosen = rng.permutation(list(options))[: 1 + int(rng.random() < 0.3)].tolist()
    values = {option: odd_text(rng) if rng.random() < 0.3 else odd(rng) for option in chosen}
    return make_world(name, **{**small, **values})


def act(rng: np.random.Generator) -> Any:
    """Act by a policy, with everything right but one thing."""
    policy = (POLICY, DRAWS, MIXED)[int(rng.integers(3))]
    return policy.act(**spoiled(rng, {"step": 0, "state": "low", "rng": rng}))


def policy_file(folder: Path, rng: np.random.Generator) -> Any:
    """Save to, or load from, an odd name."""
    name = odd(rng) if rng.random() < 0.5 else folder / odd_text(rng)
    if rng.random() < 0.5:
        return discreet.load_policy(name)
    if isinstance(name, str | bytes | Path) and not str(name).startswith(str(folder)):
        name = folder / str(name).strip("/")  # never write elsewhere
    return POLICY.save(name)


def release(rng: np.random.Generator) -> Any:
    """Calibrate an odd target, or a right one with odd sizes."""
    kind = (discreet.Central, discreet.Local, discreet.Shuffle)[int(rng.integers(3))]
    target = {"epsilon": 1.0, "delta": 1e-5}
    if rng.random() < 0.7:
        target = spoiled(rng, target)
    options = (
        {str(rng.choice(["growth", "blocks", "pooling", "steps", "masked"])): odd(rng)} if rng.random() < 0.3 else {}
    )
    arguments = {"episodes": 50, "failure_probability": 0.1}
    return discreet.calibrate(kind(**target, options=options), SHAPE, **spoiled(rng, arguments))


def run(rng: np.random.Generator) -> Any:
    """A tiny simulation with something odd about it."""
    arguments = {"learner": "ucbvi", "episodes": 5, "runs": 1, "seed": 0, "threads": 1, "privacy": None}
    return discreet.simulate(TINY, **spoiled(rng, arguments))


def run_offline(rng: np.random.Generator) -> Any:
    """A tiny offline simulation with something odd about it."""
    arguments = {
        "learner": "apvi",
        "users": 5,
        "behaviour": "uniform",
        "runs": 1,
        "known_rewards": False,
        "options": None,
    }
    return discreet.offline.simulate(TINY, **spoiled(rng, arguments))


TINY = make_world("river-swim", states=3, horizon=2)
TABLE = {
    "user": "u", "step": "t", "state": "s", "action": "a", "reward": "r", "states": 2, "actions": 2, "horizon": 2,
    "rewards": (0, 1), "missing_reward": None, "per_user": 1, "homogeneous": False, "early_end": True, "first_step": 0,
    "episode": None, "next_state": None, "table": None,
}  # fmt: skip
TRAINED = {
    "learner": "apvi", "epsilon": 1.0, "delta": 1e-5, "rho": None, "recipe": "auto", "known_rewards": None,
    "features": None, "options": None, "recipe_options": None, "sampler": None,
}  # fmt: skip


def sources(folder: Path) -> tuple[Call, Call]:
    """Declare a table, and train on one."""
    file = folder / "rows.csv"
    file.write_text("u,t,s,a,r\n" + "".join(f"{u},{t},{u % 2},{t % 2},1\n" for u in range(20) for t in range(2)))
    table = discreet.data.read(file, **TABLE)

    def train(rng: np.random.Generator) -> Any:
        return discreet.offline.train(table, **spoiled(rng, TRAINED))

    return call(discreet.data.read, source=file, **TABLE), train


def trial(rng: np.random.Generator) -> Any:
    """A tiny audit with something odd about it."""
    arguments = {"privacy": discreet.Central(1.0), "episodes": 5, "trials": 20, "seed": 0, "confidence": 0.9}
    return audit(shape=SHAPE, **spoiled(rng, arguments))


def laws() -> list[Call]:
    """Noise laws with odd parameters."""
    from discreet.noise import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
    from discreet.noise.exact_distribution import exact_laplace

    return [call(DiscreteGaussian, sigma=1.0), call(Gaussian, sigma=1.0), call(DiscreteLaplace, scale=1.0),
            call(Laplace, scale=1.0), call(partial(DiscreteGaussian(2.0).secure_by, size=3), sampler="discreet"),
            call(exact_laplace, scale=3.0)]  # fmt: skip


def cheap_calls(folder: Path) -> list[Call]:
    """Calls that take microseconds."""
    guarantee = discreet.calibrate(discreet.Central(1.0), SHAPE, episodes=10).guarantee
    return [
        call(Shape, states=2, actions=2, horizon=2, homogeneous=False, rewards=(0, 1), start=None),
        call(Moments, bound=1.0, order=1.0),
        call(layered_shape, sizes=(1, 2, 1), actions=2),
        call(discreet.Policy, actions=[[0, 1], [1, 0]], state_labels=None, action_labels=None),
        call(discreet.StochasticPolicy, probabilities=np.full((1, 2, 2), 0.5), state_labels=None, action_labels=None),
        call(discreet.Mixture, components=(POLICY, POLICY), weights=[0.5, 0.5]),
        call(POLICY.stochastic, actions=2),
        call(partial(labelled, POLICY), state_labels=("a", "b"), action_labels=("c", "d")),
        act,
        *(call(kind, epsilon=1.0, delta=1e-5, rho=None, recipe="auto", options={})
          for kind in (discreet.Central, discreet.Local, discreet.Shuffle, discreet.NoPrivacy)),
        learner,
        call(guarantee.epsilon_at, delta=1e-5),
        call(guarantee.delta_at, epsilon=1.0),
        call(from_arrays, transitions=np.full((2, 2, 2), 0.5), rewards=np.zeros((2, 2)), horizon=2, start=0,
             reward_range=(0, 1), reward_law="bernoulli"),
        call(TINY.with_time, homogeneous=True),
        lambda rng: discreet.recipes(odd(rng)),
        lambda rng: find(str(odd_text(rng)), "central"),
        lambda rng: offline_learner(odd(rng)),
        partial(policy_file, folder),
        lambda rng: check_writable(odd(rng)),
        lambda rng: write_atomically(folder / odd_text(rng).strip("/"), "x"),
        lambda rng: in_owner_units(SHAPE, np.zeros((3, 2))),
        *laws(),
    ]  # fmt: skip


def dear_calls(folder: Path) -> list[Call]:
    """Calls that take milliseconds where their arguments are right."""
    declare, train = sources(folder)
    return [world, release, run, run_offline, declare, train, trial, lambda rng: TINY.value(discreet.Policy(odd(rng))),
            lambda rng: uniform_policy(Shape(*(int(n) for n in 2 ** rng.integers(0, 40, 3))))]  # fmt: skip
