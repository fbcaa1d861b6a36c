"""The model room: `load` gives an `Encoder`; `packing` turns padding off on CPUs, in `encode` and in training.

Only what needs no torch is imported at once: the built-in model answers before torch would have been read from disk.
"""

from typing import TYPE_CHECKING, Any

from kosbert.model.encoder import Encoder
from kosbert.model.loading import load
from kosbert.model.similarity import METRICS, similarity_matrix

if TYPE_CHECKING:
    from kosbert.model.packing import is_packed, pack, supports_packing, unpack
    from kosbert.model.torch_encoder import TorchEncoder
    from kosbert.model.torch_loading import POOLINGS, best_device, load_torch

__all__ = [
    "METRICS",
    "POOLINGS",
    "Encoder",
    "TorchEncoder",
    "best_device",
    "is_packed",
    "load",
    "load_torch",
    "pack",
    "similarity_matrix",
    "supports_packing",
    "unpack",
]

_HOMES = {
    "POOLINGS": "torch_loading",
    "TorchEncoder": "torch_encoder",
    "best_device": "torch_loading",
    "is_packed": "packing",
    "load_torch": "torch_loading",
    "pack": "packing",
    "supports_packing": "packing",
    "unpack": "packing",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(f"kosbert.model.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'kosbert.model' has no attribute {name!r}")
