"""Training loop of one stage: batch, loss, gradients, optimizer step; dev evaluation and checkpoints in between.

Written by hand for two reasons. With packed batches, sentences tokenized once and one siamese forward it is about twice
as fast as sentence-transformers' trainer (benchmarks/training.py, results/training-speed.md). And resuming is exact
without a pickle: batches and dropout depend only on seed and step, so a checkpoint is tensors and a number.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor

from kosbert.distributed import average_gradients, broadcast_from_rank0, local_rows, rank, world_size
from kosbert.errors import KosbertError
from kosbert.losses import Loss
from kosbert.model.packing import is_padded
from kosbert.model.precision import autocast, tf32, training_dtype
from kosbert.training.datasets import TrainDataset
from kosbert.training.recipe import TrainingArguments
from kosbert.training.sampler import Batch, BatchSampler

# The scale is halved after each step that overflows, so this many in a row mean that no scale would help.
_MAX_SKIPPED_STEPS = 20


@dataclass
class TrainerState:
    """State of a stage; every field is saved in checkpoints."""

    step: int = 0
    best_score: float | None = None
    best_step: int = 0
    evals_without_improvement: int = 0
    skipped_steps: int = 0  # the latest steps in a row that float16 could not represent
    seconds: float = 0.0  # training time, without evaluation
    curve: list[dict[str, float]] = field(default_factory=list)  # step, loss, lr, dev


@dataclass(frozen=True)
class Callbacks:
    """Functions called during a stage; all are optional."""

    evaluate: Callable[[], float | None] | None = None  # the dev score, higher is better
    checkpoint_due: Callable[[], bool] | None = None
    save_checkpoint: Callable[[TrainerState], None] | None = None  # if it is due
    on_new_best: Callable[[], None] | None = None  # keep the weights
    on_step_end: Callable[[TrainerState, dict[str, float]], None] | None = None
    """Gets each point of the curve once its loss is known: on a GPU one step later."""


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


def make_scaler(device: torch.device, arguments: TrainingArguments) -> torch.amp.GradScaler:
    """Return the loss scaler of float16; for other formats one that does nothing."""
    enabled = training_dtype(device, arguments.precision) == torch.float16
    return torch.amp.GradScaler(device.type, enabled=enabled)


def make_sampler(
    model: SentenceTransformer,
    datasets: Sequence[TrainDataset],
    arguments: TrainingArguments,
    seed: int,
    **length: Any,
) -> BatchSampler:
    """Return the batch sampler of a stage; `length` is `epochs` or `steps`."""
    grouped = arguments.group_by_length
    return BatchSampler(
        lengths=[dataset.lengths for dataset in datasets],
        batch_sizes=[dataset.batch_size for dataset in datasets],
        seed=seed,
        group_by_length=is_padded(model) and not arguments.no_duplicates if grouped is None else grouped,
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
    scaler: torch.amp.GradScaler | None = None,
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
        scaler: from `make_scaler`, in the state of a checkpoint; a new one by default.
        time_budget: seconds for the stage; the schedule is compressed to fit.
        max_steps: stop after this many steps without a final evaluation, to measure the time per step.
    """
    scaler = scaler or make_scaler(model.device, arguments)
    eval_steps = _eval_steps(sampler, arguments)
    final_steps = {sampler.total_steps, max_steps}
    readings = _Readings(state, scaled=scaler.is_enabled(), late=_reads_late(model.device))
    model.train()

    def report(points: list[dict[str, float]]) -> None:
        for point in points:
            if callbacks.on_step_end:
                callbacks.on_step_end(state, point)

    with tf32(model.device, arguments.precision):
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
            point = {"step": state.step + 1, "loss": math.nan, "lr": optimizer.param_groups[0]["lr"]}
            checkpoint_due = bool(state.step and callbacks.checkpoint_due and callbacks.checkpoint_due())
            if checkpoint_due:
                report(readings.finish())  # the curve of the checkpoint is complete
            # Dropout depends on seed, step and rank only, so no random state has to be saved.
            torch.manual_seed(_combine_seeds(seed, state.step, rank()))
            with _explain_out_of_memory(datasets[batch.source], batch, state.step + 1):
                values = _compute_gradients(model, datasets[batch.source], batch, optimizer, scaler, arguments)
                readings.add(point, batch, values)
                if checkpoint_due and callbacks.save_checkpoint:
                    readings.check()  # before the update: these weights have just given a finite loss
                    callbacks.save_checkpoint(state)
                if not readings.late:
                    readings.check()
                scaler.step(optimizer)
                scaler.update()
            state.step += 1
            state.seconds = time.monotonic() - started
            state.curve.append(point)
            evaluates = callbacks.evaluate and (state.step in eval_steps or state.step == sampler.total_steps)
            finished = readings.finish(keep=int(readings.late and not evaluates and state.step not in final_steps))
            if evaluates:
                point |= _evaluate(state, callbacks)
                started = time.monotonic() - state.seconds  # evaluation does not count against the time budget
            report(finished)
            if state.step == max_steps:
                return
            if arguments.patience and state.evals_without_improvement >= arguments.patience:
                break
        report(readings.finish())
        if callbacks.evaluate and state.step not in (eval_steps | {sampler.total_steps}):
            state.curve[-1] |= _evaluate(state, callbacks)  # the time budget ended between two evaluations
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if state.best_score is None and not bool(torch.stack([values.isfinite().all() for values in parameters]).all()):
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
    scaler: torch.amp.GradScaler,
    arguments: TrainingArguments,
) -> Tensor:
    """Compute, average and clip the gradients of one batch; return loss and gradient norm, (2,), on the device."""
    rows = local_rows(batch.rows)
    labels = None if dataset.labels is None else torch.from_numpy(dataset.labels[rows])
    optimizer.zero_grad(set_to_none=True)
    with autocast(model.device, training_dtype(model.device, arguments.precision)):
        loss = dataset.loss(dataset.features(rows), labels) * dataset.weight
    scaler.scale(loss).backward()
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    mean_loss = average_gradients(parameters, loss)
    scaler.unscale_(optimizer)
    norm = torch.nn.utils.clip_grad_norm_(parameters, arguments.max_grad_norm)
    return torch.stack([mean_loss, norm.to(mean_loss.dtype)])


