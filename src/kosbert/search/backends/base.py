"""The interface between an index and its vectors. One backend per file: exact, binary, HNSW, Milvus."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kosbert.errors import UsageError, did_you_mean
from kosbert.model.topk import nearest_rows

BACKENDS = ("exact", "hnsw", "binary", "milvus")

Keys = NDArray[np.int64]
Vectors = NDArray[np.float32]
Neighbors = tuple[Keys, NDArray[np.float32]]
"""Keys and cosines of the nearest vectors, both (queries, k), nearest first; key -1 is padding."""


class VectorBackend(Protocol):
    """Unit vectors by key. A change is durable after `write`, the switch of the index to it, and `commit`."""

    def add(self, keys: Keys, vectors: Vectors) -> None:
        """Add vectors, (n, dim), under new keys in ascending order."""

    def remove(self, keys: Keys) -> None:
        """Remove the vectors of these keys."""

    def search(self, queries: Vectors, k: int, allowed: Keys | None) -> Neighbors:
        """Return the k nearest neighbors of each query among the allowed keys (None: all)."""

    def vectors(self, keys: Keys) -> Vectors:
        """Return the vectors of these keys, (n, dim)."""

    def write(self, folder: Path) -> None:
        """Write the vectors into the folder of a new generation."""

    def commit(self) -> None:
        """Do what must wait until the index has switched to the new generation."""

    def settings(self, directory: Path) -> dict[str, Any]:
        """Return what `open_backend` needs to open the vectors again."""

    def close(self) -> None:
        """Close files and connections."""


def new_backend(name: str, dim: int, *, precision: str, uri: str) -> VectorBackend:
    """Return an empty backend."""
    if name not in BACKENDS:
        raise UsageError(f"unknown backend {name!r}: {did_you_mean(name, BACKENDS)}")
    if precision != "float32" and name != "hnsw":
        raise UsageError(f"the {name} backend has no choice of precision: leave it out, or use hnsw")
    if uri and name != "milvus":
        raise UsageError(f"the {name} backend has no URI: leave it out, or use milvus")
    if name == "exact":
        from kosbert.search.backends.exact import ExactBackend

        return ExactBackend(dim)
    if name == "binary":
        from kosbert.search.backends.binary import BinaryBackend

        return BinaryBackend(dim)
    if name == "hnsw":
        from kosbert.search.backends.hnsw import HnswBackend

        return HnswBackend(dim, precision)
    from kosbert.search.backends.milvus import MilvusBackend

    return MilvusBackend.create(dim, uri)


def open_backend(name: str, dim: int, folder: Path, settings: dict[str, Any], *, writable: bool) -> VectorBackend:
    """Open the vectors of a generation; files are memory-mapped unless `writable`."""
    if name == "exact":
        from kosbert.search.backends.exact import ExactBackend

        return ExactBackend.read(folder, dim)
    if name == "binary":
        from kosbert.search.backends.binary import BinaryBackend

        return BinaryBackend.read(folder, dim)
    if name == "hnsw":
        from kosbert.search.backends.hnsw import HnswBackend

        return HnswBackend.read(folder, dim, settings, writable=writable)
    from kosbert.search.backends.milvus import MilvusBackend

    return MilvusBackend.open(dim, settings, folder.parent, writable=writable)


def filtered_search(
    queries: Vectors,
    k: int,
    allowed: Keys,
    count: int,
    search: Callable[[Vectors, int], Neighbors],
    vectors: Callable[[Keys], Vectors],
    brute_force_limit: int = 20_000,
    max_k: int | None = None,
) -> Neighbors:
    """Search among allowed keys with a search that knows no filter.

    Up to `brute_force_limit` allowed vectors are compared one by one. Among more, the search is repeated with a larger
    k until enough hits are allowed; where that k would pass a quarter of all vectors, all allowed ones are compared.

    Args:
        queries: (n, dim).
        k: hits per query.
        allowed: keys that may be returned.
        count: number of vectors in the backend.
        search: the backend's search, (queries, k) -> neighbors.
        vectors: the backend's vectors by key.
        brute_force_limit: allowed keys up to which all of them are compared.
        max_k: largest k that `search` takes.
    """
    k_limit = count // 4 if max_k is None else min(count // 4, max_k)
    target = min(k, len(allowed))
    search_k = int(2 * k * count / max(1, len(allowed))) + 10
    while len(allowed) > brute_force_limit and search_k < k_limit:
        keys, cosines = search(queries, search_k)
        is_allowed = np.isin(keys, allowed)
        if (np.count_nonzero(is_allowed, axis=1) >= target).all():
            order = np.argsort(~is_allowed, axis=1, kind="stable")[:, :target]
            return np.take_along_axis(keys, order, axis=1), np.take_along_axis(cosines, order, axis=1)
        search_k *= 4
    return brute_force_search(queries, target, allowed, vectors)


def brute_force_search(
    queries: Vectors, k: int, keys: Keys, vectors: Callable[[Keys], Vectors], block_size: int = 20_000
) -> Neighbors:
    """Compare the queries with the vectors of all `keys`, one block at a time."""
    best_keys, best_cosines = np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0), np.float32)
    for start in range(0, len(keys), block_size):
        block_keys = keys[start : start + block_size]
        rows, cosines = nearest_rows(queries, vectors(block_keys), k)
        best_keys = np.concatenate([best_keys, block_keys[rows]], axis=1)
        best_cosines = np.concatenate([best_cosines, cosines], axis=1)
        order = np.argsort(-best_cosines, axis=1, kind="stable")[:, :k]
        best_keys = np.take_along_axis(best_keys, order, axis=1)
        best_cosines = np.take_along_axis(best_cosines, order, axis=1)
    return best_keys, best_cosines


def quantize_int8(vectors: Vectors) -> NDArray[np.int8]:
    """Quantize each vector, (n, dim), with its own scale, so that its largest value becomes 127.

    The scale cancels in the cosine. With one scale of 127 for all, as libraries do it, a unit vector of 256 dimensions
    uses some 30 of the 255 levels.
    """
    largest = np.maximum(np.abs(vectors).max(axis=1, keepdims=True), 1e-12)
    quantized: NDArray[np.int8] = np.rint(vectors * (127 / largest)).astype(np.int8)
    return quantized
