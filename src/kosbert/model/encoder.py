"""`Encoder`: sentences in, embeddings out, with the interface of `SentenceTransformer`.

`torch_encoder` and `onnx_encoder` implement it for the two backends.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence, Sized
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict, Unpack, overload

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress

from kosbert.errors import UsageError, did_you_mean
from kosbert.model.batching import batches_by_tokens, checked_texts, distinct, windows
from kosbert.model.hardware import TOKEN_BUDGETS, cached_budget, measure_budget
from kosbert.model.similarity import pairwise_similarity, similarity_matrix, unit

if TYPE_CHECKING:
    import torch

logger = logging.getLogger(__name__)

_SAMPLE_TEXT = "오늘 아침에 친구와 함께 공원을 걷다가 작은 강아지를 만나서 사진을 찍고 집에 와서 글을 썼다"


class SupportsEncode(Protocol):
    """Anything that turns sentences into embeddings."""

    def encode(self, sentences: Sequence[str]) -> Any:
        """Return one row per sentence."""


@dataclass(frozen=True)
class Prepared:
    """Sentences as `Encoder.forward` takes them: cleaned, deduplicated, tokenized and truncated."""

    inputs: Sequence[Any]
    """One input of `forward` per distinct sentence."""
    lengths: list[int]
    """Tokens of each input, after truncation."""
    inverse: NDArray[np.intp]
    """For each sentence, the index of its input."""
    truncated: int
    """Sentences that were truncated, repeats included."""

    @property
    def tokens(self) -> int:
        """Tokens of all sentences, repeats included."""
        return int(np.array(self.lengths, np.int64)[self.inverse].sum())


class EncodeOptions(TypedDict, total=False):
    """Options of `Encoder.encode` that do not change the type of its result."""

    prompt_name: str | None
    prompt: str | None
    batch_size: int | None
    show_progress_bar: bool | None
    normalize_embeddings: bool
    truncate_dim: int | None
    device: "str | torch.device | None"
    token_budget: int | None
    clean: bool


class Encoder(ABC):
    """A sentence embedding model; create one with `kosbert.load`. Threads may share an Encoder."""

    source: str
    card: dict[str, Any]
    prompts: dict[str, str]
    """Texts to put in front of sentences, by name, from the model's configuration: {"query": "query: ", …}."""
    default_prompt_name: str | None
    """The prompt that `encode` uses when none is given; None: no prompt."""
    similarity_fn_name: str
    """The metric that `similarity` uses by default."""
    _tuned_budget: int | None = None

    @property
    @abstractmethod
    def dim(self) -> int:
        """Dimensions of an embedding."""

    @property
    @abstractmethod
    def max_length(self) -> int | None:
        """Maximum number of tokens per sentence, special tokens included; longer ones are truncated. None: no limit."""

    @property
    @abstractmethod
    def normalizes(self) -> bool:
        """Whether the model itself normalizes: then embeddings have length 1 even with normalize_embeddings=False."""

    @property
    @abstractmethod
    def _speed_key(self) -> str:
        """What determines the speed of this model: backend, size, device."""

    @property
    @abstractmethod
    def _default_budget(self) -> int:
        """Tokens per batch that work well on most machines."""

    @property
    @abstractmethod
    def _pads(self) -> bool:
        """Whether the sentences of a batch are padded to the longest one."""

    @abstractmethod
    def _tokenize(self, texts: list[str], prompt: str) -> tuple[Sequence[Any], list[int]]:
        """Return the input of `forward` for each text, and its number of tokens.

        For a truncated text that is any number above `max_length`.
        """

    @abstractmethod
    def forward(self, batch: list[Any]) -> NDArray[np.float32]:
        """Return the embeddings of some of `Prepared.inputs`, (batch, dim)."""

    @overload
    def encode(
        self, sentences: str | Iterable[str], *, convert_to_numpy: Literal[True] = ...,
        convert_to_tensor: Literal[False] = ..., **options: Unpack[EncodeOptions],
    ) -> NDArray[np.float32]: ...  # fmt: skip

    @overload
    def encode(
        self, sentences: str | Iterable[str], *, convert_to_numpy: bool = ...,
        convert_to_tensor: Literal[True], **options: Unpack[EncodeOptions],
    ) -> "torch.Tensor": ...  # fmt: skip

    @overload
    def encode(
        self, sentences: str | Iterable[str], *, convert_to_numpy: bool = ...,
        convert_to_tensor: bool = ..., **options: Unpack[EncodeOptions],
    ) -> "NDArray[np.float32] | torch.Tensor | list[torch.Tensor]": ...  # fmt: skip

    def encode(
        self,
        sentences: str | Iterable[str],
        *,
        prompt_name: str | None = None,
        prompt: str | None = None,
        batch_size: int | None = None,
        show_progress_bar: bool | None = False,
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        normalize_embeddings: bool = False,
        truncate_dim: int | None = None,
        device: "str | torch.device | None" = None,
        token_budget: int | None = None,
        clean: bool = True,
    ) -> "NDArray[np.float32] | torch.Tensor | list[torch.Tensor]":
        """Encode sentences as float32 embeddings, (n, dim), in the order given; one string gives one vector, (dim,).

        The keywords are those of `SentenceTransformer.encode`, plus `token_budget` and `clean`.

        Args:
            sentences: a string, or any iterable of strings.
            prompt_name: the key in `prompts` of the text to put in front of each sentence.
            prompt: that text itself; overrides `prompt_name`.
            batch_size: maximum number of sentences per batch. Default: only `token_budget` limits a batch.
            show_progress_bar: show a progress bar on standard error.
            convert_to_numpy: return an array; if False (and no tensor is requested), a list of tensors.
            convert_to_tensor: return one torch tensor, on the CPU; overrides `convert_to_numpy`.
            normalize_embeddings: scale embeddings to length 1, so that the dot product is the cosine. If False, return
                what the model computes; see `normalizes`.
            truncate_dim: keep only the first dimensions (for models trained with Matryoshka).
            device: where to compute this call. Default: where the model is.
            token_budget: maximum number of tokens per batch; more needs more memory. Default: `Encoder.token_budget`.
            clean: apply `kosbert.text.clean` to the sentences first.
        """
        single = isinstance(sentences, str)
        with nullcontext() if device is None else self._moved_to(str(device)):
            blocks = self.encode_stream(
                [sentences] if isinstance(sentences, str) else sentences,
                prompt_name=prompt_name, prompt=prompt, batch_size=batch_size, show_progress_bar=show_progress_bar,
                normalize_embeddings=normalize_embeddings, truncate_dim=truncate_dim, token_budget=token_budget,
                clean=clean,
            )  # fmt: skip
            parts = [np.empty((0, truncate_dim or self.dim), dtype=np.float32), *blocks]
        vectors = parts[1] if len(parts) == 2 else np.concatenate(parts)
        if single:
            vectors = vectors[0]
        if convert_to_numpy and not convert_to_tensor:
            return vectors
        import torch

        tensor = torch.from_numpy(vectors)
        return tensor if convert_to_tensor or single else list(tensor)

    def encode_query(
        self, sentences: str | Iterable[str], *, prompt_name: str | None = None, prompt: str | None = None,
        **options: Any,
    ) -> Any:  # fmt: skip
        """Encode search queries: `encode` with the model's "query" prompt unless another is given."""
        if prompt is None and prompt_name is None and "query" in self.prompts:
            prompt_name = "query"
        return self.encode(sentences, prompt_name=prompt_name, prompt=prompt, **options)

    def encode_document(
        self, sentences: str | Iterable[str], *, prompt_name: str | None = None, prompt: str | None = None,
        **options: Any,
    ) -> Any:  # fmt: skip
        """Encode documents: `encode` with the model's "document", "passage" or "corpus" prompt unless one is given."""
        if prompt is None and prompt_name is None:
            prompt_name = next((name for name in ("document", "passage", "corpus") if name in self.prompts), None)
        return self.encode(sentences, prompt_name=prompt_name, prompt=prompt, **options)

    def encode_stream(
        self,
        sentences: Iterable[str],
        *,
        prompt_name: str | None = None,
        prompt: str | None = None,
        batch_size: int | None = None,
        show_progress_bar: bool | None = False,
        normalize_embeddings: bool = False,
        truncate_dim: int | None = None,
        token_budget: int | None = None,
        clean: bool = True,
    ) -> Iterator[NDArray[np.float32]]:
        """Like `encode`, but yield the embeddings of some thousand sentences at a time, in constant memory."""
        if truncate_dim is not None and not 1 <= truncate_dim <= self.dim:
            raise UsageError(
                f"truncate_dim {truncate_dim} is impossible; this model has {self.dim} dimensions, give 1 to {self.dim}"
            )
        for name, value in (("token_budget", token_budget), ("batch_size", batch_size)):
            if value is not None and value < 1:
                raise UsageError(f"{name} {value} is impossible; give 1 or more, or leave it out")
        if isinstance(sentences, str | bytes | dict) or not isinstance(sentences, Iterable):
            raise UsageError(f"a {type(sentences).__name__} is not a list of sentences; give a list of strings")
        if isinstance(sentences, np.ndarray) and sentences.ndim != 1:
            raise UsageError(f"an array of shape {sentences.shape} is not a list of sentences; give one dimension")
        prompt = self._resolve_prompt(prompt, prompt_name)

        def encode_window(prepared: Prepared) -> NDArray[np.float32]:
            vectors = np.empty((len(prepared.inputs), truncate_dim or self.dim), dtype=np.float32)
            budget = token_budget or self.token_budget
            for batch in batches_by_tokens(prepared.lengths, budget, padded=self._pads, max_sentences=batch_size):
                part = self.forward([prepared.inputs[index] for index in batch])[:, : vectors.shape[1]]  # (batch, dim)
                vectors[batch] = unit(part) if normalize_embeddings else part
            return vectors[prepared.inverse]

        def stream() -> Iterator[NDArray[np.float32]]:
            truncated = 0
            total = len(sentences) if isinstance(sentences, Sized) else None
            with Progress(console=Console(stderr=True), disable=not show_progress_bar) as bar:
                task = bar.add_task("encoding", total=total)
                for window in windows(checked_texts(sentences, clean=clean)):
                    prepared = self._prepare(window, prompt)
                    truncated += prepared.truncated
                    yield encode_window(prepared)
                    bar.advance(task, len(window))
            if truncated:
                logger.warning(
                    "%d of the sentences had more than %s tokens and were truncated; "
                    "load the model with a larger max_length if it allows that, or split them",
                    truncated,
                    self.max_length,
                )

        return stream()

    def prepare(
        self, sentences: Iterable[str], *, prompt_name: str | None = None, prompt: str | None = None, clean: bool = True
    ) -> Prepared:
        """Clean, deduplicate, tokenize and truncate sentences: everything that `encode` does before `forward`."""
        return self._prepare(list(checked_texts(sentences, clean=clean)), self._resolve_prompt(prompt, prompt_name))

    def _prepare(self, texts: list[str], prompt: str) -> Prepared:
        unique_texts, inverse = distinct(texts)
        inputs, lengths = self._tokenize(unique_texts, prompt)
        limit = self.max_length
        if limit is None:
            return Prepared(inputs, lengths, inverse, 0)
        is_truncated = np.array([length > limit for length in lengths], bool)
        return Prepared(inputs, [min(length, limit) for length in lengths], inverse, int(is_truncated[inverse].sum()))

    def _resolve_prompt(self, prompt: str | None, prompt_name: str | None) -> str:
        if prompt is not None:
            return prompt
        name = prompt_name if prompt_name is not None else self.default_prompt_name
        if name is None:
            return ""
        if name not in self.prompts:
            raise UsageError(f"this model has no prompt named {name!r}; {did_you_mean(name, self.prompts)}")
        return self.prompts[name]

    def _moved_to(self, device: str) -> AbstractContextManager[Any]:
        """Compute on another device within the block."""
        if device.partition(":")[0] != "cpu":
            raise UsageError(f"an exported model runs on the CPU, not on {device}; load it with backend torch")
        return nullcontext()

    @property
    def token_budget(self) -> int:
        """Tokens per batch: the default, or what `tune_token_budget` measured in this process.

        Measurements of earlier processes are not used here: embeddings vary slightly with the composition of the
        batch, and scores must not depend on what was run before.
        """
        return self._tuned_budget or self._default_budget

    def tune_token_budget(self) -> int:
        """Measure which token budget is fastest on this machine (about a second) and cache the result on disk."""
        self._tuned_budget = cached_budget(self._speed_key)
        if self._tuned_budget:
            return self._tuned_budget
        # Typical lengths: many short sentences, few long ones.
        words = _SAMPLE_TEXT.split()
        texts = [" ".join(words[: 2 + (number * number) % len(words)]) for number in range(2_000)]
        inputs, lengths = self._tokenize(texts, "")
        lengths = [min(length, self.max_length or length) for length in lengths]
        batches = {budget: cycle(batches_by_tokens(lengths, budget, padded=self._pads)) for budget in TOKEN_BUDGETS}

        def run_batch(budget: int) -> int:
            batch = next(batches[budget])
            self.forward([inputs[index] for index in batch])
            return sum(lengths[index] for index in batch)

        self._tuned_budget = measure_budget(self._speed_key, run_batch)
        return self._tuned_budget

    def similarity(self, embeddings1: Any, embeddings2: Any, metric: str | None = None) -> Any:
        """Return the similarity of each of `embeddings1` to each of `embeddings2`, (n, m).

        Both may be embeddings or sentences. The result is a float32 array, or a tensor if one of them is a tensor. (In
        sentence-transformers it is always a tensor; torch is not installed everywhere an exported model runs.)

        Args:
            embeddings1: an array, a tensor, a list of vectors, a string or a list of strings.
            embeddings2: the same.
            metric: cosine, dot, euclidean or manhattan; the last two are negative distances. Default:
                `similarity_fn_name`.
        """
        return self._compare(similarity_matrix, embeddings1, embeddings2, metric)

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any, metric: str | None = None) -> Any:
        """Return the similarity of the first to the first, the second to the second, …, (n,); see `similarity`."""
        return self._compare(pairwise_similarity, embeddings1, embeddings2, metric)

    def _compare(self, function: Any, embeddings1: Any, embeddings2: Any, metric: str | None) -> Any:
        left, right = self._as_vectors(embeddings1), self._as_vectors(embeddings2)
        scores = function(left, right, metric or self.similarity_fn_name)
        if not (_has_tensor(left) or _has_tensor(right)):
            return scores
        import torch

        return torch.from_numpy(scores)

    def _as_vectors(self, items: Any) -> Any:
        if isinstance(items, str):
            return self.encode([items])
        if hasattr(items, "detach") or (isinstance(items, np.ndarray) and items.dtype.kind in "fiu"):
            return items
        if isinstance(items, Iterable):
            items = list(items)
            if items and not isinstance(items[0], str):
                return items  # vectors as arrays, tensors or lists of numbers
        return self.encode(items)

    def get_embedding_dimension(self) -> int:
        """Return the number of dimensions of an embedding."""
        return self.dim

    def get_sentence_embedding_dimension(self) -> int:
        """Return the number of dimensions of an embedding (the older name in sentence-transformers)."""
        return self.dim

    @property
    def max_seq_length(self) -> int | None:
        """`max_length` under its name in sentence-transformers."""
        return self.max_length


def _has_tensor(vectors: Any) -> bool:
    return hasattr(vectors, "detach") or (isinstance(vectors, list) and bool(vectors) and hasattr(vectors[0], "detach"))
