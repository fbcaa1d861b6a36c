"""Hits of a search: dense (by cosine), or hybrid (dense and BM25 rankings combined)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from kosbert.search.backends.base import Keys, VectorBackend, Vectors
from kosbert.search.documents import Documents
from kosbert.search.lexical import LexicalIndex

RRF_K = 60
"""Constant of reciprocal rank fusion; the paper's value, to which results are not sensitive."""


@dataclass(frozen=True)
class Hit:
    """A sentence that a search returned.

    `score` orders the hits: the cosine, or in a hybrid search the sum of 1/(60 + rank) over the two rankings. A rank is
    None where the sentence is not in that ranking.
    """

    id: str
    text: str
    metadata: dict[str, Any]
    score: float
    cosine: float
    dense_rank: int | None = None
    bm25_rank: int | None = None
    bm25_score: float | None = None


def reciprocal_rank_fusion(*rankings: Iterable[int]) -> dict[int, float]:
    """Combine rankings by the sum of 1 / (60 + rank), best first (Cormack, Clarke and Büttcher 2009).

    Ties keep the order of the first ranking.

    >>> list(reciprocal_rank_fusion([7, 8], [8, 9]))
    [8, 7, 9]
    """
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, row in enumerate(ranking, start=1):
            scores[row] = scores.get(row, 0.0) + 1 / (RRF_K + rank)
    return dict(sorted(scores.items(), key=lambda item: -item[1]))


def dense_hits(
    documents: Documents, backend: VectorBackend, vector: Vectors, k: int, allowed: Keys | None
) -> list[Hit]:
    """Return the k sentences nearest to a vector, (1, dim), among the allowed keys (None: all)."""
    keys, cosines = (neighbors[0] for neighbors in backend.search(vector, k, allowed))
    rows = documents.rows_of(keys)
    nearest = zip(rows[rows >= 0].tolist(), cosines[rows >= 0].tolist(), strict=True)
    return [
        Hit(*documents.document(row), score=cosine, cosine=cosine, dense_rank=rank)
        for rank, (row, cosine) in enumerate(nearest, start=1)
    ]


def hybrid_hits(
    documents: Documents,
    backend: VectorBackend,
    lexical: LexicalIndex,
    vector: Vectors,
    tokens: Sequence[str],
    k: int,
    allowed: Keys | None,
) -> list[Hit]:
    """Return the k best sentences of the dense and the BM25 ranking, combined by reciprocal rank fusion."""
    depth = max(50, 5 * k)  # deeper ranks hardly change the first k
    rows = documents.rows_of(backend.search(vector, depth, allowed)[0][0])
    dense_ranks = {row: rank for rank, row in enumerate(rows[rows >= 0].tolist(), start=1)}
    bm25_scores = lexical.search(tokens, depth, None if allowed is None else documents.rows_of(allowed))
    bm25_ranks = {row: rank for rank, row in enumerate(bm25_scores, start=1)}
    best = dict(islice(reciprocal_rank_fusion(dense_ranks, bm25_ranks).items(), k))
    cosines = backend.vectors(documents.keys[np.array(list(best), np.intp)]) @ vector[0]
    return [
        Hit(
            *documents.document(row), score=score, cosine=float(cosine),
            dense_rank=dense_ranks.get(row), bm25_rank=bm25_ranks.get(row), bm25_score=bm25_scores.get(row),
        )
        for (row, score), cosine in zip(best.items(), cosines, strict=True)
    ]  # fmt: skip
