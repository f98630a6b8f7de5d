"""What users of layered problems leave behind, and the sensitivities by brute force over all pairs of records."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from discreet.base.shape import layered_shape
from discreet.base.streams import USERS, stream
from discreet.mechanisms.counts.encoder import encode
from discreet.mechanisms.trajectories import Trajectories
from discreet.problems.adversarial.encoders import (
    LayeredTransitions,
    LayeredVisits,
    LossBits,
    LossTable,
    ObservedLosses,
    SignedLosses,
)

SHAPE = layered_shape((1, 2, 2, 1), 2)
SHAPES = [
    SHAPE,
    layered_shape((1, 1), 3),
    layered_shape((1, 1, 1), 1),
    layered_shape((1, 1, 3, 1), 1),
    layered_shape((1, 1, 1, 2, 1), 1),
]


def every_record(shape):
    """All paths, those that leave their layer or end early among them."""
    steps = [product(range(shape.states), range(shape.actions), (0.0, 1.0)) for _ in shape.sizes[:-1]]
    records = np.array(list(product(*steps)))
    full = Trajectories.from_arrays(records[..., 0], records[..., 1], records[..., 2], shape)
    return [replace(full, lengths=np.full(len(full), length)) for length in range(shape.horizon + 1)]


def largest_moves(cells):
    shifts = np.abs(cells[:, None] - cells[None])
    return shifts.sum(axis=-1).max(), shifts.max(initial=0.0)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: str(s.sizes))
@pytest.mark.parametrize("encoder", [LayeredTransitions, LayeredVisits, ObservedLosses, LossBits, SignedLosses])
def test_no_pair_of_records_moves_more_than_stated(encoder, shape):
    bound = encoder(shape)
    stated = bound.sensitivity()
    cells = np.vstack([encode(bound, records, stream(0, 0, USERS)) for records in every_record(shape)])
    l1, linf = largest_moves(np.unique(cells, axis=0))
    assert l1 <= stated.l1
    assert linf == stated.linf
    if min(size * shape.actions for size in shape.sizes[:-1]) > 1:  # else a stray step empties two layers at once
        assert l1 == stated.l1


def test_a_record_is_counted_where_it_went():
    record = Trajectories.from_arrays([0, 1, 0], [1, 0, 1], [0.0, 1.0, 0.0], SHAPE)
    (cells,) = encode(LayeredTransitions(SHAPE), record, stream(0, 0, USERS))
    transitions = LayeredTransitions(SHAPE).marginals(cells)["transitions"].values
    assert transitions.sum() == 2
    assert transitions[0, 0, 1, 1] == 1
    assert transitions[1, 1, 0, 0] == 1
    (cells,) = encode(LayeredVisits(SHAPE), record, stream(0, 0, USERS))
    visits = LayeredVisits(SHAPE).marginals(cells)["visits"].values
    assert visits.sum() == 3
    assert visits[0, 0, 1] == visits[1, 1, 0] == visits[2, 0, 1] == 1
    (cells,) = encode(ObservedLosses(SHAPE), record, stream(0, 0, USERS))
    losses = ObservedLosses(SHAPE).marginals(cells)["observed_losses"].values
    assert losses.sum() == 2
    assert losses[0, 0, 1] == losses[2, 0, 1] == 1


def test_bits_count_what_was_lost_and_what_was_not():
    record = Trajectories.from_arrays([0, 1, 0], [1, 0, 1], [0.0, 1.0, 0.0], SHAPE)
    (cells,) = encode(LossBits(SHAPE), record, stream(0, 0, USERS))
    assert cells.sum() == 3
    found = LossBits(SHAPE).marginals(cells)
    (plain,) = encode(ObservedLosses(SHAPE), record, stream(0, 0, USERS))
    np.testing.assert_array_equal(
        found["observed_losses"].values, ObservedLosses(SHAPE).marginals(plain)["observed_losses"].values
    )
    signed = found["signed_losses"]
    assert (signed.values[0, 0, 1], signed.values[1, 1, 0], signed.values[2, 0, 1]) == (1, -1, 1)
    assert np.abs(signed.values).sum() == 3
    assert (signed.cells == 2 * found["observed_losses"].cells).all()


def test_bits_that_are_not_rounded_are_the_loss_and_what_is_left_of_one():
    record = Trajectories.from_arrays([0, 1, 0], [1, 0, 1], [0.25, 1.0, 0.0], SHAPE)
    (cells,) = encode(LossBits(SHAPE, rounded=False), record, stream(0, 0, USERS))
    signed = LossBits(SHAPE).marginals(cells)["signed_losses"].values
    assert signed[0, 0, 1] == pytest.approx(2 * 0.75 - 1)


def test_signs_are_ones_less_zeros_in_one_cell():
    record = Trajectories.from_arrays([0, 1, 0], [1, 0, 1], [0.25, 1.0, 0.0], SHAPE)
    for rounded in (True, False):
        (bits,) = encode(LossBits(SHAPE, rounded), record, stream(0, 0, USERS))
        (signs,) = encode(SignedLosses(SHAPE, rounded), record, stream(0, 0, USERS))
        found = SignedLosses(SHAPE).marginals(signs)["signed_losses"]
        np.testing.assert_array_equal(found.values, LossBits(SHAPE).marginals(bits)["signed_losses"].values)
        assert found.cells.max() == 1
    assert SignedLosses(SHAPE).statistics == {"signed_losses"}


def test_a_step_outside_its_layer_is_dropped():
    record = Trajectories.from_arrays([1, 1, 1], [0, 0, 0], [0.0, 0.0, 0.0], SHAPE)
    (cells,) = encode(LayeredVisits(SHAPE), record, stream(0, 0, USERS))
    assert cells.sum() == 2  # layer 0 has one state, number 0
    (cells,) = encode(LayeredTransitions(SHAPE), record, stream(0, 0, USERS))
    assert cells.sum() == 1


def test_cells_of_rows_follow_the_layout():
    rows = np.arange(12.0).reshape(3, 2, 2)
    table = LayeredTransitions(SHAPE)
    spread = table.marginals(table.rows_to_cells(rows))["transitions"].values
    mask = SHAPE.triple_mask
    np.testing.assert_array_equal(spread[mask], np.broadcast_to(rows[..., None], mask.shape)[mask])
    assert len(table.rows_to_cells(rows)) == table.size == 4 + 8
    np.testing.assert_array_equal(LossTable(SHAPE).rows_to_cells(rows), rows[SHAPE.pair_mask])


def test_losses_are_rounded_without_bias():
    tables = np.random.default_rng(1).random((1, 5, 2)).repeat(20_000, axis=0)
    rounded = LossTable(SHAPE).tally(tables, stream(0, 0, USERS))
    assert np.array_equal(rounded, np.round(rounded))
    # 10 sums of 20,000 bits, 5 standard errors: false alarm below 1e-5.
    assert (np.abs(rounded / 20_000 - tables[0].ravel()) < 5 * 0.5 / np.sqrt(20_000)).all()
    # The twin: tables that are off by 2% in every entry are told apart.
    assert (np.abs(rounded / 20_000 - tables[0].ravel() - 0.02) > 5 * 0.5 / np.sqrt(20_000)).any()
    exact = LossTable(SHAPE, rounded=False).tally(tables[:3], stream(0, 0, USERS))
    np.testing.assert_allclose(exact, 3 * tables[0].ravel())


def test_with_one_step_there_is_nothing_to_count():
    shape = layered_shape((1, 1), 3)
    assert LayeredTransitions(shape).size == 0
    assert LossTable(shape).statistics == {"losses", "transitions"}
    assert LossTable(SHAPE).statistics == {"losses"}
    assert ObservedLosses(shape).marginals(np.zeros(3))["transitions"].values.shape == (1, 1, 3, 1)
