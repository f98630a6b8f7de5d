"""The checker: right about laws that can be enumerated, right about every recipe, and not to be fooled."""

from __future__ import annotations

import ast
import itertools
import json
import math
import random
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from certified import FORGERIES, TARGETS, cases, certificates, computed_epsilon, some, steps
from discreet import checker
from discreet.checker import FAILS, HOLDS, UNKNOWN
from discreet.privacy.profiles import GaussianProfile, PureProfile, ZeroConcentratedProfile

FILE = Path(checker.__file__)
TINY = Fraction(1, 10**20)


def verdict(certificate):
    """As whoever runs the file sees it: refused and unreadable are both not verified."""
    try:
        return checker.check(certificate)
    except checker.Unreadable as found:
        return checker.Verdict("unreadable", str(found))


def leaf(law, moves=(1, 1), **entries):
    """A certificate of one release."""
    up, down = moves
    cells = up + down
    return {
        "format": "discreet-certificate", "version": 2, "model": "central", "neighbours": "replace one user",
        "unit": "one user = one whole trajectory", "stated": {"epsilon": "1", "delta": "0.00001", "rho": None},
        "conditions": ["the number of users is public"], "noise": "from the operating system's entropy", "versions": {},
        "steps": {
            "kind": "mechanism", "name": "counts", "law": law,
            "moves": {
                "kind": "moves", "l1": cells, "l2": repr(math.sqrt(cells)), "linf": 1, "worst": [[1, up, down]],
                "unit": True,
            },
        },
        **entries,
    }  # fmt: skip


# --- the rules, against sums over everything that can happen ---------------------------------------------------------


def stick(p, q, epsilon):
    """The largest P - e^epsilon Q of any event."""
    return sum(max(0.0, p[x] - math.exp(epsilon) * q.get(x, 0.0)) for x in p)


def product(laws):
    """The joint law of independent ones."""
    found = {}
    for outcome in itertools.product(*(law.items() for law in laws)):
        found[tuple(x for x, _ in outcome)] = math.prod(p for _, p in outcome)
    return found


def moved(law, by):
    return {x + by: p for x, p in law.items()}


def known(law, moves):
    return checker._LAWS[law["kind"]](law, moves)


def shift(*groups, unit=True):
    l1 = sum(by * (up + down) for by, up, down in groups)
    squared = sum(by * by * (up + down) for by, up, down in groups)
    largest = max(by for by, _, _ in groups)
    return checker.Moves(Fraction(l1), Fraction(squared), Fraction(largest), groups, unit)


def close_above(found, true, rel=1e-9):
    """An upper bound that is hardly above."""
    assert true <= float(found) * (1 + 1e-9) + 1e-20  # what is left out of the sums over everything
    assert float(found) <= true * (1 + rel) + 1e-13


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.1])
@pytest.mark.parametrize("scale", [0.7, 2.5])
def test_discrete_laplace_noise_is_exact_for_unit_shifts(scale, epsilon):
    t = math.exp(-1 / scale)
    law = {x: (1 - t) / (1 + t) * t ** abs(x) for x in range(-150, 151)}
    p, q = product([law, law]), product([moved(law, 1), moved(law, -1)])
    bound = known({"kind": "discrete-laplace", "scale": str(scale)}, shift((1, 1, 1)))
    close_above(bound.delta(Fraction(epsilon), TINY), stick(p, q, epsilon), 1e-7)
    assert bound.pure == 2 / Fraction(str(scale))


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("sigma", [0.6, 1.7, 3.1, 4.0])
def test_discrete_gaussian_noise_is_exact_for_unit_shifts(sigma, epsilon):
    weights = {x: math.exp(-x * x / (2 * sigma * sigma)) for x in range(-60, 61)}
    total = sum(weights.values())
    law = {x: w / total for x, w in weights.items()}
    p, q = product([law, law]), product([moved(law, 1), moved(law, -1)])
    bound = known({"kind": "discrete-gaussian", "sigma": repr(sigma)}, shift((1, 1, 1)))
    close_above(bound.delta(Fraction(epsilon), TINY), stick(p, q, epsilon))


@pytest.mark.parametrize(("sigma", "by"), [(3.1, 1), (4.0, 2), (8.0, 3)])
def test_a_discrete_gaussian_is_at_least_as_private_as_the_smoothed_one(sigma, by):
    """For any shift; and not much more private, so that the rule is worth having."""
    weights = {x: math.exp(-x * x / (2 * sigma * sigma)) for x in range(-100, 101)}
    total = sum(weights.values())
    law = {x: w / total for x, w in weights.items()}
    bound = known({"kind": "discrete-gaussian", "sigma": repr(sigma)}, shift((by, 1, 0), unit=False))
    assert bound.lattice is None
    for epsilon in (0.1, 0.7, 1.5):
        true = stick(law, moved(law, by), epsilon)
        assert true <= float(bound.delta(Fraction(epsilon), TINY)) <= 8 * true


