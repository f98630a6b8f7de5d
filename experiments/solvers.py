"""The convex programs over occupancy measures: our solvers and cvxpy with Clarabel, interleaved in one process.

    python -m experiments.solvers [--instances 20] [--chain 300]

cvxpy is given its best case: one problem with parameters (DPP), canonicalised before the clock starts. "solver" is what
Clarabel itself reports for the same solve, without cvxpy around it. Every solve is timed the second time it runs, so
that neither side pays for the other's data in the processor's caches. Ratios are medians over instances of the ratio
within an instance, so that a busy machine slows both sides of each. Instances that Clarabel gives up on or calls
inaccurate are left out and counted as "failed"; ours are certified by their duality gap and have to converge.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import cvxpy
import numpy as np

from discreet.problems.adversarial.barrier_program import solve_barrier_program
from discreet.problems.adversarial.entropy_program import leader_reference, solve_entropy_program
from discreet.problems.adversarial.layers import Box, Layers, confidence_box, occupancy, pair_occupancy

LAYERS = Layers((1, 5, 5, 5, 1), actions=3)
TABLE = (LAYERS.states, LAYERS.actions)
WIDTHS = (1.0, 0.3, 0.1, 0.03, 0.01)


class Oracle:
    """One parametrised cvxpy problem: minimise ``cost``.q plus a barrier or minus the entropy."""

    def __init__(self, barrier: bool) -> None:
        offset, first = LAYERS.arrays.offset, LAYERS.arrays.first
        pair = np.repeat(np.arange(LAYERS.pairs), np.diff(offset))
        state = pair // LAYERS.actions
        target = first[LAYERS.layer[state] + 1] + np.arange(LAYERS.triples) - offset[pair]
        states = np.arange(LAYERS.states)[:, None]
        known = LAYERS.unknown
        mass = (pair[:known, None] == pair).astype(float)
        q = cvxpy.Variable(LAYERS.triples)
        self.cost = cvxpy.Parameter(LAYERS.triples)
        self.lower = cvxpy.Parameter(known, nonneg=True)
        self.upper = cvxpy.Parameter(known, nonneg=True)
        convex = -cvxpy.sum(cvxpy.log(q)) if barrier else -cvxpy.sum(cvxpy.entr(q))
        self.problem = cvxpy.Problem(
            cvxpy.Minimize(self.cost @ q + convex),
            [
                ((state == states).astype(float) - (target == states)) @ q == np.eye(LAYERS.states)[0],
                q[:known] >= cvxpy.multiply(self.lower, mass @ q),
                q[:known] <= cvxpy.multiply(self.upper, mass @ q),
            ],
        )
        assert self.problem.is_dcp(dpp=True)

    def solve(self, cost: np.ndarray, box: Box) -> tuple[float, float] | None:
        """(seconds in all, seconds in Clarabel), or None where Clarabel does not reach its accuracy."""
        for _ in range(2):
            start = time.perf_counter()
            self.cost.value = cost
            self.lower.value, self.upper.value = box.lower[: LAYERS.unknown], box.upper[: LAYERS.unknown]
            try:
                self.problem.solve(solver="CLARABEL")
            except cvxpy.SolverError:
                return None
            seconds = time.perf_counter() - start
        return (seconds, float(self.problem.solver_stats.solve_time)) if self.problem.status == "optimal" else None


def random_rows(rng: np.random.Generator) -> np.ndarray:
    blocks = []
    for S, wide in zip(LAYERS.sizes[:-1], LAYERS.sizes[1:]):
        blocks.append(0.15 / wide + 0.85 * rng.dirichlet(np.full(wide, 0.3), size=S * LAYERS.actions).ravel())
    return np.concatenate(blocks)


def timed(function: Any, *arguments: Any, **options: Any) -> tuple[float, Any]:
    function(*arguments, **options)
    start = time.perf_counter()
    answer = function(*arguments, **options)
    return time.perf_counter() - start, answer


class Row:
    """The timings of one line of the table."""

    def __init__(self) -> None:
        self.ours: list[float] = []
        self.oracle: list[tuple[float, float]] = []
        self.iterations: list[int] = []
        self.failed = 0

    def add(self, ours: tuple[float, Any], oracle: tuple[float, float] | None) -> None:
        seconds, answer = ours
        if not answer.converged:
            raise RuntimeError(f"our solver did not converge: gap {answer.gap:g}")
        if oracle is None:
            self.failed += 1
        else:
            self.ours.append(seconds)
            self.oracle.append(oracle)
            self.iterations.append(answer.iterations)

    def report(self, name: str) -> None:
        mine, (total, solver) = np.array(self.ours), np.array(self.oracle).T
        print(
            f"{name:34s} {1e3 * np.median(mine):8.3f} {np.mean(self.iterations):6.1f} {1e3 * np.median(total):9.1f} "
            f"{1e3 * np.median(solver):9.1f} {np.median(total / mine):7.0f}x {np.median(solver / mine):7.0f}x "
            f"{self.failed:7d}"
        )


def cold(instances: int, rng: np.random.Generator) -> None:
    entropy, barrier = Oracle(barrier=False), Oracle(barrier=True)
    for width in WIDTHS:
        rows = {f"entropy, cold, width {width:g}": Row(), f"barrier, width {width:g}": Row()}
        for instance in range(-1, instances):  # the first one compiles and canonicalises
            box = confidence_box(LAYERS, random_rows(rng), width)
            losses = rng.random(TABLE)
            ref = leader_reference(LAYERS, losses, 20.0)
            previous = occupancy(LAYERS, random_rows(rng), rng.dirichlet(np.ones(LAYERS.actions), LAYERS.states))
            estimate = losses / np.maximum(pair_occupancy(LAYERS, previous), 0.01)
            runs = (
                (timed(solve_entropy_program, LAYERS, ref, box), entropy.solve(-ref, box)),
                (
                    timed(solve_barrier_program, LAYERS, estimate, 0.1, previous, box),
                    barrier.solve(0.1 * LAYERS.spread(estimate) + 1 / previous, box),
                ),
            )
            if instance >= 0:
                for row, run in zip(rows.values(), runs):
                    row.add(*run)
        for name, row in rows.items():
            row.report(name)


def chains(steps: int, rng: np.random.Generator) -> None:
    """What a learner does: one solve per episode, each starting from the last; cvxpy takes every tenth as well."""
    entropy, barrier = Oracle(barrier=False), Oracle(barrier=True)
    centre = random_rows(rng)
    total, dual = np.zeros(TABLE), None
    q = occupancy(LAYERS, LAYERS.uniform_transitions(), np.full(TABLE, 1 / LAYERS.actions))
    leaders, mirrors = Row(), Row()
    for k in range(steps):
        box = confidence_box(LAYERS, centre, 1 / np.sqrt(k + 1))
        losses = rng.random(TABLE)
        total += losses
        ref = leader_reference(LAYERS, total, 1 / np.sqrt(steps))
        estimate = losses * (rng.random(TABLE) < 0.3) / np.maximum(pair_occupancy(LAYERS, q), 0.01)
        leader = timed(solve_entropy_program, LAYERS, ref, box, start=dual)
        mirror = timed(solve_barrier_program, LAYERS, estimate, 0.1, q, box)
        if k % 10 == 0:
            costs = (entropy.solve(-ref, box), barrier.solve(0.1 * LAYERS.spread(estimate) + 1 / q, box))
            if k > 0:
                leaders.add(leader, costs[0])
                mirrors.add(mirror, costs[1])
        dual, q = leader[1].dual, mirror[1].occupancy
    leaders.report(f"entropy, warm chain of {steps}")
    mirrors.report(f"barrier, chain of {steps}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instances", type=int, default=20)
    parser.add_argument("--chain", type=int, default=300)
    options = parser.parse_args()
    warnings.filterwarnings("ignore", module="cvxpy")
    warnings.filterwarnings("ignore", message="Solution may be inaccurate")
    rng = np.random.default_rng(0)
    print(f"layers {LAYERS.sizes}, {LAYERS.actions} actions, {LAYERS.triples} variables; milliseconds per solve")
    print(
        f"{'':34s} {'ours':>8s} {'steps':>6s} {'cvxpy':>9s} {'solver':>9s} {'ratio':>8s} {'ratio':>8s} {'failed':>7s}"
    )
    cold(options.instances, rng)
    chains(options.chain, rng)


if __name__ == "__main__":
    main()
