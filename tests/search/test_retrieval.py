"""Retrieval scores against numbers worked out by hand."""

import math
from pathlib import Path

import pytest

from kosbert.data import LabeledPair, LabeledSentence
from kosbert.errors import UsageError
from kosbert.model.baselines import RandomWords
from kosbert.search import Index
from kosbert.search.retrieval import (
    against_exact,
    entailments,
    ndcg,
    on_set,
    paraphrases,
    recall,
    reciprocal_rank,
    score,
)


def test_measures_by_hand() -> None:
    found, relevant = ["x", "a", "y", "b"], {"a", "b", "c"}
    assert recall(found, relevant, 2) == 1 / 2
    assert recall(found, relevant, 4) == 2 / 3
    assert reciprocal_rank(found, relevant) == 1 / 2
    assert reciprocal_rank(["x"], relevant) == 0
    gain = 1 / math.log2(3) + 1 / math.log2(5)
    best = 1 + 1 / math.log2(3) + 1 / math.log2(4)
    assert ndcg(found, relevant, 4) == pytest.approx(gain / best)
    assert ndcg(["a", "b", "c"], relevant, 10) == pytest.approx(1)
    both = score([found, ["a"]], [relevant, {"a"}], (1, 4))
    assert both.queries == 2
    assert both.measures["recall@1"] == 1 / 2
    assert both.measures["mrr"] == 3 / 4


def test_paraphrases_find_their_group() -> None:
    rows = [
        LabeledSentence(f"{topic} {place}", str(number))
        for number, topic in enumerate(("오늘 날씨 좋다", "배송이 너무 늦다", "책을 읽고 싶다"))
        for place in range(4)
    ]
    scores = paraphrases(RandomWords(), rows, k=3)
    assert scores["meaning"].measures == pytest.approx({"recall@1": 1, "recall@3": 1, "mrr": 1, "ndcg@3": 1})
    pytest.importorskip("bm25s")
    assert paraphrases(RandomWords(), rows, k=3, hybrid=True)["both"].measures["recall@3"] == 1


def test_premises_find_what_they_entail() -> None:
    rows = [
        LabeledPair("오늘 비가 많이 온다", "비가 많이 온다", "entailment"),
        LabeledPair("오늘 비가 많이 온다", "눈이 온다", "contradiction"),
        LabeledPair("책을 혼자 읽었다", "책을 읽었다", "entailment"),
        LabeledPair("책을 혼자 읽었다", "책을 혼자 읽었다", "entailment"),  # the premise itself does not count
        LabeledPair("차를 샀다", "돈이 많다", "neutral"),
        LabeledPair("밥을 먹었다", "밥을 먹었다", "entailment"),
    ]
    scores = entailments(RandomWords(), rows, k=2)["meaning"]
    assert scores.queries == 2
    assert scores.measures == pytest.approx({"recall@1": 1, "recall@2": 1, "mrr": 1, "ndcg@2": 1})
    with pytest.raises(UsageError, match="there is no retrieval set 'klue'"):
        on_set("random-words", "klue")


def test_an_index_against_exact(tmp_path: Path) -> None:
    pytest.importorskip("usearch")
    index = Index("random-words", kind="hnsw", precision="int8")
    index.add([f"{a} {b} {c}" for a in "가나다라마" for b in "바사아자차" for c in "카타파하"])
    index.save(tmp_path)
    found = against_exact(tmp_path, queries=50, k=5)
    assert found.queries == 50
    assert found.measures["recall@1"] > 0.95
