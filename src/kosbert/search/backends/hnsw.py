"""HNSW graph (usearch): approximate search, a fraction of a millisecond where exact search takes many.

`benchmarks/search.py` measures its recall against exact search. With int8 a vector takes one byte per dimension.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kosbert.errors import KosbertError, UsageError, did_you_mean
from kosbert.model.similarity import unit
from kosbert.search.backends.base import Keys, Neighbors, Vectors, filtered_search, quantize_int8

GRAPH_FILE = "graph.usearch"
PRECISIONS = {"float32": "f32", "float16": "f16", "int8": "i8"}
CONNECTIVITY = 16
EXPANSION_ADD = 128
EXPANSION_SEARCH = 128


class HnswBackend:
    """A usearch index with the cosine metric."""

    def __init__(self, dim: int, precision: str = "float32") -> None:
        if precision not in PRECISIONS:
            raise UsageError(f"unknown precision {precision!r}: {did_you_mean(precision, PRECISIONS)}")
        self._dim, self._precision = dim, precision
        self._graph = _usearch().Index(
            ndim=dim, metric="cos", dtype=PRECISIONS[precision], connectivity=CONNECTIVITY,
            expansion_add=EXPANSION_ADD, expansion_search=EXPANSION_SEARCH,
        )  # fmt: skip

    def _quantize(self, vectors: Vectors) -> NDArray[Any]:
        return quantize_int8(vectors) if self._precision == "int8" else np.ascontiguousarray(vectors, np.float32)

    def add(self, keys: Keys, vectors: Vectors) -> None:
        """Add vectors under new keys."""
        if len(keys):
            self._graph.add(keys.astype(np.uint64), self._quantize(vectors))

    def remove(self, keys: Keys) -> None:
        """Remove the vectors of these keys."""
        if len(keys):
            self._graph.remove(keys.astype(np.uint64))

    def search(self, queries: Vectors, k: int, allowed: Keys | None) -> Neighbors:
        """Return the k nearest neighbors of each query among the allowed keys (None: all)."""
        if allowed is None:
            return self._search(queries, min(k, len(self._graph)))
        return filtered_search(queries, k, allowed, len(self._graph), self._search, self.vectors)

    def _search(self, queries: Vectors, k: int) -> Neighbors:
        # The search width must grow with k: with k close to the width, recall of the last neighbors drops.
        self._graph.expansion_search = max(EXPANSION_SEARCH, 2 * k)
        matches = self._graph.search(self._quantize(queries), k)
        keys = np.atleast_2d(matches.keys).astype(np.int64)
        cosines = 1 - np.atleast_2d(matches.distances).astype(np.float32)
        if len(queries) > 1:
            keys[np.arange(keys.shape[1]) >= np.asarray(matches.counts)[:, None]] = -1
        return keys, cosines

    def vectors(self, keys: Keys) -> Vectors:
        """Return the vectors of these keys, (n, dim), in the stored precision."""
        if not len(keys):
            return np.empty((0, self._dim), np.float32)
        return unit(np.stack(self._graph.get(keys.astype(np.uint64))).astype(np.float32))

    def write(self, folder: Path) -> None:
        """Write the graph."""
        self._graph.save(str(folder / GRAPH_FILE))

    @classmethod
    def read(cls, folder: Path, dim: int, settings: dict[str, Any], *, writable: bool) -> "HnswBackend":
        """Memory-map the graph, or load it if it will be changed."""
        backend, path = cls(dim, settings["precision"]), folder / GRAPH_FILE
        graph = backend._graph
        try:
            if writable:
                graph.load(str(path))
            else:
                graph.view(str(path))
        except (RuntimeError, ValueError, OSError) as error:
            raise KosbertError(f"{path} is damaged ({error}): build the index again from its source") from error
        if graph.ndim != dim:
            raise KosbertError(f"{path} has {graph.ndim} dimensions, not {dim}: build the index again")
        return backend

    def commit(self) -> None:
        """Do nothing."""

    def settings(self, directory: Path) -> dict[str, Any]:
        """Return the precision."""
        return {"precision": self._precision}

    def close(self) -> None:
        """Close the memory-mapped file."""
        self._graph = None


def _usearch() -> Any:
    try:
        import usearch.index
    except ImportError:
        raise UsageError("the hnsw backend needs usearch: pip install 'kosbert[search]'") from None
    return usearch.index
