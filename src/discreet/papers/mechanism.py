"""A mechanism as a paper prints it: the streams it releases, the claim beside it, and the truth computed from both."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from discreet.audit.binomial_test import log_ratio
from discreet.audit.cases import Setting
from discreet.errors import InvalidInput
from discreet.noise import BinomialNoise, BoundedNoise, Gaussian, Laplace, RandomizedResponse, add_noise
from discreet.noise.law import IN_EVERY_CELL
from discreet.noise.shuffled_response import ShuffledResponse
from discreet.privacy.guarantee import Claim, Guarantee, Reason, billboard, compose, from_mechanism, locally
from discreet.privacy.profiles import Profile, PureProfile, ZeroConcentratedProfile
from discreet.privacy.sensitivity import Sensitivity
from discreet.shape import Shape
from discreet.streams import Stream, next_word
from discreet.types import Floats

Law = Laplace | Gaussian | BinomialNoise | BoundedNoise

FACTOR_TWO = "counts move by 2H when a user is replaced, not by H"


@dataclass(frozen=True)
class AnsweredBits:
    """Every cell is a bit that the user answers by randomised response; only moved bits lose anything."""

    epsilon: float
    discrete: ClassVar[bool] = True
    drawn: ClassVar[str] = IN_EVERY_CELL

    @property
    def variance(self) -> float:
        return float(RandomizedResponse(self.epsilon).variance(1))

    def profile(self, sensitivity: Sensitivity) -> Profile:
        return RandomizedResponse(self.epsilon).profile(sensitivity.cells)


@dataclass(frozen=True)
class Part:
    """One released stream: its law, and what one user moves in all of its releases together."""

    name: str
    law: Law | AnsweredBits | ShuffledResponse
    moves: Sensitivity

    def guarantee(self, delta: float) -> Guarantee:
        # The supremum of the loss of Laplace noise needs the L1 norm alone; thousands of cells need no convolution.
        moves = replace(self.moves, shifts=None, unit=False) if isinstance(self.law, Laplace) else self.moves
        return from_mechanism(self.law, moves, delta=delta, name=self.name)

    def sample(self, side: int, trials: int, draws: Stream) -> Floats:
        """Log-likelihood ratios of runs on either side of the worst shift."""
        if isinstance(self.law, AnsweredBits):
            rng = np.random.default_rng(int(next_word(draws)))
            answers = RandomizedResponse(self.law.epsilon).randomize(np.full((trials, self.moves.cells), 1 - side), rng)
            return np.asarray((self.law.epsilon * (2 * answers - 1)).sum(axis=1, keepdims=True))
        if isinstance(self.law, ShuffledResponse):
            rng = np.random.default_rng(int(next_word(draws)))
            return self.law.log_ratios(self.moves.cells, side, trials, rng)[:, None]
        shift = np.concatenate([np.repeat([m, -m], [up, down]) for m, up, down in self.moves.shifts or ()])
        noise = np.zeros(trials * len(shift))
        add_noise(self.law.kernel(), noise, draws)
        x = noise.reshape(trials, len(shift)) + (shift if side == 0 else 0.0)
        ratios = log_ratio(self.law.log_probability(x - shift), self.law.log_probability(x))
        return np.asarray(ratios.sum(axis=1, keepdims=True))


Parts = Callable[[Setting], tuple[Part, ...]]


@dataclass(frozen=True)
class Published:
    """A mechanism as printed. ``claim`` and ``noise`` are formulas; ``wrong`` and ``corrected`` are for people.

    ``unbounded`` says why no finite epsilon exists, where that is so, and ``apart`` is the entry that is left
    without that one mistake.
    """

    name: str
    paper: str
    model: str
    claim: str
    noise: str
    wrong: str
    corrected: str
    parts: Parts
    unbounded: str | None = None
    concentrated: bool = False
    apart: Published | None = None

    def truth(
        self,
        shape: Shape,
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        rho: float | None = None,
        episodes: int = 20_000,
    ) -> Guarantee:
        """What the printed noise gives at these sizes, with the claim beside it."""
        setting = Setting(shape, episodes, epsilon, delta, rho)
        claim = self.claimed(setting)
        if self.unbounded is not None:
            premises: tuple[Reason, ...] = ()
            if self.apart is not None:
                left = self.apart.truth(shape, epsilon=epsilon, delta=delta, rho=rho, episodes=episodes)
                premises = (Reason("apart from that", f"epsilon {left.epsilon:.4g}", (left.derivation,)),)
            reason = Reason("no bound", self.unbounded, premises)
            model = "joint" if self.model == "central" else self.model
            return Guarantee(model, math.inf, delta, PureProfile(math.inf), reason, claimed=claim)
        why = "replacing one user moves all of these streams together, and their noises are independent"
        whole = compose([part.guarantee(delta) for part in self.parts(setting)], delta=delta, why=why)
        return replace(_in_model(self.model, whole), claimed=claim)

    def claimed(self, setting: Setting) -> Claim:
        """What the paper says about the mechanism at these sizes."""
        if self.concentrated:
            if setting.rho is None:
                raise InvalidInput(f"{self.name} is stated for a zero-concentrated target: give rho, not epsilon")
            implied = ZeroConcentratedProfile(setting.rho).epsilon(setting.delta)
            return Claim(implied, setting.delta, f"{self.paper}: rho = {setting.rho:g}")
        if setting.epsilon is None:
            raise InvalidInput(f"{self.name} is stated for an epsilon: give epsilon, not rho")
        return Claim(setting.epsilon, setting.delta, self.paper)


def _in_model(model: str, whole: Guarantee) -> Guarantee:
    if model == "local":
        return locally(whole)
    if model == "shuffle":
        return replace(whole, model="shuffle")
    return billboard(whole) if model == "central" else whole


def needs_epsilon(setting: Setting) -> float:
    if setting.epsilon is None:
        raise InvalidInput("this mechanism is calibrated by epsilon: give epsilon, not rho")
    return setting.epsilon


def needs_delta(setting: Setting) -> float:
    if setting.delta == 0:
        raise InvalidInput("this mechanism is calibrated by a delta above 0; its paper uses 0.1")
    return setting.delta


def levels_of(setting: Setting) -> int:
    return max(1, setting.episodes - 1).bit_length()


def steps_of(setting: Setting, times: int = 1) -> Sensitivity:
    """One table that every step moves once up and once down, in ``times`` releases."""
    n = setting.shape.horizon * times
    return Sensitivity.unit_shifts(n, n)
