r"""Bits that are answered on the device by randomised response: through a shuffler once per batch, or without one.

Garcelon, Perchet, Pike-Burke, Pirotta, "Local differential privacy for regret minimization in reinforcement learning"
(2021). A trajectory becomes bits, and nothing leaves a device in clear. Two channels:

**Without a shuffler** (``AnsweredBitsChannel``, the paper's third randomiser). A user has, at each step, one bit for
every (state, action) in the tables of visits and rewards, and one for every (state, action, successor) in that of
transitions. She answers each of them truly with probability e^e / (1 + e^e). A replaced trajectory changes at most 2H
bits of visits, 2H of rewards and 2(H-1) of transitions, so the message is pure

    epsilon = (6 H - 2) e.

The server decodes (ones - n q) / (p - q) and, in time-homogeneous worlds, adds the steps up. A decoded bit has variance
p q / (p - q)^2, whatever it was, so the stated variances are exact.

**In shuffled batches** (``ResponseChannel``, the shuffle appendix of the paper in batches: appendix I, algorithms 8 to
10). Bits come from :mod:`discreet.mechanisms.counts.three_tables`, and each bit x is sent as

    R_p(x) = x with probability 1 - p, a fair coin otherwise            (randomised response with q = p / 2),

a shuffler permutes, and the analyser takes (ones - n p / 2) / (1 - p) for the count. In contrast to noise bits beside
true ones (:mod:`discreet.mechanisms.shuffled`), a message has one bit per counter, and if the shuffler fails a pure
local promise is left.

**Formal guarantees of batches.** Every user is in one batch, every bit is a message of its own, and the shuffler
permutes each counter of a batch by itself, so that of n users only the numbers of ones are left. p is the smallest that
keeps (epsilon, delta) for replacing one whole trajectory, by the exact accounting of
:mod:`discreet.noise.shuffled_randomized_response` over all bits that she can flip: 2 (m + 2) H - 2 of the paper's
encoding with m reward bits, 2 H of one joint table per step, 2 min(H, S A) of first visits. Without the shuffler her
message alone is pure (number of flipped bits) * ln(2 / p - 1).

**Differences from the paper.** In print the shuffler hands on whole messages, and the prefix of all of them anew
before every episode, which amplifies nothing: see :mod:`discreet.papers.ldp_obi`. Equation (111) subtracts
the mean of a last step that has no transition; here it has no bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from discreet.base.errors import Unsupported
from discreet.base.shape import Shape
from discreet.base.types import Floats, Integers, Mask, NDArray
from discreet.mechanisms.counts.encoder import Context, Encoder
from discreet.mechanisms.counts.first_visit import FirstVisit, FirstVisitTables
from discreet.mechanisms.counts.joint_histogram import JointHistogram
from discreet.mechanisms.counts.three_tables import ThreeTables
from discreet.mechanisms.counts.two_tables import TwoTables
from discreet.mechanisms.mechanism import MessageTerms, PlainRun, RadiusOf, Tabular, WidthOf, asked_rows, row_shape
from discreet.mechanisms.messages.survey import EPOCH, DecodedRun
from discreet.mechanisms.release import UNMIXED, Estimate, Layer, MixedBlocks
from discreet.mechanisms.shuffled import layer_rows, shuffle
from discreet.mechanisms.sums.accumulator import DeviceNoise, NoiseSource, coins_of
from discreet.noise import RandomizedResponse
from discreet.noise.shuffled_randomized_response import ShuffledResponse, calibrate_response
from discreet.privacy.guarantee import Guarantee, from_reports, locally
from discreet.privacy.messages import AnsweredBits
from discreet.privacy.sensitivity import Sensitivity
from discreet.privacy.words import rounded_up

_NO_TALLY = "no tally of true bits exists outside simulations: let users answer their own bits"
# How a device makes the bits of an encoder: which layout they have, and whether only first visits count. Two tables
# say the latter themselves.
_FORMS: dict[type, tuple[str, bool]] = {
    JointHistogram: ("joint", False),
    FirstVisit: ("joint", True),
    ThreeTables: ("tables", False),
    FirstVisitTables: ("tables", True),
}


@dataclass(frozen=True)
class ResponseChannel(Tabular):
    """Answered bits of one encoder through a shuffler, as truthful as the size of each batch allows.

    The encoder may have a table per step where ``shape`` pools them: its counts are added up after the shuffler.
    ``absent`` is the share of a batch whose answers do not count, ``block`` the size of a usual batch. ``round_sizes``
    is for batches of many sizes: each is calibrated as one of a round size that is at most its own, so that few sizes
    have to be certified (whoever is left uncounted only adds noise).
    """

    shape: Shape
    encoder: Encoder
    epsilon: float
    delta: float
    block: int
    absent: float = 0.0
    bit_level: bool = False
    round_sizes: bool = False

    @property
    def mixing(self) -> MixedBlocks | None:
        """Every batch has noise of its own."""
        return UNMIXED

    @property
    def answers(self) -> frozenset[type]:
        """Requests for one step, where steps are counted apart; otherwise whole tables only."""
        return frozenset({Layer}) if not self.shape.homogeneous or self.shape.horizon == 1 else frozenset()

    @property
    def law(self) -> ShuffledResponse:
        """What becomes of one counter of a batch of the usual size."""
        return self.response(self.block)

    def sensitivity(self, what: Layer | None = None) -> Sensitivity:
        """What replacing one user flips in a batch: bits of all steps, or of one."""
        return self.encoder.sensitivity() if what is None else self.encoder.layer_sensitivity(what.step)

    def response(self, users: int, what: Layer | None = None) -> ShuffledResponse:
        """How every user of a batch of that size answers each of her bits."""
        return replace(self.counted(users, what), users=users)

    def certified(self, users: int, what: Layer | None = None) -> Guarantee:
        """The promise of one batch of that size, computed from the answers of those who count."""
        law, sensitivity = self.counted(users, what), self.sensitivity(what)
        return from_reports(
            law.profile(sensitivity),
            delta=self.delta,
            name=f"{self.encoder.name} bits in a batch of {users}",
            moves=f"{sensitivity.cells} bits, each in a counter of its own",
            law=f"every bit answered with a loss of {rounded_up(law.response.shipped_epsilon, 6)} "
            f"(p = {2 * law.response.q:.6g}), and the ones of {law.users} users counted: "
            "the worst of all that the others may hold",
            message=AnsweredBits(law.response.lie, sensitivity.cells, law.users - 1),
        )

    def unshuffled(self, users: int, what: Layer | None = None) -> Guarantee:
        """What is left of the promise if the shuffler keeps who sent what: that of the device alone."""
        law, moves = self.counted(users, what), self.sensitivity(what).cells
        part = from_reports(
            law.response.profile(moves),
            delta=0.0,
            name=f"{self.encoder.name} bits",
            moves=f"{moves} bits",
            law=f"randomised response with a loss of {rounded_up(law.response.shipped_epsilon, 6)} a bit",
            message=AnsweredBits(law.response.lie, moves),
        )
        return locally(part)

    def start(self, shape: Shape, noise: NoiseSource, masked: bool) -> ResponseRun:
        """Begin a run: a simulation, or one that is handed the answers of devices."""
        return ResponseRun(self, noise, masked)

    def form(self, masked: bool) -> dict[str, Any]:
        """Which bits a device answers: their layout, per step or pooled, of every visit or of first visits."""
        encoder = self.encoder
        form = ("two-tables", encoder.first_visit) if isinstance(encoder, TwoTables) else _FORMS.get(type(encoder))
        if form is None:
            raise Unsupported(
                f"devices cannot answer the bits of {encoder.name} with {encoder.levels} reward levels yet: "
                "take levels = 1"
            )
        layout, first = form
        return {
            "kind": "answered-bits",
            "layout": layout,
            "groups": encoder.shape.groups,
            "first_visits": first,
            "masked": masked,
        }

    def terms(self, context: Context, users: int, masked: bool) -> MessageTerms:
        """One message a counter: 2 c + answer says that counter c was answered so."""
        counters = len(self.counters(context, masked))
        return MessageTerms(counters, 2 * counters, ((counters, self.response(users).response.threshold),))

    def counters(self, context: Context, masked: bool, what: Layer | None = None) -> Integers:
        """The cells whose bits are answered: those that can be one under the public policy, in their order."""
        rows = asked_rows(self.encoder.shape, context, masked)
        if what is not None:
            rows = rows & layer_rows(self.encoder.shape, what.step)
        return np.flatnonzero(self.encoder.rows_to_cells(rows) & self.encoder.possible())

    def noise_per_row(self) -> float:
        """Visits are charged as sums of transitions, because learners go by those: so "auto" finds what learns fast."""
        cells = self.cells_per_count()
        followed = self.shape.states * cells["transitions"]
        counts = max(cells["visits"], followed) + followed + cells["rewards"] / self.encoder.levels
        return self.law.variance * counts

    def cells_per_count(self) -> dict[str, int]:
        """Bits of all steps where these are pooled. A reward in levels is a mean of its bits, so it counts as fewer."""
        marginals = self.encoder.marginals(np.zeros(self.encoder.size))
        over = np.sum if self._pools else np.max
        counts = {name: int(over(statistic.cells)) for name, statistic in marginals.items()}
        return {**counts, "rewards": counts["rewards"] // self.encoder.levels}

    def counted(self, users: int, what: Layer | None = None) -> ShuffledResponse:
        """The answers of a batch of that size that the promise counts on: those of users who are present."""
        # Absent or colluding users hide nobody. The user who is to be protected is present, so there is at least one.
        counted = max(1, math.floor((1 - self.absent) * users))
        if self.round_sizes:
            counted = _round_below(counted)
        return calibrate_response(counted, self.sensitivity(what).cells, self.epsilon, self.delta)

    @property
    def _pools(self) -> bool:
        return self.shape.homogeneous and not self.encoder.shape.homogeneous


class ResponseRun(DecodedRun):
    """Decoded numbers of ones, added up over batches."""

    KEPT = ("values", "variance", "step")
    _channel: ResponseChannel

    def __init__(self, channel: ResponseChannel, noise: NoiseSource, masked: bool) -> None:
        rows = row_shape(channel.encoder.shape)
        self._channel, self._masked = channel, masked
        self._noise = noise
        if not isinstance(noise, DeviceNoise):
            coins_of(noise, _NO_TALLY)
        self._values = np.zeros(channel.encoder.size)
        self._variance = np.zeros(rows)  # of the noise in one counter of a row
        self._step = np.zeros(rows)  # the most that one answer moves a decoded count away from its mean

    def add(self, tally: Floats, users: int, context: Context) -> None:
        """Take in a batch: of each counter only the number of ones is drawn, and decoded."""
        encoder, what = self._channel.encoder, context.what if isinstance(context.what, Layer) else None
        cells, law = self._channel.counters(context, self._masked, what), self._channel.response(users, what)
        self._values[cells] += law.response.decode(self._ones(law, tally[cells].astype(np.int64)), users)
        rows = asked_rows(encoder.shape, context, self._masked)
        self._note(law, rows if what is None else rows & layer_rows(encoder.shape, what.step))

    def add_messages(self, counts: Integers, users: int, context: Context) -> None:
        """Take in the messages of a batch of devices; each counter is decoded from the answers that can be read."""
        cells, law = self._channel.counters(context, self._masked), self._channel.response(users)
        zeros, ones = counts.reshape(len(cells), 2).T
        self._values[cells] += law.response.decode(ones, zeros + ones)
        self._note(law, asked_rows(self._channel.encoder.shape, context, self._masked))

    def _note(self, law: ShuffledResponse, rows: Mask) -> None:
        self._variance += law.variance * rows
        self._step = np.maximum(self._step, rows * law.response.p / (law.response.p - law.response.q))

    def estimates(self) -> dict[str, Estimate]:
        """Steps are pooled here, after the shuffler; rewards in levels are means of their cells."""
        return _estimates(self._channel.encoder, self._values, self._variance, pools=self._channel._pools)

    def width_now(self) -> WidthOf:
        """Bernstein's bound: how far ones and zeros answer away from their mean, whoever holds which."""
        variance, step, steps = self._variance.copy(), self._step.copy(), 1
        if self._channel._pools:  # cells are then spread over all steps
            steps = len(variance)
            variance, step = variance.sum(axis=0, keepdims=True), step.max(axis=0, keepdims=True)
        return lambda cells_summed, failure_probability: _bernstein(
            math.ceil(cells_summed / steps) * variance, step, np.log(2 / failure_probability)
        )

    def radius_now(self) -> RadiusOf:
        """The same for all releases at once, peeled by the variance, which is public before a batch is asked for."""
        variance = {name: estimate.variance for name, estimate in self.estimates().items()}
        variance["followed"] = self._channel.shape.states * variance["transitions"]
        step = self._step.max(axis=0, keepdims=True) if self._channel._pools else self._step.copy()

        def radius(statistic: str, failure_probability: float) -> Floats:
            noise = variance[statistic]
            epoch = np.floor(np.log(np.maximum(noise / np.maximum(step, 1e-100) ** 2, 1.0)) / math.log(EPOCH)) + 1.0
            share = np.log(2 * (epoch + 1) * (epoch + 2) / failure_probability)
            return _bernstein(EPOCH * noise, step, share)

        return radius

    def _ones(self, law: ShuffledResponse, true: Integers) -> Integers:
        response, draw = law.response, coins_of(self._noise, _NO_TALLY)
        if not self._channel.bit_level:
            return draw.binomial(true, response.p) + draw.binomial(law.users - true, response.q)
        # Who holds the ones does not matter: the shuffler forgets it.
        bags = (respond(np.arange(law.users) < count, response, draw) for count in true)
        return np.array([shuffle(bag.astype(np.uint8), draw).sum(dtype=np.int64) for bag in bags], np.int64)