@pytest.mark.parametrize("up", [0, 1, 2])
@pytest.mark.parametrize(("trials", "p"), [(9, Fraction(1, 2)), (14, Fraction(1, 5))])
def test_binomial_noise_in_both_directions(trials, p, up):
    law = {x: math.comb(trials, x) * float(p) ** x * float(1 - p) ** (trials - x) for x in range(trials + 1)}
    ways = [1] * up + [-1] * (2 - up)
    joint, other = product([law, law]), product([moved(law, by) for by in ways])
    bound = known({"kind": "binomial-noise", "trials": trials, "p": str(p)}, shift((1, up, 2 - up)))
    for epsilon in (0.2, 0.9, 2.0):
        true = max(stick(joint, other, epsilon), stick(other, joint, epsilon))
        close_above(bound.delta(Fraction(epsilon), TINY), true, 3e-4)


@pytest.mark.parametrize("cells", [1, 2])
def test_of_two_releases_one_may_rise_while_the_other_falls(cells):
    """Two releases whose directions differ: the worst of all four ways, which is neither both up nor both down."""
    trials, p = 3, Fraction(9, 20)
    law = {x: math.comb(trials, x) * float(p) ** x * float(1 - p) ** (trials - x) for x in range(trials + 1)}
    one = known({"kind": "binomial-noise", "trials": trials, "p": str(p)}, shift((1, cells, 0)))
    both = checker.composed([one, one])
    joint, worst = product([law] * 2 * cells), {}
    for epsilon in (0.4, 0.7):
        for signs in itertools.product((1, -1), repeat=2):
            other = product([moved(law, by) for by in signs for _ in range(cells)])
            worst[signs] = max(stick(joint, other, epsilon), stick(other, joint, epsilon))
        close_above(both.delta(Fraction(epsilon), TINY), max(worst.values()), 3e-4)
    if cells == 1:
        assert worst[1, -1] > 1.04 * worst[1, 1]
    assert not both.exact  # that she can move both ways at once is not known, so a miss proves nothing
    with pytest.raises(checker.Unknown, match="directions differ"):
        checker.composed([one] * 7).delta(Fraction(1), TINY)


@pytest.mark.parametrize(("others", "bits"), [(5, 1), (8, 2), (90, 1)])
def test_answered_bits_are_hidden_by_the_least_helpful_crowd(others, bits):
    lie = Fraction(1, 4)
    bound = checker._answered_bits(
        {"kind": "answered-bits", "lie": f"{lie.numerator}/{lie.denominator}", "bits": bits, "others": others}
    )
    for epsilon in (0.1, 0.4):
        worst = 0.0
        for ones in range(others + 1):
            hidden = {0: 1.0}
            for chance in [0.25] * (others - ones) + [0.75] * ones:
                after = {}
                for x, p in hidden.items():
                    after[x] = after.get(x, 0.0) + p * (1 - chance)
                    after[x + 1] = after.get(x + 1, 0.0) + p * chance
                hidden = after
            one = {x: 0.75 * hidden.get(x - 1, 0.0) + 0.25 * hidden.get(x, 0.0) for x in range(others + 2)}
            zero = {x: 0.25 * hidden.get(x - 1, 0.0) + 0.75 * hidden.get(x, 0.0) for x in range(others + 2)}
            for p, q in ((one, zero), (zero, one)):
                worst = max(worst, stick(product([p] * bits), product([q] * bits), epsilon))
        found = float(bound.delta(Fraction(epsilon), TINY))
        # One crowd for all bits is a lower bound; crowds are told apart in ranges where they are many.
        assert worst * (1 - 1e-9) <= found <= worst * (1.001 if bits == 1 and others < 79 else 1.08)


def test_the_crowd_of_a_range_is_no_more_private_than_any_in_it(monkeypatch):
    """Fewer ranges can only raise the bound."""
    message = {"kind": "answered-bits", "lie": "1/5", "bits": 3, "others": 200}
    exact = checker._answered_bits(message).delta(Fraction(1, 2), TINY)
    monkeypatch.setattr(checker, "_RANGES", 5)
    rough = checker._answered_bits(message).delta(Fraction(1, 2), TINY)
    assert exact < rough < 3 * exact


@pytest.mark.parametrize(("items", "others", "lie"), [(2, 4, "1/5"), (4, 3, "1/10"), (5, 2, "1/8"), (3, 0, "1/6")])
def test_shuffled_items_are_hidden_by_the_least_helpful_crowd(items, others, lie):
    """Everybody else has the same item: if it is a third one that is nearly the worst crowd, and none is worse."""
    bound, q = checker._shuffled_item({"items": items, "lie": lie, "others": others}), float(Fraction(lie))
    message = {"kind": "reports", "message": {"kind": "shuffled-item", "items": items, "lie": lie, "others": others}}

    def sent(item):
        return {x: 1 - (items - 1) * q if x == item else q for x in range(items)}

    for epsilon in (0.0, 0.3, 0.8):
        worst = 0.0
        for held in range(items):
            laws = []
            for own in (0, 1):
                found = {}
                for outcome, mass in product([sent(own), *[sent(held)] * others]).items():
                    histogram = tuple(sorted(outcome))
                    found[histogram] = found.get(histogram, 0.0) + mass
                laws.append(found)
            worst = max(worst, stick(*laws, epsilon), stick(*laws[::-1], epsilon))
        found = float(bound.delta(Fraction(epsilon), TINY))
        assert worst * (1 - 1e-9) <= found <= worst * (1.5 if items == 2 else 1.12) + 1e-3
    assert promised(step("local", message), "3", model="local").answer == FAILS  # the others are not hers
    assert promised(step("through-shuffler", message), "2.5", model="shuffle").answer == HOLDS


