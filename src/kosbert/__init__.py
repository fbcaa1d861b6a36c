"""Korean sentence embeddings, from labeled pairs to a served model.

import kosbert
model = kosbert.load("klue/roberta-base")
model.encode(["오늘 날씨가 좋다."])
"""

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kosbert.model import Encoder, load
    from kosbert.training import Recipe, train

__version__ = version("kosbert")
__all__ = ["Encoder", "Recipe", "__version__", "load", "train"]

_HOMES = {"Encoder": "model", "load": "model", "Recipe": "training", "train": "training"}


def __getattr__(name: str) -> Any:
    """Import torch and what stands on it only when it is asked for: the command line must start at once."""
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(f"kosbert.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'kosbert' has no attribute {name!r}")
