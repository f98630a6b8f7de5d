"""A crash between any two steps, a restart that finishes what is left, and going on with a database that is behind."""

from __future__ import annotations

import json
import shutil
import sqlite3
import threading
from contextlib import closing

import numpy as np
import pytest
from tests.study.service.small_studies import (
    CENTRAL,
    MATRIX,
    MODELS,
    TOKENS,
    coordinator,
    declared,
    report,
    run_to_the_end,
)
from tests.study.service.soundness import COUNTED

from discreet.base.errors import InvalidInput, Unsupported
from discreet.ledger import balance, opened, verify
from discreet.study.service.chain_heads import ExternalHead, hashed
from discreet.study.service.declaration import read_study
from discreet.study.service.restoring import restore
from discreet.study.service.study_database import Database
from discreet.study.service.study_files import places_of
from discreet.study.service.wire_messages import Accepted, Refused

OPENING = ("open: begun", "open: charged", "open: keyed", "open: written", "open: committed",
           "finish: checked", "finish: headed", "finish: published", "finish: destroyed")  # fmt: skip
CLOSING = ("close: locked", "close: frozen", "close: read", "close: released", "open: keyed", "close: publishing",
           "close: charged", "close: counted", "close: written", "close: committed", "erase: locked",
           "erase: committed", "finish: checked", "finish: headed", "finish: published",
           "finish: destroyed")  # fmt: skip
ACCEPTING = ("accept: locked", "accept: written", "accept: committed")


class Killed(BaseException):
    """What nothing catches: the process is gone."""


def dies_at(name: str, after: int = 0):
    """A point that kills when it is reached for the time after ``after`` others."""
    seen = [0]

    def point(reached: str) -> None:
        if reached == name:
            seen[0] += 1
            if seen[0] > after:
                raise Killed(name)

    return point


def total(at) -> int:
    with at.reading() as link:
        ((number,),) = link.rows(COUNTED)
        return number


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", OPENING)
def test_a_study_that_was_being_opened_is_opened_by_the_restart(tmp_path, rng, model, name):
    file = declared(tmp_path, MODELS[model])
    with pytest.raises(Killed):
        coordinator(file, point=dies_at(name))
    at = coordinator(file)
    assert at.published.row.number == 1
    run_to_the_end(at, rng)
    with opened(places_of(file).database) as books:
        assert verify(books).sound
        assert balance(books, "small").head.number == at.published.row.number  # opened and charged once


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", CLOSING)
def test_a_round_that_was_being_closed_is_closed_once(tmp_path, rng, model, name):
    file = declared(tmp_path, MODELS[model])
    at = coordinator(file)
    while at.published.row.number == 1:
        at.accept(report(at, rng))
        at.close_if_full()
    waiting = [at.accept(report(at, rng)) for _ in range(at.published.row.wanted)]
    handed_out = at.published.row.number
    at.point = dies_at(name)
    with pytest.raises(Killed):
        at.close_if_full()
    again = coordinator(file)
    assert again.published.row.number >= handed_out
    again.close_if_full()
    assert again.published.row.number == 3 or again.published.ended
    assert total(again) == again.published.row.served
    assert len(waiting) <= total(again)
    keys = places_of(file).keys
    assert not keys.exists() or {path.name for path in keys.iterdir()} <= {f"round-{again.published.row.number}.key"}
    run_to_the_end(again, rng)
    assert total(again) == again.declared.total
    with opened(places_of(file).database) as books:
        assert verify(books).sound


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", ACCEPTING)
def test_a_report_without_an_answer_is_sent_again_and_counted_once(tmp_path, rng, model, name):
    file = declared(tmp_path, MODELS[model])
    at = coordinator(file)
    body = report(at, rng)
    at.point = dies_at(name)
    with pytest.raises(Killed):
        at.accept(body)
    again = coordinator(file)
    assert again.accept(body) == again.accept(body) == Accepted(1)
    assert again.waiting()[0] == 1


def test_nothing_is_handed_out_before_its_head_lies_outside(tmp_path, rng):
    file = declared(tmp_path)
    at, other = coordinator(file), coordinator(file)
    at.accept(report(at, rng))
    at.point = dies_at("finish: checked")
    with pytest.raises(Killed):
        at.close_if_full()
    assert ExternalHead(places_of(file).head).read()["round"] == 1
    assert other.policy()["round"] == 1
    other.refresh()  # another process finishes what the dead one has left
    assert other.policy()["round"] == 2
    assert ExternalHead(places_of(file).head).read() == other.head()


def test_two_coordinators_close_a_round_once(tmp_path, rng):
    file = declared(tmp_path)
    one, two = coordinator(file), coordinator(file)
    for _ in range(3):
        one.accept(report(one, rng))
        assert one.close_if_full()
        assert not two.close_if_full()
        two.refresh()
        assert one.policy() == two.policy()


