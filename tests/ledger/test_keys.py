"""Keys: whole, of their owner alone, never overwritten; and signatures that bind all of a document."""

from __future__ import annotations

import copy
import os
import stat
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from discreet.base.errors import InvalidInput
from discreet.ledger import keys


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    return tmp_path / "settings" / "discreet"


def test_the_own_key_is_made_once_and_for_its_owner_alone(home):
    first = keys.signing_key()
    assert stat.S_IMODE((home / "key.pem").stat().st_mode) == 0o600
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert [file.name for file in home.iterdir()] == ["key.pem"]
    assert keys.public_digits(keys.signing_key().public_key()) == keys.public_digits(first.public_key())


def test_where_settings_lie(monkeypatch):
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", "/home/her")
    for platform, folder in (("linux", ".config"), ("darwin", "Library/Application Support")):
        monkeypatch.setattr(sys, "platform", platform)
        assert keys.own_key_file() == Path("/home/her") / folder / "discreet" / "key.pem"
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative/is/ignored")
    assert keys.own_key_file().is_absolute()


def test_a_folder_that_takes_no_key(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    assert keys.signing_key() is None


def test_a_key_is_whole_or_not_there(tmp_path, monkeypatch):
    """Not a file of 0 bytes, which would be in the way of the next try."""

    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(InvalidInput, match="No space left"):
            keys.make_key(tmp_path / "key.pem")
    assert list(tmp_path.iterdir()) == []
    keys.make_key(tmp_path / "key.pem")
    with pytest.raises(InvalidInput, match="not overwritten"):
        keys.make_key(tmp_path / "key.pem")
    assert [file.name for file in tmp_path.iterdir()] == ["key.pem"]


def test_a_signature_binds_everything(home):
    key = keys.signing_key()
    document = {"format": "discreet-receipt", "a": [1, 2.5, None, {"b": "é"}], "n": 1}
    whole = keys.signed(document, key)
    public = keys.public_digits(key.public_key())
    assert keys.signer(whole) == public
    assert keys.signer(dict(reversed(whole.items()))) == public
    for change in (
        {"n": 2}, {"n": 1.0}, {"n": True}, {"more": None}, {"a": [1, 2.5, None, {"b": "e"}]}, {"n": float("nan")},
        {"signature": None}, {"signature": {}}, {"signature": {**whole["signature"], "more": 1}},
        {"signature": {**whole["signature"], "key": "0" * 64}},
        {"signature": {**whole["signature"], "value": whole["signature"]["value"].upper()}},
        {"signature": {**whole["signature"], "value": "0" * 128}},
    ):  # fmt: skip
        assert keys.signer({**copy.deepcopy(whole), **change}) is None, change
    assert keys.signer({name: entry for name, entry in whole.items() if name != "a"}) is None


def test_a_key_is_named_by_its_fingerprint_or_its_file(home, tmp_path):
    key = keys.signing_key()
    public = keys.public_digits(key.public_key())
    (tmp_path / "digits.txt").write_text(f"{public}\n")
    pem = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "public.pem").write_bytes(pem)
    spaced = " ".join(public[start : start + 8] for start in range(0, 64, 8)).upper()
    for named in (public, spaced, home / "key.pem", str(tmp_path / "digits.txt"), tmp_path / "public.pem"):
        assert keys.named_key(named) == public
    (tmp_path / "none.pem").write_text("no key")
    for wrong, why in (("ab12", "neither a fingerprint"), (tmp_path / "none.pem", "no signing key")):
        with pytest.raises(InvalidInput, match=why):
            keys.named_key(wrong)
