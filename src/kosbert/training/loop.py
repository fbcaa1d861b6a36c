"""The loop of one stage: batch, loss, gradient, step; dev scores and checkpoints in between.

Written by hand on purpose: with packed batches, sentences tokenized once and one siamese forward it trains about twice
as fast as sentence-transformers' trainer (benchmarks/training.py, results/training-speed.md). And it makes resuming
exact without a pickle: batches and dropout are functions of seed and step, so a checkpoint is tensors and a number.
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
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from torch import Tensor

from kosbert.distributed import agreed, average_gradients, own_share, rank, world
from kosbert.errors import KosbertError
from kosbert.losses import Loss
from kosbert.model.onednn import capabilities
from kosbert.model.tokenized_corpus import TokenizedCorpus
from kosbert.training.recipe import Settings
from kosbert.training.sampler import Batch, Plan


@dataclass(frozen=True)
class TrainDataset:
    """One source of a stage, ready to be trained on: token ids by column, labels, loss, weight."""

    tokens: TokenizedCorpus
    columns: tuple[NDArray[np.int64], ...]  # (rows,) numbers of sentences in `tokens`, one array a column
    labels: NDArray[Any] | None
    loss: Loss
    batch_size: int
    weight: float

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each row, all columns together."""
        total: NDArray[np.int64] = sum((self.tokens.lengths[column] for column in self.columns), np.zeros(1, np.int64))
        return total


@dataclass
class Progress:
    """Where a stage stands. Everything here is written into checkpoints."""

    step: int = 0
    best: float | None = None
    best_step: int = 0
    waited: int = 0
    seconds: float = 0.0
    curve: list[dict[str, float]] = field(default_factory=list)


@dataclass(frozen=True)
class Hooks:
    """What happens around the steps; each may be left out."""

    score: Callable[[], float | None] | None = None  # the dev score, higher is better
    save: Callable[[Progress, torch.optim.Optimizer], None] | None = None  # write a checkpoint
    keep_best: Callable[[], None] | None = None  # remember the weights
    report: Callable[[Progress, int, dict[str, float]], None] | None = None  # tell the user


def learning_rate(settings: Settings, done: float) -> float:
    """The learning rate when a share of the stage is done: a straight rise, then the schedule's fall to zero."""
    if done < settings.warmup:
        return settings.lr * done / settings.warmup
    rest = (1 - done) / (1 - settings.warmup) if settings.warmup < 1 else 0.0
    match settings.schedule:
        case "constant":
            return settings.lr
        case "cosine":
            return settings.lr * (1 + math.cos(math.pi * (1 - rest))) / 2
        case "linear":
            return settings.lr * rest


