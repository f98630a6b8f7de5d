"""Thresholds that follow released counts: sensitivity by brute force, no look at raw data, noise and bias as stated."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import discreet
from discreet.audit.trials import FixedUsers
from discreet.base.errors import InvalidInput
from discreet.base.policies import uniform_policy
from discreet.base.shape import Moments, Shape
from discreet.base.streams import USERS, stream
from discreet.mechanisms.counts.encoder import Context, encode
from discreet.mechanisms.release import Request
from discreet.mechanisms.sums.accumulator import SimulatedNoise
from discreet.mechanisms.trajectories import Trajectories
from discreet.problems.heavy_tails.encoders import clipping_bias
from discreet.recipes.registry import build

SHAPE = Shape(2, 1, 2, False, (-1.0, 1.0), moments=Moments(2.0, 0.5))
RELEASED = {"thresholds": "released"}
CONTEXT = Context(uniform_policy(SHAPE))


def channel_of(model, shape=SHAPE, episodes=8, epsilon=1.0, **options):
    target = {"central": discreet.Central, "local": discreet.Local}[model]
    privacy = target(epsilon, recipe=f"{model}/heavy-tailed", options={**RELEASED, **options})
    return build(privacy, shape, episodes).channels[0]


class Recorded:
    """Noise that follows a script of standard draws, and remembers the laws and sizes it was asked for."""

    simulated = True

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def draw(self, law, copies, size):
        return np.asarray(law.draw_sum(copies, self.rng, size), np.float64)


def records(shape):
    """Every record with rewards beyond any threshold, of either sign, or none."""
    steps = list(product(range(shape.states), range(shape.actions), (-1e6, 0.0, 1e6)))
    table = np.array(list(product(steps, repeat=shape.horizon)))
    states, actions = (np.ascontiguousarray(table[:, :, i]).astype(np.int64) for i in (0, 1))
    return Trajectories(states, actions, np.ascontiguousarray(table[:, :, 2]), np.full(len(table), shape.horizon))


def one(records, i):
    rows = slice(i, i + 1)
    return Trajectories(records.states[rows], records.actions[rows], records.rewards[rows], records.lengths[rows])


def played(channel, shape, people, seed):
    """The run after all people, and the levels in force before each of them; noise depends on the seed alone."""
    run, levels = channel.start(shape, Recorded(seed), False), []
    context = Context(uniform_policy(shape))
    for record in people:
        levels.append(run.encoder_now(CONTEXT).positions)
        run.add(encode(run.encoder_now(CONTEXT), record, stream(0, 0, USERS))[0], 1, context)
    return run, levels


def node_losses(channel, levels, replaced, first, second):
    """The worst loss of the replaced user over all nodes that hold her, in units of epsilon, by definition.

    A node that closes at user t covers the users after t - (t & -t); its reward noise has the thresholds of user t.
    """
    grid, encoder, total = np.array(channel.encoder.thresholds), channel.encoder, 0.0
    own = replace(encoder, positions=levels[replaced - 1])
    one_cells, other_cells = (encode(own, record, stream(0, 0, USERS))[0] for record in (first, second))
    shift = np.abs(one_cells - other_cells)
    for t in range(replaced, len(levels) + 1):
        if channel.tree is None and t > replaced:
            break
        if channel.tree is not None and t - (t & -t) >= replaced:
            continue
        total += shift[: encoder.counts].sum() / channel.count_law.scale
        total += (shift[encoder.counts :] / (grid[np.array(levels[t - 1])] * channel.reward_law.scale)).sum()
    return total


@pytest.mark.parametrize("homogeneous", [True, False], ids=["pooled", "per-step"])
@pytest.mark.parametrize("model", ["central", "local"])
def test_no_pair_of_records_loses_more_than_epsilon(model, homogeneous):
    """All pairs of records, every place of the replaced user, under thresholds that rose at random; and it is tight."""
    shape = replace(SHAPE, homogeneous=homogeneous)
    every, channel = records(shape), channel_of(model, shape, episodes=8)
    worst, risen = 0.0, False
    for seed in range(3):
        people = [one(every, (5 * seed + 3 * i) % len(every)) for i in range(8)]
        _, levels = played(channel, shape, people, seed)
        risen |= len(set(levels)) > 2
        for replaced in (1, 3, 8):
            pairs = [(i, j) for i in range(0, len(every), 3) for j in range(len(every))]
            losses = [node_losses(channel, levels, replaced, one(every, i), one(every, j)) for i, j in pairs]
            worst = max(worst, *losses)
    assert risen, "the trial would say nothing if thresholds stood still"
    assert worst <= 1.0 + 1e-9
    assert worst > 0.9 or model == "central"  # nodes that close later are louder: the tree cannot be tight


class Made:
    """Noise made to order: counts are released as the script says, whatever the users did. Rewards get none."""

    simulated = True

    def __init__(self, channel, script):
        self.channel, self.script = channel, script
        self.raw, self.totals = np.zeros_like(script[0]), [np.zeros_like(script[0])]

    def arrive(self, counts):
        self.raw += counts

    def draw(self, law, copies, size):
        if size != len(self.raw):
            return np.zeros(size)
        t = len(self.totals)
        self.totals.append(self.script[t - 1] - self.raw)
        before = t - 1 if self.channel.tree is None else t - (t & -t)  # what the new node is added to
        return self.totals[t] - self.totals[before]


def levels_under(channel, people, script):
    noise = Made(channel, script)
    run, possible = channel.start(SHAPE, noise, False), channel.encoder.possible()[: channel.encoder.counts]
    found = []
    for t, record in enumerate(people):
        cells = encode(run.encoder_now(CONTEXT), record, stream(0, 0, USERS))[0]
        noise.arrive(cells[: channel.encoder.counts][possible])
        run.add(cells, 1, Context(uniform_policy(SHAPE)))
        released = channel.encoder.marginals(np.zeros(channel.encoder.size))["visits"].values.size
        assert run.estimates()["visits"].values.sum() == pytest.approx(script[t].sum())
        assert len(run.encoder_now(CONTEXT).positions) == released
        found.append(run.encoder_now(CONTEXT).positions)
    return found


@pytest.mark.parametrize("model", ["central", "local"])
def test_thresholds_see_releases_and_nothing_else(model):
    """Different people, noise that makes their releases equal: equal thresholds. Equal people, other noise: others."""
    every, channel = records(SHAPE), channel_of(model)
    cells, rng = int(channel.encoder.possible()[: channel.encoder.counts].sum()), np.random.default_rng(3)
    script, other = rng.normal(4, 6, (8, cells)), rng.normal(4, 6, (8, cells))
    stays, leaves = ([one(every, i)] * 8 for i in (0, 35))
    assert levels_under(channel, stays, script) == levels_under(channel, leaves, script)
    assert levels_under(channel, stays, script) != levels_under(channel, stays, other)


def test_a_level_is_the_largest_released_count_in_binary_digits():
    channel = channel_of("central", episodes=64)
    run = channel.start(SHAPE, SimulatedNoise(np.random.default_rng(5)), False)
    largest = np.ones(4)
    for t in range(1, 40):
        assert run.encoder_now(CONTEXT).positions == tuple(int(math.log2(m)) for m in largest)
        thresholds = run.public["thresholds"].reshape(-1)
        np.testing.assert_allclose(
            thresholds, [channel.encoder.thresholds[level] for level in run.encoder_now(CONTEXT).positions]
        )
        run.add(np.zeros(channel.encoder.size), 1, Context(uniform_policy(SHAPE)))
        visits = run.estimates()["visits"].values.reshape(-1)
        largest = np.maximum(largest, np.clip(visits, 1, t))  # nobody can visit more often than there were users
    assert largest.max() >= 16


def test_every_node_keeps_the_thresholds_it_closed_with():
    """The variance of a reward sum is that of its live nodes, each at the thresholds in force for its last user."""
    channel = channel_of("central", episodes=64)
    run = channel.start(SHAPE, SimulatedNoise(np.random.default_rng(5)), False)
    closed = {}
    for t in range(1, 40):
        closed[t] = run.public["thresholds"]
        run.add(np.zeros(channel.encoder.size), 1, Context(uniform_policy(SHAPE)))
        live, rest = [], t
        while rest:
            live.append(rest)
            rest -= rest & -rest
        estimates = run.estimates()
        own = estimates["rewards"].variance - estimates["visits"].variance / 4
        expected = sum(closed[node] ** 2 for node in live) * channel.reward_law.variance / 4
        np.testing.assert_allclose(own, expected)
    assert len({t.tobytes() for t in closed.values()}) > 3


def test_a_block_is_clipped_at_the_thresholds_it_opened_with():
    """In the local model everybody in a block adds noise of its thresholds, and the block's release moves the next."""
    channel = channel_of("local", episodes=100)
    run = channel.start(SHAPE, SimulatedNoise(np.random.default_rng(1)), False)
    variance = np.zeros((2, 2, 1))
    for users in (1, 4, 30, 60):
        opened = run.public["thresholds"]
        variance += users * opened**2 * channel.reward_law.variance / 4
        run.add(np.zeros(channel.encoder.size), users, Context(uniform_policy(SHAPE)))
        estimates = run.estimates()
        np.testing.assert_allclose(estimates["rewards"].variance - estimates["visits"].variance / 4, variance)
    assert (run.public["thresholds"] > opened).any()


