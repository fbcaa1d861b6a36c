"""Verify an exported model: files unchanged, no pickle and no code, same embeddings as at export."""

import json
from pathlib import Path

import numpy as np

from kosbert.errors import KosbertError, UsageError
from kosbert.model.directory import ONNX_FILE, read_card, verify_checksums
from kosbert.model.onnx_encoder import OnnxEncoder
from kosbert.model.similarity import unit

_UNSAFE_SUFFIXES = {
    ".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".joblib", ".npy", ".npz", ".py", ".so", ".dll", ".sh",
}  # fmt: skip
_MIN_COSINE = {False: 0.99999, True: 0.995}
"""By int8 or not: processors round integer products differently, float32 hardly varies."""


def verify(directory: str | Path) -> list[str]:
    """Return one line for each check that passed; raise an error at the first that fails."""
    directory = Path(directory)
    card = read_card(directory)
    export = card.get("export", {})
    if "sha256" not in export:
        raise UsageError(f"{directory} holds no exported model: give a directory that kosbert export wrote")
    verify_checksums(directory, export["sha256"])
    checks = [f"{len(export['sha256'])} files have the recorded checksums"]
    unsafe = sorted(str(file) for file in directory.rglob("*") if file.suffix.lower() in _UNSAFE_SUFFIXES)
    if unsafe:
        raise KosbertError(
            f"{unsafe[0]} can contain code, and no exported model needs it: do not load the model, remove the file"
        )
    checks.append("no pickle, no code")
    if not (directory / ONNX_FILE).is_file():
        return checks
    probes = json.loads((directory / "probe.json").read_text(encoding="utf-8"))
    embeddings = unit(OnnxEncoder(directory, source=str(directory), card=card).encode([row["text"] for row in probes]))
    expected = unit(np.array([row["vector"] for row in probes], np.float32))
    cosine = (embeddings * expected).sum(axis=1).min()
    min_cosine = _MIN_COSINE[bool(export["int8"])]
    if not cosine >= min_cosine:
        raise KosbertError(
            f"the embeddings differ from those at export (cosine {cosine:.4f}, expected {min_cosine} or more): "
            "upgrade onnxruntime, or export the model again"
        )
    return [*checks, f"the embeddings of {len(probes)} sentences match the recorded ones (cosine {cosine:.5f})"]
