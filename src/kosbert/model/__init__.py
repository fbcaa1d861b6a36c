"""Models: `load` returns an `Encoder`, `load_any` also baselines; `pack` avoids padding on CPUs.

Importing this package does not import torch, so that the built-in model starts fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kosbert.model.directory import model_origin
from kosbert.model.encoder import Encoder, Prepared, SupportsEncode
from kosbert.model.loading import load, load_any
from kosbert.model.similarity import METRICS, similarity_matrix

if TYPE_CHECKING:
    from kosbert.model.packing import is_packed, pack, supports_packing, unpack
    from kosbert.model.torch_encoder import TorchEncoder
    from kosbert.model.torch_loading import POOLINGS, best_device, load_torch

__all__ = [
    "METRICS",
    "POOLINGS",
    "Encoder",
    "Prepared",
    "SupportsEncode",
    "TorchEncoder",
    "best_device",
    "is_packed",
    "load",
    "load_any",
    "load_torch",
    "model_origin",
    "pack",
    "similarity_matrix",
    "supports_packing",
    "unpack",
]

_LAZY_MODULES = {
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
    if name in _LAZY_MODULES:
        return getattr(import_module(f"kosbert.model.{_LAZY_MODULES[name]}"), name)
    raise AttributeError(f"module 'kosbert.model' has no attribute {name!r}")
