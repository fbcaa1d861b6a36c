"""Exact search for near-duplicate texts by character trigrams: no sketch or hash that could miss one."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Integers = NDArray[np.integer[Any]]

CANDIDATES = 4_000_000  # compared at once, so that texts from one template also fit into memory


class TrigramPrefilter:
    """Fast test which texts can be near to any indexed text; most cannot, and their trigram sets are never built.

    A near text has a share of at least `near` of its trigrams in the index. Both counts are bounded without sorting.
    Indexed trigrams are counted with repetitions in a hash table, where a collision can only increase the count. And n
    distinct characters mean at least n - 2 distinct trigrams, because each trigram after the first adds at most one
    new character.
    """

    def __init__(self, indexes: Iterable["TrigramIndex"], near: float) -> None:
        self.near = near
        self.table = np.zeros(1 << 24, dtype=np.bool_)
        for index in indexes:
            self.table[self._slots(index.vocabulary)] = True

    def candidates(self, keys: list[str]) -> list[int]:
        """Return the indices of the keys that may be near to an indexed text."""
        rows, trigrams = _pack(keys)
        indexed = np.bincount(rows[self.table[self._slots(trigrams)]], minlength=len(keys))
        min_trigrams = np.fromiter((len(set(key)) - 2 for key in keys), dtype=np.int64, count=len(keys))
        candidates: list[int] = np.flatnonzero(indexed >= _min_shared(min_trigrams, self.near)).tolist()
        return candidates

    def _slots(self, trigrams: Integers) -> Integers:
        slots: Integers = (trigrams.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)
        return slots


class TrigramIndex:
    """Finds all texts whose trigram sets have a Jaccard similarity of at least `near`, by prefix filtering.

    |a∩b| ≥ near·|a∪b| means |a∩b| ≥ near·|a|: all but `|a| - ceil(near·|a|)` of a's trigrams are in b. Order all
    trigrams by rarity. Then among the rarest `|a| - ceil(near·|a|) + 1` of a and those of b, at least one is shared
    (Chaudhuri, Ganti and Kaushik 2006; Bayardo, Ma and Srikant 2007). Joining on the rare ones leaves few candidates,
    and the similarity of each candidate is then computed from the complete sets.
    """

    def __init__(self, keys: list[str], near: float) -> None:
        self.near = near
        self.vocabulary, rows, columns = trigrams_of(keys)
        order = np.argsort(np.bincount(columns), kind="stable")
        self.rank = np.empty_like(order)  # rarity rank of each trigram of the vocabulary; 0 is the rarest
        self.rank[order] = np.arange(len(order))
        self.sizes = np.bincount(rows)
        self.matrix = self._matrix(rows, self.rank[columns], len(keys))  # (texts, vocabulary)
        self.rarest = self._rarest(self.matrix, self.sizes).T.tocsr()  # (vocabulary, texts)

    def matches(self, values: Integers, rows: Integers, columns: Integers) -> Iterator[tuple[int, int, float]]:
        """Yield (index of a key, index of a near text, similarity); the arguments are from `trigrams_of`."""
        sizes = np.bincount(rows)  # (keys,), because every key has a trigram
        positions = np.minimum(np.searchsorted(self.vocabulary, values), len(self.vocabulary) - 1)
        in_vocabulary = (self.vocabulary[positions] == values)[columns]
        # Most texts are dropped here: too many of their trigrams are not in the index.
        possible = np.bincount(rows[in_vocabulary], minlength=len(sizes)) >= _min_shared(sizes, self.near)
        kept = in_vocabulary & possible[rows]
        keys = np.flatnonzero(possible)
        rows = (np.cumsum(possible) - 1)[rows[kept]]
        sizes = sizes[keys]
        matrix = self._matrix(rows, self.rank[positions[columns[kept]]], len(keys))  # (possible, vocabulary)
        rarest = self._rarest(matrix, sizes)
        # Upper bound of the candidates up to and including each row: (possible,)
        work = np.cumsum(rarest @ np.diff(self.rarest.indptr).astype(np.int64))
        start = 0
        while start < len(keys):
            done = work[start - 1] if start else 0
            stop = max(start + 1, int(np.searchsorted(work, done + CANDIDATES, side="right")))
            candidates = (rarest[start:stop] @ self.rarest).tocoo()
            left, right = candidates.row + start, candidates.col
            smaller, larger = np.minimum(sizes[left], self.sizes[right]), np.maximum(sizes[left], self.sizes[right])
            similar_size = smaller >= _min_shared(larger, self.near)
            left, right = left[similar_size], right[similar_size]
            shared = matrix[left].multiply(self.matrix[right]).sum(axis=1)
            similarity = shared / (sizes[left] + self.sizes[right] - shared)
            near = similarity >= self.near
            yield from zip(keys[left[near]].tolist(), right[near].tolist(), similarity[near].tolist(), strict=True)
            start = stop

    def _matrix(self, rows: Integers, ranks: Integers, count: int) -> Any:
        pointers = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=count))])
        shape = (count, len(self.vocabulary))
        matrix = sparse.csr_array((np.ones(len(rows), dtype=np.int32), ranks, pointers), shape=shape)
        matrix.sort_indices()  # the rarest first
        return matrix

    def _rarest(self, matrix: Any, sizes: Integers) -> Any:
        """Keep the prefix of each row. Trigrams outside the vocabulary count as the rarest and use up part of it."""
        inside = np.diff(matrix.indptr)
        length = np.maximum(inside - _min_shared(sizes, self.near) + 1, 0)
        position = np.arange(matrix.nnz) - np.repeat(matrix.indptr[:-1], inside)
        kept = position < np.repeat(length, inside)
        pointers = np.concatenate([[0], np.cumsum(length)])
        return sparse.csr_array((matrix.data[kept], matrix.indices[kept], pointers), shape=matrix.shape)


def _min_shared(sizes: Integers, near: float) -> Integers:
    """Return how many trigrams a near text must share with texts of these sizes; rounded to the safe side."""
    counts: Integers = np.maximum(np.ceil(near * sizes - 1e-6), 1).astype(np.int64)
    return counts


def trigrams_of(keys: list[str]) -> tuple[Integers, Integers, Integers]:
    """Return the sorted distinct trigrams, and the set of each key as (row, column in that list), sorted by row."""
    rows, trigrams = _pack(keys)
    values, columns = np.unique(trigrams, return_inverse=True)
    cells = np.sort(rows * len(values) + columns)
    # Count a repeated trigram once. (np.unique gives the same, but since numpy 2.3 it hashes and is 10 times slower.)
    cells = cells[np.diff(cells, prepend=-1) > 0]
    rows, columns = np.divmod(cells, max(len(values), 1))
    return values, rows, columns


def _pack(keys: list[str]) -> tuple[Integers, Integers]:
    """Return the trigrams of all keys as (row, trigram), in the order of the text.

    A key of fewer than three characters is one trigram, padded with a character that no key has, so it is near only to
    itself. Three code points of 21 bits fit into one integer, so different trigrams are different integers.
    """
    padded = [key.ljust(3, "\n") for key in keys]
    lengths = np.fromiter(map(len, padded), dtype=np.int64, count=len(padded)) - 2  # trigrams per key
    codes = np.frombuffer("".join(padded).encode("utf-32-le"), dtype="<u4").astype(np.int64)
    rows = np.repeat(np.arange(len(padded)), lengths)
    starts = np.arange(len(rows)) + 2 * rows  # every earlier key has two more characters than trigrams
    return rows, codes[starts] << 42 | codes[starts + 1] << 21 | codes[starts + 2]
