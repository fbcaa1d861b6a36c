"""DynamicBatcher: same vectors as plain `encode` for any mix of requests; cancelled requests are not computed."""

import asyncio
import threading
from itertools import chain

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kosbert.model import Prepared
from kosbert.serving.dynamic_batcher import DynamicBatcher
from kosbert.serving.errors import ApiError
from kosbert.serving.metrics import Metrics
from kosbert.serving.request_queue import RequestQueue

WORDS = "오늘 날씨 비 눈 바람 하늘 아침 사람 남자 여자 아이 고양이 강아지 기타 노래 음식 물 커피 학교 집".split()  # noqa: SIM905


class BlockingEncoder:
    """An encoder whose forward pass blocks until `resume` is set and records its batches. A text is its length."""

    token_budget = 64
    dim = 1

    def __init__(self) -> None:
        self.resume, self.started = threading.Event(), threading.Event()
        self.batches: list[list[int]] = []

    def forward(self, inputs) -> np.ndarray:
        self.batches.append(list(inputs))
        self.started.set()
        assert self.resume.wait(60)
        if -1 in inputs:
            raise RuntimeError("the model fails on this text")
        return np.array(inputs, np.float32)[:, None]


def prepared(*lengths: int) -> Prepared:
    return Prepared(list(lengths), [abs(length) for length in lengths], np.arange(len(lengths)), 0)


async def wait_until_started(encoder: BlockingEncoder) -> None:
    assert await asyncio.to_thread(encoder.started.wait, 60)


def run(test, max_queue_tokens: int = 10_000, max_wait: float = 0.003) -> object:
    """Run an async test with a running batcher."""

    async def main() -> object:
        batcher = DynamicBatcher(max_queue_tokens, Metrics(), max_wait)
        batcher.start()
        try:
            async with asyncio.timeout(120):
                return await test(batcher)
        finally:
            await batcher.close()

    return asyncio.run(main())


texts = st.lists(st.sampled_from(WORDS), min_size=0, max_size=60).map(" ".join)
request_lists = st.lists(st.lists(texts, min_size=1, max_size=6), min_size=1, max_size=12)


@given(requests=request_lists)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_mix_of_requests_gives_the_vectors_of_encode(encoder, requests: list[list[str]]) -> None:
    async def work(batcher: DynamicBatcher) -> list[np.ndarray]:
        return await asyncio.gather(*(batcher.encode(encoder, encoder.prepare(request)) for request in requests))

    for request, vectors in zip(requests, run(work), strict=True):
        np.testing.assert_allclose(vectors, encoder.encode(request), atol=1e-5)
        for text, vector in zip(request, vectors, strict=True):
            np.testing.assert_allclose(vector, encoder.encode(text), atol=1e-5)  # encoded alone


def test_idle_model_starts_on_a_request_at_once() -> None:
    """With an endless max_wait, a single request would never finish if it waited for others."""
    encoder = BlockingEncoder()
    encoder.resume.set()

    async def work(batcher: DynamicBatcher) -> None:
        for _ in range(3):
            await batcher.encode(encoder, prepared(5))

    run(work, max_wait=1e6)
    assert encoder.batches == [[5], [5], [5]]


def test_requests_accumulate_while_the_model_is_busy() -> None:
    encoder = BlockingEncoder()

    async def work(batcher: DynamicBatcher) -> None:
        first = asyncio.create_task(batcher.encode(encoder, prepared(8)))
        await wait_until_started(encoder)
        rest = [asyncio.create_task(batcher.encode(encoder, prepared(8))) for _ in range(6)]
        await asyncio.sleep(0)
        encoder.resume.set()
        await asyncio.gather(first, *rest)

    run(work)
    assert encoder.batches == [[8], [8] * 6]


def test_cancelled_request_is_not_computed() -> None:
    encoder = BlockingEncoder()

    async def work(batcher: DynamicBatcher) -> None:
        first = asyncio.create_task(batcher.encode(encoder, prepared(8)))
        await wait_until_started(encoder)
        cancelled = asyncio.create_task(batcher.encode(encoder, prepared(60, 60, 60)))
        kept = asyncio.create_task(batcher.encode(encoder, prepared(7)))
        await asyncio.sleep(0)
        assert batcher._queue.tokens == 187
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        assert batcher._queue.tokens == 7
        encoder.resume.set()
        await asyncio.gather(first, kept)

    run(work)
    assert encoder.batches == [[8], [7]]


def test_request_cancelled_between_batches_is_not_continued() -> None:
    """Of a request of several batches, only the batch in progress is computed."""
    encoder = BlockingEncoder()

    async def work(batcher: DynamicBatcher) -> None:
        cancelled = asyncio.create_task(batcher.encode(encoder, prepared(*[60] * 50)))
        await wait_until_started(encoder)
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        encoder.resume.set()
        await batcher.encode(encoder, prepared(3))

    run(work)
    assert encoder.batches == [[60], [3]]


