"""Forest, machine repair, admission and inventory: optimal values by plain recursions over what the docstrings say."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from discreet.base.errors import InvalidInput
from discreet.simulation.simulate import simulate
from discreet.worlds import admission, forest, inventory, machine_repair, make_world


@pytest.mark.parametrize(("ages", "horizon", "fire"), [(5, 20, 0.1), (3, 9, 0.4), (2, 4, 0.0)])
def test_forest_by_recursion(ages, horizon, fire):
    @cache
    def best(age: int, left: int) -> float:
        if left == 0:
            return 0.0
        old = age == ages - 1
        wait = 1.0 * old + (1 - fire) * best(min(age + 1, ages - 1), left - 1) + fire * best(0, left - 1)
        cut = (0.5 if old else 0.25 * (age > 0)) + best(0, left - 1)
        return max(wait, cut)

    assert forest(ages, horizon, fire).optimal_value == pytest.approx(best(0, horizon), rel=1e-12)


@pytest.mark.parametrize(("conditions", "horizon", "wear"), [(4, 20, 0.3), (7, 11, 0.6)])
def test_machine_repair_by_recursion(conditions, horizon, wear):
    @cache
    def best(worn: int, left: int) -> float:
        if left == 0:
            return 0.0
        after = wear * best(min(worn + 1, conditions - 1), left - 1) + (1 - wear) * best(worn, left - 1)
        return max(1 - worn / (conditions - 1) + after, best(0, left - 1))

    world = machine_repair(conditions, horizon, wear)
    assert world.optimal_value == pytest.approx(best(0, horizon), rel=1e-12)


@pytest.mark.parametrize(
    ("capacity", "horizon", "arrival", "service", "fee"), [(5, 20, 0.7, 0.5, 0.5), (2, 9, 0.3, 0.8, 0.1)]
)
def test_admission_by_recursion(capacity, horizon, arrival, service, fee):
    @cache
    def next_step(inside: int, left: int) -> float:
        served = service if inside else 0.0
        return sum(
            p_left * p_door * best(inside - gone, door, left)
            for gone, p_left in ((1, served), (0, 1 - served))
            for door, p_door in ((1, arrival), (0, 1 - arrival))
            if p_left
        )

    @cache
    def best(inside: int, door: int, left: int) -> float:
        if left == 0:
            return 0.0
        comfort = (1 - fee) * (capacity - inside) / capacity
        choices = [comfort + next_step(inside, left - 1)]
        if door and inside < capacity:
            choices.append(comfort + fee + next_step(inside + 1, left - 1))
        return max(choices)

    world = admission(capacity, horizon, arrival, service, fee)
    assert world.optimal_value == pytest.approx(best(0, 0, horizon), rel=1e-12)


def test_admission_is_a_threshold_that_depends_on_the_queue():
    _, best = admission().optimal()
    admits = np.array(best.actions[0])[1::2]  # somebody is at the door
    assert admits[0] == 1
    assert admits[-2] == 0
    assert (np.diff(admits) <= 0).all()


def test_inventory_has_the_expected_profits_of_the_book():
    """Puterman (1994), section 3.2.2: expected profits of ordering a at stock s, where both fit."""
    book = {
        (0, 0): 0,
        (0, 1): -1,
        (0, 2): -2,
        (0, 3): -5,
        (1, 0): 5,
        (1, 1): 0,
        (1, 2): -3,
        (2, 0): 6,
        (2, 1): -1,
        (3, 0): 5,
    }
    world = inventory()
    # The least profit is that of three ordered and none sold, -13; the largest that of two in stock and sold, 14.
    for (stock, ordered), profit in book.items():
        assert world.means[0, stock, ordered] * 27 - 13 == pytest.approx(profit, abs=1e-12)
    np.testing.assert_allclose(world.transitions[0, 1, 1], [0.25, 0.5, 0.25, 0])
    np.testing.assert_array_equal(world.transitions[0, 3, 0], world.transitions[0, 3, 3])  # nothing fits


@pytest.mark.parametrize(
    ("capacity", "horizon", "demand"), [(3, 12, (0.25, 0.5, 0.25)), (5, 6, (0.1, 0.2, 0.3, 0.2, 0.1, 0.1))]
)
def test_inventory_by_recursion(capacity, horizon, demand):
    def profit(stock: int, ordered: int, wanted: int) -> float:
        return 8 * min(wanted, stock + ordered) - (4 + 2 * ordered) * (ordered > 0) - (stock + ordered)

    possible = [
        profit(s, a, d) for s in range(capacity + 1) for a in range(capacity + 1 - s) for d in range(len(demand))
    ]
    low, high = min(possible), max(possible)

    @cache
    def best(stock: int, left: int) -> float:
        if left == 0:
            return 0.0
        return max(
            sum(
                p * ((profit(stock, a, d) - low) / (high - low) + best(max(stock + a - d, 0), left - 1))
                for d, p in enumerate(demand)
            )
            for a in range(capacity + 1 - stock)
        )

    assert inventory(capacity, horizon, demand).optimal_value == pytest.approx(best(0, horizon), rel=1e-12)


@pytest.mark.parametrize("name", ["forest", "machine-repair", "admission", "inventory"])
def test_they_can_be_simulated_by_name(name):
    result = simulate(make_world(name, horizon="5"), "ucbvi", episodes=50, seed=1)
    assert result.regret[0, -1] > 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: forest(ages=1), "at least 2, got 1"),
        (lambda: forest(fire=1.5), "fire must lie between 0 and 1"),
        (lambda: forest(stand=4), "stand must lie between 0 and 1, got 4"),
        (lambda: machine_repair(wear=-0.5), "wear"),
        (lambda: admission(capacity=0), "capacity"),
        (lambda: admission(fee=2), "fee must lie between 0 and 1"),
        (lambda: inventory(demand="0.5,0.4"), "demand"),
        (lambda: inventory(price=-1), "price"),
        (lambda: inventory(price=0, order=0, unit=0, holding=0), "all profits are equal"),
    ],
)
def test_bad_inputs_are_refused(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()
