"""The blocked ways give what comparing every pair gives, the graph nearly that."""

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
from kosbert.search.mining import most_similar, near_duplicates
from kosbert.search.mining_report import mine

WHOLE = st.integers(-3, 3).map(float)


@settings(deadline=None)
@given(st.data())
def test_pairs_equal_the_plain_way(data: st.DataObject) -> None:
    vectors = data.draw(arrays.arrays(np.float32, (data.draw(st.integers(0, 25)), 3), elements=WHOLE))
    k, block = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 9))
    plain = vectors @ vectors.T
    rows, columns = np.triu_indices(len(vectors), 1)
    every = sorted(zip(-plain[rows, columns], rows.tolist(), columns.tolist(), strict=True))[:k]
    found = most_similar(vectors, k, block=block)
    assert [(-each.cosine, each.left, each.right) for each in found] == every


@settings(deadline=None)
@given(st.data())
def test_repeats_equal_the_plain_way(data: st.DataObject) -> None:
    corners = st.sampled_from([(1, 0, 0), (0, 1, 0), (0, 0, 1), (0.6, 0.8, 0), (0.8, 0, 0.6), (0.8, 0.6, 0)])
    vectors = np.array(data.draw(st.lists(corners, max_size=25)), np.float32).reshape(-1, 3)
    threshold = data.draw(st.sampled_from([0.5, 0.7, 0.9, 1.0]))
    kept: list[int] = []
    expected = {}
    for place, vector in enumerate(vectors):
        cosines = vectors[kept] @ vector if kept else np.empty(0)
        if len(cosines) and cosines.max() >= threshold - 1e-6:
            expected[place] = cosines.max()
        else:
            kept.append(place)
    found = near_duplicates(vectors, threshold, block=data.draw(st.integers(1, 9)))
    assert {each.right: each.cosine for each in found} == pytest.approx(expected, abs=1e-6)
    assert all(each.left in kept for each in found)


def test_the_graph_finds_nearly_all() -> None:
    pytest.importorskip("usearch")
    generator = np.random.default_rng(0)
    vectors = generator.standard_normal((2_000, 32)).astype(np.float32)
    vectors[1_000:1_300] = vectors[:300] + 0.05 * generator.standard_normal((300, 32))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    exact, proposed = (most_similar(vectors, 100, exact=way) for way in (True, False))
    pairs = [{(each.left, each.right) for each in found} for found in (exact, proposed)]
    assert len(pairs[0] & pairs[1]) >= 97
    repeats = [{each.right for each in near_duplicates(vectors, 0.95, exact=way)} for way in (True, False)]
    assert len(repeats[0]) == 300
    assert len(repeats[0] & repeats[1]) >= 295
    assert repeats[1] <= repeats[0]


def test_in_a_crowd_the_graph_keeps_one() -> None:
    pytest.importorskip("usearch")
    generator = np.random.default_rng(0)
    vectors = np.ones((300, 32), np.float32) + 0.02 * generator.standard_normal((300, 32)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    assert len(near_duplicates(vectors, 0.95, exact=True)) == 299
    assert len(near_duplicates(vectors, 0.95, exact=False)) >= 280  # by neighbors alone it was 269


def test_impossible_numbers() -> None:
    with pytest.raises(UsageError, match="0 pairs"):
        most_similar(np.ones((2, 2), np.float32), 0)
    for threshold in (0, 1.2, float("nan")):
        with pytest.raises(UsageError, match="threshold"):
            near_duplicates(np.ones((2, 2), np.float32), threshold)
    assert most_similar(np.ones((1, 2), np.float32), 5) == []


ROWS = ["오늘 날씨 참 좋다", '환불 "바로" 해 주세요, 네?', "오늘  날씨 참 좋다", "오늘 날씨 참 참 좋다", "새 글"]


@pytest.mark.parametrize("ending", [".txt", ".txt.gz", ".csv", ".tsv", ".json", ".jsonl", ".jsonl.gz", ".parquet"])
def test_dedup_keeps_the_format(ending: str, tmp_path: Path) -> None:
    source, target = tmp_path / f"in{ending}", tmp_path / f"out{ending}"
    table = [{"id": place, "text": text, "n": place / 2} for place, text in enumerate(ROWS)]

    def write(path: Path, rows: list[dict]) -> None:
        kind = ending.removesuffix(".gz")
        if kind == ".parquet":
            import pyarrow.parquet

            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
            return
        with (gzip.open if ending.endswith(".gz") else open)(path, "wt", encoding="utf-8", newline="") as stream:
            if kind == ".txt":
                stream.writelines(f"{row['text']}\n" for row in rows)
            elif kind == ".csv":
                writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)
            elif kind == ".tsv":
                stream.write("id\ttext\tn\n")
                stream.writelines(f"{row['id']}\t{row['text']}\t{row['n']}\n" for row in rows)
            elif kind == ".json":
                json.dump(rows, stream, ensure_ascii=False, indent=1)
            else:
                stream.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)

    write(source, table)
    found = mine(source, threshold=0.9, dedup=target, model="random-words")
    assert found.equal == 1
    assert [each.text for each in found.dropped] == [ROWS[2], ROWS[3]]
    assert {each.kept_text for each in found.dropped} == {ROWS[0]}
    assert found.pairs[0].texts == (ROWS[0], ROWS[3])
    expected = tmp_path / f"expected{ending}"
    write(expected, [table[0], table[1], table[4]])
    if ending == ".parquet":
        import pyarrow.parquet

        assert pyarrow.parquet.read_table(target).equals(pyarrow.parquet.read_table(expected))
    else:
        read = gzip.open if ending.endswith(".gz") else open
        assert read(target, "rb").read() == read(expected, "rb").read()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in (source, target, expected))


def test_where_dedup_cannot_write(tmp_path: Path) -> None:
    source = tmp_path / "a.txt"
    source.write_text("글\n\n글\n", encoding="utf-8")
    for target, message in (
        (source, "is the file itself"),
        (tmp_path / "b.csv", "must end as a.txt does"),
        (tmp_path / "no" / "b.txt", "does not exist"),
    ):
        with pytest.raises(UsageError, match=message):
            mine(source, dedup=target, model="random-words")
    assert mine(source, dedup=tmp_path / "b.txt", model="random-words").equal == 1
    assert (tmp_path / "b.txt").read_text(encoding="utf-8") == "글\n\n"  # a row without text is not ours to drop
