"""Train a recipe into a run directory: stages in order, checkpoints, exact resume.

OUT/recipe.json    what is trained; a resumed run must match it
OUT/checkpoints/   deleted at the end
OUT/curves.json    loss, learning rate and dev scores of every stage
OUT/model/         the result: a sentence-transformers directory with kosbert.json
"""

import json
import math
import shutil
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from sentence_transformers import SentenceTransformer
from torch import Tensor

from kosbert.data.records import ScoredPair
from kosbert.distributed import (
    barrier,
    broadcast_from_rank0,
    on_rank_zero,
    process_group,
    rank,
    remove_gradient_hooks,
    world_size,
)
from kosbert.errors import KosbertError, UsageError
from kosbert.evaluation.sts import score_pairs
from kosbert.files import write_text
from kosbert.losses import Loss, load_loss_state, loss_state
from kosbert.model.compress import fewer_layers
from kosbert.model.directory import model_origin
from kosbert.model.dropout import set_dropout
from kosbert.model.from_scratch import new_backbone
from kosbert.model.packing import use_attention
from kosbert.model.precision import Precision, autocast, device_name, training_dtype
from kosbert.model.torch_encoder import TorchEncoder
from kosbert.model.torch_loading import load_torch
from kosbert.progress import ProgressCallback, ProgressEvent
from kosbert.training import tracking
from kosbert.training.checkpoint import (
    Checkpoint,
    Checkpoints,
    CheckpointWriter,
    optimizer_tensors,
    restore_optimizer,
)
from kosbert.training.datasets import DataModule, TrainDataset
from kosbert.training.loop import Callbacks, TrainerState, make_optimizer, make_sampler, make_scaler, run_stage
from kosbert.training.lora import add_lora, merge_lora
from kosbert.training.recipe import FewerLayers, NewBackbone, Recipe, Stage, TrainingArguments
from kosbert.training.sampler import BatchSampler

Curves = dict[str, list[dict[str, float]]]


@dataclass(frozen=True)
class TrainResult:
    """Result of a run.

    Args:
        path: the model directory.
        scores: Pearson and Spearman by dev and test set.
        curves: loss, learning rate and dev scores by stage.
        seconds: training time by stage, without evaluation; empty if the run was already finished.
    """

    path: Path
    scores: dict[str, dict[str, float | None]]
    curves: Curves = field(repr=False)
    seconds: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class StepTiming:
    """Measured time of the first stage of a recipe.

    Args:
        total_steps: steps of the whole stage.
        seconds_per_step: mean over the timed steps, without the first, which warms up.
        setup_seconds: time before the first step: loading, tokenizing, and one dev evaluation.
    """

    total_steps: int
    seconds_per_step: float
    setup_seconds: float


def train(
    recipe: Recipe | str | Path,
    out: str | Path,
    *,
    resume: bool = False,
    time_budget: float | None = None,
    data_dir: Path | None = None,
    checkpoint_every: float | None = None,
    on_progress: ProgressCallback | None = None,
    trackers: Sequence[str] = (),
) -> TrainResult:
    """Train a recipe into a run directory.

    Args:
        recipe: a Recipe, the name of a shipped one (`nli-sts`), or the path of a YAML file.
        out: the run directory, empty or new.
        resume: continue the run in `out`; the result is identical to an uninterrupted run. Starts one if there is none.
        time_budget: seconds for the training steps of all stages; the schedule of each stage is fitted to its share.
        data_dir: directory with the files of the data sets; by default `KOSBERT_DATA`.
        checkpoint_every: seconds between two checkpoints; by default checkpoints take at most 2% of the time.
        on_progress: called after every step and while a teacher encodes, on rank 0.
        trackers: "tensorboard", "wandb".
    """
    recipe = recipe if isinstance(recipe, Recipe) else Recipe.load(recipe)
    tracking.check(trackers)
    with process_group():
        trainer = Trainer(
            recipe, Path(out), data_dir=data_dir, checkpoint_every=checkpoint_every, on_progress=on_progress
        )
        return trainer.fit(resume=resume, time_budget=time_budget, trackers=trackers)


def time_steps(recipe: Recipe, *, data_dir: Path | None = None, steps: int = 6) -> StepTiming:
    """Measure the time per step of the first stage of a recipe; nothing is kept.

    Args:
        recipe: what would be trained.
        data_dir: directory with the files of the data sets; by default `KOSBERT_DATA`.
        steps: steps to run. The first one warms up and is not counted.
    """
    step_ends: list[float] = []
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        trainer = Trainer(recipe, Path(directory), data_dir=data_dir)
        trainer.setup()
        stage = trainer.build_stage(0)
        callbacks = Callbacks(
            evaluate=trainer.dev_score if trainer.dev else None,
            on_step_end=lambda state, point: step_ends.append(time.monotonic()),
        )
        stage.run(trainer.model, TrainerState(), callbacks, max_steps=steps)
    seconds_per_step = (step_ends[-1] - step_ends[0]) / max(1, len(step_ends) - 1)
    setup_seconds = max(0.0, step_ends[0] - started - seconds_per_step)
    return StepTiming(stage.sampler.total_steps, seconds_per_step, setup_seconds)


