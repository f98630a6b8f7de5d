"""Accumulators whose releases add up: one draw of noise per batch of users, or one per user.

=========  ====================  =====================================================================
name       noise per batch       what it serves
=========  ====================  =====================================================================
Once       one draw              one release of a whole data set (offline)
Blocks     one draw              online; every user is in one block, so a user moves one release only
Total      one draw per user     the local model: every user adds noise to her own message
=========  ====================  =====================================================================

A cell that no step of the public policy can play is a known zero: its *increment* is zero and carries no noise.
Drawing no noise there has the same law as zeroing the increment after noise was added, because the noise is
independent across cells.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet.base.errors import Unsupported
from discreet.base.saved_arrays import Saved, nothing_secret
from discreet.base.types import Floats, Mask
from discreet.mechanisms.sums.accumulator import NoiseSource, TotalArrays, noisy
from discreet.noise.distribution import Law
from discreet.privacy.sensitivity import Sensitivity


class SumRun:
    """Running sums of noisy increments."""

    def __init__(self, size: int, rows: tuple[int, int, int], law: Law, noise: NoiseSource, per_user: bool) -> None:
        self.values = np.zeros(size)
        self.copies = np.zeros(rows, np.int64)
        self._law, self._noise, self._per_user = law, noise, per_user

    def add(self, tally: Floats, users: int, rows: Mask, cells: Mask) -> None:
        """Add a tally and fresh noise, one draw for the block or one for each user."""
        copies = users if self._per_user else 1
        where = np.flatnonzero(cells)
        self.values[where] += noisy(tally[where], self._law, copies, self._noise)
        self.copies += rows * copies

    def save(self) -> Saved:
        """Released sums and the number of draws in them: no secret, because the noise of a block is forgotten."""
        return nothing_secret(values=self.values, copies=self.copies)

    def load(self, saved: Saved) -> None:
        """Go on from these sums."""
        self.values, self.copies = saved.public["values"].copy(), saved.public["copies"].copy()


@dataclass(frozen=True)
class Blocks:
    """Every user is in exactly one block; each block is released once, with one draw of noise per cell."""

    name: str = "blocks"

    def sensitivity(self, own: Sensitivity) -> Sensitivity:
        """She is in one sum only."""
        return own

    def start(self, size: int, rows: tuple[int, int, int], law: Law, noise: NoiseSource) -> SumRun:
        """Begin a run."""
        return SumRun(size, rows, law, noise, per_user=False)


@dataclass(frozen=True)
class Total:
    """Every user's message carries noise of its own; the server adds the messages up."""

    name: str = "total"

    def sensitivity(self, own: Sensitivity) -> Sensitivity:
        """She is in one sum only."""
        return own

    def start(self, size: int, rows: tuple[int, int, int], law: Law, noise: NoiseSource) -> SumRun:
        """Begin a run."""
        return SumRun(size, rows, law, noise, per_user=True)

    def arrays(self, size: int) -> TotalArrays:
        """The compiled form, for a release after every user."""
        return TotalArrays()


class OnceRun(SumRun):
    """A sum that refuses a second release."""

    _released = False

    def add(self, tally: Floats, users: int, rows: Mask, cells: Mask) -> None:
        """Add the one tally that there is."""
        if self._released:
            raise Unsupported("this recipe releases a data set once; a second release would need a budget of its own")
        self._released = True
        super().add(tally, users, rows, cells)

    def save(self) -> Saved:
        """Whether there was a release goes with the sums."""
        return nothing_secret(values=self.values, copies=self.copies, released=self._released)

    def load(self, saved: Saved) -> None:
        """Go on from these sums; a release that was made stays made."""
        super().load(saved)
        self._released = bool(saved.public["released"])


@dataclass(frozen=True)
class Once:
    """One release of everybody's data."""

    name: str = "once"

    def sensitivity(self, own: Sensitivity) -> Sensitivity:
        """She is in one sum only."""
        return own

    def start(self, size: int, rows: tuple[int, int, int], law: Law, noise: NoiseSource) -> OnceRun:
        """Begin a run."""
        return OnceRun(size, rows, law, noise, per_user=False)


class EachAloneRun:
    """The noisy vector of the last user, or of the last block of them."""

    def __init__(self, size: int, rows: tuple[int, int, int], law: Law, noise: NoiseSource, blocks: bool) -> None:
        self.values = np.zeros(size)
        self.copies = np.ones(rows, np.int64)
        self._law, self._noise, self._blocks = law, noise, blocks

    def add(self, tally: Floats, users: int, rows: Mask, cells: Mask) -> None:
        """Replace what was released by the next vector."""
        if users != 1 and not self._blocks:
            raise Unsupported(f"a stream releases every user by herself, not {users} together")
        if not rows.all():
            raise Unsupported("a stream is not masked: set masked=False")
        where = np.flatnonzero(cells)
        values = tally.astype(np.float64)
        values[where] = noisy(values[where], self._law, 1, self._noise)
        self.values = values


@dataclass(frozen=True)
class EachAlone:
    """Each user's vector (or each block's sum of vectors) is released by itself, with noise of its own."""

    blocks: bool = False
    name: str = "stream"

    def sensitivity(self, own: Sensitivity) -> Sensitivity:
        """She is in one sum only."""
        return own

    def start(self, size: int, rows: tuple[int, int, int], law: Law, noise: NoiseSource) -> EachAloneRun:
        """Begin a run."""
        return EachAloneRun(size, rows, law, noise, self.blocks)
