"""Channels that answer instead of adding noise: the exact law of what leaves, read off the code that makes it.

A randomiser here turns one random word and one input into an answer. Handed chosen words instead of random ones, it
tells which words give which answer, and how many those are is the exact probability of the answer: the class's own
arithmetic, run. From these probabilities come the losses between two users' messages.

* Reports of sampled steps: the whole function that runs on the device, ``randomize_record``, on two records.
* Answers to one question: the whole function on the device, ``randomize_answer``, for every question about every row
  and for records that visit the row first, last, twice or never, end there, or are empty; the worst question counts.
* Answered bits: every bit of the two users' encodings, and behind a shuffler the number of ones in the worst crowds
  that were tried (nobody else has a one, half of the others have, all of them have).
* One item behind a shuffler: the whole function on the device again, and the law of the histogram of a small batch in
  which all others have one item: her first, her second, or another one.
* One bit of a loss table: the two answers to it.
* Sparse tables: the running release is handed every value that its noise can take, for counts that differ by what a
  user adds, on backgrounds of nobody, of just below the threshold, at it and far above it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import singledispatch
from itertools import combinations
from typing import Any

import numpy as np

from discreet.audit.neighbours import worst_pair
from discreet.audit.noise_coupling import Offence, composed_losses, losses_between
from discreet.base.errors import Unsupported
from discreet.base.policies import Policy
from discreet.base.shape import Shape
from discreet.base.types import Floats, Integers
from discreet.mechanisms.bandit import ArmRewardsChannel
from discreet.mechanisms.counts.encoder import Context
from discreet.mechanisms.counts.first_visit_question import BIT, SUCCESSOR
from discreet.mechanisms.mechanism import AnyChannel
from discreet.mechanisms.messages.answered_bits import AnsweredBitsChannel, ResponseChannel, respond
from discreet.mechanisms.messages.asked_first_visit import AskedChannel
from discreet.mechanisms.messages.device_reports import randomize_answer, randomize_item, randomize_record
from discreet.mechanisms.messages.sampled_item import ReportChannel
from discreet.mechanisms.messages.shuffled_item import ItemChannel
from discreet.mechanisms.messages.survey import Report
from discreet.mechanisms.release import Layer
from discreet.mechanisms.sparse import SparseChannel
from discreet.mechanisms.sums.accumulator import SimulatedNoise
from discreet.mechanisms.trajectories import Trajectories
from discreet.noise import RandomizedResponse, UnaryEncoding
from discreet.noise.distribution import Law
from discreet.privacy.profiles import Profile, WorstOf, compose
from discreet.problems.adversarial.mechanisms import OneBitChannel

_COARSE = 512  # words that are tried before breaks between answers are searched
_FAR_ABOVE = 8  # thresholds
_TRIED = 12  # words that a device is handed
_READ = 3  # items whose law is read off
_BREAKS = 6  # breaks of a law, at most, next to which a device is handed words besides
_KINDS = 4  # of items that are told apart in a histogram
_BATCH = 24  # users of a batch of items, at most, of which all histograms are gone through
_CROWD = 64  # users of a batch, at most, whose crowds are gone through

Answers = Callable[[Integers], Integers]  # words in, answers out
LawOfAnswers = dict[int, float]


class Words(np.random.Generator):
    """A generator that hands out chosen words, the same for every number that is asked for; for reading laws off."""

    def __init__(self, words: Integers, pick: int = 0) -> None:
        super().__init__(np.random.PCG64(0))
        self._words, self._pick = words, pick

    def integers(
        self, low: Any, high: Any = None, size: Any = None, dtype: Any = np.int64, endpoint: bool = False
    ) -> Any:
        """The chosen words, where a message is randomised; the chosen pick, where one of a few things is."""
        whole = low if high is None else high
        if int(whole) == 1 << 64:
            return np.uint64(0)  # the seed of coins that round rewards, which here need no rounding
        if int(whole) <= 1 << 32:
            return min(self._pick, int(whole) - 1)
        shape = () if size is None else size
        words = self._words.astype(np.uint64)
        return np.broadcast_to(words.reshape(words.shape + (1,) * (len(shape) - words.ndim)), shape).astype(dtype)

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """One half, always: it decides how inputs between 0 and 1 are rounded."""
        return np.full(() if size is None else size, 0.5)


def law_of(answers: Answers, whole: int = 1 << 62) -> LawOfAnswers:
    """The probability of every answer over words 0 .. whole - 1, each equally likely."""
    pieces, masses = _pieces(answers, whole), dict[int, int]()
    for (start, answer), (end, _) in zip(pieces, [*pieces[1:], (whole, 0)], strict=True):
        masses[answer] = masses.get(answer, 0) + end - start
    return {answer: mass / whole for answer, mass in masses.items()}


def _pieces(answers: Answers, whole: int = 1 << 62) -> list[tuple[int, int]]:
    """Where words begin to give another answer, and which: the first word, then every break between two answers."""
    low = np.linspace(0, whole - 1, _COARSE + 1).astype(np.int64)
    low[-1] = whole - 1
    found = answers(low)
    pieces = [(0, int(found[0]))]
    for i in range(_COARSE):
        start, end, last = int(low[i]), int(low[i + 1]), int(found[i + 1])
        while pieces[-1][1] != last:
            start = _first_other(answers, start, end, pieces[-1][1])
            pieces.append((start, int(answers(np.array([start], np.int64))[0])))
    return pieces


def _first_other(answers: Answers, start: int, end: int, here: int) -> int:
    """The first word after ``start`` that answers otherwise; ``end`` does."""
    while end - start > 1:
        middle = (start + end) // 2
        start, end = (middle, end) if int(answers(np.array([middle], np.int64))[0]) == here else (start, middle)
    return end


def bit_laws(law: RandomizedResponse) -> tuple[LawOfAnswers, LawOfAnswers]:
    """The law of the answer to a zero and to a one, as :func:`~discreet.mechanisms.messages.answered_bits.respond`
    gives it."""

    def answers(bit: float) -> Answers:
        return lambda words: np.asarray(respond(np.full(len(words), bit), law, Words(words)), np.int64)

    return law_of(answers(0.0)), law_of(answers(1.0))


@singledispatch
def answered(channel: AnyChannel, shape: Shape, masked: bool) -> Profile:
    """The exact privacy of what a channel makes of the two records that it tells apart best."""
    raise Unsupported(f"the law of what a {type(channel).__name__} answers cannot be read off")


def of_messages(channel: AnyChannel) -> AnyChannel:
    """The channel whose answers leave: the inner one, where an outer one adds what is public."""
    inner = channel.rewards if isinstance(channel, ArmRewardsChannel) else channel
    return inner if answers_itself(inner) else channel


def answers_itself(channel: AnyChannel) -> bool:
    """Whether the law of its messages is read off here, and not by moving noise."""
    return answered.dispatch(type(channel)) is not answered.dispatch(object)


@answered.register
def _(channel: OneBitChannel, shape: Shape, masked: bool) -> Profile:
    return _flipped(channel.law, 1)


@answered.register
def _(channel: AnsweredBitsChannel, shape: Shape, masked: bool) -> Profile:
    return _flipped(channel.law, int(np.abs(worst_pair(channel.encoder).shift).sum()))


def _flipped(law: RandomizedResponse, bits: int) -> Profile:
    """The answers to so many bits that two users have differently."""
    zero, one = (_as_array(answers, 2) for answers in bit_laws(law))
    return composed_losses([(losses_between(one, zero), bits)], [(losses_between(zero, one), bits)])


@answered.register
def _(channel: ResponseChannel, shape: Shape, masked: bool) -> Profile:
    users = min(channel.block, _CROWD)
    found: list[Profile] = []
    for what in (None, Layer(0)) if channel.answers else (None,):
        shift = worst_pair(channel.encoder).shift
        if what is not None:
            moved = channel.sensitivity(what).cells
            shift = np.repeat([1.0, -1.0], [moved - moved // 2, moved // 2])
        zero, one = bit_laws(channel.response(users, what).response)
        others = channel.counted(users, what).users - 1  # those whose answers the promise counts on
        for holding in sorted({0, others // 2, others}):
            crowd = _ones_of_crowd(zero.get(1, 0.0), one.get(1, 0.0), others - holding, holding)
            laws = [np.convolve(crowd, _as_array(own, 2)) for own in (zero, one)]
            up, down = losses_between(laws[1], laws[0]), losses_between(laws[0], laws[1])
            rising, falling = int((shift > 0).sum()), int((shift < 0).sum())
            found.append(composed_losses([(up, rising), (down, falling)], [(down, rising), (up, falling)]))
    return WorstOf(tuple(found))


def _ones_of_crowd(lie: float, truth: float, zeros: int, ones: int) -> Floats:
    law = np.ones(1)
    for chance, times in ((lie, zeros), (truth, ones)):
        for _ in range(times):
            law = np.convolve(law, [1 - chance, chance])
    return law


@answered.register
def _(channel: ReportChannel, shape: Shape, masked: bool) -> Profile:
    worst = [
        max((_worst_report(channel, shape, h, policy) for policy in _policies(shape)), key=_bound)
        for h in range(shape.horizon)
    ]
    # Public coins may pick any steps, so those with the largest losses count.
    return compose(sorted(worst, key=_bound)[-channel.encoder.steps :])


def _bound(profile: Profile) -> float:
    return profile.epsilon(0.0)


def _policies(shape: Shape) -> list[Policy]:
    every = np.indices((shape.horizon, shape.states)).sum(axis=0)
    return [Policy(np.zeros((shape.horizon, shape.states), np.int64)), Policy(every % shape.actions)]


def _worst_report(channel: ReportChannel, shape: Shape, h: int, policy: Policy) -> Profile:
    """The report about step h, over pairs of items that a device randomises there.

    A record without an item there (it has ended, or defies the policy) reports any item evenly, and a mixture of laws
    is no further from another law than one of its parts is.
    """
    law = channel.law_at(channel.domain(policy, masked=True), h)
    items = set().union(*(_items(channel, law, record, policy, h) for record in _records(channel, policy, h)))
    # The law of an item is that of any other with items renamed, unless somebody changed that: a few are read off.
    laws = [_item_law(law, item) for item in sorted(items)[:_READ]]
    return max((_between(first, second) for first, second in combinations(laws, 2)), key=_bound)


def _between(first: list[Floats], second: list[Floats]) -> Profile:
    pairs = list(zip(first, second, strict=True))
    forward = [(losses_between(p, q), 1) for p, q in pairs]
    return composed_losses(forward, [(losses_between(q, p), 1) for p, q in pairs])


def _records(channel: ReportChannel | ItemChannel, policy: Policy, h: int) -> Iterable[Trajectories]:
    shape, (low, high) = channel.encoder.shape, channel.encoder.reward_range
    H = shape.horizon
    last = shape.states - 1
    for state, length, reward, defies in ((0, H, low, 0), (last, H, high, 0), (0, h, low, 0), (0, H, low, 1)):
        states = np.full(H, state)
        states[0] = states[0] if shape.start is None else shape.start
        actions = (policy.actions[np.arange(H), states] + defies) % shape.actions
        yield Trajectories(states[None], actions[None], np.full((1, H), reward), np.array([length]))


def _items(channel: ReportChannel, law: Any, record: Trajectories, policy: Policy, h: int) -> set[int]:
    """The items that the device randomises for this record, found by handing it words.

    With the same words its message must be what the law makes of one item.
    """
    others = [step for step in range(channel.encoder.shape.horizon) if step != h][: channel.encoder.steps - 1]
    words = [np.array(word) for word in np.random.default_rng(h).integers(0, 1 << 62, _TRIED)]
    expected = [np.stack([np.atleast_1d(law.randomize(i, Words(word))) for word in words]) for i in range(law.items)]
    found: set[int] = set()
    for pick in range(law.items):
        sent = [randomize_record(channel, record, policy, [h, *others], Words(word, pick))[0].message for word in words]
        known = {i for i in range(law.items) if np.array_equal(np.stack(sent), expected[i])}
        if not known:
            raise Offence(f"what a device sends about step {h + 1} is not the report that its law describes")
        if known <= found and pick < 2:
            break  # it does not depend on the pick: there is an item
        found |= known
    return found


def _item_law(law: Any, item: int) -> list[Floats]:
    """The law of the report of one item, read off by words."""
    if isinstance(law, UnaryEncoding):
        return [_as_array(law_of(_bit(law, item, part)), 2) for part in range(law.items)]
    answers = law_of(lambda words: np.asarray(law.randomize(np.full(len(words), item), Words(words))))
    return [_as_array(answers, law.items)]


def _bit(law: UnaryEncoding, item: int, part: int) -> Answers:
    """One bit of the report of an item."""
    return lambda words: np.asarray(law.randomize(np.full(len(words), item), Words(words))[:, part])


@answered.register
def _(channel: AskedChannel, shape: Shape, masked: bool) -> Profile:
    # Public coins may pick either question, about any row.
    return WorstOf(tuple(_worst_answer(channel, shape, about) for about in (SUCCESSOR, BIT)))


def _worst_answer(channel: AskedChannel, shape: Shape, about: int) -> Profile:
    """The answer to one of the two questions, over all rows and over pairs of answers that a device randomises."""
    law = channel.law_of(about)
    drawn = np.random.default_rng(about).integers(0, 1 << 62, _TRIED).tolist()
    words = [np.array(word) for word in sorted({*drawn, *_next_to_breaks(law)})]
    made = [np.stack([np.atleast_1d(law.randomize(i, Words(word))) for word in words]) for i in range(law.items)]
    known = {sent.tobytes(): i for i, sent in enumerate(made)}
    items: set[int] = set()
    for row in range(channel.encoder.rows):
        for record in _visitors(shape, row):
            sent = np.stack([_sent(channel, record, 2 * row + about, word) for word in words])
            if sent.tobytes() not in known:
                raise Offence(f"what a device answers to question {2 * row + about} is not what its law describes")
            items.add(known[sent.tobytes()])
    # As above a few are read off: of two visitors, and of those who were not there, whose answer is the last one.
    chosen = sorted(items)[: _READ - 1] + sorted(items)[-1:]
    laws = [_item_law(law, item) for item in dict.fromkeys(chosen)]
    if len(laws) < 2:
        raise Offence("all records answer alike, so that nothing is told by any answer: these are not the stated laws")
    return max((_between(first, second) for first, second in combinations(laws, 2)), key=_bound)


def _next_to_breaks(law: Any) -> list[int]:
    """Words on both sides of the first breaks of the law of an answer: a device with other odds differs there."""
    if isinstance(law, UnaryEncoding):
        parts = [_pieces(_bit(law, 0, part)) for part in (0, 1)]
    else:
        parts = [_pieces(lambda words: np.asarray(law.randomize(np.zeros(len(words), np.int64), Words(words))))]
    breaks = [start for pieces in parts for start, _ in pieces[1 : _BREAKS + 1]]
    return [word for start in breaks for word in (start - 1, start)]


def _sent(channel: AskedChannel, record: Trajectories, question: int, word: Integers) -> Integers:
    report = randomize_answer(channel, record, question, Words(word))
    if not isinstance(report, Report) or report.step != question:
        raise Offence(f"a device sends something else than one answer to question {question}, which it was asked")
    return np.asarray(report.message, np.int64)


def _visitors(shape: Shape, row: int) -> Iterable[Trajectories]:
    """Records that a question about a row must not tell apart, by the steps at which they are there and their ends.

    They defy the start state and any policy: an answer hides those who do, too.
    """
    (low, high), H, rows = shape.rewards, shape.horizon, shape.states * shape.actions
    first, last = (row + 1) % rows, (row - 1) % rows
    for visits, elsewhere, reward, length in (
        ((0,), 0, low, H),
        ((0,), rows - 1, high, H),
        ((0, H - 1), first, high, H),
        ((H - 1,), first, low, H),
        ((H - 1,), last, high, H),
        ((0,), first, high, 1),
        (range(H), row, low, H),
        ((), first, high, H),
        ((0,), last, high, 0),
    ):
        steps = np.array([row if h in visits else elsewhere for h in range(H)])
        yield Trajectories(
            steps[None] // shape.actions, steps[None] % shape.actions, np.full((1, H), reward), np.array([length])
        )


@answered.register
def _(channel: ItemChannel, shape: Shape, masked: bool) -> Profile:
    users, found = min(channel.block, _BATCH), list[Profile]()
    for policy in _policies(shape):
        number = channel.items(policy, masked).number
        law, others = channel.response(users, number), channel.counted(users, number).users - 1
        for record in _records(channel, policy, shape.horizon - 1):
            _check_items(channel, law, record, policy, users, masked)
        first, second, *third = (_item_law(law, item)[0] for item in range(min(_READ, number)))
        for held in (first, second, *third):
            laws = [_histograms(own, held, first, second, others) for own in (first, second)]
            both = losses_between(*laws), losses_between(*laws[::-1])
            found.append(composed_losses([(both[0], 1)], [(both[1], 1)]))
    return WorstOf(tuple(found))


def _check_items(
    channel: ItemChannel, law: Any, record: Trajectories, policy: Policy, users: int, masked: bool
) -> None:
    """Refuse a device whose message is not what its law makes of one item, whatever step it draws."""
    words = [np.array(word) for word in np.random.default_rng(users).integers(0, 1 << 62, _TRIED)]
    expected = {tuple(int(law.randomize(i, Words(word))) for word in words) for i in range(law.items)}
    for step in range(channel.encoder.shape.horizon):
        sent = (randomize_item(channel, record, policy, users, Words(word, step), masked=masked) for word in words)
        if tuple(sent) not in expected:
            raise Offence("what a device sends is not the message that its law describes")


def _histograms(own: Floats, held: Floats, first: Floats, second: Floats, others: int) -> Floats:
    """The law of a histogram: one message by ``own``, and ``others`` by ``held``.

    Items that all of these laws send alike are counted together: how their number is split says nothing. Of more than
    four kinds those that tell the two items apart least are one; looking no closer is something that anybody may do.
    """
    where = np.unique(np.stack([first, second, held]), axis=1, return_inverse=True)[1]
    told = np.argsort(-np.bincount(where.ravel(), np.abs(first - second)), kind="stable")
    where = np.minimum(np.argsort(told)[where.ravel()], _KINDS - 1)
    chances = np.stack([np.bincount(where, law) for law in (own, held)])
    table = np.zeros((others + 2,) * (chances.shape[1] - 1))
    table[(0,) * table.ndim] = 1.0
    for chance in (chances[0], *[chances[1]] * others):
        sent = chance[-1] * table  # the last kind is what is left of all messages
        for axis in range(table.ndim):
            sent += chance[axis] * np.roll(table, 1, axis)
        table = sent
    return table.ravel()


def _as_array(law: LawOfAnswers, answers: int) -> Floats:
    return np.array([law.get(answer, 0.0) for answer in range(answers)])


class _EveryValue(SimulatedNoise):
    """Noise that takes given values, one per cell."""

    def __init__(self, values: Floats) -> None:
        super().__init__(np.random.default_rng(0))
        self._values = values

    def draw(self, law: Law, copies: int, size: int) -> Floats:
        if size != len(self._values) or copies != 1:
            raise Unsupported(f"{size} draws of {copies} copies for {len(self._values)} cells that occur")
        return self._values


@answered.register
def _(channel: SparseChannel, shape: Shape, masked: bool) -> Profile:
    noise, threshold = channel.law.noise, int(channel.law.threshold)
    reach = math.ceil(30 * math.sqrt(noise.variance)) + 2
    values = np.arange(-reach, reach + 1, dtype=np.float64)
    masses = np.exp(noise.log_probability(values))
    shift = worst_pair(channel.encoder).shift
    profiles = []
    for background in sorted({0, threshold - 2, threshold - 1, threshold, _FAR_ABOVE * threshold}):
        moved, times = np.unique(np.abs(shift[shift != 0]).astype(np.int64), return_counts=True)
        forward, backward = [], []
        for by, cells in zip(moved.tolist(), times.tolist(), strict=True):
            low, high = (_sparse_law(channel, shape, count, values, masses) for count in (background, background + by))
            up, down = losses_between(high, low), losses_between(low, high)
            rising = int((shift == by).sum())
            forward += [(up, rising), (down, cells - rising)]
            backward += [(down, rising), (up, cells - rising)]
        profiles.append(composed_losses(forward, backward))
    return WorstOf(tuple(profiles))


def _sparse_law(channel: SparseChannel, shape: Shape, count: int, values: Floats, masses: Floats) -> Floats:
    """What leaves of a cell with this count: the probability of nothing first, then of every value from 0 on.

    The running release is given as many such cells as the noise has values, each with one of them.
    """
    top = _FAR_ABOVE * int(channel.law.threshold) + len(values) + 2
    law = np.zeros(top + 1)
    cells = np.arange(len(values), dtype=np.float64)
    tally = np.stack([cells, np.full(len(values), float(count))], axis=1)
    run = channel.start(shape, _EveryValue(values if count else np.zeros(0)), masked=False)
    run.add(tally, 1, Context(Policy(np.zeros((shape.horizon, shape.states), np.int64))))
    assert run._released is not None
    keys, released = run._released
    law[0] = max(0.0, 1.0 - float(masses[keys].sum()))
    np.add.at(law, 1 + released.astype(np.int64), masses[keys])
    return law
