"""How large outcomes are: every visit of one step in a bin of a public logarithmic grid, on either side of zero.

Bins reach from the point of the declared range that is nearest to zero to 2^(-j/2) of the range, j = 24 .. 0, so a
range that is declared ten times as wide moves outcomes by seven bins, of fifty.

**Formal guarantees.** A user has one record of one step, so replacing her moves a unit out of a bin and one into a bin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from discreet.base.errors import Unsupported
from discreet.base.shape import Shape
from discreet.base.types import Floats, Mask, NDArray
from discreet.mechanisms.counts.encoder import LaidOut, Statistic
from discreet.mechanisms.counts.joint_histogram import JointCounts
from discreet.privacy.sensitivity import Sensitivity

_HALVINGS = 24
SIDE = _HALVINGS + 1  # bins on a side


@dataclass(frozen=True)
class OutcomeHistogram(LaidOut):
    """Counts of magnitudes: bins below the anchor, then those above it, each from the anchor outwards."""

    shape: Shape
    name: ClassVar[str] = "outcomes on a logarithmic grid"
    statistics: ClassVar[frozenset[str]] = frozenset({"magnitudes"})
    first_visit: ClassVar[bool] = False
    reward_levels: ClassVar[int] = 2**13 + 1
    parts: ClassVar[int] = 1
    size: ClassVar[int] = 2 * SIDE

    def __post_init__(self) -> None:
        if self.shape.horizon > 1:
            raise Unsupported(f"outcomes of one step are counted, and there are {self.shape.horizon}: declare clips")

    @property
    def anchor(self) -> float:
        """The point of the declared range that is nearest to zero."""
        low, high = self.shape.rewards
        return min(max(0.0, low), high)

    @property
    def edges(self) -> Floats:
        """How far the bins of a side reach, from the anchor on."""
        return np.asarray(self.shape.reward_span * 2.0 ** (np.arange(-_HALVINGS, 1) / 2))

    def sensitivity(self) -> Sensitivity:
        """One unit out of a bin and one into a bin."""
        return Sensitivity.unit_shifts(up=1, down=1)

    def from_joint(self, joint: JointCounts, part: int = 0) -> Floats:
        """The bins of users whom a database has counted."""
        place = joint.keys % joint.levels / (joint.levels - 1) * self.shape.reward_span
        away = self.shape.rewards[0] + place - self.anchor
        side = np.searchsorted(self.edges, np.abs(away) * (1 - 1e-12))
        cells = np.bincount(side + SIDE * (away >= 0), weights=joint.counts, minlength=self.size)
        return np.asarray(cells, np.float64)

    def rows_to_cells(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Bins are of everybody, whatever was done."""
        return np.full(self.size, rows.any(), rows.dtype)

    def possible(self) -> Mask:
        """Every bin."""
        return np.ones(self.size, np.bool_)

    def marginals(self, cells: Floats) -> dict[str, Statistic]:
        """The bins as they are."""
        return {"magnitudes": Statistic(cells, np.ones(1, np.int64))}

    def arrays(self) -> Any:
        """Refused: a table that is there already is looked at once."""
        raise Unsupported("a clip is bought for one data set: nobody acts while it is")
