"""Active sets: who survives which test, and that the listed and the constrained form agree where both exist."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from discreet.problems.elimination.absorbing_model import Model
from discreet.problems.elimination.active_sets import (
    Constrained,
    Listed,
    Rule,
    all_policies,
    common_radius,
    published_radius,
)

H, X, A = 3, 2, 2
SUPPORT = np.array([[True, False], [True, True], [True, True]])


def random_model(seed=0, users=1e4, width=0.0):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(X), size=(H, X, A))
    P[-1] = 0.0
    rows = (H, X, A)
    return Model(P, rng.uniform(size=rows), np.full(rows, users), np.full(rows, width), np.array([1.0, 0.0]))


def value(model, actions):
    states, total = model.start, 0.0
    for h in range(H):
        total += states @ model.rewards[h, np.arange(X), actions[h]]
        states = states @ model.transitions[h, np.arange(X), actions[h]]
    return float(total)


def constrained():
    return Constrained(np.zeros((H, X, A, X)), np.zeros((H, X, A)), np.zeros((H, X, A)), np.zeros((H, X, A)))


def everybody():
    return all_policies(SUPPORT, A, np.random.default_rng(0))


def survivors(active):
    return active.factors.decode(np.flatnonzero(active.active))


def test_the_form_depends_on_the_number_of_policies():
    assert isinstance(everybody(), Listed)
    assert isinstance(all_policies(np.ones((6, 4), bool), 2, np.random.default_rng(0)), Constrained)
    assert everybody().active.sum() == 2**5


@pytest.mark.parametrize("scale", [0.01, 0.03, 0.1])
def test_the_paper_rule_drops_exactly_those_two_radii_below_the_best(scale):
    model, rule = random_model(), Rule("paper", scale, 0.0, 10.0)
    left = everybody().eliminate(model, rule, 1000)
    bar = max(value(model, a) for a in survivors(everybody())) - 2 * published_radius(model, rule, 1000)
    kept = {a.tobytes() for a in survivors(left)}
    for actions in survivors(everybody()):
        assert (actions.tobytes() in kept) == (value(model, actions) > bar)
    assert 0 < len(kept) < 32


def test_the_published_radius_by_hand():
    model = random_model(width=5.0)
    rule = Rule("paper", 2.0, 3.0, 10.0)
    assert published_radius(model, rule, 1000) == pytest.approx(
        2 * np.sqrt(2 * 2 * 27 * 10 / 1000) + 3 * (8 * 2 * 243 * 20 * 10 / 1000)
    )


def test_eliminated_policies_never_come_back():
    first = everybody().eliminate(random_model(0), Rule("paper", 0.02, 0.0, 10.0), 1000)
    second = first.eliminate(random_model(1), Rule("paper", 0.1, 0.0, 10.0), 1000)
    assert not (second.active & ~first.active).any()
    assert second.active.any()


def test_wider_noise_keeps_more_policies():
    sizes = [
        everybody().eliminate(random_model(width=width), Rule("data", 0.1, 1.0, 10.0), 1).active.sum()
        for width in (0.0, 300.0, 3000.0)
    ]
    assert sizes[0] < sizes[1] < sizes[2]


def absorbing_model():
    """Action 1 at the start leads to state 1, where all is earned, but the model has absorbed that transition."""
    P, r = np.zeros((H, X, A, X)), np.zeros((H, X, A))
    P[:2, 0, 0, 0] = 1.0
    P[1:2, 1, :, 1] = 1.0
    r[:, 0, 0] = 0.2
    r[1:, 1] = 1.0
    return Model(P, r, np.full((H, X, A), 1e9), np.zeros((H, X, A)), np.array([1.0, 0.0]))


def test_the_sink_rule_keeps_what_the_data_rule_loses():
    model = absorbing_model()
    goes = np.array([[1, 0], [0, 0], [0, 0]])
    for rule, kept in (("data", False), ("sink", True)):
        left = everybody().eliminate(model, Rule(rule, 0.1, 0.1, 10.0), 1000)
        assert bool(left.active[left.factors.encode(goes)]) is kept
    assert left.crude(model, 0).actions[:, 0, 0, 0].tolist() == [0, 1]


@pytest.mark.parametrize(("rule", "then"), [("data", 0), ("sink", 1)])
def test_equals_are_told_apart_by_what_they_may_be_worth(rule, then):
    """Staying put earns 0.2 a step; going at the second step earns nothing in this model, and up to 1 in truth."""
    left = everybody().eliminate(absorbing_model(), Rule(rule, 0.1, 0.1, 10.0), 1000)
    stays_first = left.crude(absorbing_model(), 0).actions[0, 0]
    assert stays_first[:2, 0].tolist() == [0, then]


def test_the_best_policy_has_the_highest_estimate_among_the_active():
    model = random_model(3)
    for start in (everybody(), constrained()):
        best = start.eliminate(model, Rule("sink", 0.05, 0.1, 10.0), 1000).best()
        every = [np.array(a).reshape(H, X) for a in product(range(A), repeat=H * X)]
        assert value(model, best) == pytest.approx(max(value(model, a) for a in every))


@pytest.mark.parametrize("make", [everybody, constrained])
def test_before_any_test_every_pair_is_reached_as_often_as_can_be(make):
    model = random_model(5)
    for step in range(H):
        found = make().crude(model, step)
        reach = np.zeros((X, A))
        for actions, weights in zip(found.actions, found.weights, strict=True):
            mixed = np.zeros((X, A))
            for table, weight in zip(actions, weights, strict=True):
                states = model.start
                for h in range(step):
                    states = states @ model.transitions[h, np.arange(X), table[h]]
                mixed[np.arange(X), table[step]] += weight * states
            reach = np.maximum(reach, mixed)
        best = np.zeros(X)
        for choice in product(range(A), repeat=step * X):
            states = model.start
            for h, rule in enumerate(np.array(choice).reshape(step, X)):
                states = states @ model.transitions[h, np.arange(X), rule]
            best = np.maximum(best, states)
        np.testing.assert_allclose(reach, np.repeat(best[:, None], A, axis=1), atol=1e-12)


def test_constrained_candidates_pass_the_test_on_average():
    model = random_model(7)
    rule = Rule("data", 0.02, 0.0, 10.0)
    active = constrained().eliminate(model, rule, 1000)
    assert active.slack == pytest.approx(2 * common_radius(model, rule))
    bar = value(model, active.best()) - active.slack
    found = active.crude(model, H - 1)
    means = [
        sum(w * value(model, a) for w, a in zip(weights, actions, strict=True))
        for actions, weights in zip(found.actions, found.weights, strict=True)
    ]
    assert min(means) >= bar - 1e-9
    assert min(means) < value(model, active.best()) - 1e-6
    cover = active.cover(model, found)
    assert sum(w * value(model, a) for w, a in zip(cover.weights, cover.actions, strict=True)) >= bar - 1e-9


def test_the_common_radius_covers_the_best_policy():
    """It must not be below the radius of its own, with the variance of its return."""
    model, rule = random_model(9, users=200.0, width=20.0), Rule("data", 1.0, 1.0, 10.0)
    listed = everybody()
    values, variances = listed.factors.return_variances(
        model.transitions, model.start, model.rewards, model.rewards * (1 - model.rewards)
    )
    own = listed.factors.radii(model.transitions, model.start, model.visits, model.widths, variances, log_term=10.0)
    assert common_radius(model, rule) >= own[np.argmax(values)] - 1e-12


def test_equals_are_decided_by_the_coins():
    """Before any data all policies tie: which one is best must not be the order in which they are listed."""
    listed = {all_policies(SUPPORT, A, np.random.default_rng(seed)).best().tobytes() for seed in range(20)}
    assert len(listed) > 10
    wide = np.ones((6, 8), np.bool_)
    constrained = {all_policies(wide, 4, np.random.default_rng(seed)).best().tobytes() for seed in range(20)}
    assert len(constrained) == 20
