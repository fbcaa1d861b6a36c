"""Upsert a file into an index and kill this process with SIGKILL at a given point; test_crash.py runs it.

Arguments: DIR FILE POINT. POINT is a function of kosbert.search.storage and before or after (sync_files:before), or
`insert` (after the vectors are in Milvus) or `delete` (before old vectors are deleted from Milvus).
"""

import os
import signal
import sys
from pathlib import Path

from kosbert.search import storage
from kosbert.search.build import add


def kill_at_call(owner: object, name: str, call: int, *, before: bool) -> None:
    original, calls = getattr(owner, name), 0

    def counted(*arguments: object, **options: object) -> object:
        nonlocal calls
        calls += 1
        if calls == call and before:
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(*arguments, **options)
        if calls == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, counted)


if __name__ == "__main__":
    directory, file, point = sys.argv[1:]
    name, _, when = point.partition(":")
    if name in ("insert", "delete"):
        from kosbert.search.backends.milvus import MilvusBackend

        if name == "insert":
            kill_at_call(MilvusBackend, "add", 1, before=False)
        else:
            kill_at_call(MilvusBackend, "commit", 2, before=True)  # the first call is in `open`
    else:
        kill_at_call(storage, name, 1, before=when == "before")
    add(Path(file), Path(directory), upsert=True, id_column="id")
