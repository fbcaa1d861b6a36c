"""What a search gives: sentences with their scores, by meaning alone or by meaning and common words."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from kosbert.search.backends.base import Keys, Vectors, VectorStore
from kosbert.search.documents import Documents
from kosbert.search.fusion import fuse
from kosbert.search.lexical import Lexical


@dataclass(frozen=True)
class Hit:
    """A sentence that was found; `score` orders the hits, and is the cosine unless the search was hybrid."""

    id: str
    text: str
    metadata: dict[str, Any]
    score: float
    cosine: float
    vector_rank: int | None = None
    words_rank: int | None = None
    words_score: float | None = None


def hits_by_meaning(
    documents: Documents, store: VectorStore, vector: Vectors, k: int, allowed: Keys | None
) -> list[Hit]:
    """The k sentences nearest to a vector, (1, dim), among the allowed keys, all if None."""
    keys, cosines = (rows[0] for rows in store.nearest(vector, k, allowed))
    places = documents.places(keys)
    found = [(place, cosine) for place, cosine in zip(places.tolist(), cosines.tolist(), strict=True) if place >= 0]
    return [
        Hit(*documents.row(place), score=cosine, cosine=cosine, vector_rank=rank)
        for rank, (place, cosine) in enumerate(found, start=1)
    ]


def hits_by_both(
    documents: Documents,
    store: VectorStore,
    lexical: Lexical,
    vector: Vectors,
    words: Sequence[str],
    k: int,
    allowed: Keys | None,
) -> list[Hit]:
    """The k best of the nearest to a vector and those that share words, fused by their ranks."""
    depth = max(50, 5 * k)  # deeper ranks hardly change what comes first
    nearest = documents.places(store.nearest(vector, depth, allowed)[0][0])
    ranks = {place: rank for rank, place in enumerate(nearest[nearest >= 0].tolist(), start=1)}
    scores = lexical.best(words, depth, None if allowed is None else documents.places(allowed))
    by_words = {place: rank for rank, place in enumerate(scores, start=1)}
    best = dict(islice(fuse(ranks, by_words).items(), k))
    cosines = store.vectors(documents.keys[np.array(list(best), np.intp)]) @ vector[0]
    return [
        Hit(
            *documents.row(place), score=score, cosine=float(cosine),
            vector_rank=ranks.get(place), words_rank=by_words.get(place), words_score=scores.get(place),
        )
        for (place, score), cosine in zip(best.items(), cosines, strict=True)
    ]  # fmt: skip
