"""From sentences to the unit vectors that an index holds, whatever encodes them, and which encoder that was."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress

from kosbert.errors import UsageError
from kosbert.model.batching import windows
from kosbert.model.encoder import Encoder
from kosbert.model.similarity import unit

if TYPE_CHECKING:
    from kosbert.model.encoder import SupportsEncode

_PROBES = ("오늘은 날씨가 좋아서 공원에서 책을 읽었다.", "새 컴퓨터를 싸게 사는 방법")
_SAME = 0.98  # cosine: threads and batches move it by less than 0.001, another pooling by far more


def unit_blocks(
    encoder: "SupportsEncode", texts: Sequence[str], *, progress: bool = False
) -> Iterator[NDArray[np.float32]]:
    """The vectors of some thousand texts at a time, of length 1, (block, dim)."""
    if isinstance(encoder, Encoder):
        yield from encoder.encode_stream(texts, normalize_embeddings=True, show_progress_bar=progress)
        return
    with Progress(console=Console(stderr=True), disable=not progress) as bar:
        task = bar.add_task("encoding", total=len(texts))
        for window in windows(texts):
            yield unit(checked(encoder.encode(window), len(window)))
            bar.advance(task, len(window))


def unit_vectors(encoder: "SupportsEncode", texts: Sequence[str], *, progress: bool = False) -> NDArray[np.float32]:
    """The vectors of all texts, of length 1, (n, dim)."""
    blocks = list(unit_blocks(encoder, texts, progress=progress))
    return np.concatenate(blocks) if blocks else np.empty((0, dimensions(encoder)), np.float32)


def checked(vectors: Any, rows: int, dim: int | None = None) -> NDArray[np.float32]:
    """The vectors as float32, (rows, dim); anything that an index cannot hold is refused."""
    if hasattr(vectors, "tocsr"):
        raise UsageError("sparse vectors (tfidf) do not fit an index: use a model, or search --hybrid for words")
    try:
        array = np.asarray(vectors, np.float32)
    except (TypeError, ValueError):
        raise UsageError("these are not vectors of equal length: give an array of shape (n, dim)") from None
    if array.ndim != 2 or len(array) != rows:
        raise UsageError(f"vectors of shape {array.shape} do not fit {rows} sentences: give one row a sentence")
    if dim is not None and array.shape[1] != dim:
        raise UsageError(f"vectors of {array.shape[1]} dimensions do not fit an index of {dim}: use its own model")
    finite = np.isfinite(array).all(axis=1)
    if not finite.all():
        raise UsageError(f"the vector of sentence {int(np.argmin(finite))} holds NaN or infinity: encode it again")
    return array


def dimensions(encoder: "SupportsEncode") -> int:
    """Length of a vector."""
    dim = getattr(encoder, "dim", None)
    return dim if isinstance(dim, int) else checked(encoder.encode([_PROBES[0]]), 1).shape[1]


@dataclass(frozen=True)
class ModelIdentity:
    """Which model made the vectors: its name, a checksum of its files, and what it says to two fixed sentences."""

    name: str
    checksum: str
    dim: int
    probe: tuple[tuple[float, ...], ...]

    def same_as(self, other: "ModelIdentity") -> bool:
        """Whether queries of one may be compared with sentences of the other; the name and the place may differ."""
        if (self.checksum, self.dim) != (other.checksum, other.dim):
            return False
        ours, theirs = np.array(self.probe, np.float32), np.array(other.probe, np.float32)
        # Equal files are not enough: mean:NAME is not cls:NAME.
        return np.array_equal(ours, theirs) or bool(np.all(np.sum(unit(ours) * unit(theirs), axis=1) > _SAME))

    def __str__(self) -> str:
        return f"{self.name} ({self.dim} dimensions, {self.checksum[:8]})"


def identify(encoder: "SupportsEncode", name: str = "") -> ModelIdentity:
    """Recognize an encoder; one without files is known by the vectors of the fixed sentences alone."""
    vectors = checked(encoder.encode(list(_PROBES)), len(_PROBES))
    probe = tuple(tuple(round(float(value), 5) for value in row) for row in vectors)
    source = str(getattr(encoder, "source", ""))
    if isinstance(encoder, Encoder) and source:
        from kosbert.model.directory import model_checksum

        checksum = model_checksum(encoder)
    else:
        checksum = hashlib.sha256(repr(probe).encode()).hexdigest()
    return ModelIdentity(name or source or type(encoder).__name__, checksum, vectors.shape[1], probe)
