"""Adversarial losses in layered worlds: everything for this one problem, from the world to the learners.

An adversary chooses a loss table for every episode, and regret is measured against the best fixed policy in hindsight.
The package has its own worlds, encoders, channels, recipes and learners, and the two convex programs over occupancy
measures that the learners solve. Nothing in the core imports it: the registries name it as text.
"""

from __future__ import annotations

# Which room a file stands for; one that is named like a room, or like its noun, needs no entry.
STATIONS = {
    "world": "worlds",
    "benchmark_worlds": "worlds",
    "layers": "worlds/planning",
    "entropy_program": "worlds/planning",
    "barrier_program": "worlds/planning",
    "transition_box": "learners",
    "perturbed_leader": "learners",
    "shuffle_recipes": "recipes",
    "central_recipes": "recipes",
    "layered_budget": "recipes",
}