def test_a_cut_line_of_the_external_file_is_written_again(tmp_path, rng):
    file = declared(tmp_path)
    at = coordinator(file)
    at.accept(report(at, rng))
    at.close_if_full()
    head = places_of(file).head
    whole = head.read_bytes()
    head.write_bytes(whole[:-20])
    at = coordinator(file)
    assert head.read_bytes() == whole
    assert ExternalHead(head).all() == at.heads()


def backup(file, folder):
    """A copy of the database as it is."""
    folder.mkdir()
    source = places_of(file).database
    copy = folder / "copy.db"
    with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(copy)) as other:
        one.backup(other)
    return copy


def bring_back(file, copy) -> None:
    database = places_of(file).database
    for ending in ("-wal", "-shm"):
        database.with_name(database.name + ending).unlink(missing_ok=True)
    shutil.copy(copy, database)


def run_to_round(at, rng, number: int) -> None:
    while at.published.row.number < number:
        at.accept(report(at, rng))
        at.close_if_full()


@pytest.mark.parametrize("model", MODELS)
def test_a_database_behind_the_external_head_is_refused_until_it_is_restored(tmp_path, rng, model):
    file = declared(tmp_path, MODELS[model])
    at = coordinator(file)
    run_to_round(at, rng, 2)
    at.accept(report(at, rng))
    copy = backup(file, tmp_path / "backup")
    run_to_round(at, rng, 4)
    seen = at.heads()
    at.stop()
    bring_back(file, copy)
    with pytest.raises(InvalidInput, match="study restored"):
        coordinator(file)
    done = restore(read_study(file), Database(places_of(file).database), places_of(file))
    assert (done.first_lost, done.last_lost, done.open_round, done.reports) == (2, 4, 5, 1)
    at = coordinator(file)
    heads = at.heads()
    assert heads[:4] == seen  # devices can follow the chain
    assert heads[4]["previous"] == hashed(seen[3])
    assert at.published.row.number == 5
    assert at.waiting()[0] == 0  # what waited may have been counted: it is given up
    with pytest.raises(Refused):
        at.accept({**report(at, rng), "round": 3})
    with opened(places_of(file).database) as books:
        assert verify(books).sound
        entries = [
            json.loads(body)["what"] for (body,) in books.execute("SELECT body FROM ledger_entries WHERE number > 2")
        ]
    assert [what for what in entries if "lost" in what or "abandoned" in what] == [
        "round 2, abandoned", "round 3, lost with the database", "round 4, lost with the database"]  # fmt: skip
    at.accept(report(at, rng))
    coordinator(file)  # and from now on it starts as usual


def test_a_deleted_database_is_noticed(tmp_path, rng):
    file = declared(tmp_path)
    at = coordinator(file)
    run_to_round(at, rng, 2)
    at.stop()
    for path in tmp_path.glob("small.db*"):
        path.unlink()
    with pytest.raises(InvalidInput, match="reached round 2"):
        coordinator(file)


def test_an_external_file_that_another_process_has_just_made_is_as_good_as_none(tmp_path):
    file = declared(tmp_path)
    places_of(file).head.touch()
    assert coordinator(file).published.row.number == 1
    places_of(file).head.write_bytes(b"")
    with pytest.raises(InvalidInput, match="missing"):
        coordinator(file)
    places_of(file).head.write_bytes(b"nonsense\n")
    with pytest.raises(InvalidInput, match="no head"):
        coordinator(file)


def test_a_missing_external_head_is_noticed(tmp_path, rng):
    file = declared(tmp_path)
    coordinator(file).stop()
    places_of(file).head.unlink()
    with pytest.raises(InvalidInput, match="missing"):
        coordinator(file)
    with pytest.raises(InvalidInput, match="missing"):
        restore(read_study(file), Database(places_of(file).database), places_of(file))


def test_lost_secret_state_ends_the_study(tmp_path, rng):
    file = declared(tmp_path, MATRIX)
    at = coordinator(file)
    run_to_round(at, rng, 2)
    copy = backup(file, tmp_path / "backup")
    keys = shutil.copytree(places_of(file).keys, tmp_path / "keys")  # against the rules, and it does not help
    run_to_round(at, rng, 3)
    at.stop()
    bring_back(file, copy)
    shutil.copytree(keys, places_of(file).keys, dirs_exist_ok=True)
    with pytest.raises(Unsupported, match="secret state"):
        restore(read_study(file), Database(places_of(file).database), places_of(file))


