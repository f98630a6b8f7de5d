"""Simulated users: they act under a policy in a world, and only encodings of what they did come out.

Users act one by one or, where only counts matter, all at once.

**Many users at once.** Users are exchangeable, so only counts matter. Let n_h(s) users be in state s at step h. Their
actions, successors and reward bits are multinomial given n_h(s), and the successors' counts are n_{h+1}: a cascade of H
draws gives the table

    N(h, s, a, successor or end, reward bit)

with exactly the law that it has when every user is simulated. Encoders that count every visit are sums of that table.
First visits depend on the path of each user, so they are not, and neither are several picked steps.

If each user is asked about her first visit of one row, users who are asked about different rows are different people:
the answers about a row are one multinomial draw. With d_h(s) the probability to be in s at step h and not to have
visited the row (s', a) before, she first visits it at step h with probability d_h(s') pi_h(a | s'), and its successor
and its reward have the law of the row.

If one step is picked per user, the users picked at different steps are different people: the cells of step h are one
multinomial draw from the exact occupancy of step h, independent of all others.

A reward enters as one bit of probability (E r - low) / span given (s, a, successor): stochastic rounding of a reward
that is random itself is a coin with its mean. Tables of unrounded rewards are served where rewards are known numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from discreet.base.compiled import kernel
from discreet.base.policies import AnyPolicy, Mixture, Policy, StochasticPolicy
from discreet.base.streams import Stream, next_word
from discreet.base.types import Floats, Integers
from discreet.mechanisms.counts.encoder import Context, Encoder, by_successor, encode_all
from discreet.mechanisms.counts.first_visit_question import BIT, SUCCESSOR, AskedFirstVisit
from discreet.mechanisms.counts.joint_histogram import JointHistogram
from discreet.mechanisms.counts.sampled_step import SampledStep
from discreet.mechanisms.counts.three_tables import ThreeTables
from discreet.mechanisms.counts.two_tables import TwoTables, from_joint_counts
from discreet.mechanisms.trajectories import Trajectories
from discreet.worlds.rewards import Bernoulli, Deterministic, Finite, FiniteOnTransition, OnTransition, cumulative
from discreet.worlds.tabular import TabularWorld, WorldArrays, rollout, rollout_stochastic

_AT_ONCE = 4096  # users simulated at a time: enough to amortise a call, few enough to stay in cache
_MANY = 512  # from here on one draw for all of them is cheaper than simulating each
_PRODUCTS = 20  # of probabilities that are computed while one step of one user is simulated


class SimulatedUsers:
    """Everybody who will ever act in one simulated run; what they do in their world is up to the kind of world.

    ``deterministic_switches`` counts how often consecutive users followed different deterministic policies; a mixture's
    component is drawn for each user with public coins, and so are the actions of a stochastic policy.
    """

    def __init__(self, draws: Stream, coins: np.random.Generator) -> None:
        self.deterministic_switches = 0
        self._stream, self._coins = draws, coins
        self._encoders: dict[Encoder, Any] = {}
        self._last: AnyPolicy | None = None

    def tally(self, encoders: Sequence[Encoder], context: Context, users: int) -> list[Floats]:
        """For each encoder the sum of the encodings of the same next ``users`` users."""
        sums = [np.zeros((1, encoder.size)) for encoder in encoders]
        for component, count in self._assign(context.policy, users):
            self._add(encoders, component, count, sums)
        return [total[0] for total in sums]

    def messages(self, encoder: Encoder, context: Context, users: int) -> Floats:
        """The encodings of the next ``users`` users, one row each."""
        cells, i = np.zeros((users, encoder.size)), 0
        for component, count in self._assign(context.policy, users):
            for first in range(0, count, _AT_ONCE):
                played = self._episodes(component, min(_AT_ONCE, count - first))
                for one in range(len(played)):
                    self._encode(encoder, played.only(one), cells[i : i + 1])
                    i += 1
        return cells

    def _add(
        self, encoders: Sequence[Encoder], policy: Policy | StochasticPolicy, users: int, sums: list[Floats]
    ) -> None:
        """Let users follow one policy, and add their encodings to the sums."""
        for first in range(0, users, _AT_ONCE):
            played = self._episodes(policy, min(_AT_ONCE, users - first))
            for encoder, total in zip(encoders, sums, strict=True):
                self._encode(encoder, played, total)

    def _episodes(self, policy: Policy | StochasticPolicy, users: int) -> Trajectories:
        raise NotImplementedError

    def _encode(self, encoder: Encoder, played: Trajectories, out: Floats) -> None:
        arrays = self._encoders.setdefault(encoder, encoder.arrays())
        encode_all(arrays, played.states, played.actions, played.rewards, played.lengths, self._stream, out)

    def _assign(self, policy: AnyPolicy, users: int) -> list[tuple[Policy | StochasticPolicy, int]]:
        """Who plays what."""
        if isinstance(policy, Mixture):
            return self._drawn(policy, users)
        self._count(policy, users if isinstance(policy, StochasticPolicy) else 1, policy)
        return [(policy, users)]

    def _drawn(self, policy: Mixture, users: int) -> list[tuple[Policy | StochasticPolicy, int]]:
        """Users are exchangeable, so those who draw the same component are simulated together."""
        drawn = self._coins.choice(len(policy.components), size=users, p=policy.weights)
        self._count(
            policy.components[drawn[0]], 1 + int(np.count_nonzero(np.diff(drawn))), policy.components[drawn[-1]]
        )
        counts = np.bincount(drawn, minlength=len(policy.components))
        return [(component, int(n)) for component, n in zip(policy.components, counts, strict=True) if n]

    def _count(self, first: AnyPolicy, pieces: int, last: AnyPolicy) -> None:
        """Add the switches of a block that deploys ``pieces`` deterministic policies one after the other."""
        changed = self._last is not None and (self._last != first or isinstance(first, StochasticPolicy))
        self.deterministic_switches += pieces - 1 + changed
        self._last = last


class TabularUsers(SimulatedUsers):
    """Users of a tabular world."""

    def __init__(self, world: TabularWorld, draws: Stream, coins: np.random.Generator) -> None:
        super().__init__(draws, coins)
        self._world, self._horizon = world.arrays(), world.horizon
        self._at_once = AtOnce(world, np.random.default_rng(int(next_word(draws))))

    def _add(
        self, encoders: Sequence[Encoder], policy: Policy | StochasticPolicy, users: int, sums: list[Floats]
    ) -> None:
        """Many users are counted at once, unless several encoders see them: draws of their own would not agree."""
        if len(encoders) == 1 and users >= _many(encoders[0]) and self._at_once.serves(encoders[0]):
            sums[0][0] += self._at_once.tally(encoders[0], policy, users)
        else:
            super()._add(encoders, policy, users, sums)

    def _episodes(self, policy: Policy | StochasticPolicy, users: int) -> Trajectories:
        H = self._horizon
        played = Trajectories(
            np.empty((users, H), np.int64), np.empty((users, H), np.int64), np.empty((users, H)), np.full(users, H)
        )
        if isinstance(policy, Policy):
            _play_deterministic(
                self._world, np.array(policy.actions), self._stream, played.states, played.actions, played.rewards
            )
        else:
            actions = cumulative(policy.probabilities)
            _play_stochastic(self._world, actions, self._stream, played.states, played.actions, played.rewards)
        return played


@kernel
def _play_deterministic(
    world: WorldArrays,
    policy: Integers,
    stream: Stream,
    states: Integers,
    actions: Integers,
    rewards: Floats,
) -> None:
    for i in range(states.shape[0]):
        rollout(world, policy, stream, states[i], actions[i], rewards[i])


@kernel
def _play_stochastic(
    world: WorldArrays,
    cumulative_policy: Floats,
    stream: Stream,
    states: Integers,
    actions: Integers,
    rewards: Floats,
) -> None:
    for i in range(states.shape[0]):
        rollout_stochastic(world, cumulative_policy, stream, states[i], actions[i], rewards[i])


class AtOnce:
    """The tallies of one world, where they can be drawn at once."""

    def __init__(self, world: TabularWorld, generator: np.random.Generator) -> None:
        self._world, self._generator = world, generator
        means = _means_given_successor(world)
        low, high = world.reward_range
        self._bits = None if means is None else np.clip((means - low) / (high - low), 0.0, 1.0)
        self._last: tuple[Any, Floats] | None = None

    def serves(self, encoder: Any) -> bool:
        """Whether the tally of this encoder can be drawn without simulating every user."""
        if self._bits is None:
            return False
        match encoder:
            case SampledStep(steps=1, reward_range=clipped):
                return clipped == self._world.reward_range
            case JointHistogram() | TwoTables(first_visit=False):
                return True
            case AskedFirstVisit():
                return len(self._world.transitions) == 1
            case ThreeTables(rounded=rounded):
                return rounded or isinstance(self._world.rewards, Bernoulli)
            case _:
                return False

    def tally(self, encoder: Any, policy: Policy | StochasticPolicy, users: int) -> Floats:
        """The sum of the encodings of ``users`` users who follow ``policy``."""
        if isinstance(encoder, SampledStep):
            return self._picked(encoder, policy, users)
        if isinstance(encoder, AskedFirstVisit):
            return self._answered(encoder, policy, users)
        counts = self._counts(policy, users)
        if not encoder.shape.homogeneous or encoder.shape.horizon == 1:
            grouped = counts
        else:
            grouped = counts.sum(axis=0, keepdims=True)
        if isinstance(encoder, JointHistogram):
            return np.asarray(grouped.reshape(-1), np.float64)
        if isinstance(encoder, TwoTables):
            return from_joint_counts(grouped)
        S = encoder.shape.states
        transitions = by_successor(grouped[:, :, :, :S].sum(axis=4))
        tables = grouped.sum(axis=(3, 4)), transitions, grouped[:, :, :, :, 1].sum(axis=3)
        return np.concatenate([table.reshape(-1) for table in tables]).astype(np.float64)

    def _picked(self, encoder: SampledStep, policy: Policy | StochasticPolicy, users: int) -> Floats:
        H = self._world.horizon
        asked = self._generator.multinomial(users, np.full(H, 1.0 / H))
        occupancy = self._occupancy(policy)
        items = self._generator.multinomial(asked, occupancy)
        return np.concatenate([items.reshape(-1), asked]).astype(np.float64)

    def _answered(self, encoder: AskedFirstVisit, policy: Policy | StochasticPolicy, users: int) -> Floats:
        draw, questions = self._generator, encoder.arrays()
        shares = np.diff(questions.up_to, prepend=0.0)
        about = draw.multinomial(users, np.repeat(shares / 2, 2)).reshape(-1, 2)
        visited, followed = self._first_visits(policy, questions.rows)
        moves = self._world.transitions[0].reshape(encoder.rows, -1)[questions.rows]
        ones = np.minimum(1.0, (moves * self._bit_table(0).reshape(encoder.rows, -1)[questions.rows]).sum(axis=1))
        tally = np.zeros(encoder.size)
        _answers, asked = encoder.split(tally)
        asked[questions.rows] = about
        answers = {
            SUCCESSOR: (encoder.successors(tally), followed[:, None] * moves),
            BIT: (encoder.bits(tally), visited[:, None] * np.stack([1.0 - ones, ones], axis=1)),
        }
        for question, (table, law) in answers.items():
            none = np.maximum(0.0, 1.0 - law.sum(axis=1, keepdims=True))
            given = draw.multinomial(about[:, question], _exactly_one(np.concatenate([law, none], axis=1)))
            table[:, questions.rows] = given[:, :-1].T
        return tally

    def _first_visits(self, policy: Policy | StochasticPolicy, rows: Integers) -> tuple[Floats, Floats]:
        """The probability to visit each row at all, and to visit it first before the last step."""
        moves = self._world.transitions[0]
        S, A = moves.shape[:2]
        states, actions = np.divmod(rows, A)
        here = np.broadcast_to(self._world.start, (len(rows), S))  # and the row not visited before
        visited = followed = np.zeros(len(rows))
        for h in range(self._world.horizon):
            plays = _plays(policy, h, A)
            first = here[np.arange(len(rows)), states] * plays[states, actions]
            visited, followed = visited + first, visited
            left = here @ (plays[:, :, None] * moves).sum(axis=1) - first[:, None] * moves[states, actions]
            here = np.maximum(0.0, left)  # what everybody has visited may be left a rounding below nothing
        return visited, followed

    def _occupancy(self, policy: Policy | StochasticPolicy) -> Floats:
        """The law of an item at each step: (H, cells of a step)."""
        if self._last is not None and self._last[0] == policy:
            return self._last[1]
        world = self._world
        S, H = world.start.size, world.horizon
        table = np.zeros((H, S, world.transitions.shape[2], S + 1, 2))
        here = np.array(world.start)
        for h in range(H):
            g = h if len(world.transitions) > 1 else 0
            paths = here[:, None, None] * _plays(policy, h, table.shape[2])[:, :, None] * world.transitions[g]
            ones = paths * self._bit_table(g)
            if h + 1 < H:
                table[h, :, :, :S, 1], table[h, :, :, :S, 0] = ones, paths - ones
            else:
                table[h, :, :, S, 1], table[h, :, :, S, 0] = ones.sum(axis=2), (paths - ones).sum(axis=2)
            here = paths.sum(axis=(0, 1))
        flat = np.maximum(table.reshape(H, -1), 0.0)
        flat /= flat.sum(axis=1, keepdims=True)
        self._last = policy, flat
        return flat

    def _counts(self, policy: Policy | StochasticPolicy, users: int) -> Integers:
        world, draw = self._world, self._generator
        S, A, H = world.start.size, world.transitions.shape[2], world.horizon
        table = np.zeros((H, S, A, S + 1, 2), np.int64)
        here = draw.multinomial(users, _exactly_one(world.start))
        for h in range(H):
            g = h if len(world.transitions) > 1 else 0
            acting = draw.multinomial(here, _exactly_one(_plays(policy, h, A)))
            paths = draw.multinomial(acting, _exactly_one(world.transitions[g]))
            ones = draw.binomial(paths, np.broadcast_to(self._bit_table(g), paths.shape))
            if h + 1 < H:
                table[h, :, :, :S, 1], table[h, :, :, :S, 0] = ones, paths - ones
            else:
                table[h, :, :, S, 1], table[h, :, :, S, 0] = ones.sum(axis=2), (paths - ones).sum(axis=2)
            here = paths.sum(axis=(0, 1))
        return table

    def _bit_table(self, g: int) -> Floats:
        assert self._bits is not None
        return np.asarray(self._bits[g if len(self._bits) > 1 else 0])


def _many(encoder: Encoder) -> int:
    """From how many users on one draw for all of them is cheaper than simulating each."""
    if isinstance(encoder, AskedFirstVisit):
        return max(_MANY, encoder.rows * encoder.shape.states**2 // _PRODUCTS)
    return _MANY


def _plays(policy: Policy | StochasticPolicy, h: int, actions: int) -> Floats:
    """The probability of every action in every state at step h."""
    if isinstance(policy, StochasticPolicy):
        return np.asarray(policy.probabilities[h])
    return np.asarray(policy.actions[h][:, None] == np.arange(actions), np.float64)


def _exactly_one(probabilities: Floats) -> Floats:
    """Probabilities whose sum does not exceed one by rounding, which the generator refuses."""
    return np.asarray(probabilities / np.maximum(probabilities.sum(axis=-1, keepdims=True), 1.0))


def _means_given_successor(world: TabularWorld) -> Floats | None:
    """Expected rewards given the successor, (G, S, A, S) or (G, S, A, 1); None for laws that are not known here."""
    match world.rewards:
        case Deterministic(means) | Bernoulli(means):
            return np.asarray(means)[..., None]
        case OnTransition(values):
            return np.asarray(values)
        case Finite(values, cumulative):
            return np.asarray(np.diff(cumulative, axis=-1, prepend=0.0) @ values)[..., None]
        case FiniteOnTransition(values, cumulative):
            return np.asarray(np.diff(cumulative, axis=-1, prepend=0.0) @ values)
        case _:
            return None