@pytest.mark.parametrize("truncated", [True, False])
@pytest.mark.parametrize("thresholds", ["released", "index"])
def test_the_stated_bias_covers_every_way_to_visit(thresholds, truncated):
    """Whoever the users were that made the visits, the mean of their biases is at most the stated one."""
    channel = channel_of("central", episodes=32, thresholds=thresholds, truncated=truncated)
    moments, rng = SHAPE.moments, np.random.default_rng(7)
    run = channel.start(SHAPE, SimulatedNoise(rng), False)
    of_user = []
    for t in range(1, 25):
        in_force = run.public["thresholds"].reshape(-1)
        of_user.append([clipping_bias(moments, B, truncated) for B in in_force])
        run.add(np.zeros(channel.encoder.size), 1, Context(uniform_policy(SHAPE)))
        stated = run.public["clipping_bias"].reshape(-1)
        visits = np.clip(run.estimates()["visits"].values.reshape(-1), 1, t)
        for row, n in enumerate(visits.astype(int)):
            seen = np.array(of_user)[:, row]
            assert stated[row] == pytest.approx(seen[:n].mean())
            for _ in range(20):
                assert seen[rng.choice(t, n, replace=False)].mean() <= stated[row] + 1e-12


def test_learners_see_thresholds_and_bias_in_the_release():
    privacy = discreet.Central(1.0, recipe="central/heavy-tailed", options=RELEASED)
    privatizer = build(privacy, SHAPE, 8)
    people = [one(records(SHAPE), i) for i in range(8)]
    users = FixedUsers(people, stream(0, 0, USERS))
    session = privatizer.open(users, SimulatedNoise(np.random.default_rng(0)), 8)
    for _ in range(8):
        release = session.answer(Request(uniform_policy(SHAPE)))
    assert set(release.public) == {"thresholds", "clipping_bias"}
    assert release.public["thresholds"].shape == release.public["clipping_bias"].shape == (2, 2, 1)
    assert (release.public["thresholds"] > privatizer.channels[0].encoder.thresholds[0]).any()


