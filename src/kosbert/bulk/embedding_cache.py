"""Vectors of sentences that were seen before, in a fixed amount of memory: real text repeats itself."""

from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

MEMORY = 32 * 1024**2
"""Bytes of vectors that are remembered."""


class EmbeddingCache:
    """Encode only what is new; the sentences seen last are remembered, known by a hash of 16 bytes.

    Args:
        encode: sentences to vectors, (n, dim).
        dim: the length of a vector.
        memory: bytes of vectors to remember; 0 for none.
    """

    def __init__(self, encode: Callable[[list[str]], NDArray[np.float32]], dim: int, memory: int = MEMORY) -> None:
        self._encode = encode
        self._places: OrderedDict[bytes, int] = OrderedDict()
        self._vectors = np.empty((memory // (4 * dim), dim), np.float32)
        self.found = 0

    def __call__(self, texts: list[str]) -> NDArray[np.float32]:
        """The vectors of the texts, (n, dim)."""
        keys = [blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest() for text in texts]
        result = np.empty((len(texts), self._vectors.shape[1]), np.float32)
        new: dict[bytes, int] = {}
        places: list[int] = []  # of each text that is not remembered, among the new ones
        missing: list[int] = []
        for number, key in enumerate(keys):
            place = self._places.get(key)
            if place is None:
                missing.append(number)
                places.append(new.setdefault(key, number))
            else:
                self._places.move_to_end(key)
                result[number] = self._vectors[place]
        self.found += len(texts) - len(new)
        if new:
            vectors = self._encode([texts[number] for number in new.values()])
            order = {number: place for place, number in enumerate(new.values())}
            result[missing] = vectors[[order[number] for number in places]]
            for key, vector in zip(new, vectors, strict=True):
                self._remember(key, vector)
        return result

    def _remember(self, key: bytes, vector: NDArray[np.float32]) -> None:
        if not len(self._vectors):
            return
        if len(self._places) < len(self._vectors):
            place = len(self._places)
        else:
            _, place = self._places.popitem(last=False)
        self._places[key] = place
        self._vectors[place] = vector
