"""Readers: quotes, encodings, line ends, compression; a malformed row is an error with file and line."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kosbert.data.readers import (
    labeled,
    labeled_pair,
    one_file_per_class,
    reader,
    scored,
    sentence,
    sts_year,
    trec,
)
from kosbert.data.records import LabeledPair, LabeledSentence, ScoredPair, Sentence
from kosbert.data.tables import CSV, JSON, JSONL, TEXT, TSV, Table
from kosbert.errors import KosbertError

sts = reader(TSV, scored())


def write(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


def test_quotation_marks_are_text_in_tab_separated_files(tmp_path: Path) -> None:
    file = write(tmp_path / "a.tsv", 'sentence1\tsentence2\tscore\n"열린 따옴표\t닫힌"\t1.5\n"둘"\t셋\t5\n')
    assert list(sts([file])) == [ScoredPair('"열린 따옴표', '닫힌"', 1.5), ScoredPair('"둘"', "셋", 5.0)]


@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_byte_order_mark_and_line_ends(tmp_path: Path, mark: str, ending: str) -> None:
    rows = ["sentence1\tsentence2\tscore", "가\t나\t1", "다\t라\t2"]
    file = write(tmp_path / "a.tsv", mark + (ending or "\n").join(rows) + ending)
    assert list(sts([file])) == [ScoredPair("가", "나", 1.0), ScoredPair("다", "라", 2.0)]


def test_only_line_feeds_end_a_line(tmp_path: Path) -> None:
    file = write(tmp_path / "a.txt", "wait\x85 what\u2028?\nnext\n", "utf-8")
    assert [text for _, text in Table(file, TEXT).lines()] == ["wait\x85 what\u2028?", "next"]


def test_gzip_reads_like_plain(tmp_path: Path) -> None:
    file = tmp_path / "a.tsv.gz"
    file.write_bytes(gzip.compress("sentence1\tsentence2\tscore\n가\t나\t3\n".encode()))
    assert list(sts([file])) == [ScoredPair("가", "나", 3.0)]
    file.write_bytes(file.read_bytes()[:-12])
    with pytest.raises(KosbertError, match="cannot be read"):
        list(sts([file]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sentence1\tsentence2\tscore\n가\t나\t1\n가\t나\n", r"line 3: 2 fields where 3"),
        ("sentence1\tsentence2\tscore\n가\t나\t좋음\n", r"line 2: field 'score' is '좋음' where a number"),
        ("sentence1\tsentence2\tscore\n가\t나\tnan\n", r"line 2: .* finite"),
        ("sentence1\tsentence2\tscore\n가\t나\t5.1\n", r"line 2: score 5.1 is outside 0 to 5"),
        ("sentence1\tsentence2\tscores\n가\t나\t1\n", r"line 2: there is no field 'score'; did you mean scores"),
    ],
)
def test_malformed_line_names_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    file = write(tmp_path / "broken.tsv", text)
    with pytest.raises(KosbertError, match=rf"broken\.tsv, {message}"):
        list(sts([file]))


def test_wrong_bytes_name_file_and_line(tmp_path: Path) -> None:
    file = tmp_path / "a.tsv"
    file.write_bytes(b"sentence1\tsentence2\tscore\n" + "가\t나\t1\n".encode("cp949"))
    with pytest.raises(KosbertError, match="line 2: not utf-8"):
        list(sts([file]))


def test_comma_separated_quotes_and_errors(tmp_path: Path) -> None:
    read = reader(CSV, labeled("title", "topic", labels={"0": "경제", "1": "사회"}))
    file = write(tmp_path / "a.csv", 'title,topic\n"물가, 또 ""올랐다""",0\n두 줄\n')
    rows = read([file])
    assert next(rows) == LabeledSentence('물가, 또 "올랐다"', "경제")
    with pytest.raises(KosbertError, match=r"a\.csv, line 3: 1 fields where 2"):
        next(rows)
    with pytest.raises(KosbertError, match="label '7' is not one of 0, 1"):
        list(read([write(tmp_path / "b.csv", "title,topic\n가,7\n")]))


