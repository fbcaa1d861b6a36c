"""Recall of an index against exact search, and the ranker for hybrid search."""

from pathlib import Path

import pytest

from kosbert.data import LabeledSentence
from kosbert.evaluation.retrieval import evaluate_retrieval, paraphrase_task
from kosbert.model.baselines import RandomWords
from kosbert.search import Index
from kosbert.search.index_evaluation import against_exact, rank_hybrid


def test_hnsw_index_recalls_what_exact_search_returns(tmp_path: Path) -> None:
    pytest.importorskip("usearch")
    index = Index("random-words", backend="hnsw", precision="int8")
    index.add([f"{a} {b} {c}" for a in "가나다라마" for b in "바사아자차" for c in "카타파하"])
    index.save(tmp_path)
    scores = against_exact(tmp_path, queries=50, k=5)
    assert scores.queries == 50
    assert scores.metrics["recall@1"] > 0.95


def test_hybrid_ranker_scores_three_methods() -> None:
    pytest.importorskip("bm25s")
    topics = ("오늘 날씨 좋다", "배송이 너무 늦다", "책을 읽고 싶다")
    rows = [LabeledSentence(f"{topic} {number}", topic) for topic in topics for number in range(4)]
    scores = evaluate_retrieval(RandomWords(), paraphrase_task(rows), k=3, ranker=rank_hybrid)
    assert list(scores) == ["dense", "bm25", "hybrid"]
    assert scores["hybrid"].metrics["recall@3"] == 1
