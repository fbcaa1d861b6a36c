"""Encodings and workbooks: the same rows in every file that a Korean office has."""

import codecs
import gzip
import io
import re
import sys
from datetime import datetime

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as some

from kosbert.data import ScoredPair, read_file
from kosbert.data.columns import read_columns
from kosbert.data.encodings import SAMPLE, check_name, detect, split_lines
from kosbert.data.sentences import SentenceRow, SentenceStream, read_sentences
from kosbert.data.tables import CSV, Reject, Table, TableFormat, table_format, user_format
from kosbert.errors import KosbertError, UsageError

HEADER = ("sentence1", "sentence2", "score", "출처")
ROWS = [
    ("비가 온다.", "눈이 온다.", 2.5, "날씨"),
    ('그는 "정말?" 하고 물었다', "그가 물었다, 정말이냐고", 4, "소설"),
    ("환불해 주세요 ㅠㅠ", "돈을 돌려주세요", 4.8, "상담"),
    ("커피 2잔", "차 한 잔", 1, "주문"),
    ("가", "나", 0, ""),
]
RECORDS = [ScoredPair(first, second, float(score)) for first, second, score, _ in ROWS]
SAVED_AS = ["utf-8", "utf-8-sig", "cp949", "euc-kr", "utf-16-le", "utf-16-be"]


def csv_text() -> str:
    cells = [HEADER, *((first.replace('"', '""'), second, score, source) for first, second, score, source in ROWS)]
    return "".join(",".join(f'"{cell}"' for cell in row) + "\r\n" for row in cells)


def encoded(text: str, encoding: str) -> bytes:
    """Encode as Office does: UTF-16 with a byte order mark."""
    return (("\ufeff" + text) if encoding.startswith("utf-16") else text).encode(encoding)


def write_workbook(path, sheets):
    openpyxl = pytest.importorskip("openpyxl")
    workbook = openpyxl.Workbook()
    workbook.remove(workbook.active)
    for name, rows in sheets.items():
        worksheet = workbook.create_sheet(name)
        for row in rows:
            worksheet.append(row)
    workbook.save(path)
    return path


@pytest.fixture(params=[*SAVED_AS, "xlsx"])
def file(request, tmp_path):
    """The five rows in every kind of file."""
    if request.param == "xlsx":
        return write_workbook(tmp_path / "a.xlsx", {"Sheet1": [HEADER, *ROWS]})
    path = tmp_path / "a.csv"
    path.write_bytes(encoded(csv_text(), request.param))
    return path


def test_the_same_rows_in_every_file(file):
    assert read_file(file) == RECORDS
    assert read_columns(str(file)).scored_pairs() == RECORDS
    rows = [(row.line, dict(row.fields)) for row in Table(file).rows()]
    expected = [dict(zip(HEADER, map(str, row), strict=True)) for row in ROWS]
    assert rows == list(enumerate(expected, start=2))
    sentences = read_sentences(file, text_column="sentence1", id_column="sentence2")
    assert (sentences.texts, sentences.ids) == ([row[0] for row in ROWS], [row[1] for row in ROWS])
    assert sentences.metadata == [{"score": str(row[2]), "출처": row[3]} for row in ROWS]
    stream = SentenceStream(file, text_column="sentence1")
    assert list(stream) == [SentenceRow(line, str(line), row[0]) for line, row in enumerate(ROWS, start=2)]
    assert stream.table.position == stream.table.size


@pytest.mark.parametrize("encoding", SAVED_AS)
@pytest.mark.parametrize("kind", ["txt", "tsv", "jsonl", "json"])
def test_every_text_format_has_an_encoding(kind, encoding, tmp_path):
    text = {
        "txt": "비가 온다\n눈이 온다\n",
        "tsv": "text\n비가 온다\n눈이 온다\n",
        "jsonl": '{"text": "비가 온다"}\n{"text": "눈이 온다"}\n',
        "json": '[{"text": "비가 온다"}, {"text": "눈이 온다"}]',
    }[kind]
    path = tmp_path / f"a.{kind}.gz" if kind == "txt" else tmp_path / f"a.{kind}"
    content = encoded(text, encoding)
    path.write_bytes(gzip.compress(content) if kind == "txt" else content)
    assert [row.text for row in SentenceStream(path)] == ["비가 온다", "눈이 온다"]
    assert list(read_columns(str(path)).sentences) == ["비가 온다", "눈이 온다"]


