"""Our own exact sampler against the stated law, number by number, and against OpenDP's sampler.

There is no seed, so false alarms are counted over runs: a test errs with probability ``ACCEPT`` = 1e-8 by the
chi-square law, whose approximation is good because every bin expects a hundred draws at least. There are 22 of them in
``make test`` and 32 in ``make test-all``: a million runs of both give less than one false alarm. Wrong-law twins are
rejected at 1e-8 too.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import chdtrc

from discreet.noise import DiscreteGaussian, DiscreteLaplace, exact_sampler
from discreet.noise.exact_distribution import exact_gaussian, exact_laplace
from discreet.noise.exact_sampler import OPENDP, OWN, draw_exactly, prepare

ACCEPT = 1e-8
LEAST = 100.0  # draws that a bin expects
MANY, VERY_MANY = 1_000_000, 10_000_000
SCALES = [0.3, 1.0, 6.0, 15.9, 16.0, 41.3, 1000.5, 1e4]
FAMILIES = [DiscreteLaplace, DiscreteGaussian]


def fine_bins(law, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """Single numbers where they expect enough draws, joined with neighbours where not: last numbers and masses."""
    scale = law.scale if isinstance(law, DiscreteLaplace) else law.sigma
    reach = int(scale * (40 if isinstance(law, DiscreteLaplace) else 9)) + 40
    numbers = np.arange(-reach, reach + 1)
    masses = np.exp(law.log_probability(numbers))
    # The two halves are joined from the outside in, so that bins are symmetric and zero has one of its own.
    half = np.flatnonzero(numbers < 0)
    filled = np.floor(np.cumsum(masses[half]) * draws / LEAST)
    last = half[np.flatnonzero(np.diff(filled) > 0) + 1]
    last = last[masses[: half[-1] + 1].sum() - np.cumsum(masses)[last] > LEAST / draws]
    ends = numbers[np.append(last, half[-1])]
    edges = np.unique(np.concatenate([ends, -1 - ends]))  # a bin ends with each of these; the last one has no end
    shares = np.diff(np.concatenate([[0.0], np.cumsum(masses)[np.searchsorted(numbers, edges)], [masses.sum()]]))
    return edges, shares / shares.sum()


def p_value(drawn: np.ndarray, law, coarse: bool) -> float:
    """Of Pearson's chi-square; number by number, or in two hundred bins, which see another scale best."""
    edges, shares = fine_bins(law, len(drawn))
    if coarse and len(edges) > 200:
        kept = np.linspace(0, len(edges) - 1, 200).astype(int)
        shares = np.diff(np.concatenate([[0.0], np.cumsum(shares)[kept], [1.0]]))
        edges = edges[kept]
    counts = np.bincount(np.searchsorted(edges, drawn), minlength=len(shares))
    expected = shares * len(drawn)
    return float(chdtrc(len(shares) - 1, ((counts - expected) ** 2 / expected).sum()))


def check(law, draws: int, twin: float) -> None:
    drawn = law.secure_by(OWN, draws)
    for coarse in (True, False):
        assert p_value(drawn, law, coarse) > ACCEPT
    assert p_value(drawn, type(law)(twin), coarse=True) < ACCEPT


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
@pytest.mark.parametrize("scale", [0.3, 6.0, 41.3, 1e4])
def test_a_million_draws_have_the_law(family, scale):
    check(family(scale), MANY, 1.03 * scale)


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
@pytest.mark.parametrize("scale", SCALES)
def test_ten_million_draws_have_the_law(family, scale):
    check(family(scale), VERY_MANY, 1.005 * scale if scale > 1 else 1.02 * scale)


@pytest.mark.parametrize("kind", ["no step 2", "even step 2", "both zeros", "another law"])
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_wrong_samplers_are_seen(monkeypatch, family, kind):
    """A staircase instead of the law, a kernel that forgets the square of l, two zeros, the law of the other kind."""
    scale = 0.9 if kind == "both zeros" else 41.3
    law = family(scale)
    exact = exact_laplace(scale) if family is DiscreteLaplace else exact_gaussian(scale)
    fast = prepare(exact)
    if kind == "no step 2":
        wrong = fast._replace(linear=np.uint64(0), quadratic=np.uint64(0))
    elif kind == "even step 2":
        wrong = fast._replace(linear=fast.linear // np.uint64(2), quadratic=fast.quadratic // np.uint64(2))
    else:
        wrong = fast
    monkeypatch.setattr(exact_sampler, "prepare", lambda law: wrong)
    drawn = draw_exactly(exact, 3 * MANY if "step" in kind else MANY)
    if kind == "both zeros":
        zeros = np.random.default_rng(3).random(len(drawn)) < np.mean(drawn == 0) / 2
        drawn = np.where(zeros, 0, drawn)
    if kind == "another law":
        law = DiscreteGaussian(scale * 2**0.5) if family is DiscreteLaplace else DiscreteLaplace(scale / 2**0.5)
    assert p_value(drawn, law, coarse=False) < ACCEPT


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
@pytest.mark.parametrize("scale", [0.7, 6.0, 100.25])
def test_both_samplers_draw_one_law(family, scale):
    """Twenty thousand draws of each, compared with each other; and not those of a scale that is a quarter larger."""
    draws = 20_000
    theirs = family(scale).secure_by(OPENDP, draws)
    edges, _ = fine_bins(family(scale), draws)
    edges = edges[:: max(1, len(edges) // 30)]

    def alike(ours: np.ndarray) -> float:
        a, b = (np.bincount(np.searchsorted(edges, x), minlength=len(edges) + 1) for x in (ours, theirs))
        a, b = a[a + b > 0], b[a + b > 0]
        return float(chdtrc(len(a) - 1, ((a - b) ** 2 / (a + b)).sum()))

    assert alike(family(scale).secure_by(OWN, draws)) > ACCEPT
    assert alike(family(1.25 * scale).secure_by(OWN, draws)) < ACCEPT
