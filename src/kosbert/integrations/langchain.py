"""LangChain's `Embeddings`: whatever takes those, takes a kosbert model.

from langchain_core.vectorstores import InMemoryVectorStore
store = InMemoryVectorStore(KosbertEmbeddings())
store.add_texts(["배송이 늦어요", "환불해 주세요"])
store.similarity_search("언제 오나요?", k=1)
"""

from typing import TYPE_CHECKING

from kosbert.errors import UsageError
from kosbert.model import load_any
from kosbert.search.encoding import unit_vectors

try:
    from langchain_core.embeddings import Embeddings
except ImportError:
    raise UsageError("the LangChain adapter needs langchain-core: pip install langchain-core") from None

if TYPE_CHECKING:
    from kosbert.model.encoder import SupportsEncode


class KosbertEmbeddings(Embeddings):  # type: ignore[misc,unused-ignore]
    """The vectors of a model, of length 1, as lists of numbers.

    Args:
        model: builtin, a directory, a hub name or a baseline; or anything with `encode`.
    """

    def __init__(self, model: "str | SupportsEncode" = "builtin") -> None:
        self.encoder = load_any(model) if isinstance(model, str) else model

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """The vector of each text."""
        vectors: list[list[float]] = unit_vectors(self.encoder, texts).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """The vector of a query."""
        return self.embed_documents([text])[0]
