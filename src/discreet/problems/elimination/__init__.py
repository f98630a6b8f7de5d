"""Policy elimination: the learner of SDP-PE, and the sets of policies that it works with.

The learner drops policies that cannot be the best, and dictates how many users each of its batches has. It runs with
the ordinary worlds and recipes of the core, so the package holds a learner and planning, and no mechanism.
"""

from __future__ import annotations

# Which room a file stands for; one that is named like a room, or like its noun, needs no entry.
STATIONS = {
    "active_sets": "learners",
    "absorbing_model": "learners",
    "coverage_design": "worlds/planning",
    "policy_factors": "worlds/planning",
    "implicit_set": "worlds/planning",
}
