"""Keys that sign what leaves: heads of ledgers and receipts, by Ed25519 of the package ``cryptography``.

Keys are PEM files (PKCS 8) that only their owner may read. Her own one lies in the configuration folder of her account
and is made when something is first signed. The *fingerprint* of a key is its public key, 64 hexadecimal digits: whoever
has it from the owner can tell her signature from any other. A key that stands beside a signature is believed by nobody.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from discreet.base.errors import InvalidInput
from discreet.base.files import as_path, check_writable, shortened, there_already, write_atomically
from discreet.ledger.chain import canonical

_DIGITS = re.compile(r"[0-9a-f]{64}")


def make_key(path: str | os.PathLike[str]) -> str:
    """Write a new signing key, which nobody else may read, and give its public key as hexadecimal digits.

    Args:
        path: A file that is not there yet.

    Examples:
        >>> import pathlib, tempfile
        >>> from discreet import ledger
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     len(ledger.make_key(pathlib.Path(folder) / "key.pem"))
        64
    """
    serialization, ed25519 = _cryptography()
    file = check_writable(path)
    if file.exists():
        raise there_already(file)
    key = ed25519.Ed25519PrivateKey.generate()
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    write_atomically(file, text, private=True, new=True)
    return public_digits(key.public_key())


def own_key_file() -> Path:
    """Where the key of this account lies: in the folder that its system keeps settings in."""
    chosen = os.environ.get("XDG_CONFIG_HOME", "")
    if os.path.isabs(chosen):
        folder = Path(chosen)
    elif sys.platform == "win32":
        folder = Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming")
    elif sys.platform == "darwin":
        folder = Path.home() / "Library" / "Application Support"
    else:
        folder = Path.home() / ".config"
    return folder / "discreet" / "key.pem"


def signing_key(file: str | os.PathLike[str] | None = None) -> Any:
    """The key that signs: of this file, or the own one, which is made if it is not there; None if it cannot be kept."""
    if file is not None:
        return private_key(as_path(file))
    try:
        own = own_key_file()
        if not own.exists():
            own.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with suppress(InvalidInput):  # another process was faster, or nothing can be written here
                make_key(own)
        return private_key(own) if own.exists() else None
    except (OSError, RuntimeError):
        return None


def signed(content: Mapping[str, Any], key: Any) -> dict[str, Any]:
    """Plain data with a signature of all of it, and the public key beside it."""
    unsigned = {**content, "signature": {"key": public_digits(key.public_key())}}
    value = key.sign(canonical(unsigned).encode()).hex()
    return {**unsigned, "signature": {**unsigned["signature"], "value": value}}


def signer(content: Mapping[str, Any]) -> str | None:
    """The key that signed plain data; None if the signature is wrong."""
    _, ed25519 = _cryptography()
    from cryptography.exceptions import InvalidSignature

    signature = content.get("signature")
    if not isinstance(signature, Mapping) or set(signature) != {"key", "value"}:
        return None
    try:
        digits, value = str(signature["key"]), str(signature["value"])
        if not _DIGITS.fullmatch(digits) or not re.fullmatch(r"[0-9a-f]{128}", value):
            return None
        text = canonical({**content, "signature": {"key": digits}})
        key = ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(digits))
        key.verify(bytes.fromhex(value), text.encode())
    except (InvalidSignature, RecursionError, TypeError, ValueError):
        return None
    return digits


def named_key(named: str | os.PathLike[str]) -> str:
    """The fingerprint that somebody names: its digits, or a file that holds a key or the digits."""
    digits = re.sub(r"[\s:]", "", os.fspath(named)).lower() if isinstance(named, str) else ""
    if _DIGITS.fullmatch(digits):
        return digits
    file = as_path(named)
    try:
        content = file.read_bytes()[:10_000]
    except OSError:
        raise InvalidInput(
            f"key {shortened(file)} is neither a fingerprint, which has 64 hexadecimal digits, nor a file that can be "
            "read: ask the owner for hers, which  discreet ledger key  prints"
        ) from None
    digits = re.sub(rb"[\s:]", b"", content).decode("ascii", "replace").lower()
    if _DIGITS.fullmatch(digits):
        return digits
    serialization, ed25519 = _cryptography()
    with suppress(TypeError, ValueError):
        key = serialization.load_pem_public_key(content)
        if isinstance(key, ed25519.Ed25519PublicKey):
            return public_digits(key)
    return public_digits(private_key(file).public_key())


def private_key(file: Path) -> Any:
    """The signing key that a file holds."""
    serialization, ed25519 = _cryptography()
    try:
        key = serialization.load_pem_private_key(file.read_bytes(), password=None)
    except OSError as error:
        raise InvalidInput(f"key {shortened(file)} cannot be read: {error.strerror or 'the system refused'}") from None
    except (TypeError, ValueError):
        key = None
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise InvalidInput(
            f"{shortened(file)} is no signing key: give another, or move it away and make one with  discreet ledger "
            f"key {file.name}"
        )
    return key


def public_digits(key: Any) -> str:
    """A public key as hexadecimal digits."""
    return str(key.public_bytes_raw().hex())


def _cryptography() -> tuple[Any, Any]:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ed25519

    return serialization, ed25519
