"""A change that is killed at a given moment, as by the power switch; test_crash.py runs it in a process.

Arguments: DIR, FILE, and the function of kosbert.search.directory at whose call number N the process dies.
"""

import os
import signal
import sys
from pathlib import Path

from kosbert.search import directory as disk
from kosbert.search.build import add


def die_at(module: object, name: str, number: int, *, before: bool) -> None:
    original, calls = getattr(module, name), 0

    def counted(*arguments: object, **keywords: object) -> object:
        nonlocal calls
        calls += 1
        if calls == number and before:
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(*arguments, **keywords)
        if calls == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(module, name, counted)


if __name__ == "__main__":
    target, file, point = sys.argv[1:]
    name, _, when = point.partition(":")
    if name == "insert":
        from kosbert.search.backends.milvus import MilvusStore

        die_at(MilvusStore, "add", 1, before=False)
    elif name == "delete":
        from kosbert.search.backends.milvus import MilvusStore

        die_at(MilvusStore, "commit", 2, before=True)  # the first is at opening
    else:
        die_at(disk, name, 1, before=when == "before")
    add(Path(file), Path(target), upsert=True, id_column="id")
