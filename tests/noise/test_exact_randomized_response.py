"""Randomised answers byte by byte: all tapes of one byte, many users at once, and examples for devices."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from discreet.noise import KaryRandomizedResponse, RandomizedResponse, UnaryEncoding, exact_randomized_response
from discreet.noise.exact_randomized_response import WHOLE, answer_bit, numbers, report_bits, report_item

VECTORS = json.loads((Path(__file__).parent / "response_vectors.json").read_text())


@pytest.fixture
def one_byte(monkeypatch):
    """Numbers of eight bits instead of 62, so that all tapes can be tried."""
    monkeypatch.setattr(exact_randomized_response, "BITS", 8)
    monkeypatch.setattr(exact_randomized_response, "BYTES", 1)
    monkeypatch.setattr(exact_randomized_response, "WHOLE", 256)
    return [bytes([byte]) for byte in range(256)]


@pytest.mark.parametrize("threshold", [1, 77, 128])
def test_the_answers_to_a_bit_over_all_tapes(one_byte, threshold):
    for bit in (0, 1):
        answers = Counter(answer_bit(bit, threshold, tape) for tape in one_byte)
        assert answers == {bit: 256 - threshold, 1 - bit: threshold}


@pytest.mark.parametrize(("items", "threshold"), [(2, 100), (3, 85), (5, 7), (256, 1)])
def test_the_reports_of_an_item_over_all_tapes(one_byte, items, threshold):
    for item in {0, 1, items - 1}:
        reports = Counter(report_item(item, items, threshold, tape) for tape in one_byte)
        expected = dict.fromkeys(range(items), threshold)
        expected[item] = 256 - (items - 1) * threshold
        assert reports == expected


def test_the_bits_of_items_over_all_tapes(one_byte):
    for item in (0, 1):
        reports = Counter(tuple(report_bits(item, 2, 60, a + b)) for a in one_byte for b in one_byte)
        ones = [128 if i == item else 60 for i in range(2)]
        sides = [(256 - one, one) for one in ones]
        assert reports == {(a, b): sides[0][a] * sides[1][b] for a in (0, 1) for b in (0, 1)}


def test_numbers_are_read_with_the_lowest_byte_first():
    assert list(numbers(bytes([7, 0, 0, 0, 0, 0, 0, 128, 255]))) == [(7 + (128 << 56)) >> 2]


@pytest.fixture
def tape(monkeypatch):
    """Real answers from bytes that the test knows."""
    served = bytearray()

    def read(n: int) -> bytes:
        fresh = np.random.default_rng(len(served) + 3).bytes(n)
        served.extend(fresh)
        return fresh

    monkeypatch.setattr("discreet.noise.randomized_response.os", SimpleNamespace(urandom=read))  # and nobody else's
    return served


USERS = 20_000  # more than are answered at a time with ten items


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 30.0])
def test_many_users_answer_by_the_same_steps(tape, epsilon):
    rng = np.random.default_rng(2)
    law, bits = RandomizedResponse(epsilon), rng.integers(0, 2, USERS)
    answers = law.randomize_securely(bits.reshape(100, 200)).ravel()
    pieces = [bytes(tape[8 * i : 8 * i + 8]) for i in range(USERS)]
    assert answers.tolist() == [answer_bit(int(b), law.threshold, t) for b, t in zip(bits, pieces, strict=True)]

    tape.clear()
    kary, items = KaryRandomizedResponse(epsilon, 7), rng.integers(0, 7, USERS)
    reports = kary.randomize_securely(items)
    pieces = [bytes(tape[8 * i : 8 * i + 8]) for i in range(USERS)]
    assert reports.tolist() == [report_item(int(i), 7, kary.threshold, t) for i, t in zip(items, pieces, strict=True)]

    tape.clear()
    unary, items = UnaryEncoding(epsilon, 10), rng.integers(0, 10, USERS)
    reports = unary.randomize_securely(items)
    pieces = [bytes(tape[80 * i : 80 * i + 80]) for i in range(USERS)]
    assert reports.tolist() == [report_bits(int(i), 10, unary.threshold, t) for i, t in zip(items, pieces, strict=True)]


def test_one_user_answers_alone_and_nobody_not_at_all():
    for shape in ((), (0,), (2, 3)):
        items = np.zeros(shape, np.int64)
        assert RandomizedResponse(1.0).randomize_securely(items).shape == shape
        assert KaryRandomizedResponse(1.0, 4).randomize_securely(items).shape == shape
        assert UnaryEncoding(1.0, 4).randomize_securely(items).shape == (*shape, 4)


def test_entropy_for_answers_is_read_in_pieces(monkeypatch):
    sizes = []
    noted = SimpleNamespace(urandom=lambda n: sizes.append(n) or os.urandom(n))
    monkeypatch.setattr("discreet.noise.randomized_response.os", noted)
    RandomizedResponse(1.0).randomize_securely(np.zeros(200_000))
    assert max(sizes) <= 1 << 20
    assert sum(sizes) == 8 * 200_000


def test_the_examples_for_other_languages_are_right():
    assert VECTORS["format"] == "discreet-response-vectors"
    for case in VECTORS["bit"]:
        assert answer_bit(case["bit"], int(case["threshold"]), bytes.fromhex(case["tape"])) == case["answer"]
    for case in VECTORS["item"]:
        found = report_item(case["item"], case["items"], int(case["threshold"]), bytes.fromhex(case["tape"]))
        assert found == case["report"]
    for case in VECTORS["bits"]:
        found = report_bits(case["item"], case["items"], int(case["threshold"]), bytes.fromhex(case["tape"]))
        assert found == case["report"]


def test_the_examples_cover_truth_lies_and_the_ends():
    answers = Counter(case["bit"] ^ case["answer"] for case in VECTORS["bit"])
    assert min(answers[0], answers[1]) >= 8
    kept = Counter(case["item"] == case["report"] for case in VECTORS["item"])
    assert min(kept[True], kept[False]) >= 8
    for case in VECTORS["bit"]:
        assert 0 < int(case["threshold"]) <= WHOLE // 2
    on_the_edge = [
        case for case in VECTORS["bit"] if next(numbers(bytes.fromhex(case["tape"]))) == int(case["threshold"])
    ]
    assert on_the_edge
    assert all(case["answer"] == case["bit"] for case in on_the_edge)
