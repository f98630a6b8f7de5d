"""Samplers on trial: what is drawn, in simulations and in earnest, against the law that the accounting states.

The coupling check takes a law at its word. Here its draws are counted: those of the source that simulations use, those
of the compiled kernel, and those from the operating system's entropy, alone and as sums of two. The test is Pearson's
chi-square over bins whose probabilities come from ``log_probability``; two calls, and neighbours inside one, are tested
for independence in the same way, so that noise which is drawn once and handed out again is seen.

**False alarms.** Each test errs with probability ``LEVEL`` (one in a million), so an audit of some dozens of them errs
with probability below one in ten thousand. **Power** is computed, not guessed: against noise of the right form and the
wrong scale the statistic has a noncentral chi-square law.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np

from discreet.audit.goodness_of_fit import (
    BINS,
    FEWEST,
    LEVEL,
    bins_of,
    chi_square,
    counted,
    independence,
    merged,
    quieter,
    scale_seen,
    share_seen,
)
from discreet.base.policies import Policy
from discreet.base.shape import Shape
from discreet.base.streams import COINS, NOISE, stream
from discreet.base.types import Floats, Integers
from discreet.mechanisms.counts.encoder import Context, encode
from discreet.mechanisms.counts.first_visit_question import SUCCESSOR
from discreet.mechanisms.mechanism import AnyChannel
from discreet.mechanisms.messages import sampled_item, shuffled_item
from discreet.mechanisms.messages.answered_bits import AnsweredBitsChannel, ResponseChannel
from discreet.mechanisms.messages.asked_first_visit import AskedChannel
from discreet.mechanisms.messages.device_reports import randomize_answer
from discreet.mechanisms.messages.sampled_item import ReportChannel
from discreet.mechanisms.messages.shuffled_item import ItemChannel
from discreet.mechanisms.sums.accumulator import SecureNoise, SimulatedNoise
from discreet.mechanisms.trajectories import Trajectories
from discreet.noise import BinomialNoise, DiscreteGaussian, KaryRandomizedResponse, RandomizedResponse, UnaryEncoding
from discreet.noise.distribution import add_noise
from discreet.noise.exact_sampler import OWN, ChoosesSampler
from discreet.noise.knorm import TableNoise
from discreet.noise.symmetric_gaussian import DiscreteSymmetricGaussianMatrix
from discreet.problems.adversarial.mechanisms import OneBitChannel

SIMULATED, SECURE = 20_000, 3_000  # draws of each kind
_REAL = "noise from the operating system"
_OWN = "noise from the operating system by our own sampler"
_COINS_AT_ONCE = 4_000_000  # coins that secure binomial noise may toss in one test
_MESSAGES = 3_000  # of a bit each
_FEW = 4  # answers of which pairs are counted too
_TABLES = 600  # secure draws of noise for a whole table


class Fault(NamedTuple):
    """A sampler that does not draw the law that is stated."""

    sampler: str
    law: str
    p_value: float

    def __str__(self) -> str:
        return f"{self.sampler} does not draw {self.law} (p-value {self.p_value:.1g})"


@dataclass(frozen=True)
class Tested:
    """What was tested: how often, what was found, and the largest share of its scale at which noise is convicted."""

    tests: int
    faults: tuple[Fault, ...]
    seen_simulated: float
    seen_secure: float | None

    def __add__(self, other: Tested) -> Tested:
        secure = [one for one in (self.seen_secure, other.seen_secure) if one is not None]
        return Tested(
            self.tests + other.tests,
            self.faults + other.faults,
            min(self.seen_simulated, other.seen_simulated),
            min(secure, default=None),
        )


NOTHING = Tested(0, (), 1.0, None)


def try_law(law: Any, *, seed: int = 0, secure: bool = True) -> Tested:
    """Every way in which a law is drawn, against what it says about itself."""
    if isinstance(law, RandomizedResponse | KaryRandomizedResponse | UnaryEncoding):
        return _test_answers(law, seed)
    if isinstance(law, DiscreteSymmetricGaussianMatrix):
        return _test_matrices(law, seed, secure)
    if isinstance(law, TableNoise):
        return _test_tables(law, seed, secure)
    if float(law.variance) == 0:
        return NOTHING
    rng = np.random.default_rng((seed, 7))
    simulated = SimulatedNoise(rng)
    tested = _test_source("simulated noise", lambda n, size: simulated.draw(law, n, size), law, SIMULATED)
    tested += _test_kernel(law, seed)
    if secure and law.discrete:
        tested += _test_source(_REAL, lambda n, size: _secure(law, n, size), law, _fits(law))
    if secure and isinstance(law, ChoosesSampler):
        tested += _test_source(_OWN, lambda n, size: _secure(law, n, size, OWN), law, SIMULATED)
    return tested


def _secure(law: Any, copies: int, size: int, sampler: str | None = None) -> Floats:
    drawn = SecureNoise(sampler=sampler).draw(law, copies, size)
    return drawn - copies * law.mean if isinstance(law, BinomialNoise) else drawn


def _fits(law: Any) -> int:
    if isinstance(law, BinomialNoise):
        return max(200, min(SECURE, _COINS_AT_ONCE // law.trials))
    return SECURE


def _test_source(name: str, draw: Callable[[int, int], Floats], law: Any, size: int) -> Tested:
    """Two calls for one draw each, and one for sums of two."""
    bins, doubled = bins_of(law, 1, size), bins_of(law, 2, size // 4)
    first, second, sums = draw(1, size // 2), draw(1, size - size // 2), draw(2, size // 4)
    n = min(len(first), len(second))
    found = (
        (name, chi_square(counted(np.concatenate([first, second]), bins), bins.masses)),
        (f"{name}, a sum of two draws,", chi_square(counted(sums, doubled), doubled.masses)),
        (f"{name}, called twice,", independence(first[:n], second[:n], bins)),
        (f"{name}, cell by cell,", independence(first[: n - n % 2 : 2], first[1 : n - n % 2 : 2], bins)),
    )
    return _tested(found, law, scale_seen(law, size), name in (_REAL, _OWN))


def _tested(found: Iterable[tuple[str, float]], law: Any, seen: float, secure: bool) -> Tested:
    found = list(found)
    faults = tuple(Fault(name, _described(law), p) for name, p in found if p < LEVEL)
    return Tested(len(found), faults, 1.0 if secure else seen, seen if secure else None)


def _described(law: Any) -> str:
    return repr(law) if len(repr(law)) < 100 else type(law).__name__


def _test_kernel(law: Any, seed: int) -> Tested:
    """The compiled draws of the episode loop."""
    bins, out = bins_of(law, 1, SIMULATED), np.zeros(SIMULATED)
    add_noise(law.kernel(), out, stream(seed, 0, NOISE))
    found = (
        ("the compiled kernel", chi_square(counted(out, bins), bins.masses)),
        ("the compiled kernel, cell by cell,", independence(out[::2], out[1::2], bins)),
    )
    return _tested(found, law, scale_seen(law, SIMULATED), secure=False)


def _test_tables(law: TableNoise, seed: int, secure: bool) -> Tested:
    """The largest entry of a table, and signs."""
    rng = np.random.default_rng((seed, 7))
    simulated = SimulatedNoise(rng)
    d, n = law.dimension, SIMULATED // 10
    tables = np.stack([simulated.draw(law, 1, d) for _ in range(n)])
    tested = _test_norms("simulated noise", law, tables)
    compiled, draws = np.zeros((n, d)), stream(seed, 0, NOISE)
    for table in compiled:
        add_noise(law.kernel(), table, draws)
    tested += _test_norms("the compiled kernel", law, compiled)
    if secure:
        drawn = np.stack([SecureNoise().draw(law, 1, d) for _ in range(_TABLES)])
        tested += _test_norms(_REAL, law, drawn)
    return tested


def _test_norms(name: str, law: TableNoise, tables: Floats) -> Tested:
    n = len(tables)
    below = np.cumsum(_norms(law))
    last = np.unique(np.searchsorted(below, np.arange(1, BINS) / BINS))
    bins = merged(np.asarray(last + 0.5, np.float64), np.diff(np.concatenate([[0.0], below[last], [1.0]])), FEWEST / n)
    norms = np.abs(tables).max(axis=1)

    def masses_at(share: float) -> Floats:
        if share == 1.0:
            return bins.masses
        other = _norms(quieter(law, max(share, 1e-3)))
        shares = np.bincount(np.searchsorted(bins.edges, np.arange(len(other))), other, len(bins.masses))
        return np.asarray(shares, np.float64)

    signs = np.bincount((tables > 0).ravel().astype(np.int64) + (tables >= 0).ravel(), minlength=3)
    found = (
        (name, chi_square(counted(norms, bins), bins.masses)),
        (f"{name}, table by table,", independence(norms[: n - n % 2 : 2], norms[1 : n - n % 2 : 2], bins)),
        (f"{name}, its signs,", chi_square(signs[[0, 2]], np.array([0.5, 0.5]))),
    )
    return _tested(found, law, share_seen(masses_at, n), name == _REAL)


def _norms(law: TableNoise) -> Floats:
    """The probability of every largest entry: how many tables have it, times the probability of one of them."""
    d = law.dimension
    radii = np.arange(math.ceil(law.scale * (d + 1 + 12 * math.sqrt(d + 1) + 45)) + 2, dtype=np.float64)
    corner = np.zeros((len(radii), d))
    corner[:, 0] = radii
    smaller = np.where(radii > 0, ((2 * radii - 1) / (2 * radii + 1)) ** d, 0.0)
    number = d * np.log(2 * radii + 1) + np.log1p(-smaller)
    return np.asarray(np.exp(np.asarray(law.log_probability(corner))[:, 0] + number), np.float64)


def _test_matrices(law: DiscreteSymmetricGaussianMatrix, seed: int, secure: bool) -> Tested:
    """Entries above the diagonal and on it, which have laws of their own."""
    law = DiscreteSymmetricGaussianMatrix(law.dimension, law.off_diagonal)  # not a tape of it
    rng, d = np.random.default_rng((seed, 7)), law.dimension
    above = np.triu_indices(d, 1)
    tested = NOTHING
    kinds: list[tuple[str, Callable[[int], Floats], int]] = [
        ("simulated noise", lambda n: law.draw(rng, (n,)), SIMULATED // 4)
    ]
    if secure:
        kinds.append((_REAL, lambda n: law.secure((n,)).astype(np.float64), SECURE // d))
        kinds.append((_OWN, lambda n: law.secure_by(OWN, (n,)).astype(np.float64), SIMULATED // 4))
    for name, draw, n in kinds:
        drawn = draw(n)
        parts = [("on the diagonal", np.einsum("nii->ni", drawn), 2.0)]
        parts += [("above it", drawn[:, above[0], above[1]], 1.0)] if d > 1 else []
        for where, entries, factor in parts:
            one, flat = DiscreteGaussian(math.sqrt(factor * law.off_diagonal)), entries.ravel()
            bins = bins_of(one, 1, len(flat))
            pairs = flat[: len(flat) - len(flat) % 2]
            found = (
                (f"{name}, {where},", chi_square(counted(flat, bins), bins.masses)),
                (f"{name}, {where}, entry by entry,", independence(pairs[::2], pairs[1::2], bins)),
            )
            tested += _tested(found, law, scale_seen(one, len(flat)), name in (_REAL, _OWN))
    return tested


def _test_answers(law: RandomizedResponse | KaryRandomizedResponse | UnaryEncoding, seed: int) -> Tested:
    """Answers to two inputs, in simulations and in earnest."""
    rng = np.random.default_rng((seed, 7))
    found: list[tuple[str, float]] = []
    for item in (0, 1):
        inputs = np.full(SIMULATED, item)
        simulated, real = law.randomize(inputs, rng), law.randomize_securely(inputs)
        for name, answers in (("simulated answers", simulated), ("a device's answers", real)):
            found += [(name, p) for p in _answer_tests(law, item, np.asarray(answers))]
    faults = tuple(Fault(name, _described(law), p) for name, p in found if p < LEVEL)
    seen = share_seen(lambda share: _two_ways(quieter(law, max(share, 0.05))), SIMULATED)
    return Tested(len(found), faults, seen, seen)


def _two_ways(law: RandomizedResponse | KaryRandomizedResponse | UnaryEncoding) -> Floats:
    """How likely an item that the user has not is reported, or that a bit is."""
    return np.array([1 - law.q, law.q])


def _answer_tests(
    law: RandomizedResponse | KaryRandomizedResponse | UnaryEncoding, item: int, answers: Integers
) -> Iterator[float]:
    if isinstance(law, UnaryEncoding):
        for bit in range(min(law.items, 4)):
            chance = law.p if bit == item else law.q
            yield chi_square(np.bincount(answers[:, bit], minlength=2), np.array([1 - chance, chance]))
        return
    if isinstance(law, RandomizedResponse):
        masses = np.array([law.p, law.q] if item == 0 else [law.q, law.p])
    else:
        masses = np.full(law.items, law.q)
        masses[item] = law.p
    yield chi_square(np.bincount(answers, minlength=len(masses)), masses)
    pairs = answers[::2] * len(masses) + answers[1::2]
    if len(masses) <= _FEW:
        yield chi_square(np.bincount(pairs, minlength=len(masses) ** 2), np.outer(masses, masses).ravel())


@singledispatch
def try_session(channel: AnyChannel, shape: Shape, masked: bool, seed: int) -> Tested:
    """The simulated answers of a channel's own run, against the law that its devices have; others have none."""
    return NOTHING


