"""Whole loops against careful NumPy, interleaved in one run: ``python -m experiments.loops``.

W1: two states, two actions, horizon two, local Laplace noise on three pooled tables, a new plan after every episode.
W2: RiverSwim-6, horizon 20, one table per step in a binary tree (1,920 draws an episode), a new plan every episode.
Ratios are medians over rounds; absolute times depend on the machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

from discreet.learners.ucbvi import UCBVI
from discreet.mechanisms.additive import Channel
from discreet.mechanisms.counts.three_tables import ThreeTables
from discreet.mechanisms.schedule import EveryEpisode
from discreet.mechanisms.session import Privatizer
from discreet.mechanisms.sums.blocks import Total
from discreet.mechanisms.sums.tree import Tree
from discreet.noise import Laplace
from discreet.privacy.guarantee import nothing
from discreet.simulation.episode_loop import run_episodes
from discreet.simulation.experiments import in_turns
from discreet.worlds import random_mdp, river_swim
from discreet.worlds.tabular import TabularWorld
from experiments.numpy_reference import NumpyUCBVI

SCALE = 6.0


def compiled(world: TabularWorld, tree: bool, episodes: int) -> Callable[[], object]:
    """One run of the compiled loop."""
    accumulator = Tree(episodes) if tree else Total()
    channel = Channel(ThreeTables(world.shape, rounded=False), Laplace(SCALE), accumulator)
    privatizer = Privatizer("benchmark", world.shape, (channel,), EveryEpisode(), nothing(), masked=False)
    return lambda: run_episodes(world, UCBVI(), privatizer, episodes, 0, 0, lambda _served: None)


def reference(world: TabularWorld, tree: bool, episodes: int, horizon_of_plan: int) -> Callable[[], object]:
    """One run of the NumPy loop, over fewer episodes of an equally long problem."""
    return lambda: NumpyUCBVI(world, SCALE, horizon_of_plan, tree, seed=0).run(episodes)


def compare(name: str, world: TabularWorld, tree: bool, fast: int, slow: int, rounds: int, aim: float) -> float:
    """Median ratio of CPU seconds per episode, NumPy over compiled, the two interleaved."""
    works = (compiled(world, tree, fast), fast), (reference(world, tree, slow, fast), slow)
    rates = in_turns(*works, rounds=rounds)
    ratio = float(np.median(rates[:, 0] / rates[:, 1]))
    fastest = np.median(1e9 / rates[:, 0])
    print(f"{name}: {fastest:,.0f} ns per episode compiled, {ratio:,.0f}x careful NumPy (aim {aim:g}x)")
    return ratio


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    compare("W1-like", random_mdp(instance=3), False, 400_000, 4_000, rounds, 200)
    compare("W2-like", river_swim(6, 20).with_time(homogeneous=False), True, 20_000, 400, rounds, 80)


if __name__ == "__main__":
    main()
