"""Two tables: what is counted, what is summed, and the stated sensitivity against all pairs of records."""

from __future__ import annotations

import numpy as np
import pytest

import discreet
from discreet.base.errors import Unsupported
from discreet.base.policies import uniform_policy
from discreet.base.shape import Shape
from discreet.base.streams import USERS, stream
from discreet.mechanisms.counts.encoder import encode
from discreet.mechanisms.counts.joint_histogram import JointHistogram
from discreet.mechanisms.counts.layouts import SuccessorsAndBits
from discreet.mechanisms.counts.two_tables import TwoTables, from_joint_counts
from discreet.mechanisms.trajectories import Trajectories


def moves(vectors):
    """Largest L1, squared L2, L-infinity, cells up and cells down over all pairs of vectors."""
    vectors = np.unique(vectors, axis=0)
    shifts = vectors[:, None] - vectors[None]
    sizes = np.abs(shifts)
    squares, up, down = (sizes**2).sum(axis=2), (shifts > 0).sum(axis=2), (shifts < 0).sum(axis=2)
    return sizes.sum(axis=2).max(), squares.max(), sizes.max(), up.max(), down.max()


@pytest.mark.parametrize(
    "sizes", [(2, 2, 2), (3, 2, 2), (2, 2, 3), (2, 3, 3), (2, 1, 3), (2, 1, 4), (1, 3, 2)], ids=str
)
@pytest.mark.parametrize("shortest", [None, 0], ids=["full-length", "any-length"])
def test_first_visits_move_as_many_cells_as_stated(all_records, sizes, shortest):
    shape = Shape(*sizes, homogeneous=True)
    encoder = TwoTables(shape, first_visit=True)
    l1, l2, linf, up, down = moves(encode(encoder, all_records(shape, shortest), stream(0, 0, USERS)))
    stated = encoder.sensitivity()
    assert (l1, l2, linf) == (stated.l1, pytest.approx(stated.l2**2), 1)
    assert stated.shifts == ((1, up, down),)
    assert stated.unit


@pytest.mark.parametrize("sizes", [(1, 2, 3), (1, 2, 4)], ids=str)
def test_with_one_state_and_few_actions_less_is_moved_than_stated(all_records, sizes):
    """Two users who visit the same pair of one state cannot have left it for different ones."""
    shape = Shape(*sizes, homogeneous=True)
    encoder = TwoTables(shape, first_visit=True)
    l1, l2, linf, up, down = moves(encode(encoder, all_records(shape, 0), stream(0, 0, USERS)))
    stated = encoder.sensitivity()
    ((_, stated_up, stated_down),) = stated.shifts
    assert l1 < stated.l1
    assert (l2 < stated.l2**2, linf <= stated.linf, up <= stated_up, down <= stated_down) == (True,) * 4


def test_first_visits_are_bounded_by_pairs_and_by_steps():
    assert TwoTables(Shape(2, 1, 50, homogeneous=True), first_visit=True).sensitivity().l1 == 2 * (2 + 2)
    assert TwoTables(Shape(5, 4, 6, homogeneous=True), first_visit=True).sensitivity().l1 == 2 * (6 + 5)


def test_a_step_counts_in_both_tables_and_the_last_one_in_the_second_only():
    shape = Shape(2, 1, 3, homogeneous=True)
    record = Trajectories.from_arrays([0, 1, 1], [0, 0, 0], [1.0, 0.0, 1.0], shape)
    encoder = TwoTables(shape)
    (cells,) = encode(encoder, record, stream(0, 0, USERS))
    assert cells.sum() == 2 + 3
    found = encoder.marginals(cells)
    np.testing.assert_array_equal(found["transitions"].values[0, :, 0], [[0, 1], [0, 1]])
    np.testing.assert_array_equal(found["visits"].values[0, :, 0], [1, 2])
    np.testing.assert_array_equal(found["rewards"].values[0, :, 0], [1, 1])


