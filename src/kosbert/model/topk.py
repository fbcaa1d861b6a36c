"""Exact top-k by matrix products in blocks: memory does not grow with queries × vectors."""

import numpy as np
from numpy.typing import NDArray

BLOCK = 8_192
"""Vectors per block: the products of one block fit the cache better than a full row, and stay below 300 MB."""
_QUERY_BLOCK = 1_024


def top_k(similarities: NDArray[np.float32], k: int) -> NDArray[np.intp]:
    """Return the columns of the k largest values of each row, (n, k), largest first; ties are in column order."""
    rows, columns = similarities.shape
    k = min(k, columns)
    if k == 0:
        return np.empty((rows, 0), np.intp)
    if k == columns:
        return np.argsort(-similarities, axis=1, kind="stable")
    selected = np.argpartition(-similarities, k - 1, axis=1)[:, :k]
    values = np.take_along_axis(similarities, selected, axis=1)
    # Where more than k columns reach the smallest selected value, the partition picks an arbitrary one of the ties.
    tied = np.count_nonzero(similarities >= values.min(axis=1, keepdims=True), axis=1) > k
    if tied.any():
        selected[tied] = np.argsort(-similarities[tied], axis=1, kind="stable")[:, :k]
    selected.sort(axis=1)
    values = np.take_along_axis(similarities, selected, axis=1)
    return np.take_along_axis(selected, np.argsort(-values, axis=1, kind="stable"), axis=1)


def nearest_rows(
    queries: NDArray[np.float32], vectors: NDArray[np.float32], k: int, *, block: int = BLOCK
) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    """Return the k rows of `vectors`, (m, dim), with the largest dot products for each query, (n, dim), and those.

    Both results are (n, k), largest first; ties are in row order.
    """
    k = min(k, len(vectors))
    rows = np.empty((len(queries), k), np.intp)
    products = np.empty((len(queries), k), np.float32)
    for first in range(0, len(queries), _QUERY_BLOCK):
        query_block = queries[first : first + _QUERY_BLOCK]
        best_rows = np.empty((len(query_block), 0), np.intp)
        best_products = np.empty((len(query_block), 0), np.float32)
        for start in range(0, len(vectors), block):
            block_products = query_block @ np.asarray(vectors[start : start + block], np.float32).T  # (queries, block)
            columns = top_k(block_products, k)
            # Earlier rows come first, so the stable sort of `top_k` keeps them first among ties.
            best_products = np.concatenate([best_products, np.take_along_axis(block_products, columns, axis=1)], axis=1)
            best_rows = np.concatenate([best_rows, columns + start], axis=1)
            order = top_k(best_products, k)
            best_products = np.take_along_axis(best_products, order, axis=1)
            best_rows = np.take_along_axis(best_rows, order, axis=1)
        rows[first : first + _QUERY_BLOCK], products[first : first + _QUERY_BLOCK] = best_rows, best_products
    return rows, products
