"""LlamaIndex: `KosbertEmbedding` is a `BaseEmbedding`, for example as `Settings.embed_model`.

from llama_index.core import Document, VectorStoreIndex
index = VectorStoreIndex.from_documents([Document(text="배송이 늦어요")], embed_model=KosbertEmbedding())
index.as_retriever(similarity_top_k=1).retrieve("언제 오나요?")
"""

import asyncio
from typing import Any

from kosbert.errors import UsageError
from kosbert.integrations import document_vectors, query_vectors
from kosbert.model import SupportsEncode, load_any

try:
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from pydantic import PrivateAttr
except ImportError:
    raise UsageError("the LlamaIndex adapter needs llama-index-core: pip install llama-index-core") from None


class KosbertEmbedding(BaseEmbedding):  # type: ignore[misc,unused-ignore]
    """Normalized embeddings of a kosbert model.

    Args:
        model: builtin, a directory, a Hugging Face name or a baseline; or an object with `encode`.
        options: further arguments of `BaseEmbedding`, such as `embed_batch_size`.
    """

    _encoder: SupportsEncode = PrivateAttr()

    def __init__(self, model: str | SupportsEncode = "builtin", **options: Any) -> None:
        encoder = load_any(model) if isinstance(model, str) else model
        name = model if isinstance(model, str) else str(getattr(model, "source", "") or type(model).__name__)
        super().__init__(**{"model_name": name, "embed_batch_size": 256, **options})
        self._encoder = encoder

    @classmethod
    def class_name(cls) -> str:
        """Return the name that LlamaIndex writes into serialized settings."""
        return "KosbertEmbedding"

    def _get_query_embedding(self, query: str) -> list[float]:
        return query_vectors(self._encoder, [query])[0].tolist()  # type: ignore[no-any-return]

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return await asyncio.to_thread(self._get_query_embedding, query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return document_vectors(self._encoder, texts).tolist()  # type: ignore[no-any-return]
