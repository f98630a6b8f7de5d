"""Every position of every message is randomised at its own rate, the last one too; how long it is says the declaration.

Elsewhere a last bit was never randomised, and messages of other lengths could be told apart. Rates are tested with real
entropy at 1e-9 for all positions together; JavaScript is held to the same by the shared vectors, of which each position
is seen both ways, and whose results tests of both languages compare.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Sequence

import make_shuffled_vectors
import make_vectors
import numpy as np
import pytest
import toy_study as toy
from scipy import stats

from discreet.client.exact import WHOLE, Given, Tape
from discreet.client.reports import read_round, shuffled_messages
from discreet.noise.randomized_response import KaryRandomizedResponse, UnaryEncoding

DRAWS, FALSE_ALARM = 3000, 1e-9
SIZES = [2, 3, 7, 8, 9, 31, 32, 33, 63, 64, 65]


def rates_hold(ones: np.ndarray, draws: int, rates: Sequence[float]) -> bool:
    """Whether every position is one as often as stated, none of them worse than chance explains."""
    worst = min(stats.binomtest(int(n), draws, rate).pvalue for n, rate in zip(ones, rates, strict=True))
    return worst > FALSE_ALARM / len(rates)


def bits_of(send: Callable[[], Sequence[int]], draws: int = DRAWS) -> np.ndarray:
    return np.sum([send() for _ in range(draws)], axis=0)


@pytest.mark.parametrize("items", SIZES)
def test_every_bit_of_a_unary_report_on_the_device(items: int) -> None:
    threshold, tape = WHOLE // 5, Tape()
    for item in {0, items // 2, items - 1}:
        rates = [0.5 if i == item else 0.2 for i in range(items)]
        ones = bits_of(lambda item=item: [int(bit) for bit in tape.bits(item, items, threshold)])
        assert rates_hold(ones, DRAWS, rates)
        # The twin: the last bit is told as it is.
        ones[-1] = DRAWS if item == items - 1 else 0
        assert not rates_hold(ones, DRAWS, rates)


@pytest.mark.parametrize("items", SIZES)
def test_every_bit_and_every_item_of_the_library_s_own_reports(items: int) -> None:
    unary, kary = UnaryEncoding(1.0, items), KaryRandomizedResponse(1.0, items)
    sent = unary.randomize_securely(np.full(DRAWS, items - 1))
    assert sent.shape == (DRAWS, items)
    assert rates_hold(sent.sum(axis=0), DRAWS, [unary.q] * (items - 1) + [unary.p])
    said = np.bincount(kary.randomize_securely(np.full(DRAWS, items - 1)), minlength=items)
    assert rates_hold(said, DRAWS, [kary.q] * (items - 1) + [kary.p])
    assert not rates_hold(np.append(said[:-1], 0), DRAWS, [kary.q] * (items - 1) + [kary.p])


@pytest.mark.parametrize("items", SIZES)
def test_every_item_of_a_kary_report_on_the_device(items: int) -> None:
    threshold, tape = WHOLE // (3 * items), Tape()
    said = np.bincount([tape.item(items - 1, items, threshold) for _ in range(DRAWS)], minlength=items)
    lie = threshold / WHOLE
    assert rates_hold(said, DRAWS, [lie] * (items - 1) + [1 - (items - 1) * lie])


SHUFFLED = json.loads(make_shuffled_vectors.FILE.read_text())
LOCAL = json.loads(make_vectors.FILE.read_text())


@pytest.mark.parametrize("number", range(len(SHUFFLED["settings"])))
def test_every_message_behind_a_shuffler_flips_and_all_records_send_as_many(number: int) -> None:
    setting = SHUFFLED["settings"][number]
    study = toy.read(setting["study"])
    round_, horizon = read_round(setting["policy"], study), study.horizon
    if setting["study"]["report"]["kind"] == "one-item":
        tape, number_of = Tape(), round_.laws[0].items
        for record in ([], [(0, 0, study.rewards[1])] * horizon):
            said = [shuffled_messages(study, round_, record, tape) for _ in range(400)]
            assert {len(each) for each in said} == {1}
            assert all(0 <= each[0] < number_of for each in said)
        return
    records = [[(s, a, study.rewards[1]) for s, a in zip(range(n), [0] * n, strict=True) if s < study.states]
               for n in range(horizon + 1)]  # fmt: skip
    size = round_.questions[0].size
    truth = {  # with words that never lie
        n: shuffled_messages(study, round_, record, Tape(Given(b"\xff" * 4096 * 8))) for n, record in enumerate(records)
    }
    rate, draws = round_.laws[0].threshold / WHOLE, 600
    for n, record in enumerate(records):
        told = [shuffled_messages(study, round_, record, Tape()) for _ in range(draws)]
        assert {len(each) for each in told} == {size}
        flips = (np.array(told) != np.array(truth[n])).sum(axis=0)
        assert rates_hold(flips, draws, [rate] * size)
        if rate > 0.05:
            assert not rates_hold(np.append(flips[:-1], 0), draws, [rate] * size)


def test_the_vectors_show_every_position_both_ways() -> None:
    unary: dict[int, list[str]] = defaultdict(list)
    for vector in LOCAL["vectors"]:
        if vector["what"] == "unary":
            unary[vector["items"]].append(vector["result"])
    assert len(unary) >= 4
    for items, results in unary.items():
        assert {len(bits) for bits in results} == {items}
        assert all({bits[place] for bits in results} == {"0", "1"} for place in range(items))


def test_vectors_of_one_setting_have_one_length() -> None:
    lengths: dict[tuple[int, str], set[int]] = defaultdict(set)
    for vector in SHUFFLED["vectors"]:
        lengths[vector["setting"], "messages"].add(len(vector["result"]))
    assert len(lengths) == len(SHUFFLED["settings"])
    assert all(len(found) == 1 for found in lengths.values())