def _answers_tested(name: str, found: Iterable[float], law: Any) -> Tested:
    values = list(found)
    return Tested(len(values), tuple(Fault(name, _described(law), p) for p in values if p < LEVEL), 1.0, None)


@try_session.register
def _(channel: ReportChannel, shape: Shape, masked: bool, seed: int) -> Tested:
    rng = np.random.default_rng((seed, 9))
    domain = channel.domain(Policy(np.zeros((shape.horizon, shape.states), np.int64)), masked)
    found = list[float]()
    for h in range(shape.horizon):
        law, cells = channel.law_at(domain, h), np.flatnonzero(domain.cells[h])
        items, asked = np.zeros(domain.cells.shape), np.zeros(shape.horizon)
        items[h].flat[cells[0]] = asked[h] = SIMULATED  # everybody has the same item
        sent = sampled_item.draw_reports(channel, domain, items, asked, rng)[h].ravel()[cells]
        said = sent if channel.response == "unary" else sent[: law.items - 1]
        found += _given_tests(law, 0, np.append(SIMULATED, said))
    return _answers_tested("the simulated reports of a session", found, law)


@try_session.register
def _(channel: AskedChannel, shape: Shape, masked: bool, seed: int) -> Tested:
    tested = NOTHING
    for about, law in enumerate(channel.laws):
        for answer in (0, law.items - 1):  # everybody has the same one; the last is "none"
            given = _simulated_answers(channel, shape, about, answer, (seed, 9, about, answer))
            tested += _answers_tested("the simulated answers of a session", _given_tests(law, answer, given), law)
            given = _real_answers(channel, shape, about, answer)
            tested += _answers_tested("a device's answers", _given_tests(law, answer, given), law)
    return tested + _test_questions(channel, shape, seed)


