"""Korean sentence embeddings, from labeled pairs to a served model.

import kosbert
model = kosbert.load("klue/roberta-base")
model.encode(["오늘 날씨가 좋다."])
"""

import os
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kosbert.model import Encoder, load
    from kosbert.training import Recipe, train

from kosbert.files import offline

if offline():
    # huggingface_hub reads it at import: no library that kosbert calls downloads anything either.
    os.environ["HF_HUB_OFFLINE"] = "1"

__version__ = version("kosbert")
__all__ = ["Encoder", "Recipe", "__version__", "load", "train"]

_LAZY_MODULES = {"Encoder": "model", "load": "model", "Recipe": "training", "train": "training"}


def __getattr__(name: str) -> Any:
    """Import on first use: `import kosbert` and the command line must not wait for torch."""
    if name in _LAZY_MODULES:
        return getattr(import_module(f"kosbert.{_LAZY_MODULES[name]}"), name)
    raise AttributeError(f"module 'kosbert' has no attribute {name!r}")
