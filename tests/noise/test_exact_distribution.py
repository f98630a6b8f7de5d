"""The definition of the exact sampler: bounds that hold, and the law of a draw by brute force over all short tapes."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest

from discreet.base.errors import InvalidInput, Unsupported
from discreet.noise import exact_distribution
from discreet.noise.exact_distribution import (
    ExactLaw,
    Tape,
    attempt,
    cumulative_bounds,
    draw,
    exact_gaussian,
    exact_laplace,
    exp_bounds,
)

DIGITS = 60


def exact_exp(x: Fraction) -> Fraction:
    """exp(-x) by another implementation, correctly rounded to sixty digits."""
    with localcontext() as context:
        context.prec = DIGITS
        return Fraction((-(Decimal(x.numerator) / Decimal(x.denominator))).exp())


def probabilities(law: ExactLaw, reach: int) -> dict[int, Fraction]:
    """The stated law on -reach..reach; what lies beyond must be negligible."""
    weights = {x: exact_exp(law.energy(abs(x))) for x in range(-reach, reach + 1)}
    total = sum(weights.values())
    return {x: weight / total for x, weight in weights.items()}


@pytest.mark.parametrize("bits", [1, 7, 63, 127])
@pytest.mark.parametrize(
    "x", [Fraction(0), Fraction(1, 10**30), Fraction(1, 3), Fraction(1), Fraction(22, 7), Fraction(0.1), Fraction(60)]
)
def test_exp_lies_between_its_bounds_and_they_are_close(x, bits):
    low, high = exp_bounds(x, bits)
    slack = Fraction(2**bits, 10 ** (DIGITS - 2))
    assert low - slack <= exact_exp(x) * 2**bits <= high + slack
    assert high - low <= 1
    assert 0 <= low <= high <= 2**bits


def test_exp_of_a_huge_number_is_bounded_without_computing_it():
    assert exp_bounds(Fraction(10**300), 64) == (0, 1)


@pytest.mark.parametrize(
    "law", [exact_laplace(0.3), exact_laplace(41.3), exact_gaussian(0.7), exact_gaussian(1e9)], ids=str
)
def test_the_distribution_function_lies_between_its_bounds(law):
    low, high = cumulative_bounds(law, 63)
    steps = range(3 * len(low) + 30)  # so far that nothing is left beyond
    weights = [exact_exp(law.energy(h << law.bits)) for h in steps]
    total, up_to = sum(weights), Fraction(0)
    for h in range(len(low)):
        up_to += weights[h]
        assert low[h] <= up_to / total * 2**63 <= high[h]
        assert high[h] - low[h] <= 2
    assert low[-1] >= 2**63 - 2  # the tables end where nothing is left


def every_tape(law: ExactLaw, width: int, longest: int, steps=draw) -> tuple[dict[int | None, Fraction], Fraction]:
    """The exact mass of every result over tapes of up to ``longest`` words, and that of tapes that are too short."""
    masses: Counter[int | None] = Counter()
    short, waiting = 0, [()]
    while waiting:
        words = waiting.pop()
        weight = 2 ** (width * (longest - len(words)))
        try:
            masses[steps(law, Tape(iter(words).__next__, width))] += weight
        except StopIteration:
            if len(words) == longest:
                short += weight
            else:
                waiting += [(*words, word) for word in range(2**width)]
    whole = 2 ** (width * longest)
    return {x: Fraction(mass, whole) for x, mass in masses.items()}, Fraction(short, whole)


# (law, bits of a word, words of the longest tape).
TAPES = [(exact_laplace(0.6), 3, 5), (exact_gaussian(0.8), 3, 5), (exact_laplace(Fraction(5, 3)), 5, 3)]
PASSES = [
    (exact_laplace(Fraction(4, 3), bits=1), 4, 4),
    (exact_gaussian(Fraction(7, 4), bits=1), 4, 4),
    (exact_gaussian(Fraction(5, 2), bits=2), 5, 3),
    (exact_laplace(Fraction(7, 2), bits=2), 4, 4),
]


@pytest.mark.parametrize(("law", "width", "longest"), TAPES, ids=str)
def test_the_law_of_all_short_tapes(law, width, longest):
    """Every probability lies between the mass of tapes that give the result and that plus the mass still undecided."""
    masses, short = every_tape(law, width, longest)
    stated = probabilities(law, 80)
    assert sum(masses.values()) + short == 1
    assert short < Fraction(1, 20)
    for x, probability in stated.items():
        assert masses.get(x, 0) <= probability <= masses.get(x, 0) + short
        given_an_end = masses.get(x, 0) / (1 - short)  # the law conditional on having come to an end
        assert abs(given_an_end - probability) <= short / (1 - short)
    for x, mass in masses.items():
        if x > 0:
            assert mass == masses[-x]


def out_of_proportion(law: ExactLaw, masses: dict[int | None, Fraction], short: Fraction) -> bool:
    """Whether no constant K has mass(x) <= K exp(-E(x)) <= mass(x) + short for all x: what one pass must have."""
    weights = {x: exact_exp(law.energy(abs(x))) for x in range(-80, 81)}
    least = max(masses.get(x, 0) / weight for x, weight in weights.items())
    return least > min((masses.get(x, 0) + short) / weight for x, weight in weights.items())


@pytest.mark.parametrize(("law", "width", "longest"), PASSES, ids=str)
def test_one_pass_gives_all_results_in_the_proportion_of_the_law(law, width, longest):
    masses, short = every_tape(law, width, longest, attempt)
    assert sum(masses.values()) + short == 1
    assert short < Fraction(1, 8)
    assert masses[None] > 0
    assert not out_of_proportion(law, masses, short)
    for twin in (ExactLaw(law.linear * 3 / 2, law.quadratic * 9 / 4, law.bits), exact_laplace(9)):
        assert out_of_proportion(twin, masses, short)


@pytest.mark.parametrize("index", range(len(TAPES)))
def test_wrong_laws_are_outside_of_the_masses_of_short_tapes(index):
    """Twins: a scale that is a quarter off, and the other kind of law of the same variance."""
    law, width, longest = TAPES[index]
    masses, short = every_tape(law, width, longest)
    variance = sum(x * x * p for x, p in probabilities(law, 80).items())
    other = exact_laplace if law.quadratic else exact_gaussian
    scale = Fraction(math.sqrt(variance / 2)) if law.quadratic else Fraction(math.sqrt(variance))
    for twin in (ExactLaw(law.linear * 4 / 3, law.quadratic * 16 / 9, law.bits), other(scale)):
        stated = probabilities(twin, 80)
        assert any(not masses.get(x, 0) <= p <= masses.get(x, 0) + short for x, p in stated.items())


@pytest.mark.parametrize("mistake", ["both zeros", "no step 2"])
def test_mistakes_in_the_steps_are_seen_on_short_tapes(monkeypatch, mistake):
    law, width, longest = PASSES[1]
    if mistake == "no step 2":
        monkeypatch.setattr(exact_distribution, "_below_exp", lambda loss, v, bits, tape: True)
    masses, short = every_tape(law, width, longest, attempt)
    if mistake == "both zeros":
        masses[0] *= 2
    assert out_of_proportion(law, masses, short)


def test_more_words_are_read_where_words_do_not_decide():
    """A tape of ones is undecided for ever about the largest draw: as many words are read as there are."""
    for law in (exact_laplace(0.5), exact_gaussian(100.0)):
        tape = Tape(iter([2**64 - 1] * 4).__next__)
        with pytest.raises(StopIteration):
            draw(law, tape)
        assert tape.read == 5


def test_scales_are_taken_as_the_numbers_that_they_are():
    assert exact_laplace(0.1).linear == 1 / Fraction(0.1) != 10
    assert exact_gaussian(Fraction(1, 3)).quadratic == 9
    assert exact_laplace(2**54 + 1).linear == Fraction(1, 2**54 + 1)
    assert [exact_laplace(scale).bits for scale in (15.99, 16.0, 1e4, 1e9)] == [0, 1, 10, 26]


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf, "wide", Fraction(-1), True])
def test_scales_that_are_none_are_refused(scale):
    with pytest.raises(InvalidInput, match="the scale of exact noise must be a"):
        exact_laplace(scale)


def test_scales_beyond_whole_numbers_of_64_bits_are_refused():
    assert exact_gaussian(2.0**55).bits == 52
    with pytest.raises(Unsupported, match="larger units"):
        exact_gaussian(2.0**56)
