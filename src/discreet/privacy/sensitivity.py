"""What replacing one user can do to the vector that noise is added to.

Neighbouring data sets have the same number of users and differ in one of them. The statistic then moves by a shift
vector v, and everything that privacy depends on is a function of the set of possible shifts: its largest L1, L2 and
L-infinity norm, and, where it is known, the one shift that is worst for every epsilon at once.

When one shift is the worst. For product noise with a log-concave density the delta of a shift is quasi-convex in the
shift (Prekopa), so the worst one is an extreme point of the convex hull of all shifts. On the integers that argument
fails, but for a log-concave lattice law delta never falls when one |v_i| grows, so if every cell moves by at most one,
the shift that moves the most cells up and the most cells down is the worst (``unit`` shifts).

**What is checked.** Laws read different norms, or the worst shift alone, so a sensitivity whose parts contradict each
other would buy too much privacy from one of them. The largest norms of any set of shifts obey

    Linf <= L2 <= L1   and   L2^2 <= L1 Linf,

and if one shift is the worst at every epsilon it has all three of the largest norms: the stated ones must be its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from discreet.base.errors import InvalidInput
from discreet.base.validation import check_count, check_not_negative
from discreet.privacy.rounding import product_up, root_up

_SLACK = 1 + 1e-9  # for norms that were computed in floating point


@dataclass(frozen=True)
class Sensitivity:
    """The largest moves that replacing one user can cause.

    ``shifts`` is the worst shift where it is known: groups ``(magnitude, up, down)`` say that ``up`` cells rise by
    ``magnitude`` and ``down`` cells fall by it. None means that no single worst shift is known, and then only the norms
    count. ``unit`` says that no cell ever moves by more than one, and by whole numbers. ``any_way`` says that the cells
    of ``shifts`` may each move the other way too: an asymmetric law must not take the stated way for the worst.

    Args:
        l1: The sum of absolute moves.
        l2: The root of the sum of squared moves.
        linf: The largest move of one cell.
        shifts: See above.
        unit: See above.
        any_way: See above.

    Examples:
        >>> from discreet.privacy import Sensitivity
        >>> Sensitivity.unit_shifts(up=2, down=2).l1
        4.0
    """

    l1: float
    l2: float
    linf: float
    shifts: tuple[tuple[int, int, int], ...] | None = None
    unit: bool = False
    any_way: bool = False

    def __post_init__(self) -> None:
        for name in ("l1", "l2", "linf"):
            object.__setattr__(self, name, check_not_negative(name, getattr(self, name)))
        if not (self.linf <= self.l2 * _SLACK and self.l2 <= self.l1 * _SLACK):
            raise InvalidInput(f"norms must satisfy linf <= l2 <= l1, got {self._norms()}")
        if not self.l2 <= math.sqrt(self.l1) * math.sqrt(self.linf) * _SLACK:
            raise InvalidInput(f"no shifts have these norms: l2^2 is at most l1 * linf, got {self._norms()}")
        if self.shifts is not None:
            self._check_shifts(self.shifts)
        if self.unit and (self.linf > 1 or self.shifts is None):
            raise InvalidInput(
                "unit shifts need linf <= 1 and the worst shift: build them with Sensitivity.unit_shifts"
            )

    def _norms(self) -> str:
        return f"l1={self.l1:g}, l2={self.l2:g}, linf={self.linf:g}"

    def _check_shifts(self, shifts: tuple[tuple[int, int, int], ...]) -> None:
        """The worst shift consists of whole numbers and has the stated norms, not smaller and not larger ones."""
        if not isinstance(shifts, tuple) or not all(isinstance(group, tuple) and len(group) == 3 for group in shifts):
            raise InvalidInput("shifts must be a tuple of groups (magnitude, up, down)")
        own = _norms_of(shifts)
        if not all(
            stated <= true * _SLACK and true <= stated * _SLACK
            for stated, true in zip((self.l1, self.l2, self.linf), own)
        ):
            raise InvalidInput(
                f"the worst shift has norms l1={own[0]:g}, l2={own[1]:g}, linf={own[2]:g}, and {self._norms()} was "
                "stated: build it with Sensitivity.worst_shift"
            )

    @classmethod
    def unit_shifts(cls, up: int, down: int, *, any_way: bool = False) -> Sensitivity:
        """At most ``up`` cells rise by one and at most ``down`` others fall by one, or each of them ``any_way``."""
        up = check_count("up", up, at_least=0)
        down = check_count("down", down, at_least=0)
        cells = up + down
        worst = ((1, up, down),) if cells else ()
        return cls(l1=cells, l2=root_up(Fraction(cells)), linf=min(cells, 1), shifts=worst, unit=True, any_way=any_way)

    @classmethod
    def worst_shift(cls, *groups: tuple[int, int, int]) -> Sensitivity:
        """The norms of one shift, given as groups ``(magnitude, up, down)``, which the caller knows to be the worst."""
        kept = tuple(group for group in map(_whole, groups) if group[1] + group[2] > 0)
        l1, l2, linf = _norms_of(kept)
        return cls(l1, l2, linf, shifts=kept, unit=all(magnitude == 1 for magnitude, _, _ in kept))

    def in_several_sums(self, times: int) -> Sensitivity:
        """What one user moves in ``times`` noisy sums together, each of which she moves by this much."""
        times = check_count("times", times)
        if self.shifts is None:
            return Sensitivity(product_up(self.l1, times), root_up(Fraction(self.l2) ** 2 * times), self.linf)
        groups = ((by, up * times, down * times) for by, up, down in self.shifts)
        return replace(Sensitivity.worst_shift(*groups), any_way=self.any_way)

    def scaled(self, trajectories: int) -> Sensitivity:
        """The sensitivity to a user who contributes up to ``trajectories`` records, all of them replaced at once."""
        m = check_count("trajectories", trajectories)
        if m == 1:
            return self
        shifts = (
            None if self.shifts is None else tuple((m * magnitude, up, down) for magnitude, up, down in self.shifts)
        )
        unit = self.unit and self.l1 == 0
        l1, l2, linf = (product_up(m, norm) for norm in (self.l1, self.l2, self.linf))
        return Sensitivity(l1, l2, linf, shifts, unit=unit, any_way=self.any_way)

    @property
    def cells(self) -> int:
        """How many cells the worst shift moves."""
        return sum(up + down for _, up, down in self.shifts or ())


def _whole(group: tuple[int, int, int]) -> tuple[int, int, int]:
    magnitude, up, down = group
    return (
        check_count("magnitude of a shift", magnitude),
        check_count("cells that go up", up, at_least=0),
        check_count("cells that go down", down, at_least=0),
    )


def _norms_of(shifts: tuple[tuple[int, int, int], ...]) -> tuple[float, float, float]:
    moved = [(magnitude, up + down) for magnitude, up, down in map(_whole, shifts) if up + down]
    l1 = sum(magnitude * cells for magnitude, cells in moved)
    l2 = root_up(Fraction(sum(magnitude**2 * cells for magnitude, cells in moved)))
    return float(l1), l2, float(max((magnitude for magnitude, _ in moved), default=0))
