"""Our encoder as an MTEB model: `pip install 'kosbert[mteb]'`; the benchmark fetches its data over the network.

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
from kosbert.model.encoder import SupportsEncode
from kosbert.model.similarity import similarity_matrix

Vectors = NDArray[np.float32]


class MtebEncoder:
    """An encoder behind the interface that MTEB calls.

    Args:
        encoder: anything with `encode`.
        name: under which MTEB files the results, as organization/model.
    """

    def __init__(self, encoder: SupportsEncode, name: str = "kosbert/local") -> None:
        mteb = _mteb()
        if name.count("/") != 1:
            raise UsageError(f"MTEB wants a name of two parts, not {name!r}: write organization/model")
        self._encoder = encoder
        self.mteb_model_meta = mteb.models.ModelMeta.create_empty({"name": name, "revision": "local"})

    def encode(self, inputs: Iterable[Mapping[str, Sequence[str]]], **_: Any) -> Vectors:
        """The vectors of all texts of MTEB's batches, in order; prompts do not exist for us."""
        texts = [text for batch in inputs for text in batch["text"]]
        return np.asarray(self._encoder.encode(texts), np.float32)

    def similarity(self, first: Any, second: Any) -> Vectors:
        """Cosine of each with each."""
        return similarity_matrix(first, second, "cosine")

    def similarity_pairwise(self, first: Any, second: Any) -> NDArray[np.float64]:
        """Cosine of the first with the first, the second with the second, …"""
        return paired_similarity(np.asarray(first), np.asarray(second), "cosine")


def korean_tasks() -> Any:
    """Every public task of MTEB that has Korean text, in Korean only."""
    return _mteb().get_tasks(languages=["kor"], exclusive_language_filter=True)


def _mteb() -> Any:
    try:
        import mteb
    except ImportError:
        raise UsageError("MTEB is not installed: pip install 'kosbert[mteb]'") from None
    return mteb
