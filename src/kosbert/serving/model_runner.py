"""A loaded model as the server sees it: what it is called, and from texts to what its forward pass wants."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kosbert.model import Encoder, Prepared, load
from kosbert.model.directory import BUILTIN_MODELS
from kosbert.model.onnx_encoder import OnnxEncoder
from kosbert.serving.errors import wrong


@dataclass(frozen=True, eq=False)
class ModelRunner:
    """A model, the name that clients know it by, and when it was loaded (seconds since 1970)."""

    encoder: Encoder
    name: str
    created: int = field(default_factory=lambda: int(time.time()))

    @classmethod
    def load(cls, model: str) -> "ModelRunner":
        """Load a model and find its token budget on this machine."""
        encoder = load(model)
        encoder.tune_token_budget()
        served = cls(encoder, _public_name(model))
        served.forward(served.prepare(["준비"]).inputs)  # the first call allocates
        return served

    @property
    def backend(self) -> str:
        """What computes."""
        return "onnx" if isinstance(self.encoder, OnnxEncoder) else "torch"

    def prepare(self, texts: Sequence[str]) -> Prepared:
        """Clean and tokenize."""
        return self.encoder.prepare(texts)

    def prepare_tokens(self, lists: Sequence[Sequence[int]]) -> Prepared:
        """Token ids of the model's own tokenizer, with or without its special tokens, which are added if missing."""
        if not isinstance(self.encoder, OnnxEncoder):
            raise wrong("this model takes no token ids: send text, or serve an exported one (kosbert export)")
        tokenizer, most = self.encoder.tokenizer, self.encoder.max_length
        size = tokenizer.get_vocab_size()
        example = tokenizer.encode("가")
        ordinary = [place for place, special in enumerate(example.special_tokens_mask) if not special]
        before, after = example.ids[: ordinary[0]], example.ids[ordinary[-1] + 1 :]
        found: list[list[int]] = []
        lengths = []
        for number, ids in enumerate(lists):
            if not all(0 <= token < size for token in ids):
                raise wrong(
                    f"list {number} holds a number that is no token: give 0 to {size - 1}, or send text", param="input"
                )
            inner = list(ids)
            if inner[: len(before)] == before and inner[len(inner) - len(after) :] == after:
                inner = inner[len(before) : len(inner) - len(after)]
            lengths.append(len(before) + len(inner) + len(after))
            found.append([*before, *inner[: most - len(before) - len(after)], *after])
        truncated = sum(length > most for length in lengths)
        return Prepared(found, [min(length, most) for length in lengths], np.arange(len(found)), truncated)

    def forward(self, tokens: Sequence[Any]) -> NDArray[np.float32]:
        """The vectors of what `prepare` gave, (n, dim)."""
        return self.encoder.forward(list(tokens))


def _public_name(model: str) -> str:
    """What clients call a model: of a directory its last part, because the rest of the path is nobody's business."""
    if model in BUILTIN_MODELS or not Path(model).expanduser().is_dir():
        return model
    return Path(model).expanduser().resolve().name
