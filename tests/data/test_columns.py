"""Rows as columns: the fast reader of plain files equals `Table`, and the fingerprint identifies the content."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kosbert.data import columns as columns_module
from kosbert.data import plain_files
from kosbert.data.columns import Columns, SentenceArray, read_columns
from kosbert.data.loading import read_records
from kosbert.data.plain_files import read_cells
from kosbert.data.records import LabeledPair, LabeledSentence, ScoredPair, Sentence, Triplet, sentences_of
from kosbert.data.tables import TEXT, TSV, Table
from kosbert.errors import KosbertError, UsageError


def rows_of(columns: Columns) -> list[tuple]:
    """Return kind, texts, label and score of every row."""
    rows = []
    for part in columns.parts:
        labels = [None] * len(part) if part.labels is None else [part.label_names[code] for code in part.labels]
        scores = [None] * len(part) if part.scores is None else part.scores.tolist()
        texts = zip(*(columns.sentences.take(column) for column in part.texts), strict=True)
        rows += [(part.kind, *row) for row in zip(texts, labels, scores, strict=True)]
    return rows


def rows_of_records(records) -> list[tuple]:
    return [(type(row), sentences_of(row), getattr(row, "label", None), getattr(row, "score", None)) for row in records]


# Everything that could be read in two ways: quotes, line ends, Unicode line ends, a byte order mark, broken UTF-8.
cells = st.text('가나a" \r\u2028\u0085\ufeff\0', max_size=4).map(str.encode) | st.just(b"\xff")
lines = st.lists(cells, min_size=1, max_size=3).map(b"\t".join) | st.tuples(cells, cells).map(b"\t".join)
contents = st.tuples(
    st.sampled_from([b"", b"\xef\xbb\xbf"]),
    st.sampled_from([b"one\ttwo", b"one\ttwo\r", b"two\tone", b"one", b"one\tone", b""]),
    st.lists(lines, max_size=8),
    st.sampled_from([b"\n", b"\r\n"]),
    st.sampled_from([b"", b"\n", b"\r", b"\n\n"]),
).map(lambda parts: parts[0] + parts[3].join([parts[1], *parts[2]]) + parts[4])


def read_plainly(path, format, names):
    try:
        return [[row.text(name) for row in Table(path, format).rows()] for name in names]
    except KosbertError:
        return None


@pytest.mark.parametrize(("format", "names"), [(TSV, ["two", "one"]), (TSV, ["one"]), (TEXT, ["text"])])
@pytest.mark.parametrize("block", [1, 7, 1 << 21])
@given(content=contents)
def test_plain_files_are_read_as_by_table(tmp_path_factory, format, names, block, content):
    path = tmp_path_factory.getbasetemp() / "plain.tsv"
    path.write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain_files, "_BLOCK", block)
        blocks = read_cells(path, format, names)
    if blocks is not None:  # else `read_columns` uses `Table`
        columns = [[text for arrays in blocks for text in arrays[i].to_pylist()] for i in range(len(names))]
        assert columns == read_plainly(path, format, names)


def test_ordinary_files_are_read_without_table(tmp_path, monkeypatch):
    """The test above would also pass if nothing was read the fast way."""
    path = tmp_path / "nli.tsv.gz"
    text = 'sentence1\tid\tsentence2\tlabel\r\n"가\t1\t나\tentailment\r\n다\t2\t\tneutral'
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + text.encode()))
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("가\n\n나\u2028다\n", encoding="utf-8")
    expected = rows_of_records(read_records([str(path), str(corpus)]))
    monkeypatch.setattr(columns_module, "_blocks_of_records", None)
    assert rows_of(read_columns([str(path), str(corpus)])) == expected
    assert len(expected) == 5


KORNLI = "sentence1\tsentence2\tgold_label\n가\t나\tentailment\n가\t다\tneutral\n"


@pytest.mark.parametrize(
    ("added", "message"),
    [
        ("가\t나\n", r"xnli\.dev\.ko\.tsv, line 4: 2 fields where 3 are expected"),
        ("가\t나\tmaybe\n", r"xnli\.dev\.ko\.tsv, line 4: label 'maybe' is not one of entailment"),
        ("\n", r"xnli\.dev\.ko\.tsv, line 4: 1 fields where 3 are expected"),
        ("가\t\udcff\tneutral\n", r"xnli\.dev\.ko\.tsv, line 4: not utf-8"),
        ("", "has 2 rows but kornli-dev has 2,490"),
    ],
)
def test_errors_name_file_and_line_as_those_of_read_records(tmp_path, added, message):
    (tmp_path / "kornli").mkdir()
    (tmp_path / "kornli" / "xnli.dev.ko.tsv").write_bytes((KORNLI + added).encode("utf-8", "surrogateescape"))
    for read in (read_columns, read_records):
        with pytest.raises(KosbertError, match=message) as caught:
            read("kornli-dev", data_dir=tmp_path)
        assert type(caught.value) is KosbertError


@pytest.mark.parametrize("reference", ["sample-sts-dev", "sample-nli-dev"])
def test_splits_equal_their_records(reference):
    assert rows_of(read_columns(reference)) == rows_of_records(read_records(reference))


def test_errors_of_names_and_files_are_those_of_read_records(tmp_path):
    with pytest.raises(UsageError, match=r"there is no file b\.tsv: give a path that exists"):
        read_columns("b.tsv")
    (tmp_path / "empty.txt").write_text("", encoding="utf-8")
    with pytest.raises(KosbertError, match="has no rows: give a file with at least one"):
        read_columns(str(tmp_path / "empty.txt"))


RECORDS = [
    *(LabeledPair("가", "나", "neutral"), LabeledPair("가", "다", "entailment"), Sentence("라"), Sentence("가")),
    *(Triplet("가", "나", "다"), ScoredPair("가", "나", 2.5), LabeledSentence("마", "2"), LabeledPair("바", "가", "-")),
]


@pytest.mark.parametrize("block", [1, 2, 50_000])
def test_records_of_any_kinds_keep_their_order(monkeypatch, block):
    monkeypatch.setattr(columns_module, "_BLOCK", block)
    columns = Columns.from_records(RECORDS)
    assert rows_of(columns) == rows_of_records(RECORDS)
    assert len(columns) == 8
    assert list(columns.texts()) == [text for row in RECORDS for text in sentences_of(row)]
    assert sorted(columns.sentences) == list("가나다라마바")
    assert columns.fingerprint() == {
        "rows": 8,
        "sha256": "3b993587feb8a59c5ec6f9356081e661079d4ce93e85e049418d4151509bf29d",
    }


def test_fingerprint_identifies_texts_labels_scores_and_their_order():
    variants = [
        RECORDS, RECORDS[1:], RECORDS[::-1], [], [LabeledPair("나", "가", "neutral"), *RECORDS[1:]],
        [LabeledPair("가", "나", "-"), *RECORDS[1:]], [*RECORDS[:5], ScoredPair("가", "나", 2.6), *RECORDS[6:]],
        [LabeledPair("가 ", "나", "neutral"), *RECORDS[1:]],
    ]  # fmt: skip
    assert len({Columns.from_records(records).fingerprint()["sha256"] for records in variants}) == len(variants)
    votes = [*RECORDS[:5], ScoredPair("가", "나", 2.5, "news", (2, 3)), *RECORDS[6:]]  # affects no result
    assert Columns.from_records(votes).fingerprint() == Columns.from_records(RECORDS).fingerprint()


def test_fingerprint_does_not_depend_on_the_file_format(tmp_path: Path):
    plain, quoted = tmp_path / "a.tsv", tmp_path / "b.csv"
    plain.write_text("sentence1\tsentence2\tlabel\n가\t나\tx\n나\t다\ty\n", encoding="utf-8")
    quoted.write_text('label,sentence1,sentence2\nx,"가",나\ny,나,다\n', encoding="utf-8")
    assert read_columns(str(plain)).fingerprint() == read_columns(str(quoted)).fingerprint()


def test_sentences_behave_like_a_list_of_strings():
    sentences = SentenceArray.of(["가", " 나나", "다", "가"])
    taken = sentences.take(np.array([3, 1, 1]))
    assert (list(sentences), sentences[1], sentences[-1], sentences[1:3]) == (
        ["가", " 나나", "다", "가"],
        " 나나",
        "가",
        [" 나나", "다"],
    )
    assert (list(taken), taken[2], taken[:2], len(taken)) == (["가", " 나나", " 나나"], " 나나", ["가", " 나나"], 3)
    assert list(taken.take(np.array([1]))) == [" 나나"]
    assert taken.characters().tolist() == [1, 3, 3]
    distinct, numbers = taken.stripped().distinct()
    assert (list(distinct), numbers.tolist()) == (["가", "나나"], [0, 1, 1])


def test_stripped_is_str_strip():
    spaces = [chr(code) for code in range(0x3100) if chr(code).isspace() or code in (0x200B, 0xFEFF, 0)]
    texts = [f"{space}가{space}나{space}" for space in spaces]
    assert list(SentenceArray.of(texts).stripped()) == [text.strip() for text in texts]
