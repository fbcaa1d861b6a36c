"""Semantic textual similarity: correlations between similarity and human scores, over the whole set at once.

A correlation averaged over batches is a different number, because the sets are sorted by source; ours never is.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.stats import rankdata

Vectors: TypeAlias = NDArray[np.floating] | csr_matrix


def paired_cosine(a: Vectors, b: Vectors) -> NDArray[np.float64]:
    """Cosine of the first vector with the first, the second with the second, …; 0 where a vector is all zero."""
    dot = _paired_dot(a, b)
    norms = np.sqrt(_paired_dot(a, a) * _paired_dot(b, b))
    return np.divide(dot, norms, out=np.zeros_like(dot), where=norms > 0)


def _paired_dot(a: Vectors, b: Vectors) -> NDArray[np.float64]:
    if isinstance(a, csr_matrix):
        return np.asarray(a.multiply(b).sum(axis=1), np.float64).ravel()
    dot: NDArray[np.float64] = np.multiply(a, b, dtype=np.float64).sum(axis=1)
    return dot


def pearson(x: NDArray[np.floating], y: NDArray[np.floating]) -> float | None:
    """Pearson's correlation, or None where one side is constant and it is undefined."""
    x, y = (np.asarray(v, np.float64) - np.mean(v, dtype=np.float64) for v in (x, y))
    scale = float(np.sqrt((x @ x) * (y @ y)))
    return float(np.clip(x @ y / scale, -1, 1)) if scale > 1e-12 * len(x) else None


def spearman(x: NDArray[np.floating], y: NDArray[np.floating]) -> float | None:
    """Spearman's rank correlation (ties share their mean rank), or None where it is undefined."""
    return pearson(rankdata(x), rankdata(y))


@dataclass(frozen=True)
class Interval:
    """A statistic with its bootstrap interval."""

    value: float
    low: float
    high: float


def spearman_interval(
    x: NDArray[np.floating], y: NDArray[np.floating], *, resamples: int = 2000, seed: int = 0, level: float = 0.95
) -> Interval | None:
    """Spearman's correlation with its percentile bootstrap interval over pairs, or None where it is undefined."""
    value = spearman(x, y)
    if value is None:
        return None
    generator = np.random.default_rng(seed)
    picks = generator.integers(0, len(x), (resamples, len(x)))  # (resamples, n)
    ranks = [rankdata(np.asarray(v)[picks], axis=1) for v in (x, y)]
    centred = [r - r.mean(axis=1, keepdims=True) for r in ranks]
    scale = np.sqrt((centred[0] ** 2).sum(axis=1) * (centred[1] ** 2).sum(axis=1))
    drawn = (centred[0] * centred[1]).sum(axis=1)[scale > 0] / scale[scale > 0]
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return Interval(value, float(low), float(high))
