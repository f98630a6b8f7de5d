"""Counters and items of shuffled studies: a device numbers them as the server does, in every form there is.

Records are encoded twice, by the device's plain Python and by the encoders that simulations use, and must set the same
cells. Both sides share no code.
"""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

import discreet
from discreet.base.policies import Policy, StochasticPolicy
from discreet.base.shape import Shape
from discreet.client.policy import Policy as DevicePolicy
from discreet.client.questions import questions_of, set_by
from discreet.client.study import Kind, Study
from discreet.mechanisms.counts.encoder import Context, encode
from discreet.mechanisms.messages.shuffled_item import ItemChannel
from discreet.mechanisms.trajectories import Trajectories
from discreet.recipes.registry import build

# By recipe: the layout that devices are told, and whether only first visits count.
RECIPES = {
    "joint-histogram": ("joint", False),
    "first-visit": ("joint", True),
    "first-visit-tables": ("tables", True),
    "three-tables": ("tables", False),
    "two-tables": ("two-tables", False),
    "first-visit-two-tables": ("two-tables", True),
}


def shapes():
    for horizon, homogeneous, start in itertools.product((1, 2, 3), (True, False), (None, 1)):
        yield Shape(3, 2, horizon, homogeneous=homogeneous, start=start)


def device_study(shape: Shape, form: dict, early_end: bool) -> Study:
    kind = Kind(
        form["kind"], masked=form["masked"], layout=form.get("layout", ""), groups=form["groups"],
        first_visits=form.get("first_visits", False),
    )  # fmt: skip
    return Study(
        "", "", shape.states, shape.actions, shape.horizon, None, None, shape.start, (0.0, 1.0), early_end, "shuffle",
        1.0, 1e-5, 1, 1, "", kind,
    )  # fmt: skip


def policies(shape: Shape, chance: random.Random):
    """One that says actions and one that draws some of them, for both sides."""
    actions = [[chance.randrange(shape.actions) for _ in range(shape.states)] for _ in range(shape.horizon)]
    yield Policy(np.array(actions)), DevicePolicy(actions, None)
    rows = [[chance.choice(([1.0, 0.0], [0.0, 1.0], [0.25, 0.75])) for _ in range(shape.states)] for _ in actions]
    yield StochasticPolicy(np.array(rows)), DevicePolicy(None, rows)


def record_of(shape: Shape, policy: DevicePolicy, length: int, chance: random.Random):
    """An episode that the policy can have, with rewards of zero and one."""
    state = chance.randrange(shape.states) if shape.start is None else shape.start
    record = []
    for step in range(length):
        action = chance.choice([a for a in range(shape.actions) if policy.plays(step, state, a)])
        record.append((state, action, float(chance.randrange(2))))
        state = chance.randrange(shape.states)
    return record


def encoded(encoder, shape: Shape, record) -> np.ndarray:
    columns = [np.zeros((1, shape.horizon), kind) for kind in (np.int64, np.int64, np.float64)]
    for step, values in enumerate(record):
        for column, value in zip(columns, values, strict=True):
            column[0, step] = value
    users = Trajectories(*columns, np.array([len(record)]))
    return encode(encoder, users, np.array([1], np.uint64))[0]


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("name", RECIPES)
def test_devices_set_the_counters_that_encoders_set(name, masked):
    chance, found = random.Random(name), 0
    for shape in shapes():
        try:
            target = discreet.Shuffle(1.0, 1e-3, recipe=f"shuffle/{name}-randomised-response",
                                      options={"blocks": 2, "masked": masked})  # fmt: skip
            (channel,) = build(target, shape, 8, frozenset()).channels
        except discreet.base.errors.DiscreetError:
            continue  # first visits need equal steps, and joint cells that are pooled move by more than one
        form = channel.form(masked)
        assert (form["layout"], form["first_visits"]) == RECIPES[name]
        study = device_study(shape, form, early_end=True)
        for policy, own in policies(shape, chance):
            cells = channel.counters(Context(policy), masked)
            (counters,) = questions_of(study, own)
            assert counters.size == len(cells) == channel.terms(Context(policy), 4, masked).messages
            for _ in range(12):
                record = record_of(shape, own, chance.randrange(shape.horizon + 1), chance)
                bits = [int(reward) for _state, _action, reward in record]
                true = np.flatnonzero(encoded(channel.encoder, shape, record)[cells])
                assert set_by(study, counters, record, bits) == set(true.tolist())
                found += 1
    assert found > 70


@pytest.mark.parametrize("early_end", [True, False])
@pytest.mark.parametrize("masked", [True, False])
def test_devices_number_items_as_channels_do(masked, early_end):
    chance, found = random.Random(7), 0
    for shape in shapes():
        if shape.horizon == 1 and shape.homogeneous:
            continue
        target = discreet.Shuffle(
            1.0, 1e-3, recipe="shuffle/sampled-item", options={"blocks": 2, "masked": masked, "early_end": early_end}
        )
        (channel,) = build(target, shape, 8, frozenset()).channels
        assert isinstance(channel, ItemChannel)
        study = device_study(shape, channel.form(masked), early_end)
        for policy, own in policies(shape, chance):
            items = channel.items(policy, masked)
            places = [tuple(int(i) for i in place) for place in np.argwhere(items.cells)]
            (question,) = questions_of(study, own)
            assert question.size == items.number
            for cell in np.ndindex(*items.cells.shape):
                number = places.index(cell) if cell in places else None
                assert question.number(cell[:3], *cell[3:]) == number
            found += 1
    assert found > 15
