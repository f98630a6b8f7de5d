"""Charging a budget: what adds up, what is refused, and that the caller's transaction decides."""

from __future__ import annotations

import math
import sqlite3
from fractions import Fraction

import pytest
from tests.ledger.conftest import ONE_CELL, gaussian, pure

from discreet import ledger
from discreet.base.errors import InvalidInput, OverBudget, Unsupported
from discreet.ledger.budget import FREE, Cost, as_number, cost_of, make_budget, rounded_down, units
from discreet.ledger.spending import fingerprint
from discreet.noise import DiscreteLaplace
from discreet.privacy.guarantee import about, compose, from_mechanism
from discreet.privacy.profiles import ZeroConcentratedProfile


def charge(connection, guarantee, name="people", **facts):
    with ledger.transaction(connection):
        return ledger.spend(connection, name, guarantee, **{"what": "a count", **facts})


def spent(connection, name="people"):
    return as_number(ledger.balance(connection, name).spent.loss)


def test_charges_add_up_and_what_would_go_over_is_refused_with_what_is_left(books):
    charge(books, pure(0.5))
    charge(books, pure(0.25))
    assert spent(books) == 0.75
    with pytest.raises(OverBudget, match=r"'people' has epsilon 0\.25 and delta 1e-06 left of epsilon 1 .* costs eps"):
        charge(books, pure(0.5))
    assert spent(books) == 0.75  # nothing of it was written
    charge(books, pure(0.25))
    with pytest.raises(OverBudget, match="has epsilon 0 and"):
        charge(books, pure(1e-9))


def test_ten_tenths_are_one(books):
    for _ in range(10):
        charge(books, pure(0.1))
    with pytest.raises(OverBudget):
        charge(books, pure(1e-6))


def test_no_charge_is_lost_beside_a_large_sum():
    """1 + 2^-60 is 1 in floating point; 2^60 such charges would all be free."""
    assert units(5e-324) == 1
    assert Cost(units(1.0), 0).plus(Cost(units(2.0**-60), 0)) > Cost(units(1.0), 0)
    for value in (0.1, 1 / 3, 1e-30, 12345.678, 1e-300):
        assert Fraction(units(value), 2**128) >= Fraction(value)
        assert as_number(units(value)) >= value
    assert float(rounded_down(units(0.12349))) == 0.1234


def test_the_deltas_of_releases_add_up(books):
    charge(books, gaussian(40.0, 6e-7))
    with pytest.raises(OverBudget, match="delta 4e-07 left"):
        charge(books, gaussian(40.0, 6e-7))


def test_a_release_outside_a_transaction_is_refused(books):
    with pytest.raises(InvalidInput, match="begin one first"):
        ledger.spend(books, "people", pure(0.1), what="x")


def test_the_callers_transaction_decides(tmp_path):
    """A study keeps its ledger in its own database: what it rolls back was not spent."""
    connection = sqlite3.connect(tmp_path / "study.db", isolation_level=None)
    connection.execute("CREATE TABLE rounds (number INTEGER)")
    connection.execute("BEGIN IMMEDIATE")
    ledger.create(connection)
    ledger.open_data_set(connection, "study", make_budget(epsilon=1.0))
    connection.execute("COMMIT")
    for end, rounds in (("ROLLBACK", 0), ("COMMIT", 1)):
        connection.execute("BEGIN IMMEDIATE")
        ledger.spend(connection, "study", pure(0.5), what="round 1")
        connection.execute("INSERT INTO rounds VALUES (1)")
        connection.execute(end)
        assert connection.execute("SELECT count(*) FROM rounds").fetchone()[0] == rounds
        assert spent(connection, "study") == 0.5 * rounds
    assert ledger.verify(connection).sound


def test_a_budget_is_declared_once_and_names_are_looked_up(books):
    with pytest.raises(InvalidInput, match="declared once"), ledger.transaction(books):
        ledger.open_data_set(books, "people", make_budget(epsilon=5.0))
    with pytest.raises(InvalidInput, match="did you mean people"):
        charge(books, pure(0.1), name="poeple")
    for name in ("", " ", "a\nb", "x" * 300, 7):
        with pytest.raises(InvalidInput, match="a data set is named by"), ledger.transaction(books):
            ledger.open_data_set(books, name, make_budget(epsilon=5.0))


