"""What devices send, as one mechanism: a question, what can answer it, a randomiser, and a way to the count.

=========================  ======================================  =======================  =========================
mechanism                  question                                randomiser               way
=========================  ======================================  =======================  =========================
``sampled_item``           public: the item at some steps          kary or unary            each by itself
``asked_first_visit``      public: the first visit of one row      kary or unary            each by itself
``shuffled_item``          her own: the item at one step           kary                     a shuffled batch
``answered_bits``          every counter of an encoder             a bit for each           either
=========================  ======================================  =======================  =========================

A *question* is fixed without regard to data. An item that she has is said with probability p, any other one with q.
With n users who were asked,

    estimate of a count = (said - n q) / (p - q),

times the steps that an answer stands for. What is here is the same for all of them: laws, answers drawn exactly in law
from a tally of true ones (:func:`draw_answers`), the bound on errors (:func:`bernstein`), and, for public questions,
what is refused and how often each answer was given (:class:`Survey`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np

from discreet.base.errors import InvalidInput
from discreet.base.policies import AnyPolicy, Mixture, Policy
from discreet.base.saved_arrays import Saved, nothing_secret
from discreet.base.shape import Shape
from discreet.base.types import Floats, Integers, Mask, NDArray
from discreet.mechanisms.counts.encoder import Context
from discreet.mechanisms.mechanism import ChannelRun, PlainRun, Tabular
from discreet.mechanisms.sums.accumulator import NoiseSource
from discreet.noise import KaryRandomizedResponse, UnaryEncoding
from discreet.privacy.messages import BitPerItem, Message, SampledItems

STATISTICS = ("visits", "transitions", "rewards")
RESPONSES = ("kary", "unary")
EPOCH = 1.5  # how much the variance grows between two looks of a bound that holds always

ItemLaw = KaryRandomizedResponse | UnaryEncoding


class Report(NamedTuple):
    """What leaves the device for one question, or step: an item (k-ary) or one bit per item (unary)."""

    step: int
    message: Integers


class Asks(NamedTuple):
    """What devices can be asked in a round, by question: the law of an answer, and the cells that its items stand for.

    Items past the cells say that there is none. ``may``: whether anybody is asked.
    """

    laws: tuple[ItemLaw, ...]
    places: tuple[Integers, ...]
    may: Mask


class Survey(Tabular):
    """Public questions to each user, drawn before she acts; answers are randomised one by one."""

    encoder: Any

    def start(self, shape: Shape, noise: NoiseSource, masked: bool) -> ChannelRun:
        """Begin a run."""
        raise NotImplementedError

    def noise_per_row(self) -> float:
        """The noise variance in all counts of one (state, action), per user."""
        raise NotImplementedError

    @property
    def takes_own_actions(self) -> bool:
        """Whether devices may draw actions that nobody else knows: yes, where a question names its action."""
        return True

    @property
    def shipped_epsilon(self) -> float:
        """The loss of a whole message, certified from the probabilities that are really used."""
        raise NotImplementedError

    def asks(self, policy: AnyPolicy, masked: bool = True) -> Asks:
        """What devices can be asked under a policy."""
        raise NotImplementedError

    def check(self, asks: Asks, message: Sequence[Report]) -> None:
        """Refuse a message that no device makes in such a round."""
        raise NotImplementedError

    def form(self, masked: bool) -> dict[str, Any]:
        """How a device makes its report, as clients are told."""
        raise NotImplementedError

    def laws_of(self, policy: AnyPolicy, masked: bool) -> tuple[ItemLaw, ...]:
        """The laws that clients are told in a round with this policy."""
        raise NotImplementedError

    def empty(self) -> tuple[Floats, Floats]:
        """Nothing counted yet: how often each cell was said, and how many were asked each question."""
        raise NotImplementedError

    def count(
        self, policy: AnyPolicy, messages: Sequence[Sequence[Report]], *, masked: bool = True
    ) -> tuple[Floats, Floats]:
        """How often each cell was said, and how many were asked each question; all is checked before any counts."""
        asks = self.asks(policy, masked)
        for message in messages:
            self.check(asks, message)
        return self.count_unchecked(asks, messages)

    def count_unchecked(self, asks: Asks, messages: Sequence[Sequence[Report]]) -> tuple[Floats, Floats]:
        """The same for messages that are known to be well-formed."""
        said, asked = self.empty()
        cells, questions = said.reshape(-1), asked.reshape(-1)
        for message in messages:
            for question, sent in message:
                questions[question] += 1
                items = np.flatnonzero(sent) if isinstance(asks.laws[question], UnaryEncoding) else sent
                places = asks.places[question]
                cells[places[items[items < len(places)]]] += 1
        return said, asked

    def shortcut(self, blocks: list[int]) -> list[int]:
        """Two blocks: every user adds noise of her own, so the number of blocks does not matter."""
        return [blocks[0], sum(blocks[1:])] if len(blocks) > 1 else blocks


@runtime_checkable
class SurveyRun(Protocol):
    """The run of a :class:`Survey`: real devices answer, and their answers are taken in."""

    @property
    def channel(self) -> Survey:
        """What its answers are made and read by."""

    def weights(self, policy: AnyPolicy) -> tuple[int, ...] | None:
        """How likely each (state, action) is to be asked about next; None where nobody is asked such questions."""

    def add_reports(self, said: Floats, asked: Floats, users: int, context: Context) -> None:
        """Take in how often each cell was said, and how many were asked each question."""


class DecodedRun(PlainRun):
    """A run whose state, the attributes named ``KEPT``, comes from what devices have randomised: none of it is secret.

    An attribute is a table, or one for each statistic; those of ``values`` are saved under the statistics' own names.
    """

    KEPT: ClassVar[tuple[str, ...]]

    def save(self) -> Saved:
        """Decoded counts and what is known of their noise."""
        return nothing_secret(**{name: table for kept in self.KEPT for name, table in self._named(kept).items()})

    def load(self, saved: Saved) -> None:
        """Go on from these counts."""
        for kept in self.KEPT:
            tables = getattr(self, f"_{kept}")
            found = [saved.public[name].copy() for name in self._named(kept)]
            setattr(self, f"_{kept}", dict(zip(tables, found, strict=True)) if isinstance(tables, dict) else found[0])

    def _named(self, kept: str) -> Mapping[str, NDArray[Any]]:
        tables, prefix = getattr(self, f"_{kept}"), "" if kept == "values" else f"{kept}."
        return {prefix + name: tables[name] for name in tables} if isinstance(tables, dict) else {kept: tables}


@lru_cache(maxsize=4096)
def law_of(response: str, epsilon: float, items: int) -> ItemLaw:
    """The law of one of so many items with this loss."""
    return KaryRandomizedResponse(epsilon, items) if response == "kary" else UnaryEncoding(epsilon, items)


def message_by(laws: Sequence[ItemLaw], answers: int = 1) -> Message:
    """What so many answers by laws of these sizes are, by the fractions that are really used, for a certificate."""
    if isinstance(laws[0], UnaryEncoding):
        return BitPerItem(answers, max(law.lie for law in laws))
    return SampledItems(answers, tuple((law.items, law.lie) for law in laws))


def fits(sent: Integers, size: int, most: int) -> bool:
    """Whether an answer is so many whole numbers from 0 to ``most``."""
    return sent.shape == (size,) and sent.dtype.kind in "iu" and int(sent.min()) >= 0 and int(sent.max()) <= most


def draw_answers(
    true: Integers, users: Any, p: float, q: float, shares: Floats | None, generator: np.random.Generator
) -> Integers:
    """How often each item is said, drawn exactly in law; rows are items, and there may be a column for each question.

    ``true`` counts those who have it among ``users`` who were asked. A k-ary lie says item i with probability
    ``shares[i]``, and there may be more of them than of ``true``, where nobody counts the rest; without shares each
    item is answered by a bit. The cost knows no users.
    """
    if shares is None:
        return np.asarray(generator.binomial(true, p) + generator.binomial(users - true, q))
    kept = generator.binomial(true, p - q)  # a coin shows the truth, and any other answer is drawn by shares
    return np.asarray(kept + generator.multinomial(users - kept.sum(axis=0), shares).T[: len(kept)])


def even(items: int) -> Floats:
    """The shares of items that lies say alike."""
    return np.full(items, 1.0 / items)


def bernstein(
    variance: Floats, step: Any, failure_probability: float, *, always: bool, per_visit: Any = 0.0, visits: Any = 0.0
) -> Floats:
    """A bound w on the error of a count whose variance is ``variance`` + ``per_visit`` times its own true value.

    The true value is at most ``visits`` + w, which makes w the root of a quadratic; ``step`` is how far one answer can
    move the estimate. ``always``: for all releases at once, however questions were chosen (Freedman). That peels: the
    variance is cut into epochs that grow by a constant factor, and epoch j gets 1 / ((j+1)(j+2)) of the probability.
    """
    log, factor = np.full(np.shape(variance), math.log(2 / failure_probability)), 1.0
    seen = np.maximum(visits, 0.0)
    if always:
        factor = EPOCH
        known = variance + per_visit * seen
        epoch = np.floor(np.log(np.maximum(known / np.maximum(step, 1e-100) ** 2, 1.0)) / math.log(EPOCH)) + 1.0
        log = log + np.log((epoch + 1) * (epoch + 2))
    jump = step * log / 3
    slope = factor * log * per_visit
    # w = sqrt(2 factor log (variance + per_visit (visits + w))) + jump
    inside = 2 * factor * log * (variance + per_visit * (seen + jump))
    return np.asarray(jump + slope + np.sqrt(slope**2 + inside))


def check_policy(shape: Shape, policy: AnyPolicy) -> None:
    """Refuse a policy for other sizes: it would be taken for one that plays the same at every step."""
    table = (shape.horizon, shape.states)
    for part in policy.components if isinstance(policy, Mixture) else (policy,):
        if isinstance(part, Policy):
            fits = part.actions.shape == table and part.actions.max() < shape.actions
        else:
            fits = part.probabilities.shape == (*table, shape.actions)
        if not fits:
            raise InvalidInput(
                f"a policy must have an action below {shape.actions} for {shape.horizon} steps and "
                f"{shape.states} states"
            )
