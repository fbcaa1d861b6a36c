"""What users hold: sentences in, vectors out. What computes them (torch, ONNX Runtime) is in the files beside."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence, Sized
from itertools import cycle
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress

from kosbert.errors import UsageError
from kosbert.model.batching import by_budget, check, distinct, windows
from kosbert.model.hardware import BUDGETS, measured_budget, remembered_budget
from kosbert.model.similarity import similarity_matrix, unit

if TYPE_CHECKING:
    import torch

logger = logging.getLogger(__name__)

_WORDS = tuple("오늘 아침에 친구와 함께 공원을 걷다가 작은 강아지를 만나서 사진을 찍고 집에 와서 글을 썼다".split())  # noqa: SIM905


class SupportsEncode(Protocol):
    """Anything that turns sentences into vectors."""

    def encode(self, sentences: Sequence[str]) -> Any:
        """Return one row per sentence."""


class Encoder(ABC):
    """A model that turns sentences into vectors; made by `kosbert.load`. Several threads may use one Encoder."""

    source: str
    card: dict[str, Any]
    _tuned_budget: int | None = None

    @property
    @abstractmethod
    def dim(self) -> int:
        """Length of a vector."""

    @property
    @abstractmethod
    def max_length(self) -> int | None:
        """Tokens of a sentence that the model reads, with its special tokens; the rest is cut off. None: no limit."""

    @property
    @abstractmethod
    def _shape(self) -> str:
        """What decides how fast it is: backend, size, device."""

    @property
    @abstractmethod
    def _usual_budget(self) -> int:
        """Tokens of a batch that are good on most machines."""

    @property
    @abstractmethod
    def _pads(self) -> bool:
        """Whether the sentences of a batch are filled up to the longest."""

    @abstractmethod
    def tokenize(self, texts: list[str]) -> tuple[Sequence[Any], list[int]]:
        """What `forward` wants of each text, and its tokens before anything is cut off."""

    @abstractmethod
    def forward(self, batch: list[Any]) -> NDArray[np.float32]:
        """The vectors of some of what `tokenize` gave, (batch, dim)."""

    @overload
    def encode(
        self, sentences: str | Iterable[str], *, normalize: bool = ..., dim: int | None = ...,
        output: Literal["numpy"] = ..., token_budget: int | None = ..., progress: bool = ..., clean: bool = ...,
    ) -> NDArray[np.float32]: ...  # fmt: skip

    @overload
    def encode(
        self, sentences: str | Iterable[str], *, normalize: bool = ..., dim: int | None = ...,
        output: Literal["torch"], token_budget: int | None = ..., progress: bool = ..., clean: bool = ...,
    ) -> "torch.Tensor": ...  # fmt: skip

    def encode(
        self,
        sentences: str | Iterable[str],
        *,
        normalize: bool = False,
        dim: int | None = None,
        output: Literal["numpy", "torch"] = "numpy",
        token_budget: int | None = None,
        progress: bool = False,
        clean: bool = True,
    ) -> "NDArray[np.float32] | torch.Tensor":
        """Turn sentences into float32 vectors, (n, dim), in the order given; one string gives one vector, (dim,).

        Args:
            sentences: a string, or any iterable of strings.
            normalize: make each vector of length 1, so that the dot product is the cosine.
            dim: keep only the first dimensions (for models trained with Matryoshka).
            output: "numpy", or "torch" for a tensor on the CPU.
            token_budget: tokens of a batch; more needs more memory. default: tuned, or a usual one.
            progress: show a progress bar on standard error.
            clean: pass the text through `kosbert.text.clean` first.
        """
        if output not in ("numpy", "torch"):
            raise UsageError(f"unknown output {output!r}; choose numpy or torch")
        single = isinstance(sentences, str)
        stream = self.encode_stream(
            [sentences] if isinstance(sentences, str) else sentences,
            normalize=normalize, dim=dim, token_budget=token_budget, progress=progress, clean=clean,
        )  # fmt: skip
        parts = [np.empty((0, dim or self.dim), dtype=np.float32), *stream]
        vectors = parts[1] if len(parts) == 2 else np.concatenate(parts)
        if single:
            vectors = vectors[0]
        if output == "numpy":
            return vectors
        import torch

        return torch.from_numpy(vectors)

    def encode_stream(
        self,
        sentences: Iterable[str],
        *,
        normalize: bool = False,
        dim: int | None = None,
        token_budget: int | None = None,
        progress: bool = False,
        clean: bool = True,
    ) -> Iterator[NDArray[np.float32]]:
        """Like `encode`, but yield the vectors of some thousand sentences at a time: memory does not grow with n."""
        if dim is not None and not 1 <= dim <= self.dim:
            raise UsageError(f"dim {dim} is impossible; this model has {self.dim} dimensions, give 1 to {self.dim}")
        if token_budget is not None and token_budget < 1:
            raise UsageError(f"token_budget {token_budget} is impossible; give 1 or more, or leave it out")
        if isinstance(sentences, str | bytes | dict) or not isinstance(sentences, Iterable):
            raise UsageError(f"a {type(sentences).__name__} is not a list of sentences; give a list of strings")
        if isinstance(sentences, np.ndarray) and sentences.ndim != 1:
            raise UsageError(f"an array of shape {sentences.shape} is not a list of sentences; give one dimension")
        return self._stream(sentences, normalize, dim, token_budget or self.token_budget, progress, clean)

    @property
    def token_budget(self) -> int:
        """Tokens per batch: the default, or what `tune_token_budget` measured in this process.

        Not what it found at another time: vectors differ in the last digit with their company in a batch, and a score
        shall not depend on what was run before.
        """
        return self._tuned_budget or self._usual_budget

    def tune_token_budget(self) -> int:
        """Measure which token budget is fastest here: about a second, once for a kind of model on a machine."""
        self._tuned_budget = remembered_budget(self._shape)
        if self._tuned_budget:
            return self._tuned_budget
        # Lengths as sentences have them: most short, some long.
        texts = [" ".join(_WORDS[: 2 + (number * number) % len(_WORDS)]) for number in range(2_000)]
        tokenized, lengths = self.tokenize(texts)
        lengths = [min(length, self.max_length or length) for length in lengths]
        batches = {budget: cycle(by_budget(lengths, budget, padded=self._pads)) for budget in BUDGETS}

        def run(budget: int) -> int:
            batch = next(batches[budget])
            self.forward([tokenized[index] for index in batch])
            return sum(lengths[index] for index in batch)

        self._tuned_budget = measured_budget(self._shape, run)
        return self._tuned_budget

    def _stream(
        self, sentences: Iterable[str], normalize: bool, dim: int | None, budget: int, progress: bool, clean: bool
    ) -> Iterator[NDArray[np.float32]]:
        total = len(sentences) if isinstance(sentences, Sized) else None
        most = self.max_length
        shortened = 0
        with Progress(console=Console(stderr=True), disable=not progress) as bar:
            task = bar.add_task("encoding", total=total)
            for window in windows(check(sentences, clean=clean)):
                texts, inverse = distinct(window)
                tokenized, lengths = self.tokenize(texts)
                cut = np.array([most is not None and length > most for length in lengths])
                shortened += int(cut[inverse].sum())
                lengths = [min(length, most or length) for length in lengths]
                yield self._vectors(tokenized, lengths, normalize, dim, budget)[inverse]
                bar.advance(task, len(window))
        if shortened:
            logger.warning(
                "%d of the sentences had more than %s tokens and lost their end; "
                "load the model with a larger max_length if it allows that, or split them",
                shortened,
                most,
            )

    def _vectors(
        self, tokenized: Sequence[Any], lengths: list[int], normalize: bool, dim: int | None, budget: int
    ) -> NDArray[np.float32]:
        result = np.empty((len(tokenized), dim or self.dim), dtype=np.float32)
        for batch in by_budget(lengths, budget, padded=self._pads):
            vectors = self.forward([tokenized[index] for index in batch])[:, : dim or self.dim]  # (batch, dim)
            if normalize:
                vectors = unit(vectors)
            result[batch] = vectors
        return result

    def similarity(
        self, left: str | Iterable[str] | NDArray[Any], right: str | Iterable[str] | NDArray[Any],
        metric: str = "cosine",
    ) -> NDArray[np.float32]:  # fmt: skip
        """Compare each of `left` with each of `right`, (n, m): strings, or vectors that were encoded before.

        Metrics are cosine, dot, euclidean and manhattan; the last two are negative distances, so that more is nearer.
        """
        return similarity_matrix(self._as_vectors(left), self._as_vectors(right), metric)

    def _as_vectors(self, items: Any) -> Any:
        if isinstance(items, str):
            return self.encode([items])
        if hasattr(items, "detach") or (isinstance(items, np.ndarray) and items.dtype.kind in "fiu"):
            return items
        if isinstance(items, Iterable):
            items = list(items)
            if items and not isinstance(items[0], str):
                return items  # vectors as lists of numbers
        return self.encode(items)
