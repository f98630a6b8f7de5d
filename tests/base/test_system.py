"""Calls that a system may lack are taken away in turn: files are saved, splits remember, serving says no."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from discreet.base import system
from discreet.base.errors import InvalidInput
from discreet.base.files import reserve, write_atomically
from discreet.cli.workers import check_server

MISSING = ("fchmod", "fdatasync", "posix_fallocate", "O_CLOEXEC")


@pytest.mark.parametrize("name", MISSING)
def test_files_are_saved_without_it(tmp_path, monkeypatch, name):
    monkeypatch.delattr(os, name)
    file = tmp_path / "a.json"
    write_atomically(file, "one\n", private=True)
    write_atomically(file, "two\n")
    assert file.read_bytes() == b"two\n"
    assert file.stat().st_mode & 0o777 == 0o600  # an existing file keeps its mode
    with reserve({tmp_path / "b": 5_000}) as (room,):
        room.write("there")
    assert (tmp_path / "b").read_text() == "there"
    with open(tmp_path / "b", "rb") as opened:
        system.bring_content_to_disk(opened.fileno())


def test_no_file_is_open_when_it_gets_its_name(tmp_path, monkeypatch):
    """Windows renames nothing that is open."""
    opened: list[int] = []
    replace = os.replace

    def checked(source: Path, target: Path) -> None:
        inode = os.stat(source).st_ino
        for each in opened:
            try:
                assert os.fstat(each).st_ino != inode
            except OSError:
                continue  # closed
        replace(source, target)

    real = os.open
    monkeypatch.setattr(os, "open", lambda *given, **named: opened.append(real(*given, **named)) or opened[-1])
    monkeypatch.setattr(os, "replace", checked)
    write_atomically(tmp_path / "a", "content")
    assert opened


def test_a_drive_is_asked_too_where_the_system_can(tmp_path, monkeypatch):
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(system, "_FULL_SYNC", 51)
    monkeypatch.setattr(system.fcntl, "fcntl", lambda handle, what: asked.append((handle, what)))
    write_atomically(tmp_path / "a", "content")
    assert [what for _, what in asked] == [51, 51]  # the content, the folder

    def refused(handle: int, what: int) -> None:
        raise OSError("not on this file system")

    monkeypatch.setattr(system.fcntl, "fcntl", refused)
    write_atomically(tmp_path / "a", "other")
    assert (tmp_path / "a").read_text() == "other"


@pytest.mark.parametrize("locks", [True, False])
def test_one_at_a_time_with_and_without_locks_of_the_system(tmp_path, monkeypatch, locks):
    if not locks:
        monkeypatch.setattr(system, "fcntl", None)
    file = tmp_path / "split.json"
    write_atomically(file, "0")

    def add() -> None:
        for _ in range(25):
            with system.alone_with(file):
                write_atomically(file, str(int(file.read_text()) + 1))

    workers = [threading.Thread(target=add) for _ in range(4)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    assert file.read_text() == "100"
    assert [each.name for each in tmp_path.iterdir()] == ["split.json"]
    with pytest.raises(FileNotFoundError), system.alone_with(tmp_path / "other"):
        pass


def test_what_a_killed_run_left_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(system, "fcntl", None)
    file = tmp_path / "split.json"
    file.write_text("0")
    (tmp_path / "split.json.lock").touch()
    with pytest.raises(InvalidInput, match="delete that file"):
        system._made_alone(file, wait=0.0)


def test_serving_is_refused_without_locks(monkeypatch):
    check_server()
    monkeypatch.setattr(system, "fcntl", None)
    with pytest.raises(InvalidInput, match="Linux and macOS only"):
        check_server()
    with pytest.raises(InvalidInput, match="Linux and macOS only"):
        system.lock(0)
