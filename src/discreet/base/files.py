"""Output files appear whole or not at all, and there is room for them before the work begins.

A file is written under a temporary name in the folder of its target, brought to the disk (fsync) and then renamed: a
reader sees the old file or the new one, also after a power cut. Temporary names are unique, whichever thread or process
asks for them. A new file gets the mode that the user's umask leaves, an existing one keeps its own, and a private one
is its owner's alone. A key is ``new``: it gets its name only where there was none, by a link. ``reserve`` takes the
room for several files *before* a release, so that a full disk stops it while no noise has been drawn, and not after the
budget was spent.

Whatever the operating system refuses becomes one sentence that names the file.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from discreet.base.errors import InvalidInput
from discreet.base.system import AS_BYTES, bring_to_disk, set_mode

_PREFIX = ".discreet-"  # short, so that a temporary name is not too long where its target's is not
_BLOCK = 1 << 20
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)  # file systems without hard links
_WRITTEN: list[Path | str] = []  # by this process so far


def written() -> tuple[str, ...]:
    """What this process has written so far, in order, for whoever must say it after an interruption."""
    return tuple(shortened(each) if isinstance(each, Path) else each for each in _WRITTEN if _is_there(each))


def _is_there(what: Path | str) -> bool:
    return isinstance(what, str) or what.exists()


def note_written(what: Path | str) -> None:
    """A file was written, or something else, such as an entry of a ledger."""
    _WRITTEN.append(what)


def check_writable(path: str | os.PathLike[str]) -> Path:
    """A path that can be written: its folder exists and takes files; checked before any work is done."""
    file = as_path(path)
    try:
        kind = _mode(file)
        folder = file.parent.is_dir()
    except OSError as error:
        raise _cannot_write(file, error) from None
    if kind is not None and stat.S_ISDIR(kind):
        raise InvalidInput(f"cannot write {shortened(file)}: it is a folder; give a file name in it")
    if kind is not None and not stat.S_ISREG(kind):
        raise InvalidInput(f"cannot write {shortened(file)}: it is not a plain file; give the name of a file")
    if not folder:
        raise InvalidInput(
            f"cannot write {shortened(file)}: the folder {shortened(file.parent)} does not exist; make it first"
        )
    if not os.access(file.parent, os.W_OK):
        raise InvalidInput(f"cannot write {shortened(file)}: no permission to write in {shortened(file.parent)}")
    return file


def _mode(file: Path) -> int | None:
    try:
        return file.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def _permissions(file: Path) -> int | None:
    """What an existing file allows to whom; None for a new one, which the system gives what the umask leaves."""
    kind = _mode(file)
    return None if kind is None else stat.S_IMODE(kind)


def as_path(path: str | os.PathLike[str]) -> Path:
    """A name of a file as a path; refused if no file can have that name."""
    try:
        text = os.fspath(path)
        file = Path(text)
    except TypeError:
        raise InvalidInput(f"a file is named by text or a path, got {type(path).__name__}") from None
    if not isinstance(text, str) or "\0" in text:
        raise InvalidInput("a file is named by text without the character 0")
    longest = max((len(os.fsencode(part)) for part in _encodable(file).parts), default=0)
    if longest > 255:
        raise InvalidInput(f"{shortened(file)} is too long for a name: {longest} bytes, where 255 are possible")
    return file


def _encodable(file: Path) -> Path:
    try:
        os.fsencode(file)
    except UnicodeError:
        raise InvalidInput("a file's name has characters that the system cannot write; choose another name") from None
    return file


def shortened(path: str | os.PathLike[str]) -> str:
    """A path for a message: quoted, and cut in the middle if it is very long."""
    text = str(path)
    return repr(text if len(text) <= 200 else f"{text[:90]}...{text[-90:]}")


def check_distinct(outputs: Mapping[str, Path | None], inputs: Iterable[tuple[str, str | Path]] = ()) -> None:
    """Refuse outputs that would overwrite each other or an input: every key says where the name was given."""
    seen: dict[str, str] = {}
    for option, given in inputs:
        seen.setdefault(os.path.realpath(as_path(given)), option)
    for option, file in outputs.items():
        if file is None:
            continue
        other = seen.setdefault(os.path.realpath(file), option)
        if other != option:
            raise InvalidInput(f"{other} and {option} name the same file {shortened(file)}: give two names")


def write_atomically(
    path: str | os.PathLike[str], content: str | bytes, *, private: bool = False, new: bool = False
) -> None:
    """Write a temporary file beside the target and rename it: readers see the old file or the new one.

    A ``private`` one can be read by its owner alone; a ``new`` one never replaces another, whoever is faster.
    """
    file = check_writable(path)
    room = Room(file, 0, private=private, new=new)
    try:
        room.write(content)
    finally:
        room.close()


class Room:
    """Space on the disk for one file that is still to be written; ``write`` fills it and gives it its name."""

    def __init__(self, file: Path, size: int, *, private: bool = False, new: bool = False) -> None:
        self.file, self._written, self._new = file, False, new
        self._temporary = file.parent / f"{_PREFIX}{secrets.token_hex(8)}"
        try:
            self._handle = os.open(
                self._temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | AS_BYTES, 0o600 if private else 0o666
            )
        except OSError as error:
            raise _cannot_write(file, error) from None
        try:
            self._mode = None if private else _permissions(file)
            _fill(self._handle, size)
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise _cannot_write(file, error) from None
            raise

    def write(self, content: str | bytes) -> None:
        """Write the file, whole, and give it its name."""
        data = content.encode() if isinstance(content, str) else content
        try:
            os.lseek(self._handle, 0, os.SEEK_SET)
            left = memoryview(data)
            while left:
                left = left[os.write(self._handle, left) :]
            os.ftruncate(self._handle, len(data))
            if self._mode is not None:
                set_mode(self._handle, self._temporary, self._mode)
            bring_to_disk(self._handle)
            self._let_go()  # not every system renames a file that is open
            if self._new:
                name_new(self._temporary, self.file)
            else:
                os.replace(self._temporary, self.file)
            self._written = True
            note_written(self.file)
        except OSError as error:
            raise _cannot_write(self.file, error) from None
        _sync_folder(self.file.parent)

    def close(self) -> None:
        """Give the space back if nothing was written, and the temporary name."""
        with suppress(OSError):
            self._let_go()
        if self._new or not self._written:
            with suppress(OSError):
                os.unlink(self._temporary)

    def _let_go(self) -> None:
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)


def name_new(temporary: Path, file: Path) -> None:
    """Give a file that is written its name, if nothing has that name: whoever is second is refused."""
    try:
        os.link(temporary, file)
    except FileExistsError:
        raise there_already(file) from None
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.lexists(file):
            raise there_already(file) from None
        os.replace(temporary, file)


@contextmanager
def reserve(sizes: Mapping[str | os.PathLike[str], int]) -> Iterator[tuple[Room, ...]]:
    """Room for several files of at most these sizes, all of it or an error; what is not written is given back."""
    files = [(check_writable(path), size) for path, size in sizes.items()]
    rooms: list[Room] = []
    try:
        for file, size in files:
            rooms.append(Room(file, size))
        yield tuple(rooms)
    finally:
        _close(rooms)


def _close(rooms: Iterable[Room]) -> None:
    for room in rooms:
        room.close()


def _fill(handle: int, size: int) -> None:
    """Take the space, not only the length: a sparse file would fail when it is written."""
    if size <= 0:
        return
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(handle, 0, size)
        return
    zeros = bytes(_BLOCK)
    for start in range(0, size, _BLOCK):
        os.write(handle, zeros[: min(_BLOCK, size - start)])
    bring_to_disk(handle)


def _sync_folder(folder: Path) -> None:
    """Bring a new name to the disk; not all systems can, and then the name comes with the next sync."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            bring_to_disk(handle)
        finally:
            os.close(handle)


