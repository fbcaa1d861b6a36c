"""Atomic writes survive errors and kills; locks are exclusive and freed by the operating system."""

import errno
import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from kosbert.errors import KosbertError, UsageError
from kosbert.files import (
    atomic_directory,
    atomic_write,
    cache_root,
    disk_error,
    remove_partial,
    sha256_file,
    try_lock,
    wait_lock,
    write_text,
)


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def wait_for(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.01)


def start(code, *arguments):
    """Run code in another process that reports itself by creating the file `ready`."""
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)])


def kill(process):
    process.send_signal(signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)
    process.wait()


def test_sha256_of_known_bytes(tmp_path):
    (tmp_path / "abc").write_bytes(b"abc")
    assert sha256_file(tmp_path / "abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    (tmp_path / "large").write_bytes(b"\0" * 3_000_000)
    assert sha256_file(tmp_path / "large") == hashlib.sha256(b"\0" * 3_000_000).hexdigest()


def test_cache_root_is_set_by_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("KOSBERT_CACHE", str(tmp_path))
    assert cache_root() == tmp_path
    monkeypatch.setenv("KOSBERT_CACHE", "~/cache")
    assert cache_root() == Path.home() / "cache"
    monkeypatch.delenv("KOSBERT_CACHE")
    assert cache_root().name == "kosbert"


def test_atomic_write_replaces_the_file_at_the_end_of_the_block(tmp_path):
    path = tmp_path / "a.txt"
    write_text(path, "before")
    with atomic_write(path) as stream:
        stream.write("한국어")
        assert path.read_text(encoding="utf-8") == "before"
    assert path.read_text(encoding="utf-8") == "한국어"
    with atomic_write(path, "wb") as stream:
        stream.write(b"\xff")
    assert path.read_bytes() == b"\xff"
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
def test_atomic_write_gives_the_usual_permissions(tmp_path):
    (tmp_path / "usual").touch()
    write_text(tmp_path / "atomic", "")
    assert (tmp_path / "atomic").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_error_in_atomic_write_keeps_the_old_file(tmp_path):
    path = tmp_path / "a.txt"
    write_text(path, "before")
    with pytest.raises(ZeroDivisionError), atomic_write(path) as stream:
        stream.write(str(1 / 0))
    assert path.read_text(encoding="utf-8") == "before"
    assert names(tmp_path) == ["a.txt"]


def test_kill_in_atomic_write_keeps_the_old_file(tmp_path):
    write_text(tmp_path / "a.txt", "before")
    process = start(
        "import sys, time; from pathlib import Path; from kosbert.files import atomic_write\n"
        "with atomic_write(Path(sys.argv[1]) / 'a.txt') as stream:\n"
        "    stream.write('half'); stream.flush(); (Path(sys.argv[1]) / 'ready').touch(); time.sleep(60)",
        tmp_path,
    )
    wait_for((tmp_path / "ready").exists)
    kill(process)
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "before"
    assert len(names(tmp_path)) == 3  # with the temporary file
    remove_partial(tmp_path)
    assert names(tmp_path) == ["a.txt", "ready"]


def test_atomic_directory_appears_at_the_end_of_the_block(tmp_path):
    target = tmp_path / "new" / "model"
    with atomic_directory(target) as directory:
        write_text(directory / "a.txt", "a")
        assert not target.exists()
    assert names(target) == ["a.txt"]
    assert names(target.parent) == ["model"]


def test_atomic_directory_replaces_only_on_request(tmp_path):
    target = tmp_path / "model"
    for name in ("first", "second"):
        with atomic_directory(target, replace=True) as directory:
            write_text(directory / name, "")
    assert names(target) == ["second"]
    with pytest.raises(OSError), atomic_directory(target) as directory:  # noqa: PT011, the message is the system's
        write_text(directory / "third", "")
    assert names(target) == ["second"]
    assert names(tmp_path) == ["model"]


def test_error_in_atomic_directory_keeps_the_old_directory(tmp_path):
    target = tmp_path / "model"
    with atomic_directory(target) as directory:
        write_text(directory / "a.txt", "a")
    with pytest.raises(ZeroDivisionError), atomic_directory(target, replace=True) as directory:
        write_text(directory / "half", str(1 / 0))
    assert names(target) == ["a.txt"]
    assert names(tmp_path) == ["model"]


def test_kill_in_atomic_directory_leaves_only_what_remove_partial_deletes(tmp_path):
    process = start(
        "import sys, time; from pathlib import Path; from kosbert.files import atomic_directory\n"
        "with atomic_directory(Path(sys.argv[1]) / 'model') as directory:\n"
        "    (directory / 'half').touch(); (Path(sys.argv[1]) / 'ready').touch(); time.sleep(60)",
        tmp_path,
    )
    wait_for((tmp_path / "ready").exists)
    kill(process)
    assert not (tmp_path / "model").exists()
    remove_partial(tmp_path)
    assert names(tmp_path) == ["ready"]


def test_failed_rename_restores_the_old_directory(tmp_path, monkeypatch):
    target = tmp_path / "model"
    with atomic_directory(target) as directory:
        write_text(directory / "a.txt", "a")
    rename = Path.rename

    def fail_for_the_new_one(self, other):
        if self.name == "fresh":
            raise OSError(errno.EIO, "I/O error")
        return rename(self, other)

    monkeypatch.setattr(Path, "rename", fail_for_the_new_one)
    with pytest.raises(OSError, match="I/O error"), atomic_directory(target, replace=True):
        pass
    assert names(target) == ["a.txt"]


def test_disk_errors_name_the_file_and_the_fix():
    full = disk_error(OSError(errno.ENOSPC, "No space left on device"), Path("out/a.npy"))
    assert str(full) == "the disk is full, out/a.npy could not be written: free some space and run the command again"
    denied = disk_error(OSError(errno.EACCES, "Permission denied"), Path("out"), "choose another --out")
    assert str(denied) == "out could not be written (Permission denied): choose another --out"
    assert type(full) is KosbertError


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_full_disk_message_from_a_real_full_disk(tmp_path):
    with pytest.raises(OSError, match="No space left") as caught, Path("/dev/full").open("w") as stream:
        stream.write("a")
    assert "the disk is full" in str(disk_error(caught.value, tmp_path))


HOLD_FOREVER = (
    "import sys, time; from pathlib import Path; from kosbert.files import try_lock\n"
    "with try_lock(Path(sys.argv[1]) / 'lock', 'busy'):\n"
    "    (Path(sys.argv[1]) / 'ready').touch(); time.sleep(60)"
)


def test_killed_process_frees_its_lock(tmp_path):
    process = start(HOLD_FOREVER, tmp_path)
    wait_for((tmp_path / "ready").exists)
    with pytest.raises(UsageError, match="^in use$"), try_lock(tmp_path / "lock", "in use"):
        pass
    kill(process)
    with try_lock(tmp_path / "lock", "in use"):
        pass


def test_try_lock_is_exclusive_within_a_process(tmp_path):
    with (
        try_lock(tmp_path / "lock", "busy"),
        pytest.raises(UsageError, match="busy"),
        try_lock(tmp_path / "lock", "busy"),
    ):
        pass
    with try_lock(tmp_path / "lock", "busy"):
        pass


def test_lock_is_freed_by_an_error(tmp_path):
    with pytest.raises(ZeroDivisionError), try_lock(tmp_path / "lock", "busy"):
        raise ZeroDivisionError
    with try_lock(tmp_path / "lock", "busy"):
        pass


def test_wait_lock_lets_one_thread_in_at_a_time(tmp_path):
    inside, overlaps, entered = threading.Lock(), [], []

    def work():
        with wait_lock(tmp_path / "lock", tmp_path / "output"):
            overlaps.append(not inside.acquire(blocking=False))
            time.sleep(0.02)
            entered.append(1)
            inside.release()

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(entered), any(overlaps)) == (6, False)


def test_wait_lock_gives_up_on_a_process_that_writes_nothing(tmp_path):
    with (
        try_lock(tmp_path / "lock", "busy"),
        pytest.raises(KosbertError, match="makes no progress: stop it, then try again"),
        wait_lock(tmp_path / "lock", tmp_path / "output", patience=0.1),
    ):
        pass


def test_wait_lock_waits_while_the_output_grows(tmp_path):
    def write_slowly():
        with try_lock(tmp_path / "lock", "busy"):
            locked.set()
            for size in range(1, 8):
                (tmp_path / "output").write_bytes(b"x" * size)
                time.sleep(0.1)

    locked = threading.Event()
    thread = threading.Thread(target=write_slowly)
    thread.start()
    locked.wait()
    with wait_lock(tmp_path / "lock", tmp_path / "output", patience=0.5):  # shorter than the writing takes
        assert (tmp_path / "output").read_bytes() == b"x" * 7
    thread.join()
