"""Rows from every process, with gradients: a batch spread over devices offers all of its negatives to each anchor.

The gradient of a gathered row is the sum of what every process wants from it (a reduce-scatter). DDP then averages the
gradients of the parameters over the processes. So if each process returns its rows' part of the global mean times the
number of processes, every parameter receives the gradient of a single process with the whole batch.
"""

from typing import Any

import torch
from torch import Tensor, distributed
from torch.nn import functional


def processes() -> int:
    """How many processes train together; 1 without a process group."""
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def gather_counts(rows: int, device: torch.device) -> list[int]:
    """How many rows each process holds, in the order of their ranks."""
    if processes() == 1:
        return [rows]
    counts = [torch.zeros(1, dtype=torch.int64, device=device) for _ in range(processes())]
    distributed.all_gather(counts, torch.tensor([rows], device=device))
    return [int(each) for each in counts]


def first_own_row(counts: list[int]) -> int:
    """Where the rows of this process start among the gathered ones."""
    return sum(counts[: distributed.get_rank()]) if len(counts) > 1 else 0


def gather_rows(rows: Tensor, counts: list[int]) -> Tensor:
    """The rows of all processes, in the order of their ranks: (own rows, ...) to (all rows, ...)."""
    if len(counts) == 1:
        return rows
    gathered: Tensor = _Gather.apply(rows, counts)  # type: ignore[no-untyped-call]
    return gathered


class _Gather(torch.autograd.Function):
    """All-gather whose backward pass sums over the processes, in the collectives that every backend has."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, counts: list[int]) -> Tensor:
        ctx.counts = counts
        # The collective wants equal shapes, but batches made by a token budget differ in their number of sentences.
        padded = functional.pad(rows, (0, 0) * (rows.ndim - 1) + (0, max(counts) - len(rows))).contiguous()
        parts = [torch.empty_like(padded) for _ in counts]
        distributed.all_gather(parts, padded)
        return torch.cat([part[:size] for part, size in zip(parts, counts, strict=True)])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        wanted_by_all = gradients[0].clone(memory_format=torch.contiguous_format)
        distributed.all_reduce(wanted_by_all)
        begin = first_own_row(ctx.counts)
        return wanted_by_all[begin : begin + ctx.counts[distributed.get_rank()]], None
