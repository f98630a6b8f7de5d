r"""Randomised reports of one item per picked step: the quietest channel of the local model.

A user holds one item x = (state, successor or end, reward bit) at each step that the public coins picked; the action is
known from the public policy. Two ways to send it with epsilon:

* **k-ary randomised response** over the d possible items. Written as a coin: with probability tau = p - q the report is
  the truth, otherwise an item drawn evenly from all d. So reports of n users are a thinned true histogram plus
  lies of known law, and

      estimate of a count = (H / m) (reports - n (1 - tau) share) / tau,

  where ``share`` is the part of all items that feed the count.
* **optimised unary encoding**: one bit per item, true with p = 1/2 and false with q = 1 / (e^epsilon + 1); the variance
  of an item does not grow with d. The estimate is (H / m) (ones - n q) / (p - q).

The variance of a count that a user can feed with P0 = (1 - tau) share at each of T steps is, over lies and coins,

      T (H / m) P0 (1 - P0) / tau^2  +  visits (H / m) (1 - 2 P0) / tau  -  visits^2        (unary: 2 H / m a visit).

A release states the first term, which is public; visits are what is being estimated, so ``width`` and ``radius``
bound the second by the estimate itself.

**Actions.** A deterministic policy gives the action. With a stochastic policy or a mixture and one picked step, public
coins draw the action of every (step, state) beforehand, which leaves the law of the trajectory as it is; with unary
bits or several picked steps the action is part of the item instead, because there the lies of one user would share it.
So it is with ``own_actions``: there devices draw actions by themselves, and nobody else knows which.

**Formal guarantees.** Each report is pure epsilon / m for any two trajectories, whatever the policy, so the message is
pure epsilon. The probabilities are the fractions that are really sent, and epsilon is certified from those.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from discreet.base.errors import InvalidInput, Unsupported
from discreet.base.policies import AnyPolicy, Mixture, Policy, StochasticPolicy
from discreet.base.shape import Shape
from discreet.base.types import Floats, Mask
from discreet.mechanisms.counts.encoder import Context
from discreet.mechanisms.counts.sampled_step import SampledStep
from discreet.mechanisms.mechanism import RadiusOf, WidthOf
from discreet.mechanisms.messages.survey import (
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
from discreet.privacy.messages import BoundedReports, Message


class Step(NamedTuple):
    """How an item of one step is sent and read: probabilities of a true and a false one, and the number of items."""

    truth: float
    lie: float
    items: int

    @property
    def weight(self) -> float:
        """How much likelier a true item is than a false one."""
        return self.truth - self.lie


_MOST_SIZES = 4096  # of domains whose laws are compared


class Domain(NamedTuple):
    """What can be reported under one public policy."""

    steps: tuple[Step, ...]
    cells: Mask  # (H, S, A, S + 1, 2): cells that a report can land in
    shares: Floats  # (H, S, A): with k-ary reports, the chance that a lie lands in one given cell of the row


@dataclass(frozen=True)
class ReportChannel(Survey):
    """Sampled steps, each item sent by ``response`` ("kary" or "unary") with its part of ``epsilon``."""

    encoder: SampledStep
    epsilon: float
    response: str
    own_actions: bool = False

    @property
    def shipped_epsilon(self) -> float:
        """The loss of a whole message, certified from the probabilities that are really used.

        Probabilities are rounded, for each size of a domain in its own way, and policies decide the sizes: the largest
        loss of all of them counts. Where they are too many to try, it is the epsilon that none of them exceeds.
        """
        if (sizes := self._sizes()) is None:
            return self.epsilon
        return self.encoder.steps * max(self._law(items).shipped_epsilon for items in sizes)

    @property
    def message(self) -> Message:
        """What a whole message is, by the fractions that are really used, for a certificate."""
        sizes = self._sizes()
        if sizes is None:
            return BoundedReports(self.encoder.steps, self.epsilon / self.encoder.steps)
        return message_by([self._law(items) for items in sizes], self.encoder.steps)

    def _sizes(self) -> list[int] | None:
        """All numbers of items that a domain can have; None where they are too many."""
        shape, slots = self.encoder.shape, self.encoder.slots()
        pairs, successors = shape.states * shape.actions, {int(row.sum()) for row in slots}
        if self.response == "kary" and pairs * len(successors) > _MOST_SIZES:
            return None
        sizes = {2 * n * own + self.encoder.early_end for n in range(1, pairs + 1) for own in successors}
        return sorted(items for items in sizes if items > 1)

    def start(self, shape: Shape, noise: NoiseSource, masked: bool) -> ReportRun:
        """Begin a run."""
        return ReportRun(self, shape, noise, masked)

    def noise_per_row(self) -> float:
        """Per user and (state, action), for a policy that plays it at every step and visits all states alike.

        Where steps are pooled, counts of every visit hold up to H / (S A) times as much as first visits do; noise is
        stated in units of the latter, so that "auto" compares noise with what it hides.
        """
        encoder = self.encoder
        shape, slots = encoder.shape, encoder.slots()
        pairs = shape.states * shape.actions
        unit = min(1.0, pairs / shape.horizon) if shape.homogeneous else 1.0
        total = 0.0
        worth = self._reward_worth()
        for h, step in enumerate(self._steps_for(self.own_actions)):
            T = int(slots[h].sum())
            counts = [
                (2 * T, 1.0, 1, 1.0),
                (T, 0.5, 1, worth),
                (2, 1.0 / T, int(slots[h, : shape.states].sum()), 1.0),
            ]
            for cells, part, copies, square in counts:
                empty, visit = self._variances(step, cells, 1.0 / step.items, square)
                extra = max(0.0, encoder.scale * visit - 1.0)
                total += copies * (encoder.scale * empty + part * extra / shape.states)
        return float(unit**2 * total / shape.groups)

    def variance_of_ones(self, users: float, visits: float) -> float:
        """The variance of a row's decoded ones if half of its visits are ones, and if it is played at every step."""
        steps, slots = self._steps_for(self.own_actions), self.encoder.slots()
        lies = sum(float(self._variances(s, int(slots[h].sum()), 1.0 / s.items)[0]) for h, s in enumerate(steps))
        per_visit = max(float(self._variances(step, 0, 0.0)[1]) for step in steps)
        return self.encoder.scale * (users * lies / self.encoder.shape.groups + visits * per_visit / 2)

    def _reward_worth(self) -> float:
        """The sum of the squares of what a zero and a one are worth: one, unless a bit stands for a clipped reward."""
        zero, one = self.encoder.bit_worth
        return zero**2 + one**2

    def _variances(self, step: Step, cells: int, share: float | Floats, worth: float = 1.0) -> tuple[Any, Any]:
        """Variance of a decoded count of so many cells for one report of another item, and what a true item adds.

        ``worth`` is the square of what a cell adds to the count, summed over zeros and ones where both add something;
        together they are worth one.
        """
        if self.response == "unary":
            off = step.lie * (1 - step.lie) / step.weight**2
            return cells * worth * off * (np.asarray(share) > 0), (1 - 2 * step.lie) / step.weight
        false = (1 - step.weight) * cells * np.asarray(share)
        return false * (worth - false) / step.weight**2, (1 - 2 * false) / step.weight

    def domain(self, policy: AnyPolicy, masked: bool) -> Domain:
        """What users can report under a policy, and where lies land."""
        encoder = self.encoder
        weights = action_weights(encoder.shape, policy) if masked else np.ones(encoder.table[:3])
        shared = self.own_actions or encoder.steps > 1 or self.response == "unary"
        in_item = not isinstance(policy, Policy) and shared
        pairs = weights > 0
        slots = encoder.slots()
        choices = pairs.sum(axis=(1, 2)) if in_item or not masked else pairs.any(axis=2).sum(axis=1)
        sizes = choices * slots.sum(axis=1) * 2 + encoder.early_end
        steps = tuple(self._step(int(items)) for items in sizes)
        per_item = pairs if in_item or not masked else weights
        cells = pairs[:, :, :, None, None] & slots[:, None, None, :, None] & np.ones(2, np.bool_)
        return Domain(steps, cells, per_item / sizes[:, None, None])

    def law_at(self, domain: Domain, h: int) -> ItemLaw:
        """The law by which an item of step ``h`` is sent."""
        return self._law(domain.steps[h].items)

    def laws_of(self, policy: AnyPolicy, masked: bool) -> tuple[ItemLaw, ...]:
        """One for each step."""
        return tuple(self._law(step.items) for step in self.domain(policy, masked).steps)

    def form(self, masked: bool) -> dict[str, Any]:
        """Items of some steps."""
        how = {"steps": self.encoder.steps, "response": self.response, "masked": masked}
        return {"kind": "sampled-items", **how, "early_end": self.encoder.early_end}

    @property
    def takes_own_actions(self) -> bool:
        """Only where an action is part of the item."""
        return self.own_actions

    def empty(self) -> tuple[Floats, Floats]:
        """A table of cells for each step."""
        return np.zeros(self.encoder.table), np.zeros(self.encoder.table[0])

    def asks(self, policy: AnyPolicy, masked: bool = True) -> Asks:
        """The items of every step; refused for policies whose actions a device would draw, and nobody expects that."""
        if not isinstance(policy, Policy) and not (self.own_actions and isinstance(policy, StochasticPolicy)):
            raise Unsupported(
                "devices report under policies that say one action, and with own_actions=True under stochastic ones: "
                "take those, or draw the actions with public coins before the user acts"
            )
        check_policy(self.encoder.shape, policy)
        return _asks(self, policy, masked)

    def check(self, asks: Asks, message: Sequence[Report]) -> None:
        """Refuse other steps, other items, other numbers of bits."""
        asked, last = [report.step for report in message], len(asks.laws) - 1
        if len(asked) != self.encoder.steps or not all(type(h) is int and 0 <= h <= last for h in asked):
            raise InvalidInput(f"a message is about {self.encoder.steps} of the steps 0..{last}")
        if asked != sorted(set(asked)):
            raise InvalidInput("a message names each of its steps once, in order")
        for h, sent in message:
            items, unary = asks.laws[h].items, self.response == "unary"
            if not fits(sent, *((items, 1) if unary else (1, items - 1))):
                what = f"{items} bits" if unary else f"one item in 0..{items - 1}"
                raise InvalidInput(f"a message has {what} at step {h} under this policy")

    def _steps_for(self, action_in_item: bool) -> list[Step]:
        """The steps of a policy that can play anything: the largest domains there are."""
        shape, slots = self.encoder.shape, self.encoder.slots()
        sizes = []
        for h in range(shape.horizon):
            states = 1 if h == 0 and shape.start is not None else shape.states
            pairs = states * shape.actions if action_in_item else states
            sizes.append(pairs * int(slots[h].sum()) * 2 + self.encoder.early_end)
        return [self._step(items) for items in sizes]

    def _step(self, items: int) -> Step:
        law = self._law(items)
        return Step(law.p, law.q, items)

    def _law(self, items: int) -> ItemLaw:
        return law_of(self.response, self.epsilon / self.encoder.steps, items)


