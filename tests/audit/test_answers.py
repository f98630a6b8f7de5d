"""Laws of answers, read off the code that makes them: exact probabilities, and devices that lie about themselves."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from on_trial import LAYERS, POOLED, SMALL, USERS, target

from discreet.audit import answers
from discreet.audit.answers import Words, answered, bit_laws, law_of
from discreet.audit.noise_coupling import Offence, share_of
from discreet.base.shape import Shape
from discreet.noise import KaryRandomizedResponse, RandomizedResponse
from discreet.recipes.registry import build

EPSILONS = (0.1, 1.0, 6.0)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_law_of_a_bit_is_read_off_exactly(epsilon):
    law = RandomizedResponse(epsilon)
    zero, one = bit_laws(law)
    assert zero == {0: law.p, 1: law.q}
    assert one == {0: law.q, 1: law.p}


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_law_of_an_item_is_read_off_exactly(epsilon):
    law = KaryRandomizedResponse(epsilon, 5)
    found = law_of(lambda words: law.randomize(np.full(len(words), 2), Words(words)))
    assert found == pytest.approx({item: law.p if item == 2 else law.q for item in range(5)}, rel=1e-15)


def test_words_that_break_often_are_all_found():
    """A law with three breaks between two neighbouring words of the first, coarse look."""

    def jumps(words):
        return np.searchsorted([1 << 50, (1 << 50) + 3, (1 << 50) + 1000], words, side="right")

    found = law_of(jumps)
    whole = 1 << 62
    assert found[0] * whole == 1 << 50
    assert found[1] * whole == 3
    assert found[2] * whole == 997


def built(name, shape=SMALL, **options):
    return build(target(name, **options), shape, USERS)


def share(privatizer):
    (channel,) = privatizer.channels
    return share_of(answered(channel, privatizer.shape, privatizer.masked), privatizer.guarantee)


@pytest.mark.parametrize(
    "options",
    [{"response": "kary"}, {"response": "unary"}, {"early_end": True}, {"steps": 2}, {"masked": False}],
    ids=str,
)
def test_reports_lose_what_is_stated(options):
    assert share(built("local/sampled-step", **options)).of_stated == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("options", [{"response": "kary"}, {"response": "unary"}, {"masked": False}], ids=str)
@pytest.mark.parametrize("epsilon", [0.3, 4.0])
def test_answers_to_a_question_lose_what_is_stated(options, epsilon):
    for shape in (POOLED, Shape(1, 1, 2, homogeneous=True), Shape(4, 2, 3, homogeneous=True, start=1)):
        found = share(build(target("local/asked-first-visit", epsilon=epsilon, **options), shape, USERS))
        assert found.of_stated == pytest.approx(1.0, abs=1e-9)


def test_every_question_and_every_kind_of_record_is_tried(monkeypatch):
    """By what devices were handed: all questions, and records that are there at once, late, twice, never, or end."""
    seen = {}
    honest = answers.randomize_answer

    def watched(channel, record, question, generator=None):
        length, row = int(record.lengths[0]), question // 2
        here = record.states[0, :length] * 2 + record.actions[0, :length] == row
        seen.setdefault(question, set()).add((length, *np.flatnonzero(here).tolist()))
        return honest(channel, record, question, generator)

    monkeypatch.setattr(answers, "randomize_answer", watched)
    share(built("local/asked-first-visit", replace(POOLED, horizon=3)))
    assert set(seen) == set(range(8))
    for kinds in seen.values():
        assert {(3, 0), (3, 2), (3, 0, 2), (3, 0, 1, 2), (1, 0), (3,), (0,)} <= kinds


@pytest.mark.parametrize(
    ("says", "match"),
    [
        (lambda report: report._replace(message=np.zeros_like(report.message)), "is not what its law describes"),
        (lambda report: report._replace(step=report.step ^ 2), "something else than one answer to question"),
        (lambda report: [report, report], "something else than one answer to question"),
        (lambda report: None, "something else than one answer to question"),
    ],
)
def test_a_device_that_answers_something_else_is_an_offence(monkeypatch, says, match):
    honest = answers.randomize_answer
    monkeypatch.setattr(answers, "randomize_answer", lambda *arguments: says(honest(*arguments)))
    with pytest.raises(Offence, match=match):
        share(built("local/asked-first-visit", POOLED))


@pytest.mark.parametrize("response", ["kary", "unary"])
@pytest.mark.parametrize("more", [1e-3, -1e-3])
def test_a_device_with_slightly_other_odds_is_seen(monkeypatch, response, more):
    """Words next to the breaks of the law are handed to it, so a thousandth of the epsilon is enough."""
    honest = answers.randomize_answer

    def louder(channel, record, question, generator=None):
        return honest(replace(channel, epsilon=channel.epsilon + more), record, question, generator)

    monkeypatch.setattr(answers, "randomize_answer", louder)
    with pytest.raises(Offence, match="is not what its law describes"):
        share(built("local/asked-first-visit", POOLED, response=response))


@pytest.mark.parametrize(
    ("name", "shape"),
    [("local/three-tables-randomised-response", SMALL), ("shuffle/first-visit-randomised-response", POOLED)],
)
def test_answered_bits_lose_no_more_than_is_stated(name, shape):
    found = share(built(name, shape))
    assert found.holds
    assert found.of_stated > 0.9


def test_a_sparse_release_loses_no_more_than_is_stated_and_less_threshold_more():
    privatizer = built("offline/sparse-laplace")
    assert share(privatizer).holds
    (channel,) = privatizer.channels
    lower = replace(channel, law=replace(channel.law, threshold=channel.law.threshold - 6))
    assert not share(replace(privatizer, channels=(lower,))).holds


def test_a_device_that_sends_something_else_is_an_offence(monkeypatch):
    privatizer = built("local/sampled-step", response="kary")
    honest = answers.randomize_record

    def truthful(channel, record, policy, steps, generator=None):
        reports = honest(channel, record, policy, steps, generator)
        return [report._replace(message=np.zeros_like(report.message)) for report in reports]

    monkeypatch.setattr(answers, "randomize_record", truthful)
    with pytest.raises(Offence, match="is not the report that its law describes"):
        share(privatizer)


def test_a_law_that_tells_the_truth_too_often_is_seen(monkeypatch):
    privatizer = build(target("local/loss-tables"), LAYERS, USERS)
    (channel,) = (one for one in privatizer.channels if hasattr(one.law, "p"))
    before = answered(channel, LAYERS, False).epsilon(0.0)
    assert before == pytest.approx(channel.law.shipped_epsilon)
    monkeypatch.setattr(RandomizedResponse, "_lie", property(lambda self: 1 << 55))
    assert answered(channel, LAYERS, False).epsilon(0.0) == pytest.approx(math.log(127))
