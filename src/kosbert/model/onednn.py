"""Linear layers through oneDNN on AMD processors, where torch's own choice, MKL, leaves a quarter of the speed unused.

Float32 stays float32, and the weights stay as they are: no copy, nothing to keep in step with training. Where BERT's
layers apply GELU to what a linear layer gave, oneDNN does both at once, without a second way through memory.
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
    """Within it, and without gradients, linear layers of a model take the fastest way that this processor has."""
    return _OneDnn(model) if device.type == "cpu" and mkl_is_slow() else nullcontext()


def onednn_linear(inputs: Tensor, weight: Tensor, bias: Tensor | None = None, *, then: str = "none") -> Tensor:
    """`torch.nn.functional.linear` by oneDNN, (…, in), (out, in), (out,) to (…, out); `then` may be "gelu"."""
    return torch.ops.mkldnn._linear_pointwise(inputs, weight, bias, then, [], "none")  # type: ignore[no-any-return]


@cache
def mkl_is_slow() -> bool:
    """Whether this is a processor for which MKL was not made, and oneDNN is there."""
    return has_onednn() and "AMD" in str(capabilities().get("cpu_name", ""))


def capabilities() -> dict[str, Any]:
    """What torch knows of this processor; older versions tell nothing."""
    found: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return found


def has_onednn() -> bool:
    """Whether this torch was built with it."""
    return torch._C._has_mkldnn and hasattr(torch.ops.mkldnn, "_linear_pointwise")


class _OneDnn(TorchFunctionMode):
    def __init__(self, model: Module) -> None:
        super().__init__()
        self._before_gelu = _before_gelu(model)
        self._has_gelu: Tensor | None = None  # to whom GELU was applied already

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if function is functional.linear and not kwargs and _is_plain(*args):
            if id(args[1]) not in self._before_gelu:
                return onednn_linear(*args)
            self._has_gelu = onednn_linear(*args, then="gelu")
            return self._has_gelu
        if function is functional.gelu and args[0] is self._has_gelu:
            self._has_gelu = None
            return args[0]
        return function(*args, **(kwargs or {}))


def _is_plain(*tensors: Tensor | None) -> bool:
    return (
        not torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")
        and all(each is None or (each.dtype == torch.float32 and each.layout == torch.strided) for each in tensors)
    )


def _before_gelu(model: Module) -> set[int]:
    """The weights whose layer's result goes into the exact GELU and nowhere else, as in BERT's intermediate layers."""
    found = set()
    for module in model.modules():
        dense, activation = (module._modules.get(name) for name in ("dense", "intermediate_act_fn"))
        exact = isinstance(activation, GELUActivation) and activation.act is functional.gelu
        if exact and type(dense) is Linear and dense.bias is not None and not dense._forward_hooks:
            found.add(id(dense.weight))
    return found
