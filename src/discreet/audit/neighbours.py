"""Two trajectories that an encoder tells apart best: the neighbours that an audit compares.

The search does not trust the sensitivity that the encoder states. It encodes real trajectories and looks for the pair
with the largest L1 distance, and among those the largest L2 distance: every trajectory of a small shape, otherwise
families that contain the extreme points of the encoders here (staying in one pair, sweeping over all pairs, each with
lowest and highest rewards), improved step by step. Where public coins pick one question for each user, records are
compared given the coins, for many tosses of them: the pair that answers most questions differently is the worst.

**Two neighbouring populations** for the coupling check: users as fixed responses to the policy that they are shown.
What a user does may depend on the policy that she meets, and on nothing else, so two populations are neighbours if all
users but one respond alike. Here every user is drawn from a seed of her own: some follow the policy, some do as they
like, some stop early. The one who is replaced has two responses. In the first few pairs these are as different as can
be (the worst pair of each encoder that is found here, opposite corners of the world, a whole record against an empty
one), in the others they are drawn like everybody else's.

Whole tables of losses, for encoders that read those, are all zeros against all ones where responses are extreme.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple, cast

import numpy as np

from discreet.base.errors import DiscreetError
from discreet.base.policies import AnyPolicy, Policy
from discreet.base.shape import LayeredShape, Shape
from discreet.base.streams import COINS, generator, stream
from discreet.base.types import Floats, Integers
from discreet.mechanisms.counts.encoder import Context, Encoder, encode, encode_all
from discreet.mechanisms.counts.first_visit_question import AskedFirstVisit
from discreet.mechanisms.counts.joint_histogram import CountedEncoder, JointCounts
from discreet.mechanisms.trajectories import Trajectories
from discreet.privacy.sensitivity import Sensitivity
from discreet.problems.adversarial.encoders import LossTable

_ENUMERATED = 600  # trajectories of which all pairs are compared
_IMPROVEMENTS = 300
_TOSSES = 24  # of public coins, given which records are compared

# One trajectory as an array of rows (state, action, reward share 0 or 1).
_Steps = Integers


@dataclass(frozen=True, eq=False)
class WorstPair:
    """Two records, their encodings, and what replacing one by the other moves."""

    records: tuple[Trajectories, Trajectories]
    cells: tuple[Floats, Floats]
    exhaustive: bool

    @property
    def shift(self) -> Floats:
        """What replacing one record by the other moves."""
        return self.cells[0] - self.cells[1]

    @property
    def sensitivity(self) -> Sensitivity:
        """The norms of this one shift."""
        return shift_sensitivity(self.shift)

    def describe(self) -> str:
        """The two records in words (they are made up, so they may be shown)."""
        first, second = (_describe(record) for record in self.records)
        return f"{first}  against  {second}"


def worst_pair(encoder: Encoder, actions: int | None = None) -> WorstPair:
    """The pair of trajectories whose encodings are furthest apart, among those that play the first ``actions`` actions.

    With one action both records follow a policy that everybody knows.
    """
    hashable: Any = encoder  # frozen data, which a protocol cannot say
    return _found(hashable, actions)


@lru_cache(maxsize=128)
def _found(encoder: Any, actions: int | None) -> WorstPair:
    shape = encoder.shape
    if isinstance(encoder, LossTable):
        return _whole_tables(encoder)
    played = replace(shape, actions=actions or shape.actions)
    exhaustive = (played.states * played.actions * 2) ** shape.horizon <= _ENUMERATED
    steps = _every(played) if exhaustive else _families(played)
    cells = _encodings(encoder, steps)
    i, j = _furthest(cells)
    first, second = steps[i], steps[j]
    if not exhaustive:
        first, second = _improved(encoder, played, first, second)
    records = _records(shape, np.stack([first, second]))
    a, b = encode(encoder, records, stream(0, 0, COINS))
    return WorstPair((_row(records, 0), _row(records, 1)), (a, b), exhaustive)


def _whole_tables(encoder: LossTable) -> WorstPair:
    """With full information a record holds a loss for every pair: all of them lost against none, on any path."""
    steps = np.zeros((2, encoder.shape.horizon, 3), np.int64)
    steps[1, :, 2] = 1
    records = _records(encoder.shape, steps)
    cells = np.ones(encoder.size), np.zeros(encoder.size)
    return WorstPair((_row(records, 0), _row(records, 1)), cells, exhaustive=True)


def shift_sensitivity(shift: Floats) -> Sensitivity:
    """The sensitivity of one known shift: by groups of equal moves where they are whole numbers."""
    moved = shift[shift != 0]
    if np.array_equal(moved, np.round(moved)):
        magnitudes = np.unique(np.abs(moved))
        groups = ((int(m), int(np.sum(moved == m)), int(np.sum(moved == -m))) for m in magnitudes)
        return Sensitivity.worst_shift(*groups)
    return Sensitivity(
        l1=float(np.abs(moved).sum()), l2=float(np.sqrt((moved**2).sum())), linf=float(np.abs(moved).max())
    )


def _every(shape: Shape) -> list[_Steps]:
    step = list(product(range(shape.states), range(shape.actions), (0, 1)))
    every = (np.array(steps, np.int64) for steps in product(step, repeat=shape.horizon))
    return [steps for steps in every if shape.start is None or steps[0, 0] == shape.start]


def _families(shape: Shape) -> list[_Steps]:
    S, A, H = shape.states, shape.actions, shape.horizon
    found = []
    for state, action, share in product({0, 1 % S, S - 1}, {0, 1 % A, A - 1}, (0, 1)):
        found.append(np.tile([state, action, share], (H, 1)))
    for offset, share, by_state in product({0, S * A // 2}, (0, 1), (False, True)):
        pair = (offset + np.arange(H)) % (S * A)
        states, actions = (pair % S, pair // S % A) if by_state else (pair // A, pair % A)
        found.append(np.stack([states, actions, np.full(H, share)], axis=1))
    for steps in found:
        if shape.start is not None:
            steps[0, 0] = shape.start
    return [np.asarray(steps, np.int64) for steps in found]


def _improved(encoder: Encoder, shape: Shape, first: _Steps, second: _Steps) -> tuple[_Steps, _Steps]:
    """Change one step of one record at random, many times over, and keep what does not bring the two closer."""
    rng = generator(0, 0, COINS)
    best = _distance(_encodings(encoder, [first, second]))
    for _ in range(_IMPROVEMENTS):
        pair = [first.copy(), second.copy()]
        steps, h = pair[int(rng.integers(2))], int(rng.integers(shape.horizon))
        steps[h] = rng.integers(shape.states), rng.integers(shape.actions), rng.integers(2)
        if shape.start is not None:
            steps[0, 0] = shape.start
        distance = _distance(_encodings(encoder, pair))
        if distance >= best:
            best, (first, second) = distance, pair
    return first, second


def _distance(cells: Floats) -> tuple[float, float]:
    shift = cells[0] - cells[1]
    return float(np.abs(shift).sum()), float((shift**2).sum())


def _furthest(cells: Floats) -> tuple[int, int]:
    best, where = (-1.0, -1.0), (0, 0)
    for i, row in enumerate(cells):
        shifts = cells[i:] - row
        l1, l2 = np.abs(shifts).sum(axis=1), (shifts**2).sum(axis=1)
        j = int(np.lexsort((l2, l1))[-1])
        if (l1[j], l2[j]) > best:
            best, where = (float(l1[j]), float(l2[j])), (i, i + j)
    return where


def _encodings(encoder: Encoder, steps: list[_Steps]) -> Floats:
    # Rewards at the ends of the range become bits without a coin, so encodings are functions of the records.
    records = _records(encoder.shape, np.stack(steps))
    if not isinstance(encoder, AskedFirstVisit):
        return encode(encoder, records, stream(0, 0, COINS))
    rows = [_row(records, i) for i in range(len(steps))]
    tosses = (np.concatenate([encode(encoder, row, stream(0, toss, COINS)) for row in rows]) for toss in range(_TOSSES))
    return np.concatenate(list(tosses), axis=1)


def _records(shape: Shape, steps: Integers) -> Trajectories:
    rewards = shape.rewards[0] + shape.reward_span * steps[:, :, 2]
    return Trajectories.from_arrays(steps[:, :, 0], steps[:, :, 1], rewards, shape)


def _row(records: Trajectories, i: int) -> Trajectories:
    rows = slice(i, i + 1)
    return Trajectories(records.states[rows], records.actions[rows], records.rewards[rows], records.lengths[rows])


def _describe(record: Trajectories) -> str:
    steps = [
        f"(s{s} a{a} r{r:g})" for s, a, r in zip(record.states[0], record.actions[0], record.rewards[0], strict=True)
    ]
    return " ".join(steps if len(steps) <= 4 else [*steps[:3], f"... {len(steps)} steps"])


_FAR = 50.0  # a reward beyond every threshold, where rewards have no range
_DEFIANT = 0.4  # how many of the users do not follow the policy
_OTHER = 1_000_003  # keeps the seeds of the replaced user's second response apart


class Response(NamedTuple):
    """What one user does: states, actions (-1 where she follows the policy), shares of the reward range, length."""

    states: Integers
    actions: Integers
    shares: Integers
    length: int
    table: int | None = None  # all losses of her table; None draws each of them


@dataclass(frozen=True)
class Neighbours:
    """Two populations of one shape: user ``replaced`` responds by ``pair[0]`` in the one and ``pair[1]`` in the other.

    ``seed`` draws the others. ``everything`` says that every action should be playable where she acts, so that no mask
    hides what she does. ``extreme``: her two responses are as different as can be, and not drawn.
    """

    shape: Shape
    seed: int
    replaced: int
    pair: tuple[Response, Response]
    everything: bool
    extreme: bool = False

    def side(self, second: bool) -> Population:
        """One of the two populations, at its first user."""
        return Population(self, second)


def neighbours(shape: Shape, encoders: Sequence[Encoder], number: int, users: int, seed: int = 0) -> Neighbours:
    """The neighbouring populations of that number: extreme pairs first, then pairs that are drawn."""
    extremes = [(pair, True) for pair in (*_worst(shape, encoders), _opposite(shape))]
    # Under policies that forbid what she does, and then with nobody in her place.
    extremes += [(_opposite(shape), False), (_whole_and_empty(shape), True)]
    if number < len(extremes):
        pair, everything = extremes[number]
        return Neighbours(shape, seed, 0, pair, everything, extreme=True)
    place = number % min(users, 7)
    drawn = _drawn(shape, seed, number, place), _drawn(shape, seed, number + _OTHER, place)
    return Neighbours(shape, seed + number, place, drawn, everything=number % 3 == 0)


def _worst(shape: Shape, encoders: Sequence[Encoder]) -> list[tuple[Response, Response]]:
    found = []
    for encoder in encoders:
        try:
            records = worst_pair(encoder).records
        except DiscreetError:  # counts that are never encoded from a record: the other pairs are for those
            continue
        low, high = shape.rewards
        first, second = (
            Response(
                record.states[0],
                record.actions[0],
                np.rint((record.rewards[0] - low) / (high - low)).astype(np.int64),
                int(record.lengths[0]),
                side,
            )
            for side, record in enumerate(records)
        )
        found.append((first, second))
    return found


def _last_states(shape: Shape) -> Integers:
    """The last state of every step."""
    sizes = shape.sizes[:-1] if isinstance(shape, LayeredShape) else (shape.states,) * shape.horizon
    return np.array(sizes, np.int64) - 1


def _started(states: Integers, shape: Shape) -> Integers:
    if shape.start is not None:
        states[0] = shape.start
    return states


def _opposite(shape: Shape) -> tuple[Response, Response]:
    H = shape.horizon
    nothing, last = np.zeros(H, np.int64), _started(_last_states(shape), shape)
    first = Response(_started(nothing.copy(), shape), nothing, nothing, H, 0)
    return first, Response(last, np.full(H, shape.actions - 1), np.ones(H, np.int64), H, 1)


def _whole_and_empty(shape: Shape) -> tuple[Response, Response]:
    first, second = _opposite(shape)
    return second, first._replace(length=0)


def _drawn(shape: Shape, seed: int, population: int, user: int) -> Response:
    rng = np.random.default_rng((seed, population, user))
    H = shape.horizon
    states = _started(rng.integers(0, _last_states(shape) + 1), shape)
    defiant = rng.random() < _DEFIANT
    actions = rng.integers(0, shape.actions, H) if defiant else np.full(H, -1)
    return Response(states, actions, rng.integers(0, 2, H), int(rng.integers(0, H + 1)))


class Population:
    """Users who come in order and answer by sums of their encodings: for audits and tests, never for people."""

    def __init__(self, both: Neighbours, second: bool) -> None:
        self._both, self._second, self._next = both, second, 0
        self._arrays: dict[tuple[int, Any], Any] = {}
        self.tallies: list[list[Floats]] = []

    def tally(self, encoders: Sequence[Encoder], context: Context, users: int) -> list[Floats]:
        """Sums of the encodings of the next users, one for each encoder."""
        came = [self._response(self._next + i) for i in range(users)]
        self._next += users
        sums = [self._sum(i, encoder, came, context.policy) for i, encoder in enumerate(encoders)]
        self.tallies.append(sums)
        return sums

    def messages(self, encoder: Encoder, context: Context, users: int) -> Floats:
        """The encodings of the next users, one row each."""
        return np.stack([self.tally([encoder], context, 1)[0] for _ in range(users)])

    def again(self) -> None:
        """Start from the first user, for another question about the same people."""
        self._next = 0

    def _response(self, user: int) -> Response:
        both = self._both
        if user == both.replaced:
            return both.pair[int(self._second)]
        return _drawn(both.shape, both.seed, 0, user)

    def _sum(self, i: int, encoder: Encoder, came: Sequence[Response], policy: AnyPolicy) -> Floats:
        if isinstance(encoder, LossTable):
            return encoder.tally(np.stack([_table(one, encoder.size) for one in came]), stream(0, 0, COINS))
        shape = self._both.shape
        if encoder.size == 0 or encoder.name.startswith("sparse"):  # tallied as a list of the cells that occur
            return _counted(cast(CountedEncoder, encoder), shape, [_record(one, policy, shape) for one in came])
        total = np.zeros((1, encoder.size))
        for one in came:
            states, actions, rewards, length = _record(one, policy, shape)
            # Users one by one, because the replaced one must not change what coins the others get.
            encode_all(
                self._compiled(i, encoder), states[None], actions[None], rewards[None], np.array([length]),
                stream(0, 0, COINS), total,
            )  # fmt: skip
        return np.asarray(total[0])

    def _compiled(self, i: int, encoder: Encoder) -> Any:
        # Some encoders count the users whom they have seen, so their arrays must live as long as the population.
        known: Any = i, encoder
        if known not in self._arrays:
            self._arrays[known] = encoder.arrays()
        return self._arrays[known]


def _table(one: Response, size: int) -> Floats:
    if one.table is not None:
        return np.full(size, float(one.table))
    seed = int(one.length + 2 * one.shares.sum() + 8 * one.states.sum())
    return np.random.default_rng(seed).integers(0, 2, size).astype(np.float64)


def _record(one: Response, policy: AnyPolicy, shape: Shape) -> tuple[Integers, Integers, Floats, int]:
    steps = np.arange(shape.horizon)
    followed = policy.actions[steps, one.states] if isinstance(policy, Policy) else np.zeros(shape.horizon, np.int64)
    low, high = shape.rewards if shape.moments is None else (-_FAR, _FAR)
    actions = np.where(one.actions < 0, followed, one.actions)
    return one.states, actions, low + (high - low) * one.shares.astype(np.float64), one.length


def _counted(
    encoder: CountedEncoder, shape: Shape, records: Sequence[tuple[Integers, Integers, Floats, int]]
) -> Floats:
    """The joint histogram of a few records, as a data base would count it, handed to the encoder part by part."""
    S, A, levels = shape.states, shape.actions, encoder.reward_levels
    low, high = shape.rewards
    rows = []
    for part in range(encoder.parts):
        keys = []
        for states, actions, rewards, length in records[part :: encoder.parts]:
            seen: set[tuple[int, int]] = set()
            for h in range(length):
                pair = int(states[h]), int(actions[h])
                if encoder.first_visit and pair in seen:
                    continue
                seen.add(pair)
                successor = int(states[h + 1]) if h + 1 < length else S
                level = round((levels - 1) * float((rewards[h] - low) / (high - low)))
                group = 0 if shape.homogeneous else h
                keys.append((((group * S + pair[0]) * A + pair[1]) * (S + 1) + successor) * levels + level)
        found, counts = np.unique(np.array(keys, np.int64), return_counts=True)
        rows.append(encoder.from_joint(JointCounts(found, counts.astype(np.int64), levels), part))
    return np.concatenate(rows)
