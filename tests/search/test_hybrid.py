"""Words and meaning together, and what made them so."""

import subprocess
import sys
from pathlib import Path

import pytest

from kosbert.errors import KosbertError
from kosbert.search import Index
from kosbert.search.explain import explain
from kosbert.search.fusion import fuse
from kosbert.search.lexical import Lexical, analyze, bigrams

pytest.importorskip("bm25s")


def test_bigrams_stay_within_words() -> None:
    assert bigrams(["배송이 늦어요! AI 글", ""]) == [["배송", "송이", "늦어", "어요", "ai", "글"], []]


def test_morphemes_leave_particles_out() -> None:
    pytest.importorskip("kiwipiepy")
    first, second = analyze("morphemes", ["배송이 도착했어요", "배송을"])
    assert first[0] == second[0] == "배송"
    assert "이" not in first
    assert "을" not in second


def test_fusion_by_hand() -> None:
    assert fuse([1, 2], [2, 3]) == pytest.approx({2: 1 / 62 + 1 / 61, 1: 1 / 61, 3: 1 / 62})
    assert list(fuse([1, 2], [2, 1])) == [1, 2]  # a tie: as the first order has it
    assert fuse() == fuse([], []) == {}


def test_bm25_by_hand() -> None:
    lexical = Lexical.build([["가", "나"], ["나", "다"], ["라"]])
    assert list(lexical.best(["가", "없"], 5)) == [0]
    assert set(lexical.best(["나"], 5)) == {0, 1}
    import numpy as np

    assert list(lexical.best(["나"], 5, np.array([1]))) == [1]
    assert lexical.best([], 5) == lexical.best(["없"], 5) == {}
    assert Lexical.build([[], []]).best(["가"], 5) == {}


@pytest.mark.parametrize("words", ["morphemes", "bigrams"])
def test_words_find_what_the_vector_cannot(words: str, tmp_path: Path, shop: list[str]) -> None:
    if words == "morphemes":
        pytest.importorskip("kiwipiepy")
    index = Index("random-words", words=words)
    index.add(shop, metadata=[{"n": place} for place in range(6)])
    query = "배송을"  # shares a noun, and no whole word, with the first two
    directory = index.save(tmp_path / "index")
    for each in (index, Index.load(directory)):
        hits = each.search(query, k=3, hybrid=True)
        assert {hit.id for hit in hits if hit.words_rank} == {"0", "1"}
        assert {hit.id for hit in hits[:2]} <= {"0", "1", hits[0].id}
        for hit in hits:
            parts = [1 / (60 + rank) for rank in (hit.vector_rank, hit.words_rank) if rank]
            assert hit.score == pytest.approx(sum(parts))
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        assert {hit.id for hit in each.search(query, hybrid=True, where="n=1")} == {"1"}
    with Index.change(directory) as changed:
        changed.delete(["0"])
        changed.add(["배송을 기다려요"])
    ids = [hit.id for hit in Index.load(directory).search(query, k=2, hybrid=True)]
    assert ids[0] == "6"
    assert "0" not in ids


def test_an_index_that_becomes_empty(tmp_path: Path) -> None:
    index = Index("random-words", words="bigrams")
    index.add(["글"])
    index.save(tmp_path)
    with Index.change(tmp_path) as changed:
        changed.delete(["0"])
    with pytest.raises(KosbertError, match="empty"):
        Index.load(tmp_path).search("글", hybrid=True)
    with Index.change(tmp_path) as changed:
        changed.add(["새 글"])
    assert Index.load(tmp_path).search("글", hybrid=True)[0].id == "1"


def test_explanations_by_hand(shop: list[str]) -> None:
    encoder = Index("random-words").encoder
    (found,) = explain(encoder, "배송이 늦어요", ["배송이 빨라요"])
    assert [each.word for each in found.query] == ["배송이", "늦어요"]
    assert found.query[0].effect > 0 > found.query[1].effect  # the shared word helps, the other one hinders
    assert found.hit[0].effect > 0 > found.hit[1].effect
    vectors = encoder.encode(["배송이 늦어요", "늦어요", "배송이 빨라요"])
    import numpy as np

    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    assert found.cosine == pytest.approx(float(vectors[0] @ vectors[2]), abs=1e-6)
    assert found.query[0].effect == pytest.approx(float((vectors[0] - vectors[1]) @ vectors[2]), abs=1e-6)
    both = explain(encoder, "글", [*shop, ""])
    assert len(both) == 7
    assert both[-1].hit == []


def test_without_the_extras(tmp_path: Path) -> None:
    """Exact search needs no extra; what does is named with its install line."""
    code = """
import sys
for name in ("usearch", "usearch.index", "bm25s", "kiwipiepy", "pymilvus", "milvus_lite"):
    sys.modules[name] = None
from kosbert.errors import UsageError
from kosbert.search import Index
from kosbert.search.lexical import best_analyzer
index = Index("random-words")
index.add(["가 나", "다"])
assert index.search("가")[0].id == "0"
for settings, extra in ({"kind": "hnsw"}, "search"), ({"kind": "milvus", "address": "x.db"}, "milvus"):
    try:
        Index("random-words", **settings)
    except UsageError as error:
        assert f"pip install 'kosbert[{extra}]'" in str(error), error
    else:
        raise AssertionError(settings)
for words in ("morphemes", "bigrams"):
    index = Index("random-words", words=words)
    try:
        index.add(["가"])
        index.search("가", hybrid=True)
    except UsageError as error:
        assert "pip install 'kosbert[search]'" in str(error)
    else:
        raise AssertionError(words)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, encoding="utf-8", check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
