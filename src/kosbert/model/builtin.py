"""The model inside the package."""

from pathlib import Path

from kosbert.errors import UsageError

BUILTIN = "builtin"
"""The name by which `load` and every command know it."""


def builtin_directory() -> Path:
    """Where the built-in model lies; a clear error when this version of the package ships none."""
    directory = Path(__file__).parent / "builtin_model"
    if not (directory / "modules.json").is_file():
        raise UsageError("this version of kosbert ships no built-in model; give a directory or a Hugging Face name")
    return directory
