"""Which rows meet in which step: a function of the seed alone, so that a run can go on from any step exactly."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kosbert.errors import UsageError

_BUCKET = 64  # batches that are sorted together: enough for equal lengths, few enough to stay random


@dataclass(frozen=True)
class Batch:
    """Rows of one source that make one step."""

    source: int
    rows: NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Plan:
    """Every step of a stage.

    Args:
        lengths: for each source, the tokens of each of its rows (all columns together).
        batch_sizes: for each source, rows in a batch.
        epochs: passes over all sources; may be a fraction. Or `steps`.
        seed: the same seed gives the same plan.
        buckets: let rows of similar length meet, which saves padding or evens out packed batches.
        processes: every batch is cut to a multiple of them, so that all processes have equal shares.
    """

    lengths: Sequence[NDArray[np.integer[Any]]]
    batch_sizes: Sequence[int]
    seed: int
    epochs: float | None = None
    steps: int | None = None
    group_by_length: bool = False
    processes: int = 1

    def __post_init__(self) -> None:
        if not self.steps_in_an_epoch:
            raise UsageError(f"there are fewer rows than processes ({self.processes}): start fewer, or give more rows")

    @cached_property  # asked for at every step
    def steps_in_an_epoch(self) -> int:
        """Batches in one pass over all sources."""
        return sum(len(self._cut(len(each), size)) for each, size in zip(self.lengths, self.batch_sizes, strict=True))

    @cached_property
    def total(self) -> int:
        """Steps in all."""
        return self.steps or max(1, round((self.epochs or 1) * self.steps_in_an_epoch))

    def from_step(self, step: int) -> Iterator[Batch]:
        """The batches from a step (counted from 0) to the end."""
        epoch, skip = divmod(step, self.steps_in_an_epoch)
        while step < self.total:
            for batch in self._epoch(epoch)[skip : skip + self.total - step]:
                yield batch
                step += 1
            epoch, skip = epoch + 1, 0

    def _epoch(self, epoch: int) -> list[Batch]:
        """All batches of one pass, those of different sources mixed."""
        generator = np.random.default_rng([self.seed, epoch])
        batches = []
        for source, (lengths, size) in enumerate(zip(self.lengths, self.batch_sizes, strict=True)):
            order = generator.permutation(len(lengths))
            if self.group_by_length:
                # Stable, so that rows of equal length keep their random order.
                runs = [order[at : at + _BUCKET * size] for at in range(0, len(order), _BUCKET * size)]
                order = np.concatenate([run[np.argsort(lengths[run], kind="stable")] for run in runs])
            batches += [Batch(source, order[start:stop]) for start, stop in self._cut(len(lengths), size)]
        return [batches[place] for place in generator.permutation(len(batches))]

    def _cut(self, rows: int, size: int) -> list[tuple[int, int]]:
        """Where the batches of a source start and stop."""
        cuts = [(start, min(start + size, rows)) for start in range(0, rows, size)]
        even = [(start, start + (stop - start) // self.processes * self.processes) for start, stop in cuts]
        return [(start, stop) for start, stop in even if stop > start]