def test_simulated_noise_is_not_charged(books):
    with pytest.raises(Unsupported, match="simulated noise protects nobody"):
        charge(books, from_mechanism(DiscreteLaplace(2.0), ONE_CELL, delta=0.0, name="x"))


def test_charges_of_one_data_set_are_about_the_same_users(books):
    charge(books, pure(0.1), who="patient")
    with pytest.raises(Unsupported, match=r"about who 'patient' since the first one, and this one is about 'visit'"):
        charge(books, pure(0.1), who="visit")


def test_charges_of_one_data_set_have_one_unit(books):
    """Nobody knows how many of the other unit a person is; with a column of users all that is hers counts together."""
    charge(books, pure(0.1))
    for other in ("all reports of a participant, at most 2", "one user = up to 3 whole trajectories"):
        with pytest.raises(Unsupported, match="about unit 'one user = one whole trajectory' since the first one"):
            charge(books, about(pure(0.1), unit=other))
    with ledger.transaction(books):
        ledger.open_data_set(books, "table", make_budget(epsilon=1.0))
    charge(books, pure(0.1), name="table", who="patient")
    charge(books, about(pure(0.1), unit="one user = up to 3 whole trajectories"), name="table", who="patient")
    with pytest.raises(Unsupported, match="about unit 'one user' since"):
        charge(books, about(pure(0.1), unit="all reports of a participant, at most 2"), name="table", who="patient")


def test_a_declared_data_set_refuses_other_declarations(books):
    with ledger.transaction(books):
        ledger.open_data_set(books, "fixed", make_budget(epsilon=1.0), declaration="aa" * 32)
    charge(books, pure(0.1), name="fixed", declaration="aa" * 32)
    with pytest.raises(InvalidInput, match="not the same data set"):
        charge(books, pure(0.1), name="fixed", declaration="bb" * 32)


def test_a_request_is_paid_once(books):
    charge(books, pure(0.1), request="r")
    with pytest.raises(InvalidInput, match="was paid before"):
        charge(books, pure(0.1), request="r")
    with pytest.raises(sqlite3.IntegrityError), ledger.transaction(books):
        ledger.spend_all(books, "people", [ledger.Charge(pure(0.1), "x", request=name) for name in ("s", "r")])
    assert spent(books) == pytest.approx(0.1)


def test_rho_adds_up_and_an_epsilon_can_be_turned_into_rho(books):
    with ledger.transaction(books):
        ledger.open_data_set(books, "zcdp", make_budget(rho=0.5))
    charge(books, gaussian(2.0, 0.0), name="zcdp")  # rho = 1 / (2 sigma^2)
    assert spent(books, "zcdp") == 0.125
    charge(books, pure(0.5), name="zcdp")
    assert spent(books, "zcdp") == 0.25
    with pytest.raises(OverBudget, match=r"rho 0\.25 left of rho 0\.5"):
        charge(books, pure(1.0), name="zcdp")
    turned = make_budget(epsilon=1.0, delta=1e-6, mode="zcdp")
    rho = as_number(turned.limit.loss)
    assert ZeroConcentratedProfile(rho).epsilon(5e-7) <= 1.0
    assert ZeroConcentratedProfile(rho * 1.001).epsilon(5e-7) > 1.0
    assert turned.limit.delta == units(5e-7)


def test_a_release_without_epsilon_needs_a_budget_in_rho(books):
    with pytest.raises(Unsupported, match="open a budget in rho"):
        charge(books, gaussian(2.0, 0.0))


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ({}, "give one of them"),
        ({"epsilon": 1.0, "rho": 1.0}, "give one of them"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": math.inf}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"epsilon": 1e9}, "at most"),
        ({"epsilon": 1.0, "delta": 1.0}, "delta"),
        ({"epsilon": 1.0, "mode": "zcdp"}, "needs a delta"),
        ({"rho": 1.0, "mode": "sum"}, "mode zcdp"),
        ({"epsilon": 1.0, "mode": "exact"}, "choose one of"),
    ],
)
def test_budgets_that_make_no_sense_are_refused(stated, message):
    with pytest.raises(InvalidInput, match=message):
        make_budget(**stated)


