"""Batches in which no sentence occurs twice, for losses that use the other rows of a batch as negatives.

The result is that of sentence-transformers' `NoDuplicatesBatchSampler`, but with a fixed number of batches and in
linear time: that sampler fills one batch after the other and looks again and again at the rows it has deferred.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.integer[Any]]

_TRIES = 100  # random rows to exchange a duplicate with


class NoDuplicates:
    """Deals the rows of a data source to batches, so that no sentence is in two rows of a batch.

    First the rows are dealt like cards, row by row to the next batch, with all rows of a frequent sentence in
    succession. So these never meet. Then the few rows that share a less frequent sentence with another row of their
    batch are exchanged with random rows of other batches. A row that fits nowhere is left out of the epoch. That only
    happens if a sentence is in more rows than there are batches, or in very small data.

    Args:
        columns: sentence numbers, one column per text of a row. A sentence that is twice in one row is no duplicate.
    """

    def __init__(self, columns: Sequence[Numbers]) -> None:
        self._texts = np.stack(columns, axis=1)  # (rows, columns)
        counts = np.bincount(self._texts.ravel())
        most_frequent = counts[self._texts].argmax(axis=1)
        self._group = np.take_along_axis(self._texts, most_frequent[:, None], axis=1)[:, 0]  # (rows,)
        self._repeated: NDArray[np.bool_] = np.any(counts[self._texts] > 1, axis=1)

    def batches(self, sizes: Sequence[int], generator: np.random.Generator) -> list[Numbers]:
        """Return batches of at most these sizes, none of them empty."""
        rows = self._deal_order(len(sizes), generator)[: sum(sizes)]
        # The batch of each dealt row: one row for every batch, then a second one for every batch that takes two, …
        capacity = np.array(sizes)
        rounds = [np.flatnonzero(capacity > number) for number in range(max(sizes))]
        batch_of = np.concatenate(rounds)[: len(rows)]
        kept = _Exchange(self._texts, rows, batch_of, generator).resolve(self._duplicates(rows, batch_of))
        order = np.flatnonzero(kept)
        order = order[np.argsort(batch_of[order], kind="stable")]
        return np.split(rows[order], np.cumsum(np.bincount(batch_of[order], minlength=len(sizes)))[:-1])

    def _deal_order(self, batch_count: int, generator: np.random.Generator) -> Numbers:
        """Return the rows in random order, but those of a sentence in succession and at most one per batch."""
        rows = generator.permutation(len(self._texts))
        position = generator.permutation(int(self._group.max()) + 1)[self._group[rows]]
        rows = rows[np.argsort(position, kind="stable")]
        starts = np.flatnonzero(np.diff(self._group[rows], prepend=-1))
        sizes = np.diff(starts, append=len(rows))
        within = np.arange(len(rows)) - np.repeat(starts, sizes)
        dealt: Numbers = rows[within < batch_count]
        return dealt

    def _duplicates(self, rows: Numbers, batch_of: Numbers) -> list[int]:
        """Return the positions of rows that share a sentence with an earlier row of their batch."""
        positions = np.flatnonzero(self._repeated[rows])
        texts = self._texts[rows[positions]]  # (positions, columns)
        keys = (batch_of[positions, None] * np.int64(self._texts.max() + 1) + texts).ravel()
        order = np.argsort(keys, kind="stable")
        owners = np.repeat(positions, texts.shape[1])[order]
        same = np.flatnonzero((np.diff(keys[order]) == 0) & (np.diff(owners) > 0))
        duplicates: list[int] = np.unique(owners[same + 1]).tolist()
        return duplicates


class _Exchange:
    """Exchanges rows between batches until no duplicate is left; `rows` is changed in place."""

    def __init__(self, texts: Numbers, rows: Numbers, batch_of: Numbers, generator: np.random.Generator) -> None:
        self._texts, self._rows, self._batch_of, self._generator = texts, rows, batch_of, generator
        self._sorted = np.argsort(batch_of, kind="stable")
        self._ends = np.cumsum(np.bincount(batch_of))
        self._counts: dict[int, Counter[int]] = {}  # rows of a batch by sentence, of the batches looked at

    def resolve(self, duplicates: Sequence[int]) -> NDArray[np.bool_]:
        """Return which positions keep their row."""
        kept = np.ones(len(self._rows), np.bool_)
        budget = len(self._rows) + 100 * _TRIES  # so that hopeless data takes linear time too
        for position in duplicates:
            batch, texts = int(self._batch_of[position]), self._distinct(position)
            counts = self._of_batch(batch)
            counts.subtract(texts)
            if not any(counts[text] for text in texts):  # the other row has been exchanged
                counts.update(texts)
                continue
            partners = self._generator.integers(0, len(self._rows), max(0, min(_TRIES, budget))).tolist()
            kept[position] = any(
                kept[partner] and self._exchange(position, partner, counts, texts) for partner in partners
            )
            budget -= 1 if kept[position] else _TRIES
        return kept

    def _exchange(self, position: int, partner: int, counts: Counter[int], texts: set[int]) -> bool:
        """Exchange the rows of two positions if both then have no duplicate; `counts` is without the first one."""
        batch = int(self._batch_of[partner])
        partner_texts = self._distinct(partner)
        other = self._of_batch(batch)
        if other is counts or any(counts[text] for text in partner_texts):
            return False
        if any(other[text] > (text in partner_texts) for text in texts):
            return False
        other.subtract(partner_texts)
        other.update(texts)
        counts.update(partner_texts)
        self._rows[[position, partner]] = self._rows[[partner, position]]
        return True

    def _distinct(self, position: int) -> set[int]:
        return set(self._texts[self._rows[position]].tolist())

    def _of_batch(self, batch: int) -> Counter[int]:
        if batch not in self._counts:
            start = self._ends[batch - 1] if batch else 0
            positions = self._sorted[start : self._ends[batch]].tolist()
            self._counts[batch] = Counter(text for position in positions for text in self._distinct(position))
        return self._counts[batch]
