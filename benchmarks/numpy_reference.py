"""The same loops in careful NumPy: vectorised over states and actions, random numbers drawn in large batches.

Same algorithm, same counts, same kind of noise as the compiled loops; used as the yardstick of ``benchmarks.loops`` and
nowhere else.
"""

from __future__ import annotations

import numpy as np

from discreet.worlds.tabular import TabularWorld

_BATCH = 256


class NumpyUCBVI:
    """UCBVI on three noisy tables, replanned after every episode; pooled over steps or one table per step."""

    def __init__(self, world: TabularWorld, scale: float, episodes: int, tree: bool, seed: int) -> None:
        self.world, self.scale, self.tree = world, scale, tree
        self.rng = np.random.default_rng(seed)
        G, S, A, _ = world.transitions.shape
        self.G, self.S, self.A, self.H = G, S, A, world.horizon
        self.rows = G * S * A
        self.size = self.rows * (S + 2)
        self.cells = np.zeros(self.size)
        self.levels = episodes.bit_length()
        self.prefix = np.zeros((self.levels + 1, self.size))
        self.current = self.levels
        self.log_term = np.log(S * A * episodes / 0.1)
        self.cumulative = world.transitions.cumsum(axis=-1)
        self.start = world.start.cumsum()
        self.means = world.means
        self.optimal = world.optimal_value
        self.deployed: np.ndarray | None = None
        self.gap = 0.0

    def run(self, episodes: int) -> float:
        total = 0.0
        for k in range(episodes):
            if k % _BATCH == 0:
                noise = self.rng.laplace(0.0, self.scale, (_BATCH, self.size))
                uniforms = self.rng.random((_BATCH, self.H + 1, 2))
                coins = self.rng.random((_BATCH, self.H, self.S, self.A))
            actions = self.plan(k, coins[k % _BATCH])
            if self.deployed is None or not np.array_equal(actions, self.deployed):
                self.deployed, self.gap = actions, self.optimal - self.evaluate(actions)
            total += self.gap
            self.play(actions, uniforms[k % _BATCH])
            self.add_noise(k + 1, noise[k % _BATCH])
        return total

    def plan(self, k: int, coins: np.ndarray) -> np.ndarray:
        G, S, A, H, rows = self.G, self.S, self.A, self.H, self.rows
        draws = k if not self.tree else k.bit_count()
        sd = np.sqrt(2.0 * draws) * self.scale
        visits = self.cells[:rows].reshape(G, S, A)
        weights = np.maximum(self.cells[rows : rows * (S + 1)].reshape(G, S, A, S) - sd, 0.0)
        totals = weights.sum(axis=-1)
        model = weights / np.where(totals > 0, totals, 1.0)[..., None]
        n = np.maximum(visits, 1.0)
        reward = np.clip(self.cells[rows * (S + 1) :].reshape(G, S, A) / n, 0.0, 1.0)
        bonus = np.minimum(1.0, 0.05 * np.sqrt(self.log_term / n) + 0.1 * sd / n)
        bonus[totals <= 0] = 1.0
        values, actions = np.zeros(S), np.empty((H, S), np.int64)
        for h in range(H - 1, -1, -1):
            g = h if G > 1 else 0
            q = reward[g] + model[g] @ values + (H - h) * bonus[g]
            best = q.max(axis=1)
            actions[h] = np.where(q == best[:, None], coins[h], 0.0).argmax(axis=1)  # exact ties at random
            values = np.minimum(best, H - h)
        return actions

    def evaluate(self, actions: np.ndarray) -> float:
        values, states = np.zeros(self.S), np.arange(self.S)
        for h in range(self.H - 1, -1, -1):
            g = h if self.G > 1 else 0
            values = self.means[g, states, actions[h]] + self.world.transitions[g, states, actions[h]] @ values
        return float(self.world.start @ values)

    def play(self, actions: np.ndarray, uniforms: np.ndarray) -> None:
        S, A, rows = self.S, self.A, self.rows
        s = int(np.searchsorted(self.start, uniforms[self.H, 0], side="right"))
        for h in range(self.H):
            g = h if self.G > 1 else 0
            a = int(actions[h, s])
            row = (g * S + s) * A + a
            self.cells[row] += 1.0
            self.cells[rows * (S + 1) + row] += uniforms[h, 1] < self.means[g, s, a]
            following = int(np.searchsorted(self.cumulative[g, s, a], uniforms[h, 0], side="right"))
            if h + 1 < self.H:
                self.cells[rows + row * S + following] += 1.0
            s = min(following, S - 1)

    def add_noise(self, t: int, noise: np.ndarray) -> None:
        if not self.tree:
            self.cells += noise
            return
        low = (t & -t).bit_length() - 1
        rest = t >> (low + 1)
        above = low + 1 + (rest & -rest).bit_length() - 1 if rest else self.levels
        self.cells -= self.prefix[self.current]
        np.add(self.prefix[above], noise, out=self.prefix[low])
        self.cells += self.prefix[low]
        self.current = low
