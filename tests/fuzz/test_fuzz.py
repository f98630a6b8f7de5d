"""Twenty thousand wrong inputs, the same ones every time; ``make fuzz`` tries a million, with a fresh seed."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.base.errors import InvalidInput

from . import fuzzer

SEED, INPUTS, PARTS = 20_261_115, 20_000, 4


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_no_raw_exception_comes_out(part):
    share = INPUTS // PARTS
    assert fuzzer.fuzz(SEED, share, first=part * share) == {}


def test_the_fuzzer_sees_raw_exceptions_and_long_messages():
    """It can fail: a call that raises what it should not is found, and so is a message of two lines."""

    def wrong(rng):
        return np.zeros(2) == np.zeros(3) or {}["missing"]

    def long(rng):
        raise InvalidInput("first\nsecond")

    for broken, words in ((wrong, "at the fuzzer itself"), (long, "more than one line")):
        found = fuzzer.one_input(0, 1, {kind: [broken] for kind in fuzzer.SHARES})
        assert found is not None
        assert words in found


def test_a_failure_says_how_to_see_it_again(monkeypatch):
    """A raw exception prints a command of one input, which finds the same one and shows its traceback."""

    def sometimes(rng):
        if rng.integers(100) == 0:
            raise KeyError("missing")

    monkeypatch.setattr(fuzzer, "targets", lambda folder: {kind: [sometimes] for kind in fuzzer.SHARES})
    monkeypatch.setattr(fuzzer, "_EVERY", 500)
    said = []
    found = fuzzer.fuzz(3, 2_000, say=said.append)
    assert sum("of 2,000 inputs" in text for text in said) == 3
    first = found["cheap: KeyError at the fuzzer itself"][0]
    assert any(text.endswith(f"--seed 3 --first {first} --inputs 1") for text in said)
    alone = []
    assert list(fuzzer.fuzz(3, 1, first, say=alone.append)) == ["cheap: KeyError at the fuzzer itself"]
    assert any("Traceback" in text and "missing" in text for text in alone)
    assert fuzzer.verdict(3, 2_000, found, 1.0).startswith("FAILED: 2,000 inputs of seed 3, ")
    assert (
        fuzzer.verdict(3, 2_000, {}, 1.0)
        == "passed: 2,000 inputs of seed 3, 0 raw exceptions at 0 sites, 1 CPU seconds"
    )
    assert "\n" not in fuzzer.verdict(3, 2_000, found, 1.0)


def test_an_input_depends_on_seed_and_number_alone():
    seen = [[], []]
    for record in seen:
        kinds = {kind: [lambda rng, record=record: record.append(rng.integers(2**60))] for kind in fuzzer.SHARES}
        for number in (3, 1, 2):
            fuzzer.one_input(7, number, kinds)
    assert seen[0] == seen[1]
