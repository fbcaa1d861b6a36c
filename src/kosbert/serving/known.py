"""Vectors that the gatherer computed, for code that asks an encoder: search and explanations stay as they are."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray


class PrecomputedEncoder:
    """Looks like an encoder, and knows the vectors of some texts already."""

    def __init__(self, vectors: Mapping[str, NDArray[np.float32]]) -> None:
        self._vectors = vectors

    def encode(self, sentences: Sequence[str]) -> NDArray[np.float32]:
        """What was computed before, (n, dim)."""
        return np.stack([self._vectors[sentence] for sentence in sentences])
