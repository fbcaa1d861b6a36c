"""How alike two sets of vectors are; larger is more alike in every metric."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from kosbert.errors import UsageError, nearest

METRICS = ("cosine", "dot", "euclidean", "manhattan")
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
        result = functional.normalize(first, dim=1) @ functional.normalize(second, dim=1).T
    elif metric == "dot":
        result = first @ second.T
    elif metric == "euclidean":
        # Not by matrix product: that loses the small distances, which matter most, to rounding.
        result = -torch.cdist(first, second, compute_mode="donot_use_mm_for_euclid_dist")
    else:
        result = -torch.cdist(first, second, p=1.0)
    return result.numpy()


def _rows(vectors: Any) -> torch.Tensor:
    try:
        array = vectors.detach().cpu().numpy() if isinstance(vectors, torch.Tensor) else np.asarray(vectors)
        rows = torch.from_numpy(np.array(array, dtype=np.float32, ndmin=2))
    except (TypeError, ValueError) as error:
        raise UsageError("these are not vectors of equal length; give strings or an array of shape (n, dim)") from error
    if rows.ndim != 2:
        raise UsageError(f"vectors of shape {tuple(rows.shape)} are not a list of vectors; give an array (n, dim)")
    return rows
