"""The table reader: all formats give the same rows; malformed rows are errors or rejects."""

import csv
import gzip
import io
import json

import pyarrow
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from pyarrow import parquet

from kosbert.data.sentences import SentenceRow, SentenceStream, read_sentences
from kosbert.data.tables import (
    CSV,
    JSON,
    JSONL,
    TEXT,
    TSV,
    Reject,
    Row,
    Table,
)
from kosbert.errors import KosbertError, UsageError

TEXTS = ["비가 온다.", '그는 "정말?" 하고 물었다, 그리고\n웃었다.', "눈\t", "💧"]
COLUMNS = {"text_column": "문장", "id_column": "name"}


def compressed(content, ending):
    if ending == ".gz":
        return gzip.compress(content)
    if ending == ".zst":
        sink = pyarrow.BufferOutputStream()
        with pyarrow.CompressedOutputStream(sink, "zstd") as stream:
            stream.write(content)
        return sink.getvalue().to_pybytes()
    return content


def write(directory, kind, ending, rows):
    """Write rows (name, text) in a format."""
    path = directory / f"rows{kind}{ending}"
    if kind == ".parquet":
        names, texts = zip(*rows, strict=True)
        parquet.write_table(pyarrow.table({"name": names, "문장": texts}), path)
        return path
    stream = io.StringIO()
    if kind == ".jsonl":
        stream.writelines(json.dumps({"name": name, "문장": text}) + "\n" for name, text in rows)
    elif kind == ".json":
        json.dump([{"name": name, "문장": text} for name, text in rows], stream)
    elif kind == ".tsv":  # no quoting
        stream.writelines(f"{name}\t{text}\n" for name, text in [("name", "문장"), *rows])
    else:
        csv.writer(stream).writerows([("name", "문장"), *rows])
    path.write_bytes(compressed(stream.getvalue().encode(), ending))
    return path


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
@pytest.mark.parametrize("kind", [".csv", ".tsv", ".json", ".jsonl", ".parquet"])
def test_all_formats_give_the_same_sentences(kind, ending, tmp_path):
    if kind == ".parquet" and ending:
        pytest.skip("Parquet has its own compression")
    texts = [text.replace("\n", " ").strip() for text in TEXTS] if kind == ".tsv" else TEXTS
    stream = SentenceStream(write(tmp_path, kind, ending, [(f"n{n}", text) for n, text in enumerate(texts)]), **COLUMNS)
    assert stream.table.position == 0
    assert [(row.id, row.text) for row in stream] == [(f"n{n}", text) for n, text in enumerate(texts)]
    assert stream.table.position == stream.table.size > 0


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
def test_text_file_has_one_sentence_per_line(ending, tmp_path):
    path = tmp_path / f"a.txt{ending}"
    path.write_bytes(compressed("비가 온다.\r\n\n눈\u2028사람\x85\n끝".encode(), ending))
    rows = list(SentenceStream(path))
    assert rows == [
        SentenceRow(1, "1", "비가 온다."),
        Reject(2, "empty", ""),
        SentenceRow(3, "3", "눈\u2028사람\x85"),  # only a line feed ends a line
        SentenceRow(4, "4", "끝"),
    ]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(texts=some.lists(some.text(some.characters(codec="utf-8", exclude_characters="\x00"), min_size=1), min_size=1))
@pytest.mark.parametrize("kind", [".csv", ".jsonl", ".parquet"])
def test_any_text_is_read_back_or_rejected(kind, texts, tmp_path):
    if kind == ".csv":
        texts = [text.replace("\r", " ") for text in texts]  # csv treats a lone \r as a line end
    path = write(tmp_path, kind, "", [(str(n), text) for n, text in enumerate(texts)])
    rows = list(SentenceStream(path, **COLUMNS))
    assert len(rows) == len(texts)
    for row, text in zip(rows, texts, strict=True):
        assert row.text == text if text.strip() else row.reason == "empty"


