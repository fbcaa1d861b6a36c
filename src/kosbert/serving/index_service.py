"""Search and clustering over the server's index. Query vectors come from the DynamicBatcher."""

import asyncio
import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kosbert.search.cluster_report import MAX_MAP_POINTS
from kosbert.search.clustering import ClusteringConfig, centroids, cluster_vectors, project_2d, topics
from kosbert.search.hits import Hit
from kosbert.search.index import Index
from kosbert.serving.errors import ApiError
from kosbert.serving.served_model import ServedModel

_MAX_CACHED, _MAX_QUEUED = 16, 4  # clusterings
_REPRESENTATIVES = 3  # per cluster


@dataclass(frozen=True)
class Sample:
    """The sentences on the map: texts, unit vectors (n, dim) and coordinates (n, 2)."""

    texts: list[str]
    vectors: NDArray[np.float32]
    coordinates: NDArray[np.float64]


class IndexService:
    """An index for concurrent requests."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self._lock = threading.Lock()  # not all backends and analyzers are thread-safe
        self._executor = ThreadPoolExecutor(1, "clustering")
        self._sample: Sample | None = None
        self._clusterings: OrderedDict[tuple[str, int], asyncio.Future[dict[str, Any]]] = OrderedDict()

    @classmethod
    def load(cls, directory: Path, model: ServedModel) -> "IndexService":
        """Open an index that was built with this model."""
        return cls(Index.load(directory, model.encoder))

    async def search(self, query: str, vector: NDArray[np.float32], k: int, where: str, hybrid: bool) -> list[Hit]:
        """Return the k nearest sentences to a query with its vector, (dim,)."""

        def run() -> list[Hit]:
            with self._lock:
                return self.index.search(query, k, where=where, hybrid=hybrid, vector=vector)

        return await asyncio.to_thread(run)

    async def cluster(self, method: str, n_clusters: int) -> dict[str, Any]:
        """Return clusters and a map of a sample of the index.

        Results are cached. A clustering runs to its end even if the client disconnects, so a retry finds the result.
        """
        key = (method, n_clusters if method == "kmeans" else 0)  # the other methods choose their own number
        if key not in self._clusterings:
            unfinished = [queued for queued, future in self._clusterings.items() if not future.done()]
            if len(unfinished) >= _MAX_QUEUED:
                raise ApiError(
                    429, "too many clusterings are queued: retry later", code="too_many_requests", retry_after=10
                )
            while len(self._clusterings) >= _MAX_CACHED:
                del self._clusterings[next(cached for cached in self._clusterings if cached not in unfinished)]
            loop = asyncio.get_running_loop()
            self._clusterings[key] = loop.run_in_executor(self._executor, self._cluster, *key)
        future = self._clusterings[key]
        try:
            return await asyncio.shield(future)
        except Exception:
            self._clusterings.pop(key, None)
            raise

    def close(self) -> None:
        """Cancel queued clusterings."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _cluster(self, method: str, n_clusters: int) -> dict[str, Any]:
        sample = self._load_sample()
        labels = cluster_vectors(sample.vectors, ClusteringConfig(method, n_clusters))
        cluster_topics = topics(sample.texts, labels)
        clusters = []
        for cluster_id, centroid in enumerate(centroids(sample.vectors, labels)):
            members = np.flatnonzero(labels == cluster_id)
            nearest = members[np.argsort(-(sample.vectors[members] @ centroid), kind="stable")]
            representatives = list(dict.fromkeys(sample.texts[index] for index in nearest.tolist()))[:_REPRESENTATIVES]
            clusters.append({
                "id": cluster_id, "size": len(members), "topic": cluster_topics[cluster_id],
                "representatives": representatives,
            })  # fmt: skip
        points = [
            {"x": round(x, 4), "y": round(y, 4), "cluster": label, "text": text}
            for (x, y), label, text in zip(sample.coordinates.tolist(), labels.tolist(), sample.texts, strict=True)
        ]
        return {"clusters": clusters, "points": points}

    def _load_sample(self) -> Sample:
        if self._sample is None:
            indexes = np.arange(len(self.index))
            if len(indexes) > MAX_MAP_POINTS:
                indexes = np.sort(np.random.default_rng(0).choice(len(indexes), MAX_MAP_POINTS, replace=False))
            texts = self.index.texts()
            with self._lock:
                vectors = self.index.vectors(indexes)
            self._sample = Sample([texts[index] for index in indexes.tolist()], vectors, project_2d(vectors, 0))
        return self._sample