def _given_tests(law: KaryRandomizedResponse | UnaryEncoding, answer: int, given: Floats) -> Iterator[float]:
    """Numbers of users, then how often each answer was given; "none" is not told, and follows where one is given."""
    users, said = given[0], given[1:]
    if isinstance(law, UnaryEncoding):
        for part, ones in enumerate(said):
            chance = law.p if part == answer else law.q
            yield chi_square(np.array([users - ones, ones]), np.array([1 - chance, chance]))
        return
    masses = np.full(law.items, law.q)
    masses[answer] = law.p
    yield chi_square(np.append(said, users - said.sum()), masses)


def _simulated_answers(
    channel: AskedChannel, shape: Shape, about: int, answer: int, seed: tuple[int, int, int, int]
) -> Floats:
    """What the run of a session makes of users who all have one answer about the last row, before it is decoded."""
    encoder, law, rows = channel.encoder, channel.law_of(about), channel.encoder.rows
    tally = np.zeros(encoder.size)
    truths, asked = encoder.split(tally)
    asked[rows - 1, about] = SIMULATED
    table = encoder.successors if about == SUCCESSOR else encoder.bits
    if answer < law.items - 1:
        table(truths)[answer, rows - 1] = SIMULATED
    run = channel.start(shape, SimulatedNoise(np.random.default_rng(seed)), False)
    run.add(tally, SIMULATED, Context(Policy(np.zeros((shape.horizon, shape.states), np.int64))))
    said = np.rint(table(run._cells)[:, rows - 1] * (law.p - law.q) + SIMULATED * law.q)
    return np.append(SIMULATED, said)


