"""Evaluate search itself: recall of an index against exact search, and rankings by BM25 and hybrid search."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kosbert.evaluation.retrieval import Rankings, RetrievalScores, RetrievalTask, rank_dense, score_rankings
from kosbert.search.encoding import unit_vectors
from kosbert.search.hits import reciprocal_rank_fusion
from kosbert.search.index import Index
from kosbert.search.lexical import LexicalIndex, analyze, default_analyzer


def against_exact(directory: Path, *, queries: int = 1_000, k: int = 10, seed: int = 0) -> RetrievalScores:
    """Score an index against exact search, with some of its own sentences as queries.

    Exact search compares the model's float32 vectors, so the loss by int8 counts as well.
    """
    index = Index.load(directory)
    texts = index.texts()
    exact = Index(index.encoder)
    exact.add(texts, ids=index.ids())
    rows = np.random.default_rng(seed).choice(len(texts), min(queries, len(texts)), replace=False)
    vectors = unit_vectors(index.encoder, [texts[row] for row in rows])
    rankings, exact_rankings = index.query(vectors, k)[0], exact.query(vectors, k)[0]
    index.close()
    return score_rankings(rankings, exact_rankings, (1, k))


def rank_hybrid(
    task: RetrievalTask, query_vectors: NDArray[np.float32], corpus_vectors: NDArray[np.float32], k: int
) -> dict[str, Rankings]:
    """Rank the corpus by cosine, by BM25, and by both: a `Ranker` for `evaluate_retrieval`."""
    depth = 5 * k  # deeper ranks hardly change the first k
    dense = rank_dense(task, query_vectors, corpus_vectors, depth)["dense"]
    analyzer = default_analyzer()
    tokens = analyze(analyzer, task.corpus)
    query_tokens = tokens if task.queries is task.corpus else analyze(analyzer, task.queries)
    index = LexicalIndex.build(tokens)
    bm25 = task.without_query([list(index.search(query, depth + 1)) for query in query_tokens], depth)
    hybrid = [list(reciprocal_rank_fusion(*rankings)) for rankings in zip(dense, bm25, strict=True)]
    return {"dense": dense, "bm25": bm25, "hybrid": hybrid}
