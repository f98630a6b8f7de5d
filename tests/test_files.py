"""Output files appear whole or not at all."""

from __future__ import annotations

import os

import pytest

from discreet.errors import InvalidInput
from discreet.files import check_writable, write_atomically


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

    monkeypatch.setattr("discreet.files.os.replace", broken)
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