def test_one_threshold_for_all_is_public_too():
    world = discreet.worlds.river_swim(3, 4, rewards="stable", alpha=1.8)
    result = discreet.simulate(
        world, discreet.learners.UCBVI(), discreet.Central(1.0, 1e-5), episodes=100, keep_release=True
    )
    encoder = build(discreet.Central(1.0, 1e-5), world.shape, 100).channels[0].encoder
    assert (result.releases[0].public["thresholds"] == encoder.threshold).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["none", "central", "local"])
def test_where_thresholds_come_from_is_an_option(name):
    world = discreet.worlds.river_swim(3, 4, rewards="stable", alpha=1.8)
    make = {"none": discreet.NoPrivacy, "central": discreet.Central, "local": discreet.Local}[name]
    epsilon = {} if name == "none" else {"epsilon": 2.0}
    results = [
        discreet.simulate(
            world, discreet.learners.HeavyUCBVI(),
            make(**epsilon, recipe=f"{name}/heavy-tailed", options={"thresholds": kind}), episodes=300, seed=1,
        )
        for kind in ("index", "released")
    ]  # fmt: skip
    assert results[0].guarantee.epsilon == results[1].guarantee.epsilon
    assert results[0].regret[0, -1] != results[1].regret[0, -1]
    with pytest.raises(InvalidInput, match="source of thresholds"):
        build(make(**epsilon, recipe=f"{name}/heavy-tailed", options={"thresholds": "raw"}), world.shape, 10)


