"""Many requests, one model: an asyncio front where requests wait, and one thread that computes batch after batch.

While the model works, requests gather by themselves. A model that is idle takes a request at once. Only after a batch
of several requests does it wait a few milliseconds for as many again, or for a full batch: their clients ask on.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kosbert.model import Prepared
from kosbert.serving.errors import ApiError, internal
from kosbert.serving.metrics import Metrics
from kosbert.serving.model_runner import ModelRunner
from kosbert.serving.request_queue import Batch, Job, RequestQueue

DEADLINE = 0.003
"""Seconds that an idle model waits for the successors of what it computed together."""

_AT_ONCE = 2_000  # characters that are tokenized on the event loop in about a millisecond; more goes to a thread

logger = logging.getLogger(__name__)


class DynamicBatcher:
    """Computes the vectors of requests together.

    Args:
        most_tokens: that wait for the model; a request beyond is refused with 429.
        metrics: told of every batch.
        deadline: seconds, see `DEADLINE`.
    """

    def __init__(self, most_tokens: int, metrics: Metrics, deadline: float = DEADLINE) -> None:
        self._most_tokens, self._metrics, self._deadline = most_tokens, metrics, deadline
        self._waiting = RequestQueue()
        self._answers: dict[Job, asyncio.Future[NDArray[np.float32]]] = {}
        self._changed = threading.Condition()
        self.failed = False  # nothing will be computed any more
        self._closing = False
        self._enough = 1  # requests of the last batch
        self._speed = 5_000.0  # tokens a second, as measured; a guess before the first batch
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._work, name="model", daemon=True)

    def start(self) -> None:
        """Begin; called on the event loop that will wait for the answers."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    async def close(self) -> None:
        """Take no more, compute what was taken, and end."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join)

    async def prepare(self, model: ModelRunner, texts: Sequence[str]) -> Prepared:
        """Tokenize without keeping other requests waiting; a torch model's tokenizer may be busy with a batch."""
        if model.backend == "onnx" and sum(map(len, texts)) <= _AT_ONCE:
            return model.prepare(texts)
        return await asyncio.to_thread(model.prepare, texts)

    async def vectors(self, model: ModelRunner, prepared: Prepared) -> NDArray[np.float32]:
        """The vectors of what was prepared by the same model, (texts, dim). Cancelled, it costs nothing more."""
        answer: asyncio.Future[NDArray[np.float32]] = asyncio.get_running_loop().create_future()
        job = Job(model, prepared.inputs, prepared.lengths)
        with self._changed:
            self._admit(job)
            self._answers[job] = answer
            self._waiting.add(job)
            if self._is_enough():
                self._changed.notify()
        self._metrics.queue.set(self._waiting.tokens)
        try:
            return (await answer)[prepared.inverse]
        finally:
            with self._changed:
                self._waiting.discard(job)
                self._answers.pop(job, None)
            self._metrics.queue.set(self._waiting.tokens)

    def _admit(self, job: Job) -> None:
        if self._closing:
            raise ApiError(503, "the server is shutting down: try another, or later", code="closing", retry_after=5)
        if self._waiting.tokens + job.cost > self._most_tokens:
            seconds = min(60.0, self._waiting.tokens / self._speed)
            raise ApiError(
                429, "too much waits for the model already: try again after Retry-After, or send less at once",
                code="queue_full", retry_after=seconds,
            )  # fmt: skip

    def _is_enough(self) -> bool:
        """Whether the thread need wait no longer: all who were there last time are back, or a batch is full."""
        if not self._waiting:
            return False
        return (
            len(self._waiting) >= self._enough or self._waiting.tokens >= self._waiting.lead.model.encoder.token_budget
        )

    def _work(self) -> None:
        """The thread of the model."""
        try:
            self._compute_on()
        except BaseException:
            self.failed = True
            logger.exception("the thread of the model ended")

    def _compute_on(self) -> None:
        while (batch := self._next_batch()) is not None:
            started = time.perf_counter()
            found = self._compute(batch)
            seconds = time.perf_counter() - started
            self._speed += 0.1 * (sum(batch.lengths) / max(seconds, 1e-6) - self._speed)
            assert self._loop is not None
            self._loop.call_soon_threadsafe(self._deliver, batch, found, seconds)

    def _next_batch(self) -> Batch | None:
        with self._changed:
            if self._enough > 1 and not self._waiting:
                self._changed.wait_for(lambda: self._closing or self._is_enough(), self._deadline)
            if not self._waiting:
                self._enough = 1  # nobody came in time: the next request shall not wait for others
                self._changed.wait_for(lambda: self._closing or self._waiting)
            if not self._waiting:
                return None
            batch = self._waiting.take(self._waiting.lead.model.encoder.token_budget)
            self._enough = len({job for job, _ in batch.places})
            return batch

    def _compute(self, batch: Batch) -> "list[NDArray[np.float32] | None]":
        """The vector of each text, None for one that the model cannot compute."""
        try:
            return list(batch.model.forward(batch.tokens))
        except Exception:
            logger.exception("a batch failed", extra={"fields": {"texts": len(batch.places)}})
            if len(batch.places) == 1:
                return [None]
            # One by one, so that a text that cannot be computed fails nobody else's.
            return [self._compute(Batch(batch.model, [place]))[0] for place in batch.places]

    def _deliver(self, batch: Batch, found: "list[NDArray[np.float32] | None]", seconds: float) -> None:
        """On the event loop: hand out what was computed."""
        self._metrics.batch_seconds.observe(seconds)
        self._metrics.batch_texts.observe(len(found))
        self._metrics.texts.inc(len(found))
        self._metrics.tokens.inc(sum(batch.lengths))
        self._metrics.queue.set(self._waiting.tokens)
        for (job, place), vector in zip(batch.places, found, strict=True):
            answer = self._answers.get(job)
            if answer is None or answer.done():
                continue
            if vector is None:
                answer.set_exception(internal())
                continue
            job.found[place] = vector
            if len(job.found) == len(job.lengths):
                answer.set_result(np.stack([job.found[each] for each in range(len(job.found))]))
