"""How alike two sets of vectors are; larger is more alike in every metric."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kosbert.errors import UsageError, nearest

METRICS = ("cosine", "euclidean", "manhattan", "dot")  # in the order of published STS tables
"""Euclidean and Manhattan are distances with a minus sign, as in sentence-transformers."""


def similarity_matrix(left: Any, right: Any, metric: str = "cosine") -> NDArray[np.float32]:
    """Similarity of each row of `left`, (n, dim), to each row of `right`, (m, dim): (n, m)."""
    if metric not in METRICS:
        raise UsageError(f"unknown metric {metric!r}; {nearest(metric, METRICS)}")
    first, second = _rows(left), _rows(right)
    if first.shape[1] != second.shape[1]:
        raise UsageError(
            f"vectors of {first.shape[1]} and {second.shape[1]} dimensions cannot be compared; "
            "encode both with the same model and dim"
        )
    if metric == "cosine":
        return unit(first) @ unit(second).T
    if metric == "dot":
        return first @ second.T
    from scipy.spatial.distance import cdist  # not by matrix product: that loses the small distances to rounding

    distances = cdist(first, second, "euclidean" if metric == "euclidean" else "cityblock")
    return -np.asarray(distances, np.float32)


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """The vectors with length 1, (n, dim); a zero vector stays what it is."""
    lengths: NDArray[np.float32] = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, np.maximum(lengths, 1e-12), dtype=np.float32)


def _rows(vectors: Any) -> NDArray[np.float32]:
    try:
        array = vectors.detach().cpu().numpy() if hasattr(vectors, "detach") else np.asarray(vectors)
        rows = np.array(array, dtype=np.float32, ndmin=2)
    except (TypeError, ValueError) as error:
        raise UsageError("these are not vectors of equal length; give strings or an array of shape (n, dim)") from error
    if rows.ndim != 2:
        raise UsageError(f"vectors of shape {rows.shape} are not a list of vectors; give an array (n, dim)")
    return rows