@dataclass(frozen=True)
class AnsweredBitsChannel(Tabular):
    """Bits of three tables per step, each answered by ``law``."""

    shape: Shape
    law: RandomizedResponse

    @property
    def encoder(self) -> ThreeTables:
        """Three tables per step, whatever the declared time: bits move by one."""
        return ThreeTables(replace(self.shape, homogeneous=False))

    @property
    def bit_variance(self) -> float:
        """The variance of one decoded bit, which does not depend on the bit."""
        return float(self.law.variance(1))

    def start(self, shape: Shape, noise: NoiseSource, masked: bool) -> AnsweredBitsRun:
        """Begin a run."""
        return AnsweredBitsRun(self, shape, noise, masked)

    def cells_per_count(self) -> dict[str, int]:
        """Bits of all steps where they are pooled."""
        H = self.shape.horizon if self.shape.homogeneous else 1
        followed = H - 1 if self.shape.homogeneous else int(self.shape.horizon > 1)
        return {"visits": H, "transitions": followed, "rewards": H}

    def shortcut(self, blocks: list[int]) -> list[int]:
        """Two blocks: every user adds noise of her own, so the number of blocks does not matter."""
        return [blocks[0], sum(blocks[1:])] if len(blocks) > 1 else blocks

    def noise_per_row(self) -> float:
        """The noise variance in one user's decoded bits of one (state, action)."""
        counts = self.cells_per_count()
        return self.bit_variance * (counts["visits"] + counts["transitions"] * self.shape.states + counts["rewards"])


