"""Semantic textual similarity: correlations between similarity and human scores, over the whole set at once.

    vectors = encode_pairs(model, pairs)
    eight_correlations(*vectors, gold)                   # four metrics by two coefficients, and their average
    subtasks(paired_cosine(*vectors), gold, sources)     # STS12 to STS16 as published

A correlation averaged over batches is a different number, because the sets are sorted by source; ours never is.
Numbers are raw (0.86); tables show them times 100. What is undefined is None, never NaN.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, issparse
from scipy.stats import rankdata

from kosbert.data.records import ScoredPair
from kosbert.errors import UsageError
from kosbert.model.encoder import SupportsEncode

Vectors: TypeAlias = NDArray[np.floating] | csr_matrix

METRICS = ("cosine", "euclidean", "manhattan", "dot")  # in the order of the published tables
COEFFICIENTS = ("pearson", "spearman")
CORRELATIONS = tuple(f"{metric}_{coefficient}" for metric in METRICS for coefficient in COEFFICIENTS)

_BLOCK = 4_096  # pairs at a time: their float64 copies stay in the cache


def paired_cosine(a: Vectors, b: Vectors) -> NDArray[np.float64]:
    """Cosine of the first vector with the first, the second with the second, …; 0 where a vector is all zero."""
    dot = paired_dot(a, b)
    norms = np.sqrt(paired_dot(a, a) * paired_dot(b, b))
    return np.divide(dot, norms, out=np.zeros_like(dot), where=norms > 0)


def paired_dot(a: Vectors, b: Vectors) -> NDArray[np.float64]:
    """Dot product of the first vector with the first, the second with the second, …"""
    if issparse(a):
        return np.asarray(csr_matrix(a).multiply(b).sum(axis=1), np.float64).ravel()
    return _in_blocks(a, b, lambda x, y: np.einsum("ij,ij->i", x, y))


def paired_distance(a: Vectors, b: Vectors, order: int) -> NDArray[np.float64]:
    """Manhattan (`order` 1) or Euclidean (`order` 2) distance of the first vector to the first, and so on."""
    if issparse(a):
        difference = abs(csr_matrix(a, dtype=np.float64) - csr_matrix(b, dtype=np.float64))
        sums = np.asarray(difference.power(order).sum(axis=1), np.float64).ravel()
    elif order == 1:
        sums = _in_blocks(a, b, lambda x, y: np.abs(x - y).sum(axis=1))
    else:
        sums = _in_blocks(a, b, lambda x, y: np.square(x - y).sum(axis=1))
    return sums if order == 1 else np.sqrt(sums)


def _in_blocks(a: Vectors, b: Vectors, compute: Any) -> NDArray[np.float64]:
    """Compute a number a row in float64, without a float64 copy of all vectors."""
    result = np.empty(a.shape[0], np.float64)
    for start in range(0, len(result), _BLOCK):
        rows = slice(start, start + _BLOCK)
        result[rows] = compute(np.asarray(a[rows], np.float64), np.asarray(b[rows], np.float64))
    return result


def similarity(a: Vectors, b: Vectors, metric: str = "cosine") -> NDArray[np.float64]:
    """How alike the vectors of each pair are, by one of METRICS; distances are negative, so larger is more alike."""
    if metric == "cosine":
        return paired_cosine(a, b)
    if metric == "dot":
        return paired_dot(a, b)
    return -paired_distance(a, b, {"manhattan": 1, "euclidean": 2}[metric])


def is_constant(values: NDArray[np.floating]) -> bool:
    """Whether values differ by no more than rounding, so that nothing correlates with them; true for NaN as well."""
    values = np.asarray(values, np.float64)
    if len(values) < 2:
        return True
    with np.errstate(invalid="ignore"):
        # The bound is the one below which scipy warns of a nearly constant input.
        return not bool(np.std(values) > 1e-13 * np.max(np.abs(values)))


def pearson(x: NDArray[np.floating], y: NDArray[np.floating]) -> float | None:
    """Pearson's correlation, or None where one side is constant and it is undefined."""
    if is_constant(x) or is_constant(y):
        return None
    x, y = (np.asarray(values, np.float64) - np.mean(values, dtype=np.float64) for values in (x, y))
    x, y = x / np.max(np.abs(x)), y / np.max(np.abs(y))  # squares of very large or small values leave float64
    return float(np.clip(x @ y / np.sqrt((x @ x) * (y @ y)), -1, 1))


def spearman(x: NDArray[np.floating], y: NDArray[np.floating]) -> float | None:
    """Spearman's rank correlation (ties share their mean rank), or None where it is undefined."""
    if is_constant(x) or is_constant(y):
        return None
    return pearson(rankdata(x), rankdata(y))


