"""The same loops in careful NumPy: vectorised over states and actions, random numbers drawn in large batches.

Same algorithm, same counts, same kind of noise as the compiled loops; used as the yardstick of ``experiments.loops``
and nowhere else.
"""

from __future__ import annotations

import math

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
        self.sums = np.empty((G, 2, S * A, S))
        self.squared_factors = np.empty((G, 2, S * A))
        self.inverse = np.empty((2, G, S * A))
        self.powers, self.spreads = np.empty((S, 2)), np.empty((2, S * A))
        self.levels = episodes.bit_length()
        self.prefix = np.zeros((self.levels + 1, self.size))
        self.current = self.levels
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
        reward, sums, live, known, squared_factors, per_range = self.estimate(k)
        G, S, A, H, pairs = self.G, self.S, self.A, self.H, self.S * self.A
        powers, spreads = self.powers, self.spreads
        values, actions = np.zeros(S), np.empty((H, S), np.int64)
        for h in range(H - 1, -1, -1):
            g = h if G > 1 else 0
            q = reward[g]
            if h < H - 1:  # nothing follows the last step
                best = np.maximum.reduce(values)
                powers[:, 0] = values
                powers[:, 1] = values * values
                moments = sums[g] @ powers  # of V and V^2, first under the model, then over the live successors
                mean = moments[:pairs, 0]
                spreads[0] = moments[:pairs, 1] - mean * mean
                spreads[1] = moments[pairs:, 1] + mean * (live[g] * mean - 2.0 * moments[pairs:, 0])
                bonus = np.sqrt(squared_factors[g] * np.maximum(spreads, 0.0))
                future = mean + bonus[0] + bonus[1] + per_range[g] * (best - mean)
                q = q + np.where(known[g], np.minimum(best, future), best)
            q = q.reshape(S, A)
            highest = np.maximum.reduce(q, axis=1)
            actions[h] = np.where(q == highest[:, None], coins[h], 0.0).argmax(axis=1)  # exact ties at random
            values = np.minimum(highest, H - h)
        return actions

    def estimate(self, k: int) -> tuple[np.ndarray, ...]:
        """Rewards, successors and the factors of the bonus, with the default scales of UCBVI."""
        G, S, rows, pairs = self.G, self.S, self.rows, self.S * self.A
        sd = math.sqrt(2.0 * (k if not self.tree else k.bit_count())) * self.scale
        sums, squared_factors, inverse = self.sums, self.squared_factors, self.inverse
        weights = np.maximum(self.cells[rows : rows * (S + 1)].reshape(G, pairs, S) - 1.5 * sd, 0.0)
        np.greater(weights, 0.0, out=sums[:, 1])
        visits, totals = self.cells[:rows].reshape(G, pairs), np.add.reduce(weights, axis=-1)
        np.maximum(visits, 1.0, out=inverse[0])
        np.maximum(totals, 1e-9, out=inverse[1])
        np.divide(1.0, inverse, out=inverse)
        per_visit, per_move = inverse
        width, move_width = np.log((1.0 + k) * inverse + 1.0) * inverse
        r = np.minimum(np.maximum(self.cells[rows * (S + 1) :].reshape(G, pairs) * per_visit, 0.0), 1.0)
        chance = 0.5 * (np.sqrt(2.0 * (r - r * r) * width) + width)
        reward = np.minimum(r + chance + (0.2 * sd) * per_visit * np.sqrt(r * r + 1.0), 1.0)
        noise = (0.2 * sd) * per_move
        np.multiply(weights, per_move[..., None], out=sums[:, 0])
        np.multiply(move_width, 0.5, out=squared_factors[:, 0])  # 2 times the square of one half
        np.multiply(noise, noise, out=squared_factors[:, 1])
        per_range = 0.2 * np.minimum(move_width, 1.0) + 1.5 * noise
        live = np.add.reduce(sums[:, 1], axis=-1)
        known = visits >= 0.5 + sd
        reward = np.where(known, reward, 1.0)
        return reward, sums.reshape(G, 2 * pairs, S), live, known & (totals > 0.0), squared_factors, per_range

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