class AnsweredBitsRun(PlainRun):
    """Decoded sums of answered bits."""

    _channel: AnsweredBitsChannel

    def __init__(self, channel: AnsweredBitsChannel, shape: Shape, noise: NoiseSource, masked: bool) -> None:
        self._channel, self._shape, self._noise, self._masked = channel, shape, noise, masked
        self._encoder = channel.encoder
        self._values = np.zeros(self._encoder.size)
        self._bits = np.zeros((shape.horizon, shape.states, shape.actions))  # answers to each bit of a row

    def add(self, tally: Floats, users: int, context: Context) -> None:
        """Take in a tally of clear bits, of which simulated answers are decoded."""
        draw = coins_of(
            self._noise, "in the local model no tally of clear bits exists: let users answer their own bits"
        )
        law, encoder = self._channel.law, self._encoder
        rows = asked_rows(encoder.shape, context, self._masked)
        cells = np.flatnonzero(encoder.rows_to_cells(rows) & encoder.possible())
        true = tally[cells].astype(np.int64)
        ones = draw.binomial(true, law.p) + draw.binomial(users - true, law.q)
        self._values[cells] += law.decode(ones, users)
        self._bits += users * rows

    def estimates(self) -> dict[str, Estimate]:
        """Exact variances, steps added up where they are pooled."""
        variance = self._channel.bit_variance * self._bits
        return _estimates(self._encoder, self._values, variance, pools=self._shape.homogeneous)

    def width_now(self) -> WidthOf:
        """Hoeffding's bound on a sum of answered bits, each of range 1 / (p - q)."""
        bits = self._bits.sum(axis=0, keepdims=True) if self._shape.homogeneous else self._bits.copy()
        steps = self._shape.horizon if self._shape.homogeneous else 1
        reach = 1.0 / (self._channel.law.p - self._channel.law.q)

        def width(cells_summed: int, failure_probability: float) -> Floats:
            return np.asarray(reach * np.sqrt(bits / steps * cells_summed * np.log(2 / failure_probability) / 2))

        return width


