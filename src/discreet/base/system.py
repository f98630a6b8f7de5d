"""What operating systems differ in, said once: locks, modes, bringing bytes to the disk.

Linux, macOS and Windows each lack something that another one has. Whoever needs it asks here, and a test takes each
call away. The library, the command line and the checker need no more than this; the service (:mod:`discreet.study`)
asks for a system whose locks go with a process and whose files can be replaced while they are open.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from discreet.base.errors import InvalidInput

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

AS_BYTES: int = getattr(os, "O_BINARY", 0)  # Windows would write two characters for the end of a line
_PAUSE = 0.05  # seconds between two tries of a lock that cannot be waited for
_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)  # macOS: fsync alone leaves bytes in the drive


def check_serves() -> None:
    """Refuse to serve where locks do not go with the process that holds them."""
    if fcntl is None:
        raise InvalidInput(
            "a study is served on Linux and macOS only, and this system has no locks of theirs: use a container or "
            "another machine; everything else of discreet runs here"
        )


def bring_to_disk(handle: int) -> None:
    """Wait until what was written is on the disk, in the drive's own memory too where the system can ask for that."""
    if _FULL_SYNC is not None:
        with suppress(OSError):  # a file system that cannot: fsync is what there is
            fcntl.fcntl(handle, _FULL_SYNC)
            return
    os.fsync(handle)


def bring_content_to_disk(handle: int) -> None:
    """The same for a file whose size did not change: its times may stay behind."""
    if _FULL_SYNC is None and hasattr(os, "fdatasync"):
        os.fdatasync(handle)
    else:
        bring_to_disk(handle)


def set_mode(handle: int, file: Path, mode: int) -> None:
    """Give an open file its permissions, as far as the system has them."""
    if hasattr(os, "fchmod"):
        os.fchmod(handle, mode)
    else:
        os.chmod(file, mode)


def lock(handle: int) -> None:
    """Wait until this process alone holds an open file; closing it lets go."""
    check_serves()
    fcntl.flock(handle, fcntl.LOCK_EX)


def lock_at_once(handle: int) -> None:
    """The same without waiting: ``BlockingIOError`` where another one holds it."""
    check_serves()
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def unlock(handle: int) -> None:
    """Let go of it."""
    fcntl.flock(handle, fcntl.LOCK_UN)


@contextmanager
def alone_with(file: Path) -> Iterator[None]:
    """One process at a time works on this file, which it may replace meanwhile; one that is not there is an error.

    The lock is on the file itself, so one that was replaced is opened again. Windows cannot replace an open file: there
    a file of its own is locked, beside it, by whoever makes it.
    """
    while True:
        own = fcntl is None
        handle = _made_alone(file) if own else os.open(file, os.O_RDONLY)
        try:
            if not own:
                fcntl.flock(handle, fcntl.LOCK_EX)
            if own or (file.exists() and os.path.samestat(os.fstat(handle), file.stat())):
                yield
                return
        finally:
            os.close(handle)
            if own:
                _lock_of(file).unlink(missing_ok=True)


def _lock_of(file: Path) -> Path:
    return file.with_name(f"{file.name}.lock")


def _made_alone(file: Path, wait: float = 60.0) -> int:
    file.stat()
    until = time.monotonic() + wait
    while True:
        try:
            return os.open(_lock_of(file), os.O_CREAT | os.O_EXCL | os.O_RDWR)
        except OSError:
            if time.monotonic() > until:
                raise InvalidInput(
                    f"{file.name} is in use, or a run that was killed left {_lock_of(file).name}: delete that file if "
                    "nothing else runs"
                ) from None
            time.sleep(_PAUSE)


def allow_files(wanted: int) -> int | None:
    """Let this process open so many files if it may; how many it then may, or None for no limit that can be asked."""
    if sys.platform == "win32":
        return None
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    if soft == resource.RLIM_INFINITY:
        return None
    if soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        return most
    return soft
