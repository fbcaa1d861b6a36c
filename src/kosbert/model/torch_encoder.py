"""An `Encoder` that computes with torch: what `kosbert.load` gives for whatever sentence-transformers can load."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer

from kosbert.model.directory import write_directory
from kosbert.model.encoder import Encoder
from kosbert.model.logging import quiet_transformers
from kosbert.model.onednn import fast_linear, mkl_is_slow
from kosbert.model.packing import is_packed

# Large enough that matrix products are efficient, small enough that activations stay in the cache of a CPU.
CPU_TOKEN_BUDGET = 1_024
GPU_TOKEN_BUDGET = 16_384


class TorchEncoder(Encoder):
    """A sentence-transformers model with a faster `encode`.

    `sentence_transformer` is the model itself, for everything that sentence-transformers can do with it. Threads that
    share one take turns.
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

    @property
    def _shape(self) -> str:
        size = sum(each.numel() for each in self.sentence_transformer.parameters())
        library = "oneDNN" if mkl_is_slow() else "torch"
        return f"{library}, {size} parameters, {self.device}, {'padded' if self._pads else 'packed'}"

    @property
    def _usual_budget(self) -> int:
        return CPU_TOKEN_BUDGET if self.device.type == "cpu" else GPU_TOKEN_BUDGET

    @property
    def _pads(self) -> bool:
        return not getattr(self.sentence_transformer[0], "can_flatten_inputs", False)

    def __repr__(self) -> str:
        packing = "packed" if is_packed(self.sentence_transformer) else "padded"
        return f"Encoder({self.source!r}, dim={self.dim}, max_length={self.max_length}, {self.device}, {packing})"

    def _prompt(self) -> str | None:
        """The prompt that this model was trained to see before each sentence, if any."""
        model = self.sentence_transformer
        return model.prompts.get(model.default_prompt_name) if model.default_prompt_name else None

    def tokenize(self, texts: list[str]) -> tuple[list[str], list[int]]:
        """The texts themselves, which the model tokenizes again in its batch, and their tokens."""
        tokenizer = self.tokenizer
        if not hasattr(tokenizer, "backend_tokenizer"):  # not a transformer: any measure of length will do
            return texts, [len(text) for text in texts]
        prompt = self._prompt() or ""
        with self._turn:
            encoded = tokenizer(
                [prompt + text for text in texts], truncation=False, padding=False, verbose=False,
                return_attention_mask=False, return_token_type_ids=False,
            )  # fmt: skip
        return texts, [len(ids) for ids in encoded["input_ids"]]

    def forward(self, batch: list[str]) -> NDArray[np.float32]:
        """The vectors of some of what `tokenize` gave, (batch, dim)."""
        model = self.sentence_transformer
        with self._turn, torch.inference_mode(), fast_linear(model, self.device):
            training = model.training
            model.eval()
            try:
                features = model.preprocess(batch, prompt=self._prompt())
                features = {
                    key: value.to(self.device) if isinstance(value, torch.Tensor) else value
                    for key, value in features.items()
                }
                vectors: NDArray[np.float32] = model(features)["sentence_embedding"].float().cpu().numpy()
            finally:
                model.train(training)
        return vectors

    def save(self, path: str | Path, card: dict[str, Any] | None = None) -> Path:
        """Write a sentence-transformers directory with `kosbert.json`: all of it, or nothing.

        Args:
            path: the directory; a model that is already there is replaced, anything else is refused.
            card: what made the model (recipe, data, seed, versions, scores); by default what it was loaded with.
        """
        card = self.card if card is None else card
        target = write_directory(path, card, self.write_weights)
        self.card = card
        return target

    def write_weights(self, folder: Path) -> None:
        """Write a sentence-transformers directory without a card into a folder that is there."""
        with quiet_transformers():
            self.sentence_transformer.save(str(folder), create_model_card=False, safe_serialization=True)
