"""Encoders that run with ONNX Runtime: they start fast, and import neither torch nor transformers.

`OnnxEncoder` runs a directory that `kosbert export` wrote:

    DIR/model.onnx       input: token ids and attention mask, (batch, length); output: embeddings, (batch, dim)
    DIR/tokenizer.json   read by the tokenizers library
    DIR/kosbert.json     its key `export` describes the graph: dim, max_length, normalized, prompts, …

`OnnxTextEncoder` runs a single file from elsewhere whose graph contains its tokenizer.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kosbert.errors import KosbertError, UsageError
from kosbert.model import hardware
from kosbert.model.encoder import Encoder

# Fastest on two cores: int8 matrix products are cheap, so smaller batches, which stay in the cache, win.
TOKEN_BUDGET = 512
_TEXT_BATCH = 64  # sentences per call of a graph that contains its tokenizer


class OnnxEncoder(Encoder):
    """A model that `kosbert export` wrote. Threads may use one at the same time."""

    device = "cpu"

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
            export = self.card["export"]
            self._dim = int(export["dim"])
            self._max_length = int(export["max_length"])
            self._tokenizer = Tokenizer.from_str((directory / "tokenizer.json").read_text(encoding="utf-8"))
            self._session = onnxruntime.InferenceSession(
                str(directory / "model.onnx"), options, providers=["CPUExecutionProvider"]
            )
            inputs = {node.name for node in self._session.get_inputs()}
            if inputs != {"input_ids", "attention_mask"}:
                raise ValueError(f"its graph reads {', '.join(sorted(inputs))}, not input_ids and attention_mask")
        except Exception as error:  # ONNX Runtime and tokenizers raise exceptions of their own without a common base
            reason = " ".join(str(error).split())[-200:]  # ONNX Runtime starts with its own source files
            raise KosbertError(f"the model in {directory} cannot be run ({reason}): export it again") from error
        if max_length is not None:
            if not 3 <= max_length <= self._max_length:
                raise UsageError(
                    f"max_length {max_length} is impossible; this model reads 3 to {self._max_length} tokens"
                )
            self._max_length = max_length
        self._pad_id = int(export.get("pad_id", 0))
        self.prompts = dict(export.get("prompts") or {"query": "", "document": ""})
        self.default_prompt_name = export.get("default_prompt_name")
        self.similarity_fn_name = "cosine"
        self._normalizes = bool(export.get("normalized", True))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(self._max_length)

    @property
    def dim(self) -> int:
        """Dimensions of an embedding."""
        return self._dim

    @property
    def max_length(self) -> int:
        """Maximum number of tokens per sentence, special tokens included; longer ones are truncated."""
        return self._max_length

    @property
    def normalizes(self) -> bool:
        """Whether the graph normalizes; the graphs of `kosbert export` do, and their card says so."""
        return self._normalizes

    @property
    def tokenizer(self) -> Any:
        """The tokenizer, of the tokenizers library."""
        return self._tokenizer

    @property
    def _speed_key(self) -> str:
        return f"onnx, {(self.directory / 'model.onnx').stat().st_size} bytes"

    @property
    def _default_budget(self) -> int:
        return TOKEN_BUDGET

    @property
    def _pads(self) -> bool:
        return True

    def __repr__(self) -> str:
        normalized = ", normalized" if self.normalizes else ""
        return f"Encoder({self.source!r}, dim={self.dim}, max_length={self.max_length}, onnx{normalized})"

    def _tokenize(self, texts: list[str], prompt: str) -> tuple[list[list[int]], list[int]]:
        encodings = self._tokenizer.encode_batch([prompt + text for text in texts] if prompt else texts)
        # What was truncated is in `overflowing`.
        return (
            [encoding.ids for encoding in encodings],
            [len(encoding.ids) + bool(encoding.overflowing) for encoding in encodings],
        )

    def forward(self, batch: list[list[int]]) -> NDArray[np.float32]:
        """Return the embeddings of some of `Prepared.inputs` (token ids), (batch, dim)."""
        longest = max(map(len, batch))
        ids = np.full((len(batch), longest), self._pad_id, np.int64)
        mask = np.zeros((len(batch), longest), np.int64)
        for row, tokens in enumerate(batch):
            ids[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
        vectors: NDArray[np.float32] = self._session.run(None, {"input_ids": ids, "attention_mask": mask})[0]
        return vectors


class OnnxTextEncoder:
    """An ONNX graph from strings to embeddings; its string operators come from onnxruntime-extensions."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise UsageError(f"there is no file {path}: give the path of an ONNX file or of a model directory")
        try:
            import onnxruntime
        except ImportError:
            raise UsageError("an ONNX graph needs ONNX Runtime: pip install 'kosbert[onnx]'") from None
        options = onnxruntime.SessionOptions()
        try:
            from onnxruntime_extensions import get_library_path

            options.register_custom_ops_library(get_library_path())
        except ImportError:
            pass  # only graphs that contain a tokenizer need it
        try:
            self._session = onnxruntime.InferenceSession(str(path), options)
        except Exception as error:  # ONNX Runtime raises exceptions of its own without a common base
            reason = " ".join(str(error).split())[:200]
            raise KosbertError(
                f"{path} cannot be run ({reason}): pip install onnxruntime-extensions may help"
            ) from error
        input_types = [node.type for node in self._session.get_inputs()]
        if input_types != ["tensor(string)"]:
            raise UsageError(f"{path} reads {', '.join(input_types)} and not strings: give a model directory instead")
        self._input_name = self._session.get_inputs()[0].name

    def encode(self, sentences: Sequence[str]) -> NDArray[np.floating[Any]]:
        """Return the first output of the graph, one row per sentence."""
        parts = [
            self._session.run(None, {self._input_name: np.array(sentences[start : start + _TEXT_BATCH], dtype=object)})[
                0
            ]
            for start in range(0, len(sentences), _TEXT_BATCH)
        ]
        return np.concatenate(parts)
