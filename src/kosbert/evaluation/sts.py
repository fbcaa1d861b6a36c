"""Semantic textual similarity: correlation of similarities with human scores, over the whole dataset at once.

    embeddings = encode_pairs(model, pairs)
    sts_metrics(*embeddings, gold)                          # four metrics by two coefficients, and their average
    subtask_scores(paired_cosine(*embeddings), gold, sources)   # STS12 to STS16 as published

Correlations are never averaged over batches: datasets are sorted by source, so that average is a different number.
Scores are raw (0.86); tables show them times 100. An undefined score is None, never NaN.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, issparse
from scipy.stats import rankdata

from kosbert.data.records import ScoredPair
from kosbert.errors import UsageError
from kosbert.model.encoder import SupportsEncode
from kosbert.model.similarity import METRICS

Embeddings: TypeAlias = NDArray[np.floating] | csr_matrix
"""One row per sentence, dense or sparse (TF-IDF)."""

COEFFICIENTS = ("pearson", "spearman")
CORRELATIONS = tuple(f"{metric}_{coefficient}" for metric in METRICS for coefficient in COEFFICIENTS)

_BLOCK = 4_096  # pairs at a time: their float64 copies stay in the cache


def paired_cosine(a: Embeddings, b: Embeddings) -> NDArray[np.float64]:
    """Return the cosine of each row of `a` with the same row of `b`; 0 where a row is all zeros."""
    dot = paired_dot(a, b)
    norms = np.sqrt(paired_dot(a, a) * paired_dot(b, b))
    return np.divide(dot, norms, out=np.zeros_like(dot), where=norms > 0)


def paired_dot(a: Embeddings, b: Embeddings) -> NDArray[np.float64]:
    """Return the dot product of each row of `a` with the same row of `b`."""
    if issparse(a):
        return np.asarray(csr_matrix(a).multiply(b).sum(axis=1), np.float64).ravel()
    return _by_blocks(a, b, lambda x, y: np.einsum("ij,ij->i", x, y))


def paired_distance(a: Embeddings, b: Embeddings, order: int) -> NDArray[np.float64]:
    """Return the Manhattan (`order` 1) or Euclidean (`order` 2) distance of each row of `a` to the same row of `b`."""
    if issparse(a):
        difference = abs(csr_matrix(a, dtype=np.float64) - csr_matrix(b, dtype=np.float64))
        sums = np.asarray(difference.power(order).sum(axis=1), np.float64).ravel()
    elif order == 1:
        sums = _by_blocks(a, b, lambda x, y: np.abs(x - y).sum(axis=1))
    else:
        sums = _by_blocks(a, b, lambda x, y: np.square(x - y).sum(axis=1))
    return sums if order == 1 else np.sqrt(sums)


def _by_blocks(
    a: Embeddings,
    b: Embeddings,
    row_function: Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]],
) -> NDArray[np.float64]:
    """Apply a function in float64 without a float64 copy of all embeddings."""
    result = np.empty(a.shape[0], np.float64)
    for start in range(0, len(result), _BLOCK):
        rows = slice(start, start + _BLOCK)
        result[rows] = row_function(np.asarray(a[rows], np.float64), np.asarray(b[rows], np.float64))
    return result


def paired_similarity(a: Embeddings, b: Embeddings, metric: str = "cosine") -> NDArray[np.float64]:
    """Return the similarity of each pair by one of METRICS; distances are negated, so that larger is more similar."""
    if metric == "cosine":
        return paired_cosine(a, b)
    if metric == "dot":
        return paired_dot(a, b)
    return -paired_distance(a, b, {"manhattan": 1, "euclidean": 2}[metric])


def is_constant(values: NDArray[np.floating]) -> bool:
    """Return whether values differ by no more than rounding, which leaves a correlation undefined; true for NaN."""
    values = np.asarray(values, np.float64)
    if len(values) < 2:
        return True
    with np.errstate(invalid="ignore"):
        # Below this bound scipy warns of a nearly constant input.
        return not bool(np.std(values) > 1e-13 * np.max(np.abs(values)))


def pearson(x: NDArray[np.floating], y: NDArray[np.floating]) -> float | None:
    """Return Pearson's correlation, or None if a side is constant."""
    if is_constant(x) or is_constant(y):
        return None
    x, y = (np.asarray(values, np.float64) - np.mean(values, dtype=np.float64) for values in (x, y))
    x, y = x / np.max(np.abs(x)), y / np.max(np.abs(y))  # squares of very large or small values overflow float64
    return float(np.clip(x @ y / np.sqrt((x @ x) * (y @ y)), -1, 1))


def spearman(x: NDArray[np.floating], y: NDArray[np.floating]) -> float | None:
    """Return Spearman's rank correlation (ties share their mean rank), or None if a side is constant."""
    if is_constant(x) or is_constant(y):
        return None
    return pearson(rankdata(x), rankdata(y))


