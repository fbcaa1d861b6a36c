"""Every command reads the files of a Korean office; without a usable row it fails and leaves nothing behind."""

import json
from pathlib import Path

import numpy as np
import pytest

from kosbert.bulk import read_shards

ROWS = [
    ("가1", "배송이 늦어요"),
    ("가2", "배송이 빨라요"),
    ("나1", "환불해 주세요"),
    ("나2", "환불해 주세요 ㅠㅠ"),
    ("다", "비"),
]
TEXT = "번호,문장\n" + "".join(f"{id},{text}\n" for id, text in ROWS)
PAIRS = "sentence1,sentence2,점수\n비,눈,1\n해,달,2\n물,불,3\n강,산,0\n배송,환불,5\n"
COLUMNS = ("--text-column", "문장")


def saved_as(kind: str, name: str = "a") -> Path:
    """Save the rows as CSV in an encoding, or as a workbook."""
    if kind == "xlsx":
        workbook = pytest.importorskip("openpyxl").Workbook()
        for row in TEXT.splitlines():
            workbook.active.append(row.split(","))
        workbook.save(f"{name}.xlsx")
        return Path(f"{name}.xlsx")
    path = Path(f"{name}.csv")
    path.write_bytes((("\ufeff" + TEXT) if kind.startswith("utf-16") else TEXT).encode(kind))
    return path


def test_results_do_not_depend_on_the_kind_of_file(kosbert) -> None:
    results = []
    for kind in ("utf-8", "utf-8-sig", "cp949", "euc-kr", "utf-16-le", "utf-16-be", "xlsx"):
        path = saved_as(kind)
        assert kosbert("encode", path, "--out", f"v-{kind}", "--id-column", "번호", *COLUMNS)[0] == 0
        build = ("index", "build", path, "--out", "index", "--overwrite", "--id-column", "번호", *COLUMNS)
        assert kosbert(*build)[0] == 0
        hits = kosbert("search", "환불", "--index", "index", "--json")[1]
        clusters = kosbert("cluster", path, *COLUMNS, "--resamples", 0, "--min-cluster-size", 1, "--json")[1]
        results.append((*next(read_shards(f"v-{kind}")), json.loads(hits), json.loads(clusters)))
    ids, vectors, *reports = results[0]
    assert ids == [id for id, _ in ROWS]
    assert "환불해 주세요" in json.dumps(reports[0], ensure_ascii=False)
    for other_ids, other_vectors, *other_reports in results[1:]:
        assert (other_ids, other_reports) == (ids, reports)
        np.testing.assert_array_equal(other_vectors, vectors)


def test_files_to_evaluate_on(kosbert) -> None:
    Path("a.csv").write_bytes(PAIRS.encode("cp949"))
    arguments = ("evaluate", "tfidf", "--on", "a.csv", "--column", "score=점수", "--resamples", 100, "--json")
    detected = kosbert(*arguments)
    assert detected[0] == 0, detected
    assert kosbert(*arguments, "--encoding", "euc-kr") == detected
    code, _, stderr = kosbert(*arguments, "--encoding", "ms949x")
    assert (code, "there is no encoding 'ms949x' (--encoding)" in stderr) == (2, True)
    code, _, stderr = kosbert(*arguments, "--sheet", "x")
    assert (code, "a.csv has no sheets: omit --sheet" in stderr) == (2, True)


@pytest.mark.parametrize("kind", ["cp949", "utf-16-be", "xlsx"])
def test_dedup_writes_the_encoding_of_the_file(kosbert, kind) -> None:
    path = saved_as(kind)
    code, _, stderr = kosbert("mine", path, *COLUMNS, "--threshold", 1, "--dedup", "b.csv")
    assert code == 0, stderr
    encoding = {"cp949": "cp949", "utf-16-be": "utf-16", "xlsx": "utf-8-sig"}[kind]
    assert Path("b.csv").read_text(encoding=encoding) == TEXT
    if kind == "xlsx":
        code, _, stderr = kosbert("mine", path, *COLUMNS, "--dedup", "b.xlsx")
        assert (code, "b.xlsx cannot be written" in stderr) == (2, True)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "has no"),
        ("문장\n".encode(), "has no"),
        ("번호,문장\n1,\n2, \n".encode(), "has no sentences: "),
        ("문장\n".encode() + b"\xff\xfe\xfa\n\x80\n", "line 2: byte 0 is not UTF-8"),
    ],
)
def test_nothing_usable_is_an_error_that_leaves_nothing(kosbert, content, reason) -> None:
    Path("a.csv").write_bytes(content)
    for command in (
        ("encode", "a.csv", "--out", "out"),
        ("index", "build", "a.csv", "--out", "out"),
        ("cluster", "a.csv", "--map", "out.html"),
        ("mine", "a.csv", "--dedup", "out.csv"),
    ):
        code, stdout, stderr = kosbert(*command, *COLUMNS)
        message = stderr.strip().splitlines()[-1]
        assert (code, stdout) == (1, ""), (command, stderr)
        assert message.startswith("kosbert: a.csv")
        assert reason in message
        assert [path.name for path in Path().iterdir()] == ["a.csv"]


def test_rejected_rows_are_counted(kosbert) -> None:
    Path("a.csv").write_bytes("문장\n비가 온다\n눈이 온다\n".encode() + b"\xff\n")
    code, stdout, _ = kosbert("encode", "a.csv", "--out", "out", *COLUMNS)
    assert code == 0
    assert "2 vectors" in stdout
    assert "1 rows were rejected" in stdout
    (reject,) = map(json.loads, Path("out/rejects.jsonl").read_text(encoding="utf-8").splitlines())
    assert (reject["line"], reject["reason"]) == (4, "not UTF-8; another encoding needs --encoding")
