"""Batch sampler: which rows form which step. It depends only on the seed, so a run can resume at any step exactly."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kosbert.errors import UsageError
from kosbert.training.no_duplicates import NoDuplicates

_BATCHES_PER_BUCKET = 64  # sorted by length together: enough for equal lengths, few enough to stay random


@dataclass(frozen=True)
class Batch:
    """The rows of one step, all from one data source."""

    source: int
    rows: NDArray[np.integer[Any]]


@dataclass(frozen=True)
class BatchSampler:
    """All batches of a stage.

    Args:
        lengths: for each source, the number of tokens of each row (all columns).
        batch_sizes: for each source, the rows per batch.
        seed: the same seed gives the same batches.
        epochs: passes over all sources; may be a fraction. Alternative to `steps`.
        steps: number of batches.
        group_by_length: put rows of similar length into a batch: less padding, or packed batches of even size.
        no_duplicates: for each source, its columns of sentence numbers: no sentence occurs in two rows of a batch (see
            `NoDuplicates`). Cannot be combined with `group_by_length`.
        world_size: every batch is cut to a multiple of it, so that all ranks get equal shares.
    """

    lengths: Sequence[NDArray[np.integer[Any]]]
    batch_sizes: Sequence[int]
    seed: int
    epochs: float | None = None
    steps: int | None = None
    group_by_length: bool = False
    no_duplicates: Sequence[Sequence[NDArray[np.integer[Any]]]] | None = None
    world_size: int = 1

    def __post_init__(self) -> None:
        if not self.steps_per_epoch:
            raise UsageError(
                f"there are fewer rows than processes ({self.world_size}): start fewer processes or add rows"
            )

    @cached_property
    def steps_per_epoch(self) -> int:
        """Batches in one pass over all sources."""
        sources = zip(self.lengths, self.batch_sizes, strict=True)
        return sum(len(self._boundaries(len(lengths), size)) for lengths, size in sources)

    @cached_property
    def total_steps(self) -> int:
        """Batches of the stage."""
        return self.steps or max(1, round((self.epochs or 1) * self.steps_per_epoch))

    def from_step(self, step: int) -> Iterator[Batch]:
        """Yield the batches from a step (counted from 0) to the end."""
        epoch, skip = divmod(step, self.steps_per_epoch)
        while step < self.total_steps:
            for batch in self._epoch(epoch)[skip : skip + self.total_steps - step]:
                yield batch
                step += 1
            epoch, skip = epoch + 1, 0

    def _epoch(self, epoch: int) -> list[Batch]:
        """Return the batches of one epoch, with the sources mixed."""
        generator = np.random.default_rng([self.seed, epoch])
        batches = []
        for source in range(len(self.lengths)):
            rows = self._without_duplicates if self.no_duplicates else self._random_order
            batches += [Batch(source, batch) for batch in rows(source, generator)]
        return [batches[index] for index in generator.permutation(len(batches))]

    def _random_order(self, source: int, generator: np.random.Generator) -> list[NDArray[np.integer[Any]]]:
        lengths, size = self.lengths[source], self.batch_sizes[source]
        order = generator.permutation(len(lengths))
        if self.group_by_length:
            bucket = _BATCHES_PER_BUCKET * size
            buckets = [order[start : start + bucket] for start in range(0, len(order), bucket)]
            # A stable sort keeps the random order of rows of equal length.
            order = np.concatenate([rows[np.argsort(lengths[rows], kind="stable")] for rows in buckets])
        return [order[start:stop] for start, stop in self._boundaries(len(lengths), size)]

    def _without_duplicates(self, source: int, generator: np.random.Generator) -> list[NDArray[np.integer[Any]]]:
        sizes = [stop - start for start, stop in self._boundaries(len(self.lengths[source]), self.batch_sizes[source])]
        batches = self._distinct_rows[source].batches(sizes, generator)
        even = [rows[: len(rows) // self.world_size * self.world_size] for rows in batches]
        if not all(map(len, even)):
            raise UsageError(
                f"a batch without duplicates has fewer rows than processes ({self.world_size}), because one text is in "
                "most rows: start fewer processes or set train.no_duplicates to false"
            )
        return even

    @cached_property
    def _distinct_rows(self) -> list[NoDuplicates]:
        return [NoDuplicates(columns) for columns in self.no_duplicates or ()]

    def _boundaries(self, rows: int, size: int) -> list[tuple[int, int]]:
        """Return start and stop of each batch of a source."""
        full = [(start, min(start + size, rows)) for start in range(0, rows, size)]
        even = [(start, start + (stop - start) // self.world_size * self.world_size) for start, stop in full]
        return [(start, stop) for start, stop in even if stop > start]
