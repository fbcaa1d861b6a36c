"""From a recipe to a model directory: the stages one after the other, and nothing lost on the way."""

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from torch import Tensor

from kosbert.data.records import ScoredPair
from kosbert.distributed import agreed, barrier, in_the_first, joined, rank, world
from kosbert.errors import KosbertError, UsageError
from kosbert.evaluation.sts import score_pairs
from kosbert.losses import load_loss_state, loss_state
from kosbert.model.compress import fewer_layers
from kosbert.model.from_scratch import new_backbone
from kosbert.model.torch_encoder import TorchEncoder
from kosbert.model.torch_loading import load_torch
from kosbert.training import run_dir, tracking
from kosbert.training.checkpoint import Checkpoint, Checkpoints, optimizer_tensors, restore_optimizer
from kosbert.training.datasets import DataModule
from kosbert.training.distillation import Reading
from kosbert.training.loop import Hooks, Progress, batches_of, optimizer_for, run_stage
from kosbert.training.recipe import FewerLayers, NewBackbone, Recipe, Stage
from kosbert.training.tracking import tracked

Report = Callable[[Stage, Progress, int, dict[str, float]], None]
Curves = dict[str, list[dict[str, float]]]


@dataclass(frozen=True)
class Trained:
    """What a run gave: where the model is, its scores, and the curves of its stages."""

    path: Path
    scores: dict[str, dict[str, float | None]]
    curves: Curves = field(repr=False)


def train(
    recipe: Recipe | str | Path,
    out: str | Path,
    *,
    resume: bool = False,
    time_budget: float | None = None,
    data_dir: Path | None = None,
    checkpoint_every: float = 300.0,
    report: Report | None = None,
    trackers: Sequence[str] = (),
    reading: Reading | None = None,
) -> Trained:
    """Train what a recipe says into `out`.

    Args:
        recipe: a Recipe, or the path of one.
        out: a folder of its own.
        resume: go on with what is in `out`, exactly as if it had never stopped; or start, if nothing is there.
        time_budget: seconds for the training steps of all stages; each stage's schedule is fitted to its share.
        data_dir: a folder with the data sets' files; by default `KOSBERT_DATA`.
        checkpoint_every: seconds between two checkpoints.
        report: called after every step with the stage, its progress, its number of steps, and the newest point.
        trackers: tensorboard, wandb: where to show the curves besides.
        reading: called while a teacher reads, with its name, the sentences that are done and all of them.
    """
    recipe = recipe if isinstance(recipe, Recipe) else Recipe.load(recipe)
    tracking.check(trackers)
    with joined():
        return _Run(recipe, Path(out), data_dir, checkpoint_every, report, reading).go(resume, time_budget, trackers)


