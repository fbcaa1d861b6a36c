"""A model directory is written as a whole or not at all."""

import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kosbert.errors import UsageError

MARKS = ("modules.json", "model.onnx")
"""A directory with one of these is a model, and may be replaced by another."""


def write_directory(path: str | Path, card: dict[str, Any], fill: Callable[[Path], None]) -> Path:
    """Let `fill` write into an empty directory, add `kosbert.json`, and put it at `path` in one step.

    A model that is already there is replaced, anything else is refused.
    """
    target = Path(path).expanduser().absolute()
    is_model = any((target / mark).is_file() for mark in MARKS)
    if target.exists() and not is_model and (target.is_file() or any(target.iterdir())):
        raise UsageError(f"{target} exists and is not a model; choose an empty or new directory")
    try:
        text = json.dumps(card, ensure_ascii=False, indent=2, sort_keys=True)
    except (TypeError, ValueError) as error:
        raise UsageError(f"the card cannot be written as JSON ({error}); use plain values") from error
    target.parent.mkdir(parents=True, exist_ok=True)
    # Beside the target, because only a rename on the same disk is atomic.
    workshop = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        fresh, old = workshop / "fresh", workshop / "old"
        fresh.mkdir()
        fill(fresh)
        (fresh / "kosbert.json").write_text(text + "\n", encoding="utf-8")
        if target.exists():
            target.rename(old)
        try:
            fresh.rename(target)
        except OSError:
            if old.exists():
                old.rename(target)
            raise
    finally:
        shutil.rmtree(workshop, ignore_errors=True)
    return target
