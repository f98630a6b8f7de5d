"""Everything that the matrix mechanism publishes about a few users, with the first of them replaced: for audits.

Published are noisy mixtures, each with independent noise of its own (:mod:`discreet.accumulators.matrix`). Given the
transcript so far, all that differs between the two sides are the mixtures themselves, so the log-likelihood ratio of a
whole transcript is the sum, over all releases and cells, of the ratios of the noise that each side would need. The
mixtures are computed by the code that runs in earnest, floors included. Later users are adaptive adversaries, as in
:mod:`discreet.audit.likelihoods`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet.accumulators.matrix import Matrix, Mixing, Unmixing
from discreet.audit.binomial_test import log_ratio
from discreet.audit.neighbours import shift_sensitivity
from discreet.noise import GridGaussian, add_noise
from discreet.privacy.profiles import GaussianProfile
from discreet.privacy.sensitivity import Sensitivity
from discreet.streams import Stream
from discreet.types import Floats

_AT_ONCE = 200_000  # cells that run side by side: trials times cells that differ


@dataclass(frozen=True)
class MatrixTranscript:
    """All releases of a matrix mechanism, restricted to the cells in which two records differ."""

    matrix: Matrix
    law: GridGaussian
    cells: tuple[Floats, Floats]  # the two encodings, where they differ
    known: bool = True

    @property
    def profile(self) -> GaussianProfile:
        """The privacy of this pair, but for what floors can do."""
        own = shift_sensitivity(self.cells[0] - self.cells[1])
        moved = own.l2 * self.matrix.column_norm
        return self.law.profile(Sensitivity(max(moved, own.l1 * self.matrix.releases), moved, own.linf))

    def sample(self, side: int, trials: int, draws: Stream) -> Floats:
        """Log-likelihood ratios of transcripts."""
        chunk = max(1, _AT_ONCE // len(self.cells[0]))
        parts = [self._ratios(side, min(chunk, trials - start), draws) for start in range(0, trials, chunk)]
        return np.concatenate(parts)[:, None]

    def _ratios(self, side: int, trials: int, draws: Stream) -> Floats:
        """Trials run side by side: cell c of trial i is one cell of a long vector."""
        first, second = (np.tile(cells, trials) for cells in self.cells)
        size, width = len(first), len(self.cells[0])
        everywhere = np.arange(size)
        sides, unmixing = (Mixing(self.matrix, size), Mixing(self.matrix, size)), Unmixing(self.matrix, size)
        law, kernel = self.law, self.law.kernel()
        total, released = np.zeros(size), np.zeros(size)
        for t in range(self.matrix.releases):
            if t == 0:
                counted = first, second
            else:
                plays_first = np.repeat(released[::width] > 0.5, width)
                counted = (np.where(plays_first, first, second),) * 2
            mixed = [one.step(everywhere, counts) for one, counts in zip(sides, counted, strict=True)]
            published = mixed[side].copy()
            add_noise(kernel, published, draws)
            total += log_ratio(*(law.log_probability(published - one) for one in mixed))
            released += unmixing.step(everywhere, published)
        return np.asarray(total.reshape(trials, width).sum(axis=1))
