"""What an audit puts on trial: a mechanism in one setting, with the promise it makes there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet.audit.binomial_test import Charge, Pair, log_ratio
from discreet.noise import RandomizedResponse, add_noise
from discreet.noise.shuffled_response import ShuffledResponse
from discreet.papers.mechanism import Part, Setting
from discreet.streams import Stream, next_word
from discreet.types import Floats


@dataclass(frozen=True)
class Case:
    """A mechanism in a setting: two samplers, what was promised, and what is known about the truth.

    ``certified`` is the epsilon of the guarantee that the mechanism carries, ``exact`` the one computed here from its
    laws and from the worst pair that was found; either is None where nothing is known.
    """

    setting: Setting
    pair: Pair
    claimed: float
    delta: float
    certified: float | None
    exact: float | None
    compared: str

    def charge(self) -> Charge:
        """What the test is told: the two samplers and the promise."""
        return Charge(self.pair, self.claimed, self.delta)


@dataclass(frozen=True)
class PrintedPart:
    """A stream as a paper prints it, on either side of the worst shift."""

    part: Part
    known: bool = True

    def sample(self, side: int, trials: int, draws: Stream) -> Floats:
        """Log-likelihood ratios of runs on one side."""
        law, moves = self.part.law, self.part.moves
        if isinstance(law, RandomizedResponse):
            rng = np.random.default_rng(int(next_word(draws)))
            answers = law.randomize(np.full((trials, moves.cells), 1 - side), rng)
            return np.asarray((law.epsilon * (2 * answers - 1)).sum(axis=1, keepdims=True))
        if isinstance(law, ShuffledResponse):
            rng = np.random.default_rng(int(next_word(draws)))
            return law.log_ratios(moves.cells, side, trials, rng)[:, None]
        shift = np.concatenate([np.repeat([m, -m], [up, down]) for m, up, down in moves.shifts or ()])
        noise = np.zeros(trials * len(shift))
        add_noise(law.kernel(), noise, draws)
        x = noise.reshape(trials, len(shift)) + (shift if side == 0 else 0.0)
        ratios = log_ratio(law.log_probability(x - shift), law.log_probability(x))
        return np.asarray(ratios.sum(axis=1, keepdims=True))
