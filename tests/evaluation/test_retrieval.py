"""Retrieval metrics against numbers computed by hand, and the tasks that are built from labeled data."""

import math

import pytest

from kosbert.data import LabeledPair, LabeledSentence
from kosbert.errors import UsageError
from kosbert.evaluation.retrieval import (
    entailment_task,
    evaluate_retrieval,
    load_task,
    ndcg_at_k,
    paraphrase_task,
    recall_at_k,
    reciprocal_rank,
    score_rankings,
)
from kosbert.model.baselines import CharacterTfidf, RandomWords


def test_metrics_match_hand_computed_values() -> None:
    ranking, relevant = ["x", "a", "y", "b"], {"a", "b", "c"}
    assert recall_at_k(ranking, relevant, 2) == 1 / 2
    assert recall_at_k(ranking, relevant, 4) == 2 / 3
    assert reciprocal_rank(ranking, relevant) == 1 / 2
    assert reciprocal_rank(["x"], relevant) == 0
    gain = 1 / math.log2(3) + 1 / math.log2(5)
    ideal_gain = 1 + 1 / math.log2(3) + 1 / math.log2(4)
    assert ndcg_at_k(ranking, relevant, 4) == pytest.approx(gain / ideal_gain)
    assert ndcg_at_k(["a", "b", "c"], relevant, 10) == pytest.approx(1)


def test_scores_are_averaged_over_queries() -> None:
    scores = score_rankings([["x", "a", "y", "b"], ["a"]], [{"a", "b", "c"}, {"a"}], (1, 4))
    assert scores.queries == 2
    assert scores.metrics["recall@1"] == 1 / 2
    assert scores.metrics["mrr"] == 3 / 4


def test_paraphrases_rank_their_group_first() -> None:
    rows = [
        LabeledSentence(f"{topic} {number}", label)
        for label, topic in zip("012", ("오늘 날씨 좋다", "배송이 너무 늦다", "책을 읽고 싶다"), strict=True)
        for number in range(4)
    ]
    events = []
    scores = evaluate_retrieval(RandomWords(), paraphrase_task(rows), k=3, on_progress=events.append)
    assert scores["dense"].queries == 12
    assert scores["dense"].metrics == pytest.approx({"recall@1": 1, "recall@3": 1, "mrr": 1, "ndcg@3": 1})
    assert [(event.done, event.total) for event in events] == [(12, 12)]


def test_premises_rank_their_entailed_hypotheses_first() -> None:
    rows = [
        LabeledPair("오늘 비가 많이 온다", "비가 많이 온다", "entailment"),
        LabeledPair("오늘 비가 많이 온다", "눈이 온다", "contradiction"),
        LabeledPair("책을 혼자 읽었다", "책을 읽었다", "entailment"),
        LabeledPair("책을 혼자 읽었다", "책을 혼자 읽었다", "entailment"),  # the premise itself does not count
        LabeledPair("차를 샀다", "돈이 많다", "neutral"),
        LabeledPair("밥을 먹었다", "밥을 먹었다", "entailment"),
    ]
    scores = evaluate_retrieval(RandomWords(), entailment_task(rows), k=2)["dense"]
    assert scores.queries == 2
    assert scores.metrics == pytest.approx({"recall@1": 1, "recall@2": 1, "mrr": 1, "ndcg@2": 1})


def test_unknown_task_and_sparse_vectors_are_usage_errors() -> None:
    with pytest.raises(UsageError, match="there is no retrieval set 'klue'"):
        load_task("klue")
    task = paraphrase_task([LabeledSentence(text, "0") for text in ("비가 온다", "비가 와요")])
    with pytest.raises(UsageError, match="needs dense vectors"):
        evaluate_retrieval(CharacterTfidf(["비가 온다"]), task)