def test_coarser_points_of_shuffled_items_only_add(monkeypatch):
    message = {"items": 30, "lie": "1/80", "others": 300}
    exact = checker._shuffled_item(message).delta(Fraction(1), TINY)
    for name in ("_ITEM_POINTS", "_ITEM_LAWS"):
        with monkeypatch.context() as patch:
            patch.setattr(checker, name, 8)
            rough = checker._shuffled_item(message).delta(Fraction(1), TINY)
        assert exact < rough < 3 * exact
    twice = composed_of(message)
    assert twice.delta(Fraction(9, 5), TINY) > exact  # two of them are known by their largest losses only


def composed_of(message):
    part = checker._shuffled_item(message)
    return checker.composed([part, part])


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 7.0])
def test_closed_forms(epsilon):
    exact = Fraction(epsilon)
    close_above(checker.pure_delta(Fraction(5), exact), PureProfile(5.0).delta(epsilon))
    for mu in (0.02, 0.3, 4.0):
        close_above(checker.gaussian_delta(Fraction(mu) ** 2, exact), GaussianProfile(mu).delta(epsilon), 1e-8)
    for rho in (0.001, 0.2, 3.0):
        close_above(checker.concentrated_delta(Fraction(rho), exact), ZeroConcentratedProfile(rho).delta(epsilon))


def test_the_tail_of_a_gaussian_is_enclosed():
    for z in (0.0, 0.5, 3.0, 11.0, 27.0, 30.0):
        low, high = checker._tail(Fraction(z))
        assert low <= high
        true = math.erfc(z / math.sqrt(2)) / 2
        assert float(low) <= true * (1 + 1e-12)
        assert float(high) >= true * (1 - 1e-12)
        assert z > 28 or float(high - low) <= 1e-180


def test_a_threshold_is_charged_for_cells_that_appear():
    """Two cells of which one is her own, all releases enumerated."""
    b, tau = 1.5, 9
    law = {"kind": "thresholded-laplace", "scale": "1.5", "threshold": str(tau)}
    bound = known(law, shift((1, 1, 1)))
    t = math.exp(-1 / b)
    noise = {x: (1 - t) / (1 + t) * t ** abs(x) for x in range(-120, 121)}

    def released(counts):
        laws = []
        for count in counts:
            own = {}
            for x, p in noise.items():
                seen = count + x if count and count + x >= tau else None
                own[seen] = own.get(seen, 0.0) + p
            laws.append(own)
        return product(laws)

    for epsilon in (1.4, 1.6):
        worst = max(
            stick(released(a), released(b), epsilon)
            for a, b in (((1, 10), (0, 11)), ((0, 11), (1, 10)), ((1, 8), (0, 9)), ((0, 9), (1, 8)))
        )
        assert worst * (1 - 1e-12) <= float(bound.delta(Fraction(epsilon), TINY)) <= 3 * worst


def test_two_laws_together_are_their_product():
    one = known({"kind": "discrete-gaussian", "sigma": "2"}, shift((1, 1, 0)))
    two = known({"kind": "discrete-laplace", "scale": "2"}, shift((1, 0, 1)))
    both = checker.composed([one, two])
    t = math.exp(-1 / 2)
    laplace = {x: (1 - t) / (1 + t) * t ** abs(x) for x in range(-70, 71)}
    weights = {x: math.exp(-x * x / 8) for x in range(-40, 41)}
    total = sum(weights.values())
    gaussian = {x: w / total for x, w in weights.items()}
    p, q = product([gaussian, laplace]), product([moved(gaussian, 1), moved(laplace, -1)])
    for epsilon in (0.1, 0.8):
        close_above(both.delta(Fraction(epsilon), TINY), stick(p, q, epsilon))
    # The same by the grid, which is what more than two laws need.
    third = checker.composed([one, two, known({"kind": "discrete-laplace", "scale": "1000000"}, shift((1, 0, 1)))])
    assert third._by_losses(Fraction(4, 5), TINY) == pytest.approx(stick(p, q, 0.8), rel=1e-4)


# --- every recipe ----------------------------------------------------------------------------------------------------


