"""Is an exported directory what it says: the files unchanged, no pickle and no code, the vectors as they were?"""

import json
from pathlib import Path

import numpy as np

from kosbert.errors import KosbertError, UsageError
from kosbert.model.directory import ONNX_FILE, read_card, verify_checksums
from kosbert.model.onnx_encoder import OnnxEncoder
from kosbert.model.similarity import unit

_DANGEROUS = {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".joblib", ".npy", ".npz", ".py", ".so", ".dll", ".sh"}
_LEAST_COSINE = {False: 0.99999, True: 0.995}
"""Processors round whole numbers differently; in float32 hardly anything differs."""


def verify(directory: str | Path) -> list[str]:
    """What was checked, one line each; the first thing that is wrong is an error."""
    folder = Path(directory)
    card = read_card(folder)
    about = card.get("export", {})
    if "sha256" not in about:
        raise UsageError(f"{folder} holds no exported model: give a directory that kosbert export wrote")
    verify_checksums(folder, about["sha256"])
    lines = [f"{len(about['sha256'])} files have the checksums that were noted"]
    suspicious = sorted(str(file) for file in folder.rglob("*") if file.suffix.lower() in _DANGEROUS)
    if suspicious:
        raise KosbertError(f"{suspicious[0]} can carry code, and no exported model needs it: do not load it, remove it")
    lines.append("no pickle, no code")
    if not (folder / ONNX_FILE).is_file():
        return lines
    probe = json.loads((folder / "probe.json").read_text(encoding="utf-8"))
    vectors = unit(OnnxEncoder(folder, source=str(folder), card=card).encode([each["text"] for each in probe]))
    cosines = (vectors * unit(np.array([each["vector"] for each in probe], np.float32))).sum(axis=1)
    least = _LEAST_COSINE[bool(about["int8"])]
    if not cosines.min() >= least:
        raise KosbertError(
            f"the graph gives other vectors than when it was exported (cosine {cosines.min():.4f}, at least {least} is "
            "wanted): upgrade onnxruntime, or export the model again"
        )
    return [*lines, f"the vectors of {len(probe)} sentences are those that were noted (cosine {cosines.min():.5f})"]
