"""Exact top-k search by matrix products in blocks: memory does not grow with n × m."""

import numpy as np
from numpy.typing import NDArray

BLOCK = 8_192
"""Rows of `vectors` per matrix product; keeps memory below 300 MB."""
_QUERY_BLOCK = 1_024


def top(similarities: NDArray[np.float32], k: int) -> NDArray[np.intp]:
    """Return the columns of the k largest values of each row, (n, k), in descending order; ties by column."""
    rows, columns = similarities.shape
    k = min(k, columns)
    if k == 0:
        return np.empty((rows, 0), np.intp)
    if k == columns:
        return np.argsort(-similarities, axis=1, kind="stable")
    selected = np.argpartition(-similarities, k - 1, axis=1)[:, :k]
    values = np.take_along_axis(similarities, selected, axis=1)
    # If more than k columns reach the smallest selected value, the partition picked arbitrarily among equal ones.
    tied = np.count_nonzero(similarities >= values.min(axis=1, keepdims=True), axis=1) > k
    if tied.any():
        selected[tied] = np.argsort(-similarities[tied], axis=1, kind="stable")[:, :k]
    selected.sort(axis=1)
    values = np.take_along_axis(similarities, selected, axis=1)
    return np.take_along_axis(selected, np.argsort(-values, axis=1, kind="stable"), axis=1)


def nearest_rows(
    queries: NDArray[np.float32], vectors: NDArray[np.float32], k: int, *, block: int = BLOCK
) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    """Return the rows of `vectors`, (m, dim), with the k largest dot products per query, (n, k), and the products."""
    k = min(k, len(vectors))
    rows = np.empty((len(queries), k), np.intp)
    products = np.empty((len(queries), k), np.float32)
    for first in range(0, len(queries), _QUERY_BLOCK):
        batch = queries[first : first + _QUERY_BLOCK]
        best_rows = np.empty((len(batch), 0), np.intp)
        best = np.empty((len(batch), 0), np.float32)
        for start in range(0, len(vectors), block):
            scores = batch @ np.asarray(vectors[start : start + block], np.float32).T  # (batch, block)
            columns = top(scores, k)
            # Earlier rows come first, so the stable sort of `top` keeps them first among ties.
            best = np.concatenate([best, np.take_along_axis(scores, columns, axis=1)], axis=1)
            best_rows = np.concatenate([best_rows, columns + start], axis=1)
            order = top(best, k)
            best = np.take_along_axis(best, order, axis=1)
            best_rows = np.take_along_axis(best_rows, order, axis=1)
        rows[first : first + _QUERY_BLOCK], products[first : first + _QUERY_BLOCK] = best_rows, best
    return rows, products
