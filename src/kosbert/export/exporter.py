"""Export a model to a directory that runs without torch, can be trained further, or both.

DIR/model.onnx  tokenizer.json          for ONNX Runtime, without torch
DIR/modules.json  model.safetensors …   for training, in float16 (formats torch and both)
DIR/probe.json                          some sentences with their embeddings, for `verify`
DIR/kosbert.json                        the model card; `export` has the checksums and the result of the quality gate
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file

from kosbert.data.records import ScoredPair
from kosbert.errors import KosbertError, UsageError
from kosbert.evaluation.sts import score_pairs
from kosbert.export.graph import onnx_graph
from kosbert.export.quantize import to_int8
from kosbert.model.compress import with_pca
from kosbert.model.directory import file_checksums, model_origin, write_directory
from kosbert.model.onnx_encoder import OnnxEncoder
from kosbert.model.torch_encoder import TorchEncoder
from kosbert.model.torch_loading import load_torch

ExportFormat = Literal["onnx", "torch", "both"]
PROBES = ("비가 많이 온다.", "폭우가 쏟아진다.", "주식이 올랐다.", "오늘 저녁에 친구와 영화를 보기로 했어요!")
_MAX_TRACE_ERROR = 1e-3  # per component of a unit vector, between the float32 graph and the torch model


@dataclass(frozen=True)
class QualityGate:
    """The cost of int8: cosine Spearman before and after, on a dataset that is not used for reporting."""

    dataset: str
    spearman_before: float
    spearman_after: float

    @property
    def drop(self) -> float:
        """Return the loss in points (×100)."""
        return 100 * (self.spearman_before - self.spearman_after)


@dataclass(frozen=True)
class ExportResult:
    """The directory of the exported model, its size in bytes, and the result of the quality gate for int8."""

    path: Path
    bytes: int
    quality_gate: QualityGate | None


def export(
    model: str | Path | TorchEncoder,
    out: str | Path,
    *,
    format: ExportFormat = "onnx",
    int8: bool = False,
    dim: int | None = None,
    gate: tuple[str, Sequence[ScoredPair]] | None = None,
    max_drop: float = 0.5,
    pca_sentences: Sequence[str] | None = None,
    evaluate_on: Mapping[str, Sequence[ScoredPair]] | None = None,
) -> ExportResult:
    """Export a model for ONNX Runtime, for training, or both.

    Args:
        model: a model, or its name.
        out: a new directory, or that of a model to replace.
        format: onnx; torch (float16 safetensors in the layout of sentence-transformers); both.
        int8: quantize the weights of the graph to int8; needs a gate.
        dim: keep only the first dimensions (for Matryoshka models).
        gate: name and pairs of the dataset on which int8 may lose at most `max_drop` points of Spearman.
        max_drop: see gate.
        pca_sentences: reduce to `dim` by PCA on the embeddings of these sentences instead of truncating.
        evaluate_on: datasets to score the exported model on, for its card.
    """
    encoder = model if isinstance(model, TorchEncoder) else load_torch(model, device="cpu")
    dim = encoder.dim if dim is None else dim
    if not 1 <= dim <= encoder.dim:
        raise UsageError(f"dim {dim} is impossible; this model has {encoder.dim} dimensions, give 1 to {encoder.dim}")
    card = {key: value for key, value in encoder.card.items() if key != "export"}
    card["exported_from"] = _origin(encoder.source)
    if dim != encoder.dim or pca_sentences is not None:
        card.pop("scores", None)  # those of all dimensions
    if pca_sentences is not None:
        encoder = with_pca(encoder, pca_sentences, dim)
    if format == "torch" and (int8 or dim != encoder.dim):
        raise UsageError("int8 and dim are for the ONNX graph; give the format onnx or both")
    if int8 and gate is None:
        raise UsageError("int8 needs a quality gate; name a dataset for it, e.g. korsts-dev")
    files: dict[str, bytes] = {}
    graph_info: dict[str, Any] = {}
    quality_gate = None
    if format != "torch":
        graph_info = _graph_info(encoder, dim)
        files = _graph_files(encoder, graph_info, int8)
        if int8 and gate:
            quality_gate = _measure_int8(encoder, files, card, graph_info, gate)
            _check_drop(quality_gate, max_drop)
        gate_json = asdict(quality_gate) if quality_gate else None
        card["export"] = {**graph_info, "int8": int8, "quality_gate": gate_json}

    if evaluate_on:
        with TemporaryDirectory() as folder:
            exported = _load_graph(Path(folder), files, card, graph_info) if files else encoder
            card["scores"] = {name: score_pairs(exported, pairs) for name, pairs in evaluate_on.items()}

    def write_files(folder: Path) -> None:
        if format != "onnx":
            encoder.write_weights(folder)
            for file in folder.rglob("*.safetensors"):
                tensors = {name: tensor.half() for name, tensor in load_file(file).items()}
                save_file(tensors, file, {"format": "pt"})
        for name, content in files.items():
            (folder / name).write_bytes(content)
        card["export"] = {**card.get("export", {}), "sha256": file_checksums(folder)}

    path = write_directory(out, card, write_files)
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return ExportResult(path, size, quality_gate)


def _origin(source: str) -> dict[str, str]:
    try:
        return model_origin(source) if source else {}
    except KosbertError:  # a model that was never saved, or whose directory is gone
        return {"name": source}


def _graph_info(encoder: TorchEncoder, dim: int) -> dict[str, Any]:
    """Return what `OnnxEncoder` must know about the graph."""
    tokenizer = encoder.tokenizer
    if not hasattr(tokenizer, "backend_tokenizer") or encoder.max_length is None:
        raise UsageError("only transformers with a fast tokenizer can be exported; use this model with torch")
    modules = encoder.sentence_transformer
    if any(encoder.prompts.values()) and not all(getattr(module, "include_prompt", True) for module in modules):
        raise UsageError("the pooling of this model excludes its prompt, which a graph cannot do; use it with torch")
    return {
        "dim": dim,
        "max_length": encoder.max_length,
        "pad_id": tokenizer.pad_token_id or 0,
        "normalized": True,  # the graph ends with a normalization, whatever normalize_embeddings says
        "prompts": encoder.prompts,
        "default_prompt_name": encoder.default_prompt_name,
    }


def _graph_files(encoder: TorchEncoder, graph_info: dict[str, Any], int8: bool) -> dict[str, bytes]:
    """Return graph, tokenizer and probe as files; the float32 graph must reproduce the model's embeddings."""
    graph = onnx_graph(encoder.sentence_transformer, graph_info["dim"])
    tokenizer = encoder.tokenizer.backend_tokenizer
    tokenizer.no_truncation()
    tokenizer.no_padding()
    files = {"model.onnx": to_int8(graph) if int8 else graph, "tokenizer.json": tokenizer.to_str().encode()}
    with TemporaryDirectory() as folder:
        traced = _load_graph(Path(folder), files | {"model.onnx": graph}, {}, graph_info).encode(PROBES)
        exported = _load_graph(Path(folder), files, {}, graph_info).encode(PROBES)
    expected = encoder.encode(PROBES, truncate_dim=graph_info["dim"], normalize_embeddings=True)
    error = np.abs(traced - expected).max()
    if not error < _MAX_TRACE_ERROR:
        raise KosbertError(
            f"the embeddings of the graph differ from those of the model (by {error:.1e}): use this model with torch"
        )
    probes = [{"text": text, "vector": vector.tolist()} for text, vector in zip(PROBES, exported, strict=True)]
    return files | {"probe.json": json.dumps(probes, ensure_ascii=False).encode()}


