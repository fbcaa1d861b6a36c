"""Train a recipe: stages, checkpoints, exact resume, several processes, distillation.

kosbert.train("nli-sts", "runs/nli-sts")
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kosbert.training.recipe import Recipe
    from kosbert.training.trainer import TrainResult, train

__all__ = ["Recipe", "TrainResult", "train"]

_LAZY_MODULES = {"Recipe": "recipe", "TrainResult": "trainer", "train": "trainer"}


def __getattr__(name: str) -> Any:
    """Import torch only if it is needed: `training.config` is also used to read a study."""
    if name in _LAZY_MODULES:
        return getattr(import_module(f"kosbert.training.{_LAZY_MODULES[name]}"), name)
    raise AttributeError(f"module 'kosbert.training' has no attribute {name!r}")
