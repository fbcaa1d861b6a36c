"""Trace a torch model into one ONNX graph: backbone, pooling, dense layers, truncation, normalization."""

import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn
from torch.nn import functional

from kosbert.errors import KosbertError
from kosbert.model.packing import is_packed, pack, unpack

OPSET = 17
# Two sentences of different lengths, so that padding is traced too.
_TRACED_SENTENCES = ("비가 온다.", "오늘은 바람이 불고 날씨가 몹시 춥다.")


class _TokenIdsToEmbedding(nn.Module):
    """The whole model as a function of token ids and attention mask, (batch, length) each, to (batch, dim)."""

    def __init__(self, model: SentenceTransformer, dim: int, feature_names: set[str]) -> None:
        super().__init__()
        self.model, self.dim, self.feature_names = model, dim, feature_names

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        features: dict[str, Any] = {"input_ids": input_ids, "attention_mask": attention_mask, "modality": "text"}
        if "token_type_ids" in self.feature_names:
            features["token_type_ids"] = torch.zeros_like(input_ids)
        for module in self.model:
            features = module(features)
        return functional.normalize(features["sentence_embedding"][:, : self.dim], dim=1)


def onnx_graph(model: SentenceTransformer, dim: int) -> bytes:
    """Return the model as a float32 ONNX graph: `input_ids` and `attention_mask` in, `vectors` out, any batch shape."""
    packed, training, device = is_packed(model), model.training, model.device
    unpack(model)
    model.eval().to("cpu")
    try:
        features = model.preprocess(list(_TRACED_SENTENCES))
        inputs = (features["input_ids"], features["attention_mask"])
        with warnings.catch_warnings(), torch.inference_mode(), TemporaryDirectory() as folder:
            file = Path(folder) / "model.onnx"
            warnings.simplefilter("ignore")  # the tracer warns about every shape that it reads
            torch.onnx.export(
                _TokenIdsToEmbedding(model, dim, set(features)),
                inputs,
                file,
                input_names=["input_ids", "attention_mask"],
                output_names=["vectors"],
                dynamic_axes={
                    "input_ids": {0: "batch", 1: "length"},
                    "attention_mask": {0: "batch", 1: "length"},
                    "vectors": {0: "batch"},
                },
                opset_version=OPSET,
                dynamo=False,
            )
            return file.read_bytes()
    except (RuntimeError, ValueError, TypeError, KeyError, torch.onnx.errors.OnnxExporterError) as error:
        reason = str(error).strip().splitlines()[0][:200]
        raise KosbertError(f"this model cannot be exported to ONNX ({reason}): use it with torch instead") from error
    finally:
        model.train(training).to(device)
        if packed:
            pack(model)