@dataclass(frozen=True)
class _StageSetup:
    """Everything that a stage is trained with."""

    stage: Stage
    seed: int
    arguments: TrainingArguments
    datasets: list[TrainDataset]
    losses: list[Loss]
    sampler: BatchSampler
    optimizer: torch.optim.AdamW
    scaler: torch.amp.GradScaler

    def run(self, model: SentenceTransformer, state: TrainerState, callbacks: Callbacks, **limits: Any) -> None:
        try:
            run_stage(
                model, self.datasets, self.sampler, self.arguments, state, self.optimizer, callbacks,
                seed=self.seed, scaler=self.scaler, **limits,
            )  # fmt: skip
        except KosbertError as error:
            raise type(error)(f"stage {self.stage.name}: {error}") from error


class Trainer:
    """Trains one recipe into one run directory; see `train` for the arguments."""

    def __init__(
        self,
        recipe: Recipe,
        out: Path,
        *,
        data_dir: Path | None = None,
        checkpoint_every: float | None = None,
        on_progress: ProgressCallback | None = None,
    ) -> None:
        self.recipe, self.out, self.on_progress = recipe, out, on_progress
        self.data = DataModule(recipe, data_dir, on_progress)
        self.checkpoints = Checkpoints(out / "checkpoints")
        self.writer = CheckpointWriter(self.checkpoints, checkpoint_every)
        self.dev_precision: Precision = recipe.train.precision
        self.curves: Curves = {}
        self.seconds: dict[str, float] = {}

    def fit(self, *, resume: bool, time_budget: float | None = None, trackers: Sequence[str] = ()) -> TrainResult:
        """Train all stages and write the model."""
        on_rank_zero(lambda: prepare_run_dir(self.out, self.recipe, resume=resume))
        finished = finished_run(self.out)
        if finished:
            self.checkpoints.clear()  # in case the run was killed just before it did so
            return finished
        checkpoint = self.checkpoints.newest() if resume else None
        self.setup()
        first_stage, first_step = 0, 0
        if checkpoint:
            self._check_unchanged(checkpoint)
            first_stage, first_step = checkpoint.state["stage"], checkpoint.state["first_step"]
            self.curves, self.seconds = checkpoint.state["curves"], checkpoint.state["seconds"]
            self.model.load_state_dict(_with_prefix("model.", checkpoint.weights))
        budgets = self.data.stage_budgets(time_budget)
        values = {"recipe": self.recipe.name, "seed": self.recipe.seed, "backbone": self.encoder.source}
        with (
            closing(self.writer),
            tracking.started(trackers if rank() == 0 else (), self.out, self.recipe.name, values) as self.log,
        ):
            for index in range(first_stage, len(self.recipe.stages)):
                first_step = self._train_stage(index, first_step, budgets[index], checkpoint)
                checkpoint = None
        return self._finish()

    def setup(self) -> None:
        """Read the data, load the backbone, and check that data and losses fit."""
        self.dev = self.data.scored_pairs(self.recipe.dev)
        self.encoder = self._load_backbone()
        self.origin = self._backbone_origin()  # now, because a branch on the hub can move during the training
        self.model: SentenceTransformer = self.encoder.sentence_transformer
        self._configure_backbone()
        self.data.check(self.model)

    def _configure_backbone(self) -> None:
        recipe = self.recipe
        if recipe.dropout is not None:
            set_dropout(self.model, recipe.dropout)
        if recipe.attn_implementation:
            use_attention(self.model, recipe.attn_implementation)
        if recipe.gradient_checkpointing:
            self.model[0].model.gradient_checkpointing_enable({"use_reentrant": False})
        if recipe.lora:
            torch.manual_seed(recipe.seed)
            add_lora(self.model, recipe.lora)

    def _load_backbone(self) -> TorchEncoder:
        recipe = self.recipe
        options: dict[str, Any] = {"pooling": recipe.pooling, "max_length": recipe.max_length}
        torch.manual_seed(recipe.seed)  # transformers initializes a pooler if the checkpoint has none
        if isinstance(recipe.backbone, NewBackbone):
            texts = self.data.sentences(recipe.backbone.text)
            return new_backbone(texts, **recipe.backbone.model_dump(exclude={"text"}), **options, seed=recipe.seed)
        if isinstance(recipe.backbone, FewerLayers):
            return fewer_layers(recipe.backbone.source, recipe.backbone.layers, **options)
        return load_torch(recipe.backbone, **options)

    def _backbone_origin(self) -> dict[str, str]:
        """Return what identifies the weights that training starts from; empty for a new backbone."""
        backbone = self.recipe.backbone
        if isinstance(backbone, NewBackbone):
            return {}
        return model_origin(backbone.source if isinstance(backbone, FewerLayers) else backbone)

    def _check_unchanged(self, checkpoint: Checkpoint) -> None:
        """Raise if the data or the number of processes has changed since the checkpoint."""
        if checkpoint.state["data"] != self.data.fingerprints:
            raise UsageError(f"the data of the run in {self.out} has changed: restore it, or choose another --out")
        saved = checkpoint.state["world_size"]
        if saved != world_size():
            raise UsageError(
                f"the run in {self.out} had {saved} processes and this one has {world_size()}: start {saved}"
            )

    def build_stage(self, index: int) -> _StageSetup:
        """Build datasets, losses, sampler and optimizer of a stage."""
        stage = self.recipe.stages[index]
        arguments = self.recipe.training_arguments(stage)
        seed = int(np.random.SeedSequence([self.recipe.seed, index]).generate_state(1)[0])
        torch.manual_seed(seed)  # for the layers of the losses
        datasets = self.data.train_datasets(stage, self.model)
        losses = list(dict.fromkeys(dataset.loss for dataset in datasets))  # a shared loss only once
        for loss_fn in losses:
            remove_gradient_hooks(loss_fn)  # `average_gradients` reduces all parameters
        sampler = make_sampler(self.model, datasets, arguments, seed, epochs=stage.epochs, steps=stage.steps)
        self.dev_precision = arguments.precision
        scaler = make_scaler(self.model.device, arguments)
        return _StageSetup(stage, seed, arguments, datasets, losses, sampler, make_optimizer(losses, arguments), scaler)

    def _train_stage(self, index: int, first_step: int, budget: float | None, checkpoint: Checkpoint | None) -> int:
        """Train a stage and load its best weights; return the number of steps done in all stages."""
        setup = self.build_stage(index)
        state, best_weights = TrainerState(), {}
        if checkpoint and checkpoint.optimizer:  # a checkpoint between two stages has none
            state = TrainerState(**checkpoint.state["trainer_state"])
            restore_optimizer(setup.optimizer, checkpoint.optimizer)
            setup.scaler.load_state_dict(checkpoint.state["scaler"])
            for number, loss_fn in enumerate(setup.losses):
                load_loss_state(loss_fn, _with_prefix(f"loss.{number}.", checkpoint.weights))
            best_weights = _with_prefix("best.", checkpoint.weights)

        def keep_best() -> None:
            best_weights.update({name: value.detach().clone() for name, value in self.model.state_dict().items()})

        def save_checkpoint(state: TrainerState) -> None:
            weights = self._model_weights()
            for number, loss_fn in enumerate(setup.losses):
                weights |= {f"loss.{number}.{name}": value for name, value in loss_state(loss_fn).items()}
            run_state = self._run_state(index, first_step) | {
                "trainer_state": vars(state) | {"curve": list(state.curve)},  # its points do not change any more
                "scaler": setup.scaler.state_dict(),
            }
            best = {f"best.{name}": value for name, value in best_weights.items()}
            self.writer.save(first_step + state.step, run_state, weights, optimizer_tensors(setup.optimizer), best)

        def on_step_end(state: TrainerState, point: dict[str, float]) -> None:
            step = int(point["step"])
            self.log(setup.stage.name, first_step + step, point)
            if self.on_progress and rank() == 0:
                metrics = {"loss": point["loss"]}
                if state.best_score is not None:
                    metrics["best dev"] = state.best_score
                self.on_progress(
                    ProgressEvent(setup.stage.name, step, setup.sampler.total_steps, "steps", metrics=metrics)
                )

        callbacks = Callbacks(
            evaluate=self.dev_score if self.dev else None,
            checkpoint_due=self.writer.due if rank() == 0 else None,
            save_checkpoint=save_checkpoint,
            on_new_best=keep_best,
            on_step_end=on_step_end,
        )
        setup.run(self.model, state, callbacks, time_budget=budget)
        if best_weights:
            self.model.load_state_dict(best_weights)
        self.curves[setup.stage.name], self.seconds[setup.stage.name] = state.curve, state.seconds
        first_step += setup.sampler.total_steps
        if rank() == 0:
            self.writer.wait()
            self.checkpoints.save(first_step, self._run_state(index + 1, first_step), self._model_weights(), {})
        barrier()
        return first_step

    def _run_state(self, stage: int, first_step: int) -> dict[str, Any]:
        """Return what every checkpoint records: the position, and what must be unchanged to resume."""
        position = {"stage": stage, "first_step": first_step, "curves": self.curves, "seconds": self.seconds}
        return position | {"data": self.data.fingerprints, "world_size": world_size()}

    def _model_weights(self) -> dict[str, Tensor]:
        return {f"model.{name}": value for name, value in self.model.state_dict().items()}

    def dev_score(self) -> float | None:
        """Return the mean cosine Spearman over the dev sets, as rank 0 computes it; None if it is undefined.

        GPUs encode in the format of the training; CPUs in float32, for scores that do not depend on the processor.
        """
        device = self.model.device
        dtype = training_dtype(device, self.dev_precision if device.type == "cuda" else "float32")
        with autocast(device, dtype):
            scores = [score_pairs(self.encoder, pairs)["spearman"] for pairs in self.dev.values()]
        defined = [score for score in scores if score is not None]
        mean = broadcast_from_rank0(sum(defined) / len(defined) if defined else math.nan)
        return None if math.isnan(mean) else mean

    def _finish(self) -> TrainResult:
        """Evaluate the test sets once and write the model."""
        if self.recipe.lora:
            merge_lora(self.model)
        sets: dict[str, list[ScoredPair]] = {**self.dev, **self.data.scored_pairs(self.recipe.test)}
        scores = {name: score_pairs(self.encoder, pairs) for name, pairs in sets.items()}
        card = {
            "recipe": self.recipe.model_dump(mode="json"),
            "backbone": self.origin,
            "seed": self.recipe.seed,
            "data": self.data.fingerprints,
            "scores": scores,
            "hardware": self._hardware(),
            "versions": {name: version(name) for name in ("kosbert", "torch", "transformers", "sentence-transformers")},
        }
        on_rank_zero(lambda: self._write_model(card))
        return TrainResult(self.out / "model", scores, self.curves, self.seconds)

    def _hardware(self) -> dict[str, str]:
        """Return what trained the model: the device, and the number format of each stage's forward."""
        device = self.model.device
        precisions = {self.recipe.training_arguments(stage).precision for stage in self.recipe.stages}
        dtypes = sorted({str(training_dtype(device, precision)).removeprefix("torch.") for precision in precisions})
        return {"device": device_name(device), "dtype": ", ".join(dtypes)}

    def _write_model(self, card: dict[str, Any]) -> None:
        try:
            write_text(self.out / "curves.json", json.dumps(self.curves))
            self.encoder.save(self.out / "model", card)
        except (OSError, SafetensorError) as error:
            raise KosbertError(
                f"the model could not be written to {self.out} ({error}): free some space, then run the same command "
                "with --resume"
            ) from error
        self.checkpoints.clear()


