"""Marginals of the joint histogram: exact sensitivities by enumeration, and the same counts as the joint table."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.base.errors import Unsupported
from discreet.base.shape import Shape
from discreet.base.streams import stream
from discreet.mechanisms.counts.encoder import encode
from discreet.mechanisms.counts.joint_histogram import JointCounts, JointHistogram, MarginalTable

PER_STEP, POOLED = Shape(2, 2, 3), Shape(2, 2, 3, homogeneous=True)
TABLES = [
    MarginalTable(PER_STEP),
    MarginalTable(PER_STEP, bits=True),
    MarginalTable(PER_STEP, successors=False),
    MarginalTable(PER_STEP, separate=True),
    MarginalTable(POOLED),
    MarginalTable(POOLED, successors=False, bits=True),
    MarginalTable(POOLED, first_visit=True, bits=True),
    MarginalTable(POOLED, first_visit=True, separate=True),
    MarginalTable(Shape(2, 1, 3, homogeneous=True), first_visit=True),
    MarginalTable(Shape(2, 2, 1), bits=True),
]


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES, ids=lambda t: f"{t.name}-{t.shape.groups}-{t.separate}")
def test_the_sensitivity_is_attained_and_never_exceeded(table, all_records):
    cells = np.unique(encode(table, all_records(table.shape, shortest=1), stream(0, 0, 0)), axis=0)
    shifts = cells[:, None, :] - cells[None, :, :]
    stated = table.sensitivity()
    assert np.abs(shifts).sum(axis=2).max() == stated.l1
    assert (shifts**2).sum(axis=2).max() == pytest.approx(stated.l2**2)
    assert np.abs(shifts).max() == stated.linf
    assert not cells[:, ~table.possible()].any()
    assert (cells.sum(axis=0) > 0)[table.possible()].all()


def test_users_with_several_trajectories_move_as_much_as_enumeration_says(all_records):
    """Two trajectories per user: everything doubles, but for first visits, which are taken over both."""
    shape = Shape(2, 1, 2)
    cells = np.unique(encode(MarginalTable(shape), all_records(shape), stream(0, 0, 0)), axis=0)
    users = (cells[:, None] + cells[None, :]).reshape(-1, cells.shape[1])
    shifts = users[:, None] - users[None, :]
    stated = MarginalTable(shape, per_user=2).sensitivity()
    assert (shifts**2).sum(axis=2).max() == pytest.approx(stated.l2**2)
    assert np.abs(shifts).sum(axis=2).max() == stated.l1
    pooled = MarginalTable(Shape(5, 2, 3, homogeneous=True), first_visit=True, per_user=2).sensitivity()
    assert (pooled.l1, pooled.linf) == (12, 1)


def test_marginals_agree_with_the_joint_histogram(all_records):
    records, joint = all_records(PER_STEP, shortest=2), JointHistogram(PER_STEP)
    expected = joint.marginals(encode(joint, records, stream(0, 0, 0)).sum(axis=0))
    table = MarginalTable(PER_STEP, bits=True)
    found = table.marginals(encode(table, records, stream(0, 0, 0)).sum(axis=0))
    for name in ("visits", "transitions", "rewards"):
        np.testing.assert_array_equal(found[name].values, expected[name].values)
        np.testing.assert_array_equal(found[name].cells, expected[name].cells)
    both = MarginalTable(PER_STEP, separate=True)
    apart = both.marginals(encode(both, records, stream(0, 0, 0)).sum(axis=0))
    np.testing.assert_array_equal(apart["transitions"].values, expected["transitions"].values)
    ends = expected["visits"].values - expected["transitions"].values.sum(axis=3)
    np.testing.assert_array_equal(apart["ends"].values[:-1], ends[:-1])
    assert not apart["ends"].values[-1].any()


def test_counts_of_a_database_fall_into_the_same_cells(all_records):
    """Joint keys are the cells of the joint histogram, so its counts are the test data."""
    records, joint = all_records(PER_STEP, shortest=1), JointHistogram(PER_STEP)
    cells = encode(joint, records, stream(0, 0, 0)).sum(axis=0)
    keys = np.flatnonzero(cells)
    counts = JointCounts(keys, cells[keys].astype(np.int64), 2)
    for table in TABLES[:4]:
        expected = encode(table, records, stream(0, 0, 0)).sum(axis=0)
        np.testing.assert_array_equal(table.from_joint(counts), expected)


def test_nothing_raw_is_shown():
    assert repr(JointCounts(np.array([41]), np.array([7]), 2)) == "<JointCounts of 1 cells, contents not shown>"


def test_what_cannot_be_is_refused():
    with pytest.raises(Unsupported, match="homogeneous=True"):
        MarginalTable(PER_STEP, first_visit=True)
    with pytest.raises(Unsupported, match="horizon of at least 2"):
        MarginalTable(Shape(2, 2, 1), separate=True)
    with pytest.raises(Unsupported, match="2 levels"):
        MarginalTable(PER_STEP, bits=True).from_joint(JointCounts(np.array([0]), np.array([1]), 5))
