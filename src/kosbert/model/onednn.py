"""Linear layers with oneDNN on AMD processors, where MKL, torch's default, reaches only three quarters of the speed.

Computation stays in float32, and the weights are used in place: no copy to synchronize with training. In BERT's
intermediate layers oneDNN fuses the linear layer with GELU, which saves a pass over memory.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import Linear, Module, functional
from torch.overrides import TorchFunctionMode
from transformers.activations import GELUActivation


def fast_linear(model: Module, device: torch.device) -> AbstractContextManager[object]:
    """Return a context in which the model's linear layers use the fastest library for this CPU, without gradients."""
    return _OneDnn(model) if device.type == "cpu" and mkl_is_slow() else nullcontext()


def onednn_linear(inputs: Tensor, weight: Tensor, bias: Tensor | None = None, *, activation: str = "none") -> Tensor:
    """Compute `functional.linear` with oneDNN, (…, in), (out, in), (out,) to (…, out), and an activation ("gelu")."""
    return torch.ops.mkldnn._linear_pointwise(inputs, weight, bias, activation, [], "none")  # type: ignore[no-any-return]


@cache
def mkl_is_slow() -> bool:
    """Return whether MKL is slower than oneDNN on this processor (AMD), and oneDNN is available."""
    return has_onednn() and "AMD" in str(capabilities().get("cpu_name", ""))


def capabilities() -> dict[str, Any]:
    """Return what torch knows about this processor; nothing in older versions."""
    return dict(getattr(torch.cpu, "get_capabilities", dict)())


def has_onednn() -> bool:
    """Return whether this torch was built with oneDNN."""
    return torch._C._has_mkldnn and hasattr(torch.ops.mkldnn, "_linear_pointwise")


class _OneDnn(TorchFunctionMode):
    def __init__(self, model: Module) -> None:
        super().__init__()
        self._before_gelu = _before_gelu(model)
        self._after_gelu: Tensor | None = None  # the last result with GELU already applied

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if function is functional.linear and not kwargs and _can_use_onednn(*args):
            if id(args[1]) not in self._before_gelu:
                return onednn_linear(*args)
            self._after_gelu = onednn_linear(*args, activation="gelu")
            return self._after_gelu
        if function is functional.gelu and args[0] is self._after_gelu:
            self._after_gelu = None
            return args[0]
        return function(*args, **(kwargs or {}))


def _can_use_onednn(*tensors: Tensor | None) -> bool:
    return (
        not torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")
        and all(
            tensor is None or (tensor.dtype == torch.float32 and tensor.layout == torch.strided) for tensor in tensors
        )
    )


def _before_gelu(model: Module) -> set[int]:
    """Return ids of weights of layers that feed only the exact GELU, as in BERT's intermediate layers."""
    weights = set()
    for module in model.modules():
        dense, activation = (module._modules.get(name) for name in ("dense", "intermediate_act_fn"))
        exact = isinstance(activation, GELUActivation) and activation.act is functional.gelu
        if exact and type(dense) is Linear and dense.bias is not None and not dense._forward_hooks:
            weights.add(id(dense.weight))
    return weights