def optimizer_for(loss_fns: Sequence[Loss], settings: Settings) -> torch.optim.AdamW:
    """AdamW over the model and the losses' own layers; biases and norms are not decayed, as BERT's authors do."""
    parameters: dict[int, Tensor] = {}
    for loss_fn in loss_fns:
        parameters |= {id(each): each for each in loss_fn.parameters() if each.requires_grad}
    groups = [
        {"params": [each for each in parameters.values() if each.ndim > 1], "weight_decay": settings.weight_decay},
        {"params": [each for each in parameters.values() if each.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=settings.lr, fused=True)


def run_stage(
    model: SentenceTransformer,
    lessons: Sequence[TrainDataset],
    plan: Plan,
    settings: Settings,
    progress: Progress,
    optimizer: torch.optim.AdamW,
    hooks: Hooks,
    *,
    seed: int,
    budget: float | None = None,
) -> None:
    """Train from `progress.step` to the end; `budget` (seconds for the stage) ends it earlier, schedule and all."""
    parameters = [each for group in optimizer.param_groups for each in group["params"]]
    evaluations = _evaluation_steps(plan, settings)
    model.train()
    if hooks.score and not progress.curve:
        start = hooks.score()  # to see what the stage changes; never a candidate for the best
        progress.curve.append({"step": 0} | ({} if start is None else {"dev": start}))
    started = time.monotonic() - progress.seconds
    for batch in plan.from_step(progress.step):
        done = progress.step / plan.total
        if budget is not None:
            done = max(done, agreed((time.monotonic() - started) / budget))
            if done >= 1:
                break
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(settings, done)
        # Dropout is a function of seed, step and process: nothing random has to be saved to go on exactly.
        torch.manual_seed(_mixed(seed, progress.step, rank()))
        with _memory_trouble(lessons[batch.source], batch, progress.step + 1):
            loss = _gradients(model, lessons[batch.source], batch, optimizer, parameters, settings, progress.step + 1)
            if hooks.save and progress.step:
                hooks.save(progress, optimizer)  # before the update: these weights have just given a finite loss
            optimizer.step()
        progress.step += 1
        progress.seconds = time.monotonic() - started
        point = {"step": progress.step, "loss": loss, "lr": optimizer.param_groups[0]["lr"]}
        if hooks.score and (progress.step in evaluations or progress.step == plan.total):
            point |= _evaluate(progress, hooks)
            started = time.monotonic() - progress.seconds  # scoring is not training: it does not eat the budget
        progress.curve.append(point)
        if hooks.report:
            hooks.report(progress, plan.total, point)
        if settings.patience and progress.waited >= settings.patience:
            break
    if hooks.score and progress.step not in (evaluations | {plan.total}):
        progress.curve[-1] |= _evaluate(progress, hooks)  # the budget ended between two
    if progress.best is None and not all(bool(each.isfinite().all()) for each in parameters):
        raise KosbertError(f"the weights are not finite after step {progress.step}: lower train.lr and start again")


def _evaluation_steps(plan: Plan, settings: Settings) -> set[int]:
    """Steps after which dev is scored: evenly spread over each epoch."""
    if not settings.evals_per_epoch:
        return set()
    every = plan.steps_in_an_epoch / settings.evals_per_epoch
    return {round(number * every) for number in range(1, math.ceil(plan.total / every) + 1)}


def _evaluate(progress: Progress, hooks: Hooks) -> dict[str, float]:
    assert hooks.score is not None
    score = hooks.score()
    if score is None:
        return {}
    if progress.best is None or score > progress.best:
        progress.best, progress.best_step, progress.waited = score, progress.step, 0
        if hooks.keep_best:
            hooks.keep_best()
    else:
        progress.waited += 1
    return {"dev": score}


def _gradients(
    model: SentenceTransformer,
    lesson: TrainDataset,
    batch: Batch,
    optimizer: torch.optim.AdamW,
    parameters: list[Tensor],
    settings: Settings,
    number: int,
) -> float:
    """Give every parameter its gradient, clipped; returns the loss. The weights are as they were."""
    rows = own_share(batch.rows)
    features = [lesson.tokens.batch(column[rows]) for column in lesson.columns]
    labels = None if lesson.labels is None else torch.from_numpy(lesson.labels[rows]).to(model.device)
    optimizer.zero_grad(set_to_none=True)
    with _precision(settings, model.device):
        loss = lesson.loss(features, labels) * lesson.weight
    loss.backward()
    value = average_gradients(parameters, loss)
    norm = float(torch.nn.utils.clip_grad_norm_(parameters, settings.max_grad_norm))
    for name, found in (("loss", value), ("gradient", norm)):
        if not math.isfinite(found):
            raise KosbertError(
                f"the {name} became {found} at step {number} (rows {batch.rows[:5].tolist()}…), and the last good "
                "checkpoint is kept: lower train.lr or look at these rows, and start again"
            )
    return value


@contextmanager
def _memory_trouble(lesson: TrainDataset, batch: Batch, number: int) -> Iterator[None]:
    """Say what was too large when memory runs out."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        # torch has a kind for a GPU's memory; that of a CPU shows in the message only.
        signs = ("out of memory", "allocate memory", "not enough memory")
        named = isinstance(error, MemoryError | torch.OutOfMemoryError)
        if not named and not any(sign in str(error).lower() for sign in signs):
            raise
        rows = own_share(batch.rows)
        tokens = int(sum(lesson.tokens.lengths[column[rows]].sum() for column in lesson.columns))
        raise KosbertError(
            f"memory ran out at step {number} with {len(rows)} rows of {tokens} tokens: lower train.batch_size or "
            "max_length, or set the loss's option gradcache to 32"
        ) from error


def _precision(settings: Settings, device: torch.device) -> Any:
    """Matrix products in bfloat16 where the hardware has them; elsewhere they would be far slower than in float32."""
    if settings.precision == "float32":
        return nullcontext()
    native = torch.cuda.is_bf16_supported() if device.type == "cuda" else device.type == "cpu" and fast_bfloat16()
    return torch.autocast(device.type, torch.bfloat16) if native else nullcontext()


@cache
def fast_bfloat16() -> bool:
    """Whether this processor multiplies bfloat16 itself."""
    found = capabilities()
    return bool(found.get("avx512_bf16") or found.get("amx_bf16"))


def _mixed(*numbers: int) -> int:
    """One seed from several numbers, the same on every machine."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)


def batches_of(lessons: Sequence[TrainDataset], settings: Settings, seed: int, **length: Any) -> Plan:
    """The plan of a stage over its lessons."""
    return Plan(
        lengths=[lesson.lengths for lesson in lessons],
        batch_sizes=[lesson.batch_size for lesson in lessons],
        seed=seed,
        group_by_length=settings.group_by_length,
        processes=world(),
        **length,
    )
