"""MTEB: `MtebEncoder` runs a kosbert model on its tasks (`pip install 'kosbert[mteb]'`; MTEB downloads its data).

Example:
    >>> from kosbert.integrations.mteb import MtebEncoder, korean_tasks
    >>> mteb.evaluate(MtebEncoder(kosbert.load("runs/nli-sts/model"), "me/nli-sts"), korean_tasks())
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kosbert.errors import UsageError
from kosbert.evaluation.sts import paired_similarity
from kosbert.model import Encoder, SupportsEncode, similarity_matrix


class MtebEncoder:
    """An encoder with the interface of an MTEB model.

    Args:
        encoder: anything with `encode`.
        name: the name of the model in MTEB's results, organization/model.
    """

    def __init__(self, encoder: SupportsEncode, name: str = "kosbert/local") -> None:
        mteb = _mteb()
        if name.count("/") != 1:
            raise UsageError(f"MTEB needs a name of two parts, not {name!r}: write organization/model")
        self._encoder = encoder
        self.mteb_model_meta = mteb.models.ModelMeta.create_empty({"name": name, "revision": "local"})

    def encode(
        self, inputs: Iterable[Mapping[str, Sequence[str]]], *, prompt_type: Any = None, **_: Any
    ) -> NDArray[np.float32]:
        """Return the embeddings of all texts of MTEB's batches, with the model's query or document prompt."""
        texts = [text for batch in inputs for text in batch["text"]]
        encode = self._encoder.encode
        if isinstance(self._encoder, Encoder):
            methods = {"query": self._encoder.encode_query, "document": self._encoder.encode_document}
            encode = methods.get(getattr(prompt_type, "value", prompt_type), encode)
        return np.asarray(encode(texts), np.float32)

    def similarity(self, embeddings1: Any, embeddings2: Any) -> NDArray[np.float32]:
        """Return the cosine of each of `embeddings1` with each of `embeddings2`."""
        return similarity_matrix(embeddings1, embeddings2, "cosine")

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> NDArray[np.float64]:
        """Return the cosine of the first with the first, the second with the second, …"""
        return paired_similarity(np.asarray(embeddings1), np.asarray(embeddings2), "cosine")


def korean_tasks() -> Any:
    """Return all public MTEB tasks with Korean text, restricted to Korean."""
    return _mteb().get_tasks(languages=["kor"], exclusive_language_filter=True)


def _mteb() -> Any:
    try:
        import mteb
    except ImportError:
        raise UsageError("MTEB is not installed: pip install 'kosbert[mteb]'") from None
    return mteb