def test_comma_separated_keeps_line_feeds_inside_quotes(tmp_path: Path) -> None:
    file = write(tmp_path / "a.csv", 'text\n"첫 줄\n둘째 줄"\n끝\n')
    assert list(reader(CSV, sentence())([file])) == [Sentence("첫 줄\n둘째 줄"), Sentence("끝")]


def test_json_nested_fields_and_votes(tmp_path: Path) -> None:
    item = {"sentence1": "가", "sentence2": "나", "labels": {"label": 4.9}, "annotations": {"annotations": [5, 4]}}
    file = write(tmp_path / "a.json", json.dumps([item], ensure_ascii=False))
    read = reader(JSON, scored(score="labels.label", votes="annotations.annotations"))
    assert list(read([file])) == [ScoredPair("가", "나", 4.9, votes=(5.0, 4.0))]
    with pytest.raises(KosbertError, match="no field 'labels.real'"):
        list(reader(JSON, scored(score="labels.real"))([file]))


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "is not JSON"), ('{"a": 1}', "a list of objects"), ("[1]", "line 1: int where an object")],
)
def test_broken_json(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(KosbertError, match=message):
        list(Table(write(tmp_path / "a.json", text)).rows())


def test_json_lines(tmp_path: Path) -> None:
    text = '{"sentence1": "가", "sentence2": "나", "label": "neutral"}\n\n{"sentence1": "가"\n'
    rows = reader(JSONL, labeled_pair())([write(tmp_path / "a.jsonl", text)])
    assert next(rows) == LabeledPair("가", "나", "neutral")
    with pytest.raises(KosbertError, match="line 3: not JSON"):
        next(rows)


def test_unknown_nli_label(tmp_path: Path) -> None:
    file = write(tmp_path / "a.tsv", "sentence1\tsentence2\tlabel\n가\t나\t-\n")
    with pytest.raises(KosbertError, match="line 2: label '-' is not one of entailment, neutral, contradiction"):
        list(reader(TSV, labeled_pair())([file]))


def test_one_file_per_class_in_another_encoding(tmp_path: Path) -> None:
    bad, good = (
        write(tmp_path / "neg", "caf\xe9 .\n", "latin-1"),
        write(tmp_path / "pos", "fine\x85 yes .\n", "latin-1"),
    )
    read = one_file_per_class(("negative", "positive"), encoding="latin-1")
    assert list(read([bad, good])) == [
        LabeledSentence("café .", "negative"),
        LabeledSentence("fine\x85 yes .", "positive"),
    ]


def test_trec(tmp_path: Path) -> None:
    file = write(tmp_path / "t", "NUM:dist How far is it ?\nHUM:desc Who ?\n")
    assert list(trec([file])) == [LabeledSentence("How far is it ?", "NUM"), LabeledSentence("Who ?", "HUM")]
    with pytest.raises(KosbertError, match="line 1"):
        list(trec([write(tmp_path / "u", "no label here\n")]))


def test_sts_year_skips_pairs_without_a_score(tmp_path: Path) -> None:
    pairs = write(tmp_path / "STS.input.news.txt", "a\tb\nc\td\ne\tf\n")
    scores = write(tmp_path / "STS.gs.news.txt", "1\n\n2.5\n")
    assert list(sts_year([pairs, scores])) == [ScoredPair("a", "b", 1.0, "news"), ScoredPair("e", "f", 2.5, "news")]
    with pytest.raises(KosbertError, match="has 3 lines and"):
        list(sts_year([pairs, write(tmp_path / "short", "1\n")]))


field = st.text(st.characters(exclude_characters="\t\n\r\ufeff", exclude_categories=("Cs",)), max_size=12)


@given(st.lists(st.tuples(field, field), max_size=8))
def test_tab_separated_keeps_every_field(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]) -> None:
    file = tmp_path_factory.mktemp("rows") / "a.tsv"
    write(file, "".join(f"{first}\t{second}\n" for first, second in rows))
    parsed = [(row.text("one"), row.text("two")) for row in Table(file, replace(TSV, header=("one", "two"))).rows()]
    assert parsed == rows


def test_text_keeps_empty_lines(tmp_path: Path) -> None:
    assert [row.text("text") for row in Table(write(tmp_path / "a", "하나\n\n둘"), TEXT).rows()] == ["하나", "", "둘"]