def check_ratio(case, guarantee, certificate):
    found = checker.check(certificate)
    assert found.answer == HOLDS, (case.recipe, certificate["stated"], found.reason)
    if found.stated_epsilon is None:
        assert 0.99 <= found.rho / found.stated_rho <= 1, (case.recipe, certificate["stated"])
        return
    assert found.epsilon <= found.stated_epsilon
    epsilon = computed_epsilon(guarantee, certificate)
    share = float(found.epsilon) / epsilon
    if share < 0.99 and epsilon < guarantee.epsilon:
        # Delta hardly falls with epsilon there, so that it is the delta at one epsilon that can be compared. What the
        # library allows for its floating point sums, 1e-10 for each of a few, is part of its delta.
        at = checker.check({**certificate, "stated": {**certificate["stated"], "epsilon": repr(epsilon)}})
        share = float(at.delta + Fraction(4, 10**10)) / guarantee.delta
    assert share >= 0.99, (case.recipe, certificate["stated"], share)


@pytest.mark.parametrize("case", cases(), ids=str)
def test_what_auto_can_take_is_verified(case):
    (target,) = TARGETS[9:10] if case.model == "shuffle" else TARGETS[12:13]
    guarantee, certificate = next(certificates(case, (target, {"rho": 0.5})))
    check_ratio(case, guarantee, certificate)


@pytest.mark.long
@pytest.mark.parametrize("case", cases(), ids=str)
def test_what_auto_can_take_is_verified_at_twenty_targets(case):
    made = list(certificates(case))
    assert len(made) >= 13
    for guarantee, certificate in made:
        check_ratio(case, guarantee, certificate)


# --- forgeries -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("forge", FORGERIES, ids=lambda forge: forge.__name__)
def test_forgeries_are_refused(forge):
    chance = random.Random(1)
    fast = [one for one in some() if one["model"] != "shuffle"]
    refused = 0
    for certificate in chance.sample(fast, 6):
        forged = forge(certificate, chance)
        if forged is not None:
            assert verdict(forged).answer != HOLDS, forged
            refused += 1
    assert refused >= 2


@pytest.mark.long
def test_a_thousand_forgeries_are_refused():
    chance, refused = random.Random(2), 0
    while refused < 1000:
        certificate, forge = chance.choice(some()), FORGERIES[refused % len(FORGERIES)]
        forged = forge(certificate, chance)
        while forged is None:
            forged = forge(chance.choice(some()), chance)
        assert verdict(forged).answer != HOLDS, (forge.__name__, forged)
        refused += 1


# --- answers ---------------------------------------------------------------------------------------------------------


def test_three_answers():
    law = {"kind": "discrete-laplace", "scale": "2"}
    assert checker.check(leaf(law)).answer == HOLDS
    assert checker.check(leaf({**law, "scale": "1.9"})).answer == FAILS
    assert checker.check(leaf({"kind": "a-law-of-mars", "scale": "2"})).answer == UNKNOWN
    assert checker.check(leaf(law, model="local")).answer == FAILS
    assert checker.check(leaf(law, neighbours="add or remove one user")).answer == UNKNOWN
    assert "recomputed at most 1" in checker.check(leaf(law)).explain()
    assert checker.check(leaf(law)).as_dict()["answer"] == HOLDS


def test_of_several_mechanisms_the_worst_counts():
    good, bad = (leaf({"kind": "discrete-laplace", "scale": scale})["steps"] for scale in ("2", "1.9"))
    batches = {"kind": "shuffled", "epsilon": "1", "delta": "0.00001", "parts": 2}
    for parts, answer in (([good, good], HOLDS), ([good, bad], FAILS), ([bad, good], FAILS)):
        assert checker.check(leaf(LAPLACE, steps={"kind": "one-of", "parts": 2, "of": parts})).answer == answer
        assert checker.check(leaf(LAPLACE, steps={**batches, "of": parts}, model="shuffle")).answer == answer
    quiet = leaf({"kind": "discrete-laplace", "scale": "4"})["steps"]
    less = leaf(LAPLACE, steps={**batches, "of": [quiet, quiet]}, model="shuffle")
    assert checker.check(less).answer == HOLDS
    less["stated"]["epsilon"] = "0.8"  # true of these batches, and not of those of other sizes
    assert checker.check(less).answer == FAILS
    for kind, model, answer in (
        ("local", "local", HOLDS), ("billboard", "joint", HOLDS), ("through-shuffler", "shuffle", HOLDS),
        ("parallel", "central", HOLDS), ("local", "joint", FAILS), ("parallel", "joint", FAILS),
    ):  # fmt: skip
        assert (
            checker.check(leaf(LAPLACE, steps={"kind": kind, "parts": 1, "of": [good]}, model=model)).answer == answer
        )
    twice = {"kind": "local", "parts": 1, "of": [{"kind": "local", "parts": 1, "of": [good]}]}
    assert checker.check(leaf(LAPLACE, steps=twice, model="local")).answer == FAILS
    trusting = {"kind": "more-trust", "model": "local", "parts": 1, "of": [good]}
    assert checker.check(leaf(LAPLACE, steps=trusting, model="local")).answer == FAILS


def test_several_records_cost_more():
    part = leaf({"kind": "discrete-laplace", "scale": "6"})["steps"]
    for records, answer in ((3, HOLDS), (4, FAILS)):
        steps = {"kind": "group", "trajectories": records, "parts": 1, "of": [part]}
        stated = {"epsilon": "1", "delta": "0", "rho": None}
        assert checker.check(leaf(LAPLACE, steps=steps, stated=stated)).answer == answer


