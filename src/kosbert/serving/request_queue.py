"""Which texts go through the model next: fair to every request, and of similar length, so that little is padding.

Requests stand in a ring. The one whose turn it is gives the longest of its texts, the lead, and goes to the end. The
rest of the batch are the texts nearest in length to the lead, one of each request before a second of any. So a request
of one sentence waits for as many batches as there are requests before it, however many texts these have.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kosbert.serving.model_runner import ModelRunner

# Texts looked at for a batch: more than any budget holds, few enough that a full queue costs no time.
_CANDIDATES = 512
_ALWAYS_SIMILAR = 16  # tokens: below, a call of the model costs more than its padding


@dataclass(eq=False)
class Job:
    """The texts of one request on their way through its model, which may be an older one than new requests get."""

    model: ModelRunner
    tokens: Sequence[Any]
    lengths: list[int]
    left: list[int] = field(init=False)  # which texts still wait, shortest first
    found: dict[int, NDArray[np.float32]] = field(default_factory=dict)  # what was computed already

    def __post_init__(self) -> None:
        self.left = sorted(range(len(self.lengths)), key=self.lengths.__getitem__)

    @property
    def cost(self) -> int:
        """Tokens that still wait."""
        return sum(self.lengths[place] for place in self.left)


@dataclass(frozen=True)
class Batch:
    """What one call of the model computes: of which job each text is, and which of its texts."""

    model: ModelRunner
    places: list[tuple[Job, int]]

    @property
    def tokens(self) -> list[Any]:
        """What the model wants of each text."""
        return [job.tokens[place] for job, place in self.places]

    @property
    def lengths(self) -> list[int]:
        """The tokens of each text."""
        return [job.lengths[place] for job, place in self.places]


class RequestQueue:
    """The ring of requests. Not for several threads at once."""

    def __init__(self) -> None:
        self._jobs: deque[Job] = deque()
        self.tokens = 0

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def lead(self) -> Job:
        """The request whose turn it is."""
        return self._jobs[0]

    def add(self, job: Job) -> None:
        """Put a request at the end."""
        self._jobs.append(job)
        self.tokens += job.cost

    def discard(self, job: Job) -> None:
        """Forget what of a request still waits; one that does not wait is no mistake."""
        if job in self._jobs:
            self._jobs.remove(job)
            self.tokens -= job.cost
            job.left = []

    def take(self, budget: int) -> Batch:
        """Take the next batch of at most `budget` tokens with their padding; a single text may exceed it."""
        first = self._jobs[0]
        lead = first.left[-1]
        shortest = longest = first.lengths[lead]
        chosen: dict[Job, set[int]] = {first: {lead}}
        count = 1
        for _, _, job, place in sorted(self._candidates(first, lead), key=lambda each: each[:2]):
            low, high = min(shortest, job.lengths[place]), max(longest, job.lengths[place])
            if high * (count + 1) > budget or high > 2 * low + _ALWAYS_SIMILAR:
                continue
            chosen.setdefault(job, set()).add(place)
            shortest, longest, count = low, high, count + 1
        batch = Batch(first.model, [(job, place) for job, places in chosen.items() for place in places])
        self.tokens -= sum(batch.lengths)
        for job, places in chosen.items():
            job.left = [place for place in job.left if place not in places]
        self._jobs.rotate(-1)
        if any(not job.left for job in chosen):
            self._jobs = deque(job for job in self._jobs if job.left)
        return batch

    def _candidates(self, first: Job, lead: int) -> list[tuple[int, int, Job, int]]:
        """Rank within its request, distance in length from the lead, request and text."""
        length = first.lengths[lead]
        share = max(8, _CANDIDATES // len(self._jobs))
        found = []
        for job in self._jobs:
            if job.model is not first.model:
                continue
            middle = bisect_left(job.left, length, key=job.lengths.__getitem__)
            near = [
                (abs(job.lengths[place] - length), place)
                for place in job.left[max(0, middle - share) : middle + share]
                if job is not first or place != lead
            ]
            # The request of the lead has had its first already.
            ranked = enumerate(sorted(near)[:share], start=int(job is first))
            found += [(rank, distance, job, place) for rank, (distance, place) in ranked]
            if len(found) >= _CANDIDATES:
                break
        return found
