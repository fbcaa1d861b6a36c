"""Mining in blocks equals comparing every pair; the HNSW graph comes close."""

import csv
import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from kosbert.errors import UsageError
from kosbert.progress import ProgressEvent
from kosbert.search.mining import most_similar_pairs, near_duplicates
from kosbert.search.mining_report import mine

INTEGERS = st.integers(-3, 3).map(float)  # exact products, so ties are ties in both implementations


@settings(deadline=None)
@given(st.data())
def test_similar_pairs_in_blocks_equal_a_full_sort(data: st.DataObject) -> None:
    vectors = data.draw(arrays.arrays(np.float32, (data.draw(st.integers(0, 25)), 3), elements=INTEGERS))
    k, block_size = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 9))
    products = vectors @ vectors.T
    first, second = np.triu_indices(len(vectors), 1)
    expected = sorted(zip(-products[first, second], first.tolist(), second.tolist(), strict=True))[:k]
    pairs = most_similar_pairs(vectors, k, block_size=block_size)
    assert [(-pair.cosine, pair.first, pair.second) for pair in pairs] == expected


@settings(deadline=None)
@given(st.data())
def test_duplicates_in_blocks_equal_a_greedy_scan(data: st.DataObject) -> None:
    directions = st.sampled_from([(1, 0, 0), (0, 1, 0), (0, 0, 1), (0.6, 0.8, 0), (0.8, 0, 0.6), (0.8, 0.6, 0)])
    vectors = np.array(data.draw(st.lists(directions, max_size=25)), np.float32).reshape(-1, 3)
    threshold = data.draw(st.sampled_from([0.5, 0.7, 0.9, 1.0]))
    kept: list[int] = []
    expected = {}
    for row, vector in enumerate(vectors):
        cosines = vectors[kept] @ vector if kept else np.empty(0)
        if len(cosines) and cosines.max() >= threshold - 1e-6:
            expected[row] = cosines.max()
        else:
            kept.append(row)
    duplicates = near_duplicates(vectors, threshold, block_size=data.draw(st.integers(1, 9)))
    assert {pair.second: pair.cosine for pair in duplicates} == pytest.approx(expected, abs=1e-6)
    assert all(pair.first in kept for pair in duplicates)


def test_graph_finds_nearly_all_pairs_and_duplicates() -> None:
    pytest.importorskip("usearch")
    generator = np.random.default_rng(0)
    vectors = generator.standard_normal((2_000, 32)).astype(np.float32)
    vectors[1_000:1_300] = vectors[:300] + 0.05 * generator.standard_normal((300, 32))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    exact_pairs, graph_pairs = (
        {(pair.first, pair.second) for pair in most_similar_pairs(vectors, 100, exact=exact)} for exact in (True, False)
    )
    assert len(exact_pairs & graph_pairs) >= 97
    exact_duplicates, graph_duplicates = (
        {pair.second for pair in near_duplicates(vectors, 0.95, exact=exact)} for exact in (True, False)
    )
    assert len(exact_duplicates) == 300
    assert len(exact_duplicates & graph_duplicates) >= 295
    assert graph_duplicates <= exact_duplicates


def test_graph_keeps_one_of_many_near_duplicates() -> None:
    pytest.importorskip("usearch")
    generator = np.random.default_rng(0)
    vectors = np.ones((300, 32), np.float32) + 0.02 * generator.standard_normal((300, 32)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    assert len(near_duplicates(vectors, 0.95, exact=True)) == 299
    assert len(near_duplicates(vectors, 0.95, exact=False)) >= 280  # 269 if only direct neighbors are compared


def test_impossible_arguments_are_an_error() -> None:
    with pytest.raises(UsageError, match="0 pairs"):
        most_similar_pairs(np.ones((2, 2), np.float32), 0)
    for threshold in (0, 1.2, float("nan")):
        with pytest.raises(UsageError, match="threshold"):
            near_duplicates(np.ones((2, 2), np.float32), threshold)
    assert most_similar_pairs(np.ones((1, 2), np.float32), 5) == []


TEXTS = ["오늘 날씨 참 좋다", '환불 "바로" 해 주세요, 네?', "오늘  날씨 참 좋다", "오늘 날씨 참 참 좋다", "새 글"]


def write_table(path: Path, rows: list[dict]) -> None:
    kind = path.name.removesuffix(".gz").partition(".")[2]
    if kind == "parquet":
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
        return
    with (gzip.open if path.suffix == ".gz" else open)(path, "wt", encoding="utf-8", newline="") as stream:
        if kind == "txt":
            stream.writelines(f"{row['text']}\n" for row in rows)
        elif kind == "csv":
            writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        elif kind == "tsv":
            stream.write("id\ttext\tn\n")
            stream.writelines(f"{row['id']}\t{row['text']}\t{row['n']}\n" for row in rows)
        elif kind == "json":
            json.dump(rows, stream, ensure_ascii=False, indent=1)
        else:
            stream.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


@pytest.mark.parametrize("suffix", [".txt", ".txt.gz", ".csv", ".tsv", ".json", ".jsonl", ".jsonl.gz", ".parquet"])
def test_dedup_keeps_the_format_and_the_other_rows(suffix: str, tmp_path: Path) -> None:
    source, target, expected = (tmp_path / f"{name}{suffix}" for name in ("in", "out", "expected"))
    rows = [{"id": number, "text": text, "n": number / 2} for number, text in enumerate(TEXTS)]
    write_table(source, rows)
    events: list[ProgressEvent] = []
    report = mine(source, threshold=0.9, dedup=target, model="random-words", on_progress=events.append)
    assert report.exact_duplicates == 1
    assert [duplicate.text for duplicate in report.duplicates] == [TEXTS[2], TEXTS[3]]
    assert {duplicate.kept_text for duplicate in report.duplicates} == {TEXTS[0]}
    assert report.pairs[0].texts == (TEXTS[0], TEXTS[3])
    assert list(dict.fromkeys(event.task for event in events)) == ["encode", "near-duplicates", "similar pairs"]
    write_table(expected, [rows[0], rows[1], rows[4]])
    if suffix == ".parquet":
        import pyarrow.parquet

        assert pyarrow.parquet.read_table(target).equals(pyarrow.parquet.read_table(expected))
    else:
        read = gzip.open if suffix.endswith(".gz") else open
        assert read(target, "rb").read() == read(expected, "rb").read()
    assert sorted(tmp_path.iterdir()) == sorted([source, target, expected])


def test_dedup_refuses_an_unsuitable_target(tmp_path: Path) -> None:
    source = tmp_path / "a.txt"
    source.write_text("글\n\n글\n", encoding="utf-8")
    for target, message in (
        (source, "is the file itself"),
        (tmp_path / "b.csv", "must end as a.txt does"),
        (tmp_path / "no" / "b.txt", "does not exist"),
    ):
        with pytest.raises(UsageError, match=message):
            mine(source, dedup=target, model="random-words")
    assert mine(source, dedup=tmp_path / "b.txt", model="random-words").exact_duplicates == 1
    assert (tmp_path / "b.txt").read_text(encoding="utf-8") == "글\n\n"  # a row without text is kept