class _Run:
    """One call of `train`: what its steps share."""

    def __init__(
        self,
        recipe: Recipe,
        out: Path,
        data_dir: Path | None,
        checkpoint_every: float,
        report: Report | None,
        reading: Reading | None,
    ) -> None:
        self.recipe, self.out, self.report = recipe, out, report
        self.library = DataModule(recipe, data_dir, reading)
        self.checkpoints = Checkpoints(out / "checkpoints")
        self.checkpoint_every, self.saved_at = checkpoint_every, time.monotonic()
        self.curves: Curves = {}

    def go(self, resume: bool, time_budget: float | None, trackers: Sequence[str]) -> Trained:
        in_the_first(lambda: run_dir.prepare(self.out, self.recipe, resume=resume))
        done = run_dir.finished(self.out)
        if done:
            self.checkpoints.clear()  # where the run was killed just before it did so
            return Trained(self.out / "model", done[0]["scores"], done[1])
        checkpoint = self.checkpoints.newest() if resume else None
        self.dev = self.library.scored_pairs(self.recipe.dev)
        self.encoder = self._backbone()
        self.library.check(self.encoder.sentence_transformer)
        start, base = 0, 0
        if checkpoint:
            self._refuse_changes(checkpoint)
            start, base, self.curves = (checkpoint.state[key] for key in ("stage", "base", "curves"))
            self.encoder.sentence_transformer.load_state_dict(_below("model.", checkpoint.weights))
        shares = self.library.time_shares(time_budget)
        values = {"recipe": self.recipe.name, "seed": self.recipe.seed, "backbone": self.encoder.source}
        with tracked(trackers if rank() == 0 else (), self.out, self.recipe.name, values) as self.log:
            for index in range(start, len(self.recipe.stages)):
                base = self._stage(index, base, shares[index], checkpoint)
                checkpoint = None
        return self._finish()

    def _backbone(self) -> TorchEncoder:
        recipe = self.recipe
        shape: dict[str, Any] = {"pooling": recipe.pooling, "max_length": recipe.max_length}
        torch.manual_seed(recipe.seed)  # transformers makes a random pooling layer where a checkpoint has none
        if isinstance(recipe.backbone, NewBackbone):
            texts = self.library.sentences(recipe.backbone.text)
            return new_backbone(texts, **recipe.backbone.model_dump(exclude={"text"}), **shape, seed=recipe.seed)
        if isinstance(recipe.backbone, FewerLayers):
            return fewer_layers(recipe.backbone.source, recipe.backbone.layers, **shape)
        return load_torch(recipe.backbone, **shape)

    def _refuse_changes(self, checkpoint: Checkpoint) -> None:
        """A resumed run must be the same run: with the same rows, shared by as many processes."""
        if checkpoint.state["data"] != self.library.fingerprints:
            raise UsageError(f"the data of the run in {self.out} has changed: put it back, or choose another --out")
        if checkpoint.state["processes"] != world():
            before = checkpoint.state["processes"]
            raise UsageError(f"the run in {self.out} had {before} processes and this one has {world()}: start {before}")

    def _stage(self, index: int, base: int, share: float | None, checkpoint: Checkpoint | None) -> int:
        """Train one stage and leave the model with its best weights; returns the number of the next checkpoint."""
        stage = self.recipe.stages[index]
        settings = self.recipe.settings(stage)
        seed = int(np.random.SeedSequence([self.recipe.seed, index]).generate_state(1)[0])
        torch.manual_seed(seed)  # for the losses' own layers
        model = self.encoder.sentence_transformer
        lessons = self.library.lessons(stage, model)
        loss_fns = list(dict.fromkeys(lesson.loss for lesson in lessons))  # a shared one is saved once
        plan = batches_of(lessons, settings, seed, epochs=stage.epochs, steps=stage.steps)
        optimizer = optimizer_for(loss_fns, settings)
        progress = Progress()
        best: dict[str, Tensor] = {}
        if checkpoint and checkpoint.optimizer:  # the one between two stages has none
            progress = Progress(**checkpoint.state["progress"])
            restore_optimizer(optimizer, checkpoint.optimizer)
            for number, loss_fn in enumerate(loss_fns):
                load_loss_state(loss_fn, _below(f"loss.{number}.", checkpoint.weights))
            best = _below("best.", checkpoint.weights)

        def keep_best() -> None:
            best.update({name: value.detach().clone() for name, value in model.state_dict().items()})

        def save(progress: Progress, optimizer: torch.optim.Optimizer) -> None:
            if rank() != 0 or time.monotonic() - self.saved_at < self.checkpoint_every:
                return
            tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
            tensors |= {f"best.{name}": value for name, value in best.items()}
            for number, loss_fn in enumerate(loss_fns):
                tensors |= {f"loss.{number}.{name}": value for name, value in loss_state(loss_fn).items()}
            state = self._state(index, base) | {"progress": asdict(progress)}
            self.checkpoints.save(base + progress.step, state, tensors, optimizer_tensors(optimizer))
            self.saved_at = time.monotonic()

        def report(progress: Progress, total: int, point: dict[str, float]) -> None:
            self.log(stage.name, base + progress.step, point)
            if self.report and rank() == 0:
                self.report(stage, progress, total, point)

        hooks = Hooks(self._dev_score if self.dev else None, save, keep_best, report)
        try:
            run_stage(model, lessons, plan, settings, progress, optimizer, hooks, seed=seed, budget=share)
        except KosbertError as error:
            raise type(error)(f"stage {stage.name}: {error}") from error
        if best:
            model.load_state_dict(best)
        self.curves[stage.name] = progress.curve
        base += plan.total
        if rank() == 0:
            tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
            self.checkpoints.save(base, self._state(index + 1, base), tensors, {})
            self.saved_at = time.monotonic()
        barrier()
        return base

    def _state(self, stage: int, base: int) -> dict[str, Any]:
        """What every checkpoint notes: where it stands, and what must not change until the run goes on."""
        known = {"data": self.library.fingerprints, "processes": world()}
        return {"stage": stage, "base": base, "curves": self.curves, **known}

    def _dev_score(self) -> float | None:
        """Mean cosine Spearman over the dev sets, as the first process finds it; None where it is undefined."""
        found = [score_pairs(self.encoder, pairs)["spearman"] for pairs in self.dev.values()]
        defined = [score for score in found if score is not None]
        score = agreed(sum(defined) / len(defined) if defined else math.nan)
        return None if math.isnan(score) else score

    def _finish(self) -> Trained:
        """Score the test sets, once, and write the model."""
        sets: dict[str, list[ScoredPair]] = {**self.dev, **self.library.scored_pairs(self.recipe.test)}
        scores = {name: score_pairs(self.encoder, pairs) for name, pairs in sets.items()}
        card = {
            "recipe": self.recipe.model_dump(mode="json"),
            "seed": self.recipe.seed,
            "data": self.library.fingerprints,
            "scores": scores,
            "versions": {name: version(name) for name in ("kosbert", "torch", "transformers", "sentence-transformers")},
        }
        in_the_first(lambda: self._write(card))
        return Trained(self.out / "model", scores, self.curves)

    def _write(self, card: dict[str, Any]) -> None:
        try:
            (self.out / "curves.json").write_text(json.dumps(self.curves), encoding="utf-8")
            self.encoder.save(self.out / "model", card)
        except (OSError, SafetensorError) as error:
            raise KosbertError(
                f"the model cannot be written to {self.out} ({error}): make room, then run the same command with "
                "--resume"
            ) from error
        self.checkpoints.clear()


def _below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
