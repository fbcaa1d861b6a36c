"""What users hold: sentences in, vectors out."""

import json
import logging
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sized
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress
from sentence_transformers import SentenceTransformer
from torch.nn import functional

from kosbert.errors import UsageError
from kosbert.model.batching import by_budget, check, distinct, windows
from kosbert.model.packing import is_packed
from kosbert.model.quiet import quiet_transformers
from kosbert.model.similarity import similarity_matrix

logger = logging.getLogger(__name__)

# Large enough that matrix products are efficient, small enough that activations stay in the cache of a CPU.
CPU_TOKEN_BUDGET = 1_024
GPU_TOKEN_BUDGET = 16_384


class Encoder:
    """A sentence-transformers model with a faster `encode`; made by `kosbert.load`.

    `sentence_transformer` is the model itself, for everything that sentence-transformers can do with it. Several
    threads may use one Encoder; they take turns.
    """

    def __init__(
        self, sentence_transformer: SentenceTransformer, *, source: str = "", card: dict[str, Any] | None = None
    ) -> None:
        self.sentence_transformer = sentence_transformer
        self.source = source
        self.card = card or {}
        self._turn = threading.Lock()  # the tokenizer's truncation settings are not thread-safe

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return int(self.sentence_transformer.get_embedding_dimension())

    @property
    def max_length(self) -> int | None:
        """Tokens of a sentence that the model reads, with its special tokens; the rest is cut off. None: no limit."""
        length = self.sentence_transformer.max_seq_length
        # Models without a limit say so with infinity or with 10**30.
        return None if length is None or length > 10**9 else int(length)

    @property
    def device(self) -> torch.device:
        """Where the model computes."""
        return torch.device(self.sentence_transformer.device)

    @property
    def tokenizer(self) -> Any:
        """The tokenizer of the backbone."""
        return self.sentence_transformer.tokenizer

    def __repr__(self) -> str:
        packing = "packed" if is_packed(self.sentence_transformer) else "padded"
        return f"Encoder({self.source!r}, dim={self.dim}, max_length={self.max_length}, {self.device}, {packing})"

    @overload
    def encode(
        self, sentences: str | Iterable[str], *, normalize: bool = ..., dim: int | None = ...,
        output: Literal["numpy"] = ..., token_budget: int | None = ..., progress: bool = ..., clean: bool = ...,
    ) -> NDArray[np.float32]: ...  # fmt: skip

    @overload
    def encode(
        self, sentences: str | Iterable[str], *, normalize: bool = ..., dim: int | None = ...,
        output: Literal["torch"], token_budget: int | None = ..., progress: bool = ..., clean: bool = ...,
    ) -> torch.Tensor: ...  # fmt: skip

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
    ) -> NDArray[np.float32] | torch.Tensor:
        """Turn sentences into float32 vectors, (n, dim), in the order given; one string gives one vector, (dim,).

        Args:
            sentences: a string, or any iterable of strings.
            normalize: make each vector of length 1, so that the dot product is the cosine.
            dim: keep only the first dimensions (for models trained with Matryoshka).
            output: "numpy", or "torch" for a tensor on the CPU.
            token_budget: tokens of a batch; more needs more memory. By default what measured fastest.
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
        return torch.from_numpy(vectors) if output == "torch" else vectors

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
        return self._stream(sentences, normalize, dim, token_budget, progress, clean)

    def _stream(
        self,
        sentences: Iterable[str],
        normalize: bool,
        dim: int | None,
        budget: int | None,
        progress: bool,
        clean: bool,
    ) -> Iterator[NDArray[np.float32]]:
        total = len(sentences) if isinstance(sentences, Sized) else None
        shortened = 0
        with Progress(console=Console(stderr=True), disable=not progress) as bar:
            task = bar.add_task("encoding", total=total)
            for window in windows(check(sentences, clean=clean)):
                texts, inverse = distinct(window)
                lengths = self._token_counts(texts)
                cut = np.array([self.max_length is not None and length > self.max_length for length in lengths])
                shortened += int(cut[inverse].sum())
                yield self._vectors(texts, lengths, normalize, dim, budget)[inverse]
                bar.advance(task, len(window))
        if shortened:
            logger.warning(
                "%d of the sentences had more than %s tokens and lost their end; "
                "load the model with a larger max_length if it allows that, or split them",
                shortened,
                self.max_length,
            )

    def _prompt(self) -> str | None:
        """The prompt that this model was trained to see before each sentence, if any."""
        model = self.sentence_transformer
        return model.prompts.get(model.default_prompt_name) if model.default_prompt_name else None

    def _token_counts(self, texts: list[str]) -> list[int]:
        """Tokens of each text before anything is cut off."""
        tokenizer = self.tokenizer
        if not hasattr(tokenizer, "backend_tokenizer"):  # not a transformer: any measure of length will do
            return [len(text) for text in texts]
        prompt = self._prompt() or ""
        with self._turn:
            encoded = tokenizer(
                [prompt + text for text in texts], truncation=False, padding=False, verbose=False,
                return_attention_mask=False, return_token_type_ids=False,
            )  # fmt: skip
        return [len(ids) for ids in encoded["input_ids"]]

    def _vectors(
        self, texts: list[str], lengths: list[int], normalize: bool, dim: int | None, budget: int | None
    ) -> NDArray[np.float32]:
        model = self.sentence_transformer
        budget = budget or (CPU_TOKEN_BUDGET if self.device.type == "cpu" else GPU_TOKEN_BUDGET)
        lengths = [min(length, self.max_length or length) for length in lengths]
        result = np.empty((len(texts), dim or self.dim), dtype=np.float32)
        prompt = self._prompt()
        for batch in by_budget(lengths, budget, padded=not getattr(model[0], "can_flatten_inputs", False)):
            with self._turn, torch.inference_mode():
                training = model.training
                model.eval()
                try:
                    features = model.preprocess([texts[index] for index in batch], prompt=prompt)
                    features = {
                        key: value.to(self.device) if isinstance(value, torch.Tensor) else value
                        for key, value in features.items()
                    }
                    vectors = model(features)["sentence_embedding"][:, : dim or self.dim].float()  # (batch, dim)
                finally:
                    model.train(training)
            if normalize:
                vectors = functional.normalize(vectors, dim=1)
            result[batch] = vectors.cpu().numpy()
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
        if isinstance(items, torch.Tensor) or (isinstance(items, np.ndarray) and items.dtype.kind in "fiu"):
            return items
        if isinstance(items, Iterable):
            items = list(items)
            if items and not isinstance(items[0], str):
                return items  # vectors as lists of numbers
        return self.encode(items)

    def save(self, path: str | Path, card: dict[str, Any] | None = None) -> Path:
        """Write a sentence-transformers directory with `kosbert.json`: all of it, or nothing.

        Args:
            path: the directory; a model that is already there is replaced, anything else is refused.
            card: what made the model (recipe, data, seed, versions, scores); by default what it was loaded with.
        """
        target = Path(path).expanduser().absolute()
        if target.exists() and not (target / "modules.json").is_file() and (target.is_file() or any(target.iterdir())):
            raise UsageError(f"{target} exists and is not a model; choose an empty or new directory")
        card = self.card if card is None else card
        try:
            text = json.dumps(card, ensure_ascii=False, indent=2, sort_keys=True)
        except (TypeError, ValueError) as error:
            raise UsageError(f"the card cannot be written as JSON ({error}); use plain values") from error
        target.parent.mkdir(parents=True, exist_ok=True)
        # Beside the target, because only a rename on the same disk is atomic.
        workshop = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        try:
            fresh, old = workshop / "fresh", workshop / "old"
            with quiet_transformers():
                self.sentence_transformer.save(str(fresh), create_model_card=False, safe_serialization=True)
            (fresh / "kosbert.json").write_text(text + "\n", encoding="utf-8")
            if target.exists():
                target.rename(old)
            try:
                fresh.rename(target)
            except OSError:
                if old.exists():
                    old.rename(target)
                raise
        finally:
            shutil.rmtree(workshop, ignore_errors=True)
        self.card = card
        return target
