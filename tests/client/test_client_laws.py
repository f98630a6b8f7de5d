"""Laws on the device: what is sent has exactly the stated probabilities, and laws that show more are refused."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
import toy_study as toy
from scipy import stats

from discreet.client.errors import Refused
from discreet.client.exact import WHOLE, Tape
from discreet.client.laws import Law, check_law, exp_down, keeps, read_law
from discreet.client.reports import pick, read_round, report_of

FALSE_ALARM = 1e-9
REPORTS = 20_000


@pytest.mark.parametrize("response", ["kary", "unary"])
@pytest.mark.parametrize(("epsilon", "steps"), [(0.1, 1), (1.0, 1), (4.0, 1), (4.0, 3), (30.0, 2)])
@pytest.mark.parametrize("items", [2, 7, 49, 10**6])
def test_the_smallest_threshold_that_is_accepted_is_the_exact_one(response, epsilon, steps, items):
    mpmath.mp.dps = 80
    odds = mpmath.exp(mpmath.mpf(epsilon) / steps)
    wanted = int(mpmath.ceil(WHOLE / (odds + (items - 1 if response == "kary" else 1))))
    assert keeps(Law(items, wanted), response, Fraction(epsilon) / steps)
    assert not keeps(Law(items, wanted - 1), response, Fraction(epsilon) / steps)


@pytest.mark.parametrize("response", ["kary", "unary"])
def test_the_thresholds_of_the_server_keep_what_they_are_for_and_not_a_little_less(response):
    for epsilon in (0.01, 0.5, 1.0, 2.0, 4.0, 12.0):
        for items in (2, 3, 16, 48, 101):
            law = Law(items, toy.LAWS[response](epsilon, items).threshold)
            check_law(law, response, Fraction(epsilon))
            with pytest.raises(Refused, match="does not keep"):
                check_law(law, response, Fraction(epsilon * (1 - 1e-9)))


def test_senseless_laws_are_refused():
    for law in (Law(4, 0), Law(4, WHOLE // 4 + 1), Law(4, WHOLE)):
        assert not keeps(law, "kary", Fraction(50))
    assert not keeps(Law(4, WHOLE // 2 + 1), "unary", Fraction(50))
    for lie in ("-1", "1.5", "", "01", "٣", "1" * 20, 7, None):
        with pytest.raises(Refused):
            read_law({"items": 4, "lie": lie})
    for items in (1, 0, -3, 2.0, True):
        with pytest.raises(Refused):
            read_law({"items": items, "lie": "5"})


def test_the_exponential_is_rounded_down():
    mpmath.mp.dps = 100
    for x in (Fraction(0), Fraction(1, 3), Fraction(1), Fraction(4), Fraction(699), Fraction(10**9)):
        below = mpmath.mpf(exp_down(x).numerator) / exp_down(x).denominator
        assert below <= mpmath.exp(min(x, 10**4))
        assert x > 700 or below > mpmath.exp(x) * (1 - mpmath.mpf(10) ** -50)


def setting(response: str, epsilon: float):
    """A study, a round and a record. With k-ary reports its middle reward is no bit; with one it would be shared by the
    bits of two items, which then were not independent."""
    declared = toy.declaration(3, 2, 3, start=0, rewards=(-1.0, 1.0), epsilon=epsilon)
    study = toy.read(toy.study_answer(declared, response))
    middle = -0.4 if response == "kary" else 1.0
    policy = {"kind": "deterministic", "actions": [[0, 1, 0], [1, 1, 0], [0, 0, 1]]}
    return study, read_round(toy.policy_answer(study, policy), study), [(0, 0, 1.0), (1, 1, middle), (2, 1, -1.0)]


def law_of(study, round_, record, step: int, response: str) -> np.ndarray:
    """The exact chance of each item of a step: of being reported (k-ary), or of a one (unary)."""
    law, items = round_.laws[step], round_.questions[step]
    lie = law.threshold / WHOLE
    truth = 1 - (law.items - 1) * lie if response == "kary" else 0.5
    state, action, reward = record[step]
    successor = record[step + 1][0] if step + 1 < len(record) else study.states
    chance = np.full(law.items, lie)
    low, high = study.rewards
    for bit in (0, 1):
        share = (reward - low) / (high - low) if bit else (high - reward) / (high - low)
        chance[items.number((0, state, action), successor, bit)] += share * (truth - lie)
    return chance


def p_value(response: str, stated: float, sent: float) -> float:
    """The p-value of reports that are sent by the law of one epsilon, under the law of another."""
    study, round_, record = setting(response, sent)
    twin, its_round, _ = setting(response, stated)
    tape = Tape()
    sizes = [law.items for law in round_.laws]
    counts, asked = [np.zeros(size) for size in sizes], np.zeros(len(sizes))
    for _ in range(REPORTS):
        report = report_of(study, round_, pick(study, round_, tape), record, tape)
        step = report["steps"][0]
        asked[step] += 1
        if response == "kary":
            counts[step][report["items"][0]] += 1
        else:
            counts[step] += np.frombuffer(report["bits"][0].encode(), np.uint8) - 48
    expected = REPORTS / len(sizes)
    statistic, freedom = float(((asked - expected) ** 2 / expected).sum()), len(sizes) - 1
    for step, seen in enumerate(counts):
        chance = law_of(twin, its_round, record, step, response)
        mean = asked[step] * chance
        spread = mean if response == "kary" else mean * (1 - chance)
        statistic += float(((seen - mean) ** 2 / spread).sum())
        freedom += len(seen) - (response == "kary")
    return float(stats.chi2.sf(statistic, freedom))


@pytest.mark.parametrize("response", ["kary", "unary"])
def test_reports_have_the_exact_law_and_not_that_of_half_the_epsilon(response):
    """Real entropy: one run in 10^9 is a false alarm."""
    assert p_value(response, 2.0, 2.0) > FALSE_ALARM
    assert p_value(response, 2.0, 1.0) < FALSE_ALARM
    assert p_value(response, 1.0, 2.0) < FALSE_ALARM
