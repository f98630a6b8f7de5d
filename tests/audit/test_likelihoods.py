"""Transcripts of matrix mechanism and focused blocks: the law of their losses; broken ones convicted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kstest

from discreet.audit.audit import audit
from discreet.audit.likelihoods import MatrixTranscript
from discreet.audit.trials import exact_profile, known_transcript
from discreet.base.shape import Shape
from discreet.base.streams import stream
from discreet.mechanisms.sums.matrix import Matrix
from discreet.noise import GridGaussian
from discreet.recipes.registry import build
from discreet.recipes.targets import Central

TINY = Shape(2, 2, 1, homogeneous=True)
CELLS = np.array([1.0, 0.0, 2.0]), np.array([0.0, 1.0, 0.0])


@pytest.mark.parametrize("releases", [1, 7])
def test_losses_have_the_law_of_a_gaussian_mechanism_at_the_column_norm(releases):
    """Normal with mean mu^2 / 2 (or its negative) and deviation mu, at 1e-4; a forgotten column norm is rejected."""
    transcript = MatrixTranscript(Matrix(releases), GridGaussian(3.0, 32), CELLS)
    mu = np.sqrt(6.0) * Matrix(releases).column_norm / 3.0
    assert transcript.profile.mu == pytest.approx(mu)
    for side, sign in ((0, 1.0), (1, -1.0)):
        losses = transcript.sample(side, 20_000, stream(1, side, 0))[:, 0]
        assert kstest((losses - sign * mu**2 / 2) / mu, "norm").pvalue > 1e-4
        if releases > 1:
            forgotten = np.sqrt(6.0) / 3.0
            assert kstest((losses - sign * forgotten**2 / 2) / forgotten, "norm").pvalue < 1e-4


def test_many_trials_are_the_trials_of_several_parts():
    transcript = MatrixTranscript(Matrix(2), GridGaussian(3.0, 32), tuple(np.tile(cells, 40_000) for cells in CELLS))
    assert transcript.sample(0, 3, stream(0, 0, 0)).shape == (3, 1)


def halved(channel):
    if hasattr(channel, "laws"):
        scale = "scale" if hasattr(channel.laws[0], "scale") else "sigma"
        return replace(channel, laws=tuple(replace(law, **{scale: getattr(law, scale) / 2}) for law in channel.laws))
    return replace(channel, law=replace(channel.law, sigma=channel.law.sigma / 2))


@pytest.mark.parametrize(
    ("recipe", "delta"),
    [
        ("central/first-visit-matrix", 0.05),
        ("central/joint-histogram-matrix", 0.05),
        ("central/focused-first-visit-laplace", 0.0),
        ("central/focused-first-visit-gaussian", 0.05),
    ],
)
def test_these_recipes_are_tried_by_their_exact_losses_and_convicted_with_half_the_noise(recipe, delta):
    privatizer = build(Central(1.0, delta, recipe=recipe), TINY, 16)
    honest = audit(privatizer, TINY, episodes=16, trials=20_000)
    assert honest.finding.known
    assert honest.holds
    assert honest.lower_bound > 0.5
    assert honest.exact == pytest.approx(1.0, rel=1e-3)
    broken = replace(privatizer, channels=(halved(privatizer.channels[0]),))
    report = audit(broken, TINY, episodes=16, trials=20_000)
    assert not report.holds
    assert report.lower_bound > 1.3


def test_a_focused_block_is_tried_in_the_rows_where_it_is_tightest():
    """One row: three cells that move, whose worst is seen far more often than that of all rows."""
    shape = Shape(6, 2, 20, homogeneous=True)
    privatizer = build(Central(1.0, recipe="central/focused-first-visit-laplace"), shape, 1000)
    (part,) = known_transcript(privatizer).parts
    assert len(part.cells[0]) == 3
    assert np.abs(part.cells[0] - part.cells[1]).sum() == 3
    assert part.channel.law == privatizer.channels[0].law_for(1)
    assert exact_profile(privatizer).epsilon(0.0) == pytest.approx(1.0)
