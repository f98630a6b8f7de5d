"""Worlds drawn at random: a seed says kind, sizes, laws and rewards, and nobody has looked at what comes out.

Constants of learners are chosen on ``TUNING``. ``REPORTED`` is for numbers that are printed, and for nothing before
that; it was written down before any two learners had been compared. Every sixth world is a bandit, half of those with
rare clicks.

A kind draws rewards by rule or as coins, a start that is public or drawn at random, and one world in four is declared
with laws of its own for each step; in half of these the laws do differ from step to step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from discreet.base.policies import uniform_policy
from discreet.base.types import Floats
from discreet.worlds.rewards import Bernoulli, Deterministic
from discreet.worlds.tabular import TabularWorld

TUNING = range(1_000, 1_400)
REPORTED = range(7_000_000, 7_000_200)

Tables = tuple[Floats, Floats, int]  # transitions (S, A, S), mean rewards (S, A) in [0, 1], steps
Draw = Callable[[np.random.Generator], Tables]


def world_of(seed: int) -> TabularWorld:
    """The world of a seed: always the same one."""
    rng = np.random.default_rng([38, seed])
    if seed % 6 == 0:
        return _bandit(rng, rare=seed % 12 == 0)
    kind, draw = KINDS[int(rng.integers(len(KINDS)))]
    moves, means, horizon = draw(rng)
    laws, rewards = moves[None], means[None]
    per_step = rng.random() < 0.25 and horizon <= 12 and horizon > 1 and horizon * means.size <= 400
    if per_step:
        laws, rewards = np.repeat(laws, horizon, axis=0), np.repeat(rewards, horizon, axis=0)
        if rng.random() < 0.5:
            amount = rng.uniform(0.1, 0.6)
            others = rng.dirichlet(np.full(len(moves), 0.5), size=laws.shape[:3])
            laws = (1 - amount) * laws + amount * others
            rewards = (1 - amount) * rewards + amount * rng.random(rewards.shape)
    by_rule = rng.random() < 0.3
    start = np.full(len(moves), 1 / len(moves)) if rng.random() < 0.3 else np.eye(len(moves))[0]
    law = (Deterministic if by_rule else Bernoulli)(np.clip(rewards, 0.0, 1.0))
    world = TabularWorld(f"{kind}-{seed}", laws / laws.sum(axis=3, keepdims=True), law, start, horizon)
    if world.gap(uniform_policy(world.shape)) < 1e-3:  # nothing to win for anybody: another draw in its place
        return replace(world_of(seed + 600_000_000), name=world.name)
    return world


def _bandit(rng: np.random.Generator, rare: bool) -> TabularWorld:
    arms = int(rng.choice([2, 3, 5, 10, 20]))
    match int(rng.integers(3)):
        case 0:
            means = rng.random(arms)
        case 1:
            means = np.where(np.arange(arms) == rng.integers(arms), 0.5 + rng.uniform(0.05, 0.3), 0.5)
        case _:
            means = rng.beta(2, 2, arms)
    if rare:
        means = 10 ** rng.uniform(-2.5, -1.0) * (0.3 + means)
    return TabularWorld(f"arms-{arms}", np.ones((1, 1, arms, 1)), Bernoulli(means[None, None]), np.ones(1), 1)


def _sizes(rng: np.random.Generator, states: tuple[int, int], actions: tuple[int, int] = (2, 5)) -> tuple[int, int]:
    low, high = np.log(states[0]), np.log(states[1] + 1)
    return int(np.exp(rng.uniform(low, high))), int(rng.integers(actions[0], actions[1] + 1))


def _mixing(rng: np.random.Generator) -> Tables:
    S, A = _sizes(rng, (2, 16))
    moves = rng.dirichlet(np.full(S, 10 ** rng.uniform(-1, 0.3)), size=(S, A))
    means = rng.random((S, A)) if rng.random() < 0.5 else rng.beta(0.3, 0.9, (S, A))
    return moves, means, int(rng.integers(2, 16))


def _sparse(rng: np.random.Generator) -> Tables:
    """A few neighbours each, and little that pays."""
    S, A = _sizes(rng, (5, 60))
    moves = np.zeros((S, A, S))
    for s in range(S):
        for a in range(A):
            to = rng.choice(S, size=int(rng.integers(1, 4)), replace=False)
            moves[s, a, to] = rng.dirichlet(np.ones(len(to)))
    pays = rng.random((S, A)) < max(2 / S, 0.1)
    return moves, np.where(pays, rng.uniform(0.4, 1.0, (S, A)), 0.0), int(rng.integers(5, 25))


def _corridor(rng: np.random.Generator) -> Tables:
    S, A = _sizes(rng, (3, 10), (2, 4))
    ahead, slip = rng.uniform(0.4, 0.95), rng.uniform(0.0, 0.2)
    right = rng.integers(A, size=S)
    moves, means = np.zeros((S, A, S)), np.zeros((S, A))
    for s in range(S):
        for a in range(A):
            p = ahead if a == right[s] else slip
            moves[s, a, min(s + 1, S - 1)] += p
            moves[s, a, s if rng.random() < 0.3 else max(s - 1, 0)] += 1 - p
    means[S - 1], means[0] = rng.uniform(0.5, 1.0), rng.uniform(0.0, 0.15)
    return moves, means, int(rng.integers(2 * S, 4 * S))


def _lock(rng: np.random.Generator) -> Tables:
    """A sequence to be found; another action leads back to the start, or to a room that pays a little."""
    S, A = _sizes(rng, (4, 9), (2, 4))
    right = rng.integers(A, size=S)
    moves, means = np.zeros((S, A, S)), np.zeros((S, A))
    for s in range(S - 1):
        moves[s, :, 0] = 1.0
        moves[s, right[s]] = np.eye(S)[s + 1] * 0.95 + np.eye(S)[0] * 0.05
        means[s, (right[s] + 1) % A] = rng.uniform(0.0, 0.15)
    moves[S - 1, :, S - 1], means[S - 1] = 1.0, rng.uniform(0.6, 1.0)
    return moves, means, int(S + rng.integers(1, 2 * S))


def _grid(rng: np.random.Generator) -> Tables:
    """A goal that pays, traps that end it all, and wind."""
    n, m = int(rng.integers(2, 6)), int(rng.integers(3, 6))
    S, wind = n * m, rng.uniform(0.0, 0.3)
    goal, traps = S - 1, set(rng.choice(np.arange(1, S - 1), size=int(rng.integers(0, S // 5 + 1)), replace=False))
    moves, means = np.zeros((S, 4, S)), np.zeros((S, 4))
    for s in range(S):
        i, j = divmod(s, m)
        near = [max(i - 1, 0) * m + j, min(i + 1, n - 1) * m + j, i * m + max(j - 1, 0), i * m + min(j + 1, m - 1)]
        for a in range(4):
            if s in traps or s == goal:
                moves[s, a, s] = 1.0
                continue
            moves[s, a, near[a]] += 1 - wind
            for t in near:
                moves[s, a, t] += wind / 4
    means[goal] = 1.0
    return moves, means, int(rng.integers(n + m, 3 * (n + m)))


def _queue(rng: np.random.Generator) -> Tables:
    """Admission under calm and burst: the room that is left and the weather; admitting pays, a full queue costs."""
    room, A = int(rng.integers(2, 9)), int(rng.integers(2, 4))
    S, change = 2 * (room + 1), rng.uniform(0.05, 0.3)
    serve, calm, burst = rng.uniform(0.3, 0.7), rng.uniform(0.1, 0.4), rng.uniform(0.6, 0.95)
    moves, means = np.zeros((S, A, S)), np.zeros((S, A))
    for weather in (0, 1):
        arrive = burst if weather else calm
        for length in range(room + 1):
            s = weather * (room + 1) + length
            for a in range(A):
                admit = a / (A - 1)
                for other, chance in ((weather, 1 - change), (1 - weather, change)):
                    for come, p in ((1, arrive * admit), (0, 1 - arrive * admit)):
                        for gone, q in ((1, serve), (0, 1 - serve)):
                            left = min(room, max(0, length + come - gone))
                            moves[s, a, other * (room + 1) + left] += chance * p * q
                means[s, a] = max(0.0, 0.5 + 0.5 * arrive * admit - 0.5 * (length / room) ** 2)
    return moves, means, int(rng.integers(8, 31))


def _machine(rng: np.random.Generator) -> Tables:
    """It wears; repairing takes what it would have earned. Some actions are repairs that fail."""
    S, A = _sizes(rng, (3, 9), (2, 4))
    wear = rng.uniform(0.1, 0.6)
    moves, means = np.zeros((S, A, S)), np.zeros((S, A))
    for s in range(S):
        moves[s, 0, min(s + 1, S - 1)] += wear
        moves[s, 0, s] += 1 - wear
        means[s, 0] = 1 - (s / (S - 1)) ** rng.uniform(0.5, 2)
        for a in range(1, A):
            works = rng.uniform(0.4, 1.0)
            moves[s, a, 0] += works
            moves[s, a, s] += 1 - works
            means[s, a] = rng.uniform(0.0, 0.4)
    return moves, means, int(rng.integers(6, 31))


def _treatment(rng: np.random.Generator) -> Tables:
    """Conditions from well to ill; a wrong treatment makes worse; death is for ever and earns nothing."""
    S, A = _sizes(rng, (4, 10))
    best, dying = rng.integers(A, size=S), rng.uniform(0.02, 0.2)
    moves, means = np.zeros((S, A, S)), np.zeros((S, A))
    for s in range(S - 1):
        for a in range(A):
            better = rng.uniform(0.5, 0.8) if a == best[s] else rng.uniform(0.1, 0.5)
            death = dying * (s + 1) / S
            moves[s, a, S - 1] += death
            moves[s, a, max(s - 1, 0)] += (1 - death) * better
            moves[s, a, min(s + 1, S - 2)] += (1 - death) * (1 - better)
            means[s, a] = 1 - s / (S - 1) - 0.1 * rng.random()
    moves[S - 1, :, S - 1] = 1.0
    return moves, np.clip(means, 0, 1), int(rng.integers(4, 16))


def _funnel(rng: np.random.Generator) -> Tables:
    """Customers go on or leave; only the end pays."""
    S, A = _sizes(rng, (4, 9))
    moves, means = np.zeros((S, A, S)), np.zeros((S, A))
    for s in range(S - 2):
        for a in range(A):
            on, stays = rng.uniform(0.1, 0.7), rng.uniform(0.0, 0.3)
            moves[s, a, s + 1], moves[s, a, s] = on, stays
            moves[s, a, S - 1] = 1 - on - stays
    moves[S - 2 :, :, S - 1] = 1.0
    means[S - 2] = rng.uniform(0.5, 1.0, A)
    return moves, means, int(S + rng.integers(0, 6))


def _fatigue(rng: np.random.Generator) -> Tables:
    """Working tires, resting brings nothing now."""
    S, A = _sizes(rng, (3, 7), (2, 3))
    moves, means = np.zeros((S, A, S)), np.zeros((S, A))
    tires, rests = rng.uniform(0.2, 0.7), rng.uniform(0.3, 0.9)
    for s in range(S):
        for a in range(A):
            effort = a / (A - 1)
            up, down = tires * effort, rests * (1 - effort)
            moves[s, a, min(s + 1, S - 1)] += up
            moves[s, a, max(s - 1, 0)] += down
            moves[s, a, s] += 1 - up - down
            means[s, a] = effort * (1 - s / (S - 1)) ** 1.5
    return moves, means, int(rng.integers(10, 51))


def _near_ties(rng: np.random.Generator) -> Tables:
    """Most actions are nearly the same around one half, and one in each state is a little better."""
    S, A = _sizes(rng, (2, 8))
    same = rng.dirichlet(np.full(S, 0.5), size=(S, 1))
    moves = 0.7 * same + 0.3 * rng.dirichlet(np.full(S, 0.5), size=(S, A))
    means = 0.5 + 0.05 * rng.standard_normal((S, A))
    means[np.arange(S), rng.integers(A, size=S)] += rng.uniform(0.03, 0.2)
    return moves, np.clip(means, 0, 1), int(rng.integers(2, 12))


def _visits(rng: np.random.Generator) -> Tables:
    """Contextual choices: what follows does not depend on the action."""
    S, A = _sizes(rng, (2, 12))
    moves = np.repeat(rng.dirichlet(np.full(S, 0.7), size=(S, 1)), A, axis=1)
    return moves, rng.beta(0.8, 0.8, (S, A)), int(rng.integers(2, 9))


KINDS: tuple[tuple[str, Draw], ...] = (
    ("mixing", _mixing),
    ("sparse", _sparse),
    ("corridor", _corridor),
    ("lock", _lock),
    ("grid", _grid),
    ("queue", _queue),
    ("machine", _machine),
    ("treatment", _treatment),
    ("funnel", _funnel),
    ("fatigue", _fatigue),
    ("near-ties", _near_ties),
    ("visits", _visits),
)
