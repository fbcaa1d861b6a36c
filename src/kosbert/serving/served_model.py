"""A loaded model as the server uses it: its public name, and model inputs from token ids."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from kosbert.model import Encoder, Prepared, load
from kosbert.model.directory import BUILTIN_MODELS
from kosbert.model.onnx_encoder import OnnxEncoder
from kosbert.serving.errors import bad_request


@dataclass(frozen=True, eq=False)
class ServedModel:
    """An encoder, the name that clients use for it, and when it was loaded (Unix time)."""

    encoder: Encoder
    name: str
    created: int = field(default_factory=lambda: int(time.time()))

    @classmethod
    def load(cls, model: str) -> "ServedModel":
        """Load a model and tune its token budget on this machine."""
        encoder = load(model)
        encoder.tune_token_budget()
        encoder.forward(list(encoder.prepare(["준비"]).inputs))  # warm up: the first call allocates memory
        return cls(encoder, _public_name(model))

    @property
    def backend(self) -> str:
        """Return onnx or torch."""
        return "onnx" if isinstance(self.encoder, OnnxEncoder) else "torch"

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
        truncated = sum(length > max_length for length in lengths)
        return Prepared(inputs, [min(length, max_length) for length in lengths], np.arange(len(inputs)), truncated)


def _public_name(model: str) -> str:
    """Return the name that clients use: of a directory only the base name, so the full path is not exposed."""
    if model in BUILTIN_MODELS or not Path(model).expanduser().is_dir():
        return model
    return Path(model).expanduser().resolve().name
