"""rlberry-scool's UCBVI on a world of ours, through its own finite MDP."""

from __future__ import annotations

from typing import Any

import numpy as np


def rlberry_run(world: Any, episodes: int) -> Any:
    """A fresh agent, trained for some episodes; counts are pooled over steps, as ours are."""
    from rlberry.envs.finite_mdp import FiniteMDP
    from rlberry_scool.agents.ucbvi import UCBVIAgent

    class World(FiniteMDP):  # type: ignore[misc]
        def _check(self) -> None:
            """Ours sum to one up to rounding, and its own check allows none."""

        def reward_fn(self, state: int, action: int, next_state: int) -> float:
            return float(self.rng.random() < self.R[state, action])

    start = int(np.argmax(world.start)) if world.start.max() == 1 else world.start
    place = World(world.means[0].copy(), np.array(world.transitions[0]), start)
    agent = UCBVIAgent(place, gamma=1.0, horizon=world.horizon)
    agent.fit(budget=episodes)
    return agent