def test_norms_and_the_worst_shift_must_agree():
    """Each of them would buy more privacy from some law than there is."""
    for name, value in (("l1", "4"), ("l2", "2"), ("l1", "1.4143"), ("worst", [[1, 1, 0]]), ("worst", [[2, 1, 0]])):
        forged = leaf({"kind": "discrete-laplace", "scale": "9"})
        assert checker.check(forged).answer == HOLDS
        forged["steps"]["moves"][name] = value
        found = checker.check(forged)
        assert found.answer == FAILS, name
        assert "norm" in found.reason or "worst shift" in found.reason or "unit" in found.reason


def test_a_stated_rho_is_checked_too():
    law = {"kind": "discrete-laplace", "scale": "2"}
    assert checker.check(leaf(law, stated={"epsilon": "1", "delta": "0", "rho": "0.25"})).answer == HOLDS
    assert checker.check(leaf(law, stated={"epsilon": "1", "delta": "0", "rho": "0.249"})).answer == FAILS


LAPLACE = {"kind": "discrete-laplace", "scale": "2"}


def test_the_column_of_mixed_releases_is_computed_anew():
    """More releases, heavier weights or coarser steps than were paid for are refused."""
    (case,) = (case for case in cases() if case.recipe == "central/joint-histogram-matrix")
    certificate = next(made for _, made in certificates(case, ({"epsilon": 1.0, "delta": 1e-5},)))
    assert checker.check(certificate).answer == HOLDS
    (part,) = steps(certificate["steps"], "mechanism")
    mixed = part["mixed"]
    terms = [[shift, numerator + 40, place] for shift, numerator, place in mixed["terms"]]
    for change in ({"releases": 2 * mixed["releases"]}, {"terms": terms}, {"bits": 1}, {"own_l2": "100"}):
        part["mixed"] = {**mixed, **change}
        found = checker.check(certificate)
        assert found.answer == FAILS
        assert "mixed releases" in found.reason


# --- promises that only look as if they followed ---------------------------------------------------------------------


def step(kind, *parts, **entries):
    """A step that rests on others."""
    return {"kind": kind, "parts": len(parts), "of": list(parts), **entries}


def release(law, l1, l2, linf, **entries):
    """A release of which norms are known and no worst shift."""
    moves = {"kind": "moves", "l1": l1, "l2": l2, "linf": linf, "worst": None, "unit": False}
    return {"kind": "mechanism", "name": "counts", "law": law, "moves": moves, **entries}


def promised(steps, epsilon, delta="0.000001", rho=None, model="central"):
    """What the checker says about steps and a promise."""
    return checker.check(
        leaf(LAPLACE, steps=steps, stated={"epsilon": epsilon, "delta": delta, "rho": rho}, model=model)
    )


def test_nobody_is_hidden_by_others_while_she_answers_alone():
    """A bit that is a lie one time in four is ln 3 = 1.1 private by itself, and 0.15 among a thousand answers."""
    bits = {"kind": "reports", "message": {"kind": "answered-bits", "lie": "1/4", "bits": 1, "others": 1000}}
    alone = {"kind": "reports", "message": {"kind": "answered-bits", "lie": "1/4", "bits": 1, "others": 0}}
    assert promised(step("through-shuffler", bits), "0.3", model="shuffle").answer == HOLDS
    for crowd in (bits, step("one-of", alone, bits), step("compose", alone, bits)):
        found = promised(step("local", crowd), "3", model="local")
        assert found.answer == FAILS
        assert "by herself" in found.reason
    assert promised(step("local", alone), "1.1", model="local").answer == HOLDS
    assert promised(step("local", alone), "1.09", "0", model="local").answer == FAILS


ITEM = {"kind": "shuffled-item", "items": 4, "lie": "1/12", "others": 30}
# What a forger would write into a message of which epsilon 1 at delta 0.024 is stated, and 0.997 is true.
OTHER_ITEMS = [
    {"lie": "1/13"}, {"lie": "0"}, {"lie": "1e-300"}, {"lie": "-1/12"}, {"lie": "1/2"}, {"lie": "1/3"}, {"lie": 0.08},
    {"lie": None}, {"others": 28}, {"others": 0}, {"others": -1}, {"others": 30.0}, {"others": True}, {"others": "30"},
    {"items": 3}, {"items": 2}, {"items": 1}, {"items": 0}, {"items": 4.0}, {"kind": "sampled-items"},
    {"kind": "sampled-items", "reports": 1, "laws": [[4, "1/12"]]}, {"kind": "answered-bits", "bits": 1},
    {"kind": "bounded-reports", "reports": 1, "epsilon": "1.1"}, {"kind": "sum-of-items"}, {"kind": None},
]  # fmt: skip


