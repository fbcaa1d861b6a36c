"""BERTopic: pass `KosbertBackend` as `embedding_model`.

BERTopic recognizes a SentenceTransformer by its class and replaces any unknown object by a default model without a
warning, so an `Encoder` needs this wrapper, BERTopic's interface for custom embeddings.

from bertopic import BERTopic
topics, _ = BERTopic(embedding_model=KosbertBackend()).fit_transform(documents)
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kosbert.errors import UsageError
from kosbert.model import SupportsEncode, load_any

try:
    from bertopic.backend import BaseEmbedder
except ImportError:
    raise UsageError("the BERTopic adapter needs BERTopic: pip install bertopic") from None


class KosbertBackend(BaseEmbedder):  # type: ignore[misc,unused-ignore]
    """Embeddings of a kosbert model.

    Args:
        model: builtin, a directory, a Hugging Face name or a baseline; or an object with `encode`.
        encode_options: keywords of `encode`.
    """

    def __init__(self, model: str | SupportsEncode = "builtin", **encode_options: Any) -> None:
        super().__init__(embedding_model=load_any(model) if isinstance(model, str) else model)
        self.encode_options = encode_options

    def embed(self, documents: list[str], verbose: bool = False) -> NDArray[np.float32]:
        """Return one embedding per document or word."""
        options = self.encode_options | ({"show_progress_bar": True} if verbose else {})
        return np.asarray(self.embedding_model.encode(documents, **options), np.float32)