def correlation(coefficient: str, x: NDArray[np.floating], y: NDArray[np.floating]) -> float | None:
    """Compute `pearson` or `spearman` by name."""
    return {"pearson": pearson, "spearman": spearman}[coefficient](x, y)


def sts_metrics(a: Embeddings, b: Embeddings, gold: NDArray[np.floating]) -> dict[str, float | None]:
    """Return all CORRELATIONS (`cosine_pearson`, `cosine_spearman`, …) and their `average`.

    The average is undefined if one of the eight is.
    """
    scores: dict[str, float | None] = {}
    for metric in METRICS:
        similarities = paired_similarity(a, b, metric)
        scores |= {f"{metric}_{name}": correlation(name, similarities, gold) for name in COEFFICIENTS}
    return scores | {"average": _mean(scores.values())}


def _mean(scores: Iterable[float | None], weights: Sequence[float] | None = None) -> float | None:
    """Average scores; undefined if one of them is, or without any."""
    values: list[float] = []
    for score in scores:
        if score is None:
            return None
        values.append(score)
    return float(np.average(values, weights=weights)) if values else None


@dataclass(frozen=True)
class CorrelationScore:
    """Pearson and Spearman over some pairs; None where undefined."""

    pairs: int
    pearson: float | None
    spearman: float | None


@dataclass(frozen=True)
class SubtaskScores:
    """Scores of each subtask, and SentEval's three aggregates: pooled, averaged, averaged by number of pairs.

    The three differ by several points. The tables of Sentence-BERT and SimCSE show the pooled Spearman ("all").
    """

    by_subtask: dict[str, CorrelationScore]
    all: CorrelationScore
    mean: CorrelationScore
    weighted_mean: CorrelationScore


def subtask_scores(
    predictions: NDArray[np.floating], gold: NDArray[np.floating], sources: Sequence[str]
) -> SubtaskScores:
    """Correlate predictions with gold scores within each source, and aggregate the sources in three ways."""
    names = np.array(sources)
    scores = {name: _score(predictions[names == name], gold[names == name]) for name in dict.fromkeys(sources)}
    sizes = [score.pairs for score in scores.values()]

    def average(weights: Sequence[float] | None) -> CorrelationScore:
        return CorrelationScore(
            len(gold),
            _mean([score.pearson for score in scores.values()], weights),
            _mean([score.spearman for score in scores.values()], weights),
        )

    return SubtaskScores(scores, _score(predictions, gold), average(None), average(sizes))


def _score(predictions: NDArray[np.floating], gold: NDArray[np.floating]) -> CorrelationScore:
    return CorrelationScore(len(gold), pearson(predictions, gold), spearman(predictions, gold))


def encode_pairs(encoder: SupportsEncode, pairs: Sequence[ScoredPair]) -> tuple[Embeddings, Embeddings]:
    """Encode first and second sentences in one call, so that equal sentences get equal embeddings."""
    embeddings = encoder.encode([pair.sentence1 for pair in pairs] + [pair.sentence2 for pair in pairs])
    return embeddings[: len(pairs)], embeddings[len(pairs) :]


def gold_scores(pairs: Sequence[ScoredPair]) -> NDArray[np.float64]:
    """Return the human scores as an array."""
    return np.array([pair.score for pair in pairs], np.float64)


def check_embeddings(a: Embeddings, b: Embeddings, pairs: int) -> None:
    """Raise an error if the embeddings do not fit the number of pairs or each other, or hold NaN or infinity."""
    for side, vectors in (("first", a), ("second", b)):
        if vectors.ndim != 2:
            raise UsageError(f"the {side} vectors have the shape {vectors.shape}: give an array of (pairs, dimensions)")
        if vectors.shape[0] != pairs:
            raise UsageError(
                f"there are {vectors.shape[0]:,} {side} vectors for {pairs:,} pairs: give one per sentence"
            )
        finite = np.isfinite(vectors.data) if issparse(vectors) else np.isfinite(vectors).all(axis=1)
        if not finite.all():
            where = "" if issparse(vectors) else f" in row {int(np.argmin(finite))}"
            raise UsageError(f"the {side} vectors hold NaN or infinity{where}: encode again, or retrain the model")
    if a.shape[1] != b.shape[1]:
        raise UsageError(f"vectors of {a.shape[1]} and {b.shape[1]} dimensions cannot be compared: use one model")


def score_pairs(encoder: SupportsEncode, pairs: Sequence[ScoredPair]) -> dict[str, float | None]:
    """Return Pearson and Spearman of the cosine with the gold score, over all pairs at once."""
    cosines = paired_cosine(*encode_pairs(encoder, pairs))
    gold = gold_scores(pairs)
    return {"pearson": pearson(cosines, gold), "spearman": spearman(cosines, gold)}
