"""A killed edit leaves the old state or the new one: real processes, real SIGKILL."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kosbert.search import Index
from kosbert.search.build import add, describe

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL"),
]

SCRIPT = Path(__file__).with_name("killed_edit.py")


def write_tsv(path: Path, rows: list[tuple[str, str]]) -> Path:
    path.write_text("id\ttext\n" + "".join(f"{id}\t{text}\n" for id, text in rows), encoding="utf-8")
    return path


def saved_index(backend: str, folder: Path) -> Path:
    options = {}
    if backend == "hnsw":
        pytest.importorskip("usearch")
    if backend == "milvus":
        pytest.importorskip("milvus_lite")
        options["uri"] = str(folder / "index" / "milvus.db")
    index = Index("random-words", backend=backend, **options)
    index.add(["첫째 글", "둘째 글", "셋째 글"], ids=["a", "b", "c"])
    index.save(folder / "index")
    index.close()
    return folder / "index"


STEPS = ("sync_files:before", "sync_files:after", "switch_generation:before", "switch_generation:after")
POINTS = [
    *((backend, step) for backend in ("exact", "binary", "hnsw") for step in STEPS),
    ("milvus", "insert"), ("milvus", "switch_generation:before"), ("milvus", "delete"),
]  # fmt: skip


@pytest.mark.parametrize(("backend", "point"), POINTS)
def test_killed_edit_leaves_the_old_or_the_new_state(backend: str, point: str, tmp_path: Path) -> None:
    directory = saved_index(backend, tmp_path)
    file = write_tsv(tmp_path / "new.tsv", [("b", "둘째 새 글"), ("d", "넷째 글")])
    command = [sys.executable, str(SCRIPT), str(directory), str(file), point]
    assert subprocess.run(command, check=False, timeout=120).returncode == -signal.SIGKILL
    is_new = point in ("switch_generation:after", "delete")
    for _ in range(2):
        index = Index.load(directory)
        expected = {"a", "b", "c", "d"} if is_new else {"a", "b", "c"}
        assert set(index.ids()) == {hit.id for hit in index.search("둘째 글", k=10)} == expected
        assert index.search("둘째 새 글", k=1)[0].text == ("둘째 새 글" if is_new else "둘째 글")
        index.close()
        describe(directory)
        add(file, directory, upsert=True, id_column="id")  # the next edit works and cleans up
        is_new = True
    assert len(list(directory.glob("generation-*"))) == 1


def test_index_is_consistent_after_a_kill_at_an_arbitrary_moment(tmp_path: Path) -> None:
    """Kill a process that edits an index in a loop. The delay only varies the moment; any moment must be safe."""
    directory = saved_index("exact", tmp_path)
    code = """
import sys
from kosbert.search import Index
number = 0
while True:
    number += 1
    with Index.edit(sys.argv[1]) as index:
        index.upsert([f"{id} {number}" for id in "abc"], ids=list("abc"))
    print(number, flush=True)
"""
    for delay in (0.0, 0.003, 0.011):
        with subprocess.Popen([sys.executable, "-c", code, str(directory)], stdout=subprocess.PIPE) as process:
            assert process.stdout
            process.stdout.readline()
            time.sleep(delay)
            process.kill()
        index = Index.load(directory)
        assert len({text.split()[1] for text in index.texts()}) == 1
        assert len(index.search("a 1")) == 3


def test_concurrent_edits_of_two_processes_are_all_saved(tmp_path: Path) -> None:
    directory = saved_index("exact", tmp_path)
    code = """
import sys
from kosbert.search import Index
for number in range(5):
    with Index.edit(sys.argv[1]) as index:
        index.add([f"글 {number}"], ids=[f"{sys.argv[2]}{number}"])
"""
    processes = [subprocess.Popen([sys.executable, "-c", code, str(directory), prefix]) for prefix in ("x", "y")]
    assert [process.wait(120) for process in processes] == [0, 0]
    assert len(Index.load(directory)) == 13
