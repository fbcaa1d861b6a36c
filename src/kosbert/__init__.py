"""Korean sentence embeddings, from labeled pairs to a served model.

import kosbert
model = kosbert.load("klue/roberta-base")
model.encode(["오늘 날씨가 좋다."])
"""

import os
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from kosbert.files import offline

if TYPE_CHECKING:
    from kosbert.model import Encoder, load
    from kosbert.training import Recipe, train

# Variables that libraries read when they are imported. Worker processes inherit them.
# No usage statistics: disable_telemetry_events() of ONNX Runtime would be too late, because its import already writes a
# device id to the home directory.
_NO_TELEMETRY = {"ORT_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "RAY_USAGE_STATS_ENABLED": "0"}
for _variable, _value in _NO_TELEMETRY.items():
    os.environ.setdefault(_variable, _value)
if offline():
    os.environ["HF_HUB_OFFLINE"] = "1"  # no library that kosbert calls downloads anything either

__version__ = version("kosbert")
__all__ = ["Encoder", "Recipe", "__version__", "load", "train"]

_LAZY_MODULES = {"Encoder": "model", "load": "model", "Recipe": "training", "train": "training"}


def __getattr__(name: str) -> Any:
    """Import on first use: `import kosbert` and the command line must not wait for torch."""
    if name in _LAZY_MODULES:
        return getattr(import_module(f"kosbert.{_LAZY_MODULES[name]}"), name)
    raise AttributeError(f"module 'kosbert' has no attribute {name!r}")
