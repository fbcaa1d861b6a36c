"""Layers that belong to a loss and not to the model: a classifier, SimCSE's head, a projection to the teacher.

The trainer saves the model and wraps the model for distributed training; nobody does either for these. So a loss
keeps them in step over the processes itself, and a checkpoint asks here for their weights.
"""

import torch
from torch import Tensor, distributed, nn

from kosbert.errors import KosbertError
from kosbert.losses.base import Loss
from kosbert.losses.gather import processes


def sync_module(layer: nn.Module) -> nn.Module:
    """Give a layer the same weights and the same (averaged) gradients in every process, as DDP does for the model."""
    for parameter in layer.parameters():
        if processes() > 1:
            distributed.broadcast(parameter.data, src=0)
        parameter.register_hook(_average)  # type: ignore[no-untyped-call]
    return layer


def _average(gradient: Tensor) -> Tensor:
    if processes() == 1:
        return gradient
    averaged = gradient / processes()
    distributed.all_reduce(averaged)
    return averaged


def loss_state(loss_fn: Loss) -> dict[str, Tensor]:
    """The weights that are the loss's and not the model's, by name: what a checkpoint must save besides."""
    of_the_model = {id(parameter) for parameter in loss_fn.model.parameters()}
    named = loss_fn.named_parameters()
    return {name: parameter.detach() for name, parameter in named if id(parameter) not in of_the_model}


def load_loss_state(loss_fn: Loss, state: dict[str, Tensor]) -> None:
    """Put back what `loss_state` gave."""
    own = loss_state(loss_fn)
    shapes = {name: tuple(value.shape) for name, value in own.items()}
    saved = {name: tuple(value.shape) for name, value in state.items()}
    if shapes != saved:
        raise KosbertError(
            f"The checkpoint holds the loss's layers {saved or 'none'} where this run has {shapes or 'none'}; "
            "resume with the loss and the options that the checkpoint was made with."
        )
    with torch.no_grad():
        for name, value in state.items():
            own[name].copy_(value)
