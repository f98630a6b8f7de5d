r"""States that nobody was seen in: a plan that is recommended does not count on arriving there.

A row (state, action) has S successors, and noise lets some of them stand out that never follow. For a learner that
explores such a successor is worth a look. A plan without bonus takes it to be worth nothing: it makes a way that all
users have gone look dangerous, and another one, about which less is known, look safe. But who arrives in a state visits
it. With N the released visits of a state, summed over its actions, and sd the deviation of the noise in that sum,

    arriving in a state counts only if N >= 3 sd,

and the successors that are left share what was counted. Of a state where nobody was, one in 700 passes; a state that
users do come to is left out while its visits do not stand out of the noise, and little is lost by that.

This is for steps that are pooled: with laws per step every step has visits of its own, which stand out less, and it
changed nothing (docs/decisions/0012-what-is-recommended.md). Without noise nothing is left out.

**Formal guarantees.** Post-processing of a release.
"""

from __future__ import annotations

import numpy as np

from discreet.base.shape import Shape
from discreet.mechanisms.release import Statistics

_STANDS_OUT = 3.0  # deviations of the noise in the visits of a state


def in_seen_states(shape: Shape, statistics: Statistics) -> Statistics:
    """The statistics without arrivals in states that nobody was seen in."""
    if not shape.homogeneous or shape.horizon == 1 or not statistics.visit_noise.any():
        return statistics
    visits, noise = (array.reshape(shape.states, -1) for array in (statistics.visits, statistics.visit_noise))
    seen = visits.sum(axis=1) >= _STANDS_OUT * np.sqrt((noise**2).sum(axis=1))
    return statistics._replace(transitions=np.where(seen[:, None], statistics.transitions, 0.0))