def _round_below(users: int) -> int:
    """The largest number up to this one with at most four binary digits before its zeros: at least 8/9 of it."""
    zeros = max(0, users.bit_length() - 4)
    return users >> zeros << zeros


def _estimates(encoder: Encoder, cells: Floats, variance: Floats, *, pools: bool) -> dict[str, Estimate]:
    """The statistics of decoded cells; ``variance`` is that of one cell of each row. ``pools``: steps are added up."""
    estimates = {}
    for name, statistic in encoder.marginals(cells).items():
        scale = encoder.levels**2 if name == "rewards" else 1
        values, noise = statistic.values.copy(), variance * statistic.cells / scale
        if pools:
            values, noise = values.sum(axis=0, keepdims=True), noise.sum(axis=0, keepdims=True)
        estimates[name] = Estimate(values, noise)
    return estimates


def _bernstein(variance: Floats, step: Floats, log: Any) -> Floats:
    return np.asarray(np.sqrt(2 * variance * log + (step * log / 3) ** 2) + step * log / 3)


def respond(bits: NDArray[Any], response: RandomizedResponse, generator: np.random.Generator | None = None) -> Integers:
    """What leaves a device: every bit answered by itself, from the operating system's entropy without a generator."""
    return response.randomize_securely(bits) if generator is None else response.randomize(bits, generator)
