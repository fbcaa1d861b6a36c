"""`TorchEncoder`: an `Encoder` around a SentenceTransformer."""

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules.transformer import Transformer
from sentence_transformers.sentence_transformer.modules import Normalize
from transformers.utils import logging as transformers_logging

from kosbert.errors import UsageError
from kosbert.model.classic_layout import write_classic_layout
from kosbert.model.directory import write_directory
from kosbert.model.encoder import Encoder
from kosbert.model.onednn import fast_linear, mkl_is_slow
from kosbert.model.packing import is_packed, pack, to_device, unpack, uses_flash_attention
from kosbert.model.precision import autocast, training_dtype
from kosbert.model.tokenized_corpus import feature_names, features_from_ids

# Large enough for efficient matrix products, small enough that activations stay in the cache of a CPU.
CPU_TOKEN_BUDGET = 1_024
GPU_TOKEN_BUDGET = 16_384


class TorchEncoder(Encoder):
    """A SentenceTransformer with a faster `encode`.

    `sentence_transformer` is the model itself, for everything else that sentence-transformers can do with it. Threads
    that share a TorchEncoder take turns.
    """

    def __init__(
        self, sentence_transformer: SentenceTransformer, *, source: str = "", card: dict[str, Any] | None = None
    ) -> None:
        self.sentence_transformer = sentence_transformer
        self.source = source
        self.card = card or {}
        self._lock = threading.RLock()  # the truncation settings of a tokenizer are not thread-safe
        self._feature_names: dict[bool, set[str]] = {}  # for padded and for packed batches

    @property
    def prompts(self) -> dict[str, str]:  # type: ignore[override]
        """Texts to put in front of sentences, by name, from config_sentence_transformers.json."""
        return self.sentence_transformer.prompts  # type: ignore[no-any-return]

    @property
    def default_prompt_name(self) -> str | None:  # type: ignore[override]
        """The prompt that `encode` uses when none is given; None: no prompt."""
        return self.sentence_transformer.default_prompt_name  # type: ignore[no-any-return]

    @property
    def similarity_fn_name(self) -> str:  # type: ignore[override]
        """The metric that `similarity` uses by default."""
        return str(self.sentence_transformer.similarity_fn_name)

    @property
    def dim(self) -> int:
        """Dimensions of an embedding."""
        return int(self.sentence_transformer.get_embedding_dimension())

    @property
    def max_length(self) -> int | None:
        """Maximum number of tokens per sentence, special tokens included; longer ones are truncated. None: no limit."""
        length = self.sentence_transformer.max_seq_length
        # Models without a limit report infinity or 10**30.
        return None if length is None or length > 10**9 else int(length)

    @property
    def normalizes(self) -> bool:
        """Whether the last module is `Normalize`."""
        return isinstance(self.sentence_transformer[-1], Normalize)

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return torch.device(self.sentence_transformer.device)

    @property
    def tokenizer(self) -> Any:
        """The tokenizer of the backbone."""
        return self.sentence_transformer.tokenizer

    @property
    def _speed_key(self) -> str:
        size = sum(parameter.numel() for parameter in self.sentence_transformer.parameters())
        library = "oneDNN" if mkl_is_slow() else "torch"
        return f"{library}, {size} parameters, {self.device}, {'padded' if self._pads else 'packed'}"

    @property
    def _default_budget(self) -> int:
        return CPU_TOKEN_BUDGET if self.device.type == "cpu" else GPU_TOKEN_BUDGET

    @property
    def _pads(self) -> bool:
        return not getattr(self.sentence_transformer[0], "can_flatten_inputs", False)

    def __repr__(self) -> str:
        packing = "packed" if is_packed(self.sentence_transformer) else "padded"
        normalized = ", normalized" if self.normalizes else ""
        return (
            f"Encoder({self.source!r}, dim={self.dim}, max_length={self.max_length}, {self.device}, "
            f"{packing}{normalized})"
        )

    def _tokenize(self, texts: list[str], prompt: str) -> tuple[Sequence[Any], list[int]]:
        """Return token ids, or (prompt, text) pairs for `preprocess` where a model needs more than token ids."""
        tokenizer = self.tokenizer
        if not hasattr(tokenizer, "backend_tokenizer"):  # not a transformer: any measure of length will do
            return [(prompt, text) for text in texts], [len(text) for text in texts]
        limit = self.max_length
        with self._lock:
            encoded = tokenizer(
                [prompt + text for text in texts], truncation=limit is not None, max_length=limit, padding=False,
                verbose=False, return_attention_mask=False, return_token_type_ids=False,
            )  # fmt: skip
        # What was truncated is in `overflowing`.
        lengths = [len(encoding.ids) + bool(encoding.overflowing) for encoding in encoded.encodings]
        if self._reads_token_ids(prompt):
            return encoded["input_ids"], lengths
        return [(prompt, text) for text in texts], lengths

    def _reads_token_ids(self, prompt: str) -> bool:
        """Whether `features_from_ids` makes the features that the model's own `preprocess` would make."""
        backbone = self.sentence_transformer[0]
        return (
            isinstance(backbone, Transformer)
            and backbone.transformer_task == "feature-extraction"
            and set(backbone.modality_config) == {"text"}
            and not backbone.processing_kwargs
            and backbone.tokenizer.padding_side == "right"
            and (not prompt or all(getattr(module, "include_prompt", True) for module in self.sentence_transformer))
        )

    def forward(self, batch: list[Any]) -> NDArray[np.float32]:
        """Return the embeddings of some of `Prepared.inputs`, (batch, dim)."""
        model = self.sentence_transformer
        dtype = training_dtype(self.device) if uses_flash_attention(model) else torch.float32
        with self._lock, torch.inference_mode(), fast_linear(model, self.device), autocast(self.device, dtype):
            training = model.training
            model.eval()
            try:
                if isinstance(batch[0], tuple):
                    features = model.preprocess([text for _, text in batch], prompt=batch[0][0] or None)
                else:
                    if self._pads not in self._feature_names:
                        self._feature_names[self._pads] = feature_names(model)
                    features = features_from_ids(model, batch, self._feature_names[self._pads])
                vectors: NDArray[np.float32] = (
                    model(to_device(model, features))["sentence_embedding"].float().cpu().numpy()
                )
            finally:
                model.train(training)
        return vectors

    @contextmanager
    def _moved_to(self, device: str) -> Iterator[None]:
        model, original = self.sentence_transformer, self.device
        try:
            target = torch.device(device)
            torch.empty(0, device=target)
        except (RuntimeError, AssertionError) as error:  # torch without CUDA raises AssertionError
            reason = str(error).strip().splitlines()[0][:200]
            raise UsageError(f"device {device} cannot be used ({reason}); give cpu, or leave it out") from error
        if (target.type, target.index or 0) == (original.type, original.index or 0):
            yield
            return
        with self._lock:
            packed = is_packed(model)
            unpack(model)  # where it goes, packing may not be supported
            model.to(target)
            pack(model)
            try:
                yield
            finally:
                unpack(model)
                model.to(original)
                if packed:
                    pack(model)

    def save(self, path: str | Path, card: dict[str, Any] | None = None) -> Path:
        """Write a sentence-transformers directory with `kosbert.json`, atomically.

        Args:
            path: the directory; an existing model is replaced, anything else there is an error.
            card: what made the model (recipe, data, seed, versions, scores). Default: the card it was loaded with.
        """
        card = self.card if card is None else card
        target = write_directory(path, card, self.write_weights)
        self.card = card
        return target

    def write_weights(self, directory: Path) -> None:
        """Write a sentence-transformers directory, readable by version 5 and 6, without a card."""
        with quiet_transformers():
            self.sentence_transformer.save(str(directory), create_model_card=False, safe_serialization=True)
        write_classic_layout(directory, self.sentence_transformer)


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Hide progress bars for reading or writing files, and messages about an unused pooler or a default prompt."""
    bars, verbosity = transformers_logging.is_progress_bar_enabled(), transformers_logging.get_verbosity()
    logger = logging.getLogger("sentence_transformers")
    level = logger.level
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
        transformers_logging.set_verbosity(verbosity)
        if bars:
            transformers_logging.enable_progress_bar()
