"""Encode sentences into the unit vectors of an index, and identify the model that encoded them."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kosbert.errors import UsageError
from kosbert.model.batching import windows
from kosbert.model.encoder import Encoder
from kosbert.model.similarity import unit
from kosbert.progress import ProgressCallback, ProgressEvent

if TYPE_CHECKING:
    from kosbert.model.encoder import SupportsEncode

_PROBES = ("오늘은 날씨가 좋아서 공원에서 책을 읽었다.", "새 컴퓨터를 싸게 사는 방법")
_MIN_PROBE_COSINE = 0.98  # threads and batches change it by less than 0.001, another pooling by far more


def unit_blocks(
    encoder: "SupportsEncode", texts: Sequence[str], *, on_progress: ProgressCallback | None = None
) -> Iterator[NDArray[np.float32]]:
    """Yield the unit vectors of some thousand texts at a time, (block, dim)."""
    if isinstance(encoder, Encoder):
        blocks = encoder.encode_stream(texts, normalize_embeddings=True)
    else:
        blocks = (unit(check_vectors(encoder.encode(window), len(window))) for window in windows(texts))
    done = 0
    if on_progress:
        on_progress(ProgressEvent("encode", 0, len(texts), "sentences"))
    for block in blocks:
        yield block
        done += len(block)
        if on_progress:
            on_progress(ProgressEvent("encode", done, len(texts), "sentences"))


def unit_vectors(
    encoder: "SupportsEncode", texts: Sequence[str], *, on_progress: ProgressCallback | None = None
) -> NDArray[np.float32]:
    """Return the unit vectors of all texts, (n, dim)."""
    blocks = list(unit_blocks(encoder, texts, on_progress=on_progress))
    return np.concatenate(blocks) if blocks else np.empty((0, _dimension(encoder)), np.float32)


def check_vectors(vectors: Any, rows: int, dim: int | None = None) -> NDArray[np.float32]:
    """Return vectors as float32, (rows, dim); raise if they are sparse, not finite, or have another shape."""
    if hasattr(vectors, "tocsr"):
        raise UsageError("an index cannot hold sparse vectors (tfidf): use a model, or search --hybrid for BM25")
    try:
        array = np.asarray(vectors, np.float32)
    except (TypeError, ValueError):
        raise UsageError("these are not vectors of equal length: give an array of shape (n, dim)") from None
    if array.ndim != 2 or len(array) != rows:
        raise UsageError(f"vectors of shape {array.shape} do not fit {rows} sentences: give one row per sentence")
    if dim is not None and array.shape[1] != dim:
        raise UsageError(f"vectors of {array.shape[1]} dimensions do not fit an index of {dim}: use its own model")
    finite = np.isfinite(array).all(axis=1)
    if not finite.all():
        raise UsageError(f"the vector of sentence {int(np.argmin(finite))} has NaN or infinity: encode it again")
    return array


def _dimension(encoder: "SupportsEncode") -> int:
    dim = getattr(encoder, "dim", None)
    return dim if isinstance(dim, int) else check_vectors(encoder.encode([_PROBES[0]]), 1).shape[1]


@dataclass(frozen=True)
class ModelIdentity:
    """The model that encoded an index: name, checksum of its files, and its vectors of two fixed sentences."""

    name: str
    checksum: str
    dim: int
    probe: tuple[tuple[float, ...], ...]

    def matches(self, model: "ModelIdentity") -> bool:
        """Return whether the vectors of both models can be compared; name and path may differ."""
        if (self.checksum, self.dim) != (model.checksum, model.dim):
            return False
        # Equal files are not enough: mean:NAME is not cls:NAME.
        left, right = np.array(self.probe, np.float32), np.array(model.probe, np.float32)
        cosines = np.sum(unit(left) * unit(right), axis=1)
        return np.array_equal(left, right) or bool(np.all(cosines > _MIN_PROBE_COSINE))

    def __str__(self) -> str:
        return f"{self.name} ({self.dim} dimensions, {self.checksum[:8]})"


def identify(encoder: "SupportsEncode", name: str = "") -> ModelIdentity:
    """Return the identity of an encoder; one without files is identified by its vectors of the fixed sentences."""
    vectors = check_vectors(encoder.encode(list(_PROBES)), len(_PROBES))
    probe = tuple(tuple(round(float(value), 5) for value in row) for row in vectors)
    source = str(getattr(encoder, "source", ""))
    if isinstance(encoder, Encoder) and source:
        from kosbert.model.directory import model_checksum

        checksum = model_checksum(encoder)
    else:
        checksum = hashlib.sha256(repr(probe).encode()).hexdigest()
    return ModelIdentity(name or source or type(encoder).__name__, checksum, vectors.shape[1], probe)
