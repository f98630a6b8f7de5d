"""Output files appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from discreet.errors import InvalidInput


def check_writable(path: str | os.PathLike[str]) -> Path:
    """A path whose folder exists and can be written to; checked before any work is done."""
    file = Path(path)
    if file.is_dir():
        raise InvalidInput(f"cannot write {str(file)!r}: it is a folder; give a file name in it")
    if not file.parent.is_dir():
        raise InvalidInput(f"cannot write {str(file)!r}: the folder {str(file.parent)!r} does not exist; make it first")
    if not os.access(file.parent, os.W_OK):
        raise InvalidInput(f"cannot write {str(file)!r}: no permission to write in {str(file.parent)!r}")
    return file


def write_atomically(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write a temporary file beside the target and rename it: readers see the old file or the new one."""
    file = check_writable(path)
    data = content.encode() if isinstance(content, str) else content
    handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        os.chmod(temporary, 0o644)
        os.replace(temporary, file)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
