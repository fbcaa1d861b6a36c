"""Similarity of embeddings: a matrix, or pairwise. Larger means more similar in every metric."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kosbert.errors import UsageError, did_you_mean

METRICS = ("cosine", "euclidean", "manhattan", "dot")  # in the order of published STS tables
"""Euclidean and Manhattan are negative distances, as in sentence-transformers."""


def similarity_matrix(left: Any, right: Any, metric: str = "cosine") -> NDArray[np.float32]:
    """Return the similarity of each row of `left`, (n, dim), to each row of `right`, (m, dim): (n, m)."""
    rows, columns = _comparable(left, right, metric)
    if metric == "cosine":
        return unit(rows) @ unit(columns).T
    if metric == "dot":
        return rows @ columns.T
    from scipy.spatial.distance import cdist  # a matrix product would lose small distances to rounding

    distances = cdist(rows, columns, "euclidean" if metric == "euclidean" else "cityblock")
    return -np.asarray(distances, np.float32)


def pairwise_similarity(left: Any, right: Any, metric: str = "cosine") -> NDArray[np.float32]:
    """Return the similarity of each row of `left`, (n, dim), to the same row of `right`, (n, dim): (n,)."""
    first, second = _comparable(left, right, metric)
    if len(first) != len(second):
        raise UsageError(f"{len(first)} and {len(second)} embeddings are not pairs; give as many on both sides")
    if metric == "cosine":
        first, second = unit(first), unit(second)
    if metric in ("cosine", "dot"):
        return np.asarray(np.einsum("ij,ij->i", first, second), np.float32)
    return np.asarray(-np.linalg.norm(first - second, 2 if metric == "euclidean" else 1, axis=1), np.float32)


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the vectors scaled to length 1, (n, dim); zero vectors stay zero."""
    lengths: NDArray[np.float32] = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, np.maximum(lengths, 1e-12), dtype=np.float32)


def _comparable(left: Any, right: Any, metric: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    if metric not in METRICS:
        raise UsageError(f"unknown metric {metric!r}; {did_you_mean(metric, METRICS)}")
    first, second = _as_matrix(left), _as_matrix(right)
    if first.shape[1] != second.shape[1]:
        raise UsageError(
            f"vectors of {first.shape[1]} and {second.shape[1]} dimensions cannot be compared; "
            "encode both with the same model and truncate_dim"
        )
    return first, second


def _as_matrix(vectors: Any) -> NDArray[np.float32]:
    try:
        if isinstance(vectors, list) and vectors and hasattr(vectors[0], "detach"):
            vectors = [vector.detach().cpu().numpy() for vector in vectors]
        array = vectors.detach().cpu().numpy() if hasattr(vectors, "detach") else np.asarray(vectors)
        matrix = np.array(array, dtype=np.float32, ndmin=2)
    except (TypeError, ValueError) as error:
        raise UsageError("these are not vectors of equal length; give strings or an array of shape (n, dim)") from error
    if matrix.ndim != 2:
        raise UsageError(f"vectors of shape {matrix.shape} are not a list of vectors; give an array (n, dim)")
    return matrix
