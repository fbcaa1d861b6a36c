"""Training loop of one stage: batch, loss, gradients, optimizer step; dev evaluation and checkpoints in between.

Written by hand for two reasons. With packed batches, sentences tokenized once and one siamese forward it is about twice
as fast as sentence-transformers' trainer (benchmarks/training.py, results/training-speed.md). And resuming is exact
without a pickle: batches and dropout depend only on seed and step, so a checkpoint is tensors and a number.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor

from kosbert.distributed import average_gradients, broadcast_from_rank0, local_rows, rank, world_size
from kosbert.errors import KosbertError
from kosbert.losses import Loss
from kosbert.model.onednn import capabilities
from kosbert.training.datasets import TrainDataset
from kosbert.training.recipe import TrainingArguments
from kosbert.training.sampler import Batch, BatchSampler


@dataclass
class TrainerState:
    """State of a stage; every field is saved in checkpoints."""

    step: int = 0
    best_score: float | None = None
    best_step: int = 0
    evals_without_improvement: int = 0
    seconds: float = 0.0  # training time, without evaluation
    curve: list[dict[str, float]] = field(default_factory=list)  # step, loss, lr, dev


@dataclass(frozen=True)
class Callbacks:
    """Functions called during a stage; all are optional."""

    evaluate: Callable[[], float | None] | None = None  # the dev score, higher is better
    save_checkpoint: Callable[[TrainerState, torch.optim.Optimizer], None] | None = None
    on_new_best: Callable[[], None] | None = None  # keep the weights
    on_step_end: Callable[[TrainerState, dict[str, float]], None] | None = None  # with the newest point of the curve


def learning_rate(arguments: TrainingArguments, done: float) -> float:
    """Return the learning rate after a fraction of the stage: linear warmup, then decay to zero by the schedule."""
    if done < arguments.warmup:
        return arguments.lr * done / arguments.warmup
    rest = (1 - done) / (1 - arguments.warmup) if arguments.warmup < 1 else 0.0
    match arguments.schedule:
        case "constant":
            return arguments.lr
        case "cosine":
            return arguments.lr * (1 + math.cos(math.pi * (1 - rest))) / 2
        case "linear":
            return arguments.lr * rest


def make_optimizer(losses: Sequence[Loss], arguments: TrainingArguments) -> torch.optim.AdamW:
    """Return AdamW over the model and the layers of the losses; biases and norms are not decayed, as in BERT."""
    parameters: dict[int, Tensor] = {}
    for loss_fn in losses:
        parameters |= {id(parameter): parameter for parameter in loss_fn.parameters() if parameter.requires_grad}
    groups = [
        {"params": [p for p in parameters.values() if p.ndim > 1], "weight_decay": arguments.weight_decay},
        {"params": [p for p in parameters.values() if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=arguments.lr, fused=True)


def make_sampler(
    datasets: Sequence[TrainDataset], arguments: TrainingArguments, seed: int, **length: Any
) -> BatchSampler:
    """Return the batch sampler of a stage; `length` is `epochs` or `steps`."""
    return BatchSampler(
        lengths=[dataset.lengths for dataset in datasets],
        batch_sizes=[dataset.batch_size for dataset in datasets],
        seed=seed,
        group_by_length=arguments.group_by_length,
        no_duplicates=[dataset.columns for dataset in datasets] if arguments.no_duplicates else None,
        world_size=world_size(),
        **length,
    )


def run_stage(
    model: SentenceTransformer,
    datasets: Sequence[TrainDataset],
    sampler: BatchSampler,
    arguments: TrainingArguments,
    state: TrainerState,
    optimizer: torch.optim.AdamW,
    callbacks: Callbacks,
    *,
    seed: int,
    time_budget: float | None = None,
    max_steps: int | None = None,
) -> None:
    """Train from `state.step` to the end of the stage.

    Args:
        model: the model; its weights change in place.
        datasets: the data sources.
        sampler: their batches.
        arguments: hyperparameters.
        state: where to start; updated in place.
        optimizer: from `make_optimizer`.
        callbacks: evaluation, checkpoints, progress.
        seed: of dropout.
        time_budget: seconds for the stage; the schedule is compressed to fit.
        max_steps: stop after this many steps without a final evaluation, to measure the time per step.
    """
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    eval_steps = _eval_steps(sampler, arguments)
    model.train()
    if callbacks.evaluate and not state.curve:
        score = callbacks.evaluate()  # the score before training; never a candidate for the best
        state.curve.append({"step": 0} | ({} if score is None else {"dev": score}))
    started = time.monotonic() - state.seconds
    for batch in sampler.from_step(state.step):
        done = state.step / sampler.total_steps
        if time_budget is not None:
            done = max(done, broadcast_from_rank0((time.monotonic() - started) / time_budget))
            if done >= 1:
                break
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(arguments, done)
        # Dropout depends on seed, step and rank only, so no random state has to be saved.
        torch.manual_seed(_combine_seeds(seed, state.step, rank()))
        with _explain_out_of_memory(datasets[batch.source], batch, state.step + 1):
            loss = _compute_gradients(
                model, datasets[batch.source], batch, optimizer, parameters, arguments, state.step + 1
            )
            if callbacks.save_checkpoint and state.step:
                # Before the update: these weights have just given a finite loss.
                callbacks.save_checkpoint(state, optimizer)
            optimizer.step()
        state.step += 1
        state.seconds = time.monotonic() - started
        point = {"step": state.step, "loss": loss, "lr": optimizer.param_groups[0]["lr"]}
        if callbacks.evaluate and (state.step in eval_steps or state.step == sampler.total_steps):
            point |= _evaluate(state, callbacks)
            started = time.monotonic() - state.seconds  # evaluation does not count against the time budget
        state.curve.append(point)
        if callbacks.on_step_end:
            callbacks.on_step_end(state, point)
        if state.step == max_steps:
            return
        if arguments.patience and state.evals_without_improvement >= arguments.patience:
            break
    if callbacks.evaluate and state.step not in (eval_steps | {sampler.total_steps}):
        state.curve[-1] |= _evaluate(state, callbacks)  # the time budget ended between two evaluations
    if state.best_score is None and not all(bool(parameter.isfinite().all()) for parameter in parameters):
        raise KosbertError(f"the weights are not finite after step {state.step}: lower train.lr and start again")


def _eval_steps(sampler: BatchSampler, arguments: TrainingArguments) -> set[int]:
    """Return the steps followed by a dev evaluation, evenly spread over each epoch."""
    if not arguments.evals_per_epoch:
        return set()
    interval = sampler.steps_per_epoch / arguments.evals_per_epoch
    return {round(number * interval) for number in range(1, math.ceil(sampler.total_steps / interval) + 1)}


def _evaluate(state: TrainerState, callbacks: Callbacks) -> dict[str, float]:
    assert callbacks.evaluate is not None
    score = callbacks.evaluate()
    if score is None:
        return {}
    if state.best_score is None or score > state.best_score:
        state.best_score, state.best_step, state.evals_without_improvement = score, state.step, 0
        if callbacks.on_new_best:
            callbacks.on_new_best()
    else:
        state.evals_without_improvement += 1
    return {"dev": score}


def _compute_gradients(
    model: SentenceTransformer,
    dataset: TrainDataset,
    batch: Batch,
    optimizer: torch.optim.AdamW,
    parameters: list[Tensor],
    arguments: TrainingArguments,
    step: int,
) -> float:
    """Compute, average and clip the gradients of one batch; return the loss. The weights do not change."""
    rows = local_rows(batch.rows)
    labels = None if dataset.labels is None else torch.from_numpy(dataset.labels[rows]).to(model.device)
    optimizer.zero_grad(set_to_none=True)
    with _autocast(arguments, model.device):
        loss = dataset.loss(dataset.features(rows), labels) * dataset.weight
    loss.backward()
    mean_loss = average_gradients(parameters, loss)
    norm = float(torch.nn.utils.clip_grad_norm_(parameters, arguments.max_grad_norm))
    for name, value in (("loss", mean_loss), ("gradient", norm)):
        if not math.isfinite(value):
            raise KosbertError(
                f"the {name} became {value} at step {step} (rows {batch.rows[:5].tolist()}…), and the last good "
                "checkpoint is kept: lower train.lr or check these rows, and start again"
            )
    return mean_loss


@contextmanager
def _explain_out_of_memory(dataset: TrainDataset, batch: Batch, step: int) -> Iterator[None]:
    """Turn an out-of-memory error into a message with the size of the batch."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        # torch has an error class for GPU memory; for CPU memory only the message tells.
        phrases = ("out of memory", "allocate memory", "not enough memory")
        is_memory_error = isinstance(error, MemoryError | torch.OutOfMemoryError)
        if not is_memory_error and not any(phrase in str(error).lower() for phrase in phrases):
            raise
        rows = local_rows(batch.rows)
        raise KosbertError(
            f"out of memory at step {step} with {len(rows)} rows of {int(dataset.tokens(rows).sum())} tokens: lower "
            "train.batch_size or max_length, or set the loss option gradcache to 32"
        ) from error


def _autocast(arguments: TrainingArguments, device: torch.device) -> Any:
    """Return bfloat16 autocast if the hardware multiplies bfloat16; elsewhere it would be far slower than float32."""
    if arguments.precision == "float32":
        return nullcontext()
    native = torch.cuda.is_bf16_supported() if device.type == "cuda" else device.type == "cpu" and fast_bfloat16()
    return torch.autocast(device.type, torch.bfloat16) if native else nullcontext()


@cache
def fast_bfloat16() -> bool:
    """Return whether this CPU has bfloat16 matrix products."""
    flags = capabilities()
    return bool(flags.get("avx512_bf16") or flags.get("amx_bf16"))


def _combine_seeds(*numbers: int) -> int:
    """Return one seed from several numbers, the same on every machine."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)
