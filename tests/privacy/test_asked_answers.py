"""The promise of answers to one question: the loss of the fractions that are sent, and a certificate of those."""

from __future__ import annotations

import copy
import json
import math
from fractions import Fraction

import pytest

from discreet import Local, Shape
from discreet.base.errors import Unsupported
from discreet.checker import FAILS, HOLDS, check
from discreet.mechanisms.counts.first_visit_question import AskedFirstVisit
from discreet.mechanisms.messages.asked_first_visit import AskedChannel
from discreet.noise import KaryRandomizedResponse
from discreet.recipes.local import answer_guarantee
from discreet.recipes.registry import build

EPSILONS = (1e-3, 0.1, 0.5, 1.0, 2.0, 4.0, 10.0, 30.0)
STATES = (1, 2, 3, 6, 7, 25, 160, 400)


def made(epsilon, states=6, response=None):
    shape, options = Shape(states, 2, 10, homogeneous=True), {"response": response}
    return build(Local(epsilon, recipe="local/asked-first-visit", options=options), shape, 1000)


def loss(law):
    """The loss of one answer by the fractions alone: of a true answer against a false one, or of two bits."""
    lie = law.lie
    if isinstance(law, KaryRandomizedResponse):
        return (1 - (law.items - 1) * lie) / lie
    return Fraction(1, 2) / lie * (1 - lie) / Fraction(1, 2)


@pytest.mark.parametrize("response", ["kary", "unary", None])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_epsilon_is_that_of_the_fractions_and_never_above_the_target(epsilon, response):
    for states in STATES:
        privatizer = made(epsilon, states, response)
        (channel,) = privatizer.channels
        largest = max(loss(law) for law in channel.laws)
        assert privatizer.guarantee.epsilon == pytest.approx(math.log(largest), rel=1e-12)
        assert privatizer.guarantee.epsilon <= epsilon
        assert privatizer.guarantee.epsilon > epsilon * (1 - 1e-3)
        assert channel.shipped_epsilon == privatizer.guarantee.epsilon
        assert (privatizer.guarantee.model, privatizer.guarantee.delta) == ("local", 0.0)
        assert [law.items for law in channel.laws] == [states + 1, 3]


@pytest.mark.parametrize(("states", "larger"), [(1, 0), (400, 1)])
def test_either_question_may_be_the_one_that_counts(states, larger):
    """Fractions are rounded: at epsilon 30 two answers lose a little more than three, and those more than 401."""
    channel = AskedChannel(AskedFirstVisit(Shape(states, 2, 3, homogeneous=True)), 30.0)
    losses = [law.shipped_epsilon for law in channel.laws]
    assert losses[larger] > losses[1 - larger]
    assert channel.shipped_epsilon == losses[larger]
    assert answer_guarantee(channel).epsilon == losses[larger]


def certificate(privatizer):
    return json.loads(json.dumps(privatizer.guarantee.certificate()))


@pytest.mark.parametrize("response", ["kary", "unary"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_an_independent_checker_accepts_the_certificate_and_no_other_fraction(epsilon, response):
    honest = certificate(made(epsilon, 6, response))
    assert check(honest).answer == HOLDS
    (coins,) = honest["steps"]["of"]
    assert coins["kind"] == "one-of"
    assert len(coins["of"]) == 2
    for question in (0, 1):
        for factor in (Fraction(99, 100), Fraction(1, 2)):  # fewer lies than were certified
            forged = copy.deepcopy(honest)
            message = forged["steps"]["of"][0]["of"][question]["message"]
            if "lie" in message:
                message["lie"] = str(Fraction(message["lie"]) * factor)
            else:
                message["laws"] = [[items, str(Fraction(lie) * factor)] for items, lie in message["laws"]]
            assert check(forged).answer == FAILS
        forged = copy.deepcopy(honest)
        part = forged["steps"]["of"][0]["of"][question]
        forged["steps"]["of"][0]["of"][question] = {
            "kind": "compose", "parts": 2, "of": [part, part]
        }  # fmt: skip
        assert check(forged).answer == FAILS


def test_the_words_say_what_is_randomised():
    text = made(1.0, 6, "unary").guarantee.explain()
    for words in (
        "public coins pick",
        "the successor",
        "the reward bit",
        "unary encoding of 7 answers",
        "of 3 answers",
    ):
        assert words in text


@pytest.mark.parametrize(
    ("target", "shape", "match"),
    [
        ({"epsilon": 1.0}, Shape(3, 2, 4), "time-homogeneous"),
        ({"epsilon": 1.0}, Shape(3, 2, 1, homogeneous=True), "no successors"),
    ],
)
def test_refusals(target, shape, match):
    with pytest.raises(Unsupported, match=match):
        build(Local(recipe="local/asked-first-visit", **target), shape, 100)
