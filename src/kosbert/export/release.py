"""Write a model so that others can run it: a directory that says what it is and how good.

DIR/model.onnx  tokenizer.json          for ONNX Runtime, without torch
DIR/modules.json  model.safetensors …   for training, in float16 (formats torch and both)
DIR/probe.json                          some sentences with their vectors, for `verify`
DIR/kosbert.json                        the model's card; `export` holds checksums and what int8 cost
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from kosbert.model.directory import file_checksums, write_directory
from kosbert.model.onnx_encoder import OnnxEncoder
from kosbert.model.torch_encoder import TorchEncoder
from kosbert.model.torch_loading import load_torch

Format = Literal["onnx", "torch", "both"]
_TRACED = 1e-3  # of a unit vector: what a graph in float32 may differ from the model
PROBES = ("비가 많이 온다.", "폭우가 쏟아진다.", "주식이 올랐다.", "오늘 저녁에 친구와 영화를 보기로 했어요!")


@dataclass(frozen=True)
class Gate:
    """What int8 costs: the cosine Spearman before and after on a set that is not for reporting."""

    on: str
    before: float
    after: float

    @property
    def drop(self) -> float:
        """Points (×100) that were lost."""
        return 100 * (self.before - self.after)


@dataclass(frozen=True)
class Exported:
    """Where the model is, its size, and what int8 cost where it was asked for."""

    path: Path
    bytes: int
    gate: Gate | None


def export(
    model: str | Path | TorchEncoder,
    out: str | Path,
    *,
    form: Format = "onnx",
    int8: bool = False,
    dim: int | None = None,
    gate: tuple[str, Sequence[ScoredPair]] | None = None,
    max_drop: float = 0.5,
    axes_of: Sequence[str] | None = None,
    report: Mapping[str, Sequence[ScoredPair]] | None = None,
) -> Exported:
    """Write a model for ONNX Runtime, for training, or both.

    Args:
        model: a model, or its name.
        out: a directory of its own.
        form: onnx; torch (float16 safetensors in sentence-transformers' layout); both.
        int8: whole numbers for the graph's weights; needs a gate.
        dim: only the first dimensions (for models trained with Matryoshka).
        gate: the name and the pairs of a set on which int8 may lose at most `max_drop` points of Spearman.
        max_drop: see gate.
        axes_of: sentences; `dim` then means the main axes of their vectors (PCA) and not the first dimensions.
        report: sets on which what is written is scored, for its card.
    """
    encoder = model if isinstance(model, TorchEncoder) else load_torch(model, device="cpu")
    dim = encoder.dim if dim is None else dim
    if not 1 <= dim <= encoder.dim:
        raise UsageError(f"dim {dim} is impossible; this model has {encoder.dim} dimensions, give 1 to {encoder.dim}")
    card = {key: value for key, value in encoder.card.items() if key != "export"}
    if dim != encoder.dim or axes_of is not None:
        card.pop("scores", None)  # they are those of the whole vectors
    if axes_of is not None:
        encoder = with_pca(encoder, axes_of, dim)
    if form == "torch" and (int8 or dim != encoder.dim):
        raise UsageError("int8 and dim are for the ONNX graph; give the format onnx or both")
    if int8 and gate is None:
        raise UsageError("int8 is written only where its cost is measured; name a gate set, e.g. korsts-dev")
    files: dict[str, bytes] = {}
    shape: dict[str, Any] = {}
    found = None
    if form != "torch":
        shape = _shape(encoder, dim)
        files = _graph_files(encoder, shape, int8)
        if int8 and gate:
            found = _measured(encoder, files, card, shape, gate)
            if found.drop > max_drop:
                raise KosbertError(
                    f"int8 costs {found.drop:.2f} points on {found.on} ({100 * found.before:.2f} → "
                    f"{100 * found.after:.2f}), more than --max-drop {max_drop:g}: nothing was written; allow more, "
                    "or export without int8"
                )
        note = {"on": found.on, "before": found.before, "after": found.after} if found else None
        card["export"] = {**shape, "int8": int8, "gate": note}

    if report:
        with TemporaryDirectory() as folder:
            scored = _opened(Path(folder), files, card, shape) if files else encoder
            card["scores"] = {name: score_pairs(scored, pairs) for name, pairs in report.items()}

    def fill(folder: Path) -> None:
        if form != "onnx":
            encoder.write_weights(folder)
            for file in folder.rglob("*.safetensors"):
                save_file({name: each.half() for name, each in load_file(file).items()}, file, {"format": "pt"})
        for name, content in files.items():
            (folder / name).write_bytes(content)
        card["export"] = {**card.get("export", {}), "sha256": file_checksums(folder)}

    path = write_directory(out, card, fill)
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return Exported(path, size, found)


def _shape(encoder: TorchEncoder, dim: int) -> dict[str, Any]:
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


def _graph_files(encoder: TorchEncoder, shape: dict[str, Any], int8: bool) -> dict[str, bytes]:
    """The files that ONNX Runtime needs, and the vectors that they give here."""
    graph = onnx_graph(encoder.sentence_transformer, shape["dim"])
    tokenizer = encoder.tokenizer.backend_tokenizer
    tokenizer.no_truncation()
    tokenizer.no_padding()
    files = {"model.onnx": to_int8(graph) if int8 else graph, "tokenizer.json": tokenizer.to_str().encode()}
    with TemporaryDirectory() as folder:
        plain = _opened(Path(folder), files | {"model.onnx": graph}, {}, shape).encode(PROBES)
        vectors = _opened(Path(folder), files, {}, shape).encode(PROBES)
    far = np.abs(plain - encoder.encode(PROBES, truncate_dim=shape["dim"], normalize_embeddings=True)).max()
    if not far < _TRACED:
        raise KosbertError(f"the graph gives other vectors than the model (by {far:.1e}): use this model with torch")
    probe = [{"text": text, "vector": vector.tolist()} for text, vector in zip(PROBES, vectors, strict=True)]
    return files | {"probe.json": json.dumps(probe, ensure_ascii=False).encode()}


def _opened(folder: Path, files: dict[str, bytes], card: dict[str, Any], shape: dict[str, Any]) -> OnnxEncoder:
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return OnnxEncoder(folder, card={**card, "export": shape})


@dataclass(frozen=True)
class _Cut:
    """An encoder of fewer dimensions."""

    encoder: TorchEncoder
    dim: int

    def encode(self, sentences: Sequence[str]) -> NDArray[np.float32]:
        return self.encoder.encode(sentences, truncate_dim=self.dim)


def _measured(
    encoder: TorchEncoder,
    files: dict[str, bytes],
    card: dict[str, Any],
    shape: dict[str, Any],
    gate: tuple[str, Sequence[ScoredPair]],
) -> Gate:
    name, pairs = gate
    cut = _Cut(encoder, shape["dim"])  # what the dimensions cost is not what int8 costs
    with TemporaryDirectory() as folder:
        scores = [score_pairs(each, pairs)["spearman"] for each in (cut, _opened(Path(folder), files, card, shape))]
    if None in scores:
        raise KosbertError(f"the correlation on {name} is undefined, so that int8 cannot be judged: name another set")
    return Gate(name, *(float(score or 0) for score in scores))
