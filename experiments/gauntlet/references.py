"""Who does nothing but explore: what could be learned from all users, if regret did not matter.

Two references, for the question whether a world can be learned at all under a promise. Nobody's behaviour depends on
what was released, so one release of everybody is enough (option ``blocks=1``; the local model has no blocks to choose),
and what is recommended is UCBVI's plan from it.

- ``random-play``: everybody acts at random.
- ``guided-play``: everybody knows the world, follows its best policy, and at every step acts at random with probability
  2 / H. No learner can do that. If its users do not tell enough either, a world is hard for anybody; it is no proof,
  because exploring as releases come may need fewer users than either reference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from discreet.base.policies import MIXED, AnyPolicy, StochasticPolicy, uniform_policy
from discreet.base.streams import Stream
from discreet.learners.base import HoldsPolicy, PlannedState, Problem
from discreet.learners.ucbvi import recommended
from discreet.mechanisms.release import Release

_ASTRAY = 2.0  # steps at random in an episode, on average


@dataclass(frozen=True)
class RandomPlay(HoldsPolicy):
    """Everybody acts at random."""

    name: ClassVar[str] = "random-play"
    needs: ClassVar[frozenset[str]] = frozenset({"visits", "transitions", "rewards", MIXED})

    def init(self, problem: Problem, coins: Stream) -> PlannedState:
        """All actions alike, for ever."""
        values = np.zeros((problem.shape.horizon + 1, problem.shape.states))
        return PlannedState(problem, coins, self.play(problem), values)

    def play(self, problem: Problem) -> AnyPolicy:
        """What everybody does."""
        return uniform_policy(problem.shape)

    def update(self, state: PlannedState, release: Release) -> PlannedState:
        """What was released is kept, and nothing is changed by it."""
        return state._replace(release=release)

    def recommend(self, state: PlannedState) -> AnyPolicy:
        """The plan from the last release."""
        return recommended(state.problem, state.coins, state.release)


@dataclass(frozen=True)
class GuidedPlay(RandomPlay):
    """Everybody follows the best policy but for two steps of an episode; ``world`` is what they know."""

    world: Any = None
    name: ClassVar[str] = "guided-play"

    def in_world(self, world: Any) -> GuidedPlay:
        """The users of this world."""
        return GuidedPlay(world)

    def play(self, problem: Problem) -> AnyPolicy:
        """The best action, and now and then any."""
        shape, astray = problem.shape, min(1.0, _ASTRAY / problem.shape.horizon)
        best = np.eye(shape.actions)[self.world.optimal()[1].actions]
        return StochasticPolicy((1.0 - astray) * best + astray / shape.actions)


REFERENCES = {reference.name: reference for reference in (RandomPlay, GuidedPlay)}
