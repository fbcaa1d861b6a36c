"""One bit a dimension to find candidates, eight to put them in order: 32 bytes a vector are looked at instead of 1,024.

Every vector's bits are compared with the query's (how many differ); the best `RESCORED` × k are then compared by cosine
with their eight-bit vectors, which stay on disk until they are needed (Shakir et al. 2024, binary with rescoring).
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kosbert.errors import KosbertError
from kosbert.model.similarity import unit
from kosbert.model.topk import top
from kosbert.search.backends.base import Found, Keys, Vectors
from kosbert.search.quantization import eight_bits, one_bit

RESCORED = 16  # candidates for each neighbor that is asked for
_LEAST = 200  # candidates in any case
_KEYS, _BITS, _STEPS = "keys.npy", "bits.npy", "steps.npy"


class BinaryStore:
    """Bits in memory, eight-bit vectors on disk."""

    def __init__(
        self,
        dim: int,
        keys: Keys | None = None,
        bits: NDArray[np.uint64] | None = None,
        steps: NDArray[np.int8] | None = None,
    ) -> None:
        self._dim = dim
        self._keys = np.empty(0, np.int64) if keys is None else keys
        self._bits = np.empty((0, -(-dim // 64)), np.uint64) if bits is None else bits
        self._steps = np.empty((0, dim), np.int8) if steps is None else steps
        self._new: list[tuple[Keys, NDArray[np.uint64], NDArray[np.int8]]] = []

    def add(self, keys: Keys, vectors: Vectors) -> None:
        """Take new vectors under new keys, which grow."""
        self._new.append((keys, one_bit(vectors), eight_bits(vectors)))

    def _gather(self) -> None:
        if self._new:
            keys, bits, steps = zip(*self._new, strict=True)
            self._keys = np.concatenate([self._keys, *keys])
            self._bits = np.concatenate([self._bits, *bits])
            self._steps = np.concatenate([self._steps, *steps])
            self._new = []

    def remove(self, keys: Keys) -> None:
        """Forget the vectors of some keys."""
        self._gather()
        keep = ~np.isin(self._keys, keys)
        self._keys, self._bits, self._steps = self._keys[keep], self._bits[keep], self._steps[keep]

    def nearest(self, queries: Vectors, k: int, allowed: Keys | None) -> Found:
        """The k nearest of each query, among the allowed keys, all if None."""
        self._gather()
        rows = np.arange(len(self._keys)) if allowed is None else np.searchsorted(self._keys, allowed)
        bits = self._bits if allowed is None else self._bits[rows]
        k = min(k, len(rows))
        keys, cosines = np.empty((len(queries), k), np.int64), np.empty((len(queries), k), np.float32)
        many = min(len(rows), max(_LEAST, RESCORED * k))
        for number, (query, wanted) in enumerate(zip(queries, one_bit(queries), strict=True)):
            differing = np.bitwise_count(bits ^ wanted).sum(axis=1, dtype=np.uint16)  # (n,)
            chosen = rows[np.sort(np.argpartition(differing, many - 1)[:many])] if many < len(rows) else rows
            near = unit(self._steps[chosen].astype(np.float32)) @ query  # (many,)
            best = top(near[None], k)[0]
            keys[number], cosines[number] = self._keys[chosen[best]], near[best]
        return keys, cosines

    def vectors(self, keys: Keys) -> Vectors:
        """The vectors of some keys, (n, dim), as exactly as they were kept."""
        self._gather()
        return unit(self._steps[np.searchsorted(self._keys, keys)].astype(np.float32))

    def write(self, folder: Path) -> None:
        """Write three arrays."""
        self._gather()
        for name, array in ((_KEYS, self._keys), (_BITS, self._bits), (_STEPS, self._steps)):
            np.save(folder / name, array, allow_pickle=False)

    @classmethod
    def read(cls, folder: Path, dim: int) -> "BinaryStore":
        """Read the bits, and map the eight-bit vectors into memory."""
        try:
            keys, bits = (np.load(folder / name, allow_pickle=False) for name in (_KEYS, _BITS))
            steps = np.load(folder / _STEPS, mmap_mode="r" if len(keys) else None, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise KosbertError(
                f"the vectors in {folder} are damaged ({type(error).__name__}): build the index again from its source"
            ) from error
        if steps.shape != (len(keys), dim) or bits.shape != (len(keys), -(-dim // 64)) or steps.dtype != np.int8:
            raise KosbertError(f"the vectors in {folder} are not {len(keys)} of {dim} dimensions: build it again")
        return cls(dim, keys, bits, steps)

    def commit(self) -> None:
        """Nothing waits."""

    def settings(self, directory: Path) -> dict[str, Any]:
        """Nothing to remember."""
        return {}

    def close(self) -> None:
        """Nothing to let go of."""
