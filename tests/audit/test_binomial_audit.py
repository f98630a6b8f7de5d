"""The audit of two samplers: exact limits, one test on fresh draws, events that are chosen well."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats

from discreet.audit.binomial_audit import (
    Charge,
    audit_pairs,
    clopper_pearson,
    epsilon_lower_bound,
    log_ratio,
    text_picture,
)
from discreet.base.errors import InvalidInput


@dataclass(frozen=True)
class Response:
    """Randomised response: tells its bit with probability e^epsilon / (1 + e^epsilon); a score of +-epsilon."""

    epsilon: float
    known: bool = True

    def sample(self, side, trials, draws):
        rng = np.random.default_rng(draws)
        true = rng.random(trials) < 1 / (1 + np.exp(-self.epsilon))
        return np.where(true == (side == 0), self.epsilon, -self.epsilon)[:, None]


@dataclass(frozen=True)
class Vectors:
    """Gaussian features whose means differ by ``shift``; ``mix`` makes their noise dependent."""

    shift: tuple[float, ...]
    mix: tuple[tuple[float, ...], ...]
    known: bool = False

    def sample(self, side, trials, draws):
        noise = np.random.default_rng(draws).normal(size=(trials, len(self.shift))) @ np.array(self.mix)
        return noise + (1 - side) * np.array(self.shift)


def test_clopper_pearson_limits_solve_their_defining_equations():
    trials, error = 200, 0.005
    for hits in (1, 7, 100, 199):
        low, high = clopper_pearson(hits, trials, error)
        assert stats.binom.sf(hits - 1, trials, float(low)) == pytest.approx(error, rel=1e-9)
        assert stats.binom.cdf(hits, trials, float(high)) == pytest.approx(error, rel=1e-9)
    assert float(clopper_pearson(0, trials, error)[0]) == 0.0
    assert float(clopper_pearson(trials, trials, error)[1]) == 1.0
    assert float(clopper_pearson(0, trials, error)[1]) == pytest.approx(1 - error ** (1 / trials))


def test_the_bound_is_the_logarithm_of_the_limits_less_delta():
    low = stats.beta.ppf(0.005, 600, 401)
    high = stats.beta.ppf(0.995, 201, 800)
    bound = float(epsilon_lower_bound(600, 200, 1000, delta=0.0, confidence=0.99))
    assert bound == pytest.approx(np.log(low / high), rel=1e-9)
    less = float(epsilon_lower_bound(600, 200, 1000, delta=0.1, confidence=0.99))
    assert less == pytest.approx(np.log((low - 0.1) / high), rel=1e-9)
    assert float(epsilon_lower_bound(5, 200, 1000, delta=0.1, confidence=0.99)) == 0.0
    # An event that never happens on one side: the bound is as large as the number of draws allows, and finite.
    assert 5 < float(epsilon_lower_bound(1000, 0, 1000, delta=0.0, confidence=0.99)) < np.log(1000)


def test_a_true_claim_holds_and_one_of_half_the_loss_is_refuted():
    true = audit_pairs([Charge(Response(1.0), 1.0, 0.0)], trials=40_000, seed=3)
    assert 0.9 < true.lower_bound < 1.0
    lying = audit_pairs([Charge(Response(1.0), 0.5, 0.0)], trials=40_000, seed=3)
    assert lying.lower_bound > 0.5
    assert (true.trials, true.counted) == (40_000, 10_000)


def test_the_trials_are_the_runs_of_the_mechanism_in_all():
    seen = []

    class Counting(Response):
        def sample(self, side, trials, draws):
            seen.append(trials)
            return super().sample(side, trials, draws)

    audit_pairs([Charge(Counting(1.0), 1.0, 0.0), Charge(Counting(2.0), 2.0, 0.0)], trials=8000, seed=0)
    assert sum(seen) == 8000


@pytest.mark.slow
def test_the_counted_draws_are_not_the_ones_that_chose_the_event():
    # Twenty features of pure noise: an event chosen and counted on the same draws would look better than nothing.
    pair = Vectors((0.0,) * 20, tuple(tuple(row) for row in np.eye(20)))
    bounds = [audit_pairs([Charge(pair, 1.0, 0.0)], trials=4000, seed=seed).lower_bound for seed in range(20)]
    assert max(bounds) < 0.15
    assert np.mean(np.array(bounds) == 0.0) > 0.8


def test_every_sample_has_a_stream_of_its_own():
    seen = []

    class Watching(Response):
        def sample(self, side, trials, draws):
            seen.append(int(draws[0]))
            return super().sample(side, trials, draws)

    audit_pairs([Charge(Watching(1.0), 1.0, 0.0), Charge(Watching(2.0), 2.0, 0.0)], trials=4000, seed=0)
    assert len(seen) == len(set(seen)) == 8


def test_a_trained_score_finds_the_direction_without_noise():
    # Both features are drowned in noise of deviation 50, their difference is not.
    pair = Vectors((1.0, 0.0), ((50.0, 50.0), (0.01, -0.01)))
    finding = audit_pairs([Charge(pair, 1.0, 0.0)], trials=8000, seed=1)
    assert finding.lower_bound > 5
    alone = audit_pairs([Charge(Vectors((1.0,), ((50.0,),)), 1.0, 0.0)], trials=8000, seed=1)
    assert alone.lower_bound < 0.2


def test_the_asked_promise_is_preferred_unless_another_one_breaks():
    honest, broken = Charge(Response(1.0), 1.0, 0.0), Charge(Response(3.0), 2.0, 0.0)
    other_honest = Charge(Response(2.0), 2.0, 0.0)
    assert audit_pairs([honest, other_honest], trials=8000, seed=0).charge == 0
    finding = audit_pairs([honest, broken], trials=20_000, seed=0)
    assert finding.charge == 1
    assert finding.lower_bound > 2.0
    # Of pairs under one promise, the one that comes nearest to breaking it is counted.
    assert audit_pairs([Charge(Response(0.2), 1.0, 0.0), honest], trials=8000, seed=0).charge == 1


def test_delta_excuses_what_is_rare():
    class Reveals(Response):
        def sample(self, side, trials, draws):
            return (np.random.default_rng(draws).random(trials) < 0.04 * (1 - side)).astype(float)[:, None]

    assert audit_pairs([Charge(Reveals(1.0), 1.0, 0.05)], trials=20_000, seed=0).lower_bound == 0.0
    assert audit_pairs([Charge(Reveals(1.0), 1.0, 0.001)], trials=20_000, seed=0).lower_bound > 3


def test_an_audit_is_a_function_of_its_seed():
    charges = [Charge(Response(1.0), 1.0, 0.0)]
    first, again, other = (audit_pairs(charges, trials=4000, seed=seed) for seed in (5, 5, 6))
    assert first == again
    assert (first.high, first.low) != (other.high, other.low)


def test_the_picture_shows_both_sides_and_the_threshold():
    finding = audit_pairs([Charge(Vectors((2.0,), ((1.0,),)), 1.0, 0.0)], trials=8000, seed=0)
    assert sum(finding.first) == sum(finding.second) == finding.counted
    picture = text_picture(finding)
    assert all(sign in picture for sign in ("#", "o", "=", ">"))
    lines = picture.splitlines()
    assert lines[0].count("o") > lines[0].count("#")  # the second input lies lower


def test_an_output_that_neither_law_has_tells_nothing():
    inf = np.inf
    ratios = log_ratio(np.array([-inf, 0.0, -inf, 1.0]), np.array([-inf, -inf, 0.0, 3.0]))
    assert ratios.tolist() == [0.0, inf, -inf, -2.0]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"trials": 10}, "trials must be a whole number of at least 400"),
        ({"seed": -1}, "seed must be"),
        ({"confidence": 1.0}, "confidence must lie strictly between"),
        ({"charges": []}, "nothing to audit"),
        ({"charges": [Charge(Response(1.0), 1.0, 1.5)]}, "delta must lie in"),
    ],
)
def test_bad_input_is_refused(change, match):
    arguments = {"charges": [Charge(Response(1.0), 1.0, 0.0)], "trials": 1000, "seed": 0, "confidence": 0.99} | change
    with pytest.raises(InvalidInput, match=match):
        audit_pairs(**arguments)
