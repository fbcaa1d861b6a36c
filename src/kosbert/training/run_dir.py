"""The folder of a run: whether it may be used, and whether the run in it is this one.

OUT/recipe.json    what is trained, so that a resumed run cannot become another one
OUT/checkpoints/   where it stands; removed at the end
OUT/curves.json    loss, learning rate and dev scores of every stage
OUT/model/         the result: a sentence-transformers directory with kosbert.json
"""

import json
import shutil
from pathlib import Path
from typing import Any

from kosbert.errors import UsageError
from kosbert.training.recipe import Recipe


def prepare(out: Path, recipe: Recipe, *, resume: bool) -> None:
    """Make the folder, or see that it holds this very run and that the user wants to go on with it."""
    note, wanted = out / "recipe.json", recipe.model_dump(mode="json")
    half_written = note.with_suffix(".part")
    try:
        out.mkdir(parents=True, exist_ok=True)
        trained = any((out / name).exists() for name in ("checkpoints", "curves.json", "model"))
        if not note.is_file() or not trained:
            if not note.is_file() and set(out.iterdir()) - {half_written}:
                raise UsageError(f"{out} is not empty and holds no run: choose another --out")
            half_written.write_text(json.dumps(wanted, ensure_ascii=False, indent=2), encoding="utf-8")
            half_written.replace(note)
            return
        found = json.loads(note.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{out} cannot be written ({error.strerror}): choose another --out") from error
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise UsageError(f"{note} is damaged: choose another --out") from None
    if not resume:
        raise UsageError(f"{out} holds a run: add --resume to go on, or choose another --out")
    changed = sorted(key for key in wanted if not isinstance(found, dict) or found.get(key) != wanted[key])
    if changed:
        raise UsageError(f"the run in {out} differs in {', '.join(changed)}: choose another --out")
    for left_over in out.glob(".model-*"):  # a process that was killed while it wrote the model
        shutil.rmtree(left_over, ignore_errors=True)


def finished(out: Path) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """The card and the curves of a run that is done; None if it is not."""
    try:
        card, curves = (
            json.loads(file.read_text(encoding="utf-8"))
            for file in (out / "model" / "kosbert.json", out / "curves.json")
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UsageError(f"the finished run in {out} cannot be read ({error}): choose another --out") from None
    return card, curves
