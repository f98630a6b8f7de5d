"""Linear worlds: offline learning where values are linear in known features.

The learners ask linear questions (sums of phi phi^T and of phi times a target) about one data set, one after the other;
the channel answers them with noise, and the recipes split the budget over them. The benchmark world is here too.
"""

from __future__ import annotations

# Which station of the flow a file stands for; one that is named like a station needs no entry.
STATIONS = {"world": "worlds", "channel": "channels", "symmetric_matrix": "noise"}
