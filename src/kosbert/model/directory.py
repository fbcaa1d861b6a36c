"""A model directory is written as a whole or not at all."""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kosbert.errors import KosbertError, UsageError

MARKS = ("modules.json", "model.onnx")
"""A directory with one of these is a model, and may be replaced by another."""


def write_directory(path: str | Path, card: dict[str, Any], fill: Callable[[Path], None]) -> Path:
    """Let `fill` write into an empty directory, add `kosbert.json`, and put it at `path` in one step.

    A model that is already there is replaced, anything else is refused. `fill` may add to the card.
    """
    target = Path(path).expanduser().absolute()
    is_model = any((target / mark).is_file() for mark in MARKS)
    if target.exists() and not is_model and (target.is_file() or any(target.iterdir())):
        raise UsageError(f"{target} exists and is not a model; choose an empty or new directory")
    _as_json(card)  # before anything is written
    target.parent.mkdir(parents=True, exist_ok=True)
    # Beside the target, because only a rename on the same disk is atomic.
    workshop = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        fresh, old = workshop / "fresh", workshop / "old"
        fresh.mkdir()
        fill(fresh)
        (fresh / "kosbert.json").write_text(_as_json(card), encoding="utf-8")
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


def _as_json(card: dict[str, Any]) -> str:
    try:
        return json.dumps(card, ensure_ascii=False, indent=2, sort_keys=True) + "\n"
    except (TypeError, ValueError) as error:
        raise UsageError(f"the card cannot be written as JSON ({error}); use plain values") from error


def checksums(directory: Path) -> dict[str, str]:
    """The SHA-256 of every file but the card, by its path inside the directory."""
    found = {}
    for file in sorted(each for each in directory.rglob("*") if each.is_file() and each.name != "kosbert.json"):
        with file.open("rb") as stream:
            found[file.relative_to(directory).as_posix()] = hashlib.file_digest(stream, "sha256").hexdigest()
    return found


def refuse_changes(directory: Path, noted: Mapping[str, str]) -> None:
    """Compare the files of a directory with the checksums that its card notes."""
    found = checksums(directory)
    for name, digest in noted.items():
        if name not in found:
            raise KosbertError(f"{directory / name} is missing: export or install the model again")
        if found[name] != digest:
            raise KosbertError(f"{directory / name} is not the file that was written: export or install it again")
