"""The model room: `load` gives an `Encoder`; `packing` turns padding off on CPUs, in `encode` and in training."""

from kosbert.model.encoder import Encoder
from kosbert.model.loading import POOLINGS, best_device, load
from kosbert.model.packing import is_packed, pack, supports_packing, unpack
from kosbert.model.similarity import METRICS, similarity_matrix

__all__ = [
    "METRICS",
    "POOLINGS",
    "Encoder",
    "best_device",
    "is_packed",
    "load",
    "pack",
    "similarity_matrix",
    "supports_packing",
    "unpack",
]
