"""Every vector compared, in blocks: no loss, no tuning, and quick enough up to some 100,000 vectors."""

from pathlib import Path
from typing import Any

import numpy as np

from kosbert.errors import KosbertError
from kosbert.model.topk import nearest_rows
from kosbert.search.backends.base import Found, Keys, Vectors

VECTORS, KEYS = "vectors.npy", "keys.npy"


class ExactStore:
    """Vectors in one array, read from disk as they are needed."""

    def __init__(self, dim: int, keys: Keys | None = None, vectors: Vectors | None = None) -> None:
        self._keys = np.empty(0, np.int64) if keys is None else keys
        self._vectors = np.empty((0, dim), np.float32) if vectors is None else vectors
        self._new: list[tuple[Keys, Vectors]] = []

    def add(self, keys: Keys, vectors: Vectors) -> None:
        """Take new vectors under new keys, which grow."""
        self._new.append((keys, vectors))

    def _gather(self) -> None:
        """Put what was added into the one array, all at once: adding a sentence at a time stays quick."""
        if self._new:
            self._keys = np.concatenate([self._keys, *(keys for keys, _ in self._new)])
            self._vectors = np.concatenate([self._vectors, *(vectors for _, vectors in self._new)])
            self._new = []

    def remove(self, keys: Keys) -> None:
        """Forget the vectors of some keys."""
        self._gather()
        keep = ~np.isin(self._keys, keys)
        self._keys, self._vectors = self._keys[keep], self._vectors[keep]

    def nearest(self, queries: Vectors, k: int, allowed: Keys | None) -> Found:
        """The k nearest of each query, among the allowed keys, all if None."""
        self._gather()
        if allowed is None:
            places, cosines = nearest_rows(queries, self._vectors, k)
            return self._keys[places], cosines
        rows = np.searchsorted(self._keys, allowed)
        places, cosines = nearest_rows(queries, self._vectors[rows], k)
        return allowed[places], cosines

    def vectors(self, keys: Keys) -> Vectors:
        """The vectors of some keys, (n, dim)."""
        self._gather()
        return self._vectors[np.searchsorted(self._keys, keys)]

    def write(self, folder: Path) -> None:
        """Write two arrays."""
        self._gather()
        np.save(folder / KEYS, self._keys, allow_pickle=False)
        np.save(folder / VECTORS, self._vectors, allow_pickle=False)

    @classmethod
    def read(cls, folder: Path, dim: int) -> "ExactStore":
        """Map what `write` wrote into memory."""
        try:
            keys = np.load(folder / KEYS, allow_pickle=False)
            vectors = np.load(folder / VECTORS, mmap_mode="r" if len(keys) else None, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise KosbertError(
                f"the vectors in {folder} are damaged ({type(error).__name__}): build the index again from its source"
            ) from error
        if vectors.shape != (len(keys), dim) or vectors.dtype != np.float32:
            raise KosbertError(f"the vectors in {folder} are not {len(keys)} of {dim} dimensions: build it again")
        return cls(dim, keys, vectors)

    def commit(self) -> None:
        """Nothing waits."""

    def settings(self, directory: Path) -> dict[str, Any]:
        """Nothing to remember."""
        return {}

    def close(self) -> None:
        """Nothing to let go of."""
