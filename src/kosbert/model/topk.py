"""Matrix products in blocks: what a plain product and a sort would give, in memory that does not grow with n × m."""

import numpy as np
from numpy.typing import NDArray

BLOCK = 8_192
"""Rows that are compared at a time: a block of products stays in the cache's reach, and below 300 MB."""


def top(similarities: NDArray[np.float32], k: int) -> NDArray[np.intp]:
    """The columns of the k largest of each row, (n, k), largest first and equal ones in the order of the columns."""
    rows, columns = similarities.shape
    k = min(k, columns)
    if k == 0:
        return np.empty((rows, 0), np.intp)
    if k == columns:
        return np.argsort(-similarities, axis=1, kind="stable")
    chosen = np.argpartition(-similarities, k - 1, axis=1)[:, :k]
    values = np.take_along_axis(similarities, chosen, axis=1)
    # Where more columns than k reach the smallest chosen value, the partition chose among equals at random.
    tied = np.count_nonzero(similarities >= values.min(axis=1, keepdims=True), axis=1) > k
    if tied.any():
        chosen[tied] = np.argsort(-similarities[tied], axis=1, kind="stable")[:, :k]
    chosen.sort(axis=1)
    values = np.take_along_axis(similarities, chosen, axis=1)
    return np.take_along_axis(chosen, np.argsort(-values, axis=1, kind="stable"), axis=1)


def nearest_rows(
    queries: NDArray[np.float32], vectors: NDArray[np.float32], k: int, *, block: int = BLOCK
) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    """The k rows of `vectors`, (m, dim), with the largest dot product for each query, (n, dim): rows and products."""
    k = min(k, len(vectors))
    places = np.empty((len(queries), k), np.intp)
    products = np.empty((len(queries), k), np.float32)
    for first in range(0, len(queries), 1_024):
        some = queries[first : first + 1_024]
        best_places = np.empty((len(some), 0), np.intp)
        best = np.empty((len(some), 0), np.float32)
        for start in range(0, len(vectors), block):
            found = some @ np.asarray(vectors[start : start + block], np.float32).T  # (some, block)
            here = top(found, k)
            # Earlier rows stand first, so that among equals the stable sort of `top` keeps them first.
            best = np.concatenate([best, np.take_along_axis(found, here, axis=1)], axis=1)
            best_places = np.concatenate([best_places, here + start], axis=1)
            order = top(best, k)
            best = np.take_along_axis(best, order, axis=1)
            best_places = np.take_along_axis(best_places, order, axis=1)
        places[first : first + 1_024], products[first : first + 1_024] = best_places, best
    return places, products