def tree_of(episodes, **options):
    target = discreet.Central(1.0, recipe="central/heavy-tailed", options=options)
    return build(target, SHAPE, episodes).channels[0]


def noisy_zeros(channel, blocks, seed):
    """Released values of a run in which nobody adds anything, after each of the blocks."""
    run, released = channel.start(SHAPE, Recorded(seed), False), []
    for users in blocks:
        run.add(np.zeros(channel.encoder.size), users, CONTEXT)
        released.append((run._values.copy(), run._reward_variance.copy(), run._draws))
    return released


def test_blocks_of_one_user_are_the_tree_that_releases_after_everybody():
    every, grown = (noisy_zeros(tree_of(13, **options), [1] * 13, 0) for options in ({}, {"growth": 1e-9}))
    assert all((a[0] == b[0]).all() for a, b in zip(every, grown, strict=True))


def test_a_tree_that_releases_rarely_has_the_noise_of_the_nodes_that_a_release_sums():
    """After 5, 7 and 12 users: 4+1, 4+2+1 and 8+4, so the second has the first's node of four and new ones below it.

    Variances of 800 runs of every cell together, against those stated; the wrong number of nodes is far outside.
    False alarms: five deviations, below 1e-6 for each number.
    """
    runs, channel, rows = 800, tree_of(12, growth=0.5), []
    for seed in range(runs):
        released = noisy_zeros(channel, (5, 2, 5), seed)
        rows.append([values for values, _, _ in released])
    counts, found = channel.encoder.counts, np.array(rows)
    seen, rewards = found[:, :, :counts][:, :, channel.encoder.possible()[:counts]], found[:, :, counts:]
    unit, nodes = channel.count_law.variance, (2, 3, 2)
    assert tuple(draws for _, _, draws in released) == nodes
    for i, live in enumerate(nodes):
        assert abs(seen[:, i].var() / (unit * live) - 1) < 5 * math.sqrt(5 / seen[:, i].size)
        assert abs((rewards[:, i] ** 2).mean(axis=0) / released[i][1] - 1).max() < 5 * math.sqrt(5 / runs)
    shared = (seen[:, 0] * seen[:, 1]).mean() / unit
    assert abs(shared - 1) < 5 * math.sqrt(10 / seen[:, 0].size), "the node of the first four users is in both"
    apart = (seen[:, 1] * seen[:, 2]).mean() / unit
    assert abs(apart) < 5 * math.sqrt(6 / seen[:, 0].size), "the nodes of twelve share nothing with those of seven"


def test_a_node_that_closes_within_a_block_has_the_noise_of_its_last_user():
    """Who comes later may be clipped at more; less noise than her own threshold asks for would not hide her."""
    channel = tree_of(12, growth=0.5)
    encoder, law = channel.encoder, channel.reward_law
    assert encoder.threshold(7) < encoder.threshold(8), "or the nodes of twelve users could not be told apart"
    for (_, variance, _), last in zip(noisy_zeros(channel, (5, 2, 5), 0), ((4, 5), (4, 6, 7), (8, 12)), strict=True):
        assert variance == pytest.approx(law.variance * sum(encoder.threshold(user) ** 2 for user in last))
