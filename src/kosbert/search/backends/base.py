"""What an index asks of the place where its vectors are. One store a file: exact, binary, HNSW, Milvus."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kosbert.errors import UsageError, did_you_mean
from kosbert.model.topk import nearest_rows

KINDS = ("exact", "hnsw", "binary", "milvus")

Keys = NDArray[np.int64]
Vectors = NDArray[np.float32]
Found = tuple[Keys, Vectors]
"""Keys and cosines of the nearest, both (queries, k), nearest first; the key -1 fills up where there are fewer."""


class VectorStore(Protocol):
    """Unit vectors by key. Changes are lasting once `write` and, after the index switched to it, `commit` are done."""

    def add(self, keys: Keys, vectors: Vectors) -> None:
        """Take new vectors, (n, dim), under new keys, which grow."""

    def remove(self, keys: Keys) -> None:
        """Forget the vectors of some keys."""

    def nearest(self, queries: Vectors, k: int, allowed: Keys | None) -> Found:
        """The k nearest of each query, among the allowed keys, all if None."""

    def vectors(self, keys: Keys) -> Vectors:
        """The vectors of some keys, (n, dim)."""

    def write(self, folder: Path) -> None:
        """Write a file into a folder that nobody reads yet."""

    def commit(self) -> None:
        """Do what must wait until the index has switched to what was written."""

    def settings(self, directory: Path) -> dict[str, Any]:
        """What `open_store` needs to find it again."""

    def close(self) -> None:
        """Let go of files and connections."""


def new_store(kind: str, dim: int, *, precision: str, address: str) -> VectorStore:
    """An empty store."""
    if kind not in KINDS:
        raise UsageError(f"unknown kind of index {kind!r}: {did_you_mean(kind, KINDS)}")
    if precision != "float32" and kind != "hnsw":
        raise UsageError(f"an index of kind {kind} has one precision: leave it out, or choose hnsw")
    if address and kind != "milvus":
        raise UsageError(f"an index of kind {kind} has no address: leave it out, or choose milvus")
    if kind == "exact":
        from kosbert.search.backends.exact import ExactStore

        return ExactStore(dim)
    if kind == "binary":
        from kosbert.search.backends.binary import BinaryStore

        return BinaryStore(dim)
    if kind == "hnsw":
        from kosbert.search.backends.hnsw import HnswStore

        return HnswStore(dim, precision)
    from kosbert.search.backends.milvus import MilvusStore

    return MilvusStore.create(dim, address)


def open_store(kind: str, dim: int, folder: Path, settings: dict[str, Any], *, writing: bool) -> VectorStore:
    """The store whose file is in a folder; read in place unless it will be changed."""
    if kind == "exact":
        from kosbert.search.backends.exact import ExactStore

        return ExactStore.read(folder, dim)
    if kind == "binary":
        from kosbert.search.backends.binary import BinaryStore

        return BinaryStore.read(folder, dim)
    if kind == "hnsw":
        from kosbert.search.backends.hnsw import HnswStore

        return HnswStore.read(folder, dim, settings, writing=writing)
    from kosbert.search.backends.milvus import MilvusStore

    return MilvusStore.open(dim, settings, folder.parent, writing=writing)


def filtered(
    queries: Vectors,
    k: int,
    allowed: Keys,
    count: int,
    search: Callable[[Vectors, int], Found],
    vectors: Callable[[Keys], Vectors],
    few: int = 20_000,
    most: int | None = None,
) -> Found:
    """The nearest among allowed keys, of a store of `count` vectors whose own search knows no filter.

    Few allowed vectors are compared one by one; among many, the search is asked for more until enough are allowed, but
    for `most` at most, where a store sets a limit.
    """
    enough = count // 4 if most is None else min(count // 4, most)
    wanted = min(k, len(allowed))
    more = int(2 * k * count / max(1, len(allowed))) + 10
    while len(allowed) > few and more < enough:
        keys, cosines = search(queries, more)
        fits = np.isin(keys, allowed)
        if (np.count_nonzero(fits, axis=1) >= wanted).all():
            order = np.argsort(~fits, axis=1, kind="stable")[:, :wanted]
            return np.take_along_axis(keys, order, axis=1), np.take_along_axis(cosines, order, axis=1)
        more *= 4
    return by_keys(queries, wanted, allowed, vectors)


def by_keys(queries: Vectors, k: int, keys: Keys, vectors: Callable[[Keys], Vectors], block: int = 20_000) -> Found:
    """The nearest among some keys, by comparing all of their vectors, a block at a time."""
    best_keys, best = np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0), np.float32)
    for start in range(0, len(keys), block):
        some = keys[start : start + block]
        places, cosines = nearest_rows(queries, vectors(some), k)
        best_keys = np.concatenate([best_keys, some[places]], axis=1)
        best = np.concatenate([best, cosines], axis=1)
        order = np.argsort(-best, axis=1, kind="stable")[:, :k]
        best_keys, best = np.take_along_axis(best_keys, order, axis=1), np.take_along_axis(best, order, axis=1)
    return best_keys, best
