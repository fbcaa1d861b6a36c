"""One process at a time: a lock file that the operating system frees when its holder dies, however it dies."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from kosbert.errors import KosbertError, UsageError

PATIENCE = 600.0  # seconds without a new byte, after which the other process is taken to be stuck

if sys.platform == "win32":
    import msvcrt

    def _try_lock(handle: IO[bytes]) -> bool:
        try:
            msvcrt.locking(handle.fileno(), msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        return True

    def _unlock(handle: IO[bytes], path: Path) -> None:
        msvcrt.locking(handle.fileno(), msvcrt.LK_UNLCK, 1)  # the empty file stays: a waiting process has it open

else:
    import fcntl

    def _try_lock(handle: IO[bytes]) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(handle: IO[bytes], path: Path) -> None:
        path.unlink(missing_ok=True)  # before the lock is freed, or it could be the next owner's file
        fcntl.flock(handle, fcntl.LOCK_UN)


@contextmanager
def hold(path: Path, growing: Path) -> Iterator[None]:
    """Hold the lock at `path`; wait for another holder for as long as its file `growing` grows."""
    seen, since = -1, time.monotonic()
    while True:
        with path.open("ab") as handle:
            if _try_lock(handle) and _is_same_file(handle, path):
                try:
                    yield
                finally:
                    _unlock(handle, path)
                return
        size = 0
        with suppress(FileNotFoundError):
            size = growing.stat().st_size
        if size != seen:
            seen, since = size, time.monotonic()
        elif time.monotonic() - since > PATIENCE:
            raise KosbertError(f"another process holds {path} and does nothing: end it, then run this command again")
        time.sleep(0.05)


@contextmanager
def alone(path: Path, busy: str) -> Iterator[None]:
    """Hold the lock at `path`; where another process holds it, say so at once."""
    for _ in range(3):  # the last owner may delete its file while we open it
        with path.open("ab") as handle:
            if _try_lock(handle) and _is_same_file(handle, path):
                try:
                    yield
                finally:
                    _unlock(handle, path)
                return
    raise UsageError(busy)


def _is_same_file(handle: IO[bytes], path: Path) -> bool:
    """Whether the locked file is still the one at `path`: its last owner may have deleted it in between."""
    try:
        return os.path.samestat(os.fstat(handle.fileno()), path.stat())
    except FileNotFoundError:
        return False
