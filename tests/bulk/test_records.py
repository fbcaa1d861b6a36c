"""A file as a stream: every format gives the same rows, and a bad one is named and passed over."""

import csv
import gzip
import io
import json

import pyarrow
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from pyarrow import parquet

from kosbert.bulk.records import Records, Reject, Row
from kosbert.errors import KosbertError, UsageError

TEXTS = ["비가 온다.", '그는 "정말?" 하고 물었다, 그리고\n웃었다.', "눈\t", "💧"]
COLUMNS = {"text": "문장", "id": "name"}


def packed(content, ending):
    if ending == ".gz":
        return gzip.compress(content)
    if ending == ".zst":
        sink = pyarrow.BufferOutputStream()
        with pyarrow.CompressedOutputStream(sink, "zstd") as stream:
            stream.write(content)
        return sink.getvalue().to_pybytes()
    return content


def written(folder, kind, ending, rows):
    """A file of rows (name, text) in a format."""
    path = folder / f"rows{kind}{ending}"
    if kind == ".parquet":
        names, texts = zip(*rows, strict=True)
        parquet.write_table(pyarrow.table({"name": names, "문장": texts}), path)
        return path
    stream = io.StringIO()
    if kind == ".jsonl":
        stream.writelines(json.dumps({"name": name, "문장": text}) + "\n" for name, text in rows)
    elif kind == ".tsv":  # without quotes: what cannot be written so is not
        stream.writelines(f"{name}\t{text}\n" for name, text in [("name", "문장"), *rows])
    else:
        csv.writer(stream).writerows([("name", "문장"), *rows])
    path.write_bytes(packed(stream.getvalue().encode(), ending))
    return path


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
@pytest.mark.parametrize("kind", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_every_format_gives_the_same(kind, ending, tmp_path):
    if kind == ".parquet" and ending:
        pytest.skip("Parquet is packed inside")
    texts = [text.replace("\n", " ").strip() for text in TEXTS] if kind == ".tsv" else TEXTS
    records = Records(written(tmp_path, kind, ending, [(f"n{n}", text) for n, text in enumerate(texts)]), **COLUMNS)
    found = list(records)
    assert [(row.id, row.text) for row in found] == [(f"n{n}", text) for n, text in enumerate(texts)]
    assert records.position == records.size > 0


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
def test_plain_text(ending, tmp_path):
    path = tmp_path / f"a.txt{ending}"
    path.write_bytes(packed("비가 온다.\r\n\n눈\u2028사람\x85\n끝".encode(), ending))
    found = list(Records(path))
    assert found == [
        Row(1, "1", "비가 온다."),
        Reject(2, "empty", ""),
        Row(3, "3", "눈\u2028사람\x85"),  # only a line feed ends a line
        Row(4, "4", "끝"),
    ]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(texts=some.lists(some.text(some.characters(codec="utf-8", exclude_characters="\x00"), min_size=1), min_size=1))
@pytest.mark.parametrize("kind", [".csv", ".jsonl", ".parquet"])
def test_any_text_comes_back_or_is_rejected(kind, texts, tmp_path):
    if kind == ".csv":
        texts = [text.replace("\r", " ") for text in texts]  # Python's own reader makes \n of it
    found = list(Records(written(tmp_path, kind, "", [(str(n), text) for n, text in enumerate(texts)]), **COLUMNS))
    assert len(found) == len(texts)
    for row, text in zip(found, texts, strict=True):
        assert row.text == text if text.strip() else row.reason == "empty"


def test_a_quote_is_a_letter_of_a_tab_separated_file(tmp_path):
    texts = ['"안녕"하고 말했다', '"열린 따옴표', "셋", '넷"', "다섯"]
    found = list(Records(written(tmp_path, ".tsv", "", [(str(n), text) for n, text in enumerate(texts)]), **COLUMNS))
    assert [row.text for row in found] == texts


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.jsonl", '{"text": "비"}\n'), ("a.csv", '"text"\n비\n'), ("a.tsv", "text\n비\n"), ("a.txt", "비\n")],
)
def test_a_byte_order_mark_is_no_text(name, content, tmp_path):
    (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + content.encode())
    assert [row.text for row in Records(tmp_path / name)] == ["비"]


def test_a_column_without_a_name_is_no_id(tmp_path):
    (tmp_path / "a.csv").write_text(",text\n0,비\n0,눈\n", encoding="utf-8")
    assert [(row.id, row.text) for row in Records(tmp_path / "a.csv")] == [("2", "비"), ("3", "눈")]


def test_bad_rows_of_a_table(tmp_path):
    path = tmp_path / "bad.csv"
    path.write_bytes("name,문장\na,비\nb\nc,눈,바람\n".encode() + b"d,\xff\xfe\n" + "e,해\n".encode())
    found = list(Records(path, **COLUMNS))
    assert [(type(row).__name__, row.line) for row in found] == [
        ("Row", 2), ("Reject", 3), ("Reject", 4), ("Reject", 5), ("Row", 6),
    ]  # fmt: skip
    assert [row.reason for row in found if isinstance(row, Reject)] == [
        "1 cells where 2 belong", "3 cells where 2 belong", "not UTF-8",
    ]  # fmt: skip


def test_bad_rows_of_json(tmp_path):
    path = tmp_path / "bad.jsonl"
    rows = [
        '{"name": 1, "문장": "비"}',
        "{",
        "[1]",
        '{"name": 2}',
        '{"문장": "눈"}',
        '{"name": 3, "문장": 5}',
        "[" * 9999,
    ]
    path.write_text("\n".join(rows), encoding="utf-8")
    found = list(Records(path, **COLUMNS))
    assert found[0] == Row(1, "1", "비")
    assert [row.reason for row in found[1:]] == [
        "no JSON", "no column '문장'", "no column '문장'", "no id in 'name'", "'문장' is no text", "no JSON",
    ]  # fmt: skip
    assert all(len(row.content) <= 200 for row in found[1:])


def test_missing_values_of_parquet(tmp_path):
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"문장": ["비", None, ""], "name": [1, 2, 3]}), path)
    assert list(Records(path, **COLUMNS)) == [
        Row(1, "1", "비"),
        Reject(2, "'문장' is no text", "{'문장': None, 'name': 2}"),
        Reject(3, "empty", "{'문장': '', 'name': 3}"),
    ]


@pytest.mark.parametrize(
    ("name", "content", "options", "sentence"),
    [
        ("a.doc", b"", {}, "a.doc has no known ending"),
        ("a.parquet.gz", b"", {}, "has no known ending"),
        ("a.csv", b"x,y\n1,2\n", {}, "a.csv has no column 'text'"),
        ("a.csv", b"text\nx\n", {"id": "nr"}, "has no column 'nr'.* Give it by --id-column"),
        ("a.txt", b"x", {"id": "nr"}, "a text file has no columns"),
    ],
)
def test_mistakes(name, content, options, sentence, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match=sentence):
        list(Records(tmp_path / name, **options))


def test_a_file_that_is_not_there_or_not_whole(tmp_path):
    with pytest.raises(UsageError, match=r"there is no file .*b\.txt"):
        Records(tmp_path / "b.txt")
    (tmp_path / "half.txt.gz").write_bytes(gzip.compress("비가 온다\n".encode() * 5000)[:-20])
    with pytest.raises(KosbertError, match="cannot be unpacked to its end"):
        list(Records(tmp_path / "half.txt.gz"))
    (tmp_path / "no.parquet").write_bytes(b"PAR1")
    with pytest.raises(KosbertError, match="not a readable Parquet file"):
        list(Records(tmp_path / "no.parquet"))
