"""The measurements, in the peers' environment. Ratios are medians over rounds in which both sides take turns.

Times are processor seconds of this process, so that other programs on the machine do not enter; they do include what
engines do in threads of their own.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

import discreet
from discreet.simulation.experiments import in_turns, table
from experiments.peers.agents import rlberry_run
from experiments.peers.tables import COUNT, read_table, write_rows

Work = Callable[[], object]


class Line(NamedTuple):
    """One line of the table; sizes are per call, so sides may do different amounts."""

    what: str
    unit: str
    peer: str
    ours: float  # units per second
    theirs: float
    ratio: float
    aim: float | None = None

    def cells(self) -> tuple[str, ...]:
        aim = "" if self.aim is None else f"{self.aim:g}x"
        return self.what, self.peer, f"{self.ours:,.0f}", f"{self.theirs:,.0f}", self.unit, f"{self.ratio:,.1f}x", aim


def compare(
    what: str,
    unit: str,
    peer: str,
    ours: tuple[Work, int],
    theirs: tuple[Work, int],
    rounds: int,
    aim: float | None = None,
) -> Line:
    """Take turns."""
    rates = in_turns(ours, theirs, rounds=rounds)
    mine, other = np.median(rates, axis=0)
    return Line(what, unit, peer, float(mine), float(other), float(np.median(rates[:, 0] / rates[:, 1])), aim)


def agents(rounds: int, quick: bool) -> Iterator[Line]:
    """UCBVI without privacy, one plan per episode, per-step bonuses on pooled counts, as rlberry-scool ships it."""
    river = discreet.worlds.river_swim(states=6, horizon=20)
    large = discreet.worlds.random_mdp(states=50, actions=5, horizon=20, alpha=1.0, instance=1)
    sizes = ((river, 20_000, 100, 20.0, "RiverSwim-6, H=20"), (large, 2_000, 10, 300.0, "random, S=50, A=5, H=20"))
    for world, mine, theirs, aim, name in sizes:
        fast, slow = mine // (10 if quick else 1), max(2, theirs // (5 if quick else 1))

        def ours(world: object = world, episodes: int = fast) -> object:
            return discreet.simulate(world, discreet.learners.UCBVI(), episodes=episodes, seed=1, threads=1)

        def peer(world: object = world, episodes: int = slow) -> object:
            return rlberry_run(world, episodes)

        yield compare(f"UCBVI, {name}", "episodes/s", "rlberry-scool", (ours, fast), (peer, slow), rounds, aim)


def noise(rounds: int, quick: bool) -> Iterator[Line]:
    """Discrete Laplace noise: for simulation against NumPy, for a real release against opendp."""
    import opendp.prelude as dp

    from discreet.noise import DiscreteLaplace, add_noise

    dp.enable_features("contrib")
    n, few = 1_000_000 // (10 if quick else 1), 20_000 // (10 if quick else 1)
    law, stream, rng = DiscreteLaplace(10.0), np.full(1, 7, np.uint64), np.random.default_rng(0)
    cells, kernel, p = np.zeros(n), law.kernel(), 1 - np.exp(-1 / 10.0)
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    mechanism, zeros = dp.m.make_laplace(*space, scale=10.0), [0] * few

    def fast() -> object:
        return add_noise(kernel, cells, stream)

    def numpy() -> object:
        return rng.geometric(p, n) - rng.geometric(p, n)

    yield compare("discrete Laplace, simulated", "draws/s", "numpy", (fast, n), (numpy, n), rounds)
    yield compare(
        "discrete Laplace, simulated", "draws/s", "opendp", (fast, n), (lambda: mechanism(zeros), few), rounds
    )
    yield compare(
        "discrete Laplace, secure",
        "draws/s",
        "opendp",
        (lambda: law.secure(few), few),
        (lambda: mechanism(zeros), few),
        rounds,
    )


def counting(rounds: int, quick: bool) -> Iterator[Line]:
    """A joint table of counts from Parquet. Ours repairs bad rows and bounds contributions; plain queries do not."""
    import duckdb
    import polars

    rows = 2_000_000 // (20 if quick else 1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "visits.parquet"
        write_rows(path, rows)

        def ours() -> object:
            return read_table(path).joint_counts()

        def sql() -> object:
            return duckdb.connect().execute(COUNT.format(path=path)).fetchnumpy()

        def frame() -> object:
            successor = polars.col("state").shift(-1).over("patient", order_by="day")
            keys = ["day", "state", "drug", successor.alias("next"), (polars.col("outcome") >= 0.5).alias("bit")]
            return polars.scan_parquet(path).select(keys).group_by(polars.all()).len().collect()

        yield compare("joint counts of a table", "rows/s", "plain DuckDB", (ours, rows), (sql, rows), rounds)
        yield compare("joint counts of a table", "rows/s", "polars", (ours, rows), (frame, rows), rounds)


def programs(rounds: int, quick: bool) -> Iterator[Line]:
    """The two convex programs over occupancy measures (180 variables)."""
    from discreet.problems.adversarial.barrier_program import solve_barrier_program
    from discreet.problems.adversarial.entropy_program import leader_reference, solve_entropy_program
    from discreet.problems.adversarial.layers import confidence_box, occupancy, pair_occupancy
    from experiments.solvers import LAYERS, TABLE, Oracle, random_rows

    rng, entropy, barrier = np.random.default_rng(0), Oracle(barrier=False), Oracle(barrier=True)
    while True:  # until there is an instance that Clarabel solves to its own accuracy
        box, losses = confidence_box(LAYERS, random_rows(rng), 0.3), rng.random(TABLE)
        reference = leader_reference(LAYERS, losses, 20.0)
        before = occupancy(LAYERS, random_rows(rng), rng.dirichlet(np.ones(LAYERS.actions), LAYERS.states))
        estimate = losses / np.maximum(pair_occupancy(LAYERS, before), 0.01)
        cost = 0.1 * LAYERS.spread(estimate) + 1 / before
        if entropy.solve(-reference, box) is not None and barrier.solve(cost, box) is not None:
            break
    times = 20

    def repeated(work: Work) -> Work:
        return lambda: [work() for _ in range(times)]

    leader = repeated(lambda: solve_entropy_program(LAYERS, reference, box))
    mirror = repeated(lambda: solve_barrier_program(LAYERS, estimate, 0.1, before, box))
    peer = "cvxpy with Clarabel"
    yield compare(
        "entropy program", "solves/s", peer, (leader, times), (lambda: entropy.solve(-reference, box), 1), rounds
    )
    yield compare("barrier program", "solves/s", peer, (mirror, times), (lambda: barrier.solve(cost, box), 1), rounds)


PARTS = {"agents": agents, "noise": noise, "counting": counting, "programs": programs}
HEADER = ("", "peer", "discreet", "peer's", "unit", "ratio", "aim")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all of them by default")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="smaller, to see that it runs")
    parser.add_argument("--out", type=Path, help="write the table as Markdown")
    asked = parser.parse_args()
    unknown = set(asked.parts) - set(PARTS)
    if unknown:
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    logging.disable(logging.WARNING)
    lines = []
    for name in asked.parts or PARTS:
        for line in PARTS[name](asked.rounds, asked.quick):
            lines.append(line.cells())
            print(" | ".join(line.cells()), flush=True)
    if asked.out is not None:
        asked.out.write_text("\n".join(table(HEADER, lines)) + "\n")


if __name__ == "__main__":
    main()
