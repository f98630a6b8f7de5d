"""First-visit tables: what is counted, and the stated sensitivity against all pairs of records of tiny worlds."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.base.errors import Unsupported
from discreet.base.shape import Shape
from discreet.base.streams import USERS, stream
from discreet.mechanisms.counts.encoder import encode
from discreet.mechanisms.counts.first_visit import FirstVisitTables
from discreet.mechanisms.trajectories import Trajectories


def longest_moves(vectors):
    vectors = np.unique(vectors, axis=0)
    moves = np.abs(vectors[:, None] - vectors[None])
    return moves.sum(axis=2).max(), moves.max()


@pytest.mark.parametrize("sizes", [(2, 2, 2), (2, 2, 3), (1, 2, 3), (3, 1, 3), (2, 3, 2)])
@pytest.mark.parametrize("shortest", [None, 0], ids=["full-length", "any-length"])
def test_the_stated_moves_are_the_most_over_all_pairs_of_records(all_records, sizes, shortest):
    shape = Shape(*sizes, homogeneous=True)
    encoder = FirstVisitTables(shape)
    most, largest = longest_moves(encode(encoder, all_records(shape, shortest), stream(0, 0, USERS)))
    stated = encoder.sensitivity()
    assert (most, largest) == (stated.l1, stated.linf)
    assert stated.unit


@pytest.mark.parametrize("sizes", [(2, 2, 2), (2, 2, 3), (2, 3, 2)])
def test_releasing_fewer_rows_moves_as_few_cells_as_stated(all_records, sizes):
    shape = Shape(*sizes, homogeneous=True)
    encoder = FirstVisitTables(shape)
    vectors = encode(encoder, all_records(shape, 1), stream(0, 0, USERS))
    for asked in range(1, encoder.rows + 1):
        most = 0
        for first in range(encoder.rows - asked + 1):
            rows = np.zeros((1, *sizes[:2]), bool)
            rows.reshape(-1)[first : first + asked] = True
            most = max(most, longest_moves(vectors * encoder.rows_to_cells(rows))[0])
        assert most == encoder.sensitivity(asked).l1


def test_a_pair_is_counted_once_with_its_first_successor_and_reward():
    shape = Shape(2, 1, 4, homogeneous=True)
    record = Trajectories.from_arrays([0, 1, 0, 0], [0, 0, 0, 0], [1.0, 0.0, 0.0, 1.0], shape)
    tables = FirstVisitTables(shape).marginals(encode(FirstVisitTables(shape), record, stream(0, 0, USERS))[0])
    np.testing.assert_array_equal(tables["visits"].values[0, :, 0], [1, 1])
    np.testing.assert_array_equal(tables["transitions"].values[0, :, 0], [[0, 1], [1, 0]])
    np.testing.assert_array_equal(tables["rewards"].values[0, :, 0], [1, 0])


def test_a_pair_first_met_at_the_last_step_has_no_successor():
    shape = Shape(2, 1, 2, homogeneous=True)
    record = Trajectories.from_arrays([0, 1], [0, 0], [0.0, 1.0], shape)
    tables = FirstVisitTables(shape).marginals(encode(FirstVisitTables(shape), record, stream(0, 0, USERS))[0])
    assert tables["transitions"].values[0, 1].sum() == 0
    assert tables["visits"].values[0, 1, 0] == 1


def test_worlds_with_laws_per_step_are_refused():
    with pytest.raises(Unsupported, match="time-homogeneous"):
        FirstVisitTables(Shape(2, 2, 2))
