"""The stages of an audit that need no statistics of transcripts: sessions are coupled, and their samplers are tested.

Coupling opens real sessions of a privatizer on neighbouring populations and compares the exact loss with the stated
profile; channels that answer instead of adding noise are read off; linear questions are asked. Then every law that
those sessions drew is tested. Each gives a ``Stage``: whether it ran, whether the promise held, a sentence,
and how much it would have seen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from discreet.audit.answers import answered, answers_itself, of_messages
from discreet.audit.coupling import Interview, Play, coupled, questioned
from discreet.audit.goodness_of_fit import LEVEL
from discreet.audit.neighbours import neighbours
from discreet.audit.noise_coupling import Offence, Share, share_of
from discreet.audit.samplers import NOTHING, Tested, try_law, try_session
from discreet.base.errors import Unsupported
from discreet.base.policies import Policy
from discreet.base.types import Integers
from discreet.mechanisms.mechanism import AnyChannel
from discreet.mechanisms.messages.answered_bits import AnsweredBitsChannel, ResponseChannel
from discreet.mechanisms.messages.shuffled_item import ItemChannel
from discreet.mechanisms.messages.survey import Survey
from discreet.mechanisms.moments.linear_statistics import LinearChannel
from discreet.mechanisms.session import Privatizer
from discreet.mechanisms.sparse import SparseChannel
from discreet.privacy.profiles import Profile, compose
from discreet.problems.adversarial.mechanisms import OneBitChannel

PAIRS = 7  # neighbouring populations that each privatizer is tried on
_USERS = 12
_BLOCK = 2  # users of a block, where a request may dictate it
_CELLS = 20_000  # more than that are too many to play
_LAWS = 6  # laws tested, at most


@dataclass(frozen=True)
class Stage:
    """One stage of an audit. ``seen`` says in words what it would have convicted."""

    name: str
    ran: bool
    holds: bool
    sentence: str
    seen: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"stage": self.name, "ran": self.ran, "holds": self.holds, "said": self.sentence, "power": self.seen}


@dataclass
class _Found:
    """What the coupling of several privatizers found so far."""

    share: Share | None = None
    pairs: int = 0
    offence: str = ""
    refusals: list[str] = field(default_factory=list)
    laws: dict[Any, None] = field(default_factory=dict)

    def see(self, share: Share) -> None:
        """Keep the largest share."""
        self.pairs += 1
        if self.share is None or share.of_stated > self.share.of_stated:
            self.share = share


def run_stages(privatizers: Sequence[Privatizer], seed: int, *, pairs: int = PAIRS) -> tuple[Stage, Stage]:
    """Both stages, over privatizers of one recipe."""
    found = _coupled(privatizers, seed, pairs)
    return _coupling_stage(found), _sampler_stage(privatizers, found, seed)


def coupling_of(privatizers: Sequence[Privatizer], seed: int = 0, *, pairs: int = PAIRS) -> Stage:
    """The first stage alone: sessions, no samplers."""
    return _coupling_stage(_coupled(privatizers, seed, pairs))


def _coupled(privatizers: Sequence[Privatizer], seed: int, pairs: int) -> _Found:
    found = _Found()
    for privatizer in privatizers:
        _couple(privatizer, seed, pairs, found)
        if found.offence or (found.share is not None and not found.share.holds):
            break
    return found


def _coupling_stage(found: _Found) -> Stage:
    name = "coupling"
    if found.offence:
        return Stage(name, True, False, found.offence)
    if found.share is None:
        why = found.refusals[0] if found.refusals else "nothing with noise is released"
        return Stage(name, False, True, f"not run: {why}")
    share = found.share
    at = f" at delta {share.delta:g}" if share.delta else ""
    lost = f"epsilon {share.reached:.4g} of the stated {share.stated:.4g}{at}"
    if not share.holds:
        return Stage(name, True, False, f"a session loses {lost}")
    sentence = f"{found.pairs} pairs of populations; the largest loss is {lost}"
    reach = f"{1 / share.of_stated:.3g} x the stated epsilon" if share.of_stated > 0 else "any loss at all"
    return Stage(name, True, True, sentence, f"laws and sums that lose more than {reach}, for certain")


def _couple(privatizer: Privatizer, seed: int, pairs: int, found: _Found) -> None:
    guarantee = privatizer.guarantee
    if math.isinf(guarantee.epsilon) and not (guarantee.rho is not None and math.isfinite(guarantee.rho)):
        found.refusals.append("the recipe promises nothing")
        return
    channels = [of_messages(channel) for channel in privatizer.channels if channel.share > 0]
    if any(channel.encoder.size > _CELLS for channel in channels):
        found.refusals.append(f"sessions of more than {_CELLS:,} cells are not played")
        return
    try:
        own = [channel for channel in channels if answers_itself(channel)]
        answers = [answered(channel, privatizer.shape, privatizer.masked) for channel in own]
        found.laws |= dict.fromkeys(law for channel in own for law in _answer_laws(channel, privatizer))
        rest = tuple(channel for channel in channels if not answers_itself(channel))
        if not rest:
            found.see(share_of(_together(answers), guarantee))
            return
        playing = replace(privatizer, channels=rest)
        for number in range(pairs):
            profile, laws = _pair(playing, number, seed)
            found.laws |= dict.fromkeys(laws)
            found.see(share_of(_together([profile, *answers]), guarantee))
    except Offence as offence:
        found.offence = str(offence)
    except Unsupported as refusal:
        found.refusals.append(str(refusal))


def _together(profiles: Sequence[Profile]) -> Profile:
    return profiles[0] if len(profiles) == 1 else compose(profiles, as_given=True)


def _pair(privatizer: Privatizer, number: int, seed: int) -> tuple[Profile, list[Any]]:
    """The privacy of one pair of populations, and the laws that were drawn."""
    encoders = [channel.encoder for channel in privatizer.channels]
    built = _USERS if privatizer.users is None else privatizer.users
    linear = privatizer.channels[0]
    if isinstance(linear, LinearChannel):
        total = min(built, _USERS)
        both = neighbours(privatizer.shape, encoders, number, total, seed)
        laws = [law for pair in linear.laws if pair is not None for law in pair]
        return questioned(Interview(privatizer, linear, both, total)), laws
    play = _playable(privatizer, number, seed, built)
    return coupled(play), [draw.law for draw in play.written[0].record.values()]


def _playable(privatizer: Privatizer, number: int, seed: int, built: int) -> Play:
    """A few users, in blocks that some of the pairs dictate; as many as it was built for, where it insists."""
    encoders = [channel.encoder for channel in privatizer.channels]
    ways = [(min(built, _USERS), _BLOCK), (min(built, _USERS), None), (built, None)]
    refusal = Unsupported("nobody can be played before this recipe")
    for total, block in ways:
        both = neighbours(privatizer.shape, encoders, number, total, seed)
        if block is not None and (both.extreme or number % 2 == 0):
            continue  # extreme users in blocks as the schedule has them, of others every other pair
        play = Play(privatizer, both, total, block, most=_USERS)
        try:
            _ = play.written
            return play
        except Unsupported as refused:
            refusal = refused
    raise refusal


def _answer_laws(channel: AnyChannel, privatizer: Privatizer) -> Iterable[Any]:
    if isinstance(channel, OneBitChannel | AnsweredBitsChannel):
        return [channel.law]
    if isinstance(channel, ResponseChannel | ItemChannel):
        return [channel.law.response]
    if isinstance(channel, Survey):  # the questions that differ most come first and last
        laws = channel.laws_of(Policy(_first_actions(privatizer)), privatizer.masked)
        return dict.fromkeys((laws[0], laws[-1]))
    return [channel.law.noise] if isinstance(channel, SparseChannel) else []


def _first_actions(privatizer: Privatizer) -> Integers:
    return np.zeros((privatizer.shape.horizon, privatizer.shape.states), np.int64)


def _sampler_stage(privatizers: Sequence[Privatizer], found: _Found, seed: int) -> Stage:
    name = "samplers"
    tested: Tested = NOTHING
    laws = sorted(found.laws, key=repr)
    chosen = laws if len(laws) <= _LAWS else [laws[i * (len(laws) - 1) // (_LAWS - 1)] for i in range(_LAWS)]
    for law in chosen:
        tested += try_law(law, seed=seed)
    for privatizer in privatizers:
        for channel in privatizer.channels:
            tested += try_session(of_messages(channel), privatizer.shape, privatizer.masked, seed)
    if not tested.tests:
        return Stage(name, False, True, "not run: no session was played, so no law was drawn")
    if tested.faults:
        return Stage(name, True, False, "; ".join(map(str, tested.faults[:3])))
    chance = tested.tests * LEVEL
    tried = "1 law" if len(chosen) == 1 else f"{len(chosen)} laws"
    sentence = f"{tested.tests} tests of {tried}; a right sampler fails one with probability {chance:.1g}"
    seen = f"simulated noise at {tested.seen_simulated:.3g} of its scale"
    if tested.seen_secure is not None:
        seen += f" and noise from the operating system at {tested.seen_secure:.3g} of it"
    return Stage(name, True, True, sentence, f"{seen}, or less, with probability 95%")
