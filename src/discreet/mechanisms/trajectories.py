"""The only raw data: what one user saw and did. Encoders read it; nothing else does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from discreet.base.errors import InvalidInput
from discreet.base.shape import Shape
from discreet.base.types import Floats, Integers

if TYPE_CHECKING:
    from discreet.mechanisms.counts.encoder import Context, Encoder


@dataclass(frozen=True, repr=False)
class Trajectories:
    """Episodes of ``n`` users: states, actions and rewards of shape (n, H), and how many steps each user took.

    Steps at or after a user's length are ignored by every encoder. There is no ``repr`` of the contents: raw data must
    not end up in a log.
    """

    states: Integers
    actions: Integers
    rewards: Floats
    lengths: Integers

    @classmethod
    def from_arrays(cls, states: object, actions: object, rewards: object, shape: Shape) -> Trajectories:
        """Full-length trajectories, checked against the declared shape (for tests and for the data's owner)."""
        s, a = np.atleast_2d(np.asarray(states, np.int64)), np.atleast_2d(np.asarray(actions, np.int64))
        r = np.atleast_2d(np.asarray(rewards, np.float64))
        if not s.shape == a.shape == r.shape or s.shape[1] != shape.horizon:
            raise InvalidInput(f"trajectories need states, actions and rewards of shape (users, {shape.horizon})")
        if s.min(initial=0) < 0 or s.max(initial=0) >= shape.states:
            raise InvalidInput(f"a state lies outside the declared domain 0..{shape.states - 1}: declare more states")
        if a.min(initial=0) < 0 or a.max(initial=0) >= shape.actions:
            raise InvalidInput(
                f"an action lies outside the declared domain 0..{shape.actions - 1}: declare more actions"
            )
        if not np.isfinite(r).all():
            raise InvalidInput("a reward is NaN or infinite: repair or drop it before encoding")
        return cls(s, a, np.clip(r, *shape.rewards), np.full(s.shape[0], shape.horizon, np.int64))

    def only(self, user: int) -> Trajectories:
        """The trajectory of one user."""
        row = slice(user, user + 1)
        return Trajectories(self.states[row], self.actions[row], self.rewards[row], self.lengths[row])

    def __len__(self) -> int:
        return len(self.lengths)

    def __repr__(self) -> str:
        return f"<Trajectories of {len(self)} users, contents not shown>"


class Users(Protocol):
    """Where records come from: simulated people or a table. Privatizers ask for sums of encodings, not for records."""

    def tally(self, encoders: Sequence[Encoder], context: Context, users: int) -> list[Floats]:
        """For each encoder the sum of the encodings of the same next ``users`` users, under the context's policy."""

    def messages(self, encoder: Encoder, context: Context, users: int) -> Floats:
        """The encodings of the next ``users`` users, one row each (for channels that release every user's own)."""
