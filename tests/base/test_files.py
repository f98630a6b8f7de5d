"""Output files appear whole or not at all."""

from __future__ import annotations

import os

import pytest

from discreet.base.errors import InvalidInput
from discreet.base.files import check_distinct, check_writable, reserve, write_atomically


@pytest.mark.parametrize("content", ["text with ε", b"\x00\xff"])
def test_what_is_written_is_what_is_read(tmp_path, content):
    write_atomically(tmp_path / "file", content)
    written = (tmp_path / "file").read_bytes()
    assert written == (content.encode() if isinstance(content, str) else content)
    assert os.listdir(tmp_path) == ["file"]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("old")

    def broken(*_paths):
        raise OSError("the disk is gone")

    monkeypatch.setattr("discreet.base.files.os.replace", broken)
    with pytest.raises(InvalidInput, match="the disk is gone"):
        write_atomically(tmp_path / "file", "new")
    assert (tmp_path / "file").read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_places_that_cannot_be_written_are_named(tmp_path):
    assert check_writable(tmp_path / "file") == tmp_path / "file"
    with pytest.raises(InvalidInput, match="it is a folder"):
        check_writable(tmp_path)
    with pytest.raises(InvalidInput, match="does not exist; make it first"):
        check_writable(tmp_path / "nowhere" / "file")


def test_files_are_on_the_disk_before_they_have_their_name(tmp_path, monkeypatch):
    done = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(f"discreet.base.files.os.{name}", lambda *a, _n=name, _r=real: (done.append(_n), _r(*a))[1])
    write_atomically(tmp_path / "file", "text")
    assert done == ["fsync", "replace", "fsync"]  # the content, the name, the folder


def test_room_is_taken_for_all_files_or_none(tmp_path):
    with reserve({tmp_path / "a": 5000, tmp_path / "b": 0}) as (first, _second):
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) == 5000
        first.write("short")
    assert os.listdir(tmp_path) == ["a"]
    assert (tmp_path / "a").read_text() == "short"
    with pytest.raises(InvalidInput, match="does not exist"), reserve({tmp_path / "c": 1, tmp_path / "no" / "d": 1}):
        raise AssertionError("there is no room for the second file")
    assert os.listdir(tmp_path) == ["a"]


def test_names_as_long_as_they_may_be_are_written(tmp_path):
    write_atomically(tmp_path / ("x" * 255), "text")
    with pytest.raises(InvalidInput, match="256 bytes, where 255 are possible"):
        write_atomically(tmp_path / ("x" * 256), "text")


def test_one_file_under_two_names_is_seen(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    check_distinct({"--out": tmp_path / "a", "--receipt": tmp_path / "b", "--json": None})
    with pytest.raises(InvalidInput, match="--out and --receipt name the same file"):
        check_distinct({"--out": tmp_path / "file", "--receipt": tmp_path / "link"})
    with pytest.raises(InvalidInput, match="DATA and --out name the same file"):
        check_distinct({"--out": tmp_path / "x" / ".." / "file"}, [("DATA", str(tmp_path / "file"))])


@pytest.mark.parametrize("name", ["\0", "a\0b", 3, None, b"bytes", "\ud800"])
def test_what_is_no_name_is_refused(name):
    with pytest.raises(InvalidInput):
        check_writable(name)


def test_devices_are_left_alone():
    with pytest.raises(InvalidInput, match="not a plain file"):
        check_writable("/dev/null")


@pytest.fixture
def umask():
    """Set the umask of this process, and put it back."""
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


@pytest.mark.parametrize(("masked", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_new_files_get_what_the_umask_leaves(tmp_path, umask, masked, mode):
    umask(masked)
    write_atomically(tmp_path / "file", "text")
    with reserve({tmp_path / "other": 10}) as (room,):
        room.write("text")
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {mode}


def test_existing_files_keep_their_mode_and_private_ones_are_their_owners(tmp_path, umask):
    umask(0o022)
    for name in ("file", "key"):
        (tmp_path / name).write_text("old")
        (tmp_path / name).chmod(0o640)
    write_atomically(tmp_path / "file", "new")
    write_atomically(tmp_path / "key", "new", private=True)
    write_atomically(tmp_path / "fresh", "new", private=True)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {"file": 0o640, "key": 0o600, "fresh": 0o600}
