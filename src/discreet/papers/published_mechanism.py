"""A mechanism as a paper prints it, written once: what it really promises and what runs come from one list of parts.

A *part* is one released stream: what one user moves in a noisy sum of it, the law of the noise, and the accumulator,
which says in how many noisy sums she is. The truth composes all parts. A recipe takes encoders, laws and accumulators
from the same parts, and its guarantee composes those that it sends, by the same function. Where a recipe sends less
than is printed, the part says why (``left_out``), and so does the guarantee.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import inf
from typing import Any, NamedTuple

from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.shape import Shape
from discreet.mechanisms.additive import Channel
from discreet.mechanisms.counts.encoder import Encoder
from discreet.mechanisms.sums.accumulator import Accumulator
from discreet.mechanisms.sums.blocks import Total
from discreet.noise import RandomizedResponse
from discreet.noise.distribution import Law
from discreet.noise.shuffled_randomized_response import ShuffledResponse
from discreet.papers.statements import STATEMENTS, Statement
from discreet.privacy.guarantee import (
    Claim,
    Guarantee,
    billboard,
    claimed,
    compose,
    from_mechanism,
    from_reports,
    left_out,
    locally,
    through_shuffler,
    unbounded,
)
from discreet.privacy.messages import AnsweredBits
from discreet.privacy.profiles import ZeroConcentratedProfile
from discreet.privacy.sensitivity import Sensitivity
from discreet.privacy.words import rounded_up

FACTOR_TWO = "counts move by 2H when a user is replaced, not by H"
_WHY = "replacing one user moves all of these streams together, and their noises are independent"
_BAGS = "a bag of separate bits shows how many of them are set in each counter, and no more"


@dataclass(frozen=True)
class Setting:
    """Public inputs of a mechanism: sizes and target, everything that an audit may choose."""

    shape: Shape
    episodes: int
    epsilon: float | None = None
    delta: float = 0.0
    rho: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "states": self.shape.states,
            "actions": self.shape.actions,
            "horizon": self.shape.horizon,
            "homogeneous": self.shape.homogeneous,
            "episodes": self.episodes,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "rho": self.rho,
        }

    def describe(self) -> str:
        """The sizes in a few words."""
        time = "homogeneous" if self.shape.homogeneous else "per step"
        users = f"{self.episodes:,} episodes"
        return (
            f"{self.shape.states} states, {self.shape.actions} actions, horizon {self.shape.horizon} ({time}), {users}"
        )


@dataclass(frozen=True)
class Part:
    """One released stream: its noise, what one user moves in one noisy sum, and how such sums are kept.

    ``encoders`` compute the stream where it runs; without them it is stated only. ``left_out`` says why a recipe does
    not send it, and is empty where it does; where it sends some of it, ``sent`` is what one user moves in that.
    ``norms_only``: the profile of Laplace noise is taken from the L1 norm, for
    streams that move thousands of cells; its epsilon at delta 0 is the same.
    """

    name: str
    law: Law | RandomizedResponse | ShuffledResponse
    own: Sensitivity
    accumulator: Accumulator = field(default_factory=Total)
    encoders: tuple[Encoder, ...] = ()
    left_out: str = ""
    norms_only: bool = False
    sent: Sensitivity | None = None

    @property
    def moves(self) -> Sensitivity:
        """What one user moves in all noisy sums that hold her."""
        return self.accumulator.sensitivity(self.own)

    def guarantee(self, delta: float) -> Guarantee:
        """What the part promises by itself."""
        moves = self.moves
        if isinstance(self.law, RandomizedResponse):
            loss = rounded_up(self.law.shipped_epsilon, 6)
            how = f"randomised response with a loss of {loss} a bit (p = {2 * self.law.q:.6g})"
            profile = self.law.profile(moves.cells)
            sent = AnsweredBits(self.law.lie, moves.cells)
            return from_reports(
                profile, delta=delta, name=self.name, moves=f"{moves.cells} bits", law=how, message=sent
            )
        if self.norms_only:
            moves = replace(moves, shifts=None, unit=False)
        return from_mechanism(self.law, moves, delta=delta, name=self.name)

    @property
    def noise(self) -> Law:
        """The law, where it is added to sums."""
        if isinstance(self.law, RandomizedResponse | ShuffledResponse):
            raise Unsupported(f"{self.name} are answered bit by bit: there is no noise to add")
        return self.law

    def channels(self) -> tuple[Channel, ...]:
        """The stream as it runs: one channel with additive noise for each encoder."""
        return tuple(Channel(encoder, self.noise, self.accumulator) for encoder in self.encoders)


Parts = Callable[[Setting], tuple[Part, ...]]


class AtLeast(NamedTuple):
    """A loss that some pair of neighbours reaches, in epsilon, delta or rho; a delta is there at any epsilon."""

    unit: str
    value: float


@dataclass(frozen=True)
class Published:
    """A mechanism as printed. ``claim`` and ``noise`` are formulas; ``finding`` and ``corrected`` are for people.

    Where the paper says it, and under which condition, is its ``statement``. ``recipe`` is the name under which it
    runs, where it does. ``unbounded`` gives the reason why no finite epsilon is known in a setting, empty where one is;
    ``reached`` is a loss that is reached there, and ``apart`` the entry that is left without that one mistake.
    ``whole`` computes the promise where it is not the composition of the parts. ``bound``: what is computed is an
    upper bound of the loss, and need not be attained. ``roughly``: the paper gives an order of magnitude.
    """

    name: str
    paper: str
    model: str
    claim: str
    noise: str
    finding: str
    corrected: str
    parts: Parts
    recipe: str | None = None
    unbounded: Callable[[Setting], str] | None = None
    reached: Callable[[Setting], AtLeast] | None = None
    whole: Callable[[Setting], Guarantee] | None = None
    bound: bool = False
    roughly: bool = False
    concentrated: bool = False
    apart: Published | None = None

    @property
    def statement(self) -> Statement:
        """The place in the paper, what it says there, its condition, and how our number is computed."""
        return STATEMENTS[self.name]

    def no_bound(self, setting: Setting) -> str:
        """Why no finite epsilon is known in this setting; empty where one is."""
        return "" if self.unbounded is None else self.unbounded(setting)

    def truth(
        self,
        shape: Shape,
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        rho: float | None = None,
        episodes: int = 20_000,
    ) -> Guarantee:
        """What all that is printed gives at these sizes, with the claim beside it."""
        setting = Setting(shape, episodes, epsilon, delta, rho)
        self.claimed(setting)  # a target of the wrong kind is refused in the words of the entry
        return self.promise(setting, self.parts(setting))

    def as_run(self, setting: Setting, parts: tuple[Part, ...] | None = None) -> Guarantee:
        """What the recipe gives: the promise of the parts that it sends. It names the others, and what they cost.

        ``parts`` are those of the entry in this setting unless a recipe has options that change what a user moves.
        """
        printed = self.parts(setting) if parts is None else parts
        sent = sent_of(printed)
        if sent == printed or self.no_bound(setting):
            return self.promise(setting, printed)
        why = "; ".join(dict.fromkeys(f"{part.name}: {part.left_out}" for part in printed if part.left_out))
        return left_out(self.promise(setting, sent), why, self.promise(setting, printed))

    def promise(self, setting: Setting, parts: tuple[Part, ...]) -> Guarantee:
        """What these parts give together, with the claim beside it: the one place where a truth is computed."""
        return _promise(self, setting, parts)

    def claimed(self, setting: Setting) -> Claim:
        """What the paper says about the mechanism at these sizes."""
        if self.concentrated:
            if setting.rho is None:
                raise InvalidInput(f"{self.name} is stated for a zero-concentrated target: give rho, not epsilon")
            implied = ZeroConcentratedProfile(setting.rho).epsilon(setting.delta)
            return self._claim(implied, setting.delta, f": rho = {setting.rho:g}")
        if setting.epsilon is None:
            raise InvalidInput(f"{self.name} is stated for an epsilon: give epsilon, not rho")
        return self._claim(setting.epsilon, setting.delta)

    def _claim(self, epsilon: float, delta: float, more: str = "") -> Claim:
        source = f"{self.paper}, {self.statement.where}{more}"
        return Claim(epsilon, delta, source, self.statement.condition, self.roughly)


@lru_cache(maxsize=512)
def _promise(entry: Published, setting: Setting, parts: tuple[Part, ...]) -> Guarantee:
    claim, delta = entry.claimed(setting), setting.delta
    no_bound = entry.no_bound(setting)
    if no_bound:
        apart = None if entry.apart is None else entry.apart.promise(setting, parts)
        model = "joint" if entry.model == "central" else entry.model
        return claimed(unbounded(no_bound, model=model, delta=delta, apart=apart), claim)
    if entry.whole is not None:
        return claimed(entry.whole(setting), claim)
    whole = _in_model(entry.model, compose([part.guarantee(delta) for part in parts], delta=delta, why=_WHY))
    # Without a delta a zero-concentrated claim is no statement about epsilon.
    return whole if claim.epsilon == inf else claimed(whole, claim)


def _in_model(model: str, whole: Guarantee) -> Guarantee:
    if model == "local":
        return locally(whole)
    if model == "shuffle":
        return through_shuffler(whole, _BAGS)
    return billboard(whole) if model == "central" else whole


def sent_of(parts: Sequence[Part]) -> tuple[Part, ...]:
    """The parts that a recipe sends, or what it sends of them."""
    whole = (part if part.sent is None else replace(part, own=part.sent, left_out="", sent=None) for part in parts)
    return tuple(part for part in whole if not part.left_out)


def channels_of(parts: Sequence[Part]) -> tuple[Channel, ...]:
    """The channels of the parts that a recipe sends."""
    return tuple(channel for part in sent_of(parts) for channel in part.channels())


def needs_epsilon(setting: Setting) -> float:
    """The target's epsilon, for noise that is scaled by it."""
    if setting.epsilon is None:
        raise InvalidInput("this mechanism is calibrated by epsilon: give epsilon, not rho")
    return setting.epsilon


def needs_delta(setting: Setting) -> float:
    """The target's delta, for noise that is scaled by it."""
    if setting.delta == 0:
        raise InvalidInput("this mechanism is calibrated by a delta above 0; its paper uses 0.1")
    return setting.delta


def steps_of(setting: Setting, times: int = 1) -> Sensitivity:
    """One table that every step moves once up and once down, ``times`` times over."""
    n = setting.shape.horizon * times
    return Sensitivity.unit_shifts(n, n)
