"""Linear worlds: offline learning where values are linear in known features.

The learners ask linear questions (sums of phi phi^T and of phi times a target) about one data set, one after the other;
the channel of ``mechanisms/moments`` answers them with noise, and the recipes split the budget over them. The benchmark
world is here too.
"""

from __future__ import annotations

# Which room a file stands for; one that is named like a room, or like its noun, needs no entry.
STATIONS = {"world": "worlds"}
