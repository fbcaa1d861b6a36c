"""KeyBERT: pass `KosbertBackend` as `model`.

KeyBERT recognizes a SentenceTransformer by its class and replaces any unknown object by a default model without a
warning, so an `Encoder` needs this wrapper, KeyBERT's interface for custom embeddings.

from keybert import KeyBERT
keywords = KeyBERT(model=KosbertBackend()).extract_keywords(document)
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kosbert.errors import UsageError
from kosbert.model import SupportsEncode, load_any

try:
    from keybert.backend import BaseEmbedder
except ImportError:
    raise UsageError("the KeyBERT adapter needs KeyBERT: pip install keybert") from None


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
