"""Exact search: every vector is compared. No loss and no tuning; fast enough up to some 100,000 vectors."""

from pathlib import Path
from typing import Any

import numpy as np

from kosbert.errors import KosbertError
from kosbert.model.topk import nearest_rows
from kosbert.search.backends.base import Keys, Neighbors, Vectors

KEYS_FILE, VECTORS_FILE = "keys.npy", "vectors.npy"


class ExactBackend:
    """Vectors in one float32 array, memory-mapped when read from disk."""

    def __init__(self, dim: int, keys: Keys | None = None, vectors: Vectors | None = None) -> None:
        self._keys = np.empty(0, np.int64) if keys is None else keys
        self._vectors = np.empty((0, dim), np.float32) if vectors is None else vectors
        self._pending: list[tuple[Keys, Vectors]] = []

    def add(self, keys: Keys, vectors: Vectors) -> None:
        """Add vectors under new keys in ascending order."""
        self._pending.append((keys, vectors))

    def _merge_pending(self) -> None:
        """Concatenate all pending vectors at once, so that adding one sentence at a time stays fast."""
        if self._pending:
            self._keys = np.concatenate([self._keys, *(keys for keys, _ in self._pending)])
            self._vectors = np.concatenate([self._vectors, *(vectors for _, vectors in self._pending)])
            self._pending = []

    def remove(self, keys: Keys) -> None:
        """Remove the vectors of these keys."""
        self._merge_pending()
        keep = ~np.isin(self._keys, keys)
        self._keys, self._vectors = self._keys[keep], self._vectors[keep]

    def search(self, queries: Vectors, k: int, allowed: Keys | None) -> Neighbors:
        """Return the k nearest neighbors of each query among the allowed keys (None: all)."""
        self._merge_pending()
        if allowed is None:
            rows, cosines = nearest_rows(queries, self._vectors, k)
            return self._keys[rows], cosines
        rows, cosines = nearest_rows(queries, self._vectors[np.searchsorted(self._keys, allowed)], k)
        return allowed[rows], cosines

    def vectors(self, keys: Keys) -> Vectors:
        """Return the vectors of these keys, (n, dim)."""
        self._merge_pending()
        return self._vectors[np.searchsorted(self._keys, keys)]

    def write(self, folder: Path) -> None:
        """Write keys and vectors as two .npy files."""
        self._merge_pending()
        np.save(folder / KEYS_FILE, self._keys, allow_pickle=False)
        np.save(folder / VECTORS_FILE, self._vectors, allow_pickle=False)

    @classmethod
    def read(cls, folder: Path, dim: int) -> "ExactBackend":
        """Load the keys and memory-map the vectors."""
        try:
            keys = np.load(folder / KEYS_FILE, allow_pickle=False)
            vectors = np.load(folder / VECTORS_FILE, mmap_mode="r" if len(keys) else None, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise KosbertError(
                f"the vectors in {folder} are damaged ({type(error).__name__}): build the index again from its source"
            ) from error
        if vectors.shape != (len(keys), dim) or vectors.dtype != np.float32:
            raise KosbertError(f"the vectors in {folder} are not {len(keys)} of {dim} dimensions: build it again")
        return cls(dim, keys, vectors)

    def commit(self) -> None:
        """Do nothing."""

    def settings(self, directory: Path) -> dict[str, Any]:
        """Return no settings."""
        return {}

    def close(self) -> None:
        """Do nothing: the memory map ends with the array."""