def about_items(message, epsilon="1", delta="0.024"):
    """The answer about a batch of such messages, of which epsilon 1 at delta 0.024 is stated."""
    batches = step("shuffled", {"kind": "reports", "message": message}, epsilon=epsilon, delta=delta)
    stated = {"epsilon": "1", "delta": "0.024", "rho": None}
    return verdict(leaf(LAPLACE, steps=step("billboard", batches), stated=stated, model="shuffle")).answer


def test_no_other_message_passes_for_a_shuffled_item():
    assert about_items(ITEM) == HOLDS
    assert about_items(ITEM, epsilon="0.99") == about_items(ITEM, delta="0.0235") == FAILS
    for other in OTHER_ITEMS:
        assert about_items({**ITEM, **other}) != HOLDS, other


def test_of_batches_the_point_is_known_and_nothing_else():
    """The listed batches are ten times more private than what all batches keep: that proves nothing about the rest."""
    quiet = release({"kind": "laplace", "scale": "10"}, "1", "1", "1")
    batches = step("shuffled", quiet, epsilon="1", delta="0.000001")
    assert promised(batches, "1", model="shuffle").answer == HOLDS
    assert promised(batches, None, rho="0.005", model="shuffle").answer == UNKNOWN
    assert promised(batches, "1", rho="0.005", model="shuffle").answer == UNKNOWN
    twice = step("compose", batches, batches)
    assert promised(twice, "1", model="shuffle").answer == UNKNOWN
    assert promised(twice, "1.9", "0.0001", model="shuffle").answer == UNKNOWN
    assert promised(twice, "2", "0.00000201", model="shuffle").answer == HOLDS
    assert promised(step("compose", *[batches] * 3), "3.01", "0.0000031", model="shuffle").answer == HOLDS
    assert promised(step("group", batches, trajectories=5), "1", model="shuffle").answer == UNKNOWN
    pure = step("shuffled", quiet, epsilon="1", delta="0")
    assert promised(pure, None, rho="0.5", model="shuffle").answer == HOLDS
    assert promised(pure, None, rho="0.49", model="shuffle").answer == UNKNOWN
    assert promised(step("group", pure, trajectories=5), "5", "0", model="shuffle").answer == HOLDS
    loud = step("shuffled", release({"kind": "laplace", "scale": "0.5"}, "1", "1", "1"), epsilon="1", delta="0")
    assert promised(loud, None, rho="0.5", model="shuffle").answer == FAILS


def test_a_release_does_not_hide_others_below_it():
    """What a leaf lists would not be read, and would look as if it had been."""
    bits = {"kind": "reports", "message": {"kind": "answered-bits", "lie": "1/4", "bits": 1, "others": 0}}
    for part in (release({"kind": "laplace", "scale": "1"}, "1", "1", "1"), bits):
        assert promised(part, "1.1").answer == HOLDS
        assert promised({**part, "parts": 1, "of": [bits]}, "1.1").answer == FAILS
        assert promised({**part, "parts": 3}, "1.1").answer == FAILS


def test_mixed_releases_are_known_by_their_length_alone():
    """A column of many small entries is short and has a large sum: Laplace noise would pay for the sum."""
    mixed = {
        "kind": "mixed-releases", "releases": 1000, "bits": 40, "terms": [[7, 1, 1]], "own_l1": "1", "own_l2": "1",
    }  # fmt: skip
    for law in ({"kind": "laplace", "scale": "100"}, {"kind": "k-norm", "scale": "100", "dimension": 1000}):
        assert promised(release(law, "6", "6", "6", mixed=mixed), "0.06", "0").answer == UNKNOWN
    fine, coarse = ({"kind": "grid-gaussian", "sigma": "10000", "bits": bits} for bits in (40, 39))
    assert promised(release(fine, "6", "6", "6", mixed=mixed), "0.01").answer == HOLDS
    assert promised(release(coarse, "6", "6", "6", mixed=mixed), "0.01").answer == FAILS
    for norms in ({"own_l1": "0"}, {"own_l1": "0.9"}, {"own_l1": "0.5", "own_l2": "0.5"}):
        assert promised(release(fine, "6", "6", "6", mixed=mixed | norms), "0.01").answer == FAILS


def test_one_cell_in_each_of_ten_tables_is_not_one_table():
    """Each of ten tables with noise of its own shows her: ten times the loss of one."""
    law = {"kind": "table-noise", "dimension": 100, "scale": "10"}
    assert promised(release(law, "10", repr(math.sqrt(10)), "1"), "0.1", "0").answer == UNKNOWN
    assert promised(release(law, "200", repr(math.sqrt(200)), "1"), "0.2", "0").answer == HOLDS
    assert promised(release(law, "200", repr(math.sqrt(200)), "1"), "0.19", "0").answer == FAILS


@pytest.mark.parametrize(
    "law",
    [
        {"kind": "discrete-gaussian", "sigma": "10"},
        {"kind": "discrete-laplace", "scale": "10"},
        {"kind": "discrete-k-norm", "scale": "10", "dimension": 1},
        {"kind": "grid-gaussian", "sigma": "200", "bits": 0},
    ],
    ids=str,
)
def test_noise_on_a_grid_does_not_hide_half_a_step(law):
    """Whole numbers and halves are told apart whatever the noise."""
    found = promised(release(law, "0.5", "0.5", "0.5"), "1")
    assert found.answer == FAILS
    assert "less than one" in found.reason or "step" in found.reason
    assert promised(release(law, "1", "1", "1"), "1").answer == HOLDS


