"""Policy elimination: the learner of SDP-PE, and the sets of policies that it works with.

The learner drops policies that cannot be the best, and dictates how many users each of its batches has. It runs with
the ordinary worlds and recipes of the core, so the package holds a learner and planning, and no mechanism.
"""

from __future__ import annotations

# Which station of the flow a file stands for; one that is named like a station needs no entry.
STATIONS = {
    "learner": "learners",
    "active_sets": "learners",
    "absorbing_model": "learners",
    "coverage": "planning",
    "policy_factors": "planning",
    "implicit_set": "planning",
}