@lru_cache(maxsize=64)
def _asks(channel: ReportChannel, policy: AnyPolicy, masked: bool) -> Asks:
    domain, cells = channel.domain(policy, masked), math.prod(channel.encoder.table[1:])
    places = tuple(np.flatnonzero(own) + h * cells for h, own in enumerate(domain.cells))
    return Asks(tuple(channel.law_at(domain, h) for h in range(len(places))), places, np.ones(len(places), np.bool_))


class ReportRun(DecodedRun):
    """Decoded counts of reports, summed over users."""

    KEPT = ("values", "variance", "one_cell", "largest")
    _channel: ReportChannel

    @property
    def channel(self) -> ReportChannel:
        """What its reports are made and read by."""
        return self._channel

    def __init__(self, channel: ReportChannel, shape: Shape, noise: NoiseSource, masked: bool) -> None:
        self._channel, self._shape, self._noise, self._masked = channel, shape, noise, masked
        G, S, A = shape.groups, shape.states, shape.actions
        self._values = {
            "visits": np.zeros((G, S, A)),
            "transitions": np.zeros((G, S, A, S)),
            "rewards": np.zeros((G, S, A)),
        }
        self._variance = {name: np.zeros((G, S, A)) for name in STATISTICS}
        self._one_cell = np.zeros((G, S, A, 2))  # sums over reports of P0 / tau^2 and (P0 / tau)^2 of a single cell
        self._largest = np.zeros((G, S, A))  # the largest step of the estimate that one report can cause
        self._last: tuple[AnyPolicy, Domain] | None = None

    @property
    def public(self) -> Mapping[str, Floats]:
        """The tables of the encoder; where bits stand for clipped rewards, what a visit adds to a reward's variance."""
        tables = self._channel.encoder.public
        if "thresholds" not in tables:
            return tables
        per_visit = self._largest * (2 if self._channel.response == "unary" else 1)
        return {**tables, "variance_per_visit": per_visit * self._channel._reward_worth() / 2}

    def add(self, tally: Floats, users: int, context: Context) -> None:
        """Simulate the reports of users whose clear items are tallied, and take them in."""
        generator = coins_of(
            self._noise,
            "in the local model no tally of clear items exists: let every user send randomize_record(...) and take "
            "the reports in with add_reports",
        )
        domain = self._domain(context.policy)
        items, asked = self._channel.encoder.split(tally)
        self.add_reports(draw_reports(self._channel, domain, items, asked, generator), asked, users, context)

    def add_reports(self, reports: Floats, asked: Floats, users: int, context: Context) -> None:
        """Take in how often each cell was reported, and how many were asked at each step."""
        domain = self._domain(context.policy)
        encoder, unary = self._channel.encoder, self._channel.response == "unary"
        weight = _per_step([step.weight for step in domain.steps])
        lie = _per_step([step.lie if unary else 1 - step.weight for step in domain.steps])
        expected = lie * (domain.cells if unary else domain.cells * domain.shares[:, :, :, None, None])
        decoded = (reports - asked[:, None, None, None, None] * expected) / weight
        for name, statistic in encoder.marginals(np.concatenate([decoded.reshape(-1), asked])).items():
            self._values[name] += statistic.values
        self._count_noise(domain, users)

    def weights(self, policy: AnyPolicy) -> None:
        """Steps are asked about, and all alike."""

    def estimates(self) -> dict[str, Estimate]:
        """Decoded counts, with the part of their variance that is public."""
        return {name: Estimate(self._values[name].copy(), self._variance[name].copy()) for name in STATISTICS}

    def width_now(self) -> WidthOf:
        """Bernstein's bound on the error of a sum of cells of each row."""
        return self._bound(always=False)

    def radius_now(self) -> RadiusOf:
        """The same for all releases at once, however policies were chosen: Freedman's bound, peeled by variance."""
        bound, cells = self._bound(always=True), self._channel.cells_per_count()
        cells["followed"] = cells["transitions"] * self._shape.states
        zero, one = (abs(worth) for worth in self._channel.encoder.bit_worth)
        half = cells["visits"] // 2  # as many are zeros as are ones

        def radius(statistic: str, failure_probability: float) -> Floats:
            if statistic == "rewards" and zero > 0:
                return (zero + one) * bound(half, failure_probability / 2)
            return bound(cells[statistic], failure_probability)

        return radius

    def _domain(self, policy: AnyPolicy) -> Domain:
        if self._last is None or self._last[0] != policy:
            self._last = policy, self._channel.domain(policy, self._masked)
        return self._last[1]

    def _count_noise(self, domain: Domain, users: int) -> None:
        channel, shape = self._channel, self._shape
        encoder, slots = channel.encoder, channel.encoder.slots()
        reports = users * encoder.scale  # users m / H reports at every step, each scaled by (H / m)^2
        for h, step in enumerate(domain.steps):
            g = 0 if shape.groups == 1 else h
            T, followed = int(slots[h].sum()), bool(slots[h, : shape.states].any())
            shares = domain.shares[h]
            for name, cells in (("visits", 2 * T), ("transitions", 2 * followed), ("rewards", T)):
                worth = channel._reward_worth() if name == "rewards" else 1.0
                noise = reports * channel._variances(step, cells, shares, worth)[0]
                if name == "visits" and shape.horizon == 1 and channel.response == "kary":
                    # Whatever is said in a bandit is said of the arm that was told: how many said it is no secret.
                    noise = np.where(cells * shares >= 1.0, 0.0, noise)
                self._variance[name][g] += noise
            false = (step.lie if channel.response == "unary" else (1 - step.weight) * shares) * (shares > 0)
            self._one_cell[g, :, :, 0] += reports * false / step.weight**2
            self._one_cell[g, :, :, 1] += reports * (false / step.weight) ** 2
            self._largest[g] = np.maximum(self._largest[g], (shares > 0) * encoder.scale / step.weight)

    def _bound(self, always: bool) -> WidthOf:
        unary = self._channel.response == "unary"
        return report_width(self._one_cell, self._values["visits"], self._largest, always=always, unary=unary)


