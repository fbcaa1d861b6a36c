"""Binary search with rescoring (Shakir et al. 2024): one bit per dimension, 32 bytes per vector instead of 1,024.

The bits of every vector are compared with the query's (Hamming distance). The best `OVERSAMPLING` × k candidates are
rescored by cosine with their int8 vectors, which stay on disk until they are needed.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kosbert.errors import KosbertError
from kosbert.model.similarity import unit
from kosbert.model.topk import top_k
from kosbert.search.backends.base import Keys, Neighbors, Vectors, quantize_int8

OVERSAMPLING = 16  # candidates to rescore per requested neighbor
_MIN_CANDIDATES = 200
_KEYS_FILE, _BITS_FILE, _INT8_FILE = "keys.npy", "bits.npy", "int8.npy"


def pack_signs(vectors: Vectors) -> NDArray[np.uint64]:
    """Return the sign bit of each dimension, packed into (n, words) of 64 bits; the last word is zero-padded."""
    octets = np.packbits(vectors > 0, axis=1)
    octets = np.pad(octets, ((0, 0), (0, -octets.shape[1] % 8)))
    return np.ascontiguousarray(octets).view(np.uint64)


class BinaryBackend:
    """Sign bits in memory, int8 vectors on disk."""

    def __init__(
        self,
        dim: int,
        keys: Keys | None = None,
        bits: NDArray[np.uint64] | None = None,
        int8: NDArray[np.int8] | None = None,
    ) -> None:
        self._dim = dim
        self._keys = np.empty(0, np.int64) if keys is None else keys
        self._bits = np.empty((0, -(-dim // 64)), np.uint64) if bits is None else bits
        self._int8 = np.empty((0, dim), np.int8) if int8 is None else int8
        self._pending: list[tuple[Keys, NDArray[np.uint64], NDArray[np.int8]]] = []

    def add(self, keys: Keys, vectors: Vectors) -> None:
        """Add vectors under new keys in ascending order."""
        self._pending.append((keys, pack_signs(vectors), quantize_int8(vectors)))

    def _merge_pending(self) -> None:
        if self._pending:
            keys, bits, int8 = zip(*self._pending, strict=True)
            self._keys = np.concatenate([self._keys, *keys])
            self._bits = np.concatenate([self._bits, *bits])
            self._int8 = np.concatenate([self._int8, *int8])
            self._pending = []

    def remove(self, keys: Keys) -> None:
        """Remove the vectors of these keys."""
        self._merge_pending()
        keep = ~np.isin(self._keys, keys)
        self._keys, self._bits, self._int8 = self._keys[keep], self._bits[keep], self._int8[keep]

    def search(self, queries: Vectors, k: int, allowed: Keys | None) -> Neighbors:
        """Return the k nearest neighbors of each query among the allowed keys (None: all)."""
        self._merge_pending()
        rows = np.arange(len(self._keys)) if allowed is None else np.searchsorted(self._keys, allowed)
        bits = self._bits if allowed is None else self._bits[rows]
        k = min(k, len(rows))
        keys, cosines = np.empty((len(queries), k), np.int64), np.empty((len(queries), k), np.float32)
        candidates = min(len(rows), max(_MIN_CANDIDATES, OVERSAMPLING * k))
        for number, (query, query_bits) in enumerate(zip(queries, pack_signs(queries), strict=True)):
            distances = np.bitwise_count(bits ^ query_bits).sum(axis=1, dtype=np.uint16)  # (n,)
            if candidates < len(rows):
                candidate_rows = rows[np.sort(np.argpartition(distances, candidates - 1)[:candidates])]
            else:
                candidate_rows = rows
            scores = unit(self._int8[candidate_rows].astype(np.float32)) @ query  # (candidates,)
            best = top_k(scores[None], k)[0]
            keys[number], cosines[number] = self._keys[candidate_rows[best]], scores[best]
        return keys, cosines

    def vectors(self, keys: Keys) -> Vectors:
        """Return the vectors of these keys, (n, dim), dequantized."""
        self._merge_pending()
        return unit(self._int8[np.searchsorted(self._keys, keys)].astype(np.float32))

    def write(self, folder: Path) -> None:
        """Write keys, bits and int8 vectors as three .npy files."""
        self._merge_pending()
        for name, array in ((_KEYS_FILE, self._keys), (_BITS_FILE, self._bits), (_INT8_FILE, self._int8)):
            np.save(folder / name, array, allow_pickle=False)

    @classmethod
    def read(cls, folder: Path, dim: int) -> "BinaryBackend":
        """Load the bits and memory-map the int8 vectors."""
        try:
            keys, bits = (np.load(folder / name, allow_pickle=False) for name in (_KEYS_FILE, _BITS_FILE))
            int8 = np.load(folder / _INT8_FILE, mmap_mode="r" if len(keys) else None, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise KosbertError(
                f"the vectors in {folder} are damaged ({type(error).__name__}): build the index again from its source"
            ) from error
        if int8.shape != (len(keys), dim) or bits.shape != (len(keys), -(-dim // 64)) or int8.dtype != np.int8:
            raise KosbertError(f"the vectors in {folder} are not {len(keys)} of {dim} dimensions: build it again")
        return cls(dim, keys, bits, int8)

    def commit(self) -> None:
        """Do nothing."""

    def settings(self, directory: Path) -> dict[str, Any]:
        """Return no settings."""
        return {}

    def close(self) -> None:
        """Do nothing: the memory map ends with the array."""
