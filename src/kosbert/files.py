"""Atomic files and directories, SHA-256, the cache directory, offline mode, disk errors and locks between processes.

with atomic_write(path) as stream: ...          # the file appears when the block ends without an error
with atomic_directory(path) as directory: ...   # the same for a directory
with try_lock(path, "..."): ...                 # one process at a time
"""

import errno
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from filelock import FileLock, Timeout
from platformdirs import user_cache_path

from kosbert.errors import KosbertError, UsageError

CACHE_VARIABLE = "KOSBERT_CACHE"
OFFLINE_VARIABLES = ("KOSBERT_OFFLINE", "HF_HUB_OFFLINE")
PARTIAL_SUFFIX = ".part"
"""Ending of temporary files and directories; a killed process may leave some."""


def cache_root() -> Path:
    """Return the directory for everything that can be recomputed or downloaded again (`KOSBERT_CACHE`)."""
    directory = os.environ.get(CACHE_VARIABLE)
    return Path(directory).expanduser() if directory else user_cache_path("kosbert")


def offline_variable() -> str:
    """Return the variable with which the user has forbidden downloads, or an empty string."""
    values = {name: os.environ.get(name, "").lower() for name in OFFLINE_VARIABLES}
    return next((name for name, value in values.items() if value in ("1", "true", "yes", "on")), "")


def offline() -> bool:
    """Return whether the user has forbidden downloads (`KOSBERT_OFFLINE=1` or `HF_HUB_OFFLINE=1`)."""
    return bool(offline_variable())


def sha256_file(path: Path) -> str:
    """Return the SHA-256 of a file as hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextmanager
def atomic_write(path: Path, mode: str = "w", **options: Any) -> Iterator[IO[Any]]:
    """Open a temporary file that replaces `path` when the block ends; on an error `path` stays as it was.

    Args:
        path: the file to write; its parent directory must exist.
        mode: "w" for text (UTF-8) or "wb" for bytes.
        options: further arguments of `open`.
    """
    if "b" not in mode:
        options.setdefault("encoding", "utf-8")
    handle, name = tempfile.mkstemp(prefix=f".{path.name}-", suffix=PARTIAL_SUFFIX, dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, mode, **options) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(0o666 & ~_umask())  # mkstemp allows only the owner
        temporary.replace(path)
        _sync_directory(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with atomic_write(path) as stream:
        stream.write(text)


@contextmanager
def atomic_directory(path: Path, *, replace: bool = False) -> Iterator[Path]:
    """Yield an empty directory that becomes `path` when the block ends; on an error `path` stays as it was.

    Args:
        path: the directory to write; its parent is created.
        replace: replace a directory that is already there. Without it an existing non-empty one is an error.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Next to the target, because only a rename within one file system is atomic.
    workspace = Path(tempfile.mkdtemp(prefix=f".{path.name}-", suffix=PARTIAL_SUFFIX, dir=path.parent))
    fresh, old = workspace / "fresh", workspace / "old"
    fresh.mkdir()
    try:
        yield fresh
        if path.exists() and replace:
            path.rename(old)
        try:
            fresh.rename(path)
        except OSError:
            if old.exists():
                old.rename(path)
            raise
    finally:
        shutil.rmtree(workspace, ignore_errors=True)


def remove_partial(directory: Path) -> None:
    """Delete temporary files and directories that a killed process left; call it only while holding a lock."""
    for path in directory.glob(f".*{PARTIAL_SUFFIX}"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def disk_error(error: OSError, path: Path, advice: str = "free some space and run the command again") -> KosbertError:
    """Return the error to raise when `path` could not be written: one sentence with the fix."""
    if error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)):  # Windows has no quota error
        return KosbertError(f"the disk is full, {path} could not be written: {advice}")
    return KosbertError(f"{path} could not be written ({error.strerror or error}): {advice}")


@contextmanager
def try_lock(path: Path, busy: str) -> Iterator[None]:
    """Hold a lock file for the block; raise `UsageError(busy)` if another process holds it.

    The operating system releases the lock when the process ends, even if it is killed. The empty file stays: deleting
    it would let two processes lock different files of the same name.
    """
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise UsageError(busy) from None
    try:
        yield
    finally:
        lock.release()


@contextmanager
def wait_lock(path: Path, output: Path, *, patience: float = 600.0) -> Iterator[None]:
    """Hold a lock file for the block; wait for another process as long as its output file grows.

    Args:
        path: the lock file.
        output: the file that the process with the lock writes.
        patience: seconds without a new byte after which the other process is considered stuck.
    """
    lock = FileLock(path)
    size, changed = -1, time.monotonic()
    while True:
        with suppress(Timeout):
            lock.acquire(timeout=0.05, poll_interval=0.05)
            break
        try:
            current = output.stat().st_size
        except FileNotFoundError:
            current = 0
        if current != size:
            size, changed = current, time.monotonic()
        elif time.monotonic() - changed > patience:
            raise KosbertError(f"another process holds {path} and makes no progress: stop it, then try again")
    try:
        yield
    finally:
        lock.release()


def _sync_directory(directory: Path) -> None:
    """Make a rename durable; not every system can."""
    with suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
