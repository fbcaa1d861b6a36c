"""The gatherer: the same answers as plain `encode` in any mixture; what nobody waits for any more is not computed."""

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
from kosbert.serving.model_runner import ModelRunner
from kosbert.serving.request_queue import RequestQueue

WORDS = "오늘 날씨 비 눈 바람 하늘 아침 사람 남자 여자 아이 고양이 강아지 기타 노래 음식 물 커피 학교 집".split()  # noqa: SIM905


class Slow:
    """A model whose forward pass waits until it is let go, and remembers what it was given. A text is its length."""

    class encoder:
        token_budget = 64
        dim = 1

    def __init__(self) -> None:
        self.go, self.begun = threading.Event(), threading.Event()
        self.batches: list[list[int]] = []

    def forward(self, tokens) -> np.ndarray:
        self.batches.append(list(tokens))
        self.begun.set()
        assert self.go.wait(60)
        if -1 in tokens:
            raise RuntimeError("this text cannot be computed")
        return np.array(tokens, np.float32)[:, None]


def prepared(*tokens: int) -> Prepared:
    return Prepared(list(tokens), [abs(token) for token in tokens], np.arange(len(tokens)), 0)


async def begun(model: Slow) -> None:
    assert await asyncio.to_thread(model.begun.wait, 60)


def run(work, most_tokens: int = 10_000, deadline: float = 0.003) -> object:
    """Run a test on a gatherer that is started and closed around it."""

    async def around() -> object:
        gatherer = DynamicBatcher(most_tokens, Metrics(), deadline)
        gatherer.start()
        try:
            async with asyncio.timeout(120):
                return await work(gatherer)
        finally:
            await gatherer.close()

    return asyncio.run(around())


texts = st.lists(st.sampled_from(WORDS), min_size=0, max_size=60).map(" ".join)
mixtures = st.lists(st.lists(texts, min_size=1, max_size=6), min_size=1, max_size=12)


@given(mixture=mixtures)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_mixture_gives_what_encode_gives(encoder, mixture: list[list[str]]) -> None:
    model = ModelRunner(encoder, "tiny")

    async def one(gatherer: DynamicBatcher, some: list[str]) -> np.ndarray:
        return await gatherer.vectors(model, await gatherer.prepare(model, some))

    async def work(gatherer: DynamicBatcher) -> list[np.ndarray]:
        return await asyncio.gather(*(one(gatherer, some) for some in mixture))

    for some, found in zip(mixture, run(work), strict=True):
        np.testing.assert_allclose(found, encoder.encode(some), atol=1e-5)
        for text, vector in zip(some, found, strict=True):
            np.testing.assert_allclose(vector, encoder.encode(text), atol=1e-5)  # alone


def test_an_idle_model_takes_a_request_at_once() -> None:
    """With an endless deadline, a lone request would never come back if it waited for others."""
    model = Slow()
    model.go.set()

    async def work(gatherer: DynamicBatcher) -> None:
        for _ in range(3):
            await gatherer.vectors(model, prepared(5))

    run(work, deadline=1e6)
    assert model.batches == [[5], [5], [5]]


def test_requests_gather_while_the_model_works() -> None:
    model = Slow()

    async def work(gatherer: DynamicBatcher) -> None:
        first = asyncio.create_task(gatherer.vectors(model, prepared(8)))
        await begun(model)
        rest = [asyncio.create_task(gatherer.vectors(model, prepared(8))) for _ in range(6)]
        await asyncio.sleep(0)
        model.go.set()
        await asyncio.gather(first, *rest)

    run(work)
    assert model.batches == [[8], [8] * 6]


def test_cancelled_work_is_not_computed() -> None:
    model = Slow()

    async def work(gatherer: DynamicBatcher) -> None:
        first = asyncio.create_task(gatherer.vectors(model, prepared(8)))
        await begun(model)
        gone = asyncio.create_task(gatherer.vectors(model, prepared(60, 60, 60)))
        stays = asyncio.create_task(gatherer.vectors(model, prepared(7)))
        await asyncio.sleep(0)
        assert gatherer._waiting.tokens == 187
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        assert gatherer._waiting.tokens == 7
        model.go.set()
        await asyncio.gather(first, stays)

    run(work)
    assert model.batches == [[8], [7]]


def test_cancelled_in_the_middle() -> None:
    """A request of several batches stops costing after the one that is under way."""
    model = Slow()

    async def work(gatherer: DynamicBatcher) -> None:
        gone = asyncio.create_task(gatherer.vectors(model, prepared(*[60] * 50)))
        await begun(model)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        model.go.set()
        await gatherer.vectors(model, prepared(3))

    run(work)
    assert model.batches == [[60], [3]]


