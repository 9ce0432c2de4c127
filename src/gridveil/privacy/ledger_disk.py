"""File operations of the ledger and its register: locks, whole reads, appends and syncing to disk.

Linux and macOS lock by flock. Windows has no such call: there the package portalocker locks, which costs the others some
hundredths of a second at every start and is therefore not used by them.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gridveil.core.errors import InputError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

WINDOWS = os.name == "nt"
AS_BYTES = getattr(os, "O_BINARY", 0)  # Windows would write other line ends than it was given
READ = os.O_RDONLY | AS_BYTES
WRITE = os.O_RDWR | os.O_APPEND | AS_BYTES
MAKE = WRITE | os.O_CREAT
OWN = 0o700
"""Mode of folders that nobody else on the computer may look into."""


@contextmanager
def locked(file: Path, shown: Path, flags: int) -> Iterator[int]:
    """Open and lock a file, shared to read, exclusive to write. The system frees the lock if its holder dies.

    ``file`` is resolved, ``shown`` is the path as the user wrote it.
    """
    refuse_device(file)
    try:
        held = False
        while not held:
            descriptor = os.open(file, flags, 0o666)
            try:
                _lock(descriptor, shared=flags == READ)
                # The file may have been replaced while this process waited for the lock of the old one.
                held = is_at(file, descriptor)
                if held:
                    yield descriptor
            finally:
                # Closing is not enough: a child forked meanwhile by another thread would keep the lock.
                _unlock(descriptor)
                os.close(descriptor)
    except FileNotFoundError as error:
        raise InputError(f"{shown}: there is no ledger here; create one, once per data set") from error
    except OSError as error:
        raise InputError(
            f"{shown}: the ledger cannot be used ({error.strerror}), so nothing may be drawn; solve this first"
        ) from error


def _lock(descriptor: int, *, shared: bool) -> None:
    """Wait for the lock of an open file."""
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        return
    import portalocker

    while True:
        try:
            portalocker.lock(descriptor, portalocker.LOCK_EX)  # Windows' own library knows no shared locks
            return
        except portalocker.AlreadyLocked:  # it gives up after ten seconds
            continue
        except portalocker.LockException as error:
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK)) from error


def _unlock(descriptor: int) -> None:
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        return
    import portalocker

    with suppress(portalocker.LockException):  # of a file that was never locked; closing it frees the rest
        portalocker.unlock(descriptor)


def refuse_device(path: Path) -> None:
    """Refuse what is neither file nor folder: a device may be endless, and a pipe waits for ever."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise InputError(f"{path}: is not a file, so it cannot be a ledger; name a file with --ledger")


def is_at(path: Path, descriptor: int) -> bool:
    """Whether the open file is still the one that the path leads to."""
    return os.path.samestat(path.stat(), os.fstat(descriptor))


def read(descriptor: int, start: int = 0) -> bytes:
    """Read everything from ``start`` to the end."""
    with os.fdopen(descriptor, "rb", closefd=False) as file:
        file.seek(start)
        return file.read()


def read_part(descriptor: int, start: int, size: int) -> bytes:
    """Read ``size`` bytes from ``start``."""
    with os.fdopen(descriptor, "rb", buffering=0, closefd=False) as file:
        file.seek(start)
        return file.read(size)


def append(descriptor: int, data: bytes, folder: Path) -> None:
    """Write at the end, and return when the data and the name of the file are on the disk."""
    written = 0
    while written < len(data):
        written += os.write(descriptor, data[written:])
    sync(descriptor)
    # Not only at creation: whoever made or moved the file may have been killed before it synced the folder.
    sync_folder(folder)


def truncate(descriptor: int, size: int) -> None:
    """Cut a file, and return when this is on the disk."""
    os.ftruncate(descriptor, size)
    sync(descriptor)


def sync(descriptor: int) -> None:
    """Force a file or folder to the disk itself; on macOS plain fsync stops at the drive's cache."""
    full_sync = getattr(fcntl, "F_FULLFSYNC", None)
    if full_sync is not None:
        try:
            fcntl.fcntl(descriptor, full_sync)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY):
                raise
    os.fsync(descriptor)


def sync_folder(folder: Path) -> None:
    """Force the names in a folder to the disk. Windows opens no folder; its file system keeps names in a log."""
    if WINDOWS:
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file for this user alone, as a whole: forced to disk under its name when this returns."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | AS_BYTES, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        sync(file.fileno())
    draft.replace(path)
    sync_folder(path.parent)


def held_folder(folder: Path) -> int | None:
    """Take a folder for this process until the descriptor is closed or the process ends; None if another has it.

    Windows opens no folder: there a file in it is locked.
    """
    if fcntl is not None:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return descriptor
    import portalocker

    descriptor = os.open(folder / ".held", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        portalocker.lock(descriptor, portalocker.LOCK_EX | portalocker.LOCK_NB)
    except portalocker.LockException:
        os.close(descriptor)
        return None
    return descriptor


def make_folder(folder: Path) -> None:
    """Create a folder and its parents, for this user alone, with their names synced to disk."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        for path in reversed(missing):
            path.mkdir(mode=OWN, exist_ok=True)
        # Also where nothing was missing: whoever made the folder may have been killed before this.
        for path in {folder.parent, *(path.parent for path in missing)}:
            sync_folder(path)
    except OSError as error:
        raise InputError(
            f"{folder}: this folder for ledgers cannot be made ({error.strerror}); name another with GRIDVEIL_HOME"
        ) from error
