"""Copy tensors to a device without waiting for it."""

import torch
from torch import Tensor


def copied(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a tensor on a device; a copy to a GPU is only queued, which needs pinned memory."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
