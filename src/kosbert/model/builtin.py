"""The models inside the package: `builtin`, the default, and `builtin-base`, which has seen no NLI or STS labels."""

import json
from functools import cache
from pathlib import Path

from kosbert.errors import UsageError
from kosbert.model.directory import refuse_changes

BUILTIN = "builtin"
BUILTIN_BASE = "builtin-base"
BUILTIN_MODELS = (BUILTIN, BUILTIN_BASE)
"""The names by which `load` and every command know them."""


@cache
def builtin_directory(name: str = BUILTIN) -> Path:
    """Where a built-in model lies; its files are compared with their checksums when it is first asked for."""
    directory = Path(__file__).parent / "builtin_models" / name
    try:
        card = json.loads((directory / "kosbert.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise UsageError(
            "this copy of kosbert has no built-in model; give the directory or the Hugging Face name of one (--model)"
        ) from None
    refuse_changes(directory, card["export"]["sha256"])
    return directory