def test_a_pair_is_counted_once_with_its_first_successor_and_reward():
    shape = Shape(2, 1, 4, homogeneous=True)
    record = Trajectories.from_arrays([0, 1, 0, 0], [0, 0, 0, 0], [1.0, 0.0, 0.0, 1.0], shape)
    encoder = TwoTables(shape, first_visit=True)
    found = encoder.marginals(encode(encoder, record, stream(0, 0, USERS))[0])
    np.testing.assert_array_equal(found["visits"].values[0, :, 0], [1, 1])
    np.testing.assert_array_equal(found["transitions"].values[0, :, 0], [[0, 1], [1, 0]])
    np.testing.assert_array_equal(found["rewards"].values[0, :, 0], [1, 0])


@pytest.mark.parametrize("homogeneous", [True, False])
def test_the_statistics_are_those_of_the_joint_histogram(all_records, homogeneous):
    shape = Shape(2, 2, 3, homogeneous=homogeneous)
    records = all_records(shape, 1)
    joint, two = JointHistogram(shape), TwoTables(shape)
    together = encode(joint, records, stream(0, 0, USERS)).sum(axis=0)
    expected = joint.marginals(together)
    cells = encode(two, records, stream(0, 0, USERS)).sum(axis=0)
    for name, statistic in two.marginals(cells).items():
        np.testing.assert_array_equal(statistic.values, expected[name].values, err_msg=name)
    tally = from_joint_counts(together.reshape(shape.groups, 2, 2, 3, 2).astype(np.int64))
    np.testing.assert_array_equal(tally, cells)


def test_rewards_and_visits_sum_few_cells_whatever_the_number_of_states():
    for states in (2, 9):
        shape = Shape(states, 2, 5, homogeneous=True)
        cells = {name: s.cells.max() for name, s in TwoTables(shape).marginals(np.zeros(TwoTables(shape).size)).items()}
        assert cells == {"visits": 2, "transitions": 1, "rewards": 1}
        joint = JointHistogram(shape)
        joint_cells = {name: s.cells.max() for name, s in joint.marginals(np.zeros(joint.size)).items()}
        assert joint_cells == {"visits": 2 * states + 2, "transitions": 2, "rewards": states + 1}


def test_twice_the_norms_of_joint_cells_but_for_the_last_step():
    for pooled in (True, False):
        shape = Shape(4, 2, 6, homogeneous=pooled)
        joint, two = JointHistogram(shape).sensitivity(), TwoTables(shape).sensitivity()
        assert two.l1 == 2 * joint.l1 - 2
        assert two.l2**2 == pytest.approx(2 * joint.l2**2 - 2 if not pooled else 2 * 36 + 2 * 25)


def test_only_successors_of_the_last_step_are_impossible():
    for shape in (Shape(3, 2, 2), Shape(3, 2, 1), Shape(3, 2, 1, homogeneous=True)):
        assert (~SuccessorsAndBits(shape).possible()).sum() == 3 * 2 * 3
    assert SuccessorsAndBits(Shape(3, 2, 2, homogeneous=True)).possible().all()


def test_first_visits_need_laws_that_are_the_same_at_every_step():
    with pytest.raises(Unsupported, match="time-homogeneous"):
        TwoTables(Shape(2, 2, 2), first_visit=True)


def test_inventories_are_learned_where_joint_cells_hide_their_rewards():
    """With these seeds 9 of 96 runs at most are stuck, and of the twin with joint cells 10 or more.

    With eight seeds together 11 and 29 of 192 were. By chance two tables would have more than 9 in one of twenty such
    tests, and the twin fewer than 10 in one of fourteen, but seeds are fixed.
    """
    world = discreet.worlds.inventory(capacity=5, demand="0.2,0.2,0.2,0.2,0.2")
    worst = 0.25 * world.gap(uniform_policy(world.shape))
    stuck = []
    for recipe in ("central/two-tables-laplace", "central/joint-histogram-laplace"):
        privacy = discreet.Central(1.0, recipe=recipe)
        result = discreet.simulate(world, "ucbvi", privacy, episodes=20_000, runs=96, seed=5)
        stuck.append(int((result.final_gap > worst).sum()))
    assert stuck[0] <= 9
    assert stuck[1] >= 10
