"""Explicit policy sets against brute force: one policy at a time, one path at a time."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from discreet.base.errors import InvalidInput, Unsupported
from discreet.problems.elimination.policy_factors import PolicyFactors, count_classes

Floats = NDArray[np.float64]
Model = tuple[Floats, Floats, Floats]  # transitions, start, rewards


def random_model(seed: int, support: NDArray[np.bool_], actions: int) -> Model:
    """Sub-stochastic, with mass on the support only."""
    rng = np.random.default_rng(seed)
    H, X = support.shape
    P = rng.dirichlet(np.ones(X), size=(H, X, actions)) * rng.uniform(0.7, 1.0, size=(H, X, actions, 1))
    P[:-1] *= support[1:, None, None, :]
    start = rng.dirichlet(np.ones(X)) * support[0]
    return P, start / start.sum(), rng.uniform(size=(H, X, actions))


def river_swim() -> Model:
    """Four states, six steps: left surely, right against the current."""
    P = np.zeros((4, 2, 4))
    for s in range(4):
        P[s, 0, max(s - 1, 0)] = 1.0
    P[0, 1, :2] = 0.4, 0.6
    P[1, 1, :3] = P[2, 1, 1:] = 0.05, 0.6, 0.35
    P[3, 1, 2:] = 0.4, 0.6
    r = np.zeros((4, 2))
    r[0, 0], r[3, 1] = 0.005, 1.0
    return np.tile(P, (6, 1, 1, 1)), np.eye(4)[0], np.tile(r, (6, 1, 1))


def occupancies(P: Floats, start: Floats, actions: NDArray[np.int64]) -> Floats:
    """State occupancies (H, X) of one policy."""
    out = [start]
    for h in range(len(actions) - 1):
        out.append(sum(out[-1][x] * P[h, x, actions[h, x]] for x in range(len(start))))
    return np.array(out)


def value(P: Floats, start: Floats, rewards: Floats, actions: NDArray[np.int64]) -> float:
    d = occupancies(P, start, actions)
    H, X = actions.shape
    return float(sum(d[h, x] * rewards[h, x, actions[h, x]] for h in range(H) for x in range(X)))


def return_moments(P: Floats, start: Floats, rewards: Floats, actions: NDArray[np.int64]) -> tuple[float, float]:
    """Mean and variance of the return with Bernoulli rewards, path by path; the last state is the sink."""
    H, X = actions.shape
    mean = second = 0.0
    for path in itertools.product(range(X + 1), repeat=H):
        chance, gain, spread = 1.0, 0.0, 0.0
        for h, x in enumerate(path):
            if h == 0:
                chance *= 0.0 if x == X else start[x]
            elif path[h - 1] == X:
                chance *= float(x == X)
            else:
                row = P[h - 1, path[h - 1], actions[h - 1, path[h - 1]]]
                chance *= 1.0 - row.sum() if x == X else row[x]
            if x < X:
                r = rewards[h, x, actions[h, x]]
                gain, spread = gain + r, spread + r * (1 - r)
        mean += chance * gain
        second += chance * (gain**2 + spread)
    return mean, second - mean**2


FULL = np.ones((3, 2), dtype=np.bool_)
PARTIAL = np.array([[0, 1, 0], [1, 0, 1], [1, 1, 0]], dtype=np.bool_)
CASES = [pytest.param(FULL, 2, id="2 states, 3 steps"), pytest.param(PARTIAL, 3, id="partial support, 3 actions")]


@pytest.mark.parametrize(("support", "actions"), CASES)
def test_codes_are_a_bijection_in_the_documented_order(support: NDArray[np.bool_], actions: int) -> None:
    factors = PolicyFactors(support, actions)
    tables = factors.decode(np.arange(factors.count))
    assert len(np.unique(tables, axis=0)) == factors.count == count_classes(support, actions)
    assert (tables[:, ~support] == 0).all()
    np.testing.assert_array_equal(factors.encode(tables), np.arange(factors.count))
    last = np.flatnonzero(support[-1])[0]
    assert factors.decode(1)[-1, last] == 1  # the first state of the last step is the lowest digit
    assert factors.decode(factors.count // actions)[0].max() == 1


def test_what_a_policy_does_out_of_reach_does_not_change_its_class() -> None:
    factors = PolicyFactors(PARTIAL, 3)
    table = factors.decode(17)
    table[~PARTIAL] = 2
    assert factors.encode(table) == 17


@pytest.mark.parametrize(("support", "actions"), CASES)
def test_values_of_all_classes(support: NDArray[np.bool_], actions: int) -> None:
    factors = PolicyFactors(support, actions)
    P, start, r = random_model(0, support, actions)
    expected = [value(P, start, r, table) for table in factors.decode(np.arange(factors.count))]
    np.testing.assert_allclose(factors.values(P, start, r), expected, rtol=1e-13)


def test_values_of_a_bandit() -> None:
    factors = PolicyFactors(np.ones((1, 1), dtype=np.bool_), 5)
    r = np.arange(5.0).reshape(1, 1, 5)
    np.testing.assert_array_equal(factors.values(np.zeros((1, 1, 5, 1)), np.ones(1), r), np.arange(5.0))


@pytest.mark.parametrize(("support", "actions"), CASES)
def test_mean_and_variance_of_the_return(support: NDArray[np.bool_], actions: int) -> None:
    factors = PolicyFactors(support, actions)
    P, start, r = random_model(1, support, actions)
    some = np.arange(0, factors.count, 7)
    expected = np.array([return_moments(P, start, r, table) for table in factors.decode(some)])
    mean, variance = factors.return_variances(P, start, r, r * (1 - r))
    np.testing.assert_allclose(mean[some], expected[:, 0], rtol=1e-12)
    np.testing.assert_allclose(variance[some], expected[:, 1], rtol=1e-10)


def test_radii_follow_their_formula() -> None:
    factors = PolicyFactors(FULL, 2)
    P, start, r = random_model(2, FULL, 2)
    rng = np.random.default_rng(2)
    visits, widths = rng.integers(0, 50, size=r.shape).astype(float), rng.uniform(1, 3, size=r.shape)
    _, variances = factors.return_variances(P, start, r, r * (1 - r))
    radii = factors.radii(P, start, visits, widths, variances, log_term=3.0, scale=0.5, width_scale=0.25)
    inverse = 1 / np.maximum(visits, 1)
    for i in (0, 13, 63):
        table = factors.decode(i)
        spread, noise = value(P, start, inverse, table), value(P, start, widths * inverse, table)
        expected = 0.5 * (np.sqrt(2 * 3 * variances[i] * spread) + 3 * spread) + 0.25 * noise
        assert radii[i] == pytest.approx(expected, rel=1e-12)


def test_the_sink_takes_no_more_than_its_bias_bound() -> None:
    factors = PolicyFactors(FULL, 2)
    P, start, r = random_model(3, FULL, 2)
    truth = P / P.sum(axis=-1, keepdims=True)
    cut = truth * (np.random.default_rng(3).uniform(size=P.shape) < 0.7)
    loss = factors.values(truth, start, r) - factors.values(cut, start, r)
    bound = factors.sink_bias(cut, start)
    assert (loss >= -1e-12).all()
    assert (loss <= bound + 1e-12).all()
    ones = np.ones_like(r)  # with every reward 1 the bound is attained
    lost = factors.values(truth, start, ones) - factors.values(cut, start, ones)
    np.testing.assert_allclose(lost, bound, atol=1e-12)


@pytest.mark.parametrize("step", [0, 1, 2])
def test_prefix_occupancies(step: int) -> None:
    factors = PolicyFactors(PARTIAL, 3)
    P, start, _ = random_model(4, PARTIAL, 3)
    prefixes = factors.prefix_occupancies(P, start, step)
    suffixes = factors.count // len(prefixes)
    for i in range(0, factors.count, 5):
        expected = occupancies(P, start, factors.decode(i))[step]
        np.testing.assert_allclose(prefixes[i // suffixes], expected, rtol=1e-13)


@pytest.mark.parametrize(("support", "actions"), CASES)
@pytest.mark.parametrize("share", [1.0, 0.5, 0.05])
def test_crude_argmax_of_every_coordinate(support: NDArray[np.bool_], actions: int, share: float) -> None:
    factors = PolicyFactors(support, actions)
    P, start, r = random_model(5, support, actions)
    active = np.random.default_rng(5).uniform(size=factors.count) < share
    values = factors.values(P, start, r)
    tables = factors.decode(np.arange(factors.count))
    visits = np.array([occupancies(P, start, table) for table in tables])
    for h, x, a in np.ndindex(*r.shape):
        classes, occupancy = factors.crude(P, start, active, values, h)
        plays = active & (tables[:, h, x] == a)
        if not support[h, x] or not plays.any():
            assert classes[x, a] == -1
            assert occupancy[x, a] == 0
            continue
        most = visits[plays, h, x].max()
        ties = plays & (visits[:, h, x] >= most * (1 - 1e-10))
        winner = classes[x, a]
        assert plays[winner]
        assert occupancy[x, a] == pytest.approx(most, rel=1e-12)
        assert visits[winner, h, x] == pytest.approx(most, rel=1e-10)
        assert values[winner] == values[ties].max()


def test_crude_argmax_does_not_look_at_its_own_step_or_later() -> None:
    factors = PolicyFactors(FULL, 2)
    P, start, r = random_model(6, FULL, 2)
    values, active = factors.values(P, start, r), np.ones(factors.count, dtype=np.bool_)
    unknown = P.copy()
    unknown[1:] = 0.0
    for known, blank in zip(
        factors.crude(P, start, active, values, 1), factors.crude(unknown, start, active, values, 1)
    ):
        np.testing.assert_array_equal(known, blank)


def test_masked_maximum() -> None:
    factors = PolicyFactors(FULL, 2)
    values = np.random.default_rng(7).normal(size=factors.count)
    active = values < 0.3
    assert factors.best(values, active) == (int(np.where(active, values, -9).argmax()), values[active].max())
    with pytest.raises(InvalidInput, match="at least one class"):
        factors.best(values, np.zeros(factors.count, dtype=np.bool_))


def test_sizes_and_values_on_river_swim() -> None:
    P, start, r = river_swim()
    everywhere = np.ones((6, 4), dtype=np.bool_)
    start_known = everywhere.copy()
    start_known[0, 1:] = False
    reachable = np.tri(6, 4, dtype=np.bool_)
    assert [count_classes(s, 2) for s in (everywhere, start_known, reachable)] == [2**24, 2**21, 2**18]
    factors = PolicyFactors(reachable, 2)
    assert factors.sizes == (2, 4, 8, 16, 16, 16)
    values = factors.values(P, start, r)
    assert values.max() == pytest.approx(0.4758, abs=5e-5)
    assert values.mean() == pytest.approx(0.0316, abs=5e-5)
    with pytest.raises(Unsupported, match=r"2\^24\.0 policies"):
        PolicyFactors(everywhere, 2)


def test_errors_name_what_is_wrong() -> None:
    factors = PolicyFactors(PARTIAL, 3)
    P, start, r = random_model(8, PARTIAL, 3)
    stray = P.copy()
    stray[0, 1, 0, 1] = 0.01
    with pytest.raises(InvalidInput, match=r"mass 0\.01 outside the public support"):
        factors.values(stray, start, r)
    with pytest.raises(InvalidInput, match="outside the public support"):
        factors.values(P, np.full(3, 1 / 3), r)
    with pytest.raises(InvalidInput, match="transitions must be at least 0"):
        factors.values(2 * P, start, r)
    with pytest.raises(InvalidInput, match="rewards must have shape"):
        factors.values(P, start, r[:2])
    with pytest.raises(InvalidInput, match=r"classes must lie in 0\.\.242"):
        factors.decode([-1, 3])
    with pytest.raises(InvalidInput, match=r"actions must lie in 0\.\.2"):
        factors.encode(np.full((3, 3), 3))
    with pytest.raises(InvalidInput, match="step must lie"):
        factors.prefix_occupancies(P, start, 3)
    with pytest.raises(InvalidInput, match="active must be a mask"):
        factors.best(np.zeros(243), np.ones(3, dtype=np.bool_))
    with pytest.raises(InvalidInput, match="a state at every step"):
        PolicyFactors(np.array([[True], [False]]), 2)
