"""Which number format a device trains in. Weights, gradients and losses are always float32; this is about the forward.

| device | `precision: auto` |
|---|---|
| GPU that multiplies bfloat16 (NVIDIA since Ampere, AMD MI) | bfloat16 |
| other GPUs (T4, V100) | float16, with scaled losses |
| CPU with AVX-512 BF16 or AMX | bfloat16 |
| everything else | float32 |
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Literal

import torch

from kosbert.model.hardware import processor_name
from kosbert.model.onednn import capabilities

Precision = Literal["auto", "float32"]


def training_dtype(device: torch.device, precision: Precision = "auto") -> torch.dtype:
    """Return the format of the forward on this device; `precision` is the recipe's."""
    if precision == "float32":
        return torch.float32
    if device.type == "cuda":
        # Without `including_emulation=False` a T4 claims bfloat16 too, and is many times slower with it.
        native = torch.cuda.is_bf16_supported(including_emulation=False)
        return torch.bfloat16 if native else torch.float16
    return torch.bfloat16 if device.type == "cpu" and fast_bfloat16() else torch.float32


def autocast(device: torch.device, dtype: torch.dtype) -> AbstractContextManager[object]:
    """Return the context in which a forward computes in this format."""
    return nullcontext() if dtype == torch.float32 else torch.autocast(device.type, dtype)


@cache
def fast_bfloat16() -> bool:
    """Return whether this CPU has bfloat16 matrix products; without them bfloat16 is far slower than float32."""
    flags = capabilities()
    return bool(flags.get("avx512_bf16") or flags.get("amx_bf16"))


@contextmanager
def tf32(device: torch.device, precision: Precision) -> Iterator[None]:
    """Allow TF32 for the float32 products of a GPU within the block; `precision: float32` forbids it."""
    if device.type != "cuda":
        yield
        return
    matmul = torch.backends.cuda.matmul  # not the newer `fp32_precision`: torch raises where others read the old one
    before = matmul.allow_tf32
    matmul.allow_tf32 = precision == "auto"
    try:
        yield
    finally:
        matmul.allow_tf32 = before


def device_name(device: torch.device) -> str:
    """Return the name of the GPU or the processor."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else processor_name()
