"""Retrieval metrics (recall@k, MRR, nDCG@k), and a model's scores on retrieval tasks.

    task = load_task("parakqc")                          # or paraphrase_task(rows), entailment_task(rows)
    evaluate_retrieval(model, task)["dense"].metrics     # {"recall@1": …, "recall@10": …, "mrr": …, "ndcg@10": …}

Rankings are exact: every query is compared with the whole corpus. `kosbert.search.index_evaluation` has the ranker for
hybrid search and the recall of an approximate index.
"""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from kosbert import data
from kosbert.data.records import LabeledPair, LabeledSentence, Record
from kosbert.errors import UsageError, did_you_mean
from kosbert.model.batching import windows
from kosbert.model.encoder import SupportsEncode
from kosbert.model.similarity import unit
from kosbert.model.topk import nearest_rows
from kosbert.progress import ProgressCallback, ProgressEvent

Rankings: TypeAlias = list[list[int]]
"""Rows of the corpus for each query, best first."""

TASK_SPLITS = {"parakqc": "parakqc", "klue-nli": "klue-nli-dev", "kornli": "kornli-test"}
"""Retrieval tasks and the splits that they are built from."""


@dataclass(frozen=True)
class RetrievalScores:
    """Metrics averaged over queries, such as {"recall@10": 0.97}."""

    queries: int
    metrics: dict[str, float]


def recall_at_k(ranking: Sequence[Hashable], relevant: Collection[Hashable], k: int) -> float:
    """Return how many of the first k are relevant, divided by how many could be: min(k, all relevant)."""
    return len(set(ranking[:k]) & set(relevant)) / min(k, len(relevant))


def reciprocal_rank(ranking: Sequence[Hashable], relevant: Collection[Hashable]) -> float:
    """Return the reciprocal rank of the first relevant hit, 0 without one."""
    return next((1 / rank for rank, hit in enumerate(ranking, start=1) if hit in relevant), 0.0)


def ndcg_at_k(ranking: Sequence[Hashable], relevant: Collection[Hashable], k: int) -> float:
    """Return the normalized discounted cumulative gain of the first k (Järvelin and Kekäläinen 2002)."""
    discounts = 1 / np.log2(np.arange(2, k + 2))
    gain = sum(discounts[rank] for rank, hit in enumerate(ranking[:k]) if hit in relevant)
    return float(gain / discounts[: min(k, len(relevant))].sum())


def score_rankings(
    rankings: Sequence[Sequence[Hashable]], relevant: Sequence[Collection[Hashable]], ks: Sequence[int]
) -> RetrievalScores:
    """Average recall at each of `ks`, MRR, and nDCG at the largest of `ks` over queries."""
    pairs = list(zip(rankings, relevant, strict=True))
    metrics = {f"recall@{k}": float(np.mean([recall_at_k(*pair, k) for pair in pairs])) for k in ks}
    metrics["mrr"] = float(np.mean([reciprocal_rank(*pair) for pair in pairs]))
    metrics[f"ndcg@{max(ks)}"] = float(np.mean([ndcg_at_k(*pair, max(ks)) for pair in pairs]))
    return RetrievalScores(len(rankings), metrics)


@dataclass(frozen=True)
class RetrievalTask:
    """Queries, a corpus, and which of its rows are relevant.

    Args:
        queries: the sentences to search for.
        corpus: the sentences to search in; the same list as `queries` if each is searched for among the others.
        relevant: for each query, the relevant rows of the corpus.
        query_rows: for each query, its own row in the corpus, which is not a hit; -1 if it is not in the corpus.
    """

    queries: Sequence[str]
    corpus: Sequence[str]
    relevant: Sequence[Collection[int]]
    query_rows: Sequence[int]

    def without_query(self, rankings: Sequence[Sequence[int]], depth: int) -> Rankings:
        """Drop each query's own row from its ranking and cut the ranking at `depth`."""
        return [
            [row for row in ranking if row != query_row][:depth]
            for ranking, query_row in zip(rankings, self.query_rows, strict=True)
        ]


