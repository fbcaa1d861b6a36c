"""Vectors in fewer bits: a byte a dimension, or one bit."""

import numpy as np
from numpy.typing import NDArray

from kosbert.search.backends.base import Vectors


def eight_bits(vectors: Vectors) -> NDArray[np.int8]:
    """Each vector scaled to its own largest value, (n, dim): the cosine does not see it, and all 255 steps are used.

    A unit vector of 256 dimensions times 127, as libraries do it, uses some 30 of them.
    """
    largest = np.maximum(np.abs(vectors).max(axis=1, keepdims=True), 1e-12)
    steps: NDArray[np.int8] = np.rint(vectors * (127 / largest)).astype(np.int8)
    return steps


def one_bit(vectors: Vectors) -> NDArray[np.uint64]:
    """The sign of each dimension, 64 in a word, (n, words); the last word is filled up with zeros."""
    octets = np.packbits(vectors > 0, axis=1)
    octets = np.pad(octets, ((0, 0), (0, -octets.shape[1] % 8)))
    return np.ascontiguousarray(octets).view(np.uint64)
