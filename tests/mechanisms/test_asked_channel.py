"""Answers to one question: unbiased, as noisy as stated, the law of devices, bounds that hold, and refusals.

Seeds are fixed. A mean is accepted within 5.5 standard errors (false alarm 4e-8 a comparison), a variance by its
chi-square interval at 1e-6, which rejects 2/3 and 3/2 of itself, counts of answers by a chi-square test at 1e-6, which
rejects 2/3 and 3/2 of the epsilon. Rows are alike here and independent of each other, so one run is many samples.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import discreet
from discreet.base.errors import DiscreetError, InvalidInput, Unsupported
from discreet.base.policies import Mixture, Policy, StochasticPolicy, uniform_policy
from discreet.base.shape import Shape
from discreet.base.streams import COINS, USERS, generator, stream
from discreet.mechanisms.counts.encoder import Context
from discreet.mechanisms.counts.first_visit_question import BIT, SUCCESSOR, AskedFirstVisit
from discreet.mechanisms.messages.asked_first_visit import AskedChannel, AskedRun, _largest, _variance, answers_of
from discreet.mechanisms.messages.asked_first_visit import quietest_answers as quietest
from discreet.mechanisms.messages.device_reports import draw_question, randomize_answer, true_answer
from discreet.mechanisms.messages.survey import Report
from discreet.mechanisms.release import Request
from discreet.mechanisms.session import Privatizer
from discreet.mechanisms.sums.accumulator import SecureNoise, SimulatedNoise
from discreet.mechanisms.trajectories import Trajectories
from discreet.noise import UnaryEncoding
from discreet.recipes.registry import build, recipes
from discreet.simulation.users import TabularUsers

SHAPE = Shape(3, 2, 4, homogeneous=True)
MANY = Shape(3, 600, 2, homogeneous=True)  # 1800 rows
POLICY = Policy(np.zeros((4, 3), np.int64))
EPSILON, ASKED, ALARM = 1.3, 200, 1e-6
RESPONSES = ("kary", "unary")


def channel(response, shape=SHAPE, epsilon=EPSILON):
    return AskedChannel(AskedFirstVisit(shape), epsilon, response)


def run_of(a_channel, seed=0, masked=True):
    noise = SimulatedNoise(np.random.default_rng(seed))
    return a_channel.start(a_channel.encoder.shape, noise, masked)


def everybody(a_channel, successors, bits):
    """A tally in which ``ASKED`` users answer either question about every row, so many of them each answer."""
    encoder = a_channel.encoder
    tally = np.zeros(encoder.size)
    truths, asked = encoder.split(tally)
    encoder.successors(truths)[...] = np.array(successors)[:, None]
    encoder.bits(truths)[...] = np.array(bits)[:, None]
    asked[...] = ASKED
    return tally


def samples(a_channel, successors, bits):
    """Errors of every count, one sample for each row, and the estimates that they come from."""
    shape, rows = a_channel.encoder.shape, a_channel.encoder.rows
    run = run_of(a_channel, masked=False)
    run.add(everybody(a_channel, successors, bits), 2 * rows * ASKED, Context(uniform_policy(shape)))
    found = run.estimates()
    transitions = found["transitions"].values.reshape(rows, shape.states)
    return {
        "visits": found["visits"].values.ravel() - sum(bits),
        "rewards": found["rewards"].values.ravel() - bits[1],
        **{f"to {t}": transitions[:, t] - successors[t] for t in range(shape.states)},
        "followed": transitions.sum(axis=1) - sum(successors),
    }, found


def accepted(ratio, n):
    low, high = stats.chi2.ppf([ALARM / 2, 1 - ALARM / 2], n - 1) / (n - 1)
    return low < ratio < high


def unbiased(errors):
    return abs(errors.mean()) < 5.5 * errors.std() / math.sqrt(len(errors))


@pytest.mark.parametrize("response", RESPONSES)
def test_counts_that_nobody_has_are_unbiased_and_vary_as_stated(response):
    errors, found = samples(channel(response, MANY), (0, 0, 0), (0, 0))
    for name, sample in errors.items():
        assert unbiased(sample), name
        stated = found["transitions" if name.startswith("to") else name].variance if name != "followed" else None
        law = channel(response, MANY).law_of(SUCCESSOR)
        variance = ASKED * _variance(law, 3, have=False) if stated is None else stated.ravel()[0]
        ratio = sample.var(ddof=1) / variance
        assert accepted(ratio, len(sample)), (name, ratio)
        assert not accepted(ratio * 2 / 3, len(sample))
        assert not accepted(ratio * 3 / 2, len(sample))
        assert stated is None or (stated == stated.ravel()[0]).all()


@pytest.mark.parametrize("response", RESPONSES)
def test_counts_with_visits_are_unbiased_and_vary_as_the_formula_says(response):
    a_channel, successors, bits = channel(response, MANY), (90, 0, 40), (20, 70)
    errors, _ = samples(a_channel, successors, bits)
    counts = {"visits": (BIT, 2, 90), "rewards": (BIT, 1, 70), "followed": (SUCCESSOR, 3, 130)}
    counts |= {f"to {t}": (SUCCESSOR, 1, n) for t, n in enumerate(successors)}
    for name, sample in errors.items():
        question, cells, have = counts[name]
        law = a_channel.law_of(question)
        expected = have * _variance(law, cells, have=True) + (ASKED - have) * _variance(law, cells, have=False)
        assert unbiased(sample), name
        assert not unbiased(sample + 0.05 * ASKED)
        ratio = sample.var(ddof=1) / expected
        assert accepted(ratio, len(sample)), (name, ratio)
        assert not accepted(ratio * 3 / 2, len(sample))
        assert not accepted(ratio * 2 / 3, len(sample))
        assert expected <= ASKED * _largest(law, cells) * (1 + 1e-12)


def record_of(steps, length=None, reward=1.0, shape=SHAPE):
    states, actions = np.array([steps]) // shape.actions, np.array([steps]) % shape.actions
    return Trajectories(states, actions, np.full(states.shape, reward), np.array([length or len(steps)]))


# Records whose answers to the two questions about row 2 (state 1, action 0) are known.
ANSWERS = [
    (record_of([0, 2, 4, 0], reward=0.0), 2, 0),  # first visited at the second step, which leads to state 2
    (record_of([2, 1, 2, 4]), 0, 1),  # of two visits the first counts
    (record_of([2, 4, 4, 4]), 2, 1),
    (record_of([0, 0, 0, 2]), 3, 1),  # the last step leads nowhere
    (record_of([0, 2, 4, 0], length=2), 3, 1),  # nor does that of a record that ends there
    (record_of([0, 2, 4, 0], length=1), 3, 2),  # ended before
    (record_of([3, 5, 1, 0]), 3, 2),  # never there
    (replace(record_of([2, 2, 2, 2]), lengths=np.array([0])), 3, 2),  # nobody
]


def test_what_a_record_answers():
    coins = np.array([0], np.uint64)
    for response in RESPONSES:
        for record, successor, bit in ANSWERS:
            assert true_answer(channel(response), record, 4, coins) == successor
            assert true_answer(channel(response), record, 5, coins) == bit


def fits(law, answer, counts, users):
    """Whether counts of answers, "none" left out, are those of users who all have one answer."""
    chances = np.full(law.items, law.q)
    chances[answer] = law.p
    if isinstance(law, UnaryEncoding):
        table = np.stack([counts, users - counts])
        expected = users * np.stack([chances[:-1], 1 - chances[:-1]])
        statistic, freedom = ((table - expected) ** 2 / expected).sum(), len(counts)
    else:
        told, expected = np.append(counts, users - counts.sum()), users * chances
        statistic, freedom = ((told - expected) ** 2 / expected).sum(), law.items - 1
    return stats.chi2.sf(statistic, freedom) > ALARM


@pytest.mark.parametrize("response", RESPONSES)
@pytest.mark.parametrize("about", [SUCCESSOR, BIT])
@pytest.mark.parametrize("which", [0, 1, 4, 6])
def test_simulated_answers_have_the_law_of_devices(response, about, which):
    a_channel, users = channel(response), 4000
    record, answer = ANSWERS[which][0], ANSWERS[which][1 + about]
    encoder, law, rng = a_channel.encoder, a_channel.law_of(about), np.random.default_rng(which)
    sent = [[randomize_answer(a_channel, record, 4 + about, rng)] for _ in range(users)]
    answers, asked = a_channel.count(POLICY, sent)
    assert asked[2, about] == asked.sum() == users
    table = encoder.successors if about == SUCCESSOR else encoder.bits
    truths = np.zeros(encoder.layout.size)
    if answer < law.items - 1:
        table(truths)[answer, 2] = users
    drawn = answers_of(a_channel, truths, asked, rng)
    for found in (answers, drawn):
        assert not np.delete(table(found), 2, axis=1).any()
        counts = table(found)[:, 2]
        assert counts.sum() == found.sum()
        assert fits(law, answer, counts, users)
        for share in (2 / 3, 3 / 2):
            assert not fits(type(law)(law.epsilon * share, law.items), answer, counts, users)


@pytest.mark.parametrize("response", RESPONSES)
def test_a_real_answer_needs_no_seed_and_decodes(response):
    a_channel = channel(response, epsilon=40.0)  # next to no lies; a unary bit of the truth is a coin all the same
    run = a_channel.start(SHAPE, SecureNoise(), masked=True)
    record, successor, bit = ANSWERS[0]
    for question, answer in ((4, successor), (5, bit)):
        report = randomize_answer(a_channel, record, question)
        assert report.step == question
        said = np.flatnonzero(report.message) if len(report.message) > 1 else report.message
        assert set(said.tolist()) <= {answer}
        run.add_reports(*a_channel.count(POLICY, [[report]]), 1, Context(POLICY))
    assert run.estimates()["visits"].values[0, 1, 0] == pytest.approx(1.0, abs=1e-6)
    with pytest.raises(Unsupported, match="no tally of clear answers exists"):
        run.add(np.zeros(a_channel.encoder.size), 1, Context(POLICY))


@pytest.mark.parametrize("response", RESPONSES)
def test_bounds_hold_as_often_as_they_say_however_policies_are_chosen(response):
    """Failure probability 0.2, 300 runs of ten releases: an eighth of either bound fails far more often.

    The next policy plays the first action again while its count is overestimated, as a stopping rule would that knows
    the truth. Widths are for the last release, radii for all of them.
    """
    world, most = discreet.worlds.river_swim(3, 3), stats.binom.ppf(1 - ALARM, 300, 0.2)
    a_channel = channel(response, world.shape)
    encoder = a_channel.encoder
    people = TabularUsers(world, stream(5, 0, USERS), generator(5, 0, COINS))
    names = ("visits", "rewards", "transitions", "followed")
    failed, always, eighths, ever = (dict.fromkeys(names, 0) for _ in range(4))
    cells = {"visits": 2, "rewards": 1, "transitions": 1, "followed": 3}
    sizes = []
    for number in range(300):
        run, clear = run_of(a_channel, number), np.zeros(encoder.size)
        out, out_of_eighth = dict.fromkeys(names, False), dict.fromkeys(names, False)
        policy = Policy(np.zeros((3, 3), np.int64))
        for _ in range(10):
            context = Context(policy)
            (tally,) = people.tally([run.encoder_now(context)], context, 20)
            run.add(tally, 20, context)
            clear += tally
            true, found = encoder.marginals(clear), run.estimates()
            error = {name: (found[name].values - true[name].values)[0, 0, 0] for name in names[:3]}
            error["followed"], error["transitions"] = error["transitions"].sum(), error["transitions"][1]
            radius = run.radius_now()
            for name in names:
                bound = radius(name, 0.2)[0, 0, 0]
                out[name] |= bool(abs(error[name]) > bound)
                out_of_eighth[name] |= bool(abs(error[name]) > bound / 8)
            policy = Policy(np.full((3, 3), int(error["visits"] < 0)))
        width = run.width_now()
        for name in names:
            bound = width(cells[name], 0.2)[0, 0, 0]
            failed[name] += abs(error[name]) > bound
            eighths[name] += abs(error[name]) > bound / 8
            always[name] += out[name]
            ever[name] += out_of_eighth[name]
        sizes.append(width(2, 0.2)[0, 0, 0] / math.sqrt(found["visits"].variance[0, 0, 0]))
    assert max(failed.values()) <= most
    assert max(always.values()) <= most
    assert max(eighths.values()) > most
    assert max(ever.values()) > most
    assert np.median(sizes) < 10


@pytest.mark.parametrize("response", RESPONSES)
@pytest.mark.parametrize("states", [1, 2, 6, 30])
def test_bounds_are_finite_for_any_number_of_cells(response, states):
    """A row has two bits and S successors: a sum of more cells than that is no wider."""
    shape = Shape(states, 2, 4, homogeneous=True)
    a_channel = channel(response, shape)
    run = run_of(a_channel, masked=False)
    tally = np.zeros(a_channel.encoder.size)
    a_channel.encoder.split(tally)[1][...] = 30
    run.add(tally, 60 * 2 * states, Context(uniform_policy(shape)))
    widths = [run.width_now()(cells, 0.1) for cells in (1, 2, states, states + 1, 2 * states + 2, 100)]
    assert all(np.isfinite(width).all() and (width > 0).all() for width in widths)
    np.testing.assert_array_equal(widths[-1], widths[-2])
    for name in ("visits", "rewards", "transitions", "followed"):
        assert (run.radius_now()(name, 0.1) > 0).all()
        assert (run.radius_now()(name, 0.01) > run.radius_now()(name, 0.1)).all()


@pytest.mark.parametrize("response", RESPONSES)
@pytest.mark.parametrize("epsilon", [0.3, 4.0, 8.0])
def test_bounds_of_more_cells_are_never_narrower(response, epsilon):
    """Learners count cells generously; k-ary answers that nearly everybody gives truly are surer than one of them."""
    a_channel = channel(response, Shape(6, 2, 4, homogeneous=True), epsilon)
    run, tally = run_of(a_channel, masked=False), np.zeros(a_channel.encoder.size)
    a_channel.encoder.split(tally)[1][...] = 50
    run.add(tally, 1200, Context(uniform_policy(a_channel.encoder.shape)))
    widths = np.array([run.width_now()(cells, 0.1)[0, 0, 0] for cells in range(1, 15)])
    assert (np.diff(widths) >= 0).all()
    law = a_channel.law_of(SUCCESSOR)
    if response == "kary" and epsilon > 3:
        assert _largest(law, 2) < _largest(law, 1)


def test_bounds_do_not_change_with_the_run_that_they_come_from():
    run = run_of(channel("kary"))
    run.add(everybody(channel("kary"), (10, 0, 0), (5, 5)), 6 * ASKED, Context(POLICY))
    width, radius = run.width_now(), run.radius_now()
    before = width(1, 0.1), radius("visits", 0.1)
    run.add(everybody(channel("kary"), (10, 0, 0), (5, 5)), 6 * ASKED, Context(POLICY))
    np.testing.assert_array_equal(before, (width(1, 0.1), radius("visits", 0.1)))
    assert (run.width_now()(1, 0.1) > before[0]).all()


@pytest.mark.parametrize("response", RESPONSES)
def test_a_run_that_is_saved_goes_on_as_if_nothing_had_happened(response):
    a_channel, rng = channel(response), np.random.default_rng(0)
    run, other = run_of(a_channel), run_of(a_channel)
    for number in range(3):
        asked = rng.integers(0, 9, (6, 2)).astype(float)
        answers = answers_of(a_channel, np.zeros(a_channel.encoder.layout.size), asked, rng)
        run.add_reports(answers, asked, int(asked.sum()), Context(POLICY))
        saved = run.save()
        assert not saved.secret
        other = run_of(a_channel)
        other.load(saved)
        for name, (values, variance) in run.estimates().items():
            np.testing.assert_array_equal(values, other.estimates()[name].values)
            np.testing.assert_array_equal(variance, other.estimates()[name].variance)
        assert run.weights(POLICY) == other.weights(POLICY)
        np.testing.assert_array_equal(run.width_now()(2, 0.1), other.width_now()(2, 0.1))
        if number == 1:
            run = other
    other.add_reports(answers, asked, 1, Context(POLICY))
    assert other.save().public["asked"].sum() > saved.public["asked"].sum()  # what was saved is a copy
    np.testing.assert_array_equal(run_of(a_channel).save().public["asked"], 0.0)


def test_rows_that_were_asked_about_least_are_asked_about_first():
    run = run_of(channel("kary"))
    assert run.weights(POLICY) == (10**6, 0, 10**6, 0, 10**6, 0)  # nothing is known, and all states may be the start
    asked = np.zeros((6, 2))
    asked[0], asked[2] = (1, 0), (0, 5000)  # about bits, so that nobody knows more about successors
    run.add_reports(np.zeros(run.channel.encoder.layout.size), asked, 5001, Context(POLICY))
    weights = run.weights(POLICY)
    assert weights[1::2] == (0, 0, 0)
    assert weights[4] == 10**6
    assert weights[0] == pytest.approx(250_000, rel=0.05)  # (1 + n)^-2; a question about a successor has been lost
    assert weights[2] == 1  # never below one part
    assert all(type(weight) is int for weight in weights)
    assert run.encoder_now(Context(POLICY)).weights == weights
    assert run_of(channel("kary")).weights(uniform_policy(SHAPE)) == (10**6,) * 6
    unmasked = run_of(channel("kary"), masked=False).weights(POLICY)
    assert unmasked[::2] == (10**6,) * 3
    assert all(1 <= weight < 10**5 for weight in unmasked[1::2])
    other = Policy(np.ones((4, 3), np.int64))
    assert run.weights(Mixture((POLICY, other), [0.5, 0.5])) == run.weights(uniform_policy(SHAPE))
    started = AskedChannel(AskedFirstVisit(replace(SHAPE, start=1)), 1.0)
    once = np.zeros((4, 3, 2))
    once[0, :, 1], once[1:, :, 0] = 1.0, 1.0
    begun = run_of(started).weights(StochasticPolicy(once))
    assert begun[1] == begun[5] == 0
    assert begun[3] == 10**6
    assert begun[0] == begun[2] == begun[4] > 0


def test_rows_that_users_are_likely_to_visit_are_asked_about_first():
    """A corridor 0 -> 1 -> 2 that the answers have shown; the same weights by hand."""
    shape = replace(SHAPE, start=0)
    run = run_of(AskedChannel(AskedFirstVisit(shape), 8.0))
    encoder = run.channel.encoder
    asked, answers = np.zeros((6, 2)), np.zeros(encoder.layout.size)
    asked[:, 0] = 1000
    law = run.channel.law_of(0)
    truths = {0: 1, 2: 1, 4: 2}  # row of action 0: where all who were asked went; 1 stays where it is
    for row, successor in truths.items():
        encoder.successors(answers)[:, row] = 1000 * law.q
        encoder.successors(answers)[successor, row] = 1000 * law.p
    run.add_reports(answers, asked, 6000, Context(POLICY))
    first, second, third = run.weights(POLICY)[::2]
    assert first == second == 10**6
    noise = np.sqrt(run.estimates()["transitions"].variance[0, 0, 0])
    astray = (0.5 + 0.3 * noise) / 3 / (1000 - noise + 0.5 + 0.3 * noise)  # to state 2 from either
    visited = 1 - (1 - astray) * (1 - 2 * astray) * (1 - 3 * astray)
    assert third == pytest.approx(10**6 * (0.1 + 0.9 * visited) ** 3, rel=0.05)


def test_public_coins_draw_questions_by_weight():
    """20,000 questions, chi-square; even weights are rejected."""
    coins, weights = np.random.default_rng(3), (3, 0, 1, 0, 2, 0)
    drawn = np.bincount([draw_question(weights, coins) for _ in range(20_000)], minlength=12)
    assert not drawn.reshape(6, 2)[1::2].any()
    shares = np.repeat([3, 1, 2], 2) / 12
    seen = drawn.reshape(6, 2)[::2].ravel()
    assert stats.chisquare(seen, 20_000 * shares).pvalue > ALARM
    assert stats.chisquare(seen, np.full(6, 20_000 / 6)).pvalue < ALARM
    for wrong in ((), (0, 0), (1, -1, 3), (1.0, math.nan), (1.0, math.inf)):
        with pytest.raises(InvalidInput, match="not negative, nor all zero"):
            draw_question(wrong, coins)


def test_the_quietest_response_is_taken():
    def taken(states, epsilon, response=None):
        return quietest(AskedFirstVisit(Shape(states, 2, 10, homogeneous=True)), epsilon, response).response

    assert (taken(6, 1.0), taken(12, 1.0)) == ("kary", "unary")  # unary from about 3 e^epsilon states on
    assert (taken(100, 4.0), taken(300, 4.0)) == ("kary", "unary")
    assert (taken(6, 1.0, "unary"), taken(300, 1.0, "kary")) == ("unary", "kary")
    with pytest.raises(InvalidInput, match="response"):
        taken(6, 1.0, "binary")
    for states in (3, 12):
        encoder = AskedFirstVisit(Shape(states, 2, 10, homogeneous=True))
        noise = {r: AskedChannel(encoder, 1.0, r).noise_per_row() for r in RESPONSES}
        assert quietest(encoder, 1.0).noise_per_row() == min(noise.values()) < max(noise.values())


def built(response="kary", **named):
    target = discreet.Local(EPSILON, recipe="local/asked-first-visit", options={"response": response, **named})
    return build(target, SHAPE, 50)


def good(response="kary"):
    return [[randomize_answer(channel(response), ANSWERS[0][0], question)] for question in (0, 5, 8)]


ONE = np.array([1])
REFUSED = [
    ([], "a message is one answer, got 0"),
    ([Report(0, ONE), Report(1, ONE)], "a message is one answer, got 2"),
    ([Report(-1, ONE)], "a state and action that this policy can play"),
    ([Report(12, ONE)], "a state and action that this policy can play"),
    ([Report(True, ONE)], "a state and action that this policy can play"),
    ([Report(0.0, ONE)], "a state and action that this policy can play"),
    ([Report(2, ONE)], "a state and action that this policy can play"),  # state 0, action 1
    ([Report(0, np.array([4]))], r"one answer in 0\.\.3 to question 0"),
    ([Report(0, np.array([-1]))], r"one answer in 0\.\.3 to question 0"),
    ([Report(1, np.array([3]))], r"one answer in 0\.\.2 to question 1"),
    ([Report(1, np.array([0.5]))], r"one answer in 0\.\.2 to question 1"),
    ([Report(1, np.array([0, 1]))], r"one answer in 0\.\.2 to question 1"),
    ([Report(1, np.array([], np.int64))], r"one answer in 0\.\.2 to question 1"),
    ([Report(1, np.array(1))], r"one answer in 0\.\.2 to question 1"),
]


@pytest.mark.parametrize(("message", "match"), REFUSED)
def test_messages_that_no_device_sends_are_refused_and_nothing_counts(message, match):
    intake = built().collect(50)
    with pytest.raises(InvalidInput, match=match):
        intake.receive([(POLICY, [*good(), message, *good()])])
    assert intake.served == 0
    assert not intake.release_now()["visits"].variance.any()
    assert intake.receive([(POLICY, good())]).users == 3


@pytest.mark.parametrize("bits", [[0] * 3, [0] * 5, [2, 0, 0, 0], [-1, 0, 0, 0], [0.0] * 4])
def test_unary_messages_of_another_form_are_refused(bits):
    intake = built("unary").collect(50)
    with pytest.raises(InvalidInput, match="4 bits to question 4"):
        intake.receive([(POLICY, [*good("unary"), [Report(4, np.array(bits))]])])
    with pytest.raises(InvalidInput, match="one answer in"):
        intake.receive([(POLICY, [[Report(5, np.array([0, 1, 0]))]])])
    assert intake.served == 0
    assert intake.receive([(POLICY, good("unary"))]).users == 3


@pytest.mark.parametrize(
    "policy",
    [
        Policy([[0, 0, 0]]),
        Policy(np.zeros((4, 2), np.int64)),
        Policy(np.full((4, 3), 2)),
        StochasticPolicy([[[0.5, 0.5]] * 3]),
        Mixture((Policy([[0, 0, 0]]), Policy([[1, 1, 1]])), [0.5, 0.5]),
    ],
)
def test_policies_of_another_shape_are_refused(policy):
    intake = built().collect(50)
    with pytest.raises(InvalidInput, match="an action below 2 for 4 steps and 3 states"):
        intake.receive([(policy, [])])
    assert intake.served == 0


def test_devices_refuse_what_is_no_question_and_more_than_one_record():
    record = ANSWERS[0][0]
    two = Trajectories(*(np.repeat(part, 2, axis=0) for part in (record.states, record.actions, record.rewards)),
                       np.array([4, 4]))  # fmt: skip
    for question in (-1, 12, 1.0, True, np.int64(3), "1", None):
        with pytest.raises(InvalidInput, match=r"a question is a number in 0\.\.11"):
            randomize_answer(channel("kary"), record, question)
    with pytest.raises(InvalidInput, match="one user's record, got 2"):
        randomize_answer(channel("kary"), two, 0)


def test_messages_that_come_late_count_under_the_policy_that_they_name():
    other = Policy(np.ones((4, 3), np.int64))
    intake = built().collect(50)
    late = [[randomize_answer(channel("kary"), ANSWERS[0][0], 2)]]
    with pytest.raises(InvalidInput, match="this policy can play"):
        intake.receive([(POLICY, late)])
    release = intake.receive([(POLICY, good()), (other, late)])
    assert release.users == 4
    assert (release["visits"].variance > 0).sum() == 1
    assert (release["transitions"].variance > 0).sum() == 3
    with pytest.raises(Unsupported, match="users with 46 left"):
        intake.receive([(POLICY, good() * 16)])


@pytest.mark.slow
def test_only_answers_are_said_to_be_answers():
    """Over all recipes for counts, in worlds that each of them serves."""
    worlds = (SHAPE, Shape(2, 2, 2), Shape(1, 3, 1))
    kinds = {"central": discreet.Central, "local": discreet.Local, "shuffle": discreet.Shuffle}
    said = {}
    for recipe in recipes(problem="tabular"):
        if recipe.model not in kinds:
            continue
        for shape in worlds:
            for delta in (0.0, 1e-5):
                try:
                    privatizer = build(kinds[recipe.model](1.0, delta, recipe=recipe.name), shape, 20)
                except DiscreetError:
                    continue
                release = privatizer.take_in(SimulatedNoise(np.random.default_rng(0)), 20).release_now()
                said.setdefault(recipe.name, set()).add(release.answers)
    assert len(said) > 20
    assert {name for name, values in said.items() if True in values} == {"local/asked-first-visit"}
    assert said["local/asked-first-visit"] == {True}


def test_a_session_asks_everybody_once_and_says_so():
    privatizer: Privatizer = built()
    world = discreet.worlds.river_swim(3, 4)
    users = TabularUsers(world, stream(1, 0, USERS), generator(1, 0, COINS))
    session = privatizer.open(users, SimulatedNoise(np.random.default_rng(0)), 50)
    session.answer(Request(POLICY, users=30))
    session.answer(Request(uniform_policy(SHAPE), users=20))
    (run,) = session._intake._runs
    assert isinstance(run, AskedRun)
    assert run._asked.sum() == 50
    assert session._intake.question_weights(POLICY) == run.weights(POLICY)
    sampled = build(discreet.Local(1.0, recipe="local/sampled-step"), SHAPE, 50).collect(50)
    assert sampled.question_weights(POLICY) is None


def test_auto_asks_one_question_up_to_where_users_have_more_to_say():
    """RiverSwim-6: at epsilon 1 and 4 one question, at 8 a whole step; never in a bandit or with laws per step."""
    river, needs = discreet.worlds.river_swim(states=6, horizon=20), discreet.learners.UCBVI().needs
    taken = {epsilon: build(discreet.Local(epsilon), river.shape, 20_000, needs).recipe for epsilon in (1.0, 4.0, 8.0)}
    asked, sampled = "local/asked-first-visit", "local/sampled-step"
    assert taken == {1.0: asked, 4.0: asked, 8.0: sampled}
    for world in (river.with_time(homogeneous=False), discreet.worlds.bandit(arms=3)):
        assert build(discreet.Local(1.0), world.shape, 20_000, needs).recipe == sampled