def test_full_queue_gives_429_with_retry_after() -> None:
    encoder = BlockingEncoder()

    async def work(batcher: DynamicBatcher) -> None:
        first = asyncio.create_task(batcher.encode(encoder, prepared(8)))
        await wait_until_started(encoder)
        queued = asyncio.create_task(batcher.encode(encoder, prepared(60, 30)))
        await asyncio.sleep(0)
        with pytest.raises(ApiError) as rejected:
            await batcher.encode(encoder, prepared(11))
        assert (rejected.value.status, rejected.value.code) == (429, "queue_full")
        assert int(rejected.value.headers["retry-after"]) >= 1
        fitting = asyncio.create_task(batcher.encode(encoder, prepared(10)))
        await asyncio.sleep(0)
        encoder.resume.set()
        await asyncio.gather(first, queued, fitting)

    run(work, max_queue_tokens=100)


def test_failing_text_fails_only_its_own_request() -> None:
    encoder = BlockingEncoder()

    async def work(batcher: DynamicBatcher) -> None:
        first = asyncio.create_task(batcher.encode(encoder, prepared(8)))
        await wait_until_started(encoder)
        rest = [asyncio.create_task(batcher.encode(encoder, prepared(length))) for length in (2, -1, 3)]
        await asyncio.sleep(0)
        encoder.resume.set()
        results = await asyncio.gather(first, *rest, return_exceptions=True)
        assert isinstance(results[2], ApiError)
        assert results[2].status == 500
        assert [float(results[index][0, 0]) for index in (0, 1, 3)] == [8, 2, 3]
        assert float((await batcher.encode(encoder, prepared(4)))[0, 0]) == 4

    run(work)


def test_close_finishes_queued_requests_and_rejects_new_ones() -> None:
    encoder = BlockingEncoder()

    async def work() -> None:
        batcher = DynamicBatcher(10_000, Metrics())
        batcher.start()
        queued = [asyncio.create_task(batcher.encode(encoder, prepared(60))) for _ in range(5)]
        await wait_until_started(encoder)
        closing = asyncio.create_task(batcher.close())
        await asyncio.sleep(0)
        with pytest.raises(ApiError) as rejected:
            await batcher.encode(encoder, prepared(1))
        assert rejected.value.status == 503
        encoder.resume.set()
        assert [float(vectors[0, 0]) for vectors in await asyncio.gather(*queued)] == [60] * 5
        await closing

    asyncio.run(work())


def test_dead_model_thread_sets_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = BlockingEncoder()
    monkeypatch.setattr(RequestQueue, "take", lambda *_: 1 / 0)

    async def work(batcher: DynamicBatcher) -> None:
        request = asyncio.create_task(batcher.encode(encoder, prepared(1)))
        while not batcher.failed:
            await asyncio.sleep(0.01)
        request.cancel()

    run(work)


def test_requests_finish_with_the_encoder_that_prepared_them() -> None:
    old, new = BlockingEncoder(), BlockingEncoder()
    new.resume.set()

    async def work(batcher: DynamicBatcher) -> None:
        before = [asyncio.create_task(batcher.encode(old, prepared(60))) for _ in range(4)]
        await wait_until_started(old)
        after = [asyncio.create_task(batcher.encode(new, prepared(9))) for _ in range(4)]
        await asyncio.sleep(0)
        old.resume.set()
        await asyncio.gather(*before, *after)

    run(work)
    assert sorted(chain(*old.batches)) == [60] * 4
    assert sorted(chain(*new.batches)) == [9] * 4


def test_random_cancellations_leave_nothing_behind(encoder) -> None:
    """Of a thousand requests some are cancelled: all others get their vectors."""
    generator = np.random.default_rng(0)
    expected = dict(zip(WORDS, encoder.encode(WORDS), strict=True))

    async def send(batcher: DynamicBatcher, number: int) -> bool:
        words = [WORDS[index] for index in generator.integers(0, len(WORDS), 1 + number % 4)]
        request = asyncio.create_task(batcher.encode(encoder, encoder.prepare(words)))
        if number % 5 == 0:
            await asyncio.sleep(0)
            request.cancel()
        try:
            vectors = await request
        except asyncio.CancelledError:
            return False
        np.testing.assert_allclose(vectors, [expected[word] for word in words], atol=1e-5)
        return True

    async def work(batcher: DynamicBatcher) -> None:
        answered = await asyncio.gather(*(send(batcher, number) for number in range(1_000)))
        assert sum(answered) >= 800
        assert not batcher._results
        assert batcher._queue.tokens == 0

    run(work, max_queue_tokens=1_000_000)