def _real_answers(channel: AskedChannel, shape: Shape, about: int, answer: int) -> Floats:
    """The same by devices in earnest, about the first row, in which the record begins, or never is."""
    law, steps = channel.law_of(about), np.zeros((1, shape.horizon), np.int64)
    length, low = (0 if answer else shape.horizon), np.full((1, shape.horizon), shape.rewards[0])
    record = Trajectories(steps, steps, low, np.array([length]))
    sent = np.stack([np.atleast_1d(randomize_answer(channel, record, about).message) for _ in range(_MESSAGES)])
    said = sent.sum(axis=0) if isinstance(law, UnaryEncoding) else np.bincount(sent[:, 0], minlength=law.items)
    return np.append(_MESSAGES, said[:-1])


def _test_questions(channel: AskedChannel, shape: Shape, seed: int) -> Tested:
    """Whom simulated coins ask what: all questions alike, whatever the records are."""
    encoder, H = channel.encoder, shape.horizon
    rewards, found = np.full((SIMULATED, H), shape.rewards[0]), list[float]()
    for number, row in enumerate(dict.fromkeys((0, encoder.rows - 1))):
        steps = np.full((SIMULATED, H), row)
        everybody = Trajectories(steps // shape.actions, steps % shape.actions, rewards, np.full(SIMULATED, H))
        tally = encode(encoder, everybody, stream(seed, number, COINS)).sum(axis=0)
        asked = encoder.split(tally)[1].ravel()
        found.append(chi_square(asked, np.full(asked.size, 1 / asked.size)))
    return _answers_tested("public coins of a session", found, "questions about all rows")


@try_session.register
def _(channel: ItemChannel, shape: Shape, masked: bool, seed: int) -> Tested:
    rng = np.random.default_rng((seed, 9))
    items = channel.items(Policy(np.zeros((shape.horizon, shape.states), np.int64)), masked)
    law, clear = channel.response(channel.block, items.number), np.zeros(items.cells.shape)
    clear.flat[np.flatnonzero(items.cells)[0]] = SIMULATED  # everybody has the same item
    sent = shuffled_item.draw_messages(law, items, clear, SIMULATED, rng)[items.cells]
    tests = _given_tests(law, 0, np.append(SIMULATED, sent[: law.items - 1]))
    return _answers_tested("the simulated messages of a batch", tests, law)


@try_session.register(AnsweredBitsChannel)
@try_session.register(ResponseChannel)
def _(channel: AnsweredBitsChannel | ResponseChannel, shape: Shape, masked: bool, seed: int) -> Tested:
    rng = np.random.default_rng((seed, 9))
    users = channel.block if isinstance(channel, ResponseChannel) else SIMULATED
    law = channel.response(users).response if isinstance(channel, ResponseChannel) else channel.law
    blocks = -(-SIMULATED // (4 * users))
    encoder = channel.encoder
    possible = encoder.possible()
    bits = (np.arange(encoder.size) % 2).astype(np.float64) * possible
    run = channel.start(shape, SimulatedNoise(rng), False)
    context = Context(Policy(np.zeros((shape.horizon, shape.states), np.int64)))
    for _ in range(blocks):
        run.add(users * bits, users, context)
    n = users * blocks
    ones = np.rint(run._values * (law.p - law.q) + n * law.q)
    found = []
    for bit, chance in ((0.0, law.q), (1.0, law.p)):
        answers = ones[possible & (bits == bit)]
        total = n * len(answers)
        found.append(chi_square(np.array([total - answers.sum(), answers.sum()]), np.array([1 - chance, chance])))
    return _answers_tested("the simulated answers of a session", found, law)


@try_session.register
def _(channel: OneBitChannel, shape: Shape, masked: bool, seed: int) -> Tested:
    rng, law, d = np.random.default_rng((seed, 9)), channel.law, channel.encoder.size
    run = channel.start(shape, SimulatedNoise(rng), False)
    context = Context(Policy(np.zeros((shape.horizon, shape.states), np.int64)))
    answers, picks = np.zeros(2), np.zeros(d)
    for _ in range(_MESSAGES):
        before = run._values.copy()
        run.add(np.ones(d), 1, context)
        moved = (run._values - before - 0.5) / d
        pick = int(np.argmax(np.abs(moved)))
        picks[pick] += 1
        answers[round(float((moved[pick] + 0.5) * (law.p - law.q) + law.q))] += 1
    found = [chi_square(answers, np.array([law.q, law.p])), chi_square(picks, np.full(d, 1 / d))]
    return _answers_tested("the simulated bits of a session", found, law)
