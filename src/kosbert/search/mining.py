"""Mine the most similar pairs and near-duplicates among n vectors without an n × n matrix.

Up to 100,000 vectors every pair is compared, in blocks. Beyond that an HNSW graph proposes candidates.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kosbert.errors import UsageError
from kosbert.progress import ProgressCallback, ProgressEvent
from kosbert.search.backends.base import Vectors

EXACT_LIMIT = 100_000
BLOCK_SIZE = 2_048
NEIGHBORS = 32
"""Candidates per vector that the HNSW graph proposes."""

PairColumns = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]
"""Pairs as three columns: first row, second row, cosine."""


@dataclass(frozen=True)
class SimilarPair:
    """Two sentences by row number, `first` < `second`."""

    first: int
    second: int
    cosine: float


def most_similar_pairs(
    vectors: Vectors,
    k: int,
    *,
    block_size: int = BLOCK_SIZE,
    exact: bool | None = None,
    on_progress: ProgressCallback | None = None,
) -> list[SimilarPair]:
    """Return the k most similar pairs of unit vectors, (n, dim), best first; ties are in row order.

    Args:
        vectors: one row per sentence.
        k: number of pairs.
        block_size: rows that are compared at a time.
        exact: compare every pair, or use an HNSW graph; by default every pair up to 100,000 vectors.
        on_progress: called with the number of rows that are done.
    """
    if k < 1:
        raise UsageError(f"{k} pairs are impossible: ask for 1 or more")
    best: PairColumns = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))
    for candidates in _candidate_pairs(vectors, k, block_size, _is_exact(vectors, exact), on_progress):
        first, second = np.concatenate([best[0], candidates[0]]), np.concatenate([best[1], candidates[1]])
        cosines = np.concatenate([best[2], candidates[2]])
        order = np.lexsort((second, first, -cosines))[:k]
        best = first[order], second[order], cosines[order]
    return [SimilarPair(int(first), int(second), float(cosine)) for first, second, cosine in zip(*best, strict=True)]


def _is_exact(vectors: Vectors, exact: bool | None) -> bool:
    return len(vectors) <= EXACT_LIMIT if exact is None else exact


def _candidate_pairs(
    vectors: Vectors, k: int, block_size: int, exact: bool, on_progress: ProgressCallback | None
) -> Iterator[PairColumns]:
    if exact:
        yield from _exact_pairs(vectors, k, block_size, on_progress)
        return
    for rows, neighbors, cosines in _graph_neighbors(vectors, "similar pairs", on_progress):
        first, second = np.repeat(rows, neighbors.shape[1]), neighbors.ravel()
        once = first < second  # each pair once; also drops padding (-1) and the row itself
        yield first[once], second[once], cosines.ravel()[once]


def _exact_pairs(
    vectors: Vectors, k: int, block_size: int, on_progress: ProgressCallback | None
) -> Iterator[PairColumns]:
    """Yield for each pair of blocks the pairs that may be among the k best of all."""
    threshold = np.float32(-np.inf)  # a lower bound of the k-th best cosine
    for start in range(0, len(vectors), block_size):
        for other_start in range(start, len(vectors), block_size):
            cosines = vectors[start : start + block_size] @ vectors[other_start : other_start + block_size].T
            if start == other_start:
                cosines[np.tri(len(cosines), dtype=bool)] = -np.inf  # each pair once, and no row with itself
            row_best = cosines.max(axis=1)
            if len(row_best) >= k:  # k rows have a pair at least this good
                threshold = max(threshold, np.partition(row_best, -k)[-k])
            rows = np.flatnonzero((row_best >= threshold) & (row_best > -np.inf))
            candidates = cosines[rows]
            first, second = np.nonzero((candidates >= threshold) & (candidates > -np.inf))
            values = candidates[first, second]
            if len(values) > k:
                threshold = max(threshold, np.partition(values, -k)[-k])
                keep = np.flatnonzero(values >= threshold)
                first, second, values = first[keep], second[keep], values[keep]
            yield rows[first] + start, second + other_start, values
        _report(on_progress, "similar pairs", start + block_size, len(vectors))


def _graph_neighbors(
    vectors: Vectors, task: str, on_progress: ProgressCallback | None
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]]:
    """Yield blocks of rows with their neighbors in an HNSW graph, (rows, NEIGHBORS), and the cosines."""
    from kosbert.search.backends.hnsw import HnswBackend

    graph = HnswBackend(vectors.shape[1])
    graph.add(np.arange(len(vectors)), vectors)
    for start in range(0, len(vectors), BLOCK_SIZE):
        rows = np.arange(start, min(start + BLOCK_SIZE, len(vectors)))
        neighbors, cosines = graph.search(vectors[rows], NEIGHBORS, None)
        yield rows, neighbors, cosines
        _report(on_progress, task, start + BLOCK_SIZE, len(vectors))


def _report(on_progress: ProgressCallback | None, task: str, done: int, total: int) -> None:
    if on_progress:
        on_progress(ProgressEvent(task, min(done, total), total, "sentences"))


def near_duplicates(
    vectors: Vectors,
    threshold: float,
    *,
    block_size: int = BLOCK_SIZE,
    exact: bool | None = None,
    on_progress: ProgressCallback | None = None,
) -> list[SimilarPair]:
    """Return each vector that duplicates an earlier kept one: `first` is kept, `second` is its duplicate.

    The first of several duplicates is kept. A duplicate is always within the threshold of a kept vector (the nearest
    one is returned), so a chain of small steps does not remove vectors that are far from its start.
    """
    if not 0 < threshold <= 1:
        raise UsageError(f"a threshold of {threshold:g} is impossible: give a cosine above 0, at most 1, such as 0.95")
    threshold -= 1e-6  # rounding: the cosine of equal vectors may be slightly below 1
    if _is_exact(vectors, exact):
        return list(_exact_duplicates(vectors, threshold, block_size, on_progress))
    kept_row = np.arange(len(vectors))  # the kept vector that a row duplicates; the row itself if it is kept
    duplicates = []
    for rows, neighbors, _ in _graph_neighbors(vectors, "near-duplicates", on_progress):
        for row, candidates in zip(rows.tolist(), neighbors, strict=True):
            # In a dense region all neighbors may be duplicates: compare with the vectors that they duplicate.
            kept = np.unique(kept_row[candidates[(candidates >= 0) & (candidates < row)]])
            cosines = vectors[kept] @ vectors[row]
            if len(kept) and cosines.max() >= threshold:
                best = int(cosines.argmax())
                duplicates.append(SimilarPair(int(kept[best]), row, float(cosines[best])))
                kept_row[row] = kept[best]
    return duplicates


def _exact_duplicates(
    vectors: Vectors, threshold: float, block_size: int, on_progress: ProgressCallback | None
) -> Iterator[SimilarPair]:
    kept = np.empty(0, np.int64)
    for start in range(0, len(vectors), block_size):
        block = vectors[start : start + block_size]
        best, nearest = np.full(len(block), -np.inf, np.float32), np.full(len(block), -1, np.int64)
        for kept_start in range(0, len(kept), block_size):
            kept_block = kept[kept_start : kept_start + block_size]
            cosines = block @ vectors[kept_block].T
            columns = cosines.argmax(axis=1)
            values = cosines[np.arange(len(block)), columns]
            closer = values > best
            best[closer], nearest[closer] = values[closer], kept_block[columns[closer]]
        within_block = block @ block.T
        new: list[int] = []  # rows of this block that are kept
        for row in range(len(block)):
            if new:
                column = int(np.argmax(within_block[row, new]))
                if within_block[row, new[column]] > best[row]:
                    best[row], nearest[row] = within_block[row, new[column]], start + new[column]
            if best[row] >= threshold:
                yield SimilarPair(int(nearest[row]), start + row, float(best[row]))
            else:
                new.append(row)
        kept = np.concatenate([kept, np.array(new, np.int64) + start])
        _report(on_progress, "near-duplicates", start + block_size, len(vectors))
