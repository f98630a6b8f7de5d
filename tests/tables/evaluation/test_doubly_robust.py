"""What users contribute has the right mean: all trajectories of small worlds are gone through, with their chances."""

from __future__ import annotations

import numpy as np
import pytest
from small_worlds import SHAPE, A, H, S, policies, world

from discreet.tables.evaluation.doubly_robust import Terms, contributions, returns_of
from discreet.tables.evaluation.parametric_bootstrap import biases
from discreet.tables.evaluation.policy_value import terms_of, value_in
from discreet.tables.evaluation.released_model import Model, Values, occupancies, values_of, weights_of
from discreet.tables.evaluation.return_bounds import limits_of
from discreet.tables.evaluation.safe_policy import safe_policy
from discreet.tables.read.user_subsets import Paths


def everybody(model: Model, behaviour: np.ndarray) -> tuple[Paths, np.ndarray]:
    """All trajectories there are, one user each, and how likely each is under the behaviour."""
    found, chances = [], []

    def go(h: int, s: int, chance: float, rows: list[tuple[int, ...]]) -> None:
        if chance <= 0:
            return
        if h == H or s == S:
            found.append(rows)
            chances.append(chance)
            return
        for a in range(A):
            share = (model.rewards[h, s, a] + 1) / 2
            for bit in (0, 1):
                for t in range(S + 1):
                    here = behaviour[h, s, a] * (share if bit else 1 - share) * model.repaired[h, s, a, t]
                    end = S if h == H - 1 else t
                    go(h + 1, t, chance * here, [*rows, (h, s, a, end, bit)])

    for s in range(S):
        go(0, s, float(model.start[s]), [])
    who = np.repeat(np.arange(len(found)), [len(rows) for rows in found])
    columns = np.array([row for rows in found for row in rows]).T
    return Paths(len(found), who, *columns[:4], columns[4].astype(float)), np.array(chances)


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("seed", [0, 1])
def test_with_exact_weights_any_values_do(seed, ends):
    model, (pi, mu), limits = world(seed, ends), policies(seed), limits_of(SHAPE, ends)
    true = value_in(model, pi, limits)
    rng = np.random.default_rng([seed, 2])
    shown = rng.random((H, S, A)) < 0.6
    partly = model._replace(shown=shown)
    terms = terms_of(SHAPE, limits, pi, mu, partly, 10**9, 1.0)
    wrong = model._replace(
        shown=shown, signed=rng.dirichlet(np.ones(S + 1), (H, S, A)), signed_rewards=rng.uniform(-1, 1, (H, S, A))
    )
    lower, upper = (values_of(wrong, pi, limits, upper=upper) for upper in (False, True))
    paths, chances = everybody(model, mu)
    assert chances.sum() == pytest.approx(1)
    found = contributions(paths, SHAPE, terms._replace(lower=lower, upper=upper))
    assert chances @ found.lower == pytest.approx(true)
    assert chances @ found.upper == pytest.approx(true)
    usual = value_in(model, mu, limits)
    assert chances @ found.returns == pytest.approx(usual)
    assert chances @ found.less == pytest.approx(true - usual)
    assert chances @ found.more == pytest.approx(true - usual)


def test_with_exact_values_any_weights_do():
    model, (pi, mu), limits = world(3, True), policies(3), limits_of(SHAPE, True)
    terms = terms_of(SHAPE, limits, pi, mu, model, 1000, 1.0)
    odd = np.random.default_rng(0).uniform(0, 9, (H, S, A))
    paths, chances = everybody(model, mu)
    found = contributions(paths, SHAPE, terms._replace(weights=odd))
    assert chances @ found.lower == pytest.approx(value_in(model, pi, limits))


def test_both_wrong_is_wrong():
    model, (pi, mu), limits = world(4, True), policies(4), limits_of(SHAPE, True)
    terms = terms_of(SHAPE, limits, pi, mu, model, 1000, 1.0)
    q = terms.lower.q + 0.3
    wrong = terms._replace(lower=Values(q, np.concatenate([np.einsum("hsa,hsa->hs", pi, q), np.zeros((1, S))])))
    v = np.zeros((H + 1, S + 1))
    v[:, :S] = wrong.lower.v
    wrong = wrong._replace(lower=Values(q, v), weights=terms.weights * 1.5)
    paths, chances = everybody(model, mu)
    assert abs(chances @ contributions(paths, SHAPE, wrong).lower - value_in(model, pi, limits)) > 0.05


