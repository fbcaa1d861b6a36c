"""A graph of near neighbors (HNSW, usearch): a fraction of a millisecond where comparing every vector takes many.

Found are nearly always the same neighbors as by comparing all; `benchmarks/search.py` says how nearly. With int8 a
vector needs a byte a dimension.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kosbert.errors import KosbertError, UsageError, did_you_mean
from kosbert.search.backends.base import Found, Keys, Vectors, filtered
from kosbert.search.quantization import eight_bits

GRAPH = "graph.usearch"
PRECISIONS = {"float32": "f32", "float16": "f16", "int8": "i8"}
CONNECTIVITY = 16
EXPANSION_ADD = 128
EXPANSION_SEARCH = 128


class HnswStore:
    """A usearch index over cosine."""

    def __init__(self, dim: int, precision: str = "float32", graph: Any = None) -> None:
        if precision not in PRECISIONS:
            raise UsageError(f"unknown precision {precision!r}: {did_you_mean(precision, PRECISIONS)}")
        self._dim, self._precision = dim, precision
        self._graph = graph if graph is not None else self._empty()

    def _empty(self) -> Any:
        return _usearch().Index(
            ndim=self._dim, metric="cos", dtype=PRECISIONS[self._precision], connectivity=CONNECTIVITY,
            expansion_add=EXPANSION_ADD, expansion_search=EXPANSION_SEARCH,
        )  # fmt: skip

    def _stored(self, vectors: Vectors) -> NDArray[Any]:
        return eight_bits(vectors) if self._precision == "int8" else np.ascontiguousarray(vectors, np.float32)

    def add(self, keys: Keys, vectors: Vectors) -> None:
        """Take new vectors under new keys."""
        if len(keys):
            self._graph.add(keys.astype(np.uint64), self._stored(vectors))

    def remove(self, keys: Keys) -> None:
        """Forget the vectors of some keys."""
        if len(keys):
            self._graph.remove(keys.astype(np.uint64))

    def nearest(self, queries: Vectors, k: int, allowed: Keys | None) -> Found:
        """The k nearest of each query, among the allowed keys, all if None."""
        if allowed is None:
            return self._search(queries, min(k, len(self._graph)))
        return filtered(queries, k, allowed, len(self._graph), self._search, self.vectors)

    def _search(self, queries: Vectors, k: int) -> Found:
        # The width of the search has to grow with k, or the last of many neighbors are guesses.
        self._graph.expansion_search = max(EXPANSION_SEARCH, 2 * k)
        matches = self._graph.search(self._stored(queries), k)
        keys = np.atleast_2d(matches.keys).astype(np.int64)
        cosines = 1 - np.atleast_2d(matches.distances).astype(np.float32)
        if len(queries) > 1:
            keys[np.arange(keys.shape[1]) >= np.asarray(matches.counts)[:, None]] = -1
        return keys, cosines

    def vectors(self, keys: Keys) -> Vectors:
        """The vectors of some keys, (n, dim), as exactly as they were kept."""
        if not len(keys):
            return np.empty((0, self._dim), np.float32)
        from kosbert.model.similarity import unit

        return unit(np.stack(self._graph.get(keys.astype(np.uint64))).astype(np.float32))

    def write(self, folder: Path) -> None:
        """Write the graph."""
        self._graph.save(str(folder / GRAPH))

    @classmethod
    def read(cls, folder: Path, dim: int, settings: dict[str, Any], *, writing: bool) -> "HnswStore":
        """Map the graph into memory, or load it where it will be changed."""
        store = cls(dim, settings["precision"])
        try:
            graph = store._graph
            if writing:
                graph.load(str(folder / GRAPH))
            else:
                graph.view(str(folder / GRAPH))
        except (RuntimeError, ValueError, OSError) as error:
            raise KosbertError(
                f"{folder / GRAPH} is damaged ({error}): build the index again from its source"
            ) from error
        if graph.ndim != dim:
            raise KosbertError(f"{folder / GRAPH} has {graph.ndim} dimensions, not {dim}: build the index again")
        return store

    def commit(self) -> None:
        """Nothing waits."""

    def settings(self, directory: Path) -> dict[str, Any]:
        """How exactly vectors are kept."""
        return {"precision": self._precision}

    def close(self) -> None:
        """Let go of the mapped file."""
        self._graph = None


def _usearch() -> Any:
    try:
        import usearch.index
    except ImportError:
        raise UsageError("an index of kind hnsw needs usearch: pip install 'kosbert[search]'") from None
    return usearch.index