def test_bounds_that_do_not_fit_are_refused_and_not_cut():
    """Masses are digits of long numbers: one that is too long would run into the next."""
    with pytest.raises(checker.Unknown, match="masses"):
        checker._convolve([10**40, 10**40], [10**30], 68)
    assert checker._convolve([10**30, 2 * 10**30], [10**30, 10**29], 68) == [10**60, 21 * 10**59, 2 * 10**59]


def test_many_answers_are_masses_of_at_most_one():
    many = checker._binary_atoms(Fraction(11, 10), Fraction(11, 10), 1500)
    assert all(0 < p <= checker._ONE for p, _ in many)
    few = checker._binary_atoms(Fraction(3), Fraction(3), 5)
    assert [float(Fraction(p, checker._ONE)) for p, _ in few] == pytest.approx(
        [math.comb(5, f) * 0.75 ** (5 - f) * 0.25**f for f in range(6)]
    )


def test_very_many_cells_in_three_releases_get_an_answer():
    part = leaf({"kind": "discrete-laplace", "scale": "1"}, (700, 0))["steps"]
    found = promised(step("compose", part, part, part), "1")
    assert found.answer == FAILS
    assert found.epsilon > 10


def test_ratios_below_the_finest_bound_count_as_lost():
    """A loss of 175 beside losses of two: its ratio, e^-175, is below the rounded-up bounds of the grid."""
    part = leaf({"kind": "discrete-laplace", "scale": "0.5"}, (1, 0))["steps"]
    sure = release({"kind": "laplace", "scale": "1/175"}, "1", "1", "1")
    found = promised(step("compose", *[part] * 9, sure), "150")
    assert found.answer == FAILS
    assert 175 < found.epsilon <= 193.1


def test_gaussians_and_mixtures_are_counted_as_work(monkeypatch):
    """Twenty thousand of them would otherwise take an hour."""
    monkeypatch.setattr(checker, "_MOST_WORK", 100_000)
    gaussians = [release({"kind": "gaussian", "sigma": f"{40 - i}"}, "1", "1", "1") for i in range(30)]
    assert promised(step("one-of", *gaussians), "9").answer == UNKNOWN
    monkeypatch.setattr(checker, "_work", [0])
    wide = len(checker._binomial(10_000, Fraction(1, 3), 45)[1])
    checker._work[0] = 100_000 - 5 * wide  # enough for the binomial, not for its convolution
    with pytest.raises(checker.Unknown, match="more to compute"):
        checker.Crowd(Fraction(1, 3), 10_000)._pair(10_000, 0)
    mixed = {
        "kind": "mixed-releases", "releases": 9, "bits": 40, "terms": [[7, 1, 5]] * 20, "own_l1": "1", "own_l2": "1",
    }  # fmt: skip
    assert promised(release({"kind": "gaussian", "sigma": "99"}, "6", "6", "6", mixed=mixed), "9").answer == UNKNOWN


def test_round_numbers_are_written_out():
    assert [checker._shown(Fraction(n)) for n in (10, 150, 4_000_000)] == ["10", "150", "4000000"]
    assert [checker._shown(Fraction(n)) for n in ("0.5", "1e-6", "1e-9")] == ["0.5", "0.000001", "1e-9"]


def nested(depth):
    inner = leaf(LAPLACE)["steps"]
    for _ in range(depth):
        inner = {"kind": "parallel", "parts": 1, "of": [inner]}
    return leaf(LAPLACE, steps=inner)