def _load_graph(folder: Path, files: dict[str, bytes], card: dict[str, Any], graph_info: dict[str, Any]) -> OnnxEncoder:
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return OnnxEncoder(folder, card={**card, "export": graph_info})


@dataclass(frozen=True)
class _TruncatedEncoder:
    encoder: TorchEncoder
    dim: int

    def encode(self, sentences: Sequence[str]) -> NDArray[np.float32]:
        return self.encoder.encode(sentences, truncate_dim=self.dim)


def _measure_int8(
    encoder: TorchEncoder,
    files: dict[str, bytes],
    card: dict[str, Any],
    graph_info: dict[str, Any],
    gate: tuple[str, Sequence[ScoredPair]],
) -> QualityGate:
    """Score the model before and after quantization, both truncated: the gate measures int8, not the dimensions."""
    name, pairs = gate
    before = score_pairs(_TruncatedEncoder(encoder, graph_info["dim"]), pairs)["spearman"]
    with TemporaryDirectory() as folder:
        after = score_pairs(_load_graph(Path(folder), files, card, graph_info), pairs)["spearman"]
    if before is None or after is None:
        raise KosbertError(f"the correlation on {name} is undefined, so the gate cannot decide: name another dataset")
    return QualityGate(name, before, after)


def _check_drop(gate: QualityGate, max_drop: float) -> None:
    if gate.drop > max_drop:
        raise KosbertError(
            f"int8 costs {gate.drop:.2f} points on {gate.dataset} ({100 * gate.spearman_before:.2f} → "
            f"{100 * gate.spearman_after:.2f}), more than --max-drop {max_drop:g}, so nothing was written: allow more, "
            "or export without int8"
        )