def report_width(one_cell: Floats, visits: Floats, largest: Floats, *, always: bool, unary: bool = False) -> WidthOf:
    """Bernstein's bound on the error of a sum of decoded cells of each row; ``always``: for all releases at once.

    ``one_cell`` has, for each row, the sums over reports of P0 / tau^2 and (P0 / tau)^2 of a single cell, ``largest``
    the largest step of the estimate that one report can cause.
    """
    single, squared = one_cell[..., 0].copy(), one_cell[..., 1].copy()
    visits, largest = visits.copy(), largest.copy()

    def width(cells_summed: int, failure_probability: float) -> Floats:
        # Unary bits are independent; a k-ary report lands in at most one of the cells.
        empty = cells_summed * (single - squared) if unary else cells_summed * single - cells_summed**2 * squared
        step = largest * (cells_summed if unary else 1)
        per_visit = largest * (2 if unary else 1)
        return bernstein(
            np.maximum(empty, 0.0), step, failure_probability, always=always, per_visit=per_visit, visits=visits
        )

    return width


def draw_reports(
    channel: ReportChannel, domain: Domain, items: Floats, asked: Floats, generator: np.random.Generator
) -> Floats:
    """How often each cell is reported, drawn exactly in law from the tally of clear items; cost independent of users.

    Users whose record has ended say so where ``early_end`` was declared; others without an item report an even lie.
    """
    given = items.sum(axis=(1, 2, 3, 4))
    items = np.where(domain.cells, items, 0.0)
    reports = np.zeros(items.shape)
    ends = channel.encoder.early_end
    for h, (step, cells) in enumerate(zip(domain.steps, domain.cells, strict=True)):
        truths, users = items[h][cells].astype(np.int64), int(asked[h])
        if channel.response == "unary":
            missing = 0 if ends else users - int(truths.sum())
            truths = truths + generator.multinomial(missing, even(truths.size))
            reports[h][cells] = draw_answers(truths, users, step.truth, step.lie, None, generator)
            continue
        share = np.broadcast_to(domain.shares[h][:, :, None, None], cells.shape)[cells]
        # Rounding must not push the sum above one, and what is left over is the "ended" symbol.
        share = share / max(1.0, share.sum())
        shares = np.append(share, max(0.0, 1 - share.sum()))
        truths = np.append(truths, int(asked[h] - given[h])) if ends else truths
        said = draw_answers(truths, users, step.truth, step.lie, shares, generator)
        reports[h][cells] = said[: len(share)]
    return reports


def action_weights(shape: Shape, policy: AnyPolicy) -> Floats:
    """The probability of every action at every step and state, (H, S, A); zero where a public start cannot be."""
    match policy:
        case Policy(actions):
            weights = (actions[:, :, None] == np.arange(shape.actions)).astype(np.float64)
        case StochasticPolicy(probabilities):
            weights = np.array(probabilities)
        case Mixture(components, shares):
            weights = np.zeros((shape.horizon, shape.states, shape.actions))
            for component, weight in zip(components, shares, strict=True):
                weights += weight * (component.actions[:, :, None] == np.arange(shape.actions))
    if shape.start is not None:
        weights[0, np.arange(shape.states) != shape.start] = 0.0
    return np.asarray(weights)


def _per_step(values: list[float]) -> Floats:
    return np.asarray(values)[:, None, None, None, None]
