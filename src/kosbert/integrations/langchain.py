"""LangChain: `KosbertEmbeddings` is an `Embeddings` for every vector store and retriever.

from langchain_core.vectorstores import InMemoryVectorStore
store = InMemoryVectorStore(KosbertEmbeddings())
store.add_texts(["배송이 늦어요", "환불해 주세요"])
store.similarity_search("언제 오나요?", k=1)
"""

from kosbert.errors import UsageError
from kosbert.integrations import document_vectors, query_vectors
from kosbert.model import SupportsEncode, load_any

try:
    from langchain_core.embeddings import Embeddings
except ImportError:
    raise UsageError("the LangChain adapter needs langchain-core: pip install langchain-core") from None


class KosbertEmbeddings(Embeddings):  # type: ignore[misc,unused-ignore]
    """Normalized embeddings of a kosbert model.

    Args:
        model: builtin, a directory, a Hugging Face name or a baseline; or an object with `encode`.
    """

    def __init__(self, model: str | SupportsEncode = "builtin") -> None:
        self.encoder = load_any(model) if isinstance(model, str) else model

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one embedding per document."""
        return document_vectors(self.encoder, texts).tolist()  # type: ignore[no-any-return]

    def embed_query(self, text: str) -> list[float]:
        """Return the embedding of a query."""
        return query_vectors(self.encoder, [text])[0].tolist()  # type: ignore[no-any-return]