def test_cutting_keeps_the_lower_end_low_and_the_upper_end_high():
    model, (pi, mu), limits = world(5, True), policies(5), limits_of(SHAPE, True)
    hidden = model._replace(shown=np.zeros((H, S, A), np.bool_))
    terms = terms_of(SHAPE, limits, pi, mu, hidden, 1000, 1.0)
    paths, chances = everybody(model, mu)
    true = value_in(model, pi, limits)
    for cut in (0.0, 0.5, 2.0):
        found = contributions(paths, SHAPE, terms._replace(largest=cut))
        assert chances @ found.lower <= true + 1e-9
        assert chances @ found.upper >= true - 1e-9
        assert (found.lower >= limits.worst[0] - 1e-9).all()
        assert (found.lower <= limits.worst[0] + cut + 1e-9).all()
        assert chances @ found.less <= true - value_in(model, mu, limits) + 1e-9
        assert chances @ found.more >= true - value_in(model, mu, limits) - 1e-9


def test_a_policy_that_is_the_behaviour_is_worth_the_returns():
    model, mu = world(6, True), policies(6)[1]
    weights = weights_of(model, mu, mu)[1]
    assert weights[occupancies(model, mu, shown_only=False) > 0] == pytest.approx(1.0)


def test_who_has_no_first_row_adds_nothing():
    model, (pi, mu), limits = world(7, True), policies(7), limits_of(SHAPE, True)
    terms = terms_of(SHAPE, limits, pi, mu, model, 1000, 1.0)
    nobody = Paths(2, *(np.zeros(0, np.int64) for _ in range(5)), np.zeros(0))
    found = contributions(nobody, SHAPE, terms)
    for each in found:
        assert not each.any()
    assert returns_of(nobody, SHAPE, limits).tolist() == [0.0, 0.0]


def damaged(seed: int, users: int = 300) -> Paths:
    """Records of any length, with gaps and without starts, of nobody's law."""
    rng = np.random.default_rng([seed, 5])
    kept = rng.random((users, H)) < rng.choice([0.5, 0.9, 1.0])
    who, step = np.nonzero(kept)
    size = len(who)
    whole = rng.integers(S, size=size), rng.integers(A, size=size), rng.integers(S + 1, size=size)
    return Paths(users, who, step, *whole, rng.random(size))


@pytest.mark.parametrize("hidden", [0.0, 0.4, 1.0])
def test_the_difference_to_oneself_is_zero_for_every_user_whatever_is_missing(hidden):
    for seed in range(20):
        model, mu = world(seed, True), policies(seed)[1]
        model = model._replace(shown=np.random.default_rng(seed).random((H, S, A)) >= hidden)
        limits, paths = limits_of(SHAPE, True), damaged(seed)
        paths = _without_gaps(paths)
        terms = terms_of(SHAPE, limits, mu, mu, model, 300, 1.0)
        found = contributions(paths, SHAPE, terms)
        assert np.abs(found.less).max() < 1e-12
        assert np.abs(found.more).max() < 1e-12
        # The wrong twins: less what she got herself, and with another Q for the behaviour.
        assert np.abs(found.lower - found.returns).max() > 0.1
        other = terms._replace(lower=terms.lower._replace(v=terms.lower.v * 1.1))
        assert np.abs(contributions(paths, SHAPE, other).less).max() > 0.001


def of_everybody(model: Model, mu: np.ndarray) -> Model:
    """The table that everybody's visits make, in their shares: it shows the behaviour."""
    return model._replace(visits=1e6 * np.maximum(occupancies(model, mu, shown_only=False), 1e-12))


@pytest.mark.parametrize("hidden", [0.0, 0.4])
def test_a_behaviour_that_is_read_from_the_table_gives_the_value_and_the_difference(hidden):
    for seed in range(4):
        model, (pi, mu), limits = world(seed, True), policies(seed), limits_of(SHAPE, True)
        model = of_everybody(model, mu)
        model = model._replace(shown=np.random.default_rng(seed).random((H, S, A)) >= hidden)
        terms = terms_of(SHAPE, limits, pi, None, model, 10**9, 1.0)
        assert terms.behaviour == pytest.approx(mu)
        paths, chances = everybody(model, mu)
        found, true = contributions(paths, SHAPE, terms), value_in(model, pi, limits)
        apart = true - value_in(model, mu, limits)
        if hidden:
            assert chances @ found.lower < true < chances @ found.upper
            assert chances @ found.less < apart < chances @ found.more
        else:
            assert chances @ found.lower == pytest.approx(true)
            assert chances @ found.less == pytest.approx(apart)


