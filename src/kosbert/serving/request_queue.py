"""Choose the texts of the next batch: fair to every request, and of similar length to avoid padding.

Requests wait in a round-robin queue. The first request contributes its longest text, the reference, and moves to the
end. The batch is filled with the texts closest in length to the reference, one per request before a second of any. So
a request with one sentence waits for at most as many batches as there are requests before it, however large they are.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kosbert.model import Encoder

# Texts considered for a batch: more than any token budget holds, few enough that a full queue costs no time.
_MAX_CANDIDATES = 512
_ALWAYS_SIMILAR = 16  # tokens: for shorter texts a forward pass costs more than the padding


@dataclass(eq=False)
class QueuedRequest:
    """The texts of one request and its encoder. After a reload, queued requests keep the old encoder."""

    encoder: Encoder
    inputs: Sequence[Any]
    lengths: list[int]
    waiting: list[int] = field(init=False)  # indexes of texts not yet in a batch, shortest first
    vectors: dict[int, NDArray[np.float32]] = field(default_factory=dict)  # results by text index

    def __post_init__(self) -> None:
        self.waiting = sorted(range(len(self.lengths)), key=self.lengths.__getitem__)

    @property
    def waiting_tokens(self) -> int:
        """Tokens of the texts not yet in a batch."""
        return sum(self.lengths[index] for index in self.waiting)


@dataclass(frozen=True)
class Batch:
    """The input of one forward pass; each item is a request and the index of one of its texts."""

    encoder: Encoder
    items: list[tuple[QueuedRequest, int]]

    @property
    def inputs(self) -> list[Any]:
        """The model input of each text."""
        return [request.inputs[index] for request, index in self.items]

    @property
    def lengths(self) -> list[int]:
        """The number of tokens of each text."""
        return [request.lengths[index] for request, index in self.items]


class RequestQueue:
    """Round-robin queue of requests. Not thread-safe."""

    def __init__(self) -> None:
        self._requests: deque[QueuedRequest] = deque()
        self.tokens = 0

    def __len__(self) -> int:
        return len(self._requests)

    @property
    def first(self) -> QueuedRequest:
        """The request whose turn it is."""
        return self._requests[0]

    def add(self, request: QueuedRequest) -> None:
        """Append a request."""
        self._requests.append(request)
        self.tokens += request.waiting_tokens

    def discard(self, request: QueuedRequest) -> None:
        """Remove a request if it is queued."""
        if request in self._requests:
            self._requests.remove(request)
            self.tokens -= request.waiting_tokens
            request.waiting = []

    def take(self, token_budget: int) -> Batch:
        """Take the next batch of at most `token_budget` tokens including padding; a single text may exceed it."""
        first = self._requests[0]
        reference = first.waiting[-1]
        shortest = longest = first.lengths[reference]
        chosen: dict[QueuedRequest, set[int]] = {first: {reference}}
        count = 1
        for _, _, request, index in sorted(self._candidates(first, reference), key=lambda candidate: candidate[:2]):
            low, high = min(shortest, request.lengths[index]), max(longest, request.lengths[index])
            if high * (count + 1) > token_budget or high > 2 * low + _ALWAYS_SIMILAR:
                continue
            chosen.setdefault(request, set()).add(index)
            shortest, longest, count = low, high, count + 1
        batch = Batch(first.encoder, [(request, index) for request, indexes in chosen.items() for index in indexes])
        self.tokens -= sum(batch.lengths)
        for request, indexes in chosen.items():
            request.waiting = [index for index in request.waiting if index not in indexes]
        self._requests.rotate(-1)
        if any(not request.waiting for request in chosen):
            self._requests = deque(request for request in self._requests if request.waiting)
        return batch

    def _candidates(self, first: QueuedRequest, reference: int) -> list[tuple[int, int, QueuedRequest, int]]:
        """Return (rank within the request, length difference to the reference, request, text index) of candidates."""
        length = first.lengths[reference]
        per_request = max(8, _MAX_CANDIDATES // len(self._requests))
        candidates = []
        for request in self._requests:
            if request.encoder is not first.encoder:
                continue
            middle = bisect_left(request.waiting, length, key=request.lengths.__getitem__)
            nearest = [
                (abs(request.lengths[index] - length), index)
                for index in request.waiting[max(0, middle - per_request) : middle + per_request]
                if request is not first or index != reference
            ]
            # The first request already has one text in the batch, so its ranks start at 1.
            ranked = enumerate(sorted(nearest)[:per_request], start=int(request is first))
            candidates += [(rank, distance, request, index) for rank, (distance, index) in ranked]
            if len(candidates) >= _MAX_CANDIDATES:
                break
        return candidates
