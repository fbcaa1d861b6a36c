"""More than one process: `torchrun` or `accelerate launch` start them, this joins them and averages their gradients.

    torchrun --nproc-per-node 4 -m kosbert train recipes/nli-sts.yaml

Each process takes its share of every batch. Gradients are averaged in one exchange, by hand rather than by DDP: what a
batch does not reach (an unused pooler, another source's head) needs no special care, and GradCache works as it is.
Whatever a clock or a rounding error could decide differently in two processes is decided by the first (`agreed`).
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, distributed

from kosbert.errors import KosbertError

# The others wait while the first computes a teacher's vectors; if it dies instead, its launcher ends them.
_PATIENCE = timedelta(days=1)


def world() -> int:
    """How many processes train together."""
    return distributed.get_world_size() if distributed.is_initialized() else 1


def rank() -> int:
    """The number of this process; 0 writes the files."""
    return distributed.get_rank() if distributed.is_initialized() else 0


@contextmanager
def joined() -> Iterator[None]:
    """Join the processes that a launcher started; does nothing in a single one."""
    if int(os.environ.get("WORLD_SIZE", "1")) <= 1 or distributed.is_initialized():
        yield
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo", timeout=_PATIENCE)
    try:
        yield
    except RuntimeError as error:
        if "Connection closed" in str(error) or "Connection reset" in str(error):
            raise KosbertError("another process of this run has stopped: see what it said") from error
        raise
    finally:
        distributed.destroy_process_group()


def barrier() -> None:
    """Wait for the others."""
    if world() > 1:
        distributed.barrier()


def agreed(value: float) -> float:
    """What the first process says."""
    if world() == 1:
        return value
    said = torch.tensor([value], dtype=torch.float64, device=_device())
    distributed.broadcast(said, src=0)
    return float(said)


def in_the_first(work: Callable[[], object]) -> None:
    """Do something in the first process only; the others wait for it, and stop with it where it fails."""
    failure: KosbertError | None = None
    if rank() == 0:
        try:
            work()
        except KosbertError as error:
            failure = error
    failed = agreed(float(failure is not None))
    if failure:
        raise failure
    if failed:
        raise KosbertError("the first process of this run has stopped: see what it said")


def own_share(rows: NDArray[np.integer[Any]]) -> NDArray[np.integer[Any]]:
    """The rows of a batch that this process takes; the plan makes all shares equal."""
    share: NDArray[np.integer[Any]] = np.array_split(rows, world())[rank()]
    return share


def average_gradients(parameters: Sequence[Tensor], loss: Tensor) -> float:
    """Give every process the mean of all gradients, in one exchange; returns the mean of the losses."""
    if world() == 1:
        return float(loss.detach())
    # A parameter may have a gradient here and none there, or nowhere: then the optimizer must not touch it at all.
    reached = torch.tensor([each.grad is not None for each in parameters], dtype=torch.uint8, device=loss.device)
    distributed.all_reduce(reached, distributed.ReduceOp.MAX)
    trained = [parameter for parameter, yes in zip(parameters, reached.tolist(), strict=True) if yes]
    gradients = [(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in trained]
    flat = torch.cat([*gradients, loss.detach().reshape(1).to(gradients[0].dtype)])
    distributed.all_reduce(flat)
    flat /= world()
    *means, mean_loss = torch.split(flat, [*(each.numel() for each in trained), 1])
    for parameter, mean in zip(trained, means, strict=True):
        parameter.grad = mean.view_as(parameter)
    return float(mean_loss)


def _device() -> torch.device:
    """Where the exchange reads its tensors from."""
    return torch.device("cuda" if distributed.get_backend() == "nccl" else "cpu")