def test_the_difference_of_an_undeclared_behaviour_to_itself_has_mean_zero_whatever_values_are():
    for seed in range(4):
        model, mu, limits = world(seed, True), policies(seed)[1], limits_of(SHAPE, True)
        model = of_everybody(model, mu)
        paths, chances = everybody(model, mu)
        wrong = model._replace(signed_rewards=np.random.default_rng(seed).uniform(-1, 1, (H, S, A)))
        terms = terms_of(SHAPE, limits, mu, None, wrong, 10**9, 1.0)
        assert chances @ contributions(paths, SHAPE, terms).less == pytest.approx(0.0, abs=1e-9)
        # The wrong twin: what a declared behaviour loses is taken off, with a behaviour that is a little wrong.
        odd = 0.9 * mu + 0.05
        twin = terms_of(SHAPE, limits, mu, odd, wrong, 10**9, 1.0)
        assert abs(chances @ contributions(paths, SHAPE, twin).less) > 0.001
        # One whose values are exact and whose behaviour is a little wrong errs by a product: not to first order.
        few = of_everybody(model, odd)
        right = contributions(paths, SHAPE, terms_of(SHAPE, limits, mu, None, few, 10**9, 1.0))
        assert chances @ right.less == pytest.approx(0.0, abs=1e-9)


def _without_gaps(paths: Paths) -> Paths:
    """As the rule "end" leaves them."""
    before = np.zeros((paths.users, H), np.bool_)
    before[paths.user, paths.step] = True
    kept = np.logical_and.accumulate(before, axis=1)[paths.user, paths.step]
    return Paths(paths.users, *(column[kept] for column in paths[1:]))


def test_declared_returns_are_enforced():
    limits = limits_of(SHAPE, True, returns=(-1.0, 1.0))
    rows = np.array([0, 0, 0]), np.array([0, 1, 2]), np.zeros(3, np.int64), np.zeros(3, np.int64), np.array([0, 0, S])
    assert returns_of(Paths(1, *rows, np.ones(3)), SHAPE, limits).tolist() == [1.0]


def test_a_table_without_noise_gives_no_bias():
    model, (pi, _), limits = world(8, True), policies(8), limits_of(SHAPE, True)
    many = model._replace(visits=np.full((H, S, A), 1e9), users=10**9)
    mu = policies(8)[1]
    terms: Terms = terms_of(SHAPE, limits, pi, mu, many, 10**9, 1.0)
    assert np.abs(biases(terms, SHAPE, 3, 0)).max() < 1e-4
    few = terms._replace(model=many._replace(users=50))
    assert np.abs(biases(few, SHAPE, 8, 0)).max() > 1e-3


def test_rows_of_too_large_a_weight_count_as_not_shown():
    model, limits = world(9, True), limits_of(SHAPE, True)
    pi, mu = np.zeros((H, S, A)), np.zeros((H, S, A))
    pi[..., 1], mu[..., 0], mu[..., 1] = 1.0, 0.99, 0.01  # users hardly ever do what the policy does
    left, weights = weights_of(model, pi, mu)
    assert not left.shown[0, :, 1].any()
    assert left.shown[0, :, 0].all()
    assert weights.max() <= 50
    terms = terms_of(SHAPE, limits, pi, mu, model, 10**9, 1.0)
    paths, chances = everybody(model, mu)
    found, true = contributions(paths, SHAPE, terms), value_in(model, pi, limits)
    assert chances @ found.lower <= true + 1e-9 <= chances @ found.upper + 2e-9


def test_a_safe_policy_moves_shown_mass_only():
    model, mu = world(0, True), np.full((H, S, A), 0.5)
    learned = np.zeros((H, S, A))
    learned[..., 1] = 1.0
    shown = np.ones((H, S, A), np.bool_)
    shown[0, 0, 0], shown[0, 1, 1] = False, False
    safe = safe_policy(model._replace(shown=shown), learned, mu)
    assert safe[1:, :, 1] == pytest.approx(1.0)  # all is shown: as learned
    assert safe[0, 0].tolist() == [0.5, 0.5]  # the other action keeps its share
    assert safe[0, 1].tolist() == [0.5, 0.5]  # the learned action is not shown: as before


def test_rows_of_a_user_may_stand_in_any_order():
    model, (pi, mu), limits = world(3, True), policies(3), limits_of(SHAPE, True)
    shown = np.random.default_rng(3).random((H, S, A)) < 0.5
    terms = terms_of(SHAPE, limits, pi, mu, model._replace(shown=shown), 1000, 1.0)
    paths, _ = everybody(model, mu)
    order = np.lexsort((-paths.step, paths.user))  # last steps first
    turned = Paths(paths.users, *(column[order] for column in paths[1:]))
    one, two = contributions(paths, SHAPE, terms), contributions(turned, SHAPE, terms)
    assert np.array_equal(one.lower, two.lower)
    assert np.array_equal(one.upper, two.upper)
    assert not np.array_equal(one.lower, contributions(paths, SHAPE, terms._replace(largest=0.1)).lower)
