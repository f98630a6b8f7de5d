"""Tabular worlds: finitely many states and actions, a horizon, and laws that are known exactly.

A world knows its own optimal value, so regret is computed and never estimated; and it can be played, one episode at a
time, by compiled code. Arrays have a first axis of G *groups*: one if the laws are the same at every step, else one
per step. The reward of a step may depend on the state that follows, so that state is drawn first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from discreet.base.compiled import inlined, kernel
from discreet.base.errors import InvalidInput
from discreet.base.notebook import facts_html, one_line
from discreet.base.policies import AnyPolicy, Mixture, Policy, StochasticPolicy
from discreet.base.shape import Moments, Shape, check_size
from discreet.base.streams import Stream, categorical, uniform
from discreet.base.types import Floats, Integers
from discreet.base.validation import check_array, check_count, check_flag, check_probabilities, check_range
from discreet.worlds.family import shape_facts
from discreet.worlds.planning.backward_induction import best_policy, evaluate, evaluate_stochastic, group
from discreet.worlds.rewards import (
    Deterministic,
    RewardLaw,
    check_declared,
    checked,
    cumulative,
    draw_reward,
    mean,
    regroup,
)


class WorldArrays(NamedTuple):
    """A world as compiled code takes it: (G, S, A, S), (S,), and the reward law."""

    cumulative_transitions: Floats
    cumulative_start: Floats
    rewards: RewardLaw


@inlined
def start_state(world: WorldArrays, stream: Stream) -> int:
    """Draw the state in which an episode starts."""
    cumulative = world.cumulative_start
    u = uniform(stream)
    s, last = 0, cumulative.shape[0] - 1
    while s < last and u >= cumulative[s]:
        s += 1
    return s


@inlined
def next_state(world: WorldArrays, h: int, s: int, a: int, stream: Stream) -> int:
    """Draw the state that follows action ``a`` in state ``s`` at step ``h``."""
    # Scanned in place: a view of the row would cost more than the scan.
    cumulative = world.cumulative_transitions
    g = group(cumulative.shape[0], h)
    u = uniform(stream)
    t, last = 0, cumulative.shape[3] - 1
    while t < last and u >= cumulative[g, s, a, t]:
        t += 1
    return t


@inlined
def rollout(
    world: WorldArrays, actions: Integers, stream: Stream, states: Integers, acts: Integers, rewards: Floats
) -> None:
    """Play one episode of the deterministic policy ``actions`` (H, S) into the buffers.

    ``acts`` and ``rewards`` have room for H steps; ``states`` too, or for H + 1 to keep the state after the last step.
    """
    s = start_state(world, stream)
    for h in range(actions.shape[0]):
        chosen = actions[h]
        s = _play(world, h, s, chosen[s], stream, states, acts, rewards)
    if states.shape[0] > actions.shape[0]:
        states[actions.shape[0]] = s


@kernel
def rollout_stochastic(
    world: WorldArrays, cumulative_policy: Floats, stream: Stream, states: Integers, acts: Integers, rewards: Floats
) -> None:
    """Play one episode of the policy with cumulative action probabilities (H, S, A); buffers as in ``rollout``."""
    s = start_state(world, stream)
    for h in range(cumulative_policy.shape[0]):
        a = categorical(cumulative_policy[h, s], stream)
        s = _play(world, h, s, a, stream, states, acts, rewards)
    if states.shape[0] > cumulative_policy.shape[0]:
        states[cumulative_policy.shape[0]] = s


@inlined
def _play(
    world: WorldArrays, h: int, s: int, a: int, stream: Stream, states: Integers, acts: Integers, rewards: Floats
) -> int:
    t = next_state(world, h, s, a, stream)
    states[h] = s
    acts[h] = a
    rewards[h] = draw_reward(world.rewards, group(world.cumulative_transitions.shape[0], h), s, a, t, stream)
    return t  # type: ignore[no-any-return]


@dataclass(frozen=True, eq=False)
class TabularWorld:
    """A Markov decision process given by tables.

    ``transitions`` is (G, S, A, S) with G equal to 1 or the horizon, ``rewards`` a law of ``discreet.worlds.rewards``
    with tables of the same G, S and A, ``start`` (S,) the distribution of the first state. ``reward_range`` is
    declared, and the world refuses a law that can leave it; if ``moments`` declares heavy tails, it is the range of the
    mean rewards instead.

    Args:
        name: What results call it.
        transitions: Probabilities of successors.
        rewards: The law of the rewards.
        start: The distribution of the first state.
        horizon: Steps of an episode.
        reward_range: The declared range.
        moments: The declared moment bound of heavy tails.

    Examples:
        >>> import discreet
        >>> world = discreet.worlds.from_arrays([[[1.0], [1.0]]], [[0.2, 0.7]], horizon=3)
        >>> type(world).__name__, round(world.optimal_value, 3)
        ('TabularWorld', 2.1)
    """

    name: str
    transitions: Floats
    rewards: Any  # a law of worlds.rewards or one that registered itself there
    start: Floats
    horizon: int
    reward_range: tuple[float, float] = (0.0, 1.0)
    moments: Moments | None = None
    people: ClassVar[str] = "discreet.simulation.block_loop:tabular_people"  # who acts here, for simulations

    def __post_init__(self) -> None:
        horizon = check_count("horizon", self.horizon)
        table = check_array("transitions", self.transitions)
        if table.ndim != 4 or table.shape[1] != table.shape[3] or table.shape[0] not in (1, horizon):
            raise InvalidInput(
                f"transitions must have shape (G, S, A, S) with G equal to 1 or the horizon, {horizon}; "
                f"got {table.shape}"
            )
        transitions = np.ascontiguousarray(check_probabilities("transitions", table))
        groups, states, actions, _ = transitions.shape
        start = check_probabilities("start", self.start, (states,))
        law = checked(self.rewards, groups, states, actions)
        declared = check_range("reward_range", self.reward_range)
        means = Deterministic(mean(law, transitions))
        check_declared(law if self.moments is None else means, transitions, declared)
        for array in (transitions, start, *law):
            array.flags.writeable = False
        object.__setattr__(self, "transitions", transitions)
        object.__setattr__(self, "rewards", law)
        object.__setattr__(self, "start", start)
        object.__setattr__(self, "horizon", horizon)
        object.__setattr__(self, "reward_range", declared)
        check_size(self.shape)

    def __repr__(self) -> str:
        return one_line("TabularWorld", self.name, self.shape.words())

    def _repr_html_(self) -> str:
        return facts_html(f"World {self.name}", shape_facts(self.shape))

    @property
    def homogeneous(self) -> bool:
        """Whether the laws are declared the same at every step."""
        return bool(self.transitions.shape[0] == 1)

    @property
    def shape(self) -> Shape:
        """What may be known about this world in public; the start state is, if there is only one."""
        _, states, actions, _ = self.transitions.shape
        certain = np.flatnonzero(self.start == 1.0)
        start = int(certain[0]) if certain.size else None
        return Shape(states, actions, self.horizon, self.homogeneous, self.reward_range, start, self.moments)

    @cached_property
    def means(self) -> Floats:
        """Expected rewards, (G, S, A)."""
        return mean(self.rewards, self.transitions)

    def optimal(self) -> tuple[Floats, Policy]:
        """The optimal values (H + 1, S), and a policy that attains them (ties: the lowest action)."""
        return self._optimal

    @cached_property
    def _optimal(self) -> tuple[Floats, Policy]:
        policy, values = best_policy(*self._model, self.horizon)
        values.flags.writeable = False
        return values, policy

    @property
    def optimal_value(self) -> float:
        """The expected return of the best policy, over the start distribution."""
        return float(self.start @ self._optimal[0][0])

    def value(self, policy: AnyPolicy) -> float:
        """The expected return of a policy: exact, over the start distribution and the components of a mixture."""
        self.check_policy(policy)
        match policy:
            case Mixture(components, weights):
                return float(sum(w * self._value(component) for w, component in zip(weights, components, strict=True)))
            case _:
                return self._value(policy)

    def gap(self, policy: AnyPolicy) -> float:
        """How much less than the best a policy earns per episode; at least 0, rounding aside."""
        value = self.value(policy)
        return max(0.0, self.optimal_value - value)

    def check_policy(self, policy: AnyPolicy) -> None:
        """Refuse a policy made for another horizon, other states or other actions."""
        _, states, actions, _ = self.transitions.shape
        if (policy.horizon, policy.states) != (self.horizon, states):
            raise InvalidInput(
                f"the policy is for horizon {policy.horizon} and {policy.states} states, "
                f"world {self.name} has horizon {self.horizon} and {states} states"
            )
        match policy:
            case StochasticPolicy(probabilities):
                fits = probabilities.shape[2] == actions
            case Mixture(components):
                fits = all(component.actions.max() < actions for component in components)
            case Policy(table):
                fits = table.max() < actions
        if not fits:
            raise InvalidInput(
                f"the policy has other actions than world {self.name}, which has actions 0..{actions - 1}"
            )

    def arrays(self) -> WorldArrays:
        """The world for compiled code."""
        law = type(self.rewards)(*(np.array(table) for table in self.rewards))
        return WorldArrays(cumulative(self.transitions), cumulative(self.start), law)

    def with_time(self, homogeneous: bool) -> TabularWorld:
        """The same world declared time-homogeneous, or with separate laws per step."""
        check_flag("homogeneous", homogeneous)
        if homogeneous == self.homogeneous or self.horizon == 1:
            return self
        if not homogeneous:
            check_size(replace(self.shape, homogeneous=False), successors=True)
            return self._regrouped(lambda table: np.repeat(table, self.horizon, axis=0))
        grouped = [table for table in (self.transitions, *self.rewards) if table.ndim > 1]
        if any((table != table[:1]).any() for table in grouped):
            raise InvalidInput(f"world {self.name} cannot be declared homogeneous: its laws differ from step to step")
        return self._regrouped(lambda table: table[:1])

    def _regrouped(self, change: Callable[[Floats], Floats]) -> TabularWorld:
        return replace(self, transitions=change(self.transitions), rewards=regroup(self.rewards, change))

    @cached_property
    def _model(self) -> tuple[Floats, Floats]:
        # numba compiles a kernel once more for read-only arrays, so planning works on writable copies.
        return np.array(self.transitions), np.array(self.means)

    def _value(self, policy: Policy | StochasticPolicy) -> float:
        values = np.empty((self.horizon + 1, self.start.size))
        match policy:
            case Policy(actions):
                evaluate(*self._model, np.array(actions), values)
            case StochasticPolicy(probabilities):
                evaluate_stochastic(*self._model, np.array(probabilities), values)
        return float(self.start @ values[0])
