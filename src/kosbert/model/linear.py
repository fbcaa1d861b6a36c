"""Linear layers through oneDNN on AMD processors, where torch's own choice, MKL, leaves a quarter of the speed unused.

Float32 stays float32, and the weights stay as they are: no copy, nothing to keep in step with training.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode


def fast_linear(device: torch.device) -> AbstractContextManager[object]:
    """Within it, and without gradients, linear layers take the fastest way that this processor has."""
    return _OneDnn() if device.type == "cpu" and mkl_is_slow() else nullcontext()


def onednn_linear(inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """What `torch.nn.functional.linear` computes, by oneDNN: (…, in), (out, in), (out,) to (…, out)."""
    return torch.ops.mkldnn._linear_pointwise(inputs, weight, bias, "none", [], "")  # type: ignore[no-any-return]


@cache
def mkl_is_slow() -> bool:
    """Whether this is a processor for which MKL was not made, and oneDNN is there."""
    return has_onednn() and "AMD" in str(torch.cpu.get_capabilities().get("cpu_name", ""))


def has_onednn() -> bool:
    """Whether this torch was built with it."""
    return torch._C._has_mkldnn and hasattr(torch.ops.mkldnn, "_linear_pointwise")


class _OneDnn(TorchFunctionMode):
    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        plain = function is functional.linear and not kwargs and all(map(_is_plain, args))
        if plain and not torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu"):
            return onednn_linear(*args, *[None] * (3 - len(args)))
        return function(*args, **(kwargs or {}))


def _is_plain(tensor: Tensor | None) -> bool:
    return tensor is None or (
        tensor.dtype == torch.float32 and tensor.device.type == "cpu" and tensor.layout == torch.strided
    )
