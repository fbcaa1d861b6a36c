"""Multi-process training: process group, collectives, gradient averaging.

    torchrun --nproc-per-node 4 -m kosbert train nli-sts

Each rank takes an equal share of every batch. The trainer averages all gradients in one all-reduce instead of DDP.
Parameters that a batch does not reach (an unused pooler, the head of another data source) need no special handling, and
GradCache works unchanged. Decisions that depend on the clock or on rounding are made by rank 0 and broadcast.

Losses may also run under sentence-transformers' trainer, which wraps the model in DDP but not the layers of the loss.
`sync_module` covers those layers; our trainer removes its hooks (`remove_gradient_hooks`), so nothing is reduced twice.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch import distributed as dist
from torch.nn import functional

from kosbert.errors import KosbertError, UsageError

Module = TypeVar("Module", bound=nn.Module)

# The other ranks wait while rank 0 computes the teacher embeddings. If rank 0 dies, the launcher ends them.
_TIMEOUT = timedelta(days=1)


def world_size() -> int:
    """Return the number of processes that train together; 1 without a process group."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Return the rank of this process; rank 0 writes the files."""
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0


@contextmanager
def process_group() -> Iterator[None]:
    """Join the process group of `torchrun` or `accelerate launch`; does nothing in a single process."""
    if int(os.environ.get("WORLD_SIZE", "1")) <= 1 or dist.is_initialized():
        yield
        return
    if torch.cuda.is_available():
        local_rank, gpus = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
        if local_rank >= gpus:
            raise UsageError(f"there are more processes than the {gpus} GPUs of this machine: start {gpus} per machine")
        torch.cuda.set_device(local_rank)  # "cuda" means this GPU from now on, so each rank loads its model there
    # Numbers that the host knows are exchanged between hosts: reading them from a GPU would wait for its queue.
    dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo", timeout=_TIMEOUT)
    try:
        yield
    except RuntimeError as error:
        if "Connection closed" in str(error) or "Connection reset" in str(error):
            raise KosbertError("another process of this run has stopped: see its error message") from error
        raise
    finally:
        dist.destroy_process_group()


def barrier() -> None:
    """Wait until every rank gets here."""
    if world_size() > 1:
        dist.barrier()


def broadcast_from_rank0(value: float) -> float:
    """Return the value of rank 0 on every rank."""
    if world_size() == 1:
        return value
    tensor = torch.tensor([value], dtype=torch.float64, device=_device())
    dist.broadcast(tensor, src=0)
    return float(tensor)


def on_rank_zero(function: Callable[[], object]) -> None:
    """Call a function on rank 0 only. The other ranks wait, and fail too if it fails."""
    failure: KosbertError | None = None
    if rank() == 0:
        try:
            function()
        except KosbertError as error:
            failure = error
    failed = broadcast_from_rank0(float(failure is not None))
    if failure:
        raise failure
    if failed:
        raise KosbertError("rank 0 of this run has stopped: see its error message")


def local_rows(rows: NDArray[np.integer[Any]]) -> NDArray[np.integer[Any]]:
    """Return the rows of a batch that this rank trains on; the sampler makes all shares equal."""
    share: NDArray[np.integer[Any]] = np.array_split(rows, world_size())[rank()]
    return share


def average_gradients(parameters: Sequence[Tensor], loss: Tensor) -> Tensor:
    """Average all gradients over the ranks in one all-reduce; return the mean loss."""
    if world_size() == 1:
        return loss.detach()
    # A parameter may have a gradient on some ranks only. With none on any rank the optimizer must not touch it.
    has_gradient = torch.tensor([parameter.grad is not None for parameter in parameters], dtype=torch.uint8)
    has_gradient = has_gradient.to(_device())
    dist.all_reduce(has_gradient, dist.ReduceOp.MAX)
    trained = [parameter for parameter, reached in zip(parameters, has_gradient.tolist(), strict=True) if reached]
    gradients = [(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in trained]
    flat = torch.cat([*gradients, loss.detach().reshape(1).to(gradients[0].dtype)])
    dist.all_reduce(flat)
    flat /= world_size()
    *means, mean_loss = torch.split(flat, [*(parameter.numel() for parameter in trained), 1])
    for parameter, mean in zip(trained, means, strict=True):
        parameter.grad = mean.view_as(parameter)
    return mean_loss.squeeze(0)


def sync_module(module: Module) -> Module:
    """Give a layer of a loss the same weights and averaged gradients on every rank, as DDP does for the model."""
    hooks = []
    for parameter in module.parameters():
        if world_size() > 1:
            dist.broadcast(parameter.data, src=0)
        hooks.append(parameter.register_hook(_average))  # type: ignore[no-untyped-call]
    module.gradient_hooks = hooks  # type: ignore[assignment]
    return module


def remove_gradient_hooks(module: nn.Module) -> None:
    """Remove the hooks of `sync_module` from a module and its children, for a trainer that averages all gradients."""
    for child in module.modules():
        for hook in getattr(child, "gradient_hooks", ()):
            hook.remove()


def _average(gradient: Tensor) -> Tensor:
    if world_size() == 1:
        return gradient
    mean = gradient / world_size()
    dist.all_reduce(mean)
    return mean


def gather_counts(rows: int) -> list[int]:
    """Return how many rows each rank holds, in the order of the ranks."""
    if world_size() == 1:
        return [rows]
    counts = [torch.zeros(1, dtype=torch.int64, device=_device()) for _ in range(world_size())]
    dist.all_gather(counts, torch.tensor([rows], device=_device()))
    return [int(count) for count in counts]


def first_local_row(counts: list[int]) -> int:
    """Return the index of this rank's first row among the gathered rows."""
    return sum(counts[: rank()]) if len(counts) > 1 else 0


def gather_rows(rows: Tensor, counts: list[int]) -> Tensor:
    """Gather the rows of all ranks with gradients: (local rows, ...) to (all rows, ...).

    The gradient of a gathered row is the sum over the ranks (a reduce-scatter), and the trainer or DDP averages the
    gradients of the parameters. So if each rank returns its part of the global mean times the number of ranks, every
    parameter gets the gradient that a single process with the whole batch would compute.
    """
    if len(counts) == 1:
        return rows
    gathered: Tensor = _Gather.apply(rows, counts)  # type: ignore[no-untyped-call]
    return gathered


class _Gather(torch.autograd.Function):
    """All-gather whose backward pass sums over the ranks, using collectives that every backend has."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, counts: list[int]) -> Tensor:
        ctx.counts = counts
        # all_gather needs equal shapes, but batches made by a token budget differ in their number of sentences.
        padded = functional.pad(rows, (0, 0) * (rows.ndim - 1) + (0, max(counts) - len(rows))).contiguous()
        parts = [torch.empty_like(padded) for _ in counts]
        dist.all_gather(parts, padded)
        return torch.cat([part[:size] for part, size in zip(parts, counts, strict=True)])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        total = gradients[0].clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        begin = first_local_row(ctx.counts)
        return total[begin : begin + ctx.counts[rank()]], None


def _device() -> torch.device:
    """Return the host if its tensors can be exchanged; a group that another trainer started may have only NCCL."""
    return torch.device("cpu" if "cpu:" in dist.get_backend_config() else "cuda")
