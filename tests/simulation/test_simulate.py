"""``simulate``: exact regret, honest books, the same numbers whatever the threads, and a clean way out."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from threading import Barrier, Event

import numpy as np
import pytest

import discreet
from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.policies import Mixture, Policy, uniform_policy
from discreet.base.streams import COINS, generator
from discreet.learners import OBI, PSRL, UCBVI
from discreet.mechanisms.release import Request
from discreet.privacy.guarantee import drawn
from discreet.recipes.registry import build
from discreet.simulation.block_loop import checkpoints, run_blocks
from discreet.simulation.episode_loop import _truth, compiles, run_episodes
from discreet.simulation.simulate import Interrupted, _in_threads, world_of_run

RIVER = discreet.worlds.river_swim(states=3, horizon=3)
LEFT, RIGHT = (Policy(np.full((3, 3), action, np.int64)) for action in (0, 1))
FAST = discreet.NoPrivacy()
TREE = discreet.Central(1.0, recipe="central/three-tables-laplace-tree")
BLOCKS = discreet.Central(1.0, options={"blocks": 4})


@dataclass(frozen=True)
class Deploys:
    """Deploys the given policies one after the other, and the last one for ever; learns nothing."""

    policies: tuple = (RIGHT,)
    name: str = "deploys"
    needs: frozenset = frozenset()

    def init(self, problem, coins):
        return 0

    def ask(self, state):
        return Request(self.policy(state))

    def update(self, state, release):
        return state + 1

    def policy(self, state):
        return self.policies[min(state, len(self.policies) - 1)]

    def recommend(self, state):
        return self.policies[0]


def value_by_hand(world, policy):
    """Forward over all histories in plain Python: expected reward of a deterministic policy."""
    total, law = 0.0, {s: p for s, p in enumerate(world.start) if p > 0}
    for h in range(world.horizon):
        following: dict[int, float] = {}
        g = 0 if world.homogeneous else h
        for s, p in law.items():
            a = policy.actions[h, s]
            total += p * world.means[g, s, a]
            for t, q in enumerate(world.transitions[g, s, a]):
                following[t] = following.get(t, 0.0) + p * q
        law = following
    return total


def gap_by_hand(world, policy):
    S, A = world.shape.states, world.shape.actions
    tables = np.stack(np.meshgrid(*[np.arange(A)] * (world.horizon * S), indexing="ij"), -1).reshape(
        -1, world.horizon, S
    )
    best = max(value_by_hand(world, Policy(table)) for table in tables)
    if isinstance(policy, Mixture):
        mean = sum(w * value_by_hand(world, c) for w, c in zip(policy.weights, policy.components, strict=True))
        return best - mean
    return best - value_by_hand(world, policy)


SMALL = discreet.worlds.river_swim(states=3, horizon=2)
DOWN, UP = (Policy(np.full((2, 3), action, np.int64)) for action in (0, 1))


def test_regret_of_a_fixed_policy_is_its_gap_times_the_episodes():
    result = discreet.simulate(SMALL, Deploys((UP,)), BLOCKS, episodes=50, runs=2)
    gap = gap_by_hand(SMALL, UP)
    np.testing.assert_allclose(result.regret, np.tile(gap * result.episodes, (2, 1)), rtol=1e-12)
    np.testing.assert_allclose(result.final_gap, gap)
    np.testing.assert_allclose(result.deployed_gap, gap)
    assert gap > 0
    assert (result.switches == 0).all()


def test_regret_follows_the_policies_that_were_deployed():
    """Four blocks of 10, 10, 10 and 10 users; every checkpoint by hand, also those inside a block."""
    policies = (DOWN, UP, Mixture((DOWN, UP), [0.25, 0.75]), UP)
    result = discreet.simulate(SMALL, Deploys(policies), BLOCKS, episodes=40)
    per_episode = np.repeat([gap_by_hand(SMALL, policy) for policy in policies], 10)
    np.testing.assert_allclose(result.regret[0], np.cumsum(per_episode)[result.episodes - 1], rtol=1e-12)
    assert result.switches.tolist() == [3]
    assert result.final_gap[0] == pytest.approx(gap_by_hand(SMALL, DOWN))  # the one that is recommended
    assert result.deployed_gap[0] == pytest.approx(gap_by_hand(SMALL, UP))  # the one that is deployed in the end
    assert result.final_gap[0] != pytest.approx(result.deployed_gap[0])


def test_switches_of_mixtures_and_of_what_users_really_follow():
    mixture = Mixture((LEFT, RIGHT), [0.5, 0.5])
    result = discreet.simulate(RIVER, Deploys((LEFT, mixture, mixture, RIGHT)), BLOCKS, episodes=40, seed=3)
    coins = generator(3, 0, COINS)
    followed = [*[0] * 10, *coins.choice(2, 10, p=[0.5, 0.5]), *coins.choice(2, 10, p=[0.5, 0.5]), *[1] * 10]
    assert result.switches.tolist() == [2]
    assert result.deterministic_switches.tolist() == [int(np.count_nonzero(np.diff(followed)))]


def test_a_stochastic_policy_is_a_new_deterministic_one_for_every_user():
    result = discreet.simulate(RIVER, Deploys((uniform_policy(RIVER.shape),)), BLOCKS, episodes=40)
    assert result.switches.tolist() == [0]
    assert result.deterministic_switches.tolist() == [39]


def certain_world(homogeneous):
    """Nothing is left to chance here, so that two ways of simulating users must agree to the last bit."""
    rng = np.random.default_rng(12)
    lead = () if homogeneous else (4,)
    transitions = np.eye(3)[rng.integers(3, size=(*lead, 3, 2))]
    return discreet.worlds.from_arrays(transitions, rng.random((*lead, 3, 2)), horizon=4, reward_law="deterministic")


@pytest.mark.parametrize("homogeneous", [True, False], ids=["pooled", "per-step"])
@pytest.mark.parametrize("learner", [UCBVI(), UCBVI(noise_scale=0.0, range_scale=0.05), OBI(), PSRL()], ids=repr)
def test_the_fast_loop_keeps_the_same_books_as_the_other(homogeneous, learner):
    world = certain_world(homogeneous)
    privatizer = build(FAST, world.shape, 300)
    assert compiles(learner, privatizer)
    arguments = (world, learner, privatizer, 300, 7, 2, lambda _n: None)
    slow, fast = run_blocks(*arguments), run_episodes(*arguments)
    np.testing.assert_allclose(slow.regret, fast.regret, rtol=1e-12, atol=1e-12)
    assert (slow.switches, slow.deterministic_switches) == (fast.switches, fast.deterministic_switches)
    assert slow.final_gap == pytest.approx(fast.final_gap, abs=1e-12)
    assert slow.deployed_gap == pytest.approx(fast.deployed_gap, abs=1e-12)
    assert slow.switches > 0
    assert slow.regret[-1] > 0


def test_the_fast_loop_knows_every_successor():
    truth = _truth(discreet.worlds.make_world("chain", states=12, horizon=5))
    assert 1 < truth.successors.shape[3] < 12
    np.testing.assert_allclose(np.take_along_axis(truth.transitions, truth.successors, axis=3).sum(axis=3), 1.0)


@pytest.mark.parametrize("loop", [run_blocks, run_episodes])
def test_what_is_recommended_is_not_what_explores(loop):
    """With a bonus that drowns everything the deployed policies wander, and the recommended one earns."""
    world = certain_world(homogeneous=True)
    drowned = UCBVI(reward_scale=1e3, range_scale=1e3)
    records = [loop(world, drowned, build(FAST, world.shape, 300), 300, 7, run, lambda _n: None) for run in range(8)]
    final, deployed = (np.array([getattr(r, name) for r in records]) for name in ("final_gap", "deployed_gap"))
    assert (final < 1e-12).all()
    assert deployed.mean() > 0.3 * world.gap(uniform_policy(world.shape))


def test_long_runs_are_cut_into_pieces_without_a_seam(monkeypatch):
    whole = discreet.simulate(RIVER, UCBVI(), TREE, episodes=300, seed=5)
    monkeypatch.setattr("discreet.simulation.episode_loop._AT_ONCE", 7)
    pieces = discreet.simulate(RIVER, UCBVI(), TREE, episodes=300, seed=5)
    np.testing.assert_array_equal(whole.regret, pieces.regret)
    np.testing.assert_array_equal(whole.switches, pieces.switches)
    assert (np.diff(whole.regret) >= 0).all()
    assert whole.regret[0, -1] > 0


@pytest.mark.slow
@pytest.mark.parametrize("privacy", [FAST, TREE, BLOCKS, discreet.Local(1.0)], ids=["none", "tree", "blocks", "local"])
@pytest.mark.parametrize("world", [RIVER, discreet.worlds.random_mdp()], ids=["river", "random"])
def test_results_do_not_depend_on_the_number_of_threads(world, privacy):
    one, two, five = (
        discreet.simulate(world, UCBVI(), privacy, episodes=60, runs=5, seed=9, threads=threads)
        for threads in (1, 2, 5)
    )
    for other in (two, five):
        for field in ("regret", "final_gap", "deployed_gap", "switches", "deterministic_switches", "episodes"):
            np.testing.assert_array_equal(getattr(one, field), getattr(other, field))
    assert len(np.unique(one.regret[:, -1])) > 1


def test_runs_are_prefixes_and_seeds_matter():
    few, many = (discreet.simulate(RIVER, UCBVI(), BLOCKS, episodes=60, runs=runs, seed=9) for runs in (2, 4))
    np.testing.assert_array_equal(few.regret, many.regret[:2])
    other = discreet.simulate(RIVER, UCBVI(), BLOCKS, episodes=60, runs=2, seed=10)
    assert (few.regret != other.regret).any()


def test_runs_that_are_done_later_are_those_of_one_piece():
    world, target = discreet.worlds.random_mdp(), discreet.Local(1.0)
    whole = discreet.simulate(world, "ucbvi", target, episodes=200, runs=5, seed=3)
    first, rest = (
        discreet.simulate(world, "ucbvi", target, episodes=200, runs=runs, seed=3, first_run=at)
        for at, runs in ((0, 2), (2, 3))
    )
    assert np.concatenate([first.regret, rest.regret]).tolist() == whole.regret.tolist()
    with pytest.raises(InvalidInput, match="first_run"):
        discreet.simulate(world, "apvi", episodes=200, behaviour="uniform", first_run=1)


def test_random_worlds_are_fresh_in_every_run_and_the_same_for_the_same_seed():
    family = discreet.worlds.random_mdp()
    drawn = [world_of_run(family, 1, run).transitions for run in range(3)]
    assert not np.array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[1], drawn[2])
    np.testing.assert_array_equal(drawn[1], world_of_run(family, 1, 1).transitions)
    assert not np.array_equal(drawn[0], world_of_run(family, 2, 0).transitions)
    assert world_of_run(RIVER, 1, 2) is RIVER
    with pytest.raises(Unsupported, match="cannot simulate a dict"):
        world_of_run({}, 1, 2)


@pytest.mark.parametrize("episodes", [1, 2, 59, 60, 61, 1000, 20_000, 10**7])
def test_checkpoints_rise_from_one_to_the_end(episodes):
    marks = checkpoints(episodes)
    assert marks[0] == 1
    assert marks[-1] == episodes
    assert (np.diff(marks) > 0).all()
    assert len(marks) <= 61


@pytest.mark.parametrize("privacy", [BLOCKS, TREE, FAST], ids=["blocks", "tree", "none"])
def test_the_last_release_is_kept_when_asked_for(privacy):
    result = discreet.simulate(RIVER, UCBVI(), privacy, episodes=40, runs=3, keep_release=True)
    assert [release.users for release in result.releases] == [40, 40, 40]
    assert all(release.guarantee.simulated for release in result.releases)
    assert discreet.simulate(RIVER, UCBVI(), privacy, episodes=40).releases == ()


def test_the_result_says_what_was_run():
    result = discreet.simulate(RIVER, UCBVI(), BLOCKS, episodes=40, runs=2, seed=11)
    assert (result.world, result.learner, result.privacy, result.seed) == (RIVER.name, "ucbvi", "central", 11)
    assert result.recipe == build(BLOCKS, RIVER.shape, 40).recipe
    assert result.guarantee == drawn(build(BLOCKS, RIVER.shape, 40).guarantee, simulated=True)
    assert result.guarantee.simulated
    assert discreet.simulate(RIVER, UCBVI(), episodes=3).privacy == "none"


@pytest.mark.parametrize("wrong", [{"episodes": 0}, {"runs": 0}, {"seed": -1}, {"threads": 0}, {"episodes": 2.5}])
def test_bad_numbers_are_refused(wrong):
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        discreet.simulate(RIVER, UCBVI(), BLOCKS, **{"episodes": 5, **wrong})


def test_an_interrupt_stops_every_other_run():
    stop, started, seen = Event(), Barrier(3), []

    def one(run, tick):
        started.wait(60)
        if run == 1:
            raise KeyboardInterrupt
        assert stop.wait(60), "nobody told this run to stop"
        seen.append(run)
        raise Interrupted(f"simulation stopped in run {run}")

    with pytest.raises(KeyboardInterrupt):
        _in_threads(one, range(3), 3, lambda _n: None, stop)
    assert sorted(seen) == [0, 2]


@dataclass(frozen=True)
class Fails(Deploys):
    def update(self, state, release):
        if release.users >= 20:
            raise RuntimeError("a bug in a learner")
        return state + 1


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_inside_a_run_comes_out_as_it_is(threads):
    with pytest.raises(RuntimeError, match="a bug in a learner"):
        discreet.simulate(RIVER, Fails(), BLOCKS, episodes=40, runs=3, threads=threads)


@pytest.mark.slow
def test_ctrl_c_ends_a_long_simulation():
    """In a process of its own: it says when it is under way, gets the signal, and must leave by KeyboardInterrupt."""
    code = """
import os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may start us with Ctrl-C ignored
import discreet
from discreet.simulation import simulate as run
world = discreet.worlds.river_swim(states=3, horizon=3)
original = run.run_episodes
def announced(*arguments):
    *rest, tick = arguments
    def told(served):
        os.write(1, b"under way\\n")  # whole, whichever thread comes first
        tick(served)
    return original(*rest, told)
run.run_episodes = announced
try:
    discreet.simulate(world, discreet.learners.UCBVI(), episodes=10**11, runs=2, threads=2)
except KeyboardInterrupt:
    print("left cleanly", flush=True)
"""
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "under way\n"
        os.kill(child.pid, signal.SIGINT)
        output, errors = child.communicate(timeout=120)
    finally:
        child.kill()
    assert output.endswith("left cleanly\n"), errors
    assert child.returncode == 0
