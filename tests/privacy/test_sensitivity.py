import math

import numpy as np
import pytest

from discreet.base.errors import InvalidInput
from discreet.privacy.sensitivity import Sensitivity


def test_unit_shifts_have_the_norms_of_their_shift():
    moved = Sensitivity.unit_shifts(3, 5)
    assert (moved.l1, moved.l2, moved.linf) == (8, math.sqrt(8), 1)
    assert moved.shifts == ((1, 3, 5),)
    assert moved.unit
    assert moved.cells == 8


def test_nothing_moves():
    still = Sensitivity.unit_shifts(0, 0)
    assert (still.l1, still.l2, still.linf, still.cells) == (0, 0, 0, 0)


def test_worst_shift_of_three_tables():
    """Horizon 2: two cells each way by 2, one each way by 1."""
    moved = Sensitivity.worst_shift((2, 2, 2), (1, 1, 1))
    assert moved.l1 == 10
    assert moved.l2 == pytest.approx(math.sqrt(18))
    assert moved.linf == 2
    assert not moved.unit


def test_several_trajectories_of_one_user_scale_every_norm():
    moved = Sensitivity.unit_shifts(2, 2).scaled(3)
    assert (moved.l1, moved.l2, moved.linf) == (12, 6, 3)
    assert moved.shifts == ((3, 2, 2),)
    assert not moved.unit
    assert Sensitivity.unit_shifts(2, 2).scaled(1).unit


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Sensitivity(l1=1, l2=2, linf=1),
        lambda: Sensitivity(l1=2, l2=1, linf=1.5),
        lambda: Sensitivity(l1=-1, l2=0, linf=0),
        lambda: Sensitivity(l1=2, l2=math.sqrt(2), linf=1, shifts=((1, 2, 2),)),
        lambda: Sensitivity(l1=2, l2=math.sqrt(2), linf=1, unit=True),
        lambda: Sensitivity(l1=4, l2=math.sqrt(8), linf=2, shifts=((2, 1, 1),), unit=True),
        lambda: Sensitivity(l1=100, l2=10, linf=1, shifts=((1, 1, 0),), unit=True),  # would make epsilon 1 of 100
        lambda: Sensitivity(l1=100, l2=1, linf=1, shifts=((1, 1, 0),)),
        lambda: Sensitivity(l1=4, l2=2, linf=2, shifts=((1, 2, 2),)),
        lambda: Sensitivity(l1=4, l2=2, linf=0.5, shifts=((1, 2, 2),)),
        lambda: Sensitivity(l1=1, l2=1, linf=1, shifts=()),  # nothing moves, and something does
        lambda: Sensitivity(l1=6, l2=5, linf=4),  # 25 > 24
        lambda: Sensitivity(l1=math.nan, l2=1, linf=1),
        lambda: Sensitivity(l1=math.inf, l2=1, linf=1),
        lambda: Sensitivity(l1="1", l2=1, linf=1),
        lambda: Sensitivity(l1=10**400, l2=1, linf=1),
        lambda: Sensitivity(1, 1, 1, shifts=((1, 1),)),
        lambda: Sensitivity(1, 1, 1, shifts=((1.0, 1, 0),)),
        lambda: Sensitivity(1, 1, 1, shifts=((True, 1, 0),)),
        lambda: Sensitivity(1, 1, 1, shifts=((0.5, 2, 0),)),
        lambda: Sensitivity(1, 1, 1, shifts="abc"),
        lambda: Sensitivity(1, 1, 1, shifts=[(1, 1, 0)]),
        lambda: Sensitivity.worst_shift((-1, 1, 1)),
        lambda: Sensitivity.worst_shift((1, -1, 2)),
        lambda: Sensitivity.unit_shifts(1, 1).in_several_sums(0),
        lambda: Sensitivity.unit_shifts(1, 1).in_several_sums(1.5),
        lambda: Sensitivity.unit_shifts(-1, 2),
        lambda: Sensitivity.unit_shifts(1, 2).scaled(0),
    ],
)
def test_impossible_norms_are_refused(wrong):
    with pytest.raises(InvalidInput):
        wrong()


@pytest.mark.parametrize("times", [1, 2, 5])
def test_several_sums_together_move_as_often_as_there_are_of_them(times):
    own = Sensitivity.worst_shift((3, 1, 2), (1, 4, 0))
    several = own.in_several_sums(times)
    assert several.shifts == ((3, times, 2 * times), (1, 4 * times, 0))
    assert several.l1 == times * own.l1
    assert several.l2 == pytest.approx(math.sqrt(times) * own.l2)
    assert several.linf == own.linf
    norms = Sensitivity(own.l1, own.l2, own.linf).in_several_sums(times)
    assert (norms.l1, norms.l2, norms.linf, norms.shifts) == (several.l1, pytest.approx(several.l2), several.linf, None)


@pytest.mark.parametrize("seed", range(20))
def test_the_norms_of_any_set_of_shifts_are_accepted(seed):
    """The three largest norms may come from three different shifts, and need not be whole."""
    rng = np.random.default_rng(seed)
    shifts = rng.normal(size=(rng.integers(1, 5), rng.integers(1, 8))) * 10 ** rng.uniform(-3, 3, (1, 1))
    l1, l2, linf = (np.linalg.norm(shifts, order, axis=1).max() for order in (1, 2, np.inf))
    assert Sensitivity(l1, l2, linf).l2 == l2


def test_a_statistic_that_cannot_move_stays_so_for_several_records():
    assert Sensitivity(0, 0, 0).scaled(3) == Sensitivity(0, 0, 0)
    assert Sensitivity.unit_shifts(0, 0).scaled(3) == Sensitivity.unit_shifts(0, 0)
