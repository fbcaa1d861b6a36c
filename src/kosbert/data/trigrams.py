"""Near-duplicate texts by their character trigrams, found exactly: no sketch, no hash that could miss one."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Integers = NDArray[np.integer[Any]]

CANDIDATES = 4_000_000  # compared at once, so that sets made from one template fit into memory too


class Vocabulary:
    """A quick look at which texts can be near to any indexed one at all; most cannot, and their sets are never built.

    A near text has `near` of its trigrams in the index. Both sides of that are bounded without a sort: indexed trigrams
    are counted with repetitions, in a table of hashes where a collision only makes one more; and n different characters
    mean at least n - 2 different trigrams, because each trigram after the first brings at most one new character.
    """

    def __init__(self, indexes: Iterable["TrigramIndex"], near: float) -> None:
        self.near = near
        self.table = np.zeros(1 << 24, dtype=np.bool_)
        for index in indexes:
            self.table[self._slots(index.vocabulary)] = True

    def covers(self, keys: list[str]) -> list[int]:
        """The numbers of the keys that may be near to an indexed one."""
        rows, trigrams = _pack(keys)
        covered = np.bincount(rows[self.table[self._slots(trigrams)]], minlength=len(keys))
        fewest = np.fromiter((len(set(key)) - 2 for key in keys), dtype=np.int64, count=len(keys))
        likely: list[int] = np.flatnonzero(covered >= _needed(fewest, self.near)).tolist()
        return likely

    def _slots(self, trigrams: Integers) -> Integers:
        slots: Integers = (trigrams.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)
        return slots


class TrigramIndex:
    """All pairs of texts whose trigram sets have a Jaccard similarity of at least `near`, by prefix filtering.

    |a∩b| ≥ near·|a∪b| means |a∩b| ≥ near·|a|: all but `|a| - ceil(near·|a|)` of a's trigrams are in b. Order all
    trigrams by rarity. Then among the rarest `|a| - ceil(near·|a|) + 1` of a and those of b, at least one is shared
    (Chaudhuri, Ganti and Kaushik 2006; Bayardo, Ma and Srikant 2007). Joining on the rare ones only leaves few
    candidates, and each candidate's similarity is then computed from the whole sets.
    """

    def __init__(self, keys: list[str], near: float) -> None:
        self.near = near
        self.vocabulary, rows, columns = trigrams_of(keys)
        order = np.argsort(np.bincount(columns), kind="stable")
        self.rank = np.empty_like(order)  # of each trigram of the vocabulary; 0 is the rarest
        self.rank[order] = np.arange(len(order))
        self.sizes = np.bincount(rows)
        self.matrix = self._matrix(rows, self.rank[columns], len(keys))  # (texts, vocabulary)
        self.rarest = self._rarest(self.matrix, self.sizes).T.tocsr()  # (vocabulary, texts)

    def matches(self, values: Integers, rows: Integers, columns: Integers) -> Iterator[tuple[int, int, float]]:
        """Yield the number of a key, that of a near text of the index, and their similarity; see `trigrams_of`."""
        sizes = np.bincount(rows)  # every key has a trigram, so this is as long as the keys
        places = np.minimum(np.searchsorted(self.vocabulary, values), len(self.vocabulary) - 1)
        known = (self.vocabulary[places] == values)[columns]
        # Most texts end here: too many of their trigrams are nowhere in the index.
        possible = np.bincount(rows[known], minlength=len(sizes)) >= _needed(sizes, self.near)
        kept = known & possible[rows]
        numbers = np.flatnonzero(possible)
        rows = (np.cumsum(possible) - 1)[rows[kept]]
        sizes = sizes[numbers]
        matrix = self._matrix(rows, self.rank[places[columns[kept]]], len(numbers))  # (possible, vocabulary)
        rarest = self._rarest(matrix, sizes)
        # Candidates up to and with each row, at most: (possible,)
        work = np.cumsum(rarest @ np.diff(self.rarest.indptr).astype(np.int64))
        start = 0
        while start < len(numbers):
            done = work[start - 1] if start else 0
            stop = max(start + 1, int(np.searchsorted(work, done + CANDIDATES, side="right")))
            found = (rarest[start:stop] @ self.rarest).tocoo()
            ours, theirs = found.row + start, found.col
            smaller, larger = np.minimum(sizes[ours], self.sizes[theirs]), np.maximum(sizes[ours], self.sizes[theirs])
            likely = smaller >= _needed(larger, self.near)
            ours, theirs = ours[likely], theirs[likely]
            shared = matrix[ours].multiply(self.matrix[theirs]).sum(axis=1)
            similarity = shared / (sizes[ours] + self.sizes[theirs] - shared)
            near = similarity >= self.near
            yield from zip(numbers[ours[near]].tolist(), theirs[near].tolist(), similarity[near].tolist(), strict=True)
            start = stop

    def _matrix(self, rows: Integers, ranks: Integers, count: int) -> Any:
        pointers = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=count))])
        shape = (count, len(self.vocabulary))
        matrix = sparse.csr_array((np.ones(len(rows), dtype=np.int32), ranks, pointers), shape=shape)
        matrix.sort_indices()  # the rarest first
        return matrix

    def _rarest(self, matrix: Any, sizes: Integers) -> Any:
        """Keep the prefix of each row. Trigrams outside the vocabulary are rarer than all: they use up part of it."""
        inside = np.diff(matrix.indptr)
        length = np.maximum(inside - _needed(sizes, self.near) + 1, 0)
        position = np.arange(matrix.nnz) - np.repeat(matrix.indptr[:-1], inside)
        kept = position < np.repeat(length, inside)
        pointers = np.concatenate([[0], np.cumsum(length)])
        return sparse.csr_array((matrix.data[kept], matrix.indices[kept], pointers), shape=matrix.shape)


def _needed(sizes: Integers, near: float) -> Integers:
    """The fewest trigrams that a near text must share with a text of so many; rounding errs to the safe side."""
    needed: Integers = np.maximum(np.ceil(near * sizes - 1e-6), 1).astype(np.int64)
    return needed


def trigrams_of(keys: list[str]) -> tuple[Integers, Integers, Integers]:
    """The distinct trigrams in order, and each key's own set as (row, place in that list), by row."""
    rows, trigrams = _pack(keys)
    values, places = np.unique(trigrams, return_inverse=True)
    cells = np.sort(rows * len(values) + places)
    # A trigram that a key repeats counts once. (np.unique gives the same; since numpy 2.3 it hashes, 10 times slower.)
    cells = cells[np.diff(cells, prepend=-1) > 0]
    rows, places = np.divmod(cells, max(len(values), 1))
    return values, rows, places


def _pack(keys: list[str]) -> tuple[Integers, Integers]:
    """The trigrams of every key as (row, trigram), in the order of the text.

    A key of fewer than three characters is one trigram, filled up with a character that no key has: it is near only to
    itself. Three code points of 21 bits fit into one integer, so different trigrams are different integers.
    """
    padded = [key.ljust(3, "\n") for key in keys]
    lengths = np.fromiter(map(len, padded), dtype=np.int64, count=len(padded)) - 2  # trigrams a key
    codes = np.frombuffer("".join(padded).encode("utf-32-le"), dtype="<u4").astype(np.int64)
    rows = np.repeat(np.arange(len(padded)), lengths)
    starts = np.arange(len(rows)) + 2 * rows  # each key before this one has two more characters than trigrams
    return rows, codes[starts] << 42 | codes[starts + 1] << 21 | codes[starts + 2]
