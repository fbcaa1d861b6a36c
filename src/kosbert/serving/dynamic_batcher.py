"""Dynamic batching: requests wait in a queue on the event loop, and one thread runs the model batch by batch.

While the model is busy, requests accumulate. An idle model starts on a request at once. After a batch of several
requests it waits a few milliseconds for the same number of requests or a full batch: their clients usually send again.
"""

import asyncio
import logging
import threading
import time

import numpy as np
from numpy.typing import NDArray

from kosbert.model import Encoder, Prepared
from kosbert.serving.errors import ApiError, internal_error, shutting_down
from kosbert.serving.metrics import Metrics
from kosbert.serving.request_queue import Batch, QueuedRequest, RequestQueue

MAX_WAIT = 0.003
"""Seconds that an idle model waits for more requests after a batch of several."""

logger = logging.getLogger(__name__)


class DynamicBatcher:
    """Encodes texts of concurrent requests in shared batches.

    Args:
        max_queue_tokens: tokens that may wait for the model; a request beyond that gets a 429 error.
        metrics: updated after every batch.
        max_wait: seconds, see `MAX_WAIT`.
    """

    def __init__(self, max_queue_tokens: int, metrics: Metrics, max_wait: float = MAX_WAIT) -> None:
        self._max_queue_tokens, self._metrics, self._max_wait = max_queue_tokens, metrics, max_wait
        self._queue = RequestQueue()
        self._results: dict[QueuedRequest, asyncio.Future[NDArray[np.float32]]] = {}
        self._changed = threading.Condition()
        self.failed = False  # the model thread has died
        self._closing = False
        self._last_batch_requests = 1
        self._tokens_per_second = 5_000.0  # moving average; a guess before the first batch
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="model", daemon=True)

    def start(self) -> None:
        """Start the model thread; call it on the event loop that calls `encode`."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    async def close(self) -> None:
        """Reject new requests, finish the queued ones and stop."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join)

    async def encode(self, encoder: Encoder, prepared: Prepared) -> NDArray[np.float32]:
        """Return the embeddings of prepared texts, (texts, dim). If cancelled, the texts leave the queue."""
        result: asyncio.Future[NDArray[np.float32]] = asyncio.get_running_loop().create_future()
        request = QueuedRequest(encoder, prepared.inputs, prepared.lengths)
        with self._changed:
            if self._closing:
                raise shutting_down()
            if self._queue.tokens + request.waiting_tokens > self._max_queue_tokens:
                raise ApiError(
                    429, "the queue is full: retry after the time in Retry-After, or send fewer texts",
                    code="queue_full", retry_after=min(60.0, self._queue.tokens / self._tokens_per_second),
                )  # fmt: skip
            self._results[request] = result
            self._queue.add(request)
            if self._should_start():
                self._changed.notify()
        self._metrics.queue_tokens.set(self._queue.tokens)
        try:
            return (await result)[prepared.inverse]
        finally:
            with self._changed:
                self._queue.discard(request)
                self._results.pop(request, None)
            self._metrics.queue_tokens.set(self._queue.tokens)

    def _should_start(self) -> bool:
        """Return whether the model should stop waiting: as many requests as last time wait, or a batch is full."""
        if not self._queue:
            return False
        return (
            len(self._queue) >= self._last_batch_requests
            or self._queue.tokens >= self._queue.first.encoder.token_budget
        )

    def _run(self) -> None:
        """Run batches until `close`; the main function of the model thread."""
        try:
            while (batch := self._next_batch()) is not None:
                start = time.perf_counter()
                vectors = self._forward(batch)
                seconds = time.perf_counter() - start
                self._tokens_per_second += 0.1 * (sum(batch.lengths) / max(seconds, 1e-6) - self._tokens_per_second)
                assert self._loop is not None
                self._loop.call_soon_threadsafe(self._deliver, batch, vectors, seconds)
        except BaseException:
            self.failed = True
            logger.exception("the model thread has died")

    def _next_batch(self) -> Batch | None:
        with self._changed:
            if self._last_batch_requests > 1 and not self._queue:
                self._changed.wait_for(lambda: self._closing or self._should_start(), self._max_wait)
            if not self._queue:
                self._last_batch_requests = 1  # nothing arrived in time: start on the next request at once
                self._changed.wait_for(lambda: self._closing or self._queue)
            if not self._queue:
                return None
            batch = self._queue.take(self._queue.first.encoder.token_budget)
            self._last_batch_requests = len({request for request, _ in batch.items})
            return batch

    def _forward(self, batch: Batch) -> "list[NDArray[np.float32] | None]":
        """Return the vector of each text; None for a text on which the model fails."""
        try:
            return list(batch.encoder.forward(batch.inputs))
        except Exception:
            logger.exception("batch failed", extra={"fields": {"texts": len(batch.items)}})
            if len(batch.items) == 1:
                return [None]
            # Retry one by one, so that only the request with the failing text fails.
            return [self._forward(Batch(batch.encoder, [item]))[0] for item in batch.items]

    def _deliver(self, batch: Batch, vectors: "list[NDArray[np.float32] | None]", seconds: float) -> None:
        """Hand the vectors to the waiting requests; runs on the event loop."""
        self._metrics.batch_seconds.observe(seconds)
        self._metrics.batch_texts.observe(len(vectors))
        self._metrics.texts.inc(len(vectors))
        self._metrics.tokens.inc(sum(batch.lengths))
        self._metrics.queue_tokens.set(self._queue.tokens)
        for (request, index), vector in zip(batch.items, vectors, strict=True):
            result = self._results.get(request)
            if result is None or result.done():
                continue
            if vector is None:
                result.set_exception(internal_error())
                continue
            request.vectors[index] = vector
            if len(request.vectors) == len(request.lengths):
                result.set_result(np.stack([request.vectors[i] for i in range(len(request.vectors))]))