def test_a_plan_is_composed_exactly_and_its_parts_are_free(books):
    parts = [gaussian(40.0, 1e-8)] * 4 + [pure(0.02)]
    with ledger.transaction(books):
        entry = ledger.declare_plan(books, "people", "yearly", parts, delta=1e-7)
    exact = compose(parts, delta=1e-7, why="").epsilon
    assert spent(books) == pytest.approx(exact, rel=1e-12)
    assert exact < 0.8 * sum(part.epsilon for part in parts)  # what composition is worth
    for part in parts:
        assert charge(books, part, plan="yearly").number > entry.number
    assert spent(books) == pytest.approx(exact, rel=1e-12)
    for part, plan, message in (
        (parts[0], "yearly", "no part left"),
        (pure(0.9), "yearly", "no part left"),
        (parts[0], "monthly", "has no plan"),
    ):
        with pytest.raises(InvalidInput, match=message):
            charge(books, part, plan=plan)
    with pytest.raises(InvalidInput, match="declared once"), ledger.transaction(books):
        ledger.declare_plan(books, "people", "yearly", parts)
    assert ledger.verify(books).sound


def test_a_part_of_a_plan_has_the_noise_that_was_declared_to_the_last_digit(books):
    """Lines for people show six digits of a scale, and more was paid for than those."""
    declared, less = gaussian(10.000004, 1e-7), gaussian(9.999996, 1e-7)
    assert declared.derivation.lines()[1:] == less.derivation.lines()[1:]
    with ledger.transaction(books):
        ledger.declare_plan(books, "people", "weekly", [declared])
    with pytest.raises(InvalidInput, match="no part left"), ledger.transaction(books):
        ledger.spend(books, "people", less, what="week 1", plan="weekly")
    with ledger.transaction(books):
        assert ledger.spend(books, "people", declared, what="week 1", plan="weekly").number == 2


def test_a_plan_of_pure_releases_costs_no_more_than_its_sum(books):
    with ledger.transaction(books):
        ledger.declare_plan(books, "people", "two", [pure(0.25), pure(0.25)])
    assert spent(books) == 0.5


def test_rounds_of_different_users_are_charged_once_for_as_many_as_a_user_is_in(books):
    part = pure(0.25)
    with ledger.transaction(books):
        ledger.declare_rounds(books, "people", "rounds", part, most=2)
    assert spent(books) == 0.5
    for number in range(5):
        charge(books, part, plan="rounds", what=f"round {number}", release=b"sums")
    assert spent(books) == 0.5
    with pytest.raises(InvalidInput, match="another promise"):
        charge(books, pure(0.1), plan="rounds")
    with pytest.raises(InvalidInput, match="declared once"), ledger.transaction(books):
        ledger.declare_rounds(books, "people", "rounds", part)
    with pytest.raises(OverBudget), ledger.transaction(books):
        ledger.declare_rounds(books, "people", "more", part, most=3)
    report = ledger.verify(books)
    assert report.sound
    assert report.entries == 7
    body = books.execute("SELECT body FROM ledger_entries WHERE number = 1").fetchone()[0]
    books.execute("UPDATE ledger_entries SET body = ? WHERE number = 1", (body.replace('"rounds"', '"round_"', 1),))
    assert not ledger.verify(books).sound


def test_what_is_charged_is_what_the_profile_says():
    assert cost_of(pure(0.3), "sum") == Cost(units(pure(0.3).epsilon), 0)
    stated = gaussian(3.0, 1e-5)
    assert cost_of(stated, "sum") == Cost(units(stated.epsilon), units(1e-5))
    assert cost_of(stated, "zcdp") == Cost(units(stated.profile.rho), 0)
    assert fingerprint(pure(0.3)) == fingerprint(pure(0.3)) != fingerprint(pure(0.4))
    assert Cost(0, 0) == FREE
