"""Adversarial losses in layered worlds: everything for this one problem, from the world to the learners.

An adversary chooses a loss table for every episode, and regret is measured against the best fixed policy in hindsight.
The package has its own worlds, encoders, channels, recipes and learners, and the two convex programs over occupancy
measures that the learners solve. Nothing in the core imports it: the registries name it as text.
"""

from __future__ import annotations

# Which station of the flow a file stands for; one that is named like a station needs no entry.
STATIONS = {
    "world": "worlds",
    "catalogue": "worlds",
    "layers": "planning",
    "entropy_program": "planning",
    "barrier_program": "planning",
    "barrier_dual": "planning",
    "transition_box": "learners",
    "perturbed_leader": "learners",
    "shuffled": "recipes",
    "central": "recipes",
    "budget": "recipes",
    "people": "simulation",
}
