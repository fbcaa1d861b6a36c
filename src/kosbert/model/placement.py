"""Copy batches to the device of a model without waiting for it."""

from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor

from kosbert.model.attention import attach_plan
from kosbert.model.packing import is_packed


def to_device(model: SentenceTransformer, features: dict[str, Any]) -> dict[str, Any]:
    """Return the features on the device of the model.

    The plan of the packed attention is made from the lengths while they are on the host: reading them back from a GPU
    would wait for everything that it still has to compute.
    """
    moved = {
        name: copied(value, model.device) if isinstance(value, Tensor) else value for name, value in features.items()
    }
    boundaries = features.get("cu_seq_lens_q")
    if boundaries is not None and moved["cu_seq_lens_q"] is not boundaries and is_packed(model):
        attach_plan(moved["cu_seq_lens_q"], boundaries.diff().tolist())
    return moved


def copied(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a tensor on a device; a copy to a GPU is only queued, which needs pinned memory."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
