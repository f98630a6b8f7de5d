"""Every stated sensitivity against all pairs of records of tiny worlds: the norms are attained and never exceeded.

Encoders that ask by public coins are compared given the coins, in test_asked_first_visit.py.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.shape import Shape
from discreet.base.streams import USERS, stream
from discreet.mechanisms.counts.encoder import encode
from discreet.mechanisms.counts.first_visit import FirstVisit, FirstVisitTables
from discreet.mechanisms.counts.first_visit_question import AskedFirstVisit
from discreet.mechanisms.counts.joint_histogram import JointHistogram, MarginalTable
from discreet.mechanisms.counts.sampled_step import SampledStep
from discreet.mechanisms.counts.three_tables import RewardLevels, ScaledTables, ThreeTables
from discreet.mechanisms.counts.two_tables import TwoTables

ENCODERS = {
    "joint": JointHistogram,
    "first-visit": FirstVisit,
    "three": ThreeTables,
    "three-real": lambda shape: ThreeTables(shape, rounded=False),
    "two": TwoTables,
}
SHAPES = [(2, 2, 2), (2, 2, 3), (1, 2, 3), (2, 1, 3), (2, 2, 1)]
CASES = [
    (name, sizes, homogeneous)
    for name, sizes, homogeneous in product(ENCODERS, SHAPES, (True, False))
    if homogeneous or name != "first-visit"
]


def extremes(vectors: np.ndarray) -> tuple[float, float, float, int, int, list[float]]:
    """Largest L1, L2, L-infinity, cells up and cells down over all pairs, and the moves of the longest shift."""
    vectors = np.unique(vectors, axis=0)
    l1 = l2 = linf = 0.0
    up = down = 0
    longest: list[float] = []
    for vector in vectors:
        shifts = vectors - vector
        sizes = np.abs(shifts)
        l1, linf = max(l1, sizes.sum(axis=1).max()), max(linf, sizes.max())
        up, down = max(up, int((shifts > 0).sum(axis=1).max())), max(down, int((shifts < 0).sum(axis=1).max()))
        squares = (shifts**2).sum(axis=1)
        if squares.max() > l2:
            l2 = squares.max()
            longest = sorted(shifts[squares.argmax()][shifts[squares.argmax()] != 0].tolist())
    return l1, float(np.sqrt(l2)), linf, up, down, longest


@pytest.mark.parametrize("early", [False, True], ids=["full-length", "ends-early"])
@pytest.mark.parametrize(("name", "sizes", "homogeneous"), CASES)
def test_stated_norms_are_the_largest_over_all_pairs_of_records(all_records, name, sizes, homogeneous, early):
    shape = Shape(*sizes, homogeneous=homogeneous)
    encoder = ENCODERS[name](shape)
    records = all_records(shape, shortest=1 if early else None)
    l1, l2, linf, up, down, longest = extremes(encode(encoder, records, stream(0, 0, USERS)))
    stated = encoder.sensitivity()
    assert (l1, linf) == (stated.l1, stated.linf)
    assert l2 == pytest.approx(stated.l2, rel=1e-12)
    if stated.unit:
        assert (up, down) == (sum(n for _, n, _ in stated.shifts), sum(n for _, _, n in stated.shifts))
    elif stated.shifts is not None:
        moves = [m * sign for m, ups, downs in stated.shifts for sign, n in ((1, ups), (-1, downs)) for _ in range(n)]
        assert sorted(moves) == longest


def test_nobody_at_all_is_never_further_than_somebody_else(all_records):
    """A record of length 0 (a user whose rows were all dropped) is a neighbour like any other."""
    shape = Shape(2, 2, 2, homogeneous=True)
    for make in ENCODERS.values():
        vectors = encode(make(shape), all_records(shape, shortest=0), stream(0, 0, USERS))
        l1, l2, linf, *_ = extremes(vectors)
        stated = make(shape).sensitivity()
        assert l1 <= stated.l1
        assert l2 <= stated.l2 + 1e-12
        assert linf <= stated.linf


def test_first_visits_are_bounded_by_the_number_of_pairs_too():
    assert FirstVisit(Shape(2, 1, 50, homogeneous=True)).sensitivity().l1 == 4
    assert FirstVisit(Shape(5, 4, 6, homogeneous=True)).sensitivity().l1 == 12


def test_fractions_are_not_called_whole_numbers():
    """Unrounded rewards move cells by fractions, for which the exact profiles of discrete laws do not hold."""
    for homogeneous in (True, False):
        shape = Shape(2, 2, 3, homogeneous=homogeneous)
        assert not ThreeTables(shape, rounded=False).sensitivity().unit
        bits, fractions = ThreeTables(shape).sensitivity(), ThreeTables(shape, rounded=False).sensitivity()
        assert (bits.l1, bits.l2, bits.linf) == (fractions.l1, fractions.l2, fractions.linf)


PER_STEP = [JointHistogram, ThreeTables, TwoTables, RewardLevels, lambda shape: ThreeTables(shape, rounded=False)]
SINGLE_STEP = [FirstVisit, FirstVisitTables, lambda shape: TwoTables(shape, first_visit=True)]


@pytest.mark.parametrize(
    ("make", "shape"),
    [(make, Shape(2, 2, 2)) for make in PER_STEP]
    + [(make, Shape(2, 2, 1, homogeneous=True)) for make in [*PER_STEP, *SINGLE_STEP]],
)
@pytest.mark.parametrize("early", [False, True], ids=["full-length", "ends-early"])
def test_what_a_user_moves_in_one_step_is_attained_and_never_exceeded(all_records, make, shape, early):
    encoder = make(shape)
    vectors = encode(encoder, all_records(shape, shortest=1 if early else None), stream(0, 0, USERS))
    for step in range(shape.horizon):
        rows = np.zeros((shape.groups, shape.states, shape.actions), bool)
        rows[step] = True
        l1, l2, linf, up, down, _ = extremes(vectors[:, encoder.rows_to_cells(rows)])
        stated = encoder.layer_sensitivity(step)
        assert (l1, l2, linf) == (stated.l1, pytest.approx(stated.l2, rel=1e-12), stated.linf)
        assert stated.unit == encoder.rounded
        assert not stated.unit or stated.shifts == ((1, up, down),)


def test_a_sampled_step_moves_one_cell_each_way_and_scaled_tables_have_the_norms_of_plain_ones():
    shape = Shape(2, 2, 3)
    assert SampledStep(shape, steps=2).layer_sensitivity(1).shifts == ((1, 1, 1),)
    scaled, plain = ScaledTables(shape).layer_sensitivity(2), ThreeTables(shape, rounded=False).layer_sensitivity(2)
    assert scaled == plain


def test_steps_that_do_not_exist_or_are_pooled_have_no_sensitivity():
    for make in (*PER_STEP, SampledStep, ScaledTables):
        for step in (-1, 2):
            with pytest.raises(InvalidInput, match=rf"step must lie in 0..1, got {step}"):
                make(Shape(2, 2, 2)).layer_sensitivity(step)
    pooled = Shape(2, 2, 2, homogeneous=True)
    for make in (JointHistogram, ThreeTables, TwoTables, FirstVisit, FirstVisitTables, SampledStep, ScaledTables):
        with pytest.raises(Unsupported, match="pooled over steps"):
            make(pooled).layer_sensitivity(0)
    with pytest.raises(Unsupported, match="MarginalTable has no sensitivity by step"):
        MarginalTable(Shape(2, 2, 2)).layer_sensitivity(0)
    with pytest.raises(Unsupported, match="AskedFirstVisit has no sensitivity by step"):
        AskedFirstVisit(pooled).layer_sensitivity(0)
