"""Worlds that other packages define, read from their tables: Gymnasium's toy texts and ICU-Sepsis.

**Gymnasium**: environments that carry their transition table, such as FrozenLake, Taxi and CliffWalking. The table
``env.unwrapped.P[state][action]`` lists (probability, next state, reward, terminated). An episode that terminates goes
to a state where nothing more happens: the next state itself where the table makes it one, otherwise one extra state.
The horizon replaces the environment's own limit on steps. The range of the rewards is read off the table, which is
public: it is the environment's definition and holds nobody's data.

**ICU-Sepsis**: treating sepsis in intensive care, as a table made from 17,000 real patients (Choudhary et al. 2024).
716 states (713 conditions of a patient, then death, survival and a last state that nothing leaves), 25 actions (five
levels of fluids times five of vasopressors). The tables and the clinicians' own policy are those of the ``icu-sepsis``
package, which must be installed; nothing of it is copied here.

The reward is 1 in the state "survival", which patients pass through once, so that it is a public function of the state:
a learner need not estimate it. A patient who reaches survival with the very last action is therefore not counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from discreet.base.errors import InvalidInput, MissingExtra, Unsupported, check_name
from discreet.base.policies import StochasticPolicy
from discreet.base.types import ArrayLike, Floats, NDArray
from discreet.base.validation import check_count
from discreet.worlds.rewards import Deterministic, FiniteOnTransition, OnTransition, RewardLaw, cumulative
from discreet.worlds.tabular import TabularWorld

Table: TypeAlias = Mapping[int, Mapping[int, Sequence[tuple[float, int, float, bool]]]]


def from_gymnasium(environment: Any, horizon: int, *, start: ArrayLike | None = None, **options: Any) -> TabularWorld:
    """The exact world of a Gymnasium environment, given by its id (and options) or as an object.

    ``start`` is the distribution of the first state where the environment does not carry one.

    Args:
        environment: An id such as "FrozenLake-v1", or an environment with tables (toy text).
        horizon: Steps of an episode.
        start: See above.
        options: Keywords for ``gymnasium.make``.

    Examples:
        >>> import discreet
        >>> discreet.worlds.from_gymnasium("FrozenLake-v1", horizon=10, map_name="4x4").shape.states
        16
    """
    check_count("horizon", horizon)
    if isinstance(environment, str):
        made = _make(environment, options)
        try:
            return _world(environment, made, horizon, start)
        finally:
            made.close()
    if options:
        raise InvalidInput(f"options {sorted(options)} belong to an id; this environment is already made")
    spec = getattr(environment, "spec", None)
    return _world(getattr(spec, "id", type(environment.unwrapped).__name__), environment, horizon, start)


def frozen_lake(size: str = "4x4", slippery: bool = True, horizon: int = 50) -> TabularWorld:
    """FrozenLake: cross the ice to the goal without falling into a hole; on a slippery lake one slides sideways.

    Args:
        size: ``4x4`` or ``8x8``.
        slippery: Whether one slides.
        horizon: Steps of an episode.

    Examples:
        >>> import discreet
        >>> discreet.worlds.frozen_lake(horizon=10).shape.actions
        4
    """
    check_name("size of a lake", size, ("4x4", "8x8"))
    return from_gymnasium(_newest("FrozenLake"), horizon, map_name=size, is_slippery=slippery)


def taxi(horizon: int = 30) -> TabularWorld:
    """Taxi: fetch a passenger and drop them off at their destination.

    Args:
        horizon: Steps of an episode.

    Examples:
        >>> import discreet
        >>> discreet.worlds.taxi(horizon=5).shape.states  # one more for the end
        501
    """
    return from_gymnasium(_newest("Taxi"), horizon)


def cliff_walking(slippery: bool = False, horizon: int = 30) -> TabularWorld:
    """CliffWalking: walk along a cliff to the goal; a step over the edge costs 100 and leads back to the start.

    Args:
        slippery: Whether one slides.
        horizon: Steps of an episode.

    Examples:
        >>> import discreet
        >>> discreet.worlds.cliff_walking(horizon=5).shape.states  # one more for the end
        49
    """
    return from_gymnasium(_newest("CliffWalking"), horizon, is_slippery=slippery)


def _world(name: str, environment: Any, horizon: int, start: ArrayLike | None) -> TabularWorld:
    bare = environment.unwrapped
    table = getattr(bare, "P", None)
    if table is None:
        raise Unsupported(f"environment {name} carries no transition table P, so it is not a tabular world")
    if getattr(bare, "fickle_passenger", False):
        raise Unsupported(
            f"environment {name} with a fickle passenger departs from its own table; leave that option off"
        )
    transitions, outcomes = _merge(name, table)
    law = _law(transitions, outcomes)
    values = [reward for rewards in outcomes.values() for reward in rewards]
    first = getattr(bare, "initial_state_distrib", None) if start is None else start
    if first is None:
        raise InvalidInput(f"environment {name} carries no start distribution: pass start=, one probability per state")
    begin = np.zeros(transitions.shape[1])
    begin[: len(table)] = _start(first, len(table))
    return TabularWorld(name, transitions, law, begin, horizon, _range(min(values), max(values)))


def _merge(name: str, table: Table) -> tuple[Floats, dict[tuple[int, int, int], dict[float, float]]]:
    """Transitions (1, S, A, S), and the rewards of every possible one with their probabilities, ends made absorbing."""
    states, actions = len(table), len(table[0])
    if set(table) != set(range(states)) or any(set(row) != set(range(actions)) for row in table.values()):
        raise Unsupported(f"environment {name} must number its states and actions from 0, the same actions everywhere")
    final = [all(t == s and r == 0 for entries in table[s].values() for _, t, r, _ in entries) for s in range(states)]
    outcomes: dict[tuple[int, int, int], dict[float, float]] = {}
    extra = 0
    for s in range(states):
        for a in range(actions):
            for p, t, r, terminated in table[s][a]:
                if p > 0:
                    ends = bool(terminated) and not final[t]
                    extra = max(extra, int(ends))
                    rewards = outcomes.setdefault((s, a, states if ends else int(t)), {})
                    rewards[float(r)] = rewards.get(float(r), 0.0) + float(p)
    if extra:
        outcomes |= {(states, a, states): {0.0: 1.0} for a in range(actions)}
    transitions = np.zeros((1, states + extra, actions, states + extra))
    for (s, a, t), rewards in outcomes.items():
        transitions[0, s, a, t] = sum(rewards.values())
    return transitions, outcomes


def _law(transitions: Floats, outcomes: Mapping[tuple[int, int, int], Mapping[float, float]]) -> RewardLaw:
    """The simplest law that says it: by state and action, by transition, or drawn given the transition."""
    if any(len(rewards) > 1 for rewards in outcomes.values()):
        points = sorted({reward for rewards in outcomes.values() for reward in rewards})
        chances = np.zeros((*transitions.shape, len(points)))
        chances[..., 0] = transitions == 0  # impossible transitions need some law
        for (s, a, t), rewards in outcomes.items():
            for reward, p in rewards.items():
                chances[0, s, a, t, points.index(reward)] = p / transitions[0, s, a, t]
        return FiniteOnTransition(np.array(points), cumulative(chances))
    values = np.full(transitions.shape, np.nan)
    for (s, a, t), rewards in outcomes.items():
        values[0, s, a, t] = next(iter(rewards))
    lowest = np.nanmin(values, axis=-1)
    if (lowest == np.nanmax(values, axis=-1)).all():
        return Deterministic(lowest)
    return OnTransition(np.nan_to_num(values, nan=0.0))


def _range(low: float, high: float) -> tuple[float, float]:
    if low < high:
        return low, high
    return (min(low, 0.0), max(high, 0.0)) if low else (0.0, 1.0)


def _start(start: ArrayLike, states: int) -> Floats:
    array = np.asarray(start, dtype=np.float64)
    if array.shape != (states,):
        raise InvalidInput(f"start must have one probability per state ({states}), got shape {array.shape}")
    return array


def _make(name: str, options: Mapping[str, Any]) -> Any:
    gymnasium = _gymnasium()
    try:
        return gymnasium.make(name, **options)
    except (gymnasium.error.Error, TypeError, ValueError, KeyError) as error:
        raise InvalidInput(f"Gymnasium cannot make {name!r}: {' '.join(str(error).split())[:200]}") from None


def _newest(family: str) -> str:
    """The id with the highest version, because Gymnasium retires old ones."""
    specs = _gymnasium().registry.values()
    version = max((spec.version or 0 for spec in specs if spec.name == family), default=None)
    if version is None:
        raise Unsupported(f"this release of Gymnasium has no environment {family}")
    return f"{family}-v{version}"


def _gymnasium() -> Any:
    try:
        import gymnasium
    except ImportError:
        raise MissingExtra("gymnasium", "gym") from None
    return gymnasium


_TABLES = "envs/assets/dynamics.npz"
SURVIVAL, LAST = 714, 715


def icu_sepsis(horizon: int = 20) -> TabularWorld:
    """The world of the ``icu-sepsis`` package with so many decisions per patient; laws are the same at every step."""
    check_count("horizon", horizon)
    tables = _tables()
    transitions = np.array(tables["tx_mat"], np.float64)
    states, actions, _ = transitions.shape
    transitions[SURVIVAL:] = 0.0
    transitions[SURVIVAL:, :, LAST] = 1.0
    means = np.zeros((1, states, actions))
    means[0, SURVIVAL] = 1.0
    return TabularWorld("icu-sepsis", transitions[None], Deterministic(means), tables["d_0"], horizon)


def clinicians(horizon: int = 20) -> StochasticPolicy:
    """What clinicians did: the probability of every treatment in every condition."""
    policy = np.array(_tables()["expert_policy"], np.float64)
    sums = policy.sum(axis=1, keepdims=True)
    policy = np.where(sums > 0, policy / np.where(sums > 0, sums, 1.0), 1.0 / policy.shape[1])
    return StochasticPolicy(np.broadcast_to(policy, (check_count("horizon", horizon), *policy.shape)))


def _tables() -> dict[str, NDArray[Any]]:
    # The package is not imported: it starts an environment, and all that is wanted is its table.
    package = find_spec("icu_sepsis")
    if package is None or not package.submodule_search_locations:
        raise MissingExtra("icu-sepsis", "icu")
    file = Path(next(iter(package.submodule_search_locations))) / _TABLES
    try:
        with np.load(file, allow_pickle=False) as tables:
            return {name: tables[name] for name in ("tx_mat", "d_0", "expert_policy")}
    except (OSError, KeyError, ValueError):
        raise InvalidInput(
            "the installed icu-sepsis package has other tables than those of version 2.0: install that"
        ) from None
