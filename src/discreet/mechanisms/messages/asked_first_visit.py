r"""Randomised answers to one question about one row: the channel of the local model that learns most from few users.

A user is asked one of two questions about her first visit of one row (state, action), which public coins pick
(:mod:`discreet.mechanisms.counts.first_visit_question`), and answers one of d things by randomised response with the
whole epsilon: d = 3 for a reward bit, d = S + 1 for a successor, the last one being "none". With p and q the
probabilities of the true answer and of each other one,

    estimate of a count = (answers - n q) / (p - q),       n the number of users who were asked,

whose variance is n q (1 - q) / (p - q)^2 while nobody has the answer, and p (1 - p) in place of q (1 - q) for those who
have. A release states the first term. Where successors are many (S above about 3 e^epsilon) they are sent by optimised
unary encoding, one bit per answer, whose variance does not grow with S.

**Which row is asked about** is decided by weights that are public (:mod:`discreet.mechanisms.messages.questions`): rows
that users are likely to visit and of which little was told. Nothing is decoded with these weights, so they may be any.

**Formal guarantees.** A question is drawn without regard to data. Whatever it is, the answer is randomised with the
whole epsilon for any two trajectories, so the message is pure epsilon. The probabilities are the fractions that are
really sent, and epsilon is certified from those. ``width`` and ``radius`` bound the noise by Bernstein's and Freedman's
inequalities with n alone, which is public: they hold whoever has visited what.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from discreet.base.errors import InvalidInput, check_name
from discreet.base.policies import AnyPolicy
from discreet.base.shape import Shape
from discreet.base.types import Floats
from discreet.mechanisms.counts.encoder import Context
from discreet.mechanisms.counts.first_visit_question import BIT, SUCCESSOR, AskedFirstVisit
from discreet.mechanisms.mechanism import RadiusOf, WidthOf, asked_rows
from discreet.mechanisms.messages.questions import likely_visits, weights_of
from discreet.mechanisms.messages.survey import (
    RESPONSES,
    STATISTICS,
    Asks,
    DecodedRun,
    ItemLaw,
    Report,
    Survey,
    bernstein,
    check_policy,
    draw_answers,
    even,
    fits,
    law_of,
    message_by,
)
from discreet.mechanisms.release import Estimate
from discreet.mechanisms.sums.accumulator import NoiseSource, coins_of
from discreet.noise import UnaryEncoding
from discreet.privacy.messages import Message

_ANSWERS_ABOUT_BITS = 3  # zero, one, none
_CLOSER = 0.5  # of the variance that even questions would leave: those that are drawn go where little is known


@dataclass(frozen=True)
class AskedChannel(Survey):
    """First visits that are asked about; successors are sent by ``response`` ("kary" or "unary"), bits k-ary."""

    encoder: AskedFirstVisit
    epsilon: float
    response: str = "kary"

    def __post_init__(self) -> None:
        check_name("response", self.response, RESPONSES)

    def law_of(self, question: int) -> ItemLaw:
        """The law by which a question is answered: ``SUCCESSOR`` or ``BIT``."""
        if question == BIT:
            return law_of("kary", self.epsilon, _ANSWERS_ABOUT_BITS)
        return law_of(self.response, self.epsilon, self.encoder.shape.states + 1)

    @property
    def laws(self) -> tuple[ItemLaw, ItemLaw]:
        """Those of the two questions."""
        return self.law_of(SUCCESSOR), self.law_of(BIT)

    @property
    def shipped_epsilon(self) -> float:
        """The loss of an answer, certified from the probabilities that are really used: the larger of two questions."""
        return max(law.shipped_epsilon for law in self.laws)

    def message_of(self, question: int) -> Message:
        """What an answer to a question is, by the fractions that are really used, for a certificate."""
        return message_by([self.law_of(question)])

    def laws_of(self, policy: AnyPolicy, masked: bool) -> tuple[ItemLaw, ...]:
        """Those of the two questions, whatever the policy is."""
        return self.laws

    def form(self, masked: bool) -> dict[str, Any]:
        """An answer to one question."""
        return {"kind": "asked-first-visit", "response": self.response, "masked": masked}

    def empty(self) -> tuple[Floats, Floats]:
        """The cells of answers, and two questions for each row."""
        return np.zeros(self.encoder.layout.size), np.zeros((self.encoder.rows, 2))

    def asks(self, policy: AnyPolicy, masked: bool = True) -> Asks:
        """Both questions about every row, of which those that the policy can play are asked about."""
        encoder = self.encoder
        check_policy(encoder.shape, policy)
        may = np.repeat(asked_rows(encoder.shape, Context(policy), masked).reshape(-1), 2)
        cells = np.arange(encoder.layout.size)
        moves, bits = encoder.successors(cells).T, encoder.bits(cells).T
        places = tuple(place for both in zip(moves, bits, strict=True) for place in both)
        return Asks(self.laws * encoder.rows, places, may)

    def check(self, asks: Asks, message: Sequence[Report]) -> None:
        """Refuse another number of answers, other questions, other answers."""
        if len(message) != 1:
            raise InvalidInput(f"a message is one answer, got {len(message)}")
        ((question, sent),) = message
        if type(question) is not int or not 0 <= question < len(asks.laws) or not asks.may[question]:
            raise InvalidInput("a message answers one question about a state and action that this policy can play")
        law = asks.laws[question]
        unary = isinstance(law, UnaryEncoding)
        if not fits(sent, *((law.items, 1) if unary else (1, law.items - 1))):
            what = f"{law.items} bits" if unary else f"one answer in 0..{law.items - 1}"
            raise InvalidInput(f"a message has {what} to question {question}")

    def start(self, shape: Shape, noise: NoiseSource, masked: bool) -> AskedRun:
        """Begin a run."""
        return AskedRun(self, shape, noise, masked)

    def noise_per_row(self) -> float:
        """Per user and (state, action) that the policy plays, in units of the first visits of all users.

        One user in 2 S is asked either question about a row, if all rows of a policy are asked about alike. Beside the
        noise of lies counts what is unknown because others were not asked, in a world where all states are visited
        alike.
        """
        shape = self.encoder.shape
        S, asked = shape.states, 2 * shape.states
        visited = 1.0 - (1.0 - 1.0 / S) ** shape.horizon
        (moves, bits), total = self.laws, 0.0
        for law, cells, copies, part in ((moves, 1, S, 1 / S), (bits, 1, 1, 0.5), (bits, 2, 1, 1.0)):
            others = max(0.0, asked / (law.p - law.q) - 1.0)
            total += copies * (asked * _variance(law, cells, have=False) + part * visited * others)
        return float(_CLOSER * total)


class AskedRun(DecodedRun):
    """Decoded answers, summed over users, and how many were asked which question."""

    KEPT = ("cells", "asked")
    _channel: AskedChannel

    @property
    def channel(self) -> AskedChannel:
        """What its answers are made and read by."""
        return self._channel

    def __init__(self, channel: AskedChannel, shape: Shape, noise: NoiseSource, masked: bool) -> None:
        self._channel, self._shape, self._noise, self._masked = channel, shape, noise, masked
        self._cells = np.zeros(channel.encoder.layout.size)
        self._asked = np.zeros((channel.encoder.rows, 2))

    def weights(self, policy: AnyPolicy) -> tuple[int, ...]:
        """How likely each row is to be asked about next: public, as the answers so far are."""
        rows = asked_rows(self._shape, Context(policy), self._masked).reshape(-1)
        moves = self._channel.encoder.successors(self._cells)
        noise = np.sqrt(self._noise_in("transitions").reshape(-1))
        return weights_of(rows, self._asked.sum(axis=1), likely_visits(self._shape, policy, moves, noise))

    def encoder_now(self, context: Context) -> AskedFirstVisit:
        """The encoder with the weights of the next questions."""
        return replace(self._channel.encoder, weights=self.weights(context.policy))

    def add(self, tally: Floats, users: int, context: Context) -> None:
        """Simulate the answers of users whose clear ones are tallied, and take them in."""
        generator = coins_of(
            self._noise,
            "in the local model no tally of clear answers exists: let every user send randomize_answer(...) and take "
            "the answers in with add_reports",
        )
        truths, asked = self._channel.encoder.split(tally)
        self.add_reports(answers_of(self._channel, truths, asked, generator), asked, users, context)

    def add_reports(self, answers: Floats, asked: Floats, users: int, context: Context) -> None:
        """Take in how often each answer was given, and how many were asked either question about each row."""
        encoder, decoded = self._channel.encoder, np.array(answers, np.float64)
        for question, law in enumerate(self._channel.laws):
            table = encoder.successors(decoded) if question == SUCCESSOR else encoder.bits(decoded)
            table -= asked[:, question] * law.q
            table /= law.p - law.q
        self._cells += decoded
        self._asked += asked

    def estimates(self) -> dict[str, Estimate]:
        """Decoded counts of answers, with the part of their variance that is public."""
        found = self._channel.encoder.layout.marginals(self._cells)
        return {name: Estimate(found[name].values.copy(), self._noise_in(name)) for name in STATISTICS}

    def width_now(self) -> WidthOf:
        """Bernstein's bound on the error of a sum of cells of each row, answers to either question, or of fewer."""
        bound = self._bound(always=False)

        def width(cells_summed: int, failure_probability: float) -> Floats:
            return np.maximum(*(bound(question, cells_summed, failure_probability) for question in (SUCCESSOR, BIT)))

        return width

    def radius_now(self) -> RadiusOf:
        """The same for all releases at once, however policies and questions were chosen: Freedman's bound, peeled."""
        bound, states = self._bound(always=True), self._shape.states

        def radius(statistic: str, failure_probability: float) -> Floats:
            question, cells = _CELLS[statistic]
            return bound(question, cells or states, failure_probability)

        return radius

    def _bound(self, always: bool) -> Callable[[int, int, float], Floats]:
        """A bound on the error of a decoded sum of cells of every row, from who was asked; it holds on to no run."""
        asked, laws, rows = self._asked.copy(), self._channel.laws, (1, self._shape.states, self._shape.actions)

        def bound(question: int, cells: int, failure_probability: float) -> Floats:
            law = laws[question]
            cells = min(cells, law.items - 1)  # of a row there are no more
            # Who counts cells may count too many, and a sum of many k-ary answers can be surer than one of few.
            summed = (cells,) if always else range(1, max(1, cells) + 1)
            variance, step = asked[:, question] * max(_largest(law, c) for c in summed), _step(law, cells)
            return bernstein(variance, step, failure_probability, always=always).reshape(rows)

        return bound

    def _noise_in(self, statistic: str) -> Floats:
        """The variance of a count of each row that nobody has an answer for."""
        question, cells = _CELLS[statistic]
        variance = self._asked[:, question] * _variance(self._channel.law_of(question), cells, have=False)
        return np.asarray(variance).reshape(1, self._shape.states, self._shape.actions)


