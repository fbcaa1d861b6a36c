"""A killed change leaves the old state or the new one: real processes, real SIGKILL."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kosbert.search import Index
from kosbert.search.build import add, describe

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL on Windows")

SCRIPT = Path(__file__).with_name("killed_add.py")


def write(path: Path, rows: list[tuple[str, str]]) -> Path:
    path.write_text("id\ttext\n" + "".join(f"{name}\t{text}\n" for name, text in rows), encoding="utf-8")
    return path


def made(kind: str, folder: Path) -> Path:
    settings = {}
    if kind == "hnsw":
        pytest.importorskip("usearch")
    if kind == "milvus":
        pytest.importorskip("milvus_lite")
        settings["address"] = str(folder / "index" / "milvus.db")
    index = Index("random-words", kind=kind, **settings)  # type: ignore[arg-type]
    index.add(["첫째 글", "둘째 글", "셋째 글"], ids=["a", "b", "c"])
    index.save(folder / "index")
    index.close()
    return folder / "index"


POINTS = [
    *((kind, f"files_of:{when}") for kind in ("exact", "binary", "hnsw") for when in ("before", "after")),
    *((kind, f"switch:{when}") for kind in ("exact", "binary", "hnsw") for when in ("before", "after")),
    ("milvus", "insert"), ("milvus", "switch:before"), ("milvus", "delete"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "point"), POINTS)
def test_killed_at_a_point(kind: str, point: str, tmp_path: Path) -> None:
    directory = made(kind, tmp_path)
    file = write(tmp_path / "new.tsv", [("b", "둘째 새 글"), ("d", "넷째 글")])
    done = subprocess.run([sys.executable, str(SCRIPT), str(directory), str(file), point], check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL
    new = point in ("switch:after", "delete")
    for _ in range(2):
        index = Index.load(directory)
        expected = {"a", "b", "c", "d"} if new else {"a", "b", "c"}
        assert set(index.ids()) == {hit.id for hit in index.search("둘째 글", k=10)} == expected
        assert index.search("둘째 새 글", k=1)[0].text == ("둘째 새 글" if new else "둘째 글")
        index.close()
        describe(directory)
        add(file, directory, upsert=True, id_column="id")  # the next change works and clears up
        new = True
    assert len(list(directory.glob("generation-*"))) == 1


def test_killed_at_any_moment(tmp_path: Path) -> None:
    """Kill a process that changes an index over and over, whenever: it can always be read, and is never half new."""
    directory = made("exact", tmp_path)
    code = """
import sys
from kosbert.search import Index
number = 0
while True:
    number += 1
    with Index.change(sys.argv[1]) as index:
        index.upsert([f"{name} {number}" for name in "abc"], ids=list("abc"))
    print(number, flush=True)
"""
    for pause in (0.0, 0.003, 0.011):
        with subprocess.Popen([sys.executable, "-c", code, str(directory)], stdout=subprocess.PIPE) as process:
            assert process.stdout
            process.stdout.readline()
            time.sleep(pause)
            process.kill()
        index = Index.load(directory)
        assert len({text.split()[1] for text in index.texts()}) == 1
        assert len(index.search("a 1")) == 3


def test_two_processes_lose_nothing(tmp_path: Path) -> None:
    directory = made("exact", tmp_path)
    code = """
import sys
from kosbert.search import Index
for number in range(5):
    with Index.change(sys.argv[1]) as index:
        index.add([f"글 {number}"], ids=[f"{sys.argv[2]}{number}"])
"""
    started = [subprocess.Popen([sys.executable, "-c", code, str(directory), name]) for name in ("x", "y")]
    assert [process.wait(120) for process in started] == [0, 0]
    assert len(Index.load(directory)) == 13
