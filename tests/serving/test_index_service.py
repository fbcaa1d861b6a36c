"""IndexService: clusterings are queued, cached, and cancelled at shutdown."""

import asyncio
import threading

import pytest

from kosbert.search import Index
from kosbert.serving.errors import ApiError
from kosbert.serving.index_service import IndexService


@pytest.fixture
def service(model_directory, index_directory, monkeypatch):
    """An IndexService whose clusterings block until `resume` is set; `started` lists those that were started."""
    service = IndexService(Index.load(index_directory, str(model_directory)))
    service.resume, service.started = threading.Event(), []

    def cluster(method, n_clusters):
        service.started.append((method, n_clusters))
        service.resume.wait()
        return {"clusters": [], "points": []}

    monkeypatch.setattr(service, "_cluster", cluster)
    yield service
    service.resume.set()
    service.close()


def test_full_queue_is_rejected_and_a_queued_clustering_is_not_started_twice(service):
    async def work():
        queued = [asyncio.create_task(service.cluster("kmeans", count)) for count in (2, 3, 4, 5)]
        await asyncio.sleep(0.05)
        with pytest.raises(ApiError, match="too many clusterings are queued") as rejected:
            await service.cluster("kmeans", 6)
        assert rejected.value.status == 429
        again = asyncio.create_task(service.cluster("kmeans", 5))  # already queued
        await asyncio.sleep(0.05)
        service.resume.set()
        await asyncio.gather(*queued, again)
        for count in range(7, 40):  # more than the cache holds
            await service.cluster("kmeans", count)
        await service.cluster("hdbscan", 3)
        await service.cluster("hdbscan", 4)  # same result: HDBSCAN has no number of clusters

    asyncio.run(work())
    assert service.started[:4] == [("kmeans", count) for count in (2, 3, 4, 5)]
    assert service.started[-1] == ("hdbscan", 0)
    assert service.started.count(("hdbscan", 0)) == 1


def test_close_cancels_queued_clusterings(service):
    async def work():
        queued = [asyncio.create_task(service.cluster("kmeans", count)) for count in (2, 3, 4)]
        await asyncio.sleep(0.05)
        service.close()
        service.resume.set()
        return await asyncio.gather(*queued, return_exceptions=True)

    results = asyncio.run(work())
    assert service.started == [("kmeans", 2)]
    assert [isinstance(result, asyncio.CancelledError) for result in results] == [False, True, True]