@contextmanager
def folder_for(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A folder to write into, made if need be; what was made here goes again if nothing came into it."""
    folder = as_path(path)
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
    except BaseException as error:
        for each in missing:  # the innermost first
            with suppress(OSError):
                each.rmdir()
        if isinstance(error, OSError):
            raise _cannot_write(folder, error) from None
        raise


@contextmanager
def folder_beside(file: Path) -> Iterator[Path]:
    """A folder to make something in that gets a name beside it, on the same disk; it goes with all that is left."""
    room, before = file.parent / f"{_PREFIX}{secrets.token_hex(8)}", len(_WRITTEN)
    try:
        room.mkdir(0o700)
        yield room
    except BaseException as error:
        del _WRITTEN[before:]  # it goes
        if isinstance(error, OSError):
            raise _cannot_write(file, error) from None
        raise
    finally:
        for each in room.iterdir() if room.exists() else ():
            each.unlink()
        with suppress(OSError):
            room.rmdir()
    _sync_folder(file.parent)


def there_already(file: Path) -> InvalidInput:
    """The error for a file that must be new."""
    return InvalidInput(f"{shortened(file)} is there already, and is not overwritten: choose another name")


def _cannot_write(file: Path, error: OSError) -> InvalidInput:
    return InvalidInput(f"cannot write {shortened(file)}: {error.strerror or error}")