def test_lost_rounds_count_against_every_token(tmp_path, rng):
    from discreet.study.service import rounds
    from discreet.study.service.reports import token_digest
    from discreet.study.service.study_files import new_tokens

    file = declared(tmp_path, TOKENS, {"reports_per_user = 1": "reports_per_user = 3"})
    at = coordinator(file)
    (token,) = new_tokens(1)
    with at._link as link, link.writing():
        rounds.add_tokens(link, [token_digest(token)])
    copy = backup(file, tmp_path / "backup")
    at.accept(report(at, rng), token=token)
    at.close_if_full()
    at.stop()
    bring_back(file, copy)
    restore(read_study(file), Database(places_of(file).database), places_of(file))
    at = coordinator(file)
    at.accept(report(at, rng), token=token)  # rounds 1 and 2 are lost: one use of three is left
    at.close_if_full()
    with pytest.raises(Refused, match="used up"):
        at.accept(report(at, rng), token=token)


def test_with_a_recorded_tape_of_noise_a_crash_changes_nothing_after_it(tmp_path):
    """The same reports and the same noise: the run with crashes ends with the same policies and releases."""
    from discreet.mechanisms.sums.accumulator import SecureNoise

    class Tape(SecureNoise):
        """Noise that was recorded: drawn for real once, and played again by the number of the closing."""

        drawn: dict[tuple[int, int], np.ndarray] = {}  # noqa: RUF012

        def __init__(self, at_round) -> None:
            super().__init__()
            self._at, self._number = at_round, (0, 0)

        def draw(self, law, copies, size):
            round_number = self._at()
            place = self._number[1] + 1 if self._number[0] == round_number else 0
            self._number = (round_number, place)
            key = (round_number, place)
            if key not in self.drawn:
                self.drawn[key] = super().draw(law, copies, size)
            return self.drawn[key]

    def play(folder, faults):
        folder.mkdir()
        file = declared(folder, CENTRAL)
        if folder.name == "crashing":
            for name in ("small.toml", "small.signing.pem"):
                shutil.copy(tmp_path / "smooth" / name, folder / name)
        rng, faults = np.random.default_rng(3), list(faults)
        at, heads = None, []

        def start():
            number = [1]
            tape = Tape(lambda: number[0])
            made = coordinator(file, noise=tape)
            return made, number

        at, number = start()
        while at.published.ended is None:
            at.accept(report(at, rng))
            number[0] = at.published.row.number
            fault = faults.pop() if faults and at.waiting()[0] >= at.waiting()[1] else None
            at.point = dies_at(fault) if fault else at.point
            try:
                at.close_if_full()
            except Killed:
                at, number = start()
                number[0] = at.published.row.number
                at.close_if_full()
            heads = at.heads()
        return [(head["policy"], head["released"]) for head in heads]

    smooth = play(tmp_path / "smooth", [])
    assert play(tmp_path / "crashing", ["close: released", "close: written", "close: committed"]) == smooth


def test_a_lost_key_costs_the_reports_of_one_round(tmp_path, rng):
    file = declared(tmp_path, CENTRAL)
    at = coordinator(file)
    at.accept(report(at, rng))
    at.stop()
    (places_of(file).keys / "round-1.key").unlink()
    with pytest.raises(InvalidInput, match=r"round-1\.key.*study restored"):
        coordinator(file)
    assert restore(read_study(file), Database(places_of(file).database), places_of(file)).reports == 1
    at = coordinator(file)
    assert at.published.row.number == 2
    run_to_the_end(at, rng)


def test_a_key_that_is_not_the_rounds_is_refused(tmp_path, rng):
    """Whoever can write the database might put a key of her own there, and read along."""
    file = declared(tmp_path, CENTRAL)
    at = coordinator(file)
    with at._link as link, link.writing():
        link.run("UPDATE rounds SET public_key = ?", bytes(32))
    with pytest.raises(InvalidInput, match="not the key"):
        coordinator(file)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", ["close: released", "close: charged", "close: written"])
def test_a_closing_that_failed_starts_again_from_the_database(tmp_path, rng, model, name):
    """The process lives on, and what it remembers has counted the reports already: it must not be used."""
    file = declared(tmp_path, MODELS[model])
    at = coordinator(file)
    run_to_round(at, rng, 2)
    for _ in range(at.published.row.wanted):
        at.accept(report(at, rng))
    at.point = dies_at(name)
    with pytest.raises(Killed):
        at.close_if_full()
    at.point = lambda reached: None
    assert at.close_if_full()
    assert at.published.row.served == total(at)
    run_to_the_end(at, rng)
    assert at.published.row.served == total(at) == at.declared.total


def test_coordinators_that_start_at_once_open_the_study_once(tmp_path):
    file, found, problems = declared(tmp_path), [], []

    def start() -> None:
        try:
            found.append(coordinator(file))
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert len({at.published.row.head for at in found}) == 1
    with opened(places_of(file).database) as books:
        assert verify(books).entries == 2
