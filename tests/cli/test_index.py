"""`kosbert index` as a real process: output, exit codes, errors."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CSV = 'id,문장,year\na,배송이 늦어요,2020\nb,"환불, 해 주세요",2021\nc,배송이 빨라요,2022\n'


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"KOSBERT_OFFLINE": "1", "COLUMNS": "200", "KOSBERT_DATA": ""}
    command = [sys.executable, "-c", "from kosbert.cli import main; main()", *arguments]
    return subprocess.run(
        command, capture_output=True, encoding="utf-8", env=environment, cwd=folder, timeout=120, check=False
    )


def document(folder: Path, *arguments: str) -> dict:
    process = run(folder, *arguments, "--json")
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


def error(folder: Path, exit_code: int, *arguments: str) -> str:
    """Return the one-sentence error of a command that fails."""
    process = run(folder, *arguments)
    assert (process.returncode, process.stdout) == (exit_code, ""), process
    lines = [line for line in process.stderr.splitlines() if line.startswith("kosbert: ")]
    assert len(lines) == 1
    assert "Traceback" not in process.stderr
    return lines[0]


COLUMNS = ("--text-column", "문장", "--id-column", "id")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.csv").write_text(CSV, encoding="utf-8")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["exact", "hnsw"])
def test_build_add_delete_info_and_evaluate(backend: str, folder: Path) -> None:
    if backend == "hnsw":
        pytest.importorskip("usearch")
    summary = document(
        folder, "index", "build", "a.csv", "--out", "i", "--model", "random-words", "--backend", backend, *COLUMNS
    )
    assert (summary["backend"], summary["count"], summary["model"]) == (backend, 3, "random-words")
    (folder / "b.csv").write_text("id,문장,source\nb,새 문장,책\nd,넷째,책\n", encoding="utf-8")
    assert "'b' is already in the index" in error(folder, 2, "index", "add", "b.csv", "--index", "i", *COLUMNS)
    summary = document(folder, "index", "add", "b.csv", "--index", "i", "--upsert", *COLUMNS)
    assert summary == {"added": 2, "count": 4}
    assert "no id 'x'" in error(folder, 2, "index", "delete", "a", "x", "--index", "i")
    assert document(folder, "index", "delete", "a", "--index", "i") == {"deleted": 1, "count": 3}
    info = document(folder, "index", "info", "i")
    assert info["fields"] == ["year", "source"]
    assert (info["count"], info["dim"], info["backend"]) == (3, 256, backend)
    assert "random-words" in run(folder, "index", "info", "i").stdout
    scores = document(folder, "index", "evaluate", "i")["scores"]["index"]
    assert scores["metrics"]["recall@10"] == 1


def test_errors_are_one_sentence_and_change_nothing(folder: Path) -> None:
    build = ("index", "build", "a.csv", "--model", "random-words", "--text-column", "문장")
    assert "no column 'text'" in error(folder, 2, "index", "build", "a.csv", "--out", "i", "--model", "random-words")
    assert "no known ending" in error(folder, 2, "index", "build", "a.doc", "--out", "i")
    assert "there is no file" in error(folder, 2, "index", "build", "b.csv", "--out", "i")
    assert "holds no index: give a new" in error(folder, 2, *build, "--out", ".")
    assert "did you mean exact" in error(folder, 2, *build, "--out", "i", "--backend", "exat")
    assert not (folder / "i").exists()
    assert run(folder, *build, "--out", "i").returncode == 0
    assert "holds an index already" in error(folder, 2, *build, "--out", "i")
    assert run(folder, *build, "--out", "i", "--overwrite").returncode == 0
    assert "name the column of the ids" in error(folder, 2, "index", "add", "a.csv", "--index", "i", "--upsert")
    vectors = next((folder / "i").rglob("vectors.npy"))
    vectors.write_bytes(vectors.read_bytes()[:100])
    assert "build the index again" in error(folder, 1, "index", "info", "i")
    assert "build the index again" in error(folder, 1, "search", "글", "--index", "i")
    (folder / "i" / "index.json").write_text("{", encoding="utf-8")
    assert "damaged" in error(folder, 1, "search", "글", "--index", "i")


def test_commands_import_no_heavy_packages_at_startup() -> None:
    code = (
        "import sys, kosbert.cli.app\n"
        "print([name for name in ('torch', 'sklearn', 'usearch', 'pyarrow', 'bm25s', 'pymilvus', 'kiwipiepy') "
        "if name in sys.modules])"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True, timeout=120
    )
    assert process.stdout == "[]\n"