# The question whose answers a statistic counts, and how many of its cells; 0: those of all successors.
_CELLS = {"visits": (BIT, 2), "rewards": (BIT, 1), "transitions": (SUCCESSOR, 1), "followed": (SUCCESSOR, 0)}


def answers_of(channel: AskedChannel, truths: Floats, asked: Floats, generator: np.random.Generator) -> Floats:
    """How often each answer is given, drawn exactly in law from the tally of clear ones; cost independent of users."""
    answers, encoder = np.zeros(channel.encoder.layout.size), channel.encoder
    for question, law in enumerate(channel.laws):
        table = encoder.successors if question == SUCCESSOR else encoder.bits
        users, known = asked[:, question].astype(np.int64), table(truths).astype(np.int64)
        everybody = np.concatenate([known, [users - known.sum(axis=0)]])  # the last answer is "none"
        shares = None if isinstance(law, UnaryEncoding) else even(law.items)
        table(answers)[...] = draw_answers(everybody, users, law.p, law.q, shares, generator)[:-1]
    return answers


def quietest_answers(encoder: AskedFirstVisit, epsilon: float, response: str | None = None) -> AskedChannel:
    """The channel whose successors have the least noise; a response that is given is kept."""
    channels = [AskedChannel(encoder, epsilon, kind) for kind in (RESPONSES if response is None else (response,))]
    return min(channels, key=lambda channel: channel.noise_per_row())


def _variance(law: ItemLaw, cells: int, have: bool) -> float:
    """The variance of a decoded sum of cells for one user who has, or has not, one of these answers."""
    if isinstance(law, UnaryEncoding):
        bits = cells * law.q * (1 - law.q) + have * (law.p * (1 - law.p) - law.q * (1 - law.q))
        return bits / (law.p - law.q) ** 2
    chance = cells * law.q + have * (law.p - law.q)
    return chance * (1 - chance) / (law.p - law.q) ** 2


def _largest(law: ItemLaw, cells: int) -> float:
    return max(_variance(law, cells, have) for have in (False, True))


def _step(law: ItemLaw, cells: int) -> float:
    """How far one answer can move a decoded sum of cells."""
    return (cells if isinstance(law, UnaryEncoding) else 1) / (law.p - law.q)
