"""Run on a table, replay on a neighbour with every noisy output frozen: nothing else may differ (after dp-recorder).

Whoever sees outputs alone must not be able to tell the two runs apart, so with the outputs of the first run the second
one must ask for the same noise in the same order and end in the same result; and what went into the noise may differ by
the stated sensitivity at most. The recorder sits where noise meets values (``accumulator.noisy``).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import polars
import pytest

import discreet
import discreet.data
from discreet.base.streams import COINS, NOISE, generator, stream
from discreet.learners.base import Problem
from discreet.mechanisms.messages.device_reports import tally_records
from discreet.mechanisms.release import Request
from discreet.mechanisms.sums import accumulator
from discreet.mechanisms.sums.accumulator import SimulatedNoise
from discreet.mechanisms.trajectories import Trajectories
from discreet.offline import evaluate, train
from discreet.recipes.registry import build


class Leak(AssertionError):
    """The second run can be told from the first by something else than its outputs."""


class Recorder:
    """Keeps what goes into noise and comes out of it; when it replays, what came out of it comes out again."""

    def __init__(self) -> None:
        self.runs: list[list[tuple[Any, np.ndarray, np.ndarray]]] = []

    def noisy(self, values, law, copies, noise):
        if not self.runs:
            return values + noise.draw(law, copies, len(values))
        kept = self.runs[-1]
        if len(self.runs) == 1:
            out = values + noise.draw(law, copies, len(values))
        elif len(kept) == len(self.runs[0]):
            raise Leak("more noise is asked for")
        else:
            asked, before, out = self.runs[0][len(kept)]
            if asked != (law, copies) or len(before) != len(values):
                raise Leak("other noise is asked for")
        kept.append(((law, copies), values.copy(), out.copy()))
        return out.copy()

    def both(self, run: Callable[[Any], Any], one: Any, other: Any) -> float:
        """Run twice; how far apart is what went into the noise, in L1."""
        results = []
        for given in (one, other):
            self.runs.append([])
            results.append(run(given))
        first, second = self.runs
        if len(first) != len(second) or results[0] != results[1]:
            raise Leak("the results differ, or less noise is asked for")
        assert first
        return sum(float(np.abs(a - b).sum()) for (_, a, _), (_, b, _) in zip(first, second, strict=True))


@pytest.fixture
def recorder(monkeypatch) -> Recorder:
    """In place of the seam, wherever it was imported to."""
    made, real = Recorder(), accumulator.noisy
    for module in [each for name, each in sys.modules.items() if name.startswith("discreet.")]:
        if getattr(module, "noisy", None) is real:
            monkeypatch.setattr(module, "noisy", made.noisy)
    return made


USERS, H = 40, 2


def table(seed: int, replaced: int | None = None, extra: int = 0) -> discreet.data.Table:
    """Whole episodes of 40 people with rewards 0 or 1; one of them may be somebody else, who may have no row at all."""
    rng, other = np.random.default_rng(seed), np.random.default_rng(seed + 1000)
    rows = []
    for user in range(USERS):
        own = rng.integers(0, 2, size=(H, 3))
        if user == replaced:
            own = other.integers(0, 2, size=(H, 3))
        rows += [(user, step, *map(int, own[step])) for step in range(H)]
    rows += [(USERS + each, 0, 0, 0, 1) for each in range(extra)]
    frame = polars.DataFrame(rows, schema=["who", "day", "state", "drug", "r"], orient="row")
    return discreet.data.read(
        frame, user="who", step="day", state="state", action="drug", reward="r", states=2, actions=2, horizon=H
    )


def stated(facts: dict[str, Any]) -> float:
    """The L1 norms of all releases together."""
    return sum(each["sensitivity"]["l1"] for each in facts["mechanisms"])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("target", [{"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-5}], ids=str)
def test_training_shows_its_releases_alone(recorder, seed, target) -> None:
    kept: list[dict[str, Any]] = []

    def run(data):
        fit = train(data, **target)
        kept.append(fit.facts)
        return fit.policy, fit.values.tolist(), fit.guarantee.statement()

    distance = recorder.both(run, table(seed), table(seed, replaced=7))
    assert 0 < distance <= stated(kept[0]) == stated(kept[1])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("behaviour", ["uniform", None], ids=str)
def test_an_evaluation_shows_its_releases_alone(recorder, tmp_path, seed, behaviour) -> None:
    train(table(seed), epsilon=1.0, holdout=0.4, split=tmp_path / "split.json", behaviour="uniform")
    kept: list[dict[str, Any]] = []
    policy = discreet.Policy([[0, 1], [1, 0]])

    def run(data):
        found = evaluate(data, policy, epsilon=2.0, behaviour=behaviour, split=tmp_path / "split.json")
        kept.append(found.facts)
        return found.value, found.behaviour, found.difference, found.guarantee.statement()

    distance = recorder.both(run, table(seed), table(seed, replaced=7))
    assert distance <= stated(kept[0]) == stated(kept[1])


class People:
    """Who acts under the policy that she is given, by chance of her own; ``replaced`` is somebody else."""

    def __init__(self, shape: discreet.Shape, replaced: int | None = None, counted: int = 1) -> None:
        self.shape, self.replaced, self.counted, self.next = shape, replaced, counted, 0

    def tally(self, encoders, context, users):
        found = [np.zeros(encoder.size) for encoder in encoders]
        for user in range(self.next, self.next + users):
            rng = np.random.default_rng([user, user == self.replaced])
            states = rng.integers(0, self.shape.states, self.shape.horizon)
            states[0] = 0 if self.shape.start is not None else states[0]
            actions = context.policy.actions[np.arange(self.shape.horizon), states]
            rewards = rng.integers(0, 2, self.shape.horizon).astype(float)
            record = Trajectories.from_arrays(states, actions, rewards, self.shape)
            for _ in range(self.counted if user == self.replaced else 1):
                for total, tally in zip(found, tally_records(encoders, context, record), strict=True):
                    total += tally
        self.next += users
        return found


RECIPES = (
    "central/joint-histogram-laplace", "central/joint-histogram-gaussian", "central/three-tables-laplace",
    "central/two-tables-laplace", "central/focused-first-visit-laplace", "central/joint-histogram-matrix",
)  # fmt: skip
ALL = 60


def played(recipe: str) -> Callable[[People], Any]:
    """A whole session of a learner; its plans are the result."""
    shape = discreet.Shape(2, 2, 3, homogeneous="first-visit" in recipe)
    privatizer = build(discreet.Central(2.0, 1e-5, recipe=recipe, options={"blocks": 4}), shape, ALL)

    def run(people: People) -> Any:
        learner = discreet.learners.UCBVI()
        session = privatizer.open(people, SimulatedNoise(generator(0, 0, NOISE)), ALL)
        state, plans = learner.init(Problem(shape, ALL), stream(0, 0, COINS)), []
        while session.left:
            policy = learner.policy(state)
            plans.append(policy.actions.tolist())
            state = learner.update(state, session.answer(Request(policy)))
        return plans

    return run


def of(recipe: str) -> float:
    """What a user moves, by the encoder's own statement; the matrix shows her in every release."""
    shape = discreet.Shape(2, 2, 3, homogeneous="first-visit" in recipe)
    channel = build(discreet.Central(2.0, 1e-5, recipe=recipe, options={"blocks": 4}), shape, ALL).channels[0]
    own = channel.encoder.sensitivity()
    return channel.accumulator.sensitivity(own).l1 if recipe.endswith("matrix") else own.l1


