"""The check of samplers: right laws pass as often as is stated, and every wrong-law twin is convicted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from discreet.audit.machine_check import FALSE_ALARM, Sampler, check_samplers, samplers
from discreet.base.errors import InvalidInput, Unsupported
from discreet.noise import DiscreteGaussian, DiscreteLaplace, Laplace
from discreet.noise.knorm import DiscreteKNorm
from discreet.noise.randomized_response import RandomizedResponse

NAMED = {sampler.name: sampler for sampler in samplers()}
SIX = NAMED["discrete Laplace, scale 6"]
BELL = NAMED["discrete Gaussian, sigma 6"]
RNG = np.random.default_rng(11)
BIT = RandomizedResponse(1.0).p
SMALLER = DiscreteKNorm(3, 5.0)


def twin(sampler: Sampler, draw) -> Sampler:
    """The same stated law, drawn otherwise."""
    return replace(sampler, draw=draw)


def laplace(n: int, scale: float = 6.0) -> np.ndarray:
    return DiscreteLaplace(scale).draw(RNG, n)


def cut_off(n: int) -> np.ndarray:
    drawn = laplace(2 * n)
    return drawn[np.abs(drawn) < 33][:n]  # the outer four thousandths are never drawn


WRONG = {
    "twice the epsilon": (SIX, lambda n: laplace(n, 3.0)),
    "a fifth less noise": (SIX, lambda n: laplace(n, 4.8)),
    "a fifth more noise": (SIX, lambda n: laplace(n, 7.5)),
    "no noise": (SIX, lambda n: np.zeros(n)),
    "off by one": (SIX, lambda n: laplace(n) + 1),
    "one sign only": (SIX, lambda n: np.abs(laplace(n))),
    "no zeros": (SIX, lambda n: np.where((drawn := laplace(n)) == 0, 1, drawn)),
    "even numbers only": (SIX, lambda n: 2 * np.floor(laplace(n) / 2)),
    "tails cut off": (SIX, cut_off),
    "another law of the same variance": (SIX, lambda n: DiscreteGaussian(8.47).draw(RNG, n)),
    "Laplace for Gaussian": (BELL, lambda n: laplace(n, 4.23)),
    "Gaussian of half the width": (BELL, lambda n: DiscreteGaussian(3.0).draw(RNG, n)),
    "every number twice in a row": (SIX, lambda n: np.repeat(laplace(n // 2), 2)),
    "sorted": (SIX, lambda n: np.sort(laplace(n))),
    "the same every time": (SIX, lambda n: DiscreteLaplace(6.0).draw(np.random.default_rng(0), n)),
    "fractions": (SIX, lambda n: Laplace(6.0).draw(RNG, n)),
    "not a number": (SIX, lambda n: np.full(n, np.nan)),
    "too few": (SIX, lambda n: laplace(n - 1)),
    "the truth": (NAMED["randomised response, one bit"], lambda n: np.ones(n)),
    "an even coin": (NAMED["randomised response, one bit"], lambda n: RNG.integers(0, 2, n)),
    "the true item": (NAMED["randomised response, 5 items"], lambda n: np.zeros(n)),
    "coins of another probability": (
        NAMED["binomial, 200 coins of 1/4"],
        lambda n: RNG.binomial(200, 0.26, n),
    ),
    "tables of less noise": (
        NAMED["K-norm, 3 cells, scale 6"],
        lambda n: np.abs(SMALLER.draw(RNG, n)).max(axis=-1),
    ),
    "a grid of less noise": (
        NAMED["discrete Gaussian, fine grid"],
        lambda n: np.rint(RNG.normal(0.0, 0.9 * 2.0**30, n)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_laws_are_convicted(name):
    sampler, draw = WRONG[name]
    (checked,) = check_samplers([twin(sampler, draw)], false_alarm=FALSE_ALARM / len(NAMED))  # as strict as a real run
    assert not checked.sound
    assert checked.problem


def test_the_problem_is_named():
    told = {name: check_samplers([twin(*WRONG[name])])[0].problem for name in WRONG}
    assert "does not follow its law: shares differ by 0.1" in told["twice the epsilon"]
    assert told["tails cut off"] == "has tails of another law"
    assert told["every number twice in a row"] == "draws numbers that depend on the one before"
    assert told["the same every time"] == "draws the same numbers again"
    for name in ("fractions", "not a number", "too few"):
        assert told[name] == "draws something else than whole numbers"


def refuse(n: int) -> np.ndarray:
    raise Unsupported("opendp 0.14.1 draws noise of the wrong law")


def crash(n: int) -> np.ndarray:
    raise ZeroDivisionError


def test_a_sampler_that_fails_is_a_finding_and_the_others_are_tried():
    refused, crashed, fine = check_samplers([twin(SIX, refuse), twin(SIX, crash), twin(SIX, laplace)])
    assert refused.problem == "opendp 0.14.1 draws noise of the wrong law"
    assert crashed.problem == "cannot be drawn: ZeroDivisionError"
    assert fine.sound
    assert (fine.draws, refused.draws) == (20_000, 0)


@pytest.mark.parametrize("sampler", [SIX, NAMED["randomised response, one bit"]], ids=lambda sampler: sampler.name)
def test_right_laws_are_convicted_no_more_often_than_is_stated(sampler):
    """At a rate of 1 in 10, of 200 runs 44 or more are convicted with probability below 1e-6."""
    answers = {SIX.name: laplace, NAMED["randomised response, one bit"].name: lambda n: RNG.random(n) < BIT}
    short = replace(sampler, draw=answers[sampler.name], draws=1_000)
    convicted = sum(not check_samplers([short], false_alarm=0.1)[0].sound for _ in range(200))
    assert convicted < 44


def test_every_stated_law_is_a_law():
    for sampler in NAMED.values():
        ends = np.array([-sampler.reach - 1.0, sampler.reach])
        below, above = sampler.up_to(ends)
        assert below < 1e-9
        assert above == pytest.approx(1, abs=1e-9)


def test_a_false_alarm_rate_is_a_probability():
    for wrong in (0.0, 1.0, float("nan"), "often"):
        with pytest.raises(InvalidInput, match="false_alarm"):
            check_samplers([SIX], false_alarm=wrong)
