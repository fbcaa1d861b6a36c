"""The most similar pairs among n sentences, and which say nearly the same, without ever holding n × n numbers.

Up to 100,000 vectors every pair is compared, in blocks; beyond, an HNSW graph proposes the near ones of each.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kosbert.errors import UsageError
from kosbert.search.backends.base import Vectors

EXACT_UP_TO = 100_000
BLOCK = 2_048
NEIGHBORS = 32
"""Near ones that the graph proposes for a vector."""

Candidates = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]
"""Pairs as three columns: the earlier place, the later place, the cosine."""


@dataclass(frozen=True)
class Pair:
    """Two sentences by their places, the earlier one first."""

    left: int
    right: int
    cosine: float


def most_similar(vectors: Vectors, k: int, *, block: int = BLOCK, exact: bool | None = None) -> list[Pair]:
    """The k most similar pairs of unit vectors, (n, dim), most similar first, equal ones in the order of their places.

    Args:
        vectors: one row a sentence.
        k: how many pairs.
        block: rows that are compared at a time.
        exact: compare every pair, or ask a graph; by default as the number of vectors says.
    """
    if k < 1:
        raise UsageError(f"{k} pairs are impossible: ask for 1 or more")
    best: Candidates = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))
    for candidates in _pairs(vectors, k, block, exact):
        lefts, rights = np.concatenate([best[0], candidates[0]]), np.concatenate([best[1], candidates[1]])
        cosines = np.concatenate([best[2], candidates[2]])
        order = np.lexsort((rights, lefts, -cosines))[:k]
        best = lefts[order], rights[order], cosines[order]
    return [Pair(int(left), int(right), float(cosine)) for left, right, cosine in zip(*best, strict=True)]


def _pairs(vectors: Vectors, k: int, block: int, exact: bool | None) -> Iterator[Candidates]:
    if exact if exact is not None else len(vectors) <= EXACT_UP_TO:
        yield from _every_pair(vectors, k, block)
        return
    for places, neighbors, cosines in _proposed(vectors):
        left, right = np.minimum(places[:, None], neighbors).ravel(), np.maximum(places[:, None], neighbors).ravel()
        once = (neighbors >= 0).ravel() & (left == np.repeat(places, neighbors.shape[1])) & (left < right)
        yield left[once], right[once], cosines.ravel()[once]


def _every_pair(vectors: Vectors, k: int, block: int) -> Iterator[Candidates]:
    """Of each two blocks the pairs that may be among the k best of all."""
    bar = np.float32(-np.inf)  # what a pair has to reach
    for first in range(0, len(vectors), block):
        for second in range(first, len(vectors), block):
            products = vectors[first : first + block] @ vectors[second : second + block].T  # (block, block)
            if first == second:
                products[np.tri(len(products), dtype=bool)] = -np.inf  # each pair once, and none with itself
            highest = products.max(axis=1)
            if len(highest) >= k:  # k rows have a pair that reaches this
                bar = max(bar, np.partition(highest, -k)[-k])
            rows = np.flatnonzero((highest >= bar) & (highest > -np.inf))
            some = products[rows]
            places, columns = np.nonzero((some >= bar) & (some > -np.inf))
            cosines = some[places, columns]
            if len(cosines) > k:
                bar = max(bar, np.partition(cosines, -k)[-k])
                near = np.flatnonzero(cosines >= bar)
                places, columns, cosines = places[near], columns[near], cosines[near]
            yield rows[places] + first, columns + second, cosines


def _proposed(vectors: Vectors) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]]:
    """Some places at a time, with the near ones of each, (places, neighbors), and their cosines."""
    from kosbert.search.backends.hnsw import HnswStore

    graph = HnswStore(vectors.shape[1])
    graph.add(np.arange(len(vectors)), vectors)
    for start in range(0, len(vectors), BLOCK):
        places = np.arange(start, min(start + BLOCK, len(vectors)))
        neighbors, cosines = graph.nearest(vectors[places], NEIGHBORS, None)
        yield places, neighbors, cosines


def near_duplicates(vectors: Vectors, threshold: float, *, block: int = BLOCK, exact: bool | None = None) -> list[Pair]:
    """Every vector with an earlier one that is kept and at least so near; `left` is kept, `right` repeats it.

    What is kept depends on the order alone: the first of a kind stays. Whatever repeats does so of something that is
    kept, so that a chain of small steps does not swallow what is far from its beginning. Of several kept ones the
    nearest counts.
    """
    if not 0 < threshold <= 1:
        raise UsageError(f"a threshold of {threshold:g} is impossible: give a cosine above 0, at most 1, such as 0.95")
    threshold -= 1e-6  # equal sentences have a cosine of 1 but for rounding
    if exact if exact is not None else len(vectors) <= EXACT_UP_TO:
        return list(_repeats(vectors, threshold, block))
    first = np.arange(len(vectors))  # what a place repeats, itself where it is kept
    found = []
    for places, neighbors, _ in _proposed(vectors):
        for place, others in zip(places.tolist(), neighbors, strict=True):
            # In a crowd all neighbors may have been dropped: then what they repeat is near.
            known = np.unique(first[others[(others >= 0) & (others < place)]])
            nearness = vectors[known] @ vectors[place]
            if len(known) and nearness.max() >= threshold:
                which = int(nearness.argmax())
                found.append(Pair(int(known[which]), place, float(nearness[which])))
                first[place] = known[which]
    return found


def _repeats(vectors: Vectors, threshold: float, block: int) -> Iterator[Pair]:
    kept = np.empty(0, np.int64)
    for start in range(0, len(vectors), block):
        here = vectors[start : start + block]
        best, nearest = np.full(len(here), -np.inf, np.float32), np.full(len(here), -1, np.int64)
        for first in range(0, len(kept), block):
            some = kept[first : first + block]
            products = here @ vectors[some].T
            which = products.argmax(axis=1)
            values = products[np.arange(len(here)), which]
            closer = values > best
            best[closer], nearest[closer] = values[closer], some[which[closer]]
        among = here @ here.T
        new: list[int] = []
        for row in range(len(here)):
            if new:
                which = int(np.argmax(among[row, new]))
                if among[row, new[which]] > best[row]:
                    best[row], nearest[row] = among[row, new[which]], start + new[which]
            if best[row] >= threshold:
                yield Pair(int(nearest[row]), start + row, float(best[row]))
            else:
                new.append(row)
        kept = np.concatenate([kept, np.array(new, np.int64) + start])