def test_quotes_in_tsv_are_text(tmp_path):
    texts = ['"안녕"하고 말했다', '"열린 따옴표', "셋", '넷"', "다섯"]
    path = write(tmp_path, ".tsv", "", [(str(n), text) for n, text in enumerate(texts)])
    assert [row.text for row in SentenceStream(path, **COLUMNS)] == texts


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.jsonl", '{"text": "비"}\n'), ("a.csv", '"text"\n비\n'), ("a.tsv", "text\n비\n"), ("a.txt", "비\n")],
)
def test_byte_order_mark_is_removed(name, content, tmp_path):
    (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + content.encode())
    assert [row.text for row in SentenceStream(tmp_path / name)] == ["비"]


def test_unnamed_column_is_not_the_id(tmp_path):
    (tmp_path / "a.csv").write_text(",text\n0,비\n0,눈\n", encoding="utf-8")
    assert [(row.id, row.text) for row in SentenceStream(tmp_path / "a.csv")] == [("2", "비"), ("3", "눈")]


def test_rejects_of_csv(tmp_path):
    path = tmp_path / "bad.csv"
    path.write_bytes("name,문장\na,비\nb\nc,눈,바람\n".encode() + b"d,\xff\xfe\n" + "e,해\n".encode())
    rows = list(SentenceStream(path, **COLUMNS))
    assert [(type(row).__name__, row.line) for row in rows] == [
        ("SentenceRow", 2), ("Reject", 3), ("Reject", 4), ("Reject", 5), ("SentenceRow", 6),
    ]  # fmt: skip
    assert [row.reason for row in rows if isinstance(row, Reject)] == [
        "1 fields where 2 are expected", "3 fields where 2 are expected",
        "not UTF-8; another encoding needs --encoding",
    ]  # fmt: skip


def test_rejects_of_json_lines(tmp_path):
    path = tmp_path / "bad.jsonl"
    lines = [
        '{"name": 1, "문장": "비"}',
        "{",
        "[1]",
        '{"name": 2}',
        '{"문장": "눈"}',
        '{"name": 3, "문장": 5}',
        "[" * 9999,
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    rows = list(SentenceStream(path, **COLUMNS))
    assert rows[0] == SentenceRow(1, "1", "비")
    reasons = [row.reason for row in rows[1:]]
    assert reasons[0].startswith("not JSON (")
    assert reasons[1:5] == [
        "list where an object is expected", "no column '문장'", "no id in 'name'", "'문장' is not text",
    ]  # fmt: skip
    assert reasons[5].startswith("not JSON (")
    assert all(len(row.content) <= 200 for row in rows[1:])


def test_rejects_of_parquet(tmp_path):
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"문장": ["비", None, ""], "name": [1, 2, 3]}), path)
    assert list(SentenceStream(path, **COLUMNS)) == [
        SentenceRow(1, "1", "비"),
        Reject(2, "'문장' is not text", "{'문장': None, 'name': 2}"),
        Reject(3, "empty", "{'문장': '', 'name': 3}"),
    ]


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("a.doc", b"", {}, "a.doc has no known ending"),
        ("a.parquet.gz", b"", {}, "has no known ending"),
        ("a.csv", b"x,y\n1,2\n", {}, "a.csv has no column 'text'"),
        ("a.csv", b"text\nx\n", {"id_column": "nr"}, r"has no column 'nr' \(--id-column\): did you mean text"),
        ("a.txt", b"x", {"id_column": "nr"}, "a text file has no columns"),
    ],
)
def test_usage_errors(name, content, options, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match=message):
        list(SentenceStream(tmp_path / name, **options))


