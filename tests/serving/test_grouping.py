"""Groupings wait in a short queue, and none begins once the server ends."""

import asyncio
import threading

import pytest

from kosbert.search import Index
from kosbert.serving.errors import ApiError
from kosbert.serving.index_service import IndexService


@pytest.fixture
def mounted(model_directory, index_directory, monkeypatch):
    """A mounted index whose groupings wait for `go`; `begun` are those that were begun."""
    found = IndexService(Index.load(index_directory, str(model_directory)))
    found.go, found.begun = threading.Event(), []

    def group(method, count):
        found.begun.append((method, count))
        found.go.wait()
        return {"groups": [], "points": []}

    monkeypatch.setattr(found, "_group", group)
    yield found
    found.go.set()
    found.close()


def test_a_long_queue_is_refused_and_what_waits_is_not_begun_twice(mounted):
    async def ask():
        waiting = [asyncio.create_task(mounted.grouped("kmeans", count)) for count in (2, 3, 4, 5)]
        await asyncio.sleep(0.05)
        with pytest.raises(ApiError, match="too many groupings wait already") as caught:
            await mounted.grouped("kmeans", 6)
        assert caught.value.status == 429
        again = asyncio.create_task(mounted.grouped("kmeans", 5))  # it waits already
        await asyncio.sleep(0.05)
        mounted.go.set()
        await asyncio.gather(*waiting, again)
        for count in range(7, 40):  # more than are remembered
            await mounted.grouped("kmeans", count)
        await mounted.grouped("hdbscan", 3)
        await mounted.grouped("hdbscan", 4)  # which has no number of groups

    asyncio.run(ask())
    assert mounted.begun[:4] == [("kmeans", count) for count in (2, 3, 4, 5)]
    assert mounted.begun[-1] == ("hdbscan", 0)
    assert mounted.begun.count(("hdbscan", 0)) == 1


def test_the_end_does_not_wait_for_the_queue(mounted):
    async def ask():
        waiting = [asyncio.create_task(mounted.grouped("kmeans", count)) for count in (2, 3, 4)]
        await asyncio.sleep(0.05)
        mounted.close()
        mounted.go.set()
        return await asyncio.gather(*waiting, return_exceptions=True)

    found = asyncio.run(ask())
    assert mounted.begun == [("kmeans", 2)]
    assert [isinstance(each, asyncio.CancelledError) for each in found] == [False, True, True]