def load_task(name: str, data_dir: Path | None = None) -> RetrievalTask:
    """Load one of TASK_SPLITS: paraphrases (parakqc) or entailments (klue-nli, kornli)."""
    if name not in TASK_SPLITS:
        raise UsageError(f"there is no retrieval set {name!r}: {did_you_mean(name, TASK_SPLITS)}")
    rows = data.load(TASK_SPLITS[name], data_dir=data_dir)
    return paraphrase_task(rows) if name == "parakqc" else entailment_task(rows)


def paraphrase_task(rows: Sequence[Record]) -> RetrievalTask:
    """Search for each sentence among all others; those with the same label are relevant.

    ParaKQC: for each of 10,000 sentences, the other nine of its group.
    """
    sentences = [row for row in rows if isinstance(row, LabeledSentence)]
    groups: dict[str, set[int]] = {}
    for row, sentence in enumerate(sentences):
        groups.setdefault(sentence.label, set()).add(row)
    texts = [sentence.text for sentence in sentences]
    relevant = [groups[sentence.label] - {row} for row, sentence in enumerate(sentences)]
    return RetrievalTask(texts, texts, relevant, range(len(texts)))


def entailment_task(rows: Sequence[Record]) -> RetrievalTask:
    """Search with each premise among all hypotheses, contradictions included; those that it entails are relevant."""
    pairs = [row for row in rows if isinstance(row, LabeledPair)]
    row_of = {text: row for row, text in enumerate(dict.fromkeys(pair.sentence2 for pair in pairs))}
    entailed: dict[str, set[int]] = {}
    for pair in pairs:
        if pair.label == "entailment":
            entailed.setdefault(pair.sentence1, set()).add(row_of[pair.sentence2])
    # A hypothesis that repeats its premise is not a hit; a premise that entails nothing else is not a query.
    relevant = {premise: hypotheses - {row_of.get(premise, -1)} for premise, hypotheses in entailed.items()}
    queries = [premise for premise, hypotheses in relevant.items() if hypotheses]
    query_rows = [row_of.get(premise, -1) for premise in queries]
    return RetrievalTask(queries, list(row_of), [relevant[premise] for premise in queries], query_rows)


Ranker: TypeAlias = Callable[
    [RetrievalTask, NDArray[np.float32], NDArray[np.float32], int], Mapping[str, Sequence[Sequence[int]]]
]
"""Called with a task, unit vectors of its queries (n, dim) and of its corpus (m, dim), and k; returns at least k rows
for each query, by the name of the method."""


def rank_dense(
    task: RetrievalTask, query_vectors: NDArray[np.float32], corpus_vectors: NDArray[np.float32], k: int
) -> dict[str, Rankings]:
    """Rank the corpus by cosine similarity."""
    rows = nearest_rows(query_vectors, corpus_vectors, k + 1)[0].tolist()
    return {"dense": task.without_query(rows, k)}


def evaluate_retrieval(
    encoder: SupportsEncode,
    task: RetrievalTask,
    *,
    k: int = 10,
    ranker: Ranker = rank_dense,
    on_progress: ProgressCallback | None = None,
) -> dict[str, RetrievalScores]:
    """Encode queries and corpus, rank the corpus for each query, and score the rankings of each method."""
    corpus_vectors = _unit_vectors(encoder, task.corpus, "encode corpus", on_progress)
    if task.queries is task.corpus:
        query_vectors = corpus_vectors
    else:
        query_vectors = _unit_vectors(encoder, task.queries, "encode queries", on_progress)
    rankings = ranker(task, query_vectors, corpus_vectors, k)
    return {
        method: score_rankings([ranking[:k] for ranking in rows], task.relevant, (1, k))
        for method, rows in rankings.items()
    }


def _unit_vectors(
    encoder: SupportsEncode, texts: Sequence[str], task: str, on_progress: ProgressCallback | None
) -> NDArray[np.float32]:
    blocks: list[NDArray[np.float32]] = []
    for window in windows(texts):
        vectors = encoder.encode(window)
        if issparse(vectors):
            raise UsageError("retrieval needs dense vectors, and tfidf gives sparse ones: use a model")
        blocks.append(unit(np.asarray(vectors, np.float32)))
        if on_progress:
            on_progress(ProgressEvent(task, sum(map(len, blocks)), len(texts), "sentences"))
    return np.concatenate(blocks)
