"""Twenty thousand wrong inputs, the same ones every time; ``make fuzz`` tries a million, with a fresh seed."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.errors import InvalidInput

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


def test_an_input_depends_on_seed_and_number_alone():
    seen = [[], []]
    for record in seen:
        kinds = {kind: [lambda rng, record=record: record.append(rng.integers(2**60))] for kind in fuzzer.SHARES}
        for number in (3, 1, 2):
            fuzzer.one_input(7, number, kinds)
    assert seen[0] == seen[1]
