"""What users did is not better than itself, whatever is damaged, by ``evaluate``; better policies are found."""

from __future__ import annotations

import json

import pytest
from experiments.damaged_tables import KINDS, STORED, decided, release
from scipy import stats

DECIDED = ("better", "worse")


def measured(what):
    """Releases, wrong or decided ones, and those that cannot be told, of every kind that was measured."""
    found = json.loads(STORED.read_text())[what]
    return {
        kind: (sum(words.values()), sum(words.get(word, 0) for word in DECIDED), words.get("cannot be told", 0))
        for kind, words in found.items()
    }


def test_what_users_did_is_not_better_than_itself():
    """Real noise: all of six are wrong with probability .05^6 = 2e-8; once most of them were."""
    assert not all(release(number)[1] in DECIDED for number in (0, 4, 5, 10, 16, 18))


def test_what_was_measured_of_damaged_tables():
    kinds = measured("itself")
    assert {kind.split(",")[0] for kind in kinds} == set(KINDS)
    releases, wrong = (sum(each[i] for each in kinds.values()) for i in (0, 1))
    assert wrong <= 0.05 * releases
    for kind, (n, wrong, _) in kinds.items():
        assert stats.binom.sf(wrong - 1, n, 0.05) > 1e-3, kind  # beyond chance: one of a thousand
    assert stats.binom.sf(20 - 1, 100, 0.05) < 1e-3  # as a kind that is wrong in a fifth would be


def test_what_is_four_deviations_better_was_found():
    for kind, (n, better, untold) in measured("decided").items():
        assert better >= 0.80 * n, kind
        assert untold <= 0.10 * n, kind


@pytest.mark.long
def test_what_is_four_deviations_better_is_found():
    """Of ten at .9 fewer than three are found with probability 4e-7."""
    assert sum(decided(number)[1] == "better" for number in range(1000, 1010)) >= 3