def test_missing_and_truncated_files(tmp_path):
    with pytest.raises(UsageError, match=r"there is no file .*b\.txt"):
        SentenceStream(tmp_path / "b.txt")
    (tmp_path / "half.txt.gz").write_bytes(gzip.compress("비가 온다\n".encode() * 5000)[:-20])
    with pytest.raises(KosbertError, match="cannot be read to its end"):
        list(SentenceStream(tmp_path / "half.txt.gz"))
    (tmp_path / "no.parquet").write_bytes(b"PAR1")
    with pytest.raises(KosbertError, match="not a readable Parquet file"):
        list(SentenceStream(tmp_path / "no.parquet"))


# --- Table ----------------------------------------------------------------------------------------------------------


def test_rows_have_lines_and_all_columns(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('id,text,stars\n1,"두\n줄",5\n2,셋,4\n', encoding="utf-8")
    rows = list(Table(path).rows())
    assert [(row.line, dict(row.fields)) for row in rows] == [
        (3, {"id": "1", "text": "두\n줄", "stars": "5"}),
        (4, {"id": "2", "text": "셋", "stars": "4"}),
    ]
    assert rows[0].number("stars") == 5.0


@pytest.mark.parametrize(
    ("format", "content", "columns"),
    [
        (TEXT, "x", ["text"]),
        (CSV, "a,b\n", ["a", "b"]),
        (TSV, "", []),
        (JSONL, "{}", None),
        (JSON, "[]", None),
    ],
)
def test_columns(format, content, columns, tmp_path):
    (tmp_path / "file").write_text(content, encoding="utf-8")
    assert Table(tmp_path / "file", format).columns() == columns


def test_the_same_row_raises_or_is_rejected(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("text\tscore\n가\t1\n나\n다\t3\n", encoding="utf-8")
    table = Table(path)
    rows = table.rows()
    assert next(rows).text("text") == "가"
    with pytest.raises(KosbertError, match=r"a\.tsv, line 3: 1 fields where 2 are expected"):
        next(rows)
    kinds = [type(row) for row in table.rows(on_error="reject")]
    assert kinds == [Row, Reject, Row]


def test_blank_lines_of_json_lines_are_not_rows(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "비"}\n\n{"text": "눈"}\n\n', encoding="utf-8")
    assert [row.line for row in SentenceStream(tmp_path / "a.jsonl")] == [1, 3]


def test_rows_are_streamed(tmp_path):
    """Reading a few rows must not read the whole file."""
    (tmp_path / "a.txt").write_text("비가 온다\n" * 500_000, encoding="utf-8")
    table = Table(tmp_path / "a.txt")
    rows = table.rows()
    next(rows)
    assert table.position < table.size / 10
    rows.close()


# --- read_sentences -------------------------------------------------------------------------------------------------


def test_read_sentences_keeps_ids_other_columns_and_lines(tmp_path):
    (tmp_path / "a.csv").write_text("nr,text,stars\na,비,5\nb,\u200b,4\nc,눈,3\n", encoding="utf-8")
    sentences = read_sentences(tmp_path / "a.csv", id_column="nr")
    assert (sentences.texts, sentences.ids, sentences.lines) == (["비", "눈"], ["a", "c"], [2, 4])
    assert sentences.metadata == [{"stars": "5"}, {"stars": "3"}]


def test_read_sentences_warns_about_rows_without_text(tmp_path, caplog):
    (tmp_path / "a.jsonl").write_text('{"text": null}\n{"text": "비"}\n{"text": 7}\n', encoding="utf-8")
    assert read_sentences(tmp_path / "a.jsonl").texts == ["비", "7"]
    assert "1 rows of" in caplog.text
    (tmp_path / "b.txt").write_text(" \n", encoding="utf-8")
    with pytest.raises(KosbertError, match="has no sentences: none of its 1 rows has text in 'text'"):
        read_sentences(tmp_path / "b.txt")


def test_read_sentences_names_the_missing_column(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"문장": "비"}\n', encoding="utf-8")
    with pytest.raises(UsageError, match=r"has no column 'text' \(--text-column\): did you mean 문장"):
        read_sentences(tmp_path / "a.jsonl")
