"""Messages that are added up (SDP-PE): how often one proves a bit, and a delta that holds if there are many noise bits.

Both are compared with all bags of small crowds. The probabilities in the errata are pinned.
"""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import combinations_with_replacement, product
from pathlib import Path

import numpy as np
import pytest

from discreet.base.shape import Shape
from discreet.papers import PUBLISHED, integer_message_bound, integer_message_delta, shuffle_noise_bits
from discreet.papers.published_mechanism import Setting
from discreet.papers.sdp_pe import batch_sizes

ERRATA = (Path(__file__).parents[2] / "docs" / "errata.md").read_text()
BANDIT, RIVER = shuffle_noise_bits(1, 1, 20, 1.0, 1e-5), shuffle_noise_bits(6, 4, 2, 1.0, 1e-5)
ENTRY = PUBLISHED["published/sdp-pe-integer-messages"]


@pytest.mark.parametrize(("tau", "users"), [(6, 2), (4, 4), (2, 4)])
def test_integer_messages_give_away_what_enumeration_says(tau, users):
    """Users up to the noise bits, and more of them: all coins of everybody."""
    m = max(1, math.ceil(tau / users))
    p = 0.5 if users <= tau else tau / (2 * users)
    proof = 0.0
    for coins in product((0, 1), repeat=m * users):
        probability = math.prod(p if coin else 1 - p for coin in coins)
        sums = [sum(coins[i * m : (i + 1) * m]) for i in range(users)]
        proof += probability * (sums[0] + 1 > m)  # nobody without the bit can send m + 1
    assert integer_message_delta(tau, users) == pytest.approx(proof)
    if users <= tau:
        assert proof == 2.0 ** -math.ceil(tau / users)


def bags(bits: tuple[int, ...], m: int) -> dict[tuple[int, ...], float]:
    """The law of the bag of messages of users with these bits and m fair noise bits each, user by user."""
    law = {(): 1.0}
    for bit in bits:
        after: dict[tuple[int, ...], float] = defaultdict(float)
        for bag, probability in law.items():
            for noise in range(m + 1):
                after[tuple(sorted((*bag, bit + noise)))] += probability * math.comb(m, noise) / 2**m
        law = after
    return law


def delta_in(crowd: tuple[int, ...], m: int, epsilon: float) -> float:
    """The delta of a user in this crowd, in both directions: her bit is one, or zero."""
    one, zero = bags((1, *crowd), m), bags((0, *crowd), m)
    return max(
        sum(max(0.0, mass - math.exp(epsilon) * q.get(bag, 0.0)) for bag, mass in p.items())
        for p, q in ((one, zero), (zero, one))
    )


def exact_delta(m: int, users: int, epsilon: float) -> float:
    """The largest delta over all crowds."""
    return max(delta_in(crowd, m, epsilon) for crowd in combinations_with_replacement((0, 1), users - 1))


@pytest.mark.parametrize(("m", "users"), [(1, 3), (1, 5), (2, 4), (4, 5), (6, 4)])
def test_any_crowd_hides_a_user_at_least_as_well_as_half_of_it_alike(m, users):
    """The step by which the bound needs crowds of one kind only."""
    for epsilon in (0.1, 0.5, 1.5):
        half = delta_in((0,) * math.ceil((users - 1) / 2), m, epsilon)
        assert exact_delta(m, users, epsilon) <= half * (1 + 1e-12)
        assert delta_in((1,) * math.ceil((users - 1) / 2), m, epsilon) == pytest.approx(half)
    # Twice the crowd hides more: the comparison can fail.
    assert exact_delta(2, 3, 0.1) > delta_in((0,) * 4, 2, 0.1)


@pytest.mark.parametrize(("m", "users", "epsilon"), [(2, 4, 1.0), (4, 4, 1.5), (8, 3, 2.0), (20, 3, 2.0), (30, 2, 2.0)])
def test_the_truth_lies_between_the_two_bounds(m, users, epsilon):
    exact, tau = exact_delta(m, users, epsilon), float(m * users)
    assert integer_message_delta(tau, users) <= exact * (1 + 1e-12)
    bound = integer_message_bound(tau, users, 1, epsilon)
    assert exact <= bound
    if m >= 20:
        assert bound < 0.5  # so that there is something to get wrong


def test_a_bound_for_more_noise_than_there_is_would_be_found():
    """The bound of another mechanism, with more noise, is below the truth of this one: the comparison can fail."""
    exact = exact_delta(12, 4, 1.0)
    assert exact <= integer_message_bound(48.0, 4, 1, 1.0)
    assert exact > integer_message_bound(48.0 * 16, 4, 1, 1.0)  # sixteen times the noise: another mechanism