@dataclass(frozen=True)
class _Reading:
    """Loss and gradient norm of a step on their way to the host, and the point of the curve that they complete."""

    point: dict[str, float]
    batch: Batch
    values: Tensor  # (2,), on the host once the copy is done
    copied: torch.cuda.Event | None

    def wait(self) -> list[float]:
        if self.copied:
            self.copied.synchronize()
        return self.values.tolist()


class _Readings:
    """The steps whose loss has not been looked at yet.

    On a GPU the host runs ahead of the device. Reading the loss of the step that has just been queued would make both
    wait for each other, so the loss is read one step late, or when a checkpoint or an evaluation needs it.

    Args:
        state: counts the steps that float16 could not represent.
        scaled: the loss is scaled for float16. Then an infinite gradient only means that the scale is too large.
        late: read one step late.
    """

    def __init__(self, state: TrainerState, *, scaled: bool, late: bool) -> None:
        self.late, self._state, self._scaled = late, state, scaled
        self._readings: list[_Reading] = []

    def add(self, point: dict[str, float], batch: Batch, values: Tensor) -> None:
        """Start to copy the values of a step to the host."""
        on_host = values.to("cpu", non_blocking=self.late)
        event = torch.cuda.Event() if values.device.type == "cuda" else None  # type: ignore[no-untyped-call]
        if event:
            event.record()
        self._readings.append(_Reading(point, batch, on_host, event))

    def check(self) -> None:
        """Raise if the loss or the gradient of a step is not finite."""
        for reading in self._readings:
            self._check(reading)

    def finish(self, keep: int = 0) -> list[dict[str, float]]:
        """Check all steps but the latest `keep`, and return their points, completed by the loss."""
        done, self._readings = (
            self._readings[: len(self._readings) - keep],
            self._readings[len(self._readings) - keep :],
        )
        for reading in done:
            loss, norm = self._check(reading)
            reading.point["loss"] = loss
            self._state.skipped_steps = 0 if math.isfinite(norm) else self._state.skipped_steps + 1
            if self._state.skipped_steps >= _MAX_SKIPPED_STEPS:
                raise KosbertError(
                    f"the gradient overflowed float16 in {_MAX_SKIPPED_STEPS} steps in a row, up to step "
                    f"{reading.point['step']}: lower train.lr, or set train.precision to float32, and start again"
                )
        return [reading.point for reading in done]

    def _check(self, reading: _Reading) -> list[float]:
        loss, norm = values = reading.wait()
        for name, value in [("loss", loss)] + [("gradient", norm)] * (not self._scaled):
            if not math.isfinite(value):
                raise KosbertError(
                    f"the {name} became {value} at step {reading.point['step']} (rows "
                    f"{reading.batch.rows[:5].tolist()}…), and the last good checkpoint is kept: lower train.lr or "
                    "check these rows, and start again"
                )
        return values


def _reads_late(device: torch.device) -> bool:
    return device.type == "cuda"


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


def _combine_seeds(*numbers: int) -> int:
    """Return one seed from several numbers, the same on every machine."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)
