"""Sentences beside others that the teacher finds similar, so that a batch holds pairs of every similarity.

Sentences that meet by chance have nothing to do with each other, and a student that knows only this learns little of
what people compare: pairs that are somewhat alike.
"""

import numpy as np
from numpy.typing import NDArray

_PART = 16_384  # sentences that are compared with each other, (_PART, _PART) cosines in blocks
_BLOCK = 2_048


def neighbors(vectors: NDArray[np.floating], count: int, *, seed: int) -> NDArray[np.int64]:
    """For each vector the numbers of its nearest among a part of the others, drawn with the seed, (vectors, count).

    The nearest of a part are near, and seldom the very nearest of all, which would be copies with another comma.
    """
    order = np.random.default_rng(seed).permutation(len(vectors))
    found = np.empty((len(vectors), count), np.int64)
    for part in np.array_split(order, -(-len(vectors) // _PART)):
        unit = vectors[part].astype(np.float32)
        unit /= np.linalg.norm(unit, axis=1, keepdims=True).clip(1e-12)
        for start in range(0, len(part), _BLOCK):
            block = slice(start, start + _BLOCK)
            cosines = unit[block] @ unit.T  # (block, part)
            np.fill_diagonal(cosines[:, block], -np.inf)  # nobody is a neighbor of itself
            nearest = np.argpartition(-cosines, count - 1, axis=1)[:, :count]
            ranks = np.argsort(-np.take_along_axis(cosines, nearest, axis=1), axis=1)
            found[part[block]] = part[np.take_along_axis(nearest, ranks, axis=1)]
    return found
