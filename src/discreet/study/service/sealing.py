"""Records are sealed as soon as they arrive, to a key that lies outside the database and goes when the round closes.

Every round of a central study has an X25519 key pair; a shuffled study has one for all of its rounds, which stands in
the declaration, so that nobody is given a key of her own. The public keys of rounds stand in the database, the private
ones are files of mode 0600 in ``NAME.keys``. Sealing is HPKE (RFC 9180, one shot, X25519, HKDF-SHA-256,
ChaCha20-Poly1305) of the package ``cryptography``; ``info`` binds study, round and purpose, so that what was sealed for
one round cannot be passed off as another's.

A retried report must be the same as the first one. A plain hash of a record in the database would tell the record
(there are few records, and they can be tried), so fingerprints are HMACs under a key that is derived from the round's
private key and goes with it. After that the id alone says that a report was taken.

A secret file is written under a temporary name with mode 0600, synced, and then gets its name: it is whole or absent.
Deleting a file is not erasure: what lay on the disk may stay there until it is overwritten. The threat model says so.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from discreet.base.errors import InvalidInput, MissingExtra, unknown_name
from discreet.base.files import shortened, write_atomically
from discreet.base.system import bring_to_disk

_PURPOSES = ("record", "state", "message")
_LENGTH = 32
_LARGEST = 1 << 16  # bytes of a secret file
_KEY_FILE = re.compile(r"round-([0-9]{1,18})\.key")


@dataclass(frozen=True, repr=False)
class RoundKey:
    """The key of one round. Nothing of it is shown."""

    private: bytes

    @cached_property
    def _key(self) -> Any:
        return _x25519().X25519PrivateKey.from_private_bytes(self.private)

    @cached_property
    def public(self) -> bytes:
        """What others seal to."""
        return bytes(self._key.public_key().public_bytes_raw())

    @cached_property
    def _fingerprints(self) -> bytes:
        return hmac.digest(self.private, b"discreet fingerprints of reports 1", hashlib.sha256)

    def fingerprint(self, content: bytes) -> str:
        """Tells two contents apart, and tells nobody else anything about them."""
        return hmac.new(self._fingerprints, content, hashlib.sha256).hexdigest()

    def open(self, sealed: bytes, info: bytes) -> bytes:
        """What was sealed to this key for this purpose."""
        try:
            return bytes(_suite().decrypt(sealed, self._key, info=info))
        except Exception:
            raise InvalidInput(
                "a sealed content does not open: it was sealed to another key or changed since"
            ) from None


def seal(content: bytes, public: bytes, info: bytes) -> bytes:
    """The content, readable only with the private key that belongs to ``public``."""
    key = _x25519().X25519PublicKey.from_public_bytes(public)
    return bytes(_suite().encrypt(content, key, info=info))


def bound_to(study: str, number: int, purpose: str) -> bytes:
    """What a sealed content is bound to: a study, a round and a purpose."""
    if purpose not in _PURPOSES:
        raise unknown_name("purpose of a sealed content", purpose, _PURPOSES)
    return f"discreet {purpose} 1\n{study}\n{number}".encode()


def make_sealing_key(file: Path) -> str:
    """A new key that devices of a shuffled study seal to, in a file of its own; gives its public part in digits."""
    key = RoundKey(bytes(_x25519().X25519PrivateKey.generate().private_bytes_raw()))
    write_secret(file, key.private)
    return key.public.hex()


def sealing_key(file: Path, public: bytes) -> RoundKey:
    """The key that opens the messages of a shuffled study; refused if it is not the one that the study names."""
    content = read_secret(file, "without it no message of this study can be opened; bring it back")
    key = RoundKey(content) if len(content) == _LENGTH else None
    if key is None or key.public != public:
        raise InvalidInput(f"{shortened(file)} is not the key that the study names as its sealing key")
    return key


class KeyFolder:
    """The private keys of rounds, one file each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def prepare(self) -> None:
        """Make the folder, for its owner alone."""
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise InvalidInput(f"cannot make the folder {shortened(self._folder)}: {error.strerror}") from None

    def new(self, number: int) -> RoundKey:
        """The key of a round that is about to open. One that a crash left behind was never used, and is taken."""
        file = self._file(number)
        if file.exists():
            return self.get(number)
        self.prepare()
        key = RoundKey(bytes(_x25519().X25519PrivateKey.generate().private_bytes_raw()))
        write_secret(file, key.private)
        return key

    def get(self, number: int) -> RoundKey:
        """The key of a round; refused in one sentence if it is gone."""
        file = self._file(number)
        content = read_secret(file, f"without it nothing of round {number} can be read; bring it back or go on with"
                              "  discreet study restored")  # fmt: skip
        if len(content) != _LENGTH:
            raise InvalidInput(f"{shortened(file)} is no key of a round: it has {len(content)} bytes, not {_LENGTH}")
        return RoundKey(content)

    def destroy_before(self, number: int) -> int:
        """Remove the keys of all rounds before this one; gives how many there were."""
        gone = 0
        for file in self._folder.glob("round-*.key") if self._folder.is_dir() else ():
            match = _KEY_FILE.fullmatch(file.name)
            if match is not None and int(match[1]) < number:
                file.unlink(missing_ok=True)
                gone += 1
        if gone:
            sync_folder(self._folder)
        return gone

    def _file(self, number: int) -> Path:
        return self._folder / f"round-{number}.key"


def write_secret(file: Path, content: bytes) -> None:
    """Write a new file that only its owner may read: whole, synced, or not at all."""
    write_atomically(file, content, private=True, new=True)


def read_secret(file: Path, remedy: str) -> bytes:
    """The content of a secret file; ``remedy`` says what to do where it cannot be read."""
    try:
        with open(file, "rb") as opened:
            return opened.read(_LARGEST)
    except OSError as error:
        why = error.strerror or "the system refused"
        raise InvalidInput(f"{shortened(file)} cannot be read: {why}; {remedy}") from None


def sync_folder(folder: Path) -> None:
    """Bring names that came or went to the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        bring_to_disk(handle)
    finally:
        os.close(handle)


def _suite() -> Any:
    try:
        from cryptography.hazmat.primitives import hpke
    except ImportError:
        raise MissingExtra("cryptography", "serve") from None
    return hpke.Suite(hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.CHACHA20_POLY1305)


def _x25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import x25519
    except ImportError:
        raise MissingExtra("cryptography", "serve") from None
    return x25519
