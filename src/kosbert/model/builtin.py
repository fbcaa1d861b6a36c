"""The models inside the package: `builtin`, the default, and `builtin-base`, which has seen no NLI or STS labels."""

from pathlib import Path

from kosbert.errors import UsageError

BUILTIN = "builtin"
BUILTIN_BASE = "builtin-base"
BUILTIN_MODELS = (BUILTIN, BUILTIN_BASE)
"""The names by which `load` and every command know them."""


def builtin_directory(name: str = BUILTIN) -> Path:
    """Where a built-in model lies; a clear error when this version of the package ships none."""
    directory = Path(__file__).parent / "builtin_models" / name
    if not (directory / "modules.json").is_file():
        raise UsageError("this version of kosbert ships no built-in model; give a directory or a Hugging Face name")
    return directory
