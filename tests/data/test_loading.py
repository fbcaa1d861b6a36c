"""User files in all formats with columns of any name, and `read_records` for names and paths."""

import gzip
import json
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from kosbert.data import LabeledPair, LabeledSentence, ScoredPair, Sentence, Triplet, load, read_file, read_records
from kosbert.errors import KosbertError, UsageError

COLUMNS = {"sentence1": "문장1", "sentence2": "문장2", "score": "점수"}
EXPECTED = [ScoredPair("비가 온다", "눈이 온다", 2.5), ScoredPair("가, 나", '"다"', 0.0)]


def write(path: Path) -> Path:
    table = [{"문장1": row.sentence1, "문장2": row.sentence2, "점수": row.score} for row in EXPECTED]
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(table), path)
        return path
    name = path.name.removesuffix(".gz").lower()
    if name.endswith(".json"):
        text = json.dumps(table, ensure_ascii=False)
    elif name.endswith(("l", "ndjson")):
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in table)
    elif name.endswith(".csv"):
        text = '문장1,문장2,점수\n비가 온다,눈이 온다,2.5\n"가, 나","""다""",0\n'
    else:
        text = '문장1\t문장2\t점수\n비가 온다\t눈이 온다\t2.5\n가, 나\t"다"\t0\n'
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.json", "a.jsonl", "a.ndjson", "a.parquet", "a.tsv.gz", "A.CSV"])
def test_all_formats_give_the_same_records(tmp_path: Path, name: str) -> None:
    assert read_file(write(tmp_path / name), COLUMNS) == EXPECTED


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.tsv", "text\n가\n", Sentence("가")),
        ("a.tsv", "text\tlabel\n가\t1\n", LabeledSentence("가", "1")),
        ("a.tsv", "sentence1\tsentence2\tlabel\n가\t나\t같음\n", LabeledPair("가", "나", "같음")),
        ("a.tsv", "anchor\tpositive\tnegative\n가\t나\t다\n", Triplet("가", "나", "다")),
        ("a.txt", "그냥 한 줄\n", Sentence("그냥 한 줄")),
    ],
)
def test_columns_decide_the_kind_of_record(tmp_path: Path, name: str, text: str, expected: object) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert read_file(tmp_path / name) == [expected]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"sentence1": "문장"}, "no column '문장' for sentence1: did you mean 문장"),
        ({"sentense1": "문장1"}, "not a role that a column can have: did you mean sentence1"),
        ({}, "say which are sentence1, sentence2 and score"),
    ],
)
def test_wrong_columns_are_usage_errors(tmp_path: Path, columns: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_file(write(tmp_path / "a.tsv"), columns)


def test_unusable_files(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no known ending"):
        read_file(tmp_path / "a.docx")
    with pytest.raises(UsageError, match="there is no file"):
        read_file(tmp_path / "missing.tsv")
    (tmp_path / "empty.tsv").write_text("sentence1\tsentence2\tscore\n", encoding="utf-8")
    with pytest.raises(KosbertError, match="has no rows"):
        read_file(tmp_path / "empty.tsv")
    (tmp_path / "a.parquet").write_bytes(b"not parquet")
    with pytest.raises(KosbertError, match="not a readable Parquet file"):
        read_file(tmp_path / "a.parquet")


def test_read_records_takes_splits_and_files(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv")
    assert read_records("sample-sts-dev") == load("sample-sts-dev")
    assert read_records([str(path), "sample-sts-dev"], columns=COLUMNS) == [*EXPECTED, *load("sample-sts-dev")]
    with pytest.raises(UsageError, match=r"there is no file b\.tsv: give a path that exists or the name of a split"):
        read_records("b.tsv")
    with pytest.raises(UsageError, match="there is no data set or split 'korst': did you mean korsts"):
        read_records("korst")


def test_missing_data_without_network_is_a_usage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KOSBERT_CACHE", str(tmp_path))
    monkeypatch.setenv("KOSBERT_OFFLINE", "1")
    monkeypatch.delenv("KOSBERT_DATA", raising=False)
    with pytest.raises(UsageError, match="of korsts is missing"):
        read_records("korsts-test")
    with pytest.raises(KosbertError, match="of korsts is missing") as caught:
        load("korsts-test")
    assert not isinstance(caught.value, UsageError)
