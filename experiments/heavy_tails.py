"""Heavy-tailed rewards in numbers: ``python -m experiments.heavy_tails [PART ...]``, all parts if none is named.

``grid``    plain and heavy learners like for like: eight worlds, three targets, pooled steps and laws per step
``steps``   laws per step that do differ from step to step, with visits borrowed from other steps and without
``users``   laws per step with 80,000 users; the local model at epsilon 4 and 1
``order``   the declared moment at alpha = 1.2, which is a public knob
``arms``    a bandit with heavy-tailed rewards
``theory``  the bonuses of the theorem and the printed ones, the paper's mechanisms

All of it takes about an hour of one core. ``--keep FOLDER`` writes every line to a file of its own as soon as it is
measured and takes those that are there, of the same version, from there; ``--minutes 20`` stops after that time: the
same command goes on from there.

Every line is the regret as a share of uniform play's: the mean of eight runs, its standard error, and the worst run.
Constants were chosen with other seeds, on rivers of 4 to 6 states with horizons 5 to 15 and on other random worlds.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import discreet
from discreet.base.policies import uniform_policy
from discreet.base.types import Floats
from discreet.learners import UCBPO, UCBVI, HeavyUCBPO, HeavyUCBVI
from discreet.problems.heavy_tails.world import around
from discreet.recipes.targets import Privacy
from discreet.simulation.experiments import address, kept
from discreet.worlds import river_swim
from discreet.worlds.tabular import TabularWorld

SEED, RUNS, USERS = 4207, 8, 20_000
LEARNERS = {learner.name: learner for learner in (UCBVI(), HeavyUCBVI(), UCBPO(), HeavyUCBPO())}
TARGETS: dict[str, Privacy] = {
    "none": discreet.NoPrivacy(), "(1, 1e-5)": discreet.Central(1.0, 1e-5), "pure 1": discreet.Central(1.0)
}  # fmt: skip


_asked = argparse.Namespace(keep=None, until=math.inf)


def row(label: str, world: TabularWorld, learner: object, privacy: Privacy, users: int = USERS) -> None:
    """Print one line, measured unless it is kept; end the program when time is up."""

    def measure() -> dict[str, str]:
        if time.monotonic() > _asked.until:
            raise SystemExit("time is up: the same command goes on from here")
        return {"line": _measured(world, learner, privacy, users)}

    cell = {"label": label, "users": users, "seed": SEED, "runs": RUNS, "version": discreet.RESULTS_SINCE}
    found = measure() if _asked.keep is None else kept(address(_asked.keep, [label], cell), measure)
    print(f"| {label} | {found['line']} |", flush=True)


def _measured(world: TabularWorld, learner: object, privacy: Privacy, users: int) -> str:
    result = discreet.simulate(world, learner, privacy, episodes=users, runs=RUNS, seed=SEED)  # type: ignore[arg-type]
    share = result.regret[:, -1] / (users * world.gap(uniform_policy(world.shape)))
    error = share.std(ddof=1) / math.sqrt(RUNS)
    return f"{result.recipe} | {share.mean():.3f} ± {error:.3f} | {share.max():.3f}"


def river(rewards: str = "stable", alpha: float = 1.8, order: float | None = None) -> TabularWorld:
    return river_swim(6, 20, rewards=rewards, alpha=alpha, order=order)


def random_world(seed: int, alpha: float) -> TabularWorld:
    """Six states, three actions, ten steps; successors from Dirichlet(0.3), means the third power of uniform draws."""
    rng = np.random.default_rng(seed)
    transitions, means = rng.dirichlet(np.full(6, 0.3), size=(1, 6, 3)), rng.uniform(0, 1, size=(1, 6, 3)) ** 3
    law, moments = around("stable", means, alpha, 1.0, None)
    return TabularWorld(f"random-{seed}", transitions, law, np.eye(6)[0], 10, (-1.0, 1.0), moments)


def differing_worlds(alpha: float) -> Iterator[tuple[str, TabularWorld]]:
    """Six states, three actions, ten steps, laws drawn as above; and a river whose actions change places at random."""
    for seed, name, rewards_differ, moves_differ in (
        (201, "rewards and successors", True, True), (202, "rewards", True, False), (203, "successors", False, True)
    ):  # fmt: skip
        rng = np.random.default_rng(seed)
        transitions = rng.dirichlet(np.full(6, 0.3), size=(10 if moves_differ else 1, 6, 3))
        means = rng.uniform(0, 1, size=(10 if rewards_differ else 1, 6, 3)) ** 3
        yield name, _per_step(name, transitions, means, alpha)
    flowing, rng = river_swim(5, 10, rewards="stable", alpha=alpha), np.random.default_rng(204)
    here, places = np.arange(5)[:, None], rng.permuted(np.tile(np.arange(2), (10, 5, 1)), axis=2)
    means = np.asarray(flowing.rewards.means)
    yield "places of actions", _per_step(
        "places", np.array([flowing.transitions[0][here, place] for place in places]),
        np.array([means[0][here, place] for place in places]), alpha,
    )  # fmt: skip
    # Two states; the second action pays 1 at the fifth step and nothing at others, where the first one pays .3.
    means = np.zeros((10, 2, 3))
    means[:, :, 0], means[4, :, 0], means[4, :, 1], means[:, :, 2] = 0.3, 0.0, 1.0, 0.2
    yield "one step only", _per_step("one", np.full((1, 2, 3, 2), 0.5), means, alpha)


def _per_step(name: str, transitions: Floats, means: Floats, alpha: float) -> TabularWorld:
    """A world of ten steps; what does not differ is given once."""
    S, A = means.shape[1:]
    transitions, means = np.broadcast_to(transitions, (10, S, A, S)), np.broadcast_to(means, (10, S, A))
    law, moments = around("stable", means, alpha, 1.0, None)
    return TabularWorld(f"differ-{name}", transitions, law, np.eye(S)[0], 10, (-1.0, 1.0), moments)


def arms(alpha: float) -> TabularWorld:
    means = np.array([[[0.8, 0.55, 0.5, 0.3, 0.1]]])
    law, moments = around("stable", means, alpha, 1.0, None)
    return TabularWorld("arms", np.ones((1, 1, 5, 1)), law, np.ones(1), 1, (-1.0, 1.0), moments)


def worlds() -> Iterator[tuple[str, TabularWorld]]:
    for rewards, alpha in (
        ("stable", 2.0), ("stable", 1.8), ("stable", 1.2), ("student", 1.5), ("pareto", 1.3), ("two-point", 0.05)
    ):  # fmt: skip
        yield f"{rewards} {alpha:g}", river(rewards, alpha)
    yield "random A, stable 1.8", random_world(101, 1.8)
    yield "random B, stable 1.2", random_world(102, 1.2)


def grid() -> None:
    for homogeneous in (True, False):
        for target, privacy in TARGETS.items():
            for name, world in worlds():
                for learner in LEARNERS.values():
                    laws = "pooled" if homogeneous else "per step"
                    row(f"{laws}, {target}, {name}, {learner.name}", _laws(world, homogeneous), learner, privacy)


def _laws(world: TabularWorld, homogeneous: bool) -> TabularWorld:
    return world if homogeneous else world.with_time(homogeneous=False)


def steps() -> None:
    learners = {"ucbvi": UCBVI(), "apart": HeavyUCBVI(borrow=False), "heavy-ucbvi": HeavyUCBVI()}
    for target in ("none", "(1, 1e-5)"):
        for alpha in (1.8, 1.2):
            for what, world in differing_worlds(alpha):
                for name, learner in learners.items():
                    row(f"differ in {what}, {target}, alpha {alpha:g}, {name}", world, learner, TARGETS[target])


def users() -> None:
    for target in ("(1, 1e-5)", "pure 1"):
        for learner in LEARNERS.values():
            row(f"per step, {target}, {learner.name}", _laws(river(), False), learner, TARGETS[target], 80_000)
    small = river_swim(4, 6, rewards="stable", alpha=1.8)
    for epsilon, number in ((4.0, 20_000), (4.0, 100_000), (1.0, 400_000)):
        for what, world in (
            ("RiverSwim-4", small), ("RiverSwim-4 per step", _laws(small, False)), ("RiverSwim-6", river())
        ):  # fmt: skip
            for name in ("ucbvi", "heavy-ucbvi", "heavy-ucbpo"):
                label = f"local {epsilon:g}, {number:,} users, {what}, {name}"
                row(label, world, LEARNERS[name], discreet.Local(epsilon), number)


def orders() -> None:
    for order in (0.06, 0.125, 0.18):
        for name in ("ucbvi", "heavy-ucbvi"):
            row(f"v = {order:g}, {name}", river(alpha=1.2, order=order), LEARNERS[name], discreet.NoPrivacy())


def bandits() -> None:
    for alpha in (1.8, 1.2):
        for target, privacy in {**TARGETS, "local 1": discreet.Local(1.0)}.items():
            for learner in LEARNERS.values():
                row(f"five arms, alpha {alpha:g}, {target}, {learner.name}", arms(alpha), learner, privacy)


def theory() -> None:
    none = discreet.NoPrivacy(options={"thresholds": "index"})
    paper = discreet.Central(1.0, recipe="central/heavy-tailed")
    proved = HeavyUCBVI(bonus_scale=1.0, error_scale=1.0, threshold=None)
    printed = HeavyUCBVI(bonus_scale=1.0, error_scale=1.0, bonuses="printed", clip="sum")
    for alpha, number in ((2.0, 20_000), (2.0, 160_000), (1.8, 20_000)):
        row(f"theorem, none, alpha {alpha:g}, {number:,}", river(alpha=alpha), proved, none, number)
        row(f"printed, none, alpha {alpha:g}, {number:,}", river(alpha=alpha), printed, none, number)
    row("theorem, pure 1", river(), proved, paper)
    row("defaults, pure 1, the paper's tree", river(), HeavyUCBVI(), paper)
    claimed = discreet.Central(1.0, recipe="central/heavy-tailed-published")
    row("printed, claimed 1, printed tree", _laws(river(), False), printed, claimed)


PARTS: dict[str, Callable[[], None]] = {
    "grid": grid, "steps": steps, "users": users, "order": orders, "arms": bandits, "theory": theory
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="measured lines are written there and taken from there"
    )
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no new line after so many minutes")
    asked = parser.parse_args(namespace=_asked)
    asked.until = time.monotonic() + 60 * asked.minutes
    for part in asked.parts or PARTS:
        print(f"\n| {part} | recipe | share of uniform play's regret | worst run |\n|---|---|---|---|")
        PARTS[part]()


if __name__ == "__main__":
    main()
