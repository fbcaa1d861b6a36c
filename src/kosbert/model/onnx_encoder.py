"""An `Encoder` that computes with ONNX Runtime: starts at once, and imports neither torch nor transformers.

DIR/model.onnx       token ids and mask in, (batch, length); vectors out, (batch, dim), pooled and of length 1
DIR/tokenizer.json   as the tokenizers library reads it
DIR/kosbert.json     its key `export` says what the graph is
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kosbert.errors import KosbertError, UsageError
from kosbert.model import hardware
from kosbert.model.encoder import Encoder

# What measured fastest on two cores: int8 products are quick, so that smaller batches, which stay in the cache, win.
TOKEN_BUDGET = 512


class OnnxEncoder(Encoder):
    """A model that `kosbert export` wrote. Several threads may use one at the same time."""

    def __init__(
        self,
        directory: Path,
        *,
        source: str = "",
        card: dict[str, Any] | None = None,
        max_length: int | None = None,
        threads: int | None = None,
    ) -> None:
        try:
            import onnxruntime
            from tokenizers import Tokenizer
        except ImportError:
            raise UsageError(
                "an exported model needs ONNX Runtime: pip install onnxruntime, or give backend torch"
            ) from None
        self.directory, self.source, self.card = directory, source, card or {}
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads or hardware.threads()
        options.log_severity_level = 3
        try:
            self._dim = int(self.card["export"]["dim"])
            self._most = int(self.card["export"]["max_length"])
            self._tokenizer = Tokenizer.from_str((directory / "tokenizer.json").read_text(encoding="utf-8"))
            self._session = onnxruntime.InferenceSession(
                str(directory / "model.onnx"), options, providers=["CPUExecutionProvider"]
            )
            inputs = {each.name for each in self._session.get_inputs()}
            if inputs != {"input_ids", "attention_mask"}:
                raise ValueError(f"its graph reads {', '.join(sorted(inputs))}, not input_ids and attention_mask")
        except Exception as error:  # the runtime and the tokenizer raise their own unnamed kinds
            reason = " ".join(str(error).split())[-200:]  # the runtime names its own files first
            raise KosbertError(f"the model in {directory} cannot be run ({reason}): export it again") from error
        if max_length is not None:
            if not 3 <= max_length <= self._most:
                raise UsageError(f"max_length {max_length} is impossible; this model reads 3 to {self._most} tokens")
            self._most = max_length
        self._pad = int(self.card["export"].get("pad_id", 0))
        self._prompt = str(self.card["export"].get("prompt", ""))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(self._most)

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self._dim

    @property
    def max_length(self) -> int:
        """Tokens of a sentence that the model reads, with its special tokens; the rest is cut off."""
        return self._most

    @property
    def tokenizer(self) -> Any:
        """The tokenizer, of the tokenizers library."""
        return self._tokenizer

    @property
    def _shape(self) -> str:
        return f"onnx, {(self.directory / 'model.onnx').stat().st_size} bytes"

    @property
    def _usual_budget(self) -> int:
        return TOKEN_BUDGET

    @property
    def _pads(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"Encoder({self.source!r}, dim={self.dim}, max_length={self.max_length}, onnx)"

    def tokenize(self, texts: list[str]) -> tuple[list[list[int]], list[int]]:
        """The ids of each text, cut to what the model can read, and its tokens before that."""
        encoded = self._tokenizer.encode_batch([self._prompt + text for text in texts] if self._prompt else texts)
        # A sentence that was cut has its rest in `overflowing`.
        return [each.ids for each in encoded], [len(each.ids) + bool(each.overflowing) for each in encoded]

    def forward(self, batch: list[list[int]]) -> NDArray[np.float32]:
        """The vectors of some of what `tokenize` gave, (batch, dim)."""
        longest = max(map(len, batch))
        ids = np.full((len(batch), longest), self._pad, np.int64)
        mask = np.zeros((len(batch), longest), np.int64)
        for row, tokens in enumerate(batch):
            ids[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
        vectors: NDArray[np.float32] = self._session.run(None, {"input_ids": ids, "attention_mask": mask})[0]
        return vectors