def shape_of(recipe: str) -> discreet.Shape:
    return discreet.Shape(2, 2, 3, homogeneous="first-visit" in recipe)


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("replaced", [0, 20, 59])
def test_a_session_shows_its_releases_alone(recorder, recipe, replaced) -> None:
    shape = shape_of(recipe)
    distance = recorder.both(played(recipe), People(shape), People(shape, replaced))
    assert 0 < distance <= of(recipe)


def test_a_user_who_counts_twice_is_found(recorder) -> None:
    recipe = "central/joint-histogram-laplace"
    shape = shape_of(recipe)
    found = [Recorder.both(recorder, played(recipe), People(shape), People(shape, 20, counted=4))]
    assert found[0] > of(recipe)


@pytest.mark.parametrize("leak", ["size", "law", "number", "result"])
def test_a_run_that_looks_at_its_data_is_found(recorder, leak) -> None:
    """The twin: four ways to tell two tables apart without an output."""

    def run(cells: np.ndarray) -> Any:
        noise, law, some = SimulatedNoise(generator(0, 0, NOISE)), discreet.noise.DiscreteLaplace(1.0), cells[cells > 0]
        if leak == "size":
            recorder.noisy(some, law, 1, noise)
        elif leak == "law":
            recorder.noisy(cells, discreet.noise.DiscreteLaplace(1.0 + len(some)), 1, noise)
        else:
            for _ in range(len(some) if leak == "number" else 1):
                recorder.noisy(cells, law, 1, noise)
        return len(some) if leak == "result" else 0

    with pytest.raises(Leak):
        recorder.both(run, np.array([1.0, 1.0, 0.0]), np.array([1.0, 0.0, 0.0]))
