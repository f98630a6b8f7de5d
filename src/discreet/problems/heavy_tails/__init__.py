"""Heavy-tailed rewards: everything for rewards that have no range, only a bound on a moment.

The package has its own reward laws and hard worlds, encoders and a channel that clip rewards at public thresholds,
recipes and learners. Nothing in the core imports it: the registries name it as text.
"""

from __future__ import annotations

# Which station of the flow a file stands for; one that is named like a station needs no entry.
STATIONS = {
    "channel": "channels",
    "other_steps": "learners",
    "printed_local": "encoders",
    "printed_tables": "encoders",
    "raw_counts": "channels",
    "rounded_rewards": "encoders",
    "theory": "learners",
}
