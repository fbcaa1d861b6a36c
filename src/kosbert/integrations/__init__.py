"""Adapters for other libraries, one per file."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kosbert.model import Encoder, SupportsEncode
from kosbert.search.encoding import unit_vectors


def query_vectors(encoder: SupportsEncode, texts: Sequence[str]) -> NDArray[np.float32]:
    """Return normalized embeddings of search queries, with the model's query prompt if it has one."""
    if isinstance(encoder, Encoder):
        vectors: Any = encoder.encode_query(texts, normalize_embeddings=True)
        return np.asarray(vectors, np.float32)
    return unit_vectors(encoder, texts)


def document_vectors(encoder: SupportsEncode, texts: Sequence[str]) -> NDArray[np.float32]:
    """Return normalized embeddings of documents, with the model's document prompt if it has one."""
    if isinstance(encoder, Encoder):
        vectors: Any = encoder.encode_document(texts, normalize_embeddings=True)
        return np.asarray(vectors, np.float32)
    return unit_vectors(encoder, texts)