def prepare_run_dir(out: Path, recipe: Recipe, *, resume: bool) -> None:
    """Create the run directory, or check that it holds this run and may be resumed."""
    recipe_path, document = out / "recipe.json", recipe.model_dump(mode="json")
    try:
        out.mkdir(parents=True, exist_ok=True)
        partial = set(out.glob(".recipe.json-*"))  # left by a killed process
        started = any((out / name).exists() for name in ("checkpoints", "curves.json", "model"))
        if not recipe_path.is_file() or not started:
            if not recipe_path.is_file() and set(out.iterdir()) - partial:
                raise UsageError(f"{out} is not empty and not a run directory: choose another --out")
            write_text(recipe_path, json.dumps(document, ensure_ascii=False, indent=2))
            for path in partial:
                path.unlink()
            return
        saved = json.loads(recipe_path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{out} cannot be written ({error.strerror}): choose another --out") from error
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise UsageError(f"{recipe_path} is damaged: choose another --out") from None
    if not resume:
        raise UsageError(f"{out} already holds a run: add --resume to continue it, or choose another --out")
    changed = sorted(key for key in document if not isinstance(saved, dict) or saved.get(key) != document[key])
    if changed:
        raise UsageError(f"the run in {out} differs in {', '.join(changed)}: choose another --out")
    for directory in out.glob(".model-*"):  # left by a process that was killed while it wrote the model
        shutil.rmtree(directory, ignore_errors=True)
    for path in out.glob(".curves.json-*"):
        path.unlink()


def finished_run(out: Path) -> TrainResult | None:
    """Return the result of the finished run in a directory; None if it is not finished."""
    try:
        card, curves = (
            json.loads(path.read_text(encoding="utf-8"))
            for path in (out / "model" / "kosbert.json", out / "curves.json")
        )
        return TrainResult(out / "model", card["scores"], curves)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(f"the finished run in {out} cannot be read ({error}): choose another --out") from None


def _with_prefix(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
