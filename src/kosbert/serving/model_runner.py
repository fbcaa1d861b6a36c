"""A loaded model as the server uses it: its public name, and texts or token ids to model inputs."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kosbert.model import Encoder, load
from kosbert.model.batching import distinct
from kosbert.model.builtin import BUILTIN_MODELS
from kosbert.model.onnx_encoder import OnnxEncoder
from kosbert.serving.errors import bad_request
from kosbert.text import clean


@dataclass(frozen=True)
class Prepared:
    """Texts as the model's forward pass takes them; duplicates are encoded once."""

    inputs: Sequence[Any]
    lengths: list[int]
    inverse: NDArray[np.intp]  # for each text, the index of its input
    truncated: int  # number of truncated texts

    @property
    def tokens(self) -> int:
        """Tokens of all texts, duplicates included: the usage that the client sees."""
        return sum(self.lengths[index] for index in self.inverse.tolist())


@dataclass(frozen=True, eq=False)
class ModelRunner:
    """An encoder, the name that clients use for it, and when it was loaded (Unix time)."""

    encoder: Encoder
    name: str
    created: int = field(default_factory=lambda: int(time.time()))

    @classmethod
    def load(cls, model: str) -> "ModelRunner":
        """Load a model and tune its token budget on this machine."""
        encoder = load(model)
        encoder.tune_token_budget()
        runner = cls(encoder, _public_name(model))
        encoder.forward(list(runner.prepare(["준비"]).inputs))  # warm up: the first call allocates memory
        return runner

    @property
    def backend(self) -> str:
        """Return onnx or torch."""
        return "onnx" if isinstance(self.encoder, OnnxEncoder) else "torch"

    def prepare(self, texts: Sequence[str]) -> Prepared:
        """Clean and tokenize texts."""
        different, inverse = distinct([clean(text) for text in texts])
        tokens, lengths = self.encoder.tokenize(different)
        return self._prepared(tokens, lengths, inverse)

    def prepare_token_ids(self, token_lists: Sequence[Sequence[int]]) -> Prepared:
        """Check token ids of the model's own tokenizer; special tokens are added if they are missing."""
        if not isinstance(self.encoder, OnnxEncoder):
            raise bad_request(
                "this model does not accept token ids: send text, or serve an exported model (kosbert export)"
            )
        tokenizer, max_length = self.encoder.tokenizer, self.encoder.max_length
        vocabulary_size = tokenizer.get_vocab_size()
        example = tokenizer.encode("가")
        ordinary = [index for index, special in enumerate(example.special_tokens_mask) if not special]
        prefix, suffix = example.ids[: ordinary[0]], example.ids[ordinary[-1] + 1 :]
        inputs: list[list[int]] = []
        lengths = []
        for number, token_ids in enumerate(token_lists):
            if not all(0 <= token < vocabulary_size for token in token_ids):
                raise bad_request(
                    f"list {number} contains an invalid token id: send ids from 0 to {vocabulary_size - 1}, or text",
                    param="input",
                )
            inner = list(token_ids)
            if inner[: len(prefix)] == prefix and inner[len(inner) - len(suffix) :] == suffix:
                inner = inner[len(prefix) : len(inner) - len(suffix)]
            lengths.append(len(prefix) + len(inner) + len(suffix))
            inputs.append([*prefix, *inner[: max_length - len(prefix) - len(suffix)], *suffix])
        return self._prepared(inputs, lengths, np.arange(len(inputs)))

    def _prepared(self, inputs: Sequence[Any], lengths: list[int], inverse: NDArray[np.intp]) -> Prepared:
        max_length = self.encoder.max_length
        too_long = [max_length is not None and length > max_length for length in lengths]
        truncated = int(np.array(too_long, bool)[inverse].sum())
        return Prepared(inputs, [min(length, max_length or length) for length in lengths], inverse, truncated)


def _public_name(model: str) -> str:
    """Return the name that clients use: of a directory only the base name, so the full path is not exposed."""
    if model in BUILTIN_MODELS or not Path(model).expanduser().is_dir():
        return model
    return Path(model).expanduser().resolve().name
