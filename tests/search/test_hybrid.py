"""Hybrid search: BM25 tokens, reciprocal rank fusion, explanations."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kosbert.errors import KosbertError
from kosbert.search import Index
from kosbert.search.explain import explain
from kosbert.search.hits import reciprocal_rank_fusion
from kosbert.search.lexical import LexicalIndex, analyze, bigrams

pytest.importorskip("bm25s")


def test_bigrams_stay_within_eojeols() -> None:
    assert bigrams(["배송이 늦어요! AI 글", ""]) == [["배송", "송이", "늦어", "어요", "ai", "글"], []]


def test_morphemes_exclude_particles() -> None:
    pytest.importorskip("kiwipiepy")
    first, second = analyze("morphemes", ["배송이 도착했어요", "배송을"])
    assert first[0] == second[0] == "배송"
    assert "이" not in first
    assert "을" not in second


def test_reciprocal_rank_fusion_equals_hand_computed_scores() -> None:
    assert reciprocal_rank_fusion([1, 2], [2, 3]) == pytest.approx({2: 1 / 62 + 1 / 61, 1: 1 / 61, 3: 1 / 62})
    assert list(reciprocal_rank_fusion([1, 2], [2, 1])) == [1, 2]  # a tie: the order of the first ranking
    assert reciprocal_rank_fusion() == reciprocal_rank_fusion([], []) == {}


def test_bm25_returns_only_sentences_that_share_a_token() -> None:
    lexical = LexicalIndex.build([["가", "나"], ["나", "다"], ["라"]])
    assert list(lexical.search(["가", "없"], 5)) == [0]
    assert set(lexical.search(["나"], 5)) == {0, 1}
    assert list(lexical.search(["나"], 5, np.array([1]))) == [1]
    assert lexical.search([], 5) == lexical.search(["없"], 5) == {}
    assert LexicalIndex.build([[], []]).search(["가"], 5) == {}


@pytest.mark.parametrize("analyzer", ["morphemes", "bigrams"])
def test_hybrid_search_finds_a_shared_noun_that_the_vector_misses(
    analyzer: str, tmp_path: Path, shop: list[str]
) -> None:
    if analyzer == "morphemes":
        pytest.importorskip("kiwipiepy")
    built = Index("random-words", lexical=analyzer)
    built.add(shop, metadata=[{"n": row} for row in range(6)])
    query = "배송을"  # shares a noun, but no eojeol, with the first two sentences
    directory = built.save(tmp_path / "index")
    for index in (built, Index.load(directory)):
        hits = index.search(query, k=3, hybrid=True)
        assert {hit.id for hit in hits if hit.bm25_rank} == {"0", "1"}
        assert {hit.id for hit in hits[:2]} <= {"0", "1", hits[0].id}
        for hit in hits:
            terms = [1 / (60 + rank) for rank in (hit.dense_rank, hit.bm25_rank) if rank]
            assert hit.score == pytest.approx(sum(terms))
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        assert {hit.id for hit in index.search(query, hybrid=True, where="n=1")} == {"1"}
    with Index.edit(directory) as index:
        index.delete(["0"])
        index.add(["배송을 기다려요"])
    ids = [hit.id for hit in Index.load(directory).search(query, k=2, hybrid=True)]
    assert ids[0] == "6"
    assert "0" not in ids


def test_index_can_become_empty_and_be_filled_again(tmp_path: Path) -> None:
    index = Index("random-words", lexical="bigrams")
    index.add(["글"])
    index.save(tmp_path)
    with Index.edit(tmp_path) as index:
        index.delete(["0"])
    with pytest.raises(KosbertError, match="empty"):
        Index.load(tmp_path).search("글", hybrid=True)
    with Index.edit(tmp_path) as index:
        index.add(["새 글"])
    assert Index.load(tmp_path).search("글", hybrid=True)[0].id == "1"


def test_explanation_equals_hand_computed_drops_of_the_cosine(shop: list[str]) -> None:
    encoder = Index("random-words").encoder
    (explanation,) = explain(encoder, "배송이 늦어요", ["배송이 빨라요"])
    assert [effect.word for effect in explanation.query] == ["배송이", "늦어요"]
    assert explanation.query[0].effect > 0 > explanation.query[1].effect  # only the first word is shared
    assert explanation.hit[0].effect > 0 > explanation.hit[1].effect
    vectors = encoder.encode(["배송이 늦어요", "늦어요", "배송이 빨라요"])
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    assert explanation.cosine == pytest.approx(float(vectors[0] @ vectors[2]), abs=1e-6)
    assert explanation.query[0].effect == pytest.approx(float((vectors[0] - vectors[1]) @ vectors[2]), abs=1e-6)
    explanations = explain(encoder, "글", [*shop, ""])
    assert len(explanations) == 7
    assert explanations[-1].hit == []


def test_missing_extras_are_named_with_their_install_line(tmp_path: Path) -> None:
    """Exact search works without any extra."""
    code = """
import sys
for name in ("usearch", "usearch.index", "bm25s", "kiwipiepy", "pymilvus", "milvus_lite"):
    sys.modules[name] = None
from kosbert.errors import UsageError
from kosbert.search import Index
index = Index("random-words")
index.add(["가 나", "다"])
assert index.search("가")[0].id == "0"
for options, extra in ({"backend": "hnsw"}, "search"), ({"backend": "milvus", "uri": "x.db"}, "milvus"):
    try:
        Index("random-words", **options)
    except UsageError as error:
        assert f"pip install 'kosbert[{extra}]'" in str(error), error
    else:
        raise AssertionError(options)
for analyzer in ("morphemes", "bigrams"):
    index = Index("random-words", lexical=analyzer)
    try:
        index.add(["가"])
        index.search("가", hybrid=True)
    except UsageError as error:
        assert "pip install 'kosbert[search]'" in str(error)
    else:
        raise AssertionError(analyzer)
"""
    process = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, encoding="utf-8", check=False, timeout=120
    )
    assert process.returncode == 0, process.stderr
