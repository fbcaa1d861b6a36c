"""LRU cache of sentence vectors in a fixed amount of memory: real text has many duplicates."""

from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

CACHE_BYTES = 32 * 1024**2
"""Default size of the cached vectors."""


class EmbeddingCache:
    """Encode only sentences that are not cached; the least recently used ones are evicted.

    Args:
        encode: sentences -> vectors, (n, dim).
        dim: the dimension of a vector.
        max_bytes: size of the cached vectors; 0 disables the cache.
    """

    def __init__(
        self, encode: Callable[[list[str]], NDArray[np.float32]], dim: int, max_bytes: int = CACHE_BYTES
    ) -> None:
        self._encode = encode
        self._slots: OrderedDict[bytes, int] = OrderedDict()  # 16-byte hash of the text -> row of _vectors
        self._vectors = np.empty((max_bytes // (4 * dim), dim), np.float32)
        self.hits = 0
        """Sentences that did not have to be encoded, duplicates within a call included."""

    def __call__(self, texts: list[str]) -> NDArray[np.float32]:
        """Return the vectors of the texts, (n, dim)."""
        keys = [blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest() for text in texts]
        result = np.empty((len(texts), self._vectors.shape[1]), np.float32)
        new_texts: list[str] = []
        new_rows: dict[bytes, int] = {}  # key -> position in new_texts
        missing: list[int] = []  # positions in texts that are not cached
        rows: list[int] = []  # for each of them, the position in new_texts
        for position, key in enumerate(keys):
            slot = self._slots.get(key)
            if slot is None:
                if key not in new_rows:
                    new_rows[key] = len(new_texts)
                    new_texts.append(texts[position])
                missing.append(position)
                rows.append(new_rows[key])
            else:
                self._slots.move_to_end(key)
                result[position] = self._vectors[slot]
        self.hits += len(texts) - len(new_texts)
        if new_texts:
            vectors = self._encode(new_texts)
            result[missing] = vectors[rows]
            for key, vector in zip(new_rows, vectors, strict=True):
                self._store(key, vector)
        return result

    def _store(self, key: bytes, vector: NDArray[np.float32]) -> None:
        if not len(self._vectors):
            return
        if len(self._slots) < len(self._vectors):
            slot = len(self._slots)
        else:
            _, slot = self._slots.popitem(last=False)
        self._slots[key] = slot
        self._vectors[slot] = vector
