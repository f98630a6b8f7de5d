"""Coverage designs: the certificate is honest, reaches its target, and its limit is the number of coordinates."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from discreet.base.errors import InvalidInput
from discreet.problems.elimination.coverage_design import (
    Atoms,
    Design,
    _share_out,
    _worth_keeping,
    check_model,
    coverage_design,
)
from discreet.problems.elimination.policy_factors import PolicyFactors

Floats = NDArray[np.float64]


def river_swim() -> tuple[Floats, Floats, PolicyFactors]:
    """Four states, six steps: left surely, right against the current; the support is public."""
    P = np.zeros((4, 2, 4))
    for s in range(4):
        P[s, 0, max(s - 1, 0)] = 1.0
    P[0, 1, :2] = 0.4, 0.6
    P[1, 1, :3] = P[2, 1, 1:] = 0.05, 0.6, 0.35
    P[3, 1, 2:] = 0.4, 0.6
    return np.tile(P, (6, 1, 1, 1)), np.eye(4)[0], PolicyFactors(np.tri(6, 4, dtype=np.bool_), 2)


def tiny() -> tuple[Floats, Floats, PolicyFactors]:
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(2), size=(3, 2, 2)) * rng.uniform(0.8, 1.0, size=(3, 2, 2, 1))
    return P, np.array([0.3, 0.7]), PolicyFactors(np.ones((3, 2), dtype=np.bool_), 2)


def crude_atoms(P: Floats, start: Floats, factors: PolicyFactors, active: NDArray[np.bool_]) -> Atoms:
    layers = [factors.crude(P, start, active, np.zeros(factors.count), h) for h in range(factors.horizon)]
    classes = np.concatenate([layer.classes[layer.occupancy > 0] for layer in layers])
    return factors.atoms(P, start, np.unique(classes))


def design_of(P: Floats, start: Floats, factors: PolicyFactors, active: NDArray[np.bool_], **options: float) -> Design:
    initial = crude_atoms(P, start, factors, active)
    return coverage_design(factors.oracle(P, start, active), initial, **options)  # type: ignore[arg-type]


def ratios(occupancies: Floats, y: Floats) -> Floats:
    """sum d/y of every policy, 0/0 = 0."""
    return np.divide(occupancies, y, out=np.zeros_like(occupancies), where=occupancies > 0).sum(axis=(1, 2, 3))


def test_certificate_on_river_swim() -> None:
    P, start, factors = river_swim()
    design = design_of(P, start, factors, np.ones(factors.count, dtype=np.bool_))
    assert design.coordinates == 36  # (1 + 2 + 3 + 4 + 4 + 4) states, 2 actions
    assert 1.0 <= design.certificate <= 1.05
    assert design.calls <= 15
    assert len(design.weights) <= 60
    assert design.weights.min() > 0
    assert design.weights.sum() == pytest.approx(1.0)
    assert len(np.unique(design.actions, axis=0)) == len(design.weights)


def test_occupancy_is_that_of_the_mixture() -> None:
    P, start, factors = river_swim()
    design = design_of(P, start, factors, np.ones(factors.count, dtype=np.bool_))
    parts = factors.atoms(P, start, factors.encode(design.actions)).occupancy
    np.testing.assert_allclose(np.tensordot(design.weights, parts, 1), design.occupancy, rtol=1e-9, atol=1e-15)


def test_certificate_is_the_worst_ratio_of_all_policies() -> None:
    P, start, factors = tiny()
    design = design_of(P, start, factors, np.ones(factors.count, dtype=np.bool_))
    everything = factors.atoms(P, start, np.arange(factors.count)).occupancy
    worst = ratios(everything, design.occupancy).max()
    assert design.coordinates == 12
    assert design.certificate == pytest.approx(worst / 12, rel=1e-12)


@pytest.mark.parametrize("problem", [tiny, river_swim])
def test_the_optimum_is_the_number_of_coordinates(problem: object) -> None:
    P, start, factors = problem()  # type: ignore[operator]
    active = np.ones(factors.count, dtype=np.bool_)
    design = design_of(P, start, factors, active, target=1.001, reweightings=500)
    assert 1.0 <= design.certificate <= 1.001
    own = factors.atoms(P, start, factors.encode(design.actions)).occupancy
    assert design.weights @ ratios(own, design.occupancy) == pytest.approx(design.coordinates, rel=1e-9)


def test_no_mixture_of_all_policies_has_a_higher_objective_than_the_certificate_allows() -> None:
    P, start, factors = tiny()
    design = design_of(P, start, factors, np.ones(factors.count, dtype=np.bool_), target=1.001, reweightings=500)
    rows = factors.atoms(P, start, np.arange(factors.count)).occupancy.reshape(factors.count, -1)
    weights = np.full(factors.count, 1 / factors.count)
    for _ in range(5000):
        weights *= rows @ (1 / (weights @ rows)) / 12
    best, got = np.log(weights @ rows).sum(), np.log(design.occupancy).sum()
    assert best - 12 * 0.001 <= got <= best + 1e-6


def test_only_active_policies_are_used() -> None:
    P, start, factors = tiny()
    active = np.random.default_rng(1).uniform(size=factors.count) < 0.4
    design = design_of(P, start, factors, active)
    assert active[factors.encode(design.actions)].all()
    rows = factors.atoms(P, start, np.flatnonzero(active)).occupancy
    assert ratios(rows, design.occupancy).max() <= 1.05 * design.coordinates * (1 + 1e-12)


def test_a_bandit_is_covered_evenly() -> None:
    factors = PolicyFactors(np.ones((1, 1), dtype=np.bool_), 5)
    design = design_of(np.zeros((1, 1, 5, 1)), np.ones(1), factors, np.ones(5, dtype=np.bool_))
    np.testing.assert_allclose(design.weights, 0.2)
    assert design.certificate == pytest.approx(1.0)


def test_when_calls_run_out_the_certificate_says_so() -> None:
    P, start, factors = river_swim()
    design = design_of(P, start, factors, np.ones(factors.count, dtype=np.bool_), calls=1, reweightings=0)
    assert design.calls == 1
    assert design.certificate > 1.05


def test_reweighting_is_multiplicative_and_stops_when_ratios_are_low_enough() -> None:
    rng = np.random.default_rng(2)
    rows = rng.uniform(size=(6, 4)) * (rng.uniform(size=(6, 4)) < 0.6)
    rows[0] += 0.1
    first = rng.dirichlet(np.ones(6))
    expected = first.copy()
    for _ in range(3):
        expected *= rows @ (1 / (expected @ rows)) / 4
    weights = first.copy()
    _share_out(rows, weights, 3, 1.0)
    np.testing.assert_allclose(weights, expected, rtol=1e-13)
    worst = (rows @ (1 / (first @ rows)) / 4).max()
    weights = first.copy()
    _share_out(rows, weights, 3, worst * (1 + 1e-12))
    np.testing.assert_array_equal(weights, first)


def test_policies_are_dropped_only_if_what_they_cover_stays_covered() -> None:
    weights = np.array([1.0, 1e-9])
    assert _worth_keeping(np.eye(2), weights).all()
    assert _worth_keeping(np.array([[1.0, 1.0], [0.0, 1.0]]), weights).tolist() == [True, False]


def test_errors_name_what_is_wrong() -> None:
    P, start, factors = tiny()
    active = np.ones(factors.count, dtype=np.bool_)
    with pytest.raises(InvalidInput, match="target must be above 1"):
        design_of(P, start, factors, active, target=1.0)
    nowhere = factors.atoms(P, np.zeros(2), [0])
    with pytest.raises(InvalidInput, match="nothing to cover"):
        coverage_design(factors.oracle(P, start, active), nowhere)
    with pytest.raises(InvalidInput, match="transitions must have shape"):
        check_model(P[0], start)
    with pytest.raises(InvalidInput, match="start must be at least 0"):
        check_model(P, -start)
