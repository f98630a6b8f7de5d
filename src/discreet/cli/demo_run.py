"""The demonstration: what each trust model costs in one small world, beside playing at random.

RiverSwim rewards patience: the large reward lies at the far end of a chain, against the current, and a learner that
cannot tell its counts from the noise never gets there. Regret is exact, so what differs between two rows is the
mechanism (its noise and how often it releases) and the luck of the runs, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from discreet.learners.registry import make_learner
from discreet.policies import uniform_policy
from discreet.recipes.trust import Central, Local, NoPrivacy, Privacy
from discreet.simulation.result import SimulationResult, standard_error
from discreet.simulation.run import simulate
from discreet.worlds.catalogue import river_swim
from discreet.worlds.tabular import TabularWorld

TARGETS: tuple[tuple[str, Privacy], ...] = (
    ("no privacy", NoPrivacy()),
    ("central, (1, 1e-5)", Central(epsilon=1.0, delta=1e-5)),
    ("central, pure epsilon 1", Central(epsilon=1.0)),
    ("local, pure epsilon 1", Local(epsilon=1.0)),
)
UNIFORM = "uniform play"


@dataclass(frozen=True)
class Row:
    """One line of the table, ready to print."""

    label: str
    regret: str
    final_gap: str
    guarantee: str


@dataclass(frozen=True)
class Comparison:
    """One world, one learner, several promises; ``uniform`` is what playing at random would have cost."""

    world: TabularWorld
    labels: tuple[str, ...]
    results: tuple[SimulationResult, ...]
    uniform: SimulationResult

    @property
    def subtitle(self) -> str:
        """What was run, in one sentence."""
        first = self.results[0]
        return (
            f"{first.learner} on {self.world.name}, horizon {self.world.horizon}, {int(first.episodes[-1]):,} users, "
            f"{first.runs} runs, seed {first.seed}; regret ± one standard error"
        )

    @property
    def seconds(self) -> float:
        return sum(result.seconds for result in self.results)

    def rows(self) -> Iterator[Row]:
        """The table: one line per promise, then uniform play."""
        for label, result in zip(self.labels, self.results, strict=True):
            regret = f"{result.total_regret.mean():,.0f} ± {standard_error(result.total_regret):,.0f}"
            yield Row(label, regret, f"{result.final_gap.mean():.3f}", result.statement)
        uniform = self.uniform
        yield Row(UNIFORM, f"{uniform.total_regret[0]:,.0f}", f"{uniform.final_gap[0]:.3f}", uniform.statement)


def run_demo(*, runs: int = 5, seed: int = 7, episodes: int = 20_000, progress: bool = False) -> Comparison:
    """Run the four promises on RiverSwim with 4 states and horizon 6."""
    world = river_swim(states=4, horizon=6)
    learner = make_learner("ucbvi")
    results = tuple(
        simulate(world, learner, target, episodes=episodes, runs=runs, seed=seed, progress=progress)
        for _, target in TARGETS
    )
    return Comparison(world, tuple(label for label, _ in TARGETS), results, uniform_play(world, results[0]))


def uniform_play(world: TabularWorld, like: SimulationResult) -> SimulationResult:
    """The exact regret of playing every action with the same probability for ever, as one run beside ``like``."""
    gap = world.gap(uniform_policy(world.shape))
    return SimulationResult(
        world=world.name,
        learner=UNIFORM,
        privacy="none",
        recipe="none",
        seed=like.seed,
        episodes=like.episodes,
        regret=gap * like.episodes[None, :].astype(np.float64),
        final_gap=np.array([gap]),
        switches=np.zeros(1, np.int64),
        deterministic_switches=np.zeros(1, np.int64),
        guarantee={"statement": "looks at no data at all"},
        seconds=0.0,
    )
