"""What one user can move, by enumeration of all that she can put into a table, through the query that counts it.

Nothing is assumed about her rows: steps may be missing or doubled, next states may be absent, impossible, or contradict
the row that follows. Whatever the table holds, no two users may differ by more than the noise is sized for.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import discreet.data as data
from discreet.mechanisms.counts.joint_histogram import JointCounts
from discreet.mechanisms.moments.linear_statistics import LEVELS
from discreet.mechanisms.sparse import own_cells
from discreet.recipes.data_set import OPTIONS, tables
from discreet.tables.read.grouping import contributions
from discreet.tables.read.per_user import rules_of

NAMES = {"user": "u", "episode": "e", "step": "t", "state": "s", "action": "a", "reward": "r"}
ABSENT = None


def every_episode(states, actions, rewards, horizon, next_state):
    """All sequences of rows, one or none per step; next states are in the domain, missing, or out of it."""
    following = (*range(states), "", 9) if next_state else ("",)
    row = list(product(range(states), range(actions), rewards, following))
    return list(product([ABSENT, *row], repeat=horizon))


def uploads(episodes, per_user):
    """All users with so many of these episodes each, as lines (user, episode, step, state, action, reward, next)."""
    for user, chosen in enumerate(product(episodes, repeat=per_user)):
        for e, episode in enumerate(chosen):
            for t, row in enumerate(episode):
                if row is not ABSENT:
                    yield (user, e, t, *row)


def read(path, lines, *, next_state, **declared):
    path.write_text("u,e,t,s,a,r,n\n" + "\n".join(",".join(map(str, line)) for line in lines) + "\n")
    return data.read(path, **NAMES, **({"next_state": "n"} if next_state else {}), **declared)


def keys_of_users(table, **how):
    """The cells of every user, each kind of user once; one who has nothing left is there too.

    Rewards of these tables are ends of their range, so no coin decides about a level.
    """
    levels, first_visit = how.get("levels", 2), how.get("first_visit", False)
    pack = table.declaration.packing(levels)
    kinds = {()}
    for some in contributions(table.source, table.declaration, pack, rules_of(table.declaration, pack, first_visit)):
        assert set(some.above.tolist()) <= {0, pack.grid}
        keys = some.keys // (levels - 1) * levels + some.keys % (levels - 1) + some.above // pack.grid
        kinds |= {tuple(sorted(part.tolist())) for part in np.split(keys, some.ends[:-1])}
    return sorted(kinds)


def vectors(kinds, encoders):
    """What each kind of user adds to all tables of a release together."""
    rows = []
    for kind in kinds:
        keys, counts = np.unique(np.array(kind, np.int64), return_counts=True)
        joint = JointCounts(keys, counts, 2)
        rows.append(np.concatenate([encoder.from_joint(joint) for encoder in encoders]))
    return np.unique(np.array(rows), axis=0)


def largest_moves(cells):
    """The largest L1, squared L2 and L-infinity norm of a difference."""
    norms = np.zeros(3)
    for row in cells:
        shift = np.abs(cells - row)
        norms = np.maximum(norms, [shift.sum(axis=1).max(), (shift**2).sum(axis=1).max(), shift.max()])
    return norms


def releases(shape, per_user):
    """Every release of counts that ``train`` offers for a shape."""
    poolings = ("first-visit", "every-visit") if shape.homogeneous else ("first-visit",)
    for release, rewards, pooling in product(("one", "both"), ("private", "known"), poolings):
        chosen = {"release": release, "rewards": rewards, "pooling": pooling, "per_user": per_user}
        yield tables(shape, {**OPTIONS, **chosen}), pooling == "first-visit" and shape.homogeneous


WORLDS = {
    "four steps": {"states": 2, "actions": 1, "rewards": (0,), "horizon": 4, "per_user": 1},
    "reward bits": {"states": 2, "actions": 1, "rewards": (0, 1), "horizon": 3, "per_user": 1},
    "two actions": {"states": 2, "actions": 2, "rewards": (0, 1), "horizon": 2, "per_user": 1},
    "two episodes": {"states": 2, "actions": 1, "rewards": (0,), "horizon": 2, "per_user": 2},
    "one step": {"states": 2, "actions": 2, "rewards": (0, 1), "horizon": 1, "per_user": 2},
}


@pytest.mark.slow
@pytest.mark.parametrize("next_state", [False, True], ids=["rows", "next-states"])
@pytest.mark.parametrize("homogeneous", [False, True], ids=["per-step", "pooled"])
@pytest.mark.parametrize("name", WORLDS)
def test_no_user_moves_more_than_stated_and_some_move_as_much(tmp_path, name, homogeneous, next_state):
    world = dict(WORLDS[name])
    m, bits = world["per_user"], world.pop("rewards")
    episodes = every_episode(world["states"], world["actions"], bits, world["horizon"], next_state)
    lines = uploads(episodes, m)
    # Where records may end anywhere pooled steps leave the last one out, and less moves: attained under the old rule.
    ends = {"homogeneous": homogeneous, "early_end": not homogeneous, "missing": "row" if homogeneous else "end"}
    table = read(tmp_path / "rows.csv", lines, next_state=next_state, **ends, **world)
    counted = {first: keys_of_users(table, first_visit=first) for first in {False, homogeneous}}
    for released, first_visit in releases(table.shape, m):
        stated, cells = released.sensitivity(), vectors(counted[first_visit], released.encoders)
        l1, squared, linf = largest_moves(cells)
        assert l1 <= stated.l1
        assert squared <= stated.l2**2 * (1 + 1e-9)
        assert linf <= stated.linf
        # First visits without successor or reward are the same cell for everybody: with few pairs less can move.
        bare = any(not encoder.successors and (not encoder.bits or len(bits) == 1) for encoder in released.encoders)
        if not (first_visit and bare):
            assert (l1, linf) == (stated.l1, stated.linf)
            assert squared == pytest.approx(stated.l2**2)
        assert np.count_nonzero(cells, axis=1).max() <= own_cells(stated)
        impossible = np.concatenate([~encoder.possible() for encoder in released.encoders])
        assert not cells[:, impossible].any()  # they carry no noise


def mess(rng, users, horizon):
    """Rows that follow no rule at all: any step, doubled ones, text for numbers, empty cells, many episodes."""
    spoiled = {"e": [""], "t": [-1, horizon, "0.5", "x", ""], "s": [2, "", "x"], "a": [1, ""], "n": [9]}
    for user in range(users):
        for _ in range(rng.integers(1, 4 * horizon)):
            row = {"e": rng.integers(3), "t": rng.integers(horizon), "s": rng.integers(2), "a": 0}
            row |= {"r": rng.choice([0, 1, 7, -7, "", "nan"]), "n": rng.choice([0, 1, "", ""])}
            if rng.random() < 0.2:
                name = rng.choice(list(spoiled))
                row[name] = rng.choice(spoiled[name])
            yield user, *row.values()


@pytest.mark.slow
@pytest.mark.parametrize("next_state", [False, True], ids=["rows", "next-states"])
@pytest.mark.parametrize("per_user", [1, 2])
def test_nor_does_one_whose_rows_make_no_sense(tmp_path, per_user, next_state):
    """Random garbage, and linear questions with it: no more than one row per trajectory at every step."""
    horizon = 3
    lines = list(mess(np.random.default_rng(5), 600, horizon))
    kinds = (
        (False, True, "end"),
        (False, False, "drop"),
        (True, False, "end"),
        (True, True, "row"),
        (True, True, "drop"),
    )
    for homogeneous, ends, missing in kinds:
        table = read(
            tmp_path / "rows.csv", lines, next_state=next_state, homogeneous=homogeneous, states=2, actions=1,
            horizon=horizon, per_user=per_user, early_end=ends, missing=missing,
        )  # fmt: skip
        counted = {first: keys_of_users(table, first_visit=first) for first in {False, homogeneous}}
        assert len(counted[False]) > 15
        for released, first_visit in releases(table.shape, per_user):
            stated = released.sensitivity()
            l1, squared, linf = largest_moves(vectors(counted[first_visit], released.encoders))
            assert (l1 <= stated.l1, squared <= stated.l2**2 * (1 + 1e-9), linf <= stated.linf) == (True, True, True)
        if not homogeneous:
            for kind in keys_of_users(table, levels=LEVELS):
                step = np.array(kind, np.int64) // (2 * 1 * 3 * LEVELS)
                assert np.bincount(step, minlength=1).max() <= per_user


def test_missing_next_states_are_ends_only_where_nothing_follows(tmp_path):
    """Four rows without a next state used to be four ends in one cell, where the noise was sized for three and one."""
    lines = [(0, 0, t, 0, 0, 0, "") for t in range(4)] + [(1, 0, 0, 0, 0, 0, ""), (1, 0, 2, 1, 0, 0, 1)]
    declared = {"states": 2, "actions": 1, "horizon": 4, "homogeneous": True, "next_state": True, "early_end": False,
                "missing": "row"}  # fmt: skip
    first, second = keys_of_users(read(tmp_path / "rows.csv", lines, **declared))[1:]
    stay, end, left = (0 * 3 + 0) * 2, (0 * 3 + 2) * 2, (1 * 3 + 1) * 2
    assert first == (stay, stay, stay, end)
    assert second == (left,)  # the first row is before a gap and does not say what came next


def test_pooled_steps_count_early_ends_and_not_the_horizon(tmp_path):
    """With early ends declared the last step is left out: an end in a pooled table then is one."""
    lines = [(0, 0, t, 0, 0, 0, "") for t in range(4)] + [(1, 0, 0, 0, 0, 0, ""), (1, 0, 1, 1, 0, 0, "")]
    declared = {"states": 2, "actions": 1, "horizon": 4, "homogeneous": True, "next_state": False}
    stay, go, end = (0 * 3 + 0) * 2, (0 * 3 + 1) * 2, (1 * 3 + 2) * 2
    assert keys_of_users(read(tmp_path / "rows.csv", lines, **declared))[1:] == [(stay, stay, stay), (go, end)]