def test_a_full_queue_refuses_and_says_when_to_come_back() -> None:
    model = Slow()

    async def work(gatherer: DynamicBatcher) -> None:
        first = asyncio.create_task(gatherer.vectors(model, prepared(8)))
        await begun(model)
        waits = asyncio.create_task(gatherer.vectors(model, prepared(60, 30)))
        await asyncio.sleep(0)
        with pytest.raises(ApiError) as refused:
            await gatherer.vectors(model, prepared(11))
        assert (refused.value.status, refused.value.code) == (429, "queue_full")
        assert int(refused.value.headers["retry-after"]) >= 1
        fits = asyncio.create_task(gatherer.vectors(model, prepared(10)))
        await asyncio.sleep(0)
        model.go.set()
        await asyncio.gather(first, waits, fits)

    run(work, most_tokens=100)


def test_a_text_that_cannot_be_computed_fails_nobody_else() -> None:
    model = Slow()

    async def work(gatherer: DynamicBatcher) -> None:
        first = asyncio.create_task(gatherer.vectors(model, prepared(8)))
        await begun(model)
        rest = [asyncio.create_task(gatherer.vectors(model, prepared(number))) for number in (2, -1, 3)]
        await asyncio.sleep(0)
        model.go.set()
        found = await asyncio.gather(first, *rest, return_exceptions=True)
        assert isinstance(found[2], ApiError)
        assert found[2].status == 500
        assert [float(found[place][0, 0]) for place in (0, 1, 3)] == [8, 2, 3]
        assert float((await gatherer.vectors(model, prepared(4)))[0, 0]) == 4

    run(work)


def test_closing_finishes_what_was_taken_and_takes_no_more() -> None:
    model = Slow()

    async def work() -> None:
        gatherer = DynamicBatcher(10_000, Metrics())
        gatherer.start()
        taken = [asyncio.create_task(gatherer.vectors(model, prepared(60))) for _ in range(5)]
        await begun(model)
        closing = asyncio.create_task(gatherer.close())
        await asyncio.sleep(0)
        with pytest.raises(ApiError) as refused:
            await gatherer.vectors(model, prepared(1))
        assert refused.value.status == 503
        model.go.set()
        assert [float(each[0, 0]) for each in await asyncio.gather(*taken)] == [60] * 5
        await closing

    asyncio.run(work())


def test_a_thread_that_ends_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Slow()
    monkeypatch.setattr(RequestQueue, "take", lambda *_: 1 / 0)

    async def work(gatherer: DynamicBatcher) -> None:
        asking = asyncio.create_task(gatherer.vectors(model, prepared(1)))
        while not gatherer.failed:
            await asyncio.sleep(0.01)
        asking.cancel()

    run(work)


def test_models_change_between_batches() -> None:
    """Requests finish with the model that prepared them."""
    old, new = Slow(), Slow()
    new.go.set()

    async def work(gatherer: DynamicBatcher) -> None:
        before = [asyncio.create_task(gatherer.vectors(old, prepared(60))) for _ in range(4)]
        await begun(old)
        after = [asyncio.create_task(gatherer.vectors(new, prepared(9))) for _ in range(4)]
        await asyncio.sleep(0)
        old.go.set()
        await asyncio.gather(*before, *after)

    run(work)
    assert sorted(chain(*old.batches)) == [60] * 4
    assert sorted(chain(*new.batches)) == [9] * 4


def test_many_threads_of_waiting_end(encoder) -> None:
    """A thousand requests, some of them given up at random: all others are answered, and nothing is left behind."""
    model = ModelRunner(encoder, "tiny")
    generator = np.random.default_rng(0)
    expected = dict(zip(WORDS, encoder.encode(WORDS), strict=True))

    async def one(gatherer: DynamicBatcher, number: int) -> bool:
        some = [WORDS[place] for place in generator.integers(0, len(WORDS), 1 + number % 4)]
        asking = asyncio.create_task(gatherer.vectors(model, await gatherer.prepare(model, some)))
        if number % 5 == 0:
            await asyncio.sleep(0)
            asking.cancel()
        try:
            found = await asking
        except asyncio.CancelledError:
            return False
        np.testing.assert_allclose(found, [expected[text] for text in some], atol=1e-5)
        return True

    async def work(gatherer: DynamicBatcher) -> None:
        answered = await asyncio.gather(*(one(gatherer, number) for number in range(1_000)))
        assert sum(answered) >= 800
        assert not gatherer._answers
        assert gatherer._waiting.tokens == 0

    run(work, most_tokens=1_000_000)
