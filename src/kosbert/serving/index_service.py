"""An index that the server searches and groups. Queries go through the gatherer like every other text."""

import asyncio
import copy
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
from kosbert.serving.known import PrecomputedEncoder
from kosbert.serving.model_runner import ModelRunner

_REMEMBERED, _WAITING = 16, 4  # groupings


@dataclass(frozen=True)
class Sample:
    """Sentences of the index that are drawn on the map: texts, unit vectors (n, dim) and places (n, 2)."""

    texts: list[str]
    vectors: NDArray[np.float32]
    places: NDArray[np.float64]


class IndexService:
    """An index for many requests at once."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self._turn = threading.Lock()  # stores and analyzers are not all made for several threads
        self._grouping = ThreadPoolExecutor(1, "grouping")
        self._sample: Sample | None = None
        self._groupings: OrderedDict[tuple[str, int], asyncio.Future[dict[str, Any]]] = OrderedDict()

    @classmethod
    def load(cls, directory: Path, model: ModelRunner) -> "IndexService":
        """Open an index, if it was made with this model."""
        return cls(Index.load(directory, model.encoder))

    async def search(self, query: str, vector: NDArray[np.float32], k: int, where: str, hybrid: bool) -> list[Hit]:
        """The k nearest to a query whose vector is known, (dim,)."""
        view = copy.copy(self.index)  # shares everything but who encodes
        view.encoder = PrecomputedEncoder({query: vector})

        def run() -> list[Hit]:
            with self._turn:
                return view.search(query, k, where=where, hybrid=hybrid)

        return await asyncio.to_thread(run)

    async def grouped(self, method: str, count: int) -> dict[str, Any]:
        """Groups and a map of a sample; computed once a setting, and also to its end when nobody waits any more."""
        setting = (method, count if method == "kmeans" else 0)  # the others find their own number
        if setting not in self._groupings:
            waiting = [each for each, future in self._groupings.items() if not future.done()]
            if len(waiting) >= _WAITING:
                raise ApiError(429, "too many groupings wait already: try again later", code="too_many", retry_after=10)
            while len(self._groupings) >= _REMEMBERED:
                del self._groupings[next(each for each in self._groupings if each not in waiting)]
            loop = asyncio.get_running_loop()
            self._groupings[setting] = loop.run_in_executor(self._grouping, self._group, *setting)
        future = self._groupings[setting]
        try:
            return await asyncio.shield(future)
        except Exception:
            self._groupings.pop(setting, None)
            raise

    def close(self) -> None:
        """Begin no further grouping."""
        self._grouping.shutdown(wait=False, cancel_futures=True)

    def _group(self, method: str, count: int) -> dict[str, Any]:
        sample = self._drawn()
        labels = cluster_vectors(sample.vectors, ClusteringConfig(method, count))
        cluster_topics = topics(sample.texts, labels)
        groups = []
        for number, middle in enumerate(centroids(sample.vectors, labels)):
            inside = np.flatnonzero(labels == number)
            nearest = inside[np.argsort(-(sample.vectors[inside] @ middle), kind="stable")]
            examples = list(dict.fromkeys(sample.texts[place] for place in nearest.tolist()))[:3]
            groups.append(
                {"number": number, "size": len(inside), "label": cluster_topics[number], "examples": examples}
            )
        points = [
            {"x": round(x, 4), "y": round(y, 4), "group": label, "text": text}
            for (x, y), label, text in zip(sample.places.tolist(), labels.tolist(), sample.texts, strict=True)
        ]
        return {"groups": groups, "points": points}

    def _drawn(self) -> Sample:
        if self._sample is None:
            chosen = np.arange(len(self.index))
            if len(chosen) > MAX_MAP_POINTS:
                chosen = np.sort(np.random.default_rng(0).choice(len(chosen), MAX_MAP_POINTS, replace=False))
            everything = self.index.texts()
            with self._turn:
                vectors = self.index.vectors(chosen)
            self._sample = Sample([everything[place] for place in chosen.tolist()], vectors, project_2d(vectors, 0))
        return self._sample
