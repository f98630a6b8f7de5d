"""What was acknowledged is known outside the database: one that has lost some of it is refused, also within a round."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3

import pytest
from starlette.testclient import TestClient
from tests.study.service.small_studies import CENTRAL, MATRIX, TOKENS, coordinator, declared, report, run_to_the_end
from tests.study.service.test_restarts import Killed, backup, bring_back, dies_at, run_to_round, total

from discreet.base.errors import InvalidInput
from discreet.study.service.app import Service
from discreet.study.service.chain_heads import Behind, Mark, Marks
from discreet.study.service.declaration import read_study
from discreet.study.service.restoring import restore
from discreet.study.service.study_database import Database
from discreet.study.service.study_files import places_of
from discreet.study.service.wire_messages import Accepted, Refused

NAMES = [f"{number:032x}" for number in range(200)]
STUDY = "sha256:" + 64 * "a"


def marks_of(file) -> list[Mark]:
    return Marks(places_of(file).marks, read_study(file).hash).read()


def restored(file):
    return restore(read_study(file), Database(places_of(file).database), places_of(file))


def forget(file, name: str) -> None:
    """What a standby that lags looks like: the last report is not there."""
    connection = sqlite3.connect(places_of(file).database, isolation_level=None)
    ((place,),) = connection.execute("DELETE FROM reports WHERE id = ? RETURNING place", (name,)).fetchall()
    gone = [connection.execute(f"DELETE FROM contents_{lot} WHERE place = ?", (place,)).rowcount for lot in (0, 1)]
    assert sum(gone) == 1
    connection.execute("UPDATE intake SET reports = reports - 1")
    connection.close()


# The files


def test_a_new_mark_is_always_there_and_two_are_enough(tmp_path):
    marks = Marks(tmp_path / "marks", STUDY)
    for number, name in enumerate(NAMES):
        marks.write(1 + number // 50, name, [name])
        assert Mark(1 + number // 50, name) in marks.read()
        assert len(marks.read()) <= 3
    assert (tmp_path / "marks" / "1").stat().st_size == 4096


def test_repeated_reports_are_marked_once_and_stay_until_a_new_one(tmp_path):
    marks = Marks(tmp_path / "marks", STUDY)
    marks.write(1, NAMES[0], [NAMES[0]])
    marks.write(1, NAMES[1], [NAMES[1]])
    for name in (*NAMES[2:120], *NAMES[2:120]):
        marks.write(2, None, [name])
    assert {mark.id for mark in marks.read()} == set(NAMES[1:120])
    assert len(marks.read()) == 119
    marks.write(2, NAMES[150], [NAMES[150]])
    assert NAMES[150] in {mark.id for mark in marks.read()}
    assert (tmp_path / "marks" / "1").stat().st_size == 4096  # and room is given back
    marks.write(2, None, [NAMES[2]])
    assert {NAMES[2], NAMES[150]} <= {mark.id for mark in marks.read()}


def test_coordinators_have_files_of_their_own_and_take_over_what_others_left(tmp_path):
    one, two, three = (Marks(tmp_path / "marks", STUDY) for _ in range(3))
    one.write(1, NAMES[0], [NAMES[0]])
    two.write(1, NAMES[1], [NAMES[1]])
    two.write(1, None, [NAMES[2]])
    assert {path.name for path in (tmp_path / "marks").iterdir()} == {"1", "2"}
    two.close()
    three.write(1, None, [NAMES[3]])
    assert {path.name for path in (tmp_path / "marks").iterdir()} == {"1", "2"}
    assert {mark.id for mark in one.read()} == set(NAMES[:4])  # nothing of the former one is gone
    three.write(1, NAMES[4], [NAMES[4]])
    assert {mark.id for mark in one.read()} == set(NAMES[:5])
    three.write(1, NAMES[5], [NAMES[5]])
    assert {NAMES[0], NAMES[4], NAMES[5]} <= {mark.id for mark in one.read()}


def test_marks_of_another_study_and_lines_cut_short_say_nothing(tmp_path):
    other, own = Marks(tmp_path / "marks", "sha256:" + 64 * "b"), Marks(tmp_path / "marks", STUDY)
    other.write(1, NAMES[0], [NAMES[0]])
    own.write(1, NAMES[1], [NAMES[1]])
    with open(tmp_path / "marks" / "2", "r+b") as file:
        file.write(b"aaaaaaaaaaaaaaaa 00000")
    assert own.read() == [Mark(1, NAMES[1])]


# A coordinator on a database that has lost something


@pytest.mark.parametrize("change", [{}, CENTRAL, MATRIX], ids=["local", "central", "matrix"])
def test_a_backup_of_the_same_round_is_refused_until_it_is_restored(tmp_path, rng, change):
    file = declared(tmp_path, change, number=40)
    at = coordinator(file)
    run_to_round(at, rng, 3)
    kept = report(at, rng)
    at.accept(kept)
    copy = backup(file, tmp_path / "backup")
    lost = report(at, rng)
    at.accept(lost)
    at.stop()
    bring_back(file, copy)
    with pytest.raises(Behind, match=r"acknowledged in round 3.*study restored"):
        coordinator(file)
    done = restored(file)
    assert (done.first_lost, done.last_lost, done.reports, done.open_round) == (3, 3, 1, 4)
    at = coordinator(file)
    assert at.accept(kept) == Accepted(3)  # answered as before, and abandoned
    with pytest.raises(Refused, match="no more reports"):
        at.accept(lost)
    before = total(at)
    run_to_the_end(at, rng)
    assert total(at) == at.published.row.served > before
    coordinator(file)  # and from now on it starts as usual


def test_a_backup_that_lacks_nothing_that_was_acknowledged_is_taken(tmp_path, rng):
    file = declared(tmp_path, CENTRAL)
    at = coordinator(file)
    at.accept(report(at, rng))
    copy = backup(file, tmp_path / "backup")
    unanswered = report(at, rng)
    at.point = dies_at("accept: committed")
    with pytest.raises(Killed):
        at.accept(unanswered)
    at.stop()
    bring_back(file, copy)
    at = coordinator(file)
    assert at.waiting()[0] == 1
    assert at.accept(unanswered) == Accepted(1)
    assert at.waiting()[0] == 2


def test_a_report_that_a_dead_coordinator_stored_is_marked_by_who_acknowledges_it(tmp_path, rng):
    file = declared(tmp_path, CENTRAL)
    one, two = coordinator(file), coordinator(file)
    two.accept(report(two, rng))
    copy = backup(file, tmp_path / "backup")
    body = report(one, rng)
    one.point = dies_at("accept: committed")
    with pytest.raises(Killed):
        one.accept(body)
    assert body["id"] not in {mark.id for mark in marks_of(file)}
    assert two.accept(body) == Accepted(1)
    assert body["id"] in {mark.id for mark in marks_of(file)}
    one.stop()
    two.stop()
    bring_back(file, copy)
    with pytest.raises(Behind):
        coordinator(file)


@pytest.mark.parametrize("what", ["accept", "refresh", "close_if_full", "end", "check"])
def test_a_standby_that_lags_is_noticed_at_once(tmp_path, rng, what):
    """The database is another one under a coordinator that works."""
    file = declared(tmp_path, CENTRAL)
    at = coordinator(file)
    bodies = [report(at, rng) for _ in range(at.published.row.wanted)]
    at.accept(bodies[0])
    at.accept(bodies[1])
    forget(file, bodies[1]["id"])
    work = {
        "accept": lambda: at.accept(bodies[2]),
        "refresh": at.refresh,
        "close_if_full": at.close_if_full,
        "end": at.end,
        "check": lambda: at.accept({**bodies[2], "round": 2}),
    }[what]
    with pytest.raises((Behind, Refused)) as problem:
        work()
    assert isinstance(problem.value, Behind) == (what not in ("accept",))
    assert total(at) == 0
    assert at.waiting()[0] == 1  # nothing was added to it
    restored(file)
    at.refresh()
    assert at.published.row.number == 2
    assert at.accept(report(at, rng)) == Accepted(2)


def test_who_closes_looks_at_the_marks_of_all(tmp_path, rng):
    """The coordinator that closes has lost nothing itself."""
    file = declared(tmp_path, CENTRAL)
    one, two = coordinator(file), coordinator(file)
    bodies = [report(one, rng) for _ in range(one.published.row.wanted + 1)]
    one.accept(bodies[0])
    forget(file, bodies[0]["id"])
    for body in bodies[1:]:
        two.accept(body)
    with pytest.raises(Behind):
        two.close_if_full()
    assert total(two) == 0


def test_a_full_disk_at_the_mark_is_busy_and_the_retry_is_accepted_once(tmp_path, rng, monkeypatch):
    file = declared(tmp_path)
    at = coordinator(file)
    body = report(at, rng)

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", full)
        for _ in range(2):
            with pytest.raises(Refused) as refusal:
                at.accept(body)
            assert refusal.value.code == "busy"
    assert at.accept(body) == Accepted(1)
    assert at.waiting()[0] == 1
    assert body["id"] in {mark.id for mark in marks_of(file)}


def test_late_reports_of_local_rounds_are_marked_in_the_round_that_is_open(tmp_path, rng):
    file = declared(tmp_path, number=40)
    at = coordinator(file)
    late = report(at, rng)
    run_to_round(at, rng, 4)
    copy = backup(file, tmp_path / "backup")
    assert at.accept(late) == Accepted(1)
    assert Mark(4, late["id"]) in marks_of(file)
    at.stop()
    bring_back(file, copy)
    with pytest.raises(Behind):
        coordinator(file)
    restored(file)
    coordinator(file)


def test_marks_of_another_machine_count_no_more_once_their_round_is_abandoned(tmp_path, rng):
    """Two machines over one database: each has its own files, and only one of them was told of the restoration."""
    file = declared(tmp_path, CENTRAL)
    there = tmp_path / "there"
    there.mkdir()
    one = coordinator(file)
    for path in (file, places_of(file).signing, places_of(file).head):
        shutil.copy(path, there / path.name)
    (there / "small.keys").symlink_to(places_of(file).keys)
    elsewhere = there / "small.toml"
    two = coordinator(elsewhere, places_of(file).database)
    one.accept(report(one, rng))
    copy = backup(file, tmp_path / "backup")
    two.accept(report(two, rng))
    one.stop()
    two.stop()
    bring_back(file, copy)
    coordinator(file).stop()  # this machine has lost nothing
    with pytest.raises(Behind):
        coordinator(elsewhere, places_of(file).database)
    restored(file)
    coordinator(elsewhere, places_of(file).database).stop()


def test_a_mark_never_names_a_round_whose_head_is_not_outside(tmp_path, rng):
    """Another coordinator closes the round, and dies before it has written the head."""
    file = declared(tmp_path, CENTRAL)
    one, two = coordinator(file), coordinator(file)
    bodies = [report(one, rng) for _ in range(one.published.row.wanted)]
    for body in bodies:
        one.accept(body)
    one.point = dies_at("close: committed")
    with pytest.raises(Killed):
        one.close_if_full()
    assert two.accept(bodies[0]) == Accepted(1)
    assert Mark(2, bodies[0]["id"]) in marks_of(file)
    assert two.published.row.number == 2
    assert places_of(file).head.read_text().count("\n") == 3  # opened, round 1, round 2


def test_a_coordinator_that_was_there_takes_no_late_report_of_an_abandoned_round(tmp_path, rng):
    """What the lost database has counted and released must not be counted again."""
    file = declared(tmp_path, number=40)
    at = coordinator(file)
    run_to_round(at, rng, 3)
    known, late = report(at, rng), report(at, rng)
    at.accept(known)
    restored(file)
    assert at.accept(known) == Accepted(3)
    with pytest.raises(Refused, match="no more reports"):
        at.accept(late)
    assert at.published.row.number == 4  # it was told by the database


def test_after_the_end_reports_are_still_answered_as_before(tmp_path, rng):
    file = declared(tmp_path, number=6)
    at = coordinator(file)
    body = report(at, rng)
    at.accept(body)
    at.close_if_full()
    run_to_the_end(at, rng)
    again = coordinator(file)
    assert again.accept(body) == Accepted(1)
    coordinator(file)


def test_a_lost_round_counts_against_every_token(tmp_path, rng):
    from discreet.study.service import rounds
    from discreet.study.service.reports import token_digest
    from discreet.study.service.study_files import new_tokens

    file = declared(tmp_path, TOKENS, {"reports_per_user = 1": "reports_per_user = 2"}, number=40)
    at = coordinator(file)
    (token,) = new_tokens(1)
    with at._link as link, link.writing():
        rounds.add_tokens(link, [token_digest(token)])
    copy = backup(file, tmp_path / "backup")
    at.accept(report(at, rng), token=token)
    at.stop()
    bring_back(file, copy)
    restored(file)
    at = coordinator(file)
    at.accept(report(at, rng), token=token)
    at.close_if_full()
    with pytest.raises(Refused, match="used up"):
        at.accept(report(at, rng), token=token)


def test_a_study_whose_database_and_head_are_gone_is_not_opened_again(tmp_path, rng):
    file = declared(tmp_path)
    at = coordinator(file)
    at.accept(report(at, rng))
    at.stop()
    for path in tmp_path.glob("small.db*"):
        path.unlink()
    places_of(file).head.unlink()
    with pytest.raises(InvalidInput, match=r"small\.marks.*bring the database back"):
        coordinator(file)
    shutil.rmtree(places_of(file).marks)
    coordinator(file)


def test_the_operator_is_told(tmp_path, rng):
    import io
    import json

    from discreet.study.service.monitoring import Log

    file, out = declared(tmp_path, CENTRAL), io.StringIO()
    at = coordinator(file)
    body = report(at, rng)
    with TestClient(Service(at, "token", log=Log(out), look=0.01).app) as client:
        assert client.post("/v1/reports", json=body).status_code == 200
        forget(file, body["id"])
        assert client.get("/healthz").status_code == 503
        assert client.post("/v1/reports", json=report(at, rng)).status_code == 503
    assert {"event": "behind", "remedy": "discreet study restored"}.items() <= json.loads(
        next(line for line in out.getvalue().splitlines() if '"behind"' in line)
    ).items()
