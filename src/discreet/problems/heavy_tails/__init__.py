"""Heavy-tailed rewards: everything for rewards that have no range, only a bound on a moment.

The package has its own reward laws and hard worlds, encoders and a channel that clip rewards at public thresholds,
recipes and learners. Nothing in the core imports it: the registries name it as text.
"""

from __future__ import annotations

# Which room a file stands for; one that is named like a room, or like its noun, needs no entry.
STATIONS = {
    "world": "worlds",
    "published_tables": "mechanisms",
    "stochastic_rounding": "mechanisms/counts",
    "theorem_bonuses": "learners",
}
