"""Speed of policy sets: all-policy evaluation, one stage of policy elimination, and the implicit set.

    python experiments/policy_sets.py

Times are the best of a few warm repetitions; the ratio to NumPy is measured in the same, interleaved run.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from discreet import worlds
from discreet.problems.elimination.coverage_design import Atoms, Design, coverage_design
from discreet.problems.elimination.implicit_set import ImplicitSet
from discreet.problems.elimination.policy_factors import PolicyFactors

Floats = NDArray[np.float64]


def river_swim() -> tuple[Floats, Floats, Floats]:
    """Transitions, start and rewards of four states and six steps."""
    world = worlds.river_swim(states=4, horizon=6).with_time(homogeneous=False)
    return np.array(world.transitions), np.array(world.start), np.array(world.means)


def values_in_numpy(factors: PolicyFactors, P: Floats, start: Floats, r: Floats) -> Floats:
    """The same values in array operations: suffix values (suffixes, X) shared over prefixes."""
    X, A = factors.states, factors.actions
    suffix = np.zeros((1, X))
    for h in reversed(range(factors.horizon)):
        Q = r[h] + np.einsum("xay,sy->sxa", P[h], suffix)
        rules = np.zeros((factors.sizes[h], X), dtype=np.int64)
        for k, x in enumerate(np.flatnonzero(factors.support[h])):
            rules[:, x] = np.arange(factors.sizes[h]) // A**k % A
        suffix = Q[:, np.arange(X), rules].swapaxes(0, 1).reshape(-1, X)
    return np.asarray(suffix @ start)


def stage(factors: PolicyFactors, P: Floats, start: Floats, r: Floats, active: NDArray[np.bool_]) -> Design:
    """Crude exploration of every layer, the design, and one elimination by data-dependent radii and sink bias."""
    values = factors.values(P, start, r)
    layers = [factors.crude(P, start, active, values, h) for h in range(factors.horizon)]
    classes = np.unique(np.concatenate([layer.classes[layer.occupancy > 0] for layer in layers]))
    design = coverage_design(factors.oracle(P, start, active), factors.atoms(P, start, classes))
    mean, variances = factors.return_variances(P, start, r, r * (1 - r))
    radii = factors.radii(P, start, 1e4 * design.occupancy, 20.0, variances, log_term=15.0)
    bias = factors.sink_bias(P, start)
    _, bar = factors.best(mean - radii, active)
    np.logical_and(active, mean + radii + bias >= bar)
    return design


def implicit_stage(states: int, actions: int, horizon: int) -> Callable[[], tuple[float, float, Design]]:
    """Seconds for all constrained crude argmaxes and for the design, in a random model."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.full(states, 0.3), size=(horizon, states, actions))
    start, r = np.eye(states)[0], rng.uniform(size=(horizon, states, actions))
    best = ImplicitSet(P, start, r, 0.0).best

    def run() -> tuple[float, float, Design]:
        policies = ImplicitSet(P, start, r, 0.9 * best)
        began = time.perf_counter()
        crude = [policies.crude(h) for h in range(horizon)]
        middle = time.perf_counter()
        parts = [policies.atoms(layer) for layer in crude]
        initial = Atoms(*(np.concatenate(fields) for fields in zip(*parts)))
        design = coverage_design(policies.maximise, initial)
        return middle - began, time.perf_counter() - middle, design

    return run


def fastest(*functions: Callable[[], object], repetitions: int = 5) -> list[float]:
    """The best time of each, taken in turns after one call that compiles."""
    for function in functions:
        function()
    best = [np.inf] * len(functions)
    for _ in range(repetitions):
        for i, function in enumerate(functions):
            began = time.perf_counter()
            function()
            best[i] = min(best[i], time.perf_counter() - began)
    return best


def main() -> None:
    P, start, r = river_swim()
    start_known = np.ones((6, 4), dtype=np.bool_)
    start_known[0, 1:] = False
    for name, support in (("2^18 classes", np.tri(6, 4, dtype=np.bool_)), ("2^21 classes", start_known)):
        factors = PolicyFactors(support, 2)
        active = np.ones(factors.count, dtype=np.bool_)
        ours, plain = fastest(
            lambda f=factors: f.values(P, start, r),  # type: ignore[misc]
            lambda f=factors: values_in_numpy(f, P, start, r),  # type: ignore[misc]
        )
        (whole,) = fastest(lambda f=factors, a=active: stage(f, P, start, r, a), repetitions=3)  # type: ignore[misc]
        print(f"{name}: evaluation {1e3 * ours:.1f} ms ({plain / ours:.0f}x NumPy), one stage {1e3 * whole:.0f} ms")
    for states, actions, horizon in ((10, 3, 10), (20, 4, 20)):
        run = implicit_stage(states, actions, horizon)
        run()
        crude, design, result = min((run() for _ in range(3)), key=lambda times: times[0] + times[1])
        print(
            f"implicit X={states} A={actions} H={horizon}: {states * actions * horizon} crude argmaxes {crude:.3f} s, "
            f"design {design:.3f} s (certificate {result.certificate:.3f}, {result.calls} calls)"
        )


if __name__ == "__main__":
    main()