HOSTILE = {
    "nothing": "",
    "not JSON": "{",
    "a list": "[]",
    "a number": "7",
    "NaN": json.dumps(leaf(LAPLACE)).replace('"0.00001"', "NaN"),
    "infinity": json.dumps(leaf(LAPLACE)).replace('"2"', "Infinity"),
    "a name twice": json.dumps(leaf(LAPLACE)).replace('"version": 2', '"version": 2, "version": 2'),
    "deep brackets": "[" * 100_000,
    "deep objects": '{"a":' * 50_000,
    "deep steps": json.dumps(nested(200)),
    "text for a number": json.dumps(leaf({**LAPLACE, "scale": "two"})),
    "a float for a number": json.dumps(leaf({**LAPLACE, "scale": 2.0})),
    "a negative scale": json.dumps(leaf({**LAPLACE, "scale": "-2"})),
    "a zero scale": json.dumps(leaf({**LAPLACE, "scale": "0"})),
    "division by zero": json.dumps(leaf({**LAPLACE, "scale": "1/0"})),
    "a huge number": json.dumps(leaf({**LAPLACE, "scale": "1e999"})),
    "endless digits": json.dumps(leaf({**LAPLACE, "scale": "9" * 5000})),
    "endless JSON digits": json.dumps(leaf(LAPLACE)).replace('"version": 2', f'"version": {"9" * 10_000}'),
    "no scale": json.dumps(leaf({"kind": "discrete-laplace"})),
    "no law": json.dumps(leaf(None)),
    "no steps": json.dumps(leaf(LAPLACE, steps=None)),
    "no stated": json.dumps(leaf(LAPLACE, stated=None)),
    "a delta above one": json.dumps(leaf(LAPLACE, stated={"epsilon": "1", "delta": "2", "rho": None})),
    "no delta": json.dumps(leaf(LAPLACE, stated={"epsilon": "1", "rho": None})),
    "parts without number": json.dumps(leaf(LAPLACE, steps={"kind": "compose", "of": [1]})),
    "a shift of text": json.dumps(leaf(LAPLACE)).replace("[[1, 1, 1]]", '"all"'),
    "no versions": json.dumps({name: entry for name, entry in leaf(LAPLACE).items() if name != "versions"}),
    "another version": json.dumps(leaf(LAPLACE, version=1)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_input_is_unreadable_in_one_sentence(name, tmp_path, capsys):
    file = tmp_path / "certificate.json"
    file.write_text(HOSTILE[name])
    assert checker.main([str(file)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("unreadable: ")
    assert said.err.count("\n") == 1
    assert len(said.err) < 200


@pytest.mark.parametrize(
    "law",
    [
        {"kind": "discrete-laplace", "scale": "1e-30"},
        {"kind": "discrete-laplace", "scale": "1e29"},
        {"kind": "discrete-gaussian", "sigma": "1e-30"},
        {"kind": "discrete-gaussian", "sigma": "9999"},
        {"kind": "discrete-gaussian", "sigma": "1e29"},
        {"kind": "gaussian", "sigma": "1e-29"},
        {"kind": "grid-gaussian", "sigma": "1e20", "bits": 1000},
        {"kind": "binomial-noise", "trials": 10**12, "p": "0.5"},
        {"kind": "binomial-noise", "trials": 10**12, "p": "1e-300"},
        {"kind": "thresholded-gaussian", "sigma": "1e25", "threshold": "7"},
        {"kind": "thresholded-laplace", "scale": "1e-30", "threshold": "1e29"},
    ],
    ids=str,
)
@pytest.mark.parametrize("moves", [(1, 0), (10**9, 10**9)], ids=str)
def test_numbers_beyond_all_bounds_get_an_answer(law, moves):
    stated = {"epsilon": "1", "delta": "1e-300", "rho": "0.1"}
    assert verdict(leaf(law, moves, stated=stated)).answer in (HOLDS, FAILS, UNKNOWN)


def test_a_certificate_cannot_keep_the_checker_busy(monkeypatch):
    monkeypatch.setattr(checker, "_MOST_WORK", 10_000)
    part = leaf({"kind": "discrete-gaussian", "sigma": "50000"}, (1, 0))["steps"]
    steps = {"kind": "one-of", "parts": 50, "of": [part] * 50}
    assert checker.check(leaf(LAPLACE, steps=steps)).answer in (HOLDS, UNKNOWN)
    heavy = leaf({"kind": "binomial-noise", "trials": 10**7, "p": "0.5"}, (20, 20))
    assert checker.check(heavy).answer == UNKNOWN


# --- alone -----------------------------------------------------------------------------------------------------------


def test_the_checker_imports_the_standard_library_alone():
    tree = ast.parse(FILE.read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert names
    assert {name.split(".")[0] for name in names} <= set(sys.stdlib_module_names)
    assert "importlib" not in names
    assert "__import__" not in FILE.read_text()


def test_the_checker_runs_in_place(tmp_path):
    """No module beside it has the name of one of the standard library, which Python would take for it."""
    beside = {path.stem for path in FILE.parent.iterdir()}
    assert beside & set(sys.stdlib_module_names) == set()
    certificate = tmp_path / "certificate.json"
    certificate.write_text(json.dumps(leaf(LAPLACE)))
    done = subprocess.run(
        [sys.executable, str(FILE), str(certificate)], cwd=FILE.parent, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    certificate.write_text(json.dumps(leaf(LAPLACE, noise="simulated")))
    assert subprocess.run([sys.executable, str(FILE), str(certificate)], capture_output=True).returncode == 3


def test_the_checker_runs_alone(tmp_path):
    """Copied out, without the package on the path."""
    copy, certificate = tmp_path / "checker.py", tmp_path / "certificate.json"
    copy.write_text(FILE.read_text())
    certificate.write_text(json.dumps(leaf(LAPLACE)))
    command = [sys.executable, "-I", "-S", str(copy)]
    done = subprocess.run([*command, str(certificate)], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("signature: not checked\nholds: ")
    certificate.write_text(json.dumps(leaf({**LAPLACE, "scale": "1.9"})))
    assert subprocess.run([*command, str(certificate)], cwd=tmp_path, capture_output=True).returncode == 1
    assert subprocess.run([*command, "nowhere.json"], cwd=tmp_path, capture_output=True).returncode == 2
    assert subprocess.run(command, cwd=tmp_path, capture_output=True).returncode == 2
