"""Whose turn it is to write: threads and processes queue, a dead process does not hold anybody up."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading

from discreet.study.service.study_database import Database, Turn

SPAWNED = multiprocessing.get_context("fork")


def holds(file, taken, go_on) -> None:
    with Turn(file):
        taken.set()
        go_on.wait(60)


def test_a_process_waits_for_another_one_and_for_nobody_who_is_dead(tmp_path):
    file, taken, go_on = tmp_path / "turn", SPAWNED.Event(), SPAWNED.Event()
    other = SPAWNED.Process(target=holds, args=(file, taken, go_on))
    other.start()
    assert taken.wait(60)
    had = threading.Event()

    def wait() -> None:
        with Turn(file):
            had.set()

    thread = threading.Thread(target=wait)
    thread.start()
    assert not had.wait(0.2)
    os.kill(other.pid, signal.SIGKILL)
    assert had.wait(60)
    thread.join()
    other.join()


def test_whoever_cannot_lock_the_file_leaves_it_to_the_database(tmp_path):
    with Turn(tmp_path / "nowhere" / "turn"):
        pass
    with Turn():
        pass


def test_an_error_gives_the_turn_back(tmp_path):
    turn = Turn(tmp_path / "turn")
    for _ in range(3):
        try:
            with turn:
                raise ValueError
        except ValueError:
            pass
    with Turn(tmp_path / "turn"):
        pass


def test_writers_of_one_sqlite_file_queue_at_the_file_beside_it(tmp_path):
    database = Database(tmp_path / "a.db")
    database.prepare()
    link = database.connect()
    with link.writing():
        link.run("INSERT INTO tokens (digest, used) VALUES ('a', 0)")
    link.close()
    assert (tmp_path / "a.db-turn").exists()
