"""LDP-OBI with the printed Laplace randomiser against careful NumPy and plain C: ``python -m experiments.local``.

W1: two states, two actions, horizon two, Laplace noise on three tables, a new plan after every episode. The three run
interleaved in one process, ratios are medians over rounds. The C program is compiled at run time with ``cc``; without
it that comparison is left out. ``--long`` also times one run of 1e8 episodes of the published recipe.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from discreet.learners import OBI
from discreet.recipes.registry import build
from discreet.recipes.targets import Local
from discreet.simulation.episode_loop import run_episodes
from discreet.simulation.experiments import in_turns
from discreet.worlds import random_mdp
from discreet.worlds.tabular import TabularWorld

EPSILON = 2.0
_BATCH = 256


def compiled(world: TabularWorld, episodes: int) -> float:
    """Total regret of one run of the compiled loop."""
    privatizer = build(Local(EPSILON, recipe="local/published-laplace"), world.shape, episodes)
    record = run_episodes(world, OBI(constants="laplace"), privatizer, episodes, 0, 0, lambda _served: None)
    return float(record.regret[-1])


class NumpyOBI:
    """The same algorithm in careful NumPy: vectorised over pairs, random numbers in large batches."""

    def __init__(self, world: TabularWorld, seed: int = 0) -> None:
        _, self.S, self.A, _ = world.transitions.shape
        self.world, self.H, self.rng = world, world.horizon, np.random.default_rng(seed)
        self.rows = self.S * self.A
        self.cells = np.zeros(self.rows * (self.S + 2))
        self.scale = 6 * self.H / EPSILON
        self.cumulative, self.start = world.transitions[0].cumsum(axis=-1), world.start.cumsum()

    def run(self, episodes: int) -> float:
        total, gap, deployed = 0.0, 0.0, None
        for k in range(episodes):
            if k % _BATCH == 0:
                noise = self.rng.laplace(0.0, self.scale, (_BATCH, len(self.cells)))
                uniforms = self.rng.random((_BATCH, self.H + 1))
            actions = self.plan(k + 1)
            if deployed is None or not np.array_equal(actions, deployed):
                deployed, gap = actions, self.world.optimal_value - self.evaluate(actions)
            total += gap
            self.play(actions, uniforms[k % _BATCH])
            self.cells += noise[k % _BATCH]
        return total

    def plan(self, k: int) -> np.ndarray:
        S, A, H, rows, alpha, failure = self.S, self.A, self.H, self.rows, 2.0, 0.1
        base = math.log(2 * math.pi**2 / (3 * failure)) + 2 * math.log(k)
        one, many = math.log(6 * rows) + base, math.log(6 * S * rows) + base
        c2 = max(1.0, max(math.sqrt(k), one) * math.sqrt(8 * one) * self.scale)
        c4 = max(1.0, max(math.sqrt(k), many) * math.sqrt(8 * many) * self.scale)
        c3 = max(1.0, max(math.sqrt(k * S), many) * math.sqrt(8 * many) * self.scale)
        level = math.log(4 * math.pi**2 * rows * H / (3 * failure)) + 3 * math.log(k)
        visits = self.cells[:rows].reshape(S, A)
        moves = self.cells[rows : rows * (S + 1)].reshape(S, A, S)
        d2 = np.maximum(visits + alpha * c2, (alpha - 1) * c2)
        d3 = np.maximum(moves.sum(axis=-1) + alpha * c3, (alpha - 1) * c3)
        reward = self.cells[rows * (S + 1) :].reshape(S, A) / d2
        reward += np.sqrt(2 * level / d2) + (alpha + 2) * c2 / d2
        bonus = np.sqrt(14 * S * level / d3) + (S * c4 + (alpha + 1) * c3) / d3
        model = moves / d3[..., None]
        values, actions = np.zeros(S), np.empty((H, S), np.int64)
        for h in range(H - 1, -1, -1):
            q = reward + model @ values + (H - h) * bonus
            actions[h] = q.argmax(axis=1)
            values = np.clip(q.max(axis=1), 0.0, H - h)
        return actions

    def evaluate(self, actions: np.ndarray) -> float:
        values, states = np.zeros(self.S), np.arange(self.S)
        for h in range(self.H - 1, -1, -1):
            values = self.world.means[0, states, actions[h]] + self.world.transitions[0, states, actions[h]] @ values
        return float(self.world.start @ values)

    def play(self, actions: np.ndarray, uniforms: np.ndarray) -> None:
        S, A, rows = self.S, self.A, self.rows
        s = int(np.searchsorted(self.start, uniforms[self.H], side="right"))
        for h in range(self.H):
            row = s * A + int(actions[h, s])
            self.cells[row] += 1.0
            self.cells[rows * (S + 1) + row] += self.world.means[0].flat[row]
            following = min(
                S - 1, int(np.searchsorted(self.cumulative.reshape(rows, S)[row], uniforms[h], side="right"))
            )
            if h + 1 < self.H:
                self.cells[rows + row * S + following] += 1.0
            s = following


def plain_c(world: TabularWorld, folder: Path) -> Callable[[int], float] | None:
    """The C program compiled at run time, or None where there is no compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        print("no C compiler (cc) here: the comparison with plain C is left out")
        return None
    library = folder / "local_loop.so"
    source = Path(__file__).with_name("local_loop.c")
    command = [compiler, "-O3", "-march=native", "-shared", "-fPIC", str(source), "-o", str(library), "-lm"]
    subprocess.run(command, check=True)
    run = ctypes.CDLL(str(library)).run
    array = np.ctypeslib.ndpointer(np.float64, flags="C_CONTIGUOUS")
    run.restype = ctypes.c_double
    run.argtypes = [array, array, array, *[ctypes.c_double] * 4, ctypes.c_int64, ctypes.c_uint64]
    tables = [np.array(table, np.float64).reshape(-1) for table in (world.transitions, world.means, world.start)]
    scale = 6 * world.horizon / EPSILON
    return lambda episodes: float(run(*tables, world.optimal_value, scale, 2.0, 0.1, episodes, 0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--long", action="store_true", help="also time one run of 1e8 episodes")
    arguments = parser.parse_args()
    world = random_mdp(instance=3)
    assert isinstance(world, TabularWorld)
    fast, slow = 1_000_000, 4_000
    with tempfile.TemporaryDirectory() as folder:
        in_c = plain_c(world, Path(folder))
        works = [(lambda: compiled(world, fast), fast), (lambda: NumpyOBI(world).run(slow), slow)]
        if in_c is not None:
            works.append((lambda: in_c(fast), fast))
        rates = in_turns(*works, rounds=arguments.rounds)
        ours, numpy, *rest = np.median(1e9 / rates, axis=0)
        over_numpy = np.median(rates[:, 0] / rates[:, 1])
        print(f"W1: {ours:,.0f} ns per episode compiled; careful NumPy {numpy:,.0f} ns, {over_numpy:,.0f}x (aim 250x)")
        if in_c is not None:
            over_c = np.median(rates[:, 2] / rates[:, 0])
            print(f"W1: plain C {rest[0]:,.0f} ns; compiled / C = {over_c:.2f} (aim at most 1.6)")
            regrets = compiled(world, fast) / fast, in_c(fast) / fast
            print(f"regret per episode after {fast:,}: compiled {regrets[0]:.4f}, C {regrets[1]:.4f}")
    if arguments.long:
        began = time.process_time()
        compiled(world, 10**8)
        print(f"one run of 1e8 episodes: {time.process_time() - began:.1f} s of one core (aim 30 s)")


if __name__ == "__main__":
    main()