def correlation(coefficient: str, x: NDArray[np.floating], y: NDArray[np.floating]) -> float | None:
    """Compute `pearson` or `spearman` by name."""
    return {"pearson": pearson, "spearman": spearman}[coefficient](x, y)


def sts_metrics(a: Vectors, b: Vectors, gold: NDArray[np.floating]) -> dict[str, float | None]:
    """Give CORRELATIONS (`cosine_pearson`, `cosine_spearman`, …) and their `average`, which needs all eight."""
    scores: dict[str, float | None] = {}
    for metric in METRICS:
        values = similarity(a, b, metric)
        scores |= {f"{metric}_{name}": correlation(name, values, gold) for name in COEFFICIENTS}
    return scores | {"average": mean(scores.values())}


def mean(values: Any, weights: Sequence[float] | None = None) -> float | None:
    """Average numbers; undefined if one of them is, and where there is none."""
    values = list(values)
    return None if not values or None in values else float(np.average(values, weights=weights))


@dataclass(frozen=True)
class Part:
    """The correlations on a part of a set."""

    pairs: int
    pearson: float | None
    spearman: float | None


@dataclass(frozen=True)
class Subtasks:
    """A set by its sub-tasks, in SentEval's three ways: pooled, averaged, and averaged with the numbers of pairs.

    The three differ by several points. The tables of Sentence-BERT and SimCSE show the pooled Spearman ("all").
    """

    parts: dict[str, Part]
    all: Part
    mean: Part
    weighted_mean: Part


def subtasks(predictions: NDArray[np.floating], gold: NDArray[np.floating], sources: Sequence[str]) -> Subtasks:
    """Correlate predictions with gold scores within each source, and over all of them in three ways."""
    names = np.array(sources)
    parts = {}
    for name in dict.fromkeys(sources):
        here = names == name
        parts[name] = _part(predictions[here], gold[here])
    sizes = [part.pairs for part in parts.values()]

    def average(weights: Sequence[float] | None) -> Part:
        by_coefficient = (mean((getattr(part, each) for part in parts.values()), weights) for each in COEFFICIENTS)
        return Part(len(gold), *by_coefficient)

    return Subtasks(parts, _part(predictions, gold), average(None), average(sizes))


def _part(predictions: NDArray[np.floating], gold: NDArray[np.floating]) -> Part:
    return Part(len(gold), pearson(predictions, gold), spearman(predictions, gold))


def encode_pairs(encoder: SupportsEncode, pairs: Sequence[ScoredPair]) -> tuple[Vectors, Vectors]:
    """Encode the first and the second sentences, in one call, so that equal sentences get equal vectors."""
    vectors = encoder.encode([pair.sentence1 for pair in pairs] + [pair.sentence2 for pair in pairs])
    return vectors[: len(pairs)], vectors[len(pairs) :]


def gold_scores(pairs: Sequence[ScoredPair]) -> NDArray[np.float64]:
    """List the human scores."""
    return np.array([pair.score for pair in pairs], np.float64)


def check_vectors(a: Vectors, b: Vectors, pairs: int) -> None:
    """Refuse vectors that cannot be the two sides of so many pairs, or that hold NaN or infinity."""
    for side, vectors in (("first", a), ("second", b)):
        if vectors.ndim != 2:
            raise UsageError(f"the {side} vectors have the shape {vectors.shape}: give an array of (pairs, dimensions)")
        if vectors.shape[0] != pairs:
            raise UsageError(f"there are {vectors.shape[0]:,} {side} vectors for {pairs:,} pairs: give one a sentence")
        finite = np.isfinite(vectors.data) if issparse(vectors) else np.isfinite(vectors).all(axis=1)
        if not finite.all():
            where = "" if issparse(vectors) else f" in row {int(np.argmin(finite))}"
            raise UsageError(f"the {side} vectors hold NaN or infinity{where}: encode again, or train anew")
    if a.shape[1] != b.shape[1]:
        raise UsageError(f"vectors of {a.shape[1]} and {b.shape[1]} dimensions cannot be compared: use one model")


def score_pairs(encoder: SupportsEncode, pairs: Sequence[ScoredPair]) -> dict[str, float | None]:
    """Pearson and Spearman correlation of the cosine with the gold score, over all pairs at once."""
    cosines = paired_cosine(*encode_pairs(encoder, pairs))
    gold = gold_scores(pairs)
    return {"pearson": pearson(cosines, gold), "spearman": spearman(cosines, gold)}