def test_the_paper_s_own_sizes():
    assert (math.floor(BANDIT), math.ceil(RIVER)) == (13_134, 500_068)
    assert integer_message_delta(BANDIT, 1024, 3) == pytest.approx(3.7e-4, rel=0.02)
    assert integer_message_delta(BANDIT, 4096, 3) == pytest.approx(0.176, abs=5e-4)
    assert integer_message_delta(BANDIT, 8192, 3) == pytest.approx(0.578, abs=5e-4)
    assert integer_message_delta(BANDIT, 20_000) == pytest.approx(13_134 / 40_000, rel=1e-4)
    for users in (1, 64, 4096, 5144, 18_500, 20_000):
        assert integer_message_bound(RIVER, users, 36, 1.0) <= 5.42e-7
    assert integer_message_bound(RIVER, 20_000, 36, 1.0) > 18 * 2.0**-26
    assert integer_message_bound(BANDIT, 13_135, 6, 1.0) == 1.0  # more users than noise bits: nothing is proved


def test_batches_follow_the_schedule():
    assert batch_sizes(20_000) == (*(2 ** (b + 1) for b in range(1, 12)), 5144)
    for users in (1, 2, 3, 6, 7, 100, 20_000, 24_570):
        sizes = batch_sizes(users)
        assert users < 3 or users - 2 <= sum(3 * n // 2 for n in sizes) <= users
    assert max(batch_sizes(24_570)) == 8192


PROOFS = ERRATA.partition("| users n | bits each at 0.9 |")[2].partition("\n\n")[0].splitlines()[2:]


@pytest.mark.parametrize("row", PROOFS)
def test_a_row_of_proofs(row):
    """At epsilon 0.9, where Lemma 10 is proved, and at 1, where the experiments are."""
    users, *cells = (cell.strip().replace(",", "") for cell in row.strip("|").split("|"))
    for epsilon, (bits, one, three) in zip((0.9, 1.0), (cells[:3], cells[3:]), strict=True):
        tau = shuffle_noise_bits(1, 1, 20, epsilon, 1e-5)
        assert max(1, math.ceil(tau / int(users))) == int(bits)
        assert f"{integer_message_delta(tau, int(users)):.2g}" == one
        assert f"{integer_message_delta(tau, int(users), 3):.2g}" == three


def test_the_rows_of_proofs_are_there():
    assert len(PROOFS) >= 4
    for H, S, A, epsilon in ((6, 4, 2, 0.9), (1, 1, 20, 0.9), (1, 1, 20, 1.0)):
        tau = shuffle_noise_bits(H, S, A, epsilon, 1e-5)
        assert f"{tau:,.0f}" in ERRATA or f"{math.ceil(tau):,}" in ERRATA
    river = shuffle_noise_bits(6, 4, 2, 0.9, 1e-5)
    assert "at most 2.4e-08 for any crowd" in ERRATA.replace("\n", " ")
    assert all(integer_message_bound(river, users, 36, 0.9) <= 2.4e-8 for users in (1, 64, 4096, 5144, 20_000))


def test_rows_at_epsilon_one_are_outside_of_what_is_proved():
    """Lemma 10 is for epsilon below one; so is every statement of that paper."""
    rows = [line for line in ERRATA.splitlines() if line.startswith("| [`published/sdp-pe")]
    assert len(rows) >= 7
    for row in rows:
        assert ("outside of what is proved" in row) == ("eps=1 " in row)


def test_whether_it_holds_is_computed_from_the_users_and_the_noise():
    holds = Setting(Shape(4, 2, 6), 20_000, 1.0, 1e-5)
    assert not ENTRY.no_bound(holds)
    truth = ENTRY.truth(Shape(4, 2, 6), epsilon=1.0, delta=1e-5)
    assert truth.delta_at(1.0) < 1e-8
    assert "(true)" in truth.explain()
    for users, private in ((200, True), (20_000, False)):
        truth = ENTRY.truth(Shape(1, 20, 1), epsilon=1.0, delta=1e-5, episodes=users)
        assert (truth.epsilon == 1.0) == private
        assert ("NOT TRUE" in truth.explain()) != private
    # Many times the users of the paper, and RiverSwim's noise is not enough either.
    assert "proves the bit" in ENTRY.no_bound(Setting(Shape(4, 2, 6), 10**6, 1.0, 1e-5))
    assert np.isinf(ENTRY.truth(Shape(4, 2, 6), epsilon=1.0, delta=1e-5, episodes=10**6).epsilon)
