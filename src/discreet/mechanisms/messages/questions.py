r"""Which row (state, action) a user is asked about: where her answer is likely to tell something that is not known yet.

A question about a row that she never visits is answered by "none", and one about a row of which hundreds have told
tells little more. So a row that the public policy can play is picked in proportion to

    (0.1 + 0.9 v)^3 / (1 + n)^2,

where n is how many users were asked about it so far, and v the probability that a user visits it, as far as is known.
A row that is tried for the first time is asked about at once, and what nobody can reach yet hardly ever.

**How likely a row is to be visited.** Successors that stand out of the noise by one deviation, with 1/2 + 0.3
deviations of what may have been anywhere; start in the declared state, or in any; then along the policy,

    v = 1 - product over steps of (1 - probability to be in the row at that step).

**Formal guarantees.** All of this is public: the policy, who was asked, and answers that devices have randomised. And
nothing rests on it: a question is answered with the whole epsilon whatever it is, and answers are decoded without these
weights.
"""

from __future__ import annotations

import numpy as np

from discreet.base.policies import AnyPolicy
from discreet.base.shape import Shape
from discreet.base.types import Floats, Mask
from discreet.mechanisms.messages.sampled_item import action_weights

_FINEST = 1_000_000  # weights are whole numbers up to this
_ANYWAY = 0.1  # what counts for a row that nobody is expected to visit
_CUT, _UNKNOWN, _LEAST = 1.0, 0.3, 0.5  # deviations that a successor must stand out, and what may have led anywhere


def weights_of(rows: Mask, asked: Floats, visited: Floats) -> tuple[int, ...]:
    """The weight of each row as a whole number, zero for those that cannot be asked about."""
    worth = np.where(rows, (_ANYWAY + (1 - _ANYWAY) * visited) ** 3 / (1.0 + asked) ** 2, 0.0)
    whole = np.maximum(1, np.rint(_FINEST * worth / worth.max()))
    return tuple(int(weight) for weight in np.where(rows, whole, 0))


def likely_visits(shape: Shape, policy: AnyPolicy, moves: Floats, deviations: Floats) -> Floats:
    """v of every row: ``moves`` (successor, row) were counted with noise of these ``deviations`` (row)."""
    S, A, H = shape.states, shape.actions, shape.horizon
    known, anywhere = np.maximum(0.0, moves - _CUT * deviations), _LEAST + _UNKNOWN * deviations
    successors = ((known + anywhere / S) / (known.sum(axis=0) + anywhere)).T
    plays = action_weights(shape, policy)
    here = np.full(S, 1.0 / S) if shape.start is None else np.eye(S)[shape.start]
    missed: Floats = np.ones(S * A)
    for h in range(H):
        rows = (here[:, None] * plays[h]).reshape(-1)
        missed *= 1.0 - np.minimum(1.0, rows)
        here = rows @ successors
    return 1.0 - missed