# --- detection ------------------------------------------------------------------------------------------------------

KS_X_1001 = [bytes((lead, trail)).decode("euc-kr") for lead in range(0xB0, 0xC9) for trail in range(0xA1, 0xFF)]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(
    lines=some.lists(
        some.text(some.sampled_from([*KS_X_1001, *" .,!?09azAZ"]), min_size=1).filter(str.strip), min_size=1
    ),
    encoding=some.sampled_from([*SAVED_AS, "utf-16-le without BOM", "utf-16-be without BOM"]),
)
def test_hangul_is_detected_in_every_encoding(lines, encoding, tmp_path):
    text = "\n".join(["문장", *lines])
    name = encoding.removesuffix(" without BOM")
    (tmp_path / "a.txt").write_bytes(text.encode(name) if name != encoding else encoded(text, name))
    assert [row.text for row in SentenceStream(tmp_path / "a.txt")] == ["문장", *lines]


@given(text=some.text(some.characters(codec="utf-8", exclude_characters="\0")), cut=some.integers(1, 50))
def test_utf8_is_never_taken_for_another_encoding(text, cut):
    assert detect(text.encode()) == "utf-8"
    part = text.encode()[:cut]
    assume(len(part) == cut)
    assert detect(part, is_whole=False) == "utf-8"


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("今日は天気がいいです。\n雨が降っています。\n", "shift_jis"),
        ("今日は天気がいいです。\n雨が降っています。\n", "euc_jp"),
        ("今天天气很好。\n外面下雨了,我们不去上学。\n", "gbk"),
        ("今天天氣很好。\n外面下雨了,我們不去上學。\n", "big5"),
        ("Où est le café ? À côté de l'hôtel.\n", "latin-1"),
        ("Größe und Übermut\n", "cp1252"),
        ("Добрый день, как дела?\n", "koi8-r"),
        ("비가 온다\n", "utf-32"),
    ],
)
def test_other_encodings_are_an_error_that_names_the_option(text, encoding, tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(text.encode(encoding))
    for read in (SentenceStream, read_sentences, read_file, read_columns):
        with pytest.raises(KosbertError, match=r"a\.txt, line 1: byte \d+ is not UTF-8.*--encoding cp949"):
            read(str(path) if read is read_columns else path)
    if encoding != "utf-32":
        assert read_sentences(path, encoding=encoding).texts == text.splitlines()


def test_chat_with_jamo_is_korean():
    assert detect("배송 빨라요 ㅋㅋㅋㅋ\n최고 ㅠㅠ\n".encode("cp949")) == "cp949"


def test_undecodable_bytes_after_the_sample(tmp_path):
    line = "비가 온다\n".encode("cp949")
    count = SAMPLE // len(line) + 1
    path = tmp_path / "a.txt"
    path.write_bytes(line * count + b"\xff\xff\n" + line)
    rows = list(SentenceStream(path))
    rejects = [row for row in rows if isinstance(row, Reject)]
    assert len(rows) == count + 2
    assert [(row.line, row.reason) for row in rejects] == [(count + 1, "not CP949; another encoding needs --encoding")]
    with pytest.raises(KosbertError, match=rf"line {count + 1}: not cp949 .*--encoding"):
        read_sentences(path)


def test_damaged_utf16_is_rejected_by_line(tmp_path):
    path = tmp_path / "a.txt"
    lines = ["비가 온다".encode("utf-16-le"), b"\x00\xd8" * 2, "눈이 온다".encode("utf-16-le")]
    path.write_bytes(codecs.BOM_UTF16_LE + b"\n\0".join(lines) + b"!")
    rows = list(SentenceStream(path))
    assert [type(row) for row in rows] == [SentenceRow, Reject, Reject]


def test_lines_of_utf16_end_only_at_line_feeds():
    text = "\u0a0a\u000a\u0a00\u000a\u0d0a\u2028끝" * 3  # bytes 0A and 00 next to each other in other characters
    for encoding in ("utf-16-le", "utf-16-be"):
        lines = [line.decode(encoding) for line in split_lines(io.BytesIO(text.encode(encoding)), encoding)]
        assert lines == re.findall("[^\n]*\n|[^\n]+$", text)


def test_the_named_encoding_is_used(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("비".encode("utf-16-be"))  # too short to decide
    assert read_sentences(path, encoding="UTF-16BE").texts == ["비"]
    path.write_bytes(encoded("비", "utf-16-be"))
    assert read_sentences(path, encoding="utf-16").texts == ["비"]
    path.write_bytes("비".encode("utf-8-sig"))
    assert read_sentences(path, encoding="utf-8-sig").texts == ["비"]


def test_column_names_in_another_encoding_than_the_named_one(tmp_path):
    (tmp_path / "a.csv").write_bytes("문장\n비\n".encode("cp949"))
    for read in (SentenceStream, read_sentences):
        with pytest.raises(KosbertError, match="line 1: .*not utf-8.*--encoding"):
            read(tmp_path / "a.csv", text_column="문장", encoding="utf-8")


@pytest.mark.parametrize("name", ["cp-949-kr", "rot13", "hex", "\0"])
def test_wrong_names_of_encodings(name):
    with pytest.raises(UsageError, match="there is no encoding"):
        check_name(name)


@pytest.mark.parametrize("name", ["utf-32", "iso2022_kr"])
def test_encodings_whose_lines_cannot_be_split(name):
    with pytest.raises(UsageError, match="convert the file to UTF-8"):
        check_name(name)


def test_published_files_keep_their_encoding(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("text\n비\n".encode("cp949"))
    assert user_format(path) == TableFormat("delimited", ",", quoting=True, encoding="cp949")
    with pytest.raises(KosbertError, match="line 2: not utf-8"):
        list(Table(path, CSV).rows())


# --- workbooks ------------------------------------------------------------------------------------------------------


def test_cells_are_those_of_a_csv_file(tmp_path):
    rows = [
        ["text", "수", None, "날짜", None],
        ["비", 3, "x", datetime(2026, 1, 2), None],
        [None, None, None, None, None],
        ["눈", 0.5, None, datetime(2026, 1, 2, 3, 4), None],
        ["해", True],
        ["달", 1, 2, 3, "많다"],
    ]
    path = write_workbook(tmp_path / "a.xlsx", {"첫째": rows, "둘째": [["text"], ["물"]]})
    assert Table(path).columns() == ["text", "수", "", "날짜"]
    table = list(Table(path).rows("reject"))
    assert [list(row.fields.values()) for row in table[:3]] == [
        ["비", "3", "x", "2026-01-02"], ["눈", "0.5", "", "2026-01-02 03:04:00"], ["해", "TRUE", "", ""],
    ]  # fmt: skip
    assert [row.line for row in table] == [2, 4, 5, 6]
    assert table[3].reason == "5 fields where 4 are expected"
    assert read_sentences(path, sheet="둘째").texts == ["물"]
    assert [row.text for row in SentenceStream(path, sheet="둘째")] == ["물"]
    with pytest.raises(UsageError, match=r"a\.xlsx has no sheet '셋째' \(--sheet\)"):
        SentenceStream(path, sheet="셋째")


def test_unusable_workbooks(tmp_path, monkeypatch):
    path = tmp_path / "a.xlsx"
    path.write_bytes(b"no workbook")
    for name, message in (("a.xls", "save it as .xlsx or CSV"), ("a.xlsx.gz", "no known ending")):
        with pytest.raises(UsageError, match=message):
            table_format(tmp_path / name)
    with pytest.raises(UsageError, match="is not a text file: omit --encoding"):
        user_format(path, encoding="cp949")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(UsageError, match=r"needs openpyxl: pip install 'kosbert\[office\]'"):
        read_file(path)
    monkeypatch.undo()
    pytest.importorskip("openpyxl")
    with pytest.raises(KosbertError, match="not a readable .xlsx workbook"):
        read_file(path)
    with pytest.raises(KosbertError, match="has no rows"):
        read_file(write_workbook(path, {"빈 시트": []}))
    (tmp_path / "a.txt").write_text("비\n", encoding="utf-8")
    with pytest.raises(UsageError, match="has no sheets: omit --sheet"):
        read_file(tmp_path / "a.txt", sheet="x")
