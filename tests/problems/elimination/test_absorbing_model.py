"""Models with a sink: what is absorbed, what is estimated, and what noise does to both."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.problems.elimination.absorbing_model import (
    Counts,
    absorbed,
    estimate,
    last_batch,
    no_counts,
    pool,
    start_law,
)

H, X, A = 3, 2, 2
EVERYWHERE = np.ones((H, X), bool)
START = np.array([1.0, 0.0])


def counts(transitions, rewards=0.0, variance=0.0, visits=None):
    """Counts of every step alike; a noise variance of one cell, and of four in visits."""
    table = np.broadcast_to(np.asarray(transitions, float), (H, X, A, X)).copy()
    total = table.sum(axis=-1) if visits is None else np.broadcast_to(np.asarray(visits, float), (H, X, A)).copy()
    table[-1] = 0.0
    flat = np.full((H, X, A), float(variance))
    return Counts(total, table, np.full((H, X, A), float(rewards)), 4 * flat, flat, flat)


def model(given, threshold=0.0, repair="clip", quantile=2.0, support=EVERYWHERE):
    lost = absorbed(given, quantile, threshold, repair)
    return estimate(given, lost, START, support, quantile, repair)


def test_without_noise_it_is_the_empirical_model():
    found = model(counts([30.0, 10.0], rewards=8.0))
    np.testing.assert_allclose(found.transitions[:-1], np.broadcast_to([0.75, 0.25], (H - 1, X, A, X)))
    assert not found.transitions[-1].any()
    np.testing.assert_allclose(found.rewards, 0.2)
    np.testing.assert_allclose(found.visits, 40.0)
    assert not found.widths.any()


def test_without_noise_only_transitions_that_were_never_seen_are_absorbed():
    lost = absorbed(counts([3.0, 0.0]), 2.0, 1.0, "clip")
    assert not lost[:-1, ..., 0].any()
    assert lost[..., 1].all()
    assert lost[-1].all()


def test_what_drowns_in_noise_goes_to_the_sink():
    """Width 2 * 5 = 10: of 40 visits the 10 that do not stand out of a threshold of one width are lost."""
    found = model(counts([30.0, 10.0], variance=25.0), threshold=1.0)
    np.testing.assert_allclose(found.transitions[0], np.broadcast_to([0.75, 0.0], (X, A, X)))
    kept = model(counts([30.0, 10.0], variance=25.0), threshold=0.9)
    np.testing.assert_allclose(kept.transitions[0], np.broadcast_to([0.75, 0.25], (X, A, X)))
    np.testing.assert_allclose(kept.widths, 10.0)


def test_visits_for_radii_are_fairly_certain_ones():
    """The quieter total is the sum of two transitions: variance 50, and half of two deviations below 40."""
    found = model(counts([30.0, 10.0], variance=25.0))
    np.testing.assert_allclose(found.visits[0], 40 - np.sqrt(50))
    np.testing.assert_allclose(found.visits[-1], 40 - np.sqrt(100))
    assert (model(counts([1.0, 1.0], variance=25.0)).visits == 1).all()


def test_the_quieter_of_two_totals_is_taken():
    noisy_visits = counts([30.0, 10.0], variance=1.0, visits=80.0)
    np.testing.assert_allclose(model(noisy_visits).transitions[0, 0, 0], [0.75, 0.25])
    quiet_visits = noisy_visits._replace(visit_variance=np.full((H, X, A), 0.5))
    np.testing.assert_allclose(model(quiet_visits).transitions[0, 0, 0], [0.375, 0.125])


@pytest.mark.parametrize("repair", ["clip", "program"])
def test_any_noise_gives_a_model(repair):
    """Rows sum to at most one and rewards lie in [0, 1], however wild the counts are."""
    rng = np.random.default_rng(0)
    for scale in (1.0, 30.0, 1000.0):
        tables = (scale * rng.normal(size=field.shape) for field in no_counts(H, X, A)[:3])
        given = Counts(*tables, *[np.full((H, X, A), scale**2)] * 3)
        found = model(given, threshold=rng.uniform(0, 1), repair=repair)
        assert found.transitions.min() >= 0
        assert found.transitions.sum(axis=-1).max() <= 1 + 1e-12
        assert found.rewards.min() >= 0
        assert found.rewards.max() <= 1
        assert found.visits.min() >= 1


def test_the_program_adds_half_the_error_bound_to_every_row():
    """E = 4 q = 40 here: counts 30 and 10 become 40 and 20 of a total of 60, and W starts above E / (2 X) = 10."""
    given = counts([30.0, 10.0], variance=25.0)
    found = model(given, threshold=0.0, repair="program")
    np.testing.assert_allclose(found.transitions[0, 0, 0], [40 / 60, 20 / 60])
    lost = absorbed(given, 2.0, 1.0, "program")
    assert not lost[0, ..., 0].any()
    assert lost[0, ..., 1].all()
    assert not absorbed(given, 2.0, 0.9, "program")[0].any()


def test_rows_that_nobody_could_play_stay_empty_under_the_program():
    given = counts([30.0, 10.0], variance=25.0)
    for table in given:
        table[:, 1, 1] = 0.0
    found = model(given, repair="program")
    assert not found.transitions[:, 1, 1].any()
    assert found.transitions[0, 1, 0].any()


def test_mass_outside_the_public_support_is_absorbed():
    support = EVERYWHERE.copy()
    support[1, 1] = False
    found = model(counts([30.0, 10.0]), support=support)
    np.testing.assert_allclose(found.transitions[0, 0, 0], [0.75, 0.0])
    np.testing.assert_allclose(found.transitions[1, 0, 0], [0.75, 0.25])


def test_batches_are_differences_of_running_sums():
    first, second = counts([3.0, 1.0], 2.0, 1.0), counts([8.0, 4.0], 5.0, 3.0)
    batch = last_batch(second, first)
    np.testing.assert_allclose(batch.transitions[0, 0, 0], [5.0, 3.0])
    np.testing.assert_allclose(batch.rewards, 3.0)
    np.testing.assert_allclose(batch.transition_variance, 2.0)
    np.testing.assert_allclose(batch.visit_variance, 8.0)


def test_releases_of_a_tree_share_noise():
    """From the first to the second user one node replaces another: both their variances are in the difference."""
    first, second = counts([3.0, 1.0], 2.0, 1.0), counts([8.0, 4.0], 5.0, 1.0)
    np.testing.assert_allclose(last_batch(second, first).transition_variance[:-1], 2.0)
    np.testing.assert_allclose(last_batch(second, first).reward_variance, 2.0)
    untouched = last_batch(first, first)
    assert not any(field.any() for field in untouched)
    fewer = counts([9.0, 4.0], 6.0, 0.5)
    np.testing.assert_allclose(last_batch(fewer, second).visit_variance, 4 * 1.5)


def test_pooling_weighs_a_batch_by_what_it_is_worth():
    """Without noise counts add up; with n visits and variance v they count n / (n + 4 v), variances its square."""
    plain = pool(counts([3.0, 1.0]), counts([5.0, 5.0]))
    np.testing.assert_allclose(plain.transitions[0, 0, 0], [8.0, 6.0])
    np.testing.assert_allclose(plain.visits[0], 14.0)
    noisy = pool(no_counts(H, X, A), counts([30.0, 10.0], 8.0, 30.0))
    np.testing.assert_allclose(noisy.transitions[0, 0, 0], [7.5, 2.5])
    np.testing.assert_allclose(noisy.rewards, 2.0)
    np.testing.assert_allclose(noisy.transition_variance, 30.0 / 16)
    nobody = pool(no_counts(H, X, A), counts([-3.0, 1.0], 1.0, 30.0))
    assert not any(field.any() for field in nobody)


def test_the_start_law_is_that_of_the_first_visits():
    given = counts([1.0, 1.0])
    given.visits[0] = [[6.0, 2.0], [-1.0, 3.0]]
    np.testing.assert_allclose(start_law(given), [0.8, 0.2])
    np.testing.assert_allclose(start_law(no_counts(H, X, A)), [0.5, 0.5])
