"""A shuffled study from the device through both parties to the release."""

from __future__ import annotations

import random
import sqlite3

import numpy as np
import pytest
from tests.study.shuffler.two_parties import Parties, declared, rows

from discreet import ledger
from discreet.study.service.study_files import places_of, shuffler_folder, shuffler_places_of


@pytest.fixture
def parties(tmp_path):
    found = Parties(declared(tmp_path))
    yield found
    found.stop()


def test_a_study_runs_from_its_first_device_to_its_end(parties):
    chance, accepted = random.Random(1), 0
    while parties.coordinator.published.ended is None:
        assert parties.person(chance) is None
        accepted += 1
        parties.work()
    assert accepted == parties.study.total == 12
    places = places_of(parties.file)
    assert rows(places.database, "SELECT round, users, counted, content FROM batches ORDER BY round") == [
        (1, 4, 1, None), (2, 4, 2, None), (3, 4, 3, None),
    ]  # fmt: skip
    second = shuffler_places_of(shuffler_folder(parties.file) / parties.file.name)
    assert rows(second.database, "SELECT round, how, body FROM batches ORDER BY round") == [
        (number, "acknowledged", None) for number in (1, 2, 3)
    ]
    for database in (places.database, second.database):
        with sqlite3.connect(database) as connection:
            assert ledger.verify(connection).sound
            assert ledger.balance(connection, parties.study.name).left.loss >= 0
    parties.shuffler.refresh()
    assert rows(second.database, "SELECT ended FROM study")[0][0]
    assert np.isfinite(parties.coordinator.mechanism.alone)
